//! Hooks: what the hook of `on_earlier` may do to engines, and what holds when it returns.
//!
//! A hook runs when nothing of the thread's is lent: binding, scheduling, cancelling and moving
//! work in it as they do elsewhere.

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use support::mpsc;
use support::patience::PATIENCE;
use support::planned::{panic_as_planned, quietly};
use support::scaled;
use support::threads::spawn;
use support::until::wait_until;
use tickless::{Driver, Engine, Handle, ManualClock, State, Task};
use tickless_sync::Mutex;

const MS: Duration = Duration::from_millis(1);

const SECOND: Duration = Duration::from_secs(1);

const HOUR: Duration = Duration::from_secs(3600);

/// What a hook does, given its engine.
type Deed = Box<dyn Fn(&Engine, usize) + Send + Sync>;

/// An engine by hand whose shards sleep, and whose hook does `deed`.
struct Rig {
    engine: Engine,
    place: Arc<OnceLock<Engine>>,
    calls: Arc<AtomicUsize>,
}

impl Rig {
    fn new(shards: usize, deed: impl Fn(&Engine, usize) + Send + Sync + 'static) -> Rig {
        Rig::boxed(shards, Box::new(deed))
    }

    fn boxed(shards: usize, deed: Deed) -> Rig {
        let place = Arc::new(OnceLock::<Engine>::new());
        let calls = Arc::new(AtomicUsize::new(0));
        let (inside, counted) = (place.clone(), calls.clone());
        let hook = move |shard| {
            if let Some(engine) = inside.get() {
                counted.fetch_add(1, Ordering::SeqCst);
                deed(engine, shard);
            }
        };
        let builder = Engine::builder().shards(shards).manual_clock(&ManualClock::new());
        let engine = builder.on_earlier(hook).build().unwrap();
        for shard in 0..shards {
            engine.turn(shard).unwrap();
        }
        assert!(place.set(engine.clone()).is_ok());
        Rig { engine, place, calls }
    }

    /// How often the hook was called since this was last asked.
    fn calls(&self) -> usize {
        self.calls.swap(0, Ordering::SeqCst)
    }

    fn shards(&self) -> Vec<usize> {
        let mut shards: Vec<_> = self.engine.snapshot().iter().map(|timer| timer.shard).collect();
        shards.sort_unstable();
        shards
    }
}

impl Drop for Rig {
    fn drop(&mut self) {
        // The hook keeps the engine, and the engine the hook.
        if let Some(engine) = Arc::get_mut(&mut self.place).and_then(OnceLock::take) {
            drop(engine);
        }
    }
}

/// Runs `f` in the first call only.
fn once(f: impl FnOnce(&Engine) + Send + 'static) -> impl Fn(&Engine, usize) + Send + Sync {
    let f = Mutex::new(Some(f));
    move |engine: &Engine, _| {
        let f = f.lock().unwrap().take();
        if let Some(f) = f {
            f(engine);
        }
    }
}

// === binding ===

#[test]
fn a_thread_that_is_bound_inside_a_hook_stays_bound() {
    let rig = Rig::new(3, once(|engine| engine.bind_thread(2).unwrap()));
    rig.engine.bind_thread(0).unwrap();
    rig.engine.schedule_detached(HOUR, || ()).unwrap();
    assert_eq!(rig.calls(), 1);
    (0..5).for_each(|_| rig.engine.schedule_detached(HOUR * 2, || ()).unwrap());
    assert_eq!(rig.shards(), [0, 2, 2, 2, 2, 2]);
}

#[test]
fn a_bound_thread_schedules_on_its_shard_inside_a_hook_as_well() {
    let schedule =
        |engine: &Engine| (0..20).for_each(|_| engine.schedule_detached(HOUR, || ()).unwrap());
    let rig = Rig::new(4, once(schedule));
    rig.engine.bind_thread(3).unwrap();
    rig.engine.schedule_detached(MS, || ()).unwrap();
    assert_eq!(rig.shards(), [3; 21]);
}

// === what a hook does to its engine ===

#[test]
fn seats_that_a_hook_takes_and_leaves_are_those_of_its_thread() {
    let handles = Arc::new(Mutex::new(Vec::<Handle>::new()));
    let kept = handles.clone();
    let use_engine = move |engine: &Engine, _| {
        let taken = std::mem::take(&mut *kept.lock().unwrap());
        assert!(taken.into_iter().all(Handle::cancel));
        let mut handles: Vec<_> =
            (1..9).map(|n| engine.schedule(HOUR * n, || ()).unwrap()).collect();
        assert!(handles[3].reset(HOUR * 50).is_ok());
        assert!(handles.pop().unwrap().cancel());
        handles.truncate(5);
        kept.lock().unwrap().extend(handles);
    };
    let rig = Rig::new(1, use_engine);
    for n in 0..30 {
        // Each is due before all others.
        let timer = rig.engine.schedule(MS * (1000 - 32 * n), || ()).unwrap();
        if n % 3 == 0 {
            assert!(timer.cancel());
        }
    }
    rig.engine.check().unwrap();
    // Each call gets the seats of the last.
    assert_eq!(rig.calls(), 30);
    assert!(rig.engine.stats().seated > 150, "{:?}", rig.engine.stats());
    rig.engine.stop().unwrap();
}

