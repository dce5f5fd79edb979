//! Idle: nothing wakes up before the next bucket opens, and after however long a pause the next
//! timer is on time.

#[path = "common/attempts.rs"]
mod attempts;
mod common;
#[path = "common/random.rs"]
mod random;

use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use attempts::succeeds_at_last;
use common::scaled;
use random::Random;
use tickless::{Batch, Builder, Engine, ManualClock, When};

const PATIENCE: Duration = Duration::from_secs(60);

const MS: Duration = Duration::from_millis(1);

const HOUR: Duration = Duration::from_secs(3600);

const GEOMETRIES: [(u32, u32); 6] = [(2, 2), (3, 3), (3, 2), (20, 20), (64, 32), (1000, 999)];

/// How often the threads of this process whose name begins with `name` gave up the CPU by
/// themselves, which a reaper does to sleep. `None`: one of them is awake.
#[cfg(target_os = "linux")]
fn sleeps_of(name: &str) -> Option<u64> {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap();
    let statuses = tasks.filter_map(|task| {
        let path = task.unwrap().path();
        // A thread of another test may end meanwhile.
        let comm = std::fs::read_to_string(path.join("comm")).ok()?;
        comm.starts_with(name).then(|| std::fs::read_to_string(path.join("status")).unwrap())
    });
    let counts: Vec<Option<u64>> = statuses
        .map(|status| {
            let field = |name| status.lines().find_map(|l| l.strip_prefix(name)).unwrap().trim();
            let is_asleep = field("State:").starts_with('S');
            is_asleep.then(|| field("voluntary_ctxt_switches:").parse().unwrap())
        })
        .collect();
    assert!(!counts.is_empty(), "the reapers are there");
    counts.into_iter().sum()
}

#[cfg(not(target_os = "linux"))]
fn sleeps_of(_name: &str) -> Option<u64> {
    Some(0)
}

/// Asserts that every reaper goes to sleep, and that none wakes up in a while.
///
/// This one does wait: what it shows is that something does *not* happen.
fn assert_nothing_stirs(engine: &Engine, name: &str) {
    let begun = Instant::now();
    // A reaper that was rung by the last timer scheduled may still be on its way back to sleep.
    let settled = loop {
        let before = (engine.stats().wake_ups, sleeps_of(name));
        thread::sleep(Duration::from_millis(20));
        if before.1.is_some() && before == (engine.stats().wake_ups, sleeps_of(name)) {
            break before;
        }
        assert!(begun.elapsed() < PATIENCE, "a reaper does not go to sleep");
    };
    thread::sleep(Duration::from_millis(300));
    assert_eq!((engine.stats().wake_ups, sleeps_of(name)), settled, "a reaper woke up");
}

/// The thread that schedules sets the time at which the reaper wakes up, and does not wake it.
#[test]
#[cfg(all(target_os = "linux", not(elsewhere)))]
fn a_timer_that_is_alone_wakes_its_reaper_once() {
    let builder = Engine::builder().shards(1).thread_name("rpr-alone");
    // Under ThreadSanitizer a task may take long enough to lose its shard, and idle threads poll.
    let builder = if cfg!(tsan) { builder.takeover(None) } else { builder };
    let engine = builder.build().unwrap();
    let (sender, receiver) = mpsc::channel();
    for ms in [5, 40, 100, 2, 70] {
        // Unless this thread is suspended until the timer is due, or the reaper in the task.
        succeeds_at_last(&format!("one wake-up for a timer of {ms} ms"), || {
            assert_nothing_stirs(&engine, "rpr-alone");
            let before = engine.stats().wake_ups;
            let sender = sender.clone();
            engine.schedule_detached(MS * ms, move || sender.send(()).unwrap()).unwrap();
            receiver.recv_timeout(PATIENCE).unwrap();
            assert_nothing_stirs(&engine, "rpr-alone");
            engine.stats().wake_ups - before == 1
        });
    }
}

