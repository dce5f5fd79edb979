//! Driving: engines without threads do what their caller says, when the caller says so.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use support::mpsc;
use support::patience::PATIENCE;
use support::scaled;
use support::threads::spawn;
use tickless::{Batch, BindError, Builder, Driver, Engine, Handle, ManualClock, State};
use tickless_sync::Mutex;

const MS: Duration = Duration::from_millis(1);

const SECOND: Duration = Duration::from_secs(1);

fn manual(shards: usize) -> (Engine, ManualClock) {
    let clock = ManualClock::new();
    (Engine::builder().shards(shards).manual_clock(&clock).build().unwrap(), clock)
}

#[test]
fn an_advance_fires_what_became_due_in_order_from_whichever_thread_it_came() {
    type Log = Arc<Mutex<Vec<u32>>>;
    let (engine, clock) = manual(3);
    let log = Log::default();
    for thread in 0..5_u32 {
        let (engine, log) = (engine.clone(), log.clone());
        let schedule = move || {
            for n in 0..20_u32 {
                let log = log.clone();
                let ms = n * 5 + thread + 1;
                engine.schedule_detached(MS * ms, move || log.lock().unwrap().push(ms)).unwrap();
            }
        };
        spawn(schedule).join().unwrap();
    }
    let mut fired = 0;
    for step in [1, 9, 40, 13, 36] {
        fired += engine.advance(MS * step).unwrap();
        let due = clock.elapsed().as_millis() as u32;
        assert_eq!(*log.lock().unwrap(), (1..=due).collect::<Vec<_>>());
        assert_eq!(fired as u32, due);
    }
    assert_eq!(engine.advance(MS * 1000), Ok(1));
    assert!(engine.is_empty());
}

/// Reschedules itself every second and notes the time.
fn every_second(engine: &Engine, seen: &Arc<Mutex<Vec<Instant>>>) {
    let (inner, log) = (engine.clone(), seen.clone());
    let task = move || {
        log.lock().unwrap().push(inner.now());
        every_second(&inner, &log);
    };
    engine.schedule_detached(SECOND, task).unwrap();
}

#[test]
fn a_task_that_reschedules_itself_every_second_fires_ten_times_in_ten_seconds() {
    let (engine, _clock) = manual(2);
    let start = engine.now();
    let seen = Arc::new(Mutex::new(Vec::new()));
    every_second(&engine, &seen);
    assert_eq!(engine.advance(SECOND * 10), Ok(10));
    let expected: Vec<_> = (1..=10).map(|n| start + SECOND * n).collect();
    assert_eq!(*seen.lock().unwrap(), expected, "each saw its own time");
    assert_eq!(engine.now(), start + SECOND * 10);
    assert_eq!(engine.len(), 1);
    assert_eq!(engine.stop().unwrap().len(), 1);
}

#[test]
fn an_advance_by_nothing_fires_what_is_due_already() {
    let (engine, clock) = manual(1);
    engine.schedule_detached(SECOND, || ()).unwrap();
    clock.advance(SECOND * 5);
    assert_eq!(engine.len(), 1, "a clock moves time and nothing else");
    assert_eq!(engine.advance(Duration::ZERO), Ok(1));
    assert_eq!(clock.elapsed(), SECOND * 5);
}

#[test]
fn what_a_task_schedules_for_at_once_fires_in_a_later_turn() {
    let (engine, _clock) = manual(1);
    let inner = engine.clone();
    let task = move || inner.schedule_detached(Duration::ZERO, || ()).unwrap();
    engine.schedule_detached(Duration::ZERO, task).unwrap();
    let turn = engine.turn(0).unwrap();
    assert_eq!((turn.fired, turn.more), (1, true), "a turn ends");
    let turn = engine.turn(0).unwrap();
    assert_eq!((turn.fired, turn.more, turn.next), (1, false, None));
}

// === on the system's clock ===

#[test]
fn a_turn_says_when_to_come_back_and_then_there_is_something_due() {
    let engine = Engine::builder().shards(1).driver(Driver::Caller).build().unwrap();
    let turn = engine.turn(0).unwrap();
    assert_eq!((turn.fired, turn.more, turn.next), (0, false, None));
    assert_eq!(turn.sleep(engine.now()), None);
    let before = engine.now();
    for ms in [3, 9, 40] {
        engine.schedule_detached(MS * ms, || ()).unwrap();
    }
    let after = engine.now();
    let mut fired = 0;
    while fired < 3 {
        let turn = engine.turn(0).unwrap();
        fired += turn.fired;
        let Some(next) = turn.next else { continue };
        assert!(turn.more || next <= after + MS * 41, "no later than the last deadline's tick");
        let now = Instant::now();
        let sleep = turn.sleep(now).unwrap();
        let expected = if turn.more { Duration::ZERO } else { next.saturating_duration_since(now) };
        assert_eq!(sleep, expected);
        // This is the caller's loop: it sleeps as it was told.
        thread::sleep(sleep);
    }
    assert!(Instant::now() >= before + MS * 40);
    assert_eq!(engine.turn(0).unwrap().next, None, "nothing is left");
}

