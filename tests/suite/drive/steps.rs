//! An engine that a task of a runtime serves. Here the runtime is this file: it polls the task by
//! hand, and its sleeps end as a clock says that is moved by hand. `live.rs` has real runtimes.

use std::collections::VecDeque;
use std::future::{Future, Ready, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Poll, Waker};
use std::thread;
use std::time::{Duration, Instant};

use support::mpsc;
use support::planned::{panic_as_planned, quietly};
use support::polling::{Bell, bell, poll};
use tickless::{Builder, Driver, Engine, ManualClock, TurnError};
use tickless_sync::Mutex;

const MS: Duration = Duration::from_millis(1);

const HOUR: Duration = Duration::from_secs(3600);

type Driving = Pin<Box<dyn Future<Output = Result<(), TurnError>> + Send>>;

/// What was fired.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u64>>>);

impl Log {
    fn task(&self, number: u64) -> impl FnOnce() + Send + 'static {
        let log = self.clone();
        move || log.0.lock().unwrap().push(number)
    }

    fn fired(&self) -> Vec<u64> {
        self.0.lock().unwrap().clone()
    }

    /// How many of its tasks exist.
    fn alive(&self) -> usize {
        Arc::strong_count(&self.0) - 1
    }
}

/// A runtime with one task.
struct Rig {
    engine: Option<Engine>,
    clock: ManualClock,
    /// The times of the sleeps that the task began, since somebody asked.
    slept: Arc<Mutex<VecDeque<Instant>>>,
    task: Driving,
    bell: Arc<Bell>,
    waker: Waker,
}

impl Rig {
    fn new(builder: Builder) -> Rig {
        let clock = ManualClock::new();
        let engine = builder.manual_clock(&clock).build().unwrap();
        let slept = Arc::new(Mutex::new(VecDeque::new()));
        let task = drive(&engine, &clock, &slept);
        let (bell, waker) = bell();
        let mut rig = Rig { engine: Some(engine), clock, slept, task, bell, waker };
        assert_eq!((rig.poll(), rig.woken(), rig.sleep()), (Poll::Pending, 0, None));
        rig
    }

    fn one_shard() -> Rig {
        Rig::new(Engine::builder().shards(1))
    }

    fn engine(&self) -> &Engine {
        self.engine.as_ref().unwrap()
    }

    fn poll(&mut self) -> Poll<Result<(), TurnError>> {
        poll(&mut self.task, &self.waker)
    }

    /// How often the task was woken.
    fn woken(&self) -> u32 {
        self.bell.woken()
    }

    /// How long the next of the sleeps that were begun is.
    fn sleep(&self) -> Option<Duration> {
        let at = self.slept.lock().unwrap().pop_front()?;
        Some(at - self.engine().now())
    }
}

/// The task of an engine. Its sleeps are noted, and end when `clock` says so.
fn drive(engine: &Engine, clock: &ManualClock, slept: &Arc<Mutex<VecDeque<Instant>>>) -> Driving {
    let (slept, clock, zero) = (slept.clone(), clock.clone(), engine.now() - clock.elapsed());
    Box::pin(engine.drive(move |at| {
        slept.lock().unwrap().push_back(at);
        let clock = clock.clone();
        poll_fn(move |_| match zero + clock.elapsed() >= at {
            true => Poll::Ready(()),
            false => Poll::Pending,
        })
    }))
}

#[test]
fn the_task_sleeps_until_something_is_due_and_fires_it() {
    let mut rig = Rig::one_shard();
    let log = Log::default();
    rig.engine().schedule_detached(5 * MS, log.task(5)).unwrap();
    assert_eq!(rig.woken(), 1, "nothing was due before");
    assert_eq!((rig.poll(), rig.sleep()), (Poll::Pending, Some(5 * MS)));
    rig.clock.advance(4 * MS);
    assert_eq!((rig.poll(), rig.sleep(), rig.engine().stats().fired), (Poll::Pending, None, 0));
    rig.clock.advance(MS);
    // The runtime's sleep is over, and wakes the task.
    assert_eq!((rig.poll(), rig.sleep()), (Poll::Pending, None));
    assert_eq!(log.fired(), [5]);
    assert_eq!(rig.woken(), 1, "no more is to be done");
}

