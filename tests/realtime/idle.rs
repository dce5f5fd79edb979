//! Idle, in real time: nothing wakes up before the next bucket opens. (`tests/suite/engine/idle.rs`
//! has what is due after a long pause.)

use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use tickless::Engine;

use support::patience::PATIENCE;
use support::random::Random;
use support::scaled;

const MS: Duration = Duration::from_millis(1);

const HOUR: Duration = Duration::from_secs(3600);

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

/// Whatever else is pending: the reaper sets the watcher's alarm for each task, and takes it back.
/// (If the system holds the reaper up for as long as a task may take, the watcher looks, and is
/// right to; it may even take over.)
#[test]
#[cfg(all(target_os = "linux", not(any(tsan, elsewhere))))]
fn quick_tasks_on_an_idle_engine_do_not_wake_the_watcher() {
    let builder = Engine::builder().shards(1).thread_name("rpr-lone").takeover(Some(MS * 100));
    let engine = builder.build().unwrap();
    let (sender, receiver) = mpsc::channel();
    let _far = engine.schedule(HOUR, || ()).unwrap();
    let fire = |tasks: &[Duration]| {
        // The hand-over before is over, so nobody finds the reaper with a task.
        while sleeps_of("rpr-lone").is_none() {
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
    // The first makes the watcher, which looks until it finds that nothing was handed over.
    for tasks in [&[MS * 10; 2][..], &[Duration::ZERO], &[Duration::ZERO], &[Duration::ZERO]] {
        fire(tasks);
    }
    let one_sleeps_on = || {
        let sleeps = || ["rpr-lone-0", "rpr-lone-1"].map(sleeps_of);
        let before = sleeps();
        (0..2).for_each(|_| fire(&[Duration::ZERO]));
        before.into_iter().zip(sleeps()).any(|(before, after)| before.is_some() && before == after)
    };
    assert!((0..10).any(|_| one_sleeps_on()), "the watcher wakes up for each task");
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
fn an_engine_that_waits_in_user_space_sleeps_while_all_are_far() {
    let builder = Engine::builder().shards(1).thread_name("rpr-spin");
    let spinning = builder.clone().spin_before(MS * 50).spin_share(1.0);
    for builder in [builder.precise(1.0), spinning] {
        let engine = builder.build().unwrap();
        assert_nothing_stirs(&engine, "rpr-spin");
        for n in 0..200 {
            engine.schedule_detached(HOUR + MS * n, || ()).unwrap();
        }
        assert_nothing_stirs(&engine, "rpr-spin");
        assert_eq!(engine.stop().unwrap().len(), 200);
    }
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

/// Asserts that the threads of an engine wake up no more often than once in the time that a task
/// may take, while one of them stands still.
#[cfg(target_os = "linux")]
#[track_caller]
fn assert_it_is_looked_at_once_per_limit(name: &str) {
    const LIMIT: Duration = Duration::from_millis(5);
    let asleep = || loop {
        if let Some(sleeps) = sleeps_of(name) {
            return sleeps;
        }
    };
    let (before, begin) = (asleep(), Instant::now());
    thread::sleep(Duration::from_secs(2));
    let wake_ups = asleep() - before;
    // The first look may have begun before, and threads go to sleep once.
    let most = begin.elapsed().as_nanos() / LIMIT.as_nanos() + 10;
    assert!(u128::from(wake_ups) <= most, "{wake_ups} wake-ups, of at most {most}");
}

#[test]
#[cfg(target_os = "linux")]
fn a_task_that_is_stuck_and_was_told_of_is_looked_at_once_per_limit() {
    let (tell, told) = mpsc::channel();
    let builder = Engine::builder().shards(1).takeover(None).thread_name("rpr-stuck");
    let engine = builder.on_stuck(move |_| tell.send(()).unwrap()).build().unwrap();
    let (release, released) = mpsc::channel::<()>();
    engine.schedule_detached(Duration::ZERO, move || _ = released.recv()).unwrap();
    engine.schedule_detached(MS, || ()).unwrap();
    told.recv_timeout(PATIENCE).unwrap();
    assert_it_is_looked_at_once_per_limit("rpr-stuck");
    drop(release);
}

#[test]
#[cfg(target_os = "linux")]
fn a_reaper_that_waits_for_room_is_looked_at_once_per_limit() {
    let (sender, receiver) = crossbeam_channel::bounded::<u64>(1);
    let builder = Engine::builder().shards(1).thread_name("rpr-full");
    let handler = tickless::dispatch::Channel::blocking(sender);
    let engine = builder.build_with_handler(handler).unwrap();
    (0..3).for_each(|n| engine.schedule_detached(MS, n).unwrap());
    while receiver.is_empty() {
        thread::yield_now();
    }
    assert_it_is_looked_at_once_per_limit("rpr-full");
    drop(receiver);
}