/// A timer that is alone holds nobody up, so nobody has to look whether its task is stuck.
#[test]
#[cfg(all(target_os = "linux", not(tsan)))]
fn timers_that_are_alone_do_not_wake_the_watcher() {
    let builder = Engine::builder().shards(1).thread_name("rpr-lone").takeover(Some(MS * 100));
    let engine = builder.build().unwrap();
    let (sender, receiver) = mpsc::channel();
    let fire = |tasks: &[Duration]| {
        // The hand-over before is over, so nobody finds the reaper with a task.
        while sleeps_of("rpr-lone-0").is_none() {
            thread::yield_now();
        }
        let due = Instant::now() + MS * 150;
        for &takes in tasks {
            let sender = sender.clone();
            let task = move || {
                thread::sleep(takes);
                sender.send(()).unwrap();
            };
            engine.schedule_detached(due, task).unwrap();
        }
        tasks.iter().for_each(|_| receiver.recv_timeout(PATIENCE).unwrap());
    };
    // Two at once are watched. The watcher finds the reaper busy with them, then it finds the first
    // lone timer pending, then it finds that only a lone one has fired.
    for tasks in [&[MS * 10; 2][..], &[Duration::ZERO], &[Duration::ZERO]] {
        fire(tasks);
    }
    let woken = sleeps_of("rpr-lone-1");
    (0..2).for_each(|_| fire(&[Duration::ZERO]));
    assert_eq!(sleeps_of("rpr-lone-1"), woken, "the watcher woke up");
}

#[test]
fn a_million_timers_that_are_an_hour_away_wake_nobody() {
    let engine = Engine::builder().shards(2).thread_name("rpr-idle").build().unwrap();
    // Of any million timers some would be due at the opening of a bucket before long: these are
    // all at least an hour away.
    let random = &mut Random::new(1);
    // Under ThreadSanitizer more of them only take longer.
    let many = scaled(if cfg!(tsan) { 50_000 } else { 1_000_000 });
    for _ in 0..many {
        let delay = HOUR + Duration::from_millis(random.below(10_000_000));
        engine.schedule_detached(delay, || ()).unwrap();
    }
    assert_nothing_stirs(&engine, "rpr-idle");
    assert_eq!(engine.stats().fired, 0);
    assert_eq!(engine.stop().unwrap().len() as u64, many);
}

#[test]
fn an_engine_with_nothing_in_it_sleeps_whatever_its_tick() {
    for tick in [Duration::from_nanos(1), Duration::from_micros(50), HOUR] {
        let engine = Engine::builder().tick(tick).thread_name("rpr-empty").build().unwrap();
        assert_nothing_stirs(&engine, "rpr-empty");
    }
}

/// A reaper that may wait in user space waits there only shortly before a timer is due.
#[test]
fn an_engine_with_precise_timers_and_waits_in_user_space_sleeps_while_all_are_far() {
    let builder = Engine::builder().shards(1).thread_name("rpr-spin").precise(1.0);
    let engine = builder.spin_before(MS * 50).spin_share(1.0).build().unwrap();
    assert_nothing_stirs(&engine, "rpr-spin");
    for n in 0..200 {
        engine.schedule_detached(When::after(HOUR + MS * n).precise(), || ()).unwrap();
        engine.schedule_detached(HOUR + MS * n, || ()).unwrap();
    }
    assert_nothing_stirs(&engine, "rpr-spin");
    assert_eq!(engine.stop().unwrap().len(), 400);
}

#[test]
fn timers_that_never_fire_wake_nobody() {
    let engine = Engine::builder().shards(1).thread_name("rpr-never").build().unwrap();
    for _ in 0..100 {
        engine.schedule_detached(Duration::MAX, || ()).unwrap();
    }
    assert_nothing_stirs(&engine, "rpr-never");
    assert_eq!(engine.len(), 100);
}

#[test]
fn what_was_cancelled_wakes_nobody_before_its_bucket_opens() {
    let engine = Engine::builder().shards(1).thread_name("rpr-cancel").build().unwrap();
    for _ in 0..scaled(10_000) {
        assert!(engine.schedule(HOUR, || ()).unwrap().cancel());
    }
    assert_nothing_stirs(&engine, "rpr-cancel");
}

// === what is due is not kept waiting ===

#[test]
fn a_deadline_in_the_past_fires_at_once() {
    let engine = Engine::builder().shards(2).build().unwrap();
    let (sender, receiver) = mpsc::channel();
    let long_ago = Instant::now().checked_sub(Duration::from_millis(1)).unwrap();
    for deadline in [long_ago, Instant::now()] {
        let sender = sender.clone();
        let _handle = engine.schedule(deadline, move || sender.send(()).unwrap()).unwrap();
        receiver.recv_timeout(PATIENCE).unwrap();
    }
    let zero = sender.clone();
    engine.schedule_detached(Duration::ZERO, move || zero.send(()).unwrap()).unwrap();
    receiver.recv_timeout(PATIENCE).unwrap();
}