#[test]
fn a_timer_wakes_the_task_only_if_it_is_due_before_the_others() {
    let mut rig = Rig::one_shard();
    let _far = rig.engine().schedule(HOUR, || ()).unwrap();
    assert_eq!((rig.poll(), rig.woken()), (Poll::Pending, 1));
    let first = rig.sleep().unwrap();
    assert!(first <= HOUR);
    let _later = rig.engine().schedule(2 * HOUR, || ()).unwrap();
    assert_eq!(rig.woken(), 1);
    let _sooner = rig.engine().schedule(MS, || ()).unwrap();
    assert_eq!((rig.woken(), rig.poll(), rig.sleep()), (2, Poll::Pending, Some(MS)));
    // It is polled for no reason: the sleep stays as it is.
    assert_eq!((rig.woken(), rig.poll(), rig.sleep()), (2, Poll::Pending, None));
}

#[test]
fn of_several_rings_one_wakes_the_task() {
    let mut rig = Rig::one_shard();
    let timers = (1..=100).rev().map(|ms| rig.engine().schedule(ms * MS, || ()).unwrap());
    let _timers: Vec<_> = timers.collect();
    assert_eq!((rig.woken(), rig.poll(), rig.sleep()), (1, Poll::Pending, Some(MS)));
}

#[test]
fn a_crowd_lets_other_tasks_go_on_in_between() {
    let mut rig = Rig::one_shard();
    for _ in 0..1_000 {
        rig.engine().schedule_detached(MS, || ()).unwrap();
    }
    assert_eq!(rig.poll(), Poll::Pending);
    rig.clock.advance(MS);
    let mut polls = 0;
    while rig.engine().stats().fired < 1_000 {
        let (woken, before) = (rig.woken(), rig.engine().stats().fired);
        assert_eq!(rig.poll(), Poll::Pending);
        let fired = rig.engine().stats().fired - before;
        assert!((1..=256).contains(&fired), "{fired} at once");
        polls += 1;
        assert!(rig.woken() > woken || rig.engine().stats().fired == 1_000, "it comes again");
    }
    assert!(polls >= 4);
}

#[test]
fn a_crowd_that_follows_another_lets_other_tasks_go_on_first() {
    let mut rig = Rig::one_shard();
    for crowd in 1..=2 {
        for _ in 0..200 {
            rig.engine().schedule_detached(crowd * MS, || ()).unwrap();
        }
        // The tasks of a crowd take as long as the next one is away.
        let clock = rig.clock.clone();
        rig.engine().schedule_detached(crowd * MS, move || clock.advance(MS)).unwrap();
    }
    assert_eq!(rig.poll(), Poll::Pending);
    rig.clock.advance(MS);
    let woken = rig.woken();
    assert_eq!(rig.poll(), Poll::Pending);
    assert!(rig.engine().stats().fired <= 256, "{} at once", rig.engine().stats().fired);
    assert!(rig.woken() > woken, "it comes again");
    while rig.engine().stats().fired < 402 {
        assert_eq!(rig.poll(), Poll::Pending);
    }
}

#[test]
fn the_task_serves_all_shards() {
    let mut rig = Rig::new(Engine::builder().shards(3));
    let log = Log::default();
    for shard in 0..3 {
        rig.engine().bind_thread(shard).unwrap();
        rig.engine().schedule_detached((shard as u32 + 1) * MS, log.task(shard as u64)).unwrap();
    }
    for ms in 1..=3 {
        assert_eq!(rig.poll(), Poll::Pending);
        rig.clock.advance(MS);
        assert_eq!(rig.poll(), Poll::Pending);
        assert_eq!(log.fired().len(), ms);
    }
    assert_eq!(log.fired(), [0, 1, 2]);
}

#[test]
fn the_task_ends_when_the_engine_stops() {
    let mut rig = Rig::one_shard();
    rig.engine().schedule_detached(HOUR, || ()).unwrap();
    assert_eq!(rig.poll(), Poll::Pending);
    let before = rig.woken();
    assert_eq!(rig.engine().stop().unwrap().len(), 1);
    assert!(rig.woken() > before, "it hears of that");
    assert_eq!(rig.poll(), Poll::Ready(Ok(())));
}

