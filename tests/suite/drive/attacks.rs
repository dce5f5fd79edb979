//! A task that serves an engine, among code that means harm: wakers that panic, threads that take
//! its shards over, a last clone that is dropped while it fires.

use std::future::{Future, pending};
use std::mem::ManuallyDrop;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::{Poll, RawWaker, RawWakerVTable, Waker};
use std::thread;
use std::time::{Duration, Instant};

use support::mpsc;
use support::planned::{panic_as_planned, quietly};
use support::polling::{bell, poll};
use support::threads::spawn;
use tickless::{Builder, Engine, ManualClock, State, TurnError};

const MS: Duration = Duration::from_millis(1);

const HOUR: Duration = Duration::from_secs(3600);

type Driving = Pin<Box<dyn Future<Output = Result<(), TurnError>> + Send>>;

fn engine(builder: Builder) -> (Engine, ManualClock) {
    let clock = ManualClock::new();
    (builder.manual_clock(&clock).build().unwrap(), clock)
}

/// A task whose sleeps never end by themselves: only rings wake it.
fn drive(engine: &Engine) -> Driving {
    Box::pin(engine.drive(|_| pending::<()>()))
}

/// A waker that panics once, where it is told to.
struct Breaks {
    in_clone: AtomicBool,
    in_drop: AtomicBool,
}

impl Breaks {
    const VTABLE: RawWakerVTable = RawWakerVTable::new(Breaks::clone, |_| {}, |_| {}, Breaks::drop);

    fn waker(self: &Arc<Breaks>) -> Waker {
        let data = Arc::into_raw(self.clone()).cast();
        // SAFETY: the functions of the table take their data for what this is.
        unsafe { Waker::from_raw(RawWaker::new(data, &Breaks::VTABLE)) }
    }

    fn clone(data: *const ()) -> RawWaker {
        // SAFETY: the waker that is cloned has a count of this.
        let breaks = ManuallyDrop::new(unsafe { Arc::from_raw(data.cast::<Breaks>()) });
        if breaks.in_clone.swap(false, Ordering::SeqCst) {
            panic_as_planned();
        }
        RawWaker::new(Arc::into_raw(Arc::clone(&breaks)).cast(), &Breaks::VTABLE)
    }

    fn drop(data: *const ()) {
        // SAFETY: the waker that is dropped has a count of this.
        let breaks = unsafe { Arc::from_raw(data.cast::<Breaks>()) };
        if breaks.in_drop.swap(false, Ordering::SeqCst) {
            panic_as_planned();
        }
    }
}

/// Serves `engine` by a task that ends by a panic of its waker, and then by another, which has to
/// hear of a timer.
fn the_next_task_hears_after(in_clone: bool, in_drop: bool) {
    quietly();
    let (engine, _clock) = engine(Engine::builder().shards(1));
    let (bell, waker) = bell();
    let mut broken = drive(&engine);
    let breaks = Arc::new(Breaks { in_clone: in_clone.into(), in_drop: false.into() });
    if in_drop {
        assert_eq!(poll(&mut broken, &breaks.waker()), Poll::Pending);
        breaks.in_drop.store(true, Ordering::SeqCst);
    }
    // It moves to another task, or is polled for the first time.
    let other = if in_drop { waker.clone() } else { breaks.waker() };
    catch_unwind(AssertUnwindSafe(|| poll(&mut broken, &other))).unwrap_err();
    drop(broken);
    let mut task = drive(&engine);
    assert_eq!(poll(&mut task, &waker), Poll::Pending);
    let woken = bell.woken();
    engine.schedule_detached(MS, || ()).unwrap();
    assert_eq!(bell.woken(), woken + 1, "it hears of the timer");
}

/// The cell of the waker was left as if the task were registering for ever: every task that served
/// the engine after that was deaf.
#[test]
fn a_waker_that_panics_when_it_is_cloned_harms_one_task() {
    the_next_task_hears_after(true, false);
}

/// The same by the destructor of the waker that was replaced.
#[test]
fn a_waker_that_panics_when_it_is_replaced_harms_one_task() {
    the_next_task_hears_after(false, true);
}

/// The task had the engine while it was polled, so a thread that dropped the last clone meanwhile
/// did not stop the engine: due timers were fired after that.
#[test]
fn nothing_fires_after_the_last_clone_was_dropped() {
    let (engine, clock) = engine(Engine::builder().shards(1));
    let (begin, begun) = mpsc::channel();
    let (release, released) = mpsc::channel::<()>();
    let fired = Arc::new(AtomicUsize::new(0));
    engine
        .schedule_detached(MS, move || {
            begin.send(()).unwrap();
            let _ = released.recv();
        })
        .unwrap();
    for _ in 0..10 {
        let fired = fired.clone();
        let deed = move || _ = fired.fetch_add(1, Ordering::SeqCst);
        engine.schedule_detached(2 * MS, deed).unwrap();
    }
    let mut task = drive(&engine);
    clock.advance(2 * MS);
    let serving = spawn(move || poll(&mut task, &bell().1).is_ready());
    begun.recv().unwrap();
    // The drop stops the engine before it waits for the task; a handle shows that.
    let handle = engine.schedule(HOUR, || ()).unwrap();
    let dropping = spawn(move || drop(engine));
    let ends = Instant::now() + Duration::from_secs(60);
    while handle.state() == State::Pending && !dropping.is_finished() && Instant::now() < ends {
        thread::yield_now();
    }
    drop(release);
    dropping.join().unwrap();
    serving.join().unwrap();
    assert_eq!(fired.load(Ordering::SeqCst), 0);
}

/// A poll went through a whole bucket, if nothing in it was to fire.
#[test]
fn timers_that_do_not_fire_do_not_keep_other_tasks_waiting_longer() {
    let (engine, clock) = engine(Engine::builder().shards(1));
    let mut timers: Vec<_> = (0..5_000).map(|_| engine.schedule(MS, || ()).unwrap()).collect();
    timers.iter_mut().for_each(|timer| assert!(timer.reset(HOUR).is_ok()));
    let (_bell, waker) = bell();
    let mut task = drive(&engine);
    clock.advance(MS);
    assert_eq!(poll(&mut task, &waker), Poll::Pending);
    let cascaded = engine.stats().cascaded;
    assert!((1..=1_000).contains(&cascaded), "{cascaded} at once");
}

/// A poll ran a turn of each shard before others could go on: 256 timers of each.
#[test]
fn many_shards_do_not_keep_other_tasks_waiting_longer() {
    let (engine, clock) = engine(Engine::builder().shards(4));
    for shard in 0..4 {
        engine.bind_thread(shard).unwrap();
        (0..300).for_each(|_| engine.schedule_detached(MS, || ()).unwrap());
    }
    let (_bell, waker) = bell();
    let mut task = drive(&engine);
    clock.advance(MS);
    assert_eq!(poll(&mut task, &waker), Poll::Pending);
    assert!(engine.stats().fired <= 256, "{} at once", engine.stats().fired);
}
