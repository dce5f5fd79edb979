//! Engines on the clock that counts suspended time: they keep every promise that others keep,
//! sleep by an alarm of their own, and leave no file open.
//!
//! A suspension itself cannot be had in a test; what it does to the arithmetic is tested in
//! `crates/core/src/time/clock.rs`.

#![cfg(all(target_os = "linux", not(elsewhere)))]

use std::fs;
use std::sync::{Mutex, MutexGuard, PoisonError, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use tickless::{BuildError, Builder, Clock, Driver, Engine, TurnError};

const MS: Duration = Duration::from_millis(1);

const HOUR: Duration = Duration::from_secs(3600);

const PATIENCE: Duration = Duration::from_secs(60);

/// One test at a time, when the one before has left no file open: they count those of the process.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    let guard = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    wait_until_files_are_closed();
    guard
}

/// A thread of the test before may still be ending, and keep an engine that another one dropped.
fn wait_until_files_are_closed() {
    let begun = Instant::now();
    while alarm_files() > 0 {
        thread::yield_now();
        assert!(begun.elapsed() < PATIENCE, "{} are open", alarm_files());
    }
}

fn builder(shards: usize) -> Builder {
    Engine::builder().shards(shards).clock(Clock::boottime().unwrap())
}

/// The time since the machine was started, by the system itself.
fn boottime() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the system writes to a `timespec` that lives through the call.
    let outcome = unsafe { libc::clock_gettime(libc::CLOCK_BOOTTIME, &raw mut time) };
    assert_eq!(outcome, 0);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// Timers, counters and epoll instances of the system that the process has open.
fn alarm_files() -> usize {
    let files = fs::read_dir("/proc/self/fd").unwrap();
    let targets = files.filter_map(|file| fs::read_link(file.unwrap().path()).ok());
    let of_alarms = targets.filter(|target| {
        let target = target.to_string_lossy();
        ["[timerfd]", "[eventfd]", "[eventpoll]"].iter().any(|kind| target.contains(kind))
    });
    of_alarms.count()
}

#[test]
fn timers_fire_and_are_never_early_by_either_clock() {
    let _alone = alone();
    let engine = builder(2).tick(Duration::from_micros(100)).build().unwrap();
    let (sender, receiver) = mpsc::channel();
    for n in 0..200 {
        let delay = Duration::from_micros(137) * n;
        // In this order: a thread may be held up between the two, and `due` decides for every other
        // timer when it fires. By the other clock that moment is not before this one.
        let due_by_boottime = boottime() + delay;
        let due = Instant::now() + delay;
        let sender = sender.clone();
        let task = move || sender.send((Instant::now() >= due, boottime() >= due_by_boottime));
        if n % 2 == 0 {
            engine.schedule_detached(delay, move || task().unwrap()).unwrap();
        } else {
            let handle = engine.schedule(due, move || task().unwrap()).unwrap();
            let deadline = handle.deadline().unwrap();
            assert!(deadline < due + PATIENCE && due < deadline + PATIENCE, "near it at least");
        }
    }
    for _ in 0..200 {
        assert_eq!(receiver.recv_timeout(PATIENCE), Ok((true, true)));
    }
    let now = (engine.now(), Instant::now());
    assert!(now.0 <= now.1);
}

#[test]
fn a_sleep_ends_for_what_is_due_earlier() {
    let _alone = alone();
    let engine = builder(1).build().unwrap();
    engine.schedule_detached(HOUR, || ()).unwrap();
    engine.schedule_detached(Duration::MAX, || ()).unwrap();
    let (sender, receiver) = mpsc::channel();
    for round in 0..100 {
        let sender = sender.clone();
        engine.schedule_detached(MS * (round % 3), move || sender.send(round).unwrap()).unwrap();
        assert_eq!(receiver.recv_timeout(PATIENCE), Ok(round));
    }
    assert_eq!(engine.stop().unwrap().len(), 2);
}