#[test]
fn the_task_does_not_keep_the_engine_alive() {
    let mut rig = Rig::one_shard();
    let (log, before) = (Log::default(), rig.woken());
    rig.engine().schedule_detached(HOUR, log.task(0)).unwrap();
    assert_eq!(rig.poll(), Poll::Pending);
    rig.engine = None;
    assert_eq!((log.fired().len(), log.alive()), (0, 0));
    assert!(rig.woken() > before);
    assert_eq!(rig.poll(), Poll::Ready(Ok(())));
    // A task that was never polled ends as well.
    let engine = Engine::builder().driver(Driver::Caller).build().unwrap();
    let mut task: Driving = Box::pin(engine.drive(|_| std::future::ready(())));
    drop(engine);
    assert_eq!(poll(&mut task, &rig.waker), Poll::Ready(Ok(())));
}

#[test]
fn one_task_at_a_time_serves() {
    let mut rig = Rig::one_shard();
    let mut other = drive(rig.engine(), &rig.clock, &rig.slept);
    assert_eq!(poll(&mut other, &rig.waker), Poll::Ready(Err(TurnError::Driven)));
    // A task that is dropped leaves its place, and what it has not seen.
    rig.task = drive(rig.engine(), &rig.clock, &rig.slept);
    let log = Log::default();
    rig.engine().schedule_detached(MS, log.task(0)).unwrap();
    assert_eq!(rig.woken(), 0, "nobody listens");
    rig.clock.advance(2 * MS);
    assert_eq!(rig.poll(), Poll::Pending);
    assert_eq!(log.fired(), [0]);
    // So does one whose runtime has no timers.
    let never = |_| -> Ready<()> { panic_as_planned() };
    let mut broken: Driving = Box::pin(rig.engine().drive(never));
    rig.task = Box::pin(std::future::pending());
    rig.engine().schedule_detached(MS, log.task(1)).unwrap();
    quietly();
    catch_unwind(AssertUnwindSafe(|| poll(&mut broken, &rig.waker))).unwrap_err();
    rig.task = drive(rig.engine(), &rig.clock, &rig.slept);
    assert_eq!((rig.poll(), rig.sleep()), (Poll::Pending, Some(MS)));
}

#[test]
fn an_engine_with_threads_needs_no_task() {
    let engine = Engine::new().unwrap();
    let mut task: Driving = Box::pin(engine.drive(|_| std::future::ready(())));
    assert_eq!(poll(&mut task, &bell().1), Poll::Ready(Err(TurnError::Driven)));
}

#[test]
fn a_task_of_the_engine_cannot_serve_it() {
    let clock = ManualClock::new();
    let engine = Engine::builder().shards(1).manual_clock(&clock).build().unwrap();
    let (sender, result) = mpsc::channel();
    let mut inner: Driving = Box::pin(engine.drive(|_| std::future::ready(())));
    let deed = move || sender.send(poll(&mut inner, &bell().1)).unwrap();
    engine.schedule_detached(MS, deed).unwrap();
    engine.advance(MS).unwrap();
    assert_eq!(result.recv().unwrap(), Poll::Ready(Err(TurnError::InsideTask)));
}

#[test]
fn the_callers_hook_is_called_as_well() {
    let calls = Arc::new(AtomicUsize::new(0));
    let counted = calls.clone();
    let hook = move |shard| {
        assert_eq!(shard, 0);
        counted.fetch_add(1, Ordering::SeqCst);
        panic_as_planned();
    };
    let rig = Rig::new(Engine::builder().shards(1).on_earlier(hook));
    quietly();
    rig.engine().schedule_detached(MS, || ()).unwrap();
    assert_eq!((calls.load(Ordering::SeqCst), rig.woken()), (1, 1));
}

#[test]
fn a_panic_in_what_is_due_ends_nothing() {
    let mut rig = Rig::one_shard();
    let log = Log::default();
    rig.engine().schedule_detached(MS, || panic_as_planned()).unwrap();
    rig.engine().schedule_detached(MS, log.task(0)).unwrap();
    rig.clock.advance(MS);
    quietly();
    assert_eq!(rig.poll(), Poll::Pending);
    assert_eq!((log.fired(), rig.engine().stats().panicked), (vec![0], 1));
}