#[test]
fn a_hook_that_schedules_is_not_called_for_that_without_end() {
    for shards in [1, 2] {
        let earlier = Arc::new(AtomicUsize::new(1000));
        let next = earlier.clone();
        let schedule = move |engine: &Engine, _| {
            // Each is due before all others.
            let ms = next.fetch_sub(1, Ordering::SeqCst) as u32;
            assert!(ms > 900, "called without end");
            engine.schedule_detached(MS * ms, || ()).unwrap();
        };
        let rig = Rig::new(shards, schedule);
        rig.engine.schedule_detached(HOUR, || ()).unwrap();
        assert_eq!((rig.calls(), rig.engine.len()), (1, 2));
        rig.engine.schedule_detached(HOUR / 2, || ()).unwrap();
        assert_eq!((rig.calls(), rig.engine.len()), (1, 4), "nobody has come yet");
        assert_eq!(rig.engine.advance(HOUR), Ok(4));
    }
}

#[test]
fn what_a_hook_schedules_after_the_shard_was_turned_is_told() {
    let turns = Arc::new(AtomicUsize::new(3));
    let left = turns.clone();
    let schedule = move |engine: &Engine, shard| {
        // The thread that sleeps is woken, turns, and goes to sleep again; then this thread goes
        // on.
        let engine_there = engine.clone();
        spawn(move || engine_there.turn(shard).unwrap()).join().unwrap();
        if left.load(Ordering::SeqCst) > 0 {
            let left = left.fetch_sub(1, Ordering::SeqCst) as u32;
            engine.schedule_detached(MS * left, || ()).unwrap();
        }
    };
    let rig = Rig::new(1, schedule);
    rig.engine.schedule_detached(HOUR, || ()).unwrap();
    assert_eq!(turns.load(Ordering::SeqCst), 0);
    assert_eq!(rig.calls(), 4, "once for each that came after a turn");
}

#[test]
fn hooks_of_two_engines_that_schedule_on_each_other_come_to_an_end() {
    let other = Arc::new(OnceLock::<Engine>::new());
    let there = other.clone();
    let first = Rig::new(1, move |_, _| {
        if let Some(other) = there.get() {
            other.schedule_detached(MS, || ()).unwrap();
        }
    });
    let back = first.engine.clone();
    let second = Rig::new(1, move |_, _| back.schedule_detached(MS, || ()).unwrap());
    assert!(other.set(second.engine.clone()).is_ok());
    first.engine.schedule_detached(SECOND, || ()).unwrap();
    assert_eq!((first.calls(), second.calls()), (1, 1));
    assert_eq!((first.engine.len(), second.engine.len()), (2, 1));
    first.engine.stop().unwrap();
    second.engine.stop().unwrap();
}

#[test]
fn a_hook_that_panics_with_something_that_panics_when_dropped_changes_nothing() {
    struct Bomb;
    impl Drop for Bomb {
        fn drop(&mut self) {
            panic_as_planned();
        }
    }
    quietly();
    let rig = Rig::new(2, |_, _| std::panic::panic_any(Bomb));
    // Each is due before all others.
    let mut handles: Vec<_> =
        (1..20).map(|n| rig.engine.schedule(MS * (1000 - 50 * n), || ()).unwrap()).collect();
    assert_eq!(rig.calls(), 19);
    assert!(handles[0].reset(MS).is_ok());
    assert_eq!(rig.calls(), 1);
    rig.engine.check().unwrap();
    assert_eq!(rig.engine.advance(HOUR), Ok(19));
    assert!(handles.iter().all(|handle| handle.state() == State::Fired));
}

#[test]
fn a_hook_may_stop_the_engine_whose_timer_is_on_its_way_to_an_earlier_time() {
    let returned = Arc::new(Mutex::new(Vec::<Task>::new()));
    let (by_hook, armed) = (returned.clone(), Arc::new(OnceLock::<()>::new()));
    let is_armed = armed.clone();
    let stop = move |engine: &Engine, _| {
        if is_armed.get().is_some() {
            by_hook.lock().unwrap().extend(engine.stop().unwrap());
        }
    };
    let rig = Rig::new(1, stop);
    let mut handle = rig.engine.schedule(HOUR, || ()).unwrap();
    armed.set(()).unwrap();
    assert!(handle.reset(MS).is_ok(), "it was moved, and then returned");
    assert_eq!(handle.state(), State::Stopped);
    assert_eq!(returned.lock().unwrap().len(), 1);
    assert!(rig.engine.schedule(HOUR, || ()).unwrap_err().is_stopped());
}