#[test]
fn stopping_ends_every_sleep() {
    let _alone = alone();
    for pending in 0..10 {
        let engine = builder(3).build().unwrap();
        (0..pending).for_each(|_| engine.schedule_detached(HOUR, || ()).unwrap());
        assert_eq!(engine.stop().unwrap().len(), pending);
    }
}

#[test]
fn many_threads_are_heard() {
    let _alone = alone();
    let engine = builder(1).build().unwrap();
    let (sender, receiver) = mpsc::channel();
    let threads = [0, 1, 2].map(|thread| {
        let (engine, sender) = (engine.clone(), sender.clone());
        thread::spawn(move || {
            for n in 0..300 {
                let sender = sender.clone();
                let delay = Duration::from_micros(n * 50 % 3000);
                engine.schedule_detached(delay, move || sender.send(thread).unwrap()).unwrap();
                if n % 16 == 0 {
                    thread::yield_now();
                }
            }
        })
    });
    for _ in 0..900 {
        receiver.recv_timeout(PATIENCE).unwrap();
    }
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    assert_eq!((engine.stats().fired, engine.len()), (900, 0));
}

#[test]
fn a_caller_may_drive_such_an_engine_and_no_hand_moves_its_clock() {
    let _alone = alone();
    let engine = builder(1).driver(Driver::Caller).build().unwrap();
    assert_eq!(alarm_files(), 0, "its caller sleeps, not an alarm");
    let begun = Instant::now();
    engine.schedule_detached(MS * 2, || ()).unwrap();
    loop {
        let turn = engine.turn(0).unwrap();
        if turn.fired > 0 {
            break;
        }
        assert!(turn.next.is_some_and(|next| next < begun + PATIENCE));
        assert!(begun.elapsed() < PATIENCE);
    }
    assert!(begun.elapsed() >= MS * 2);
    assert_eq!(engine.advance(MS), Err(TurnError::NotManual));
}

#[test]
fn an_alarm_takes_three_files_and_is_for_those_who_cannot_park() {
    let _alone = alone();
    let engine = builder(5).reapers(2, 5).build().unwrap();
    assert_eq!(alarm_files(), 6, "two threads sleep for its shards");
    let plain = Engine::builder().shards(5).build().unwrap();
    assert_eq!(alarm_files(), 9, "its watcher has one");
    let many = Engine::builder().shards(5).reapers(2, 5).build().unwrap();
    let unwatched = Engine::builder().shards(5).reapers(1, 5).takeover(None).build().unwrap();
    let driven = Engine::builder().driver(Driver::Caller).build().unwrap();
    assert_eq!(alarm_files(), 9, "if there is one, and one group");
    drop((many, unwatched, driven));
    engine.schedule_detached(HOUR, || ()).unwrap();
    drop((engine, plain));
    thread::spawn(move || {
        let engine = builder(3).build().unwrap();
        engine.schedule_detached(HOUR, || ()).unwrap();
    })
    .join()
    .unwrap();
    wait_until_files_are_closed();
}

#[test]
fn a_thread_that_drops_engines_which_it_has_used_leaves_no_file_open() {
    let _alone = alone();
    for is_stopped in [false, true] {
        let engines: Vec<Engine> = (0..10)
            .map(|n| match n % 3 {
                0 => builder(2).build().unwrap(),
                1 => Engine::builder().shards(2).build().unwrap(),
                _ => Engine::builder().shards(2).reapers(2, 2).build().unwrap(),
            })
            .collect();
        for engine in &engines {
            engine.schedule_detached(HOUR, || ()).unwrap();
        }
        assert!(alarm_files() >= 30);
        if is_stopped {
            engines.iter().for_each(|engine| _ = engine.stop().unwrap());
        }
        drop(engines);
        assert_eq!(alarm_files(), 0, "stopped before: {is_stopped}");
    }
}