/// Another file's clock may be behind: the runtime wakes the task a little early, or all the time.
#[test]
fn a_runtime_whose_sleeps_end_early_is_asked_again_later() {
    let clock = ManualClock::new();
    let engine = Engine::builder().shards(1).manual_clock(&clock).build().unwrap();
    let mut task: Driving = Box::pin(engine.drive(|_| std::future::ready(())));
    let (bell, waker) = bell();
    engine.schedule_detached(MS, || ()).unwrap();
    for polls in 1..10 {
        assert_eq!(poll(&mut task, &waker), Poll::Pending);
        assert_eq!((bell.woken(), engine.stats().fired), (polls, 0), "others go on");
    }
    clock.advance(MS);
    assert_eq!(poll(&mut task, &waker), Poll::Pending);
    assert_eq!(engine.stats().fired, 1);
}

/// What the task has done wakes it at once: a ring from its own turn is not lost.
#[test]
fn a_timer_that_is_scheduled_by_what_is_due_fires_in_time() {
    let mut rig = Rig::one_shard();
    let inside = rig.engine().clone();
    let again = move || inside.schedule_detached(MS, || ()).unwrap();
    rig.engine().schedule_detached(MS, again).unwrap();
    rig.clock.advance(MS);
    assert_eq!(rig.poll(), Poll::Pending);
    assert_eq!(rig.sleep(), Some(Duration::ZERO), "the ring was for what is due by now");
    assert_eq!(rig.sleep(), Some(MS));
    rig.clock.advance(MS);
    assert_eq!(rig.poll(), Poll::Pending);
    assert_eq!(rig.engine().stats().fired, 2);
}

/// As in a loop of mio's: events, of which each may schedule; a turn; a sleep.
#[test]
fn a_loop_that_asks_when_it_needs_its_next_turn_is_not_called_back_by_itself() {
    let calls = Arc::new(AtomicUsize::new(0));
    let counted = calls.clone();
    let hook = move |_| _ = counted.fetch_add(1, Ordering::SeqCst);
    let clock = ManualClock::new();
    let engine = Engine::builder().shards(1).manual_clock(&clock).on_earlier(hook).build().unwrap();
    let calls = || calls.swap(0, Ordering::SeqCst);
    let sleep = || engine.look_ahead(0).unwrap().sleep(engine.now());
    engine.turn(0).unwrap();
    assert_eq!(sleep(), None);
    for n in (5..30).rev() {
        // An earlier one each time.
        engine.schedule_detached(MS * n, || ()).unwrap();
        assert_eq!((calls(), sleep()), (0, Some(MS * n)));
    }
    // Others call it, as long as the loop does not know.
    thread::scope(|threads| {
        threads.spawn(|| engine.schedule_detached(MS * 3, || ()).unwrap()).join().unwrap();
    });
    assert_eq!((calls(), sleep()), (1, Some(MS * 3)));
    clock.advance(MS * 3);
    let turn = engine.look_ahead(0).unwrap();
    assert!(turn.more && turn.fired == 0, "it is due");
    assert_eq!(engine.turn(0).unwrap().fired, 1);
    // A turn says as well when the next one is needed.
    engine.schedule_detached(MS, || ()).unwrap();
    assert_eq!((calls(), sleep()), (0, Some(MS)));
    // Until another one takes a turn.
    sleep();
    thread::scope(|threads| {
        threads.spawn(|| engine.turn(0).unwrap()).join().unwrap();
    });
    calls();
    engine.schedule_detached(Duration::ZERO, || ()).unwrap();
    assert_eq!(calls(), 1);
    engine.stop().unwrap();
    assert_eq!(engine.look_ahead(0), Err(TurnError::Stopped));
    let (ours, none) = (Engine::new().unwrap(), Engine::builder().manual_clock(&clock).shards(1));
    assert_eq!(ours.look_ahead(0), Err(TurnError::Driven));
    let none = none.build().unwrap().look_ahead(1);
    assert_eq!(none, Err(TurnError::NoSuchShard { shard: 1, shards: 1 }));
}
