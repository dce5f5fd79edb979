//! Inside: tasks that use their own engine and others, and threads that end while they do.

use std::cell::RefCell;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use support::mpsc;
use support::patience::PATIENCE;
use support::scaled;
use support::threads::spawn;
use tickless::{Batch, Builder, Engine, Handle, ManualClock, ResetError, State, TurnError};
use tickless_sync::Mutex;

const HOUR: Duration = Duration::from_secs(3600);

const MS: Duration = Duration::from_millis(1);

fn manual(shards: usize) -> (Engine, ManualClock) {
    let clock = ManualClock::new();
    (Engine::builder().shards(shards).manual_clock(&clock).build().unwrap(), clock)
}

// === a task and its own engine ===

#[test]
fn a_task_schedules_on_the_engine_that_runs_it() {
    let engine = Engine::builder().shards(2).build().unwrap();
    let (sender, receiver) = mpsc::channel();
    fn chain(engine: &Engine, sender: mpsc::Sender<u64>, left: u64) {
        let inner = engine.clone();
        let task = move || match left {
            0 => sender.send(0).unwrap(),
            _ => chain(&inner, sender, left - 1),
        };
        engine.schedule_detached(Duration::from_micros(100), task).unwrap();
    }
    chain(&engine, sender, scaled(50));
    assert_eq!(receiver.recv_timeout(PATIENCE), Ok(0));
    assert_eq!(engine.stats().fired, scaled(50) + 1);
}

#[test]
fn a_task_schedules_on_whichever_shard_its_thread_is_bound_to() {
    let (engine, _clock) = manual(3);
    engine.bind_thread(0).unwrap();
    let inner = engine.clone();
    let task = move || {
        for shard in 0..3 {
            inner.bind_thread(shard).unwrap();
            inner.schedule_detached(HOUR, || ()).unwrap();
        }
    };
    engine.schedule_detached(MS, task).unwrap();
    assert_eq!(engine.advance(MS), Ok(1));
    let mut shards: Vec<_> = engine.snapshot().iter().map(|timer| timer.shard).collect();
    shards.sort_unstable();
    assert_eq!(shards, [0, 1, 2]);
    assert_eq!(engine.advance(HOUR), Ok(3));
}

#[test]
fn a_task_cancels_and_resets_other_timers() {
    let (engine, _clock) = manual(1);
    let cancelled = engine.schedule(MS * 20, || panic!("cancelled")).unwrap();
    let dropped = engine.schedule(MS * 20, || ()).unwrap();
    let mut sooner = engine.schedule(HOUR, || ()).unwrap();
    let mut later = engine.schedule(MS * 20, || ()).unwrap();
    let (sender, receiver) = mpsc::channel();
    let task = move || {
        assert!(cancelled.cancel());
        drop(dropped);
        assert!(sooner.reset(MS * 5).is_ok());
        assert!(later.reset(HOUR).is_ok());
        sender.send((sooner, later)).unwrap();
    };
    engine.schedule_detached(MS * 10, task).unwrap();
    assert_eq!(engine.advance(MS * 10), Ok(1));
    let (sooner, later) = receiver.try_recv().unwrap();
    assert_eq!(engine.advance(MS * 5), Ok(1));
    assert_eq!([sooner.state(), later.state()], [State::Fired, State::Pending]);
    assert_eq!(engine.advance(MS * 5), Ok(1), "the one whose handle was dropped");
    assert_eq!(engine.advance(HOUR), Ok(1));
    assert_eq!(engine.stats().panicked, 0);
}

#[test]
fn a_task_finds_the_other_timers_of_its_batch_fired() {
    let (engine, _clock) = manual(1);
    let outcomes = Arc::new(Mutex::new(Vec::new()));
    let others = Arc::new(Mutex::new(Vec::<Handle>::new()));
    for _ in 0..2 {
        let (others, outcomes) = (others.clone(), outcomes.clone());
        let handles = others.clone();
        let task = move || {
            let handles: Vec<_> = handles.lock().unwrap().drain(..).collect();
            outcomes.lock().unwrap().extend(handles.into_iter().map(Handle::cancel));
        };
        others.lock().unwrap().push(engine.schedule(MS, task).unwrap());
    }
    assert_eq!(engine.advance(MS), Ok(2), "what was handed over runs");
    assert_eq!(*outcomes.lock().unwrap(), [false, false]);
}