#[test]
fn the_hook_is_called_when_an_earlier_timer_arrives_and_only_then() {
    let clock = ManualClock::new();
    let calls = Arc::new(Mutex::new(Vec::new()));
    let log = calls.clone();
    let hook = move |shard| log.lock().unwrap().push((shard, thread::current().id()));
    let builder = Engine::builder().shards(2).manual_clock(&clock).on_earlier(hook);
    let engine = builder.build().unwrap();
    let me = thread::current().id();
    let called = || std::mem::take(&mut *calls.lock().unwrap());

    engine.bind_thread(1).unwrap();
    engine.schedule_detached(SECOND, || ()).unwrap();
    assert_eq!(called(), [], "before its first turn a shard is awake");
    let turn = engine.turn(1).unwrap();
    let due = turn.next.unwrap();
    assert_eq!(called(), []);
    engine.schedule_detached(SECOND * 2, || ()).unwrap();
    engine.schedule_detached(SECOND, || ()).unwrap();
    let mut handle = engine.schedule(SECOND * 3, || ()).unwrap();
    assert!(handle.reset(SECOND * 4).is_ok());
    assert!(handle.cancel());
    assert_eq!(called(), [], "none of these is before the time given");

    engine.schedule_detached(MS * 10, || ()).unwrap();
    assert_eq!(called(), [(1, me)], "on the scheduling thread");
    engine.schedule_detached(MS * 5, || ()).unwrap();
    assert_eq!(called(), [(1, me)], "each is told until the shard's driver has come");
    let earlier = engine.turn(1).unwrap().next.unwrap();
    assert!(earlier < due);
    let mut handle = engine.schedule(SECOND, || ()).unwrap();
    assert_eq!(called(), []);
    assert!(handle.reset(MS).is_ok(), "a reset to before that time is an earlier timer too");
    assert_eq!(called(), [(1, me)]);
    assert_eq!(engine.turn(0).unwrap().next, None, "the other shard has nothing");
    assert_eq!(called(), []);

    engine.stop().unwrap();
    assert_eq!(called(), [(0, me), (1, me)], "the thread that sleeps is to find out");
}

#[test]
fn a_hook_may_use_the_engine_that_calls_it() {
    let clock = ManualClock::new();
    let handles = Arc::new(Mutex::new(Vec::<Handle>::new()));
    let engine = Arc::new(Mutex::new(None::<Engine>));
    let (hooks_engine, hooks_handles) = (engine.clone(), handles.clone());
    let hook = move |_| {
        // Taken out, so that the hook does nothing when what it schedules calls it again.
        let engine = hooks_engine.lock().unwrap().take();
        if let Some(engine) = engine {
            let mut handles = hooks_handles.lock().unwrap();
            for ms in 1..100 {
                handles.push(engine.schedule(MS * ms, || ()).unwrap());
            }
            assert!(handles.pop().unwrap().cancel());
            assert!(handles[0].reset(MS * 500).is_ok());
        }
    };
    let builder = Engine::builder().shards(1).manual_clock(&clock).on_earlier(hook);
    let this = builder.build().unwrap();
    this.turn(0).unwrap();
    *engine.lock().unwrap() = Some(this.clone());
    // Seats and free entries are at hand while the hook is called in the midst of this.
    let handle = this.schedule(SECOND, || ()).unwrap();
    assert_eq!(handles.lock().unwrap().len(), 98);
    assert_eq!(this.len(), 99);
    this.check().unwrap();
    assert_eq!(this.advance(SECOND), Ok(99));
    assert_eq!(handle.state(), State::Fired);
}

#[test]
fn a_thread_that_is_bound_to_a_shard_schedules_there() {
    let (engine, _clock) = manual(4);
    for shard in [2, 0, 3] {
        engine.bind_thread(shard).unwrap();
        engine.schedule_detached(SECOND, || ()).unwrap();
        let there = engine.snapshot().iter().filter(|timer| timer.shard == shard).count();
        assert_eq!(there, 1);
    }
    assert_eq!(engine.snapshot().iter().filter(|timer| timer.shard == 1).count(), 0);
}

#[test]
fn binding_to_a_shard_that_is_not_there_is_an_error() {
    let (engine, _clock) = manual(4);
    engine.bind_thread(3).unwrap();
    let error = engine.bind_thread(4).unwrap_err();
    assert_eq!(error, BindError::NoSuchShard { shard: 4, shards: 4 });
    assert_eq!(error.to_string(), "there is no shard 4: the engine has 4");
    engine.schedule_detached(SECOND, || ()).unwrap();
    assert!(engine.snapshot().iter().all(|timer| timer.shard == 3), "it stays where it was");
}

#[test]
fn shards_are_driven_by_threads_of_their_own_at_the_same_time() {
    const SHARDS: usize = 2;
    let fired = Arc::new(AtomicUsize::new(0));
    let counter = fired.clone();
    let count = move |batch: Batch<'_, u64>| {
        counter.fetch_add(batch.len(), Ordering::SeqCst);
    };
    let builder = Builder::new().shards(SHARDS).driver(Driver::Caller);
    let engine: Engine<u64> = builder.build_with_handler(count).unwrap();
    let each = scaled(5000);
    let (done, ends) = mpsc::channel();
    for shard in 0..SHARDS {
        let (engine, done) = (engine.clone(), done.clone());
        spawn(move || {
            engine.bind_thread(shard).unwrap();
            let mut fired = 0;
            for n in 0..each {
                engine.schedule_detached(Duration::from_micros(n % 5000), n).unwrap();
                if n % 64 == 0 {
                    fired += engine.turn(shard).unwrap().fired;
                }
            }
            while fired < each as usize {
                let turn = engine.turn(shard).unwrap();
                fired += turn.fired;
                thread::sleep(turn.sleep(engine.now()).unwrap_or_default());
            }
            done.send(fired).unwrap();
        });
    }
    for _ in 0..SHARDS {
        assert_eq!(ends.recv_timeout(PATIENCE), Ok(each as usize));
    }
    assert_eq!(fired.load(Ordering::SeqCst), SHARDS * each as usize);
    assert!(engine.is_empty());
}