#[test]
fn a_hook_may_drop_what_its_handles_engine_is_kept_by() {
    let place = Arc::new(Mutex::new(None::<Engine>));
    let inside = place.clone();
    let hook = move |_| {
        let engine = inside.lock().unwrap().take();
        drop(engine);
    };
    let builder = Engine::builder().shards(1).manual_clock(&ManualClock::new());
    let engine = builder.on_earlier(hook).build().unwrap();
    engine.turn(0).unwrap();
    let mut handle = engine.schedule(HOUR, || ()).unwrap();
    engine.turn(0).unwrap();
    *place.lock().unwrap() = Some(engine);
    // From here on the hook has the only one, and this thread uses others in between.
    let other = Engine::builder().manual_clock(&ManualClock::new()).build().unwrap();
    other.schedule_detached(HOUR, || ()).unwrap();
    assert!(handle.reset(MS).is_ok());
    assert_eq!(handle.state(), State::Stopped);
    assert!(!handle.cancel());
}

#[test]
fn a_hook_that_is_called_for_a_sweep_finds_nothing_lent() {
    let many = scaled(20_000).max(20_000);
    let bound = Arc::new(AtomicUsize::new(0));
    let inside = bound.clone();
    let rig = Rig::new(2, move |engine, shard| {
        // What is bound here is bound: the next timers show it.
        engine.bind_thread(1).unwrap();
        inside.fetch_add(1 + shard, Ordering::SeqCst);
    });
    rig.engine.bind_thread(0).unwrap();
    let handles: Vec<_> = (0..many).map(|_| rig.engine.schedule(HOUR, || ()).unwrap()).collect();
    rig.engine.bind_thread(0).unwrap();
    let (_, calls) = (rig.engine.turn(0).unwrap(), rig.calls());
    assert!(calls > 0);
    rig.engine.bind_thread(0).unwrap();
    assert!(handles.into_iter().all(Handle::cancel));
    assert!(rig.calls() > 0, "many thousand dead are to be swept");
    rig.engine.schedule_detached(HOUR, || ()).unwrap();
    assert_eq!(rig.shards(), [1]);
    assert!(bound.load(Ordering::SeqCst) > 0);
}

#[test]
fn a_hook_is_called_from_a_task_of_its_own_engine() {
    let rig = Rig::new(2, once(|engine| engine.bind_thread(1).unwrap()));
    rig.engine.bind_thread(0).unwrap();
    let inner = rig.engine.clone();
    let task = move || {
        // On the other shard, which sleeps.
        inner.bind_thread(1).unwrap();
        inner.schedule_detached(HOUR, || ()).unwrap();
    };
    rig.place.get().unwrap();
    rig.engine.schedule_detached(MS, task).unwrap();
    rig.engine.turn(0).unwrap();
    rig.calls();
    assert_eq!(rig.engine.advance(MS), Ok(1));
    assert_eq!(rig.shards(), [1]);
}

#[test]
fn every_timer_is_heard_while_hooks_schedule_and_threads_turn() {
    let (woken, wakes) = mpsc::channel::<usize>();
    let fired = Arc::new(AtomicUsize::new(0));
    let (count, woken) = (fired.clone(), Mutex::new(woken));
    thread_local! {
        static DEPTH: Cell<usize> = const { Cell::new(0) };
    }
    let place = Arc::new(OnceLock::<Engine>::new());
    let inside = place.clone();
    let hook = move |shard| {
        // First it wakes and then it schedules: the wrong way round.
        let _ = woken.lock().unwrap().send(shard);
        DEPTH.set(DEPTH.get() + 1);
        assert_eq!(DEPTH.get(), 1, "a hook inside of itself");
        if let Some(engine) = inside.get() {
            let count = count.clone();
            let count = move || _ = count.fetch_add(1, Ordering::SeqCst);
            engine.schedule_detached(MS / 2, count).unwrap();
        }
        DEPTH.set(DEPTH.get() - 1);
    };
    let builder = Engine::builder().tick(MS / 10).shards(1).driver(Driver::Caller);
    let engine = builder.on_earlier(hook).build().unwrap();
    assert!(place.set(engine.clone()).is_ok());
    let sleeps = Arc::new(AtomicBool::new(false));
    let driver = {
        let (engine, sleeps) = (engine.clone(), sleeps.clone());
        spawn(move || {
            while let Ok(turn) = engine.turn(0) {
                let sleep = turn.sleep(engine.now()).unwrap_or(2 * PATIENCE);
                sleeps.store(sleep > PATIENCE, Ordering::SeqCst);
                let _ = wakes.recv_timeout(sleep);
                sleeps.store(false, Ordering::SeqCst);
            }
        })
    };
    let mut round = 0;
    // And until the hook was called once while the driver slept, and what it scheduled has fired.
    // (A turn that an earlier ring asked for may find the timer first, but then no ring is added.)
    while round < scaled(300) || fired.load(Ordering::SeqCst) == 0 {
        if round >= scaled(300) {
            wait_until("the driver sleeps", || sleeps.load(Ordering::SeqCst));
        }
        let (sender, receiver) = mpsc::channel();
        let task = move || sender.send(()).unwrap();
        engine.schedule_detached(MS, task).unwrap();
        receiver.recv_timeout(PATIENCE).expect("a timer was not heard");
        round += 1;
    }
    engine.stop().unwrap();
    driver.join().unwrap();
}