#[test]
fn a_task_cannot_run_turns_of_its_own_engine() {
    let (engine, _clock) = manual(2);
    let inner = engine.clone();
    let outcomes = Arc::new(OnceLock::new());
    let seen = outcomes.clone();
    let task = move || {
        let turns = [inner.turn(0), inner.turn(1), inner.turn_at_most(0, 1)];
        let turns = turns.map(|turn| turn.map(|_| 0));
        seen.set((turns, inner.advance(MS))).unwrap();
    };
    engine.schedule_detached(MS, task).unwrap();
    assert_eq!(engine.advance(MS), Ok(1));
    let refused = Err(TurnError::InsideTask);
    assert_eq!(outcomes.get(), Some(&([refused; 3], refused)));
    assert!(engine.turn(0).is_ok(), "we are outside again");
}

#[test]
fn a_task_may_look_at_its_engine() {
    let (engine, _clock) = manual(2);
    engine.schedule_detached(HOUR, || ()).unwrap();
    let inner = engine.clone();
    let seen = Arc::new(OnceLock::new());
    let look = seen.clone();
    let task = move || {
        let looks = (inner.len(), inner.snapshot().len(), inner.stats().fired, inner.now());
        look.set(looks).unwrap();
    };
    engine.schedule_detached(MS, task).unwrap();
    assert_eq!(engine.advance(MS), Ok(1));
    assert_eq!(seen.get(), Some(&(1, 1, 1, engine.now())));
}

// === several engines ===

#[test]
fn two_engines_of_different_payloads_alternate_on_one_thread() {
    let clock = ManualClock::new();
    let closures = Engine::builder().shards(1).manual_clock(&clock).build().unwrap();
    let drop_all = |batch: Batch<'_, u64>| batch.for_each(drop);
    let numbers: Engine<u64> =
        Builder::new().shards(1).manual_clock(&clock).build_with_handler(drop_all).unwrap();
    let ran = Arc::new(AtomicUsize::new(0));
    for n in 0..scaled(1000) as u32 {
        let counter = ran.clone();
        let task = move || {
            counter.fetch_add(1, Ordering::SeqCst);
        };
        let a = closures.schedule(MS * (n % 7 + 1), task).unwrap();
        let b = numbers.schedule(MS * (n % 5 + 1), u64::from(n)).unwrap();
        if n % 2 == 0 {
            assert!(a.cancel());
            assert_eq!(b.take(), Some(u64::from(n)));
        }
    }
    let half = scaled(500) as usize;
    assert_eq!((closures.len(), numbers.len()), (half, half));
    assert_eq!((closures.advance(MS * 7), numbers.advance(Duration::ZERO)), (Ok(half), Ok(half)));
    assert_eq!(ran.load(Ordering::SeqCst), half);
    closures.check().unwrap();
    numbers.check().unwrap();
}

#[test]
fn a_task_may_use_drive_stop_and_drop_other_engines() {
    let (outer, _outer_clock) = manual(1);
    let (inner, _inner_clock) = manual(1);
    let ran = Arc::new(AtomicUsize::new(0));
    let (counter, again) = (ran.clone(), outer.clone());
    let task = move || {
        let count = counter.clone();
        let innermost = move || {
            count.fetch_add(1, Ordering::SeqCst);
            assert_eq!(again.advance(MS), Err(TurnError::InsideTask), "two turns further in");
            again.schedule_detached(MS, || ()).unwrap();
        };
        inner.schedule_detached(MS, innermost).unwrap();
        inner.schedule_detached(HOUR, || ()).unwrap();
        assert_eq!(inner.advance(MS), Ok(1));
        assert_eq!(inner.stop().unwrap().len(), 1);
        drop(inner);
        let third = Engine::builder().shards(1).build().unwrap();
        third.schedule_detached(HOUR, || ()).unwrap();
        drop(third);
        counter.fetch_add(1, Ordering::SeqCst);
    };
    outer.schedule_detached(MS, task).unwrap();
    assert_eq!(outer.advance(MS), Ok(1));
    assert_eq!(outer.stats().panicked, 0);
    assert_eq!(ran.load(Ordering::SeqCst), 2);
    assert_eq!(outer.advance(MS), Ok(1));
}

#[test]
fn many_engines_come_and_go_in_one_process() {
    let survivor = Engine::builder().shards(1).build().unwrap();
    let (sender, receiver) = mpsc::channel();
    let mut handles = Vec::new();
    for n in 0..scaled(200) {
        let engine = Engine::builder().shards(1 + n as usize % 3).build().unwrap();
        let sender = sender.clone();
        engine.schedule_detached(Duration::ZERO, move || sender.send(n).unwrap()).unwrap();
        handles.push(engine.schedule(HOUR, || ()).unwrap());
        assert_eq!(receiver.recv_timeout(PATIENCE), Ok(n));
        handles.push(survivor.schedule(HOUR, || ()).unwrap());
    }
    let states: Vec<_> = handles.iter().map(Handle::state).collect();
    let stopped = states.iter().filter(|&&state| state == State::Stopped).count();
    assert_eq!(stopped as u64, scaled(200));
    assert_eq!(survivor.len() as u64, scaled(200));
    let cancelled = handles.into_iter().map(Handle::cancel);
    assert_eq!(cancelled.filter(|&cancelled| cancelled).count() as u64, scaled(200));
    assert!(survivor.is_empty());
}