#[test]
fn a_thread_that_has_used_engines_does_not_keep_their_files_open() {
    let _alone = alone();
    let engines: Vec<Engine> = (0..10)
        .map(|n| match n % 2 {
            0 => builder(2).build().unwrap(),
            _ => Engine::builder().shards(2).build().unwrap(),
        })
        .collect();
    let ((use_them, to_use), (used, is_used)) = (mpsc::channel::<Engine>(), mpsc::channel());
    let other = thread::spawn(move || {
        // It keeps nothing but what threads keep of engines that they have used.
        for engine in to_use {
            engine.schedule_detached(HOUR, || ()).unwrap();
            drop(engine);
            used.send(()).unwrap();
        }
    });
    for engine in &engines {
        use_them.send(engine.clone()).unwrap();
        is_used.recv().unwrap();
    }
    assert!(alarm_files() >= 30);
    drop(engines);
    assert_eq!(alarm_files(), 0);
    drop(use_them);
    other.join().unwrap();
}

#[test]
fn without_files_there_is_no_such_engine_and_nothing_stays_open() {
    let _alone = alone();
    let (soft, hard) = rlimit::Resource::NOFILE.get().unwrap();
    let open = fs::read_dir("/proc/self/fd").unwrap().count() as u64;
    rlimit::Resource::NOFILE.set((open + 7).min(hard), hard).unwrap();
    let refused = builder(16).reapers(16, 16).build();
    rlimit::Resource::NOFILE.set(soft, hard).unwrap();
    assert!(matches!(refused, Err(BuildError::Alarm(_))), "{refused:?}");
    assert_eq!(alarm_files(), 0);
    assert!(builder(16).build().is_ok());
}

#[test]
fn without_files_another_engine_parks_its_threads() {
    let _alone = alone();
    let (soft, hard) = rlimit::Resource::NOFILE.get().unwrap();
    rlimit::Resource::NOFILE.set(0, hard).unwrap();
    let engine = Engine::builder().shards(4).build();
    rlimit::Resource::NOFILE.set(soft, hard).unwrap();
    let engine = engine.unwrap();
    assert_eq!(alarm_files(), 0, "its watcher has no alarm");
    let (sender, receiver) = mpsc::channel();
    for ms in (0..40).rev() {
        let sender = sender.clone();
        // Each on a shard of its own, by turns.
        let task = move || sender.send(ms).unwrap();
        thread::scope(|scope| {
            scope.spawn(|| engine.schedule_detached(MS * ms, task).unwrap());
        });
    }
    let mut fired: Vec<u32> = (0..40).map(|_| receiver.recv_timeout(PATIENCE).unwrap()).collect();
    fired.sort_unstable();
    assert!(fired.into_iter().eq(0..40));
    drop(engine);
    wait_until_files_are_closed();
}

#[test]
fn an_engine_on_a_runtime_has_one_file_or_none_and_leaves_none_open() {
    let _alone = alone();
    for (workers, files) in [(0, 1), (2, 1), (0, 0), (2, 0)] {
        let runtime = match workers {
            0 => tokio::runtime::Builder::new_current_thread().enable_all().build(),
            _ => tokio::runtime::Builder::new_multi_thread().enable_all().build(),
        };
        let runtime = runtime.unwrap();
        let of_runtime = alarm_files();
        let (soft, hard) = rlimit::Resource::NOFILE.get().unwrap();
        if files == 0 {
            rlimit::Resource::NOFILE.set(0, hard).unwrap();
        }
        let engine = runtime.block_on(async { Engine::builder().shards(4).build_on_tokio() });
        rlimit::Resource::NOFILE.set(soft, hard).unwrap();
        let engine = engine.unwrap();
        assert_eq!(alarm_files() - of_runtime, files);
        for ms in [3, 1, 2] {
            let sleep = engine.sleep(MS * ms);
            runtime.block_on(runtime.spawn(sleep)).unwrap();
        }
        // A file goes with the task, which is the runtime's.
        drop(engine);
        let begun = Instant::now();
        while alarm_files() > of_runtime {
            runtime.block_on(tokio::task::yield_now());
            assert!(begun.elapsed() < PATIENCE, "it stays open");
        }
    }
}