#[test]
fn an_earlier_timer_wakes_a_reaper_that_sleeps_for_a_later_one() {
    let engine = Engine::builder().shards(1).takeover(None).build().unwrap();
    engine.schedule_detached(HOUR, || ()).unwrap();
    let (sender, receiver) = mpsc::channel();
    // Unless this thread is suspended until one of them is due.
    succeeds_at_last("all are scheduled before any is due", || {
        let begun = engine.now();
        for ms in [50, 20, 5, 1] {
            let sender = sender.clone();
            let delay = Duration::from_millis(ms);
            engine.schedule_detached(delay, move || sender.send(ms).unwrap()).unwrap();
        }
        let is_in_time = engine.now() < begun + MS * 5;
        let order: Vec<_> = (0..4).map(|_| receiver.recv_timeout(PATIENCE).unwrap()).collect();
        assert!(!is_in_time || order == [1, 5, 20, 50], "{order:?}");
        is_in_time
    });
}

/// What fired, in order, and when.
type Log = Arc<Mutex<Vec<(u64, Duration)>>>;

fn manual(builder: Builder) -> (Engine<u64>, ManualClock, Log) {
    let clock = ManualClock::new();
    let log = Log::default();
    let (handler_log, handler_clock) = (log.clone(), clock.clone());
    let handler = move |batch: Batch<'_, u64>| {
        let now = handler_clock.elapsed();
        handler_log.lock().unwrap().extend(batch.map(|payload| (payload, now)));
    };
    (builder.shards(1).manual_clock(&clock).build_with_handler(handler).unwrap(), clock, log)
}

#[test]
fn what_is_past_fires_in_the_next_turn_without_any_time_going_by() {
    for (slots, reach) in GEOMETRIES {
        let (engine, clock, log) = manual(Builder::new().slots(slots).reach(reach));
        let start = engine.now();
        engine.advance(HOUR).unwrap();
        for (payload, deadline) in (0..).zip([start, start + HOUR / 2, engine.now()]) {
            drop(engine.schedule(deadline, payload).unwrap());
        }
        engine.schedule_detached(Duration::ZERO, 3).unwrap();
        assert_eq!(engine.turn(0).unwrap().fired, 4);
        assert!(log.lock().unwrap().iter().all(|&(_, at)| at == clock.elapsed()));
    }
}

#[test]
fn a_delay_too_long_to_represent_never_fires_to_the_end_of_time() {
    // 65537 divides 2^64 - 1: the last nanosecond of time begins a tick of that width.
    let ticks = [1, 65_537, 1_000_000, 3_600_000_000_000, u64::MAX].map(Duration::from_nanos);
    for tick in ticks {
        for (slots, reach) in GEOMETRIES {
            let builder = Builder::new().tick(tick).slots(slots).reach(reach);
            let (engine, clock, log) = manual(builder);
            engine.advance(Duration::from_secs(5)).unwrap();
            let never = engine.schedule(Duration::MAX, 1).unwrap();
            engine.schedule_detached(Duration::from_secs(u64::MAX), 2).unwrap();
            engine.schedule_detached(HOUR * 24, 3).unwrap();
            assert_eq!(never.deadline(), None);
            engine.advance(Duration::MAX).unwrap();
            assert_eq!(clock.elapsed(), Duration::from_nanos(u64::MAX), "the end of time");
            let turn = engine.turn(0).unwrap();
            assert_eq!((turn.fired, turn.more, turn.next), (0, false, None), "tick {tick:?}");
            let fired: Vec<_> = log.lock().unwrap().iter().map(|&(payload, _)| payload).collect();
            assert_eq!(fired, [3], "{tick:?}");
            assert!(never.cancel());
        }
    }
}

#[test]
fn after_hours_without_a_turn_short_timers_are_on_time_and_in_order() {
    for (slots, reach) in GEOMETRIES {
        for tick in [Duration::from_micros(1), Duration::from_millis(1), Duration::from_secs(7)] {
            let builder = Builder::new().tick(tick).slots(slots).reach(reach);
            let (engine, clock, log) = manual(builder);
            for pause in [HOUR * 3, HOUR * 24, Duration::from_millis(1), HOUR * 8760] {
                // No turn: the shard's clock stays behind, as it does while a reaper sleeps.
                clock.advance(pause + Duration::from_nanos(123));
                log.lock().unwrap().clear();
                let now = clock.elapsed();
                for n in [5, 1, 40, 2, 900] {
                    engine.schedule_detached(tick * n, u64::from(n)).unwrap();
                }
                engine.check().unwrap();
                engine.advance(tick * 1000).unwrap();
                let log = log.lock().unwrap();
                let order: Vec<u64> = log.iter().map(|&(payload, _)| payload).collect();
                assert_eq!(order, [1, 2, 5, 40, 900], "{slots} {reach} {tick:?}");
                for &(n, at) in log.iter() {
                    let late = at - (now + tick * n as u32);
                    assert!(late < tick, "{late:?} late with ticks of {tick:?}");
                }
            }
        }
    }
}