// === threads that end ===

#[test]
fn threads_that_end_with_full_caches_leave_them_to_others() {
    let (engine, _clock) = manual(1);
    let threads = scaled(50);
    for _ in 0..threads {
        let engine = engine.clone();
        let user = move || {
            let schedule = |_| engine.schedule(HOUR, || ()).unwrap();
            let handles: Vec<_> = (0..100).map(schedule).collect();
            assert!(handles.into_iter().all(Handle::cancel));
        };
        spawn(user).join().unwrap();
    }
    engine.check().unwrap();
    let stats = engine.stats();
    assert_eq!((stats.scheduled, stats.cancelled), (100 * threads, 100 * threads));
    // All but the first thread's timers find the seats that the one before left in the depot:
    // 16 magazines of 32 seats are more than a thread needs.
    assert!(stats.seated >= 60 * (threads - 1), "{stats:?}");
    assert!(stats.dead < 1000, "{stats:?}");
    engine.advance(HOUR * 2).unwrap();
    assert_eq!(engine.stats().dead, 0);
}

/// Uses an engine while its thread ends.
struct LastWish {
    engine: Engine,
    handles: Vec<Handle>,
    sender: mpsc::Sender<Option<usize>>,
}

impl Drop for LastWish {
    fn drop(&mut self) {
        let mut rest = self.handles.split_off(2);
        self.handles.pop().unwrap().cancel();
        let moved = self.handles.pop().unwrap().reset(MS);
        assert_ne!(moved, Err(ResetError::Stopped));
        assert_ne!(rest[0].reset(HOUR * 2), Err(ResetError::Stopped));
        let sender = self.sender.clone();
        self.engine.schedule_detached(MS, move || sender.send(None).unwrap()).unwrap();
        let sender = self.sender.clone();
        drop(self.engine.schedule(HOUR, || ()).unwrap());
        drop(rest);
        sender.send(Some(self.engine.len())).unwrap();
    }
}

thread_local! {
    static FIRST: RefCell<Option<LastWish>> = const { RefCell::new(None) };
    static LAST: RefCell<Option<LastWish>> = const { RefCell::new(None) };
}

#[test]
fn a_thread_may_use_the_engine_to_its_very_end() {
    let (engine, _clock) = manual(1);
    let (sender, receiver) = mpsc::channel();
    let inner = engine.clone();
    let user = move || {
        let wish = || {
            let handles = (0..4).map(|_| inner.schedule(HOUR, || ()).unwrap()).collect();
            Some(LastWish { engine: inner.clone(), handles, sender: sender.clone() })
        };
        // One destructor is registered before the engine's own, one after: whichever way the
        // platform goes, one of them runs when the engine's part of the thread is gone.
        FIRST.with(|_| ());
        let first = wish();
        FIRST.set(first);
        LAST.set(wish());
    };
    spawn(user).join().unwrap();
    let lengths: Vec<_> = receiver.try_iter().collect();
    // Of each four one was cancelled, and two were added.
    assert_eq!(lengths, [Some(9), Some(10)]);
    engine.check().unwrap();
    assert_eq!(engine.advance(MS), Ok(4), "one each that was reset, one each that is new");
    assert_eq!(receiver.try_iter().collect::<Vec<_>>(), [None, None]);
    assert_eq!(engine.advance(HOUR * 3), Ok(6));
    assert_eq!(engine.stats().dead, 0);
}

#[test]
fn a_thread_may_drive_an_engine_while_it_ends() {
    struct Drive(Engine, mpsc::Sender<Result<usize, TurnError>>);
    impl Drop for Drive {
        fn drop(&mut self) {
            self.1.send(self.0.advance(MS)).unwrap();
        }
    }
    thread_local! {
        static BEFORE: RefCell<Option<Drive>> = const { RefCell::new(None) };
        static AFTER: RefCell<Option<Drive>> = const { RefCell::new(None) };
    }
    let (engine, _clock) = manual(1);
    let (sender, receiver) = mpsc::channel();
    let inner = engine.clone();
    let user = move || {
        BEFORE.set(Some(Drive(inner.clone(), sender.clone())));
        inner.schedule_detached(MS, || ()).unwrap();
        assert_eq!(inner.advance(Duration::ZERO), Ok(0));
        AFTER.set(Some(Drive(inner.clone(), sender)));
        inner.schedule_detached(MS * 2, || ()).unwrap();
    };
    spawn(user).join().unwrap();
    assert_eq!(receiver.try_iter().collect::<Vec<_>>(), [Ok(1), Ok(1)]);
}
