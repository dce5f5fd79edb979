//! How wall-clock timers end: stops, drops, refusals, cancels in each state, forks.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use tickless::dispatch::Channel;
use tickless::wall::{RepeatError, WallTimers};
use tickless::{Builder, Engine, ManualClock, Task};

use super::rig::{HOUR, MINUTE, MS, Rig, next_after};
use support::hands::engine_by_hand;
use support::planned::{panic_as_planned, quietly};
use support::scaled;

#[test]
fn a_stop_returns_what_waits_in_order_and_what_the_engine_refused_before() {
    let rig = Rig::new();
    rig.at(HOUR * 3, 3);
    rig.at(HOUR * 2, 2);
    let repeating = rig.every(HOUR);
    rig.engine.stop().unwrap();
    assert_eq!(rig.timers.set_now(rig.noon + HOUR), 0);
    let tasks = rig.timers.stop();
    assert_eq!(tasks.len(), 3);
    tasks.into_iter().for_each(Task::run);
    assert_eq!(*rig.log.lock().unwrap(), [60, 2, 3]);
    assert!(repeating.is_over() && rig.timers.is_empty());
    let refused = rig.timers.schedule(rig.noon, || ()).unwrap_err();
    assert!(refused.is_stopped());
    let refused = rig.timers.repeat(next_after(rig.noon, HOUR), |_| ());
    assert_eq!(refused.err(), Some(RepeatError::Stopped));
    assert!(rig.timers.stop().is_empty());
}

/// Nobody would run it at its new time, nor return it.
#[test]
fn what_the_engine_has_is_not_moved_after_a_stop() {
    let rig = Rig::new();
    let handed_over = rig.at(Duration::ZERO, 1);
    let waiting = rig.at(HOUR, 2);
    assert_eq!(rig.timers.stop().len(), 1);
    for timer in [&handed_over, &waiting] {
        assert!(!timer.reset(rig.noon + HOUR));
    }
    assert_eq!(rig.run(), [1]);
}

#[test]
fn what_the_engine_drops_is_gone_and_what_repeats_goes_on() {
    let rig = Rig::new();
    let repeating = rig.every(HOUR);
    let token = Arc::new(());
    let held = token.clone();
    rig.timers.schedule(rig.noon + HOUR, move || drop(held)).unwrap();
    rig.timers.set_now(rig.noon + HOUR);
    assert!(!repeating.is_over(), "it will run");
    drop(rig.engine.stop().unwrap());
    assert_eq!(Arc::strong_count(&token), 1, "the stop had it, and dropped it");
    assert_eq!(repeating.deadline(), Some(rig.noon + HOUR * 2), "one run was dropped");
    assert_eq!(rig.timers.stop().len(), 1);
    assert!(repeating.is_over());
}

#[test]
fn no_engine_is_full_for_what_is_due() {
    let builder = Engine::builder().manual_clock(&ManualClock::new()).shards(1).max_pending(1);
    let rig = Rig::on(builder.build().unwrap());
    let room = rig.engine.schedule(HOUR, || ()).unwrap();
    rig.at(MINUTE, 1);
    rig.every(MINUTE * 2);
    assert_eq!(rig.set(MINUTE * 2), [1, 2]);
    assert!(rig.engine.schedule(HOUR, || ()).unwrap_err().is_full());
    assert!(room.cancel());
    assert!(rig.engine.schedule(HOUR, || ()).unwrap().cancel());
}

/// The last time that the system can tell, which differs between systems.
fn end_of_time() -> SystemTime {
    let steps = (0..64).rev().map(|bit| Duration::from_secs(1 << bit));
    let steps = steps.chain((0..30).rev().map(|bit| Duration::from_nanos(1 << bit)));
    steps.fold(SystemTime::UNIX_EPOCH, |time, step| time.checked_add(step).unwrap_or(time))
}

#[test]
fn what_is_due_at_the_end_of_time_is_handed_over_then() {
    let rig =
        Rig::on(Engine::builder().manual_clock(&ManualClock::new()).shards(1).build().unwrap());
    rig.at(MINUTE, 1);
    assert_eq!(rig.timers.set_now(end_of_time()), 1);
}

/// An engine whose handler drops each other task.
#[test]
fn a_handler_that_drops_a_run_does_not_end_the_repetition() {
    let (sender, receiver) = mpsc::channel::<Task>();
    let builder = Builder::new().manual_clock(&ManualClock::new()).shards(1);
    let engine = builder.build_with_handler(Channel::dropping(sender)).unwrap();
    let timers = WallTimers::by_hand(&engine, SystemTime::UNIX_EPOCH);
    let (runs, task) = counting();
    let timer = timers.repeat(|after| Some(after + HOUR), task).unwrap();
    for hours in 1..=6 {
        timers.set_now(SystemTime::UNIX_EPOCH + HOUR * hours);
        engine.advance(Duration::ZERO).unwrap();
        let task = receiver.recv().unwrap();
        if hours % 2 == 0 { task.run() } else { drop(task) }
    }
    assert_eq!((runs.load(Ordering::SeqCst), timer.is_over()), (3, false));
}

#[test]
fn dropping_the_timers_drops_the_tasks_and_ends_the_thread() {
    let engine = Engine::new().unwrap();
    let timers = WallTimers::new(&engine).unwrap();
    let token = Arc::new(());
    for _ in 0..3 {
        let held = token.clone();
        timers.schedule(SystemTime::now() + HOUR, move || drop(held)).unwrap();
        let held = token.clone();
        let hourly = next_after(SystemTime::now(), HOUR);
        timers.repeat(hourly, move |_| drop(held.clone())).unwrap();
    }
    assert_eq!((timers.len(), Arc::strong_count(&token)), (6, 7));
    drop(timers);
    assert_eq!(Arc::strong_count(&token), 1);
}

#[test]
fn tasks_may_use_and_drop_their_timers() {
    let engine = Engine::new().unwrap();
    let timers = Arc::new(WallTimers::new(&engine).unwrap());
    let (sender, ended) = mpsc::channel();
    let same = timers.clone();
    let first = move || {
        let last = same.clone();
        let second = move || {
            drop(last);
            sender.send(()).unwrap();
        };
        same.schedule(SystemTime::now(), second).unwrap();
    };
    timers.schedule(SystemTime::now() + MS, first).unwrap();
    drop(timers);
    ended.recv().unwrap();
}

#[test]
fn an_engine_that_is_gone_is_told() {
    let engine = Engine::new().unwrap();
    let timers = WallTimers::by_hand(&engine, SystemTime::UNIX_EPOCH);
    let ran = Arc::new(AtomicUsize::new(0));
    let count = ran.clone();
    let task = move || _ = count.fetch_add(1, Ordering::Relaxed);
    timers.schedule(SystemTime::UNIX_EPOCH + HOUR, task).unwrap();
    drop(engine);
    assert_eq!(timers.set_now(SystemTime::UNIX_EPOCH + HOUR), 0);
    timers.stop().into_iter().for_each(Task::run);
    assert_eq!(ran.load(Ordering::Relaxed), 1);
}

const NS: Duration = Duration::from_nanos(1);

const NOON: SystemTime = SystemTime::UNIX_EPOCH;

/// A counter, and a task that counts.
fn counting() -> (Arc<AtomicU32>, impl FnMut(SystemTime) + Send) {
    let runs = Arc::new(AtomicU32::new(0));
    let theirs = runs.clone();
    (runs, move |_| _ = theirs.fetch_add(1, Ordering::SeqCst))
}

/// Moves the clock on in two threads, as fast as they can. Returns whether the repeating task has
/// come back each time, for as long as this lasts.
fn hammer(most: Duration, task: impl FnMut(SystemTime) + Send + 'static) -> bool {
    let engine = Engine::builder().shards(1).tick(MS / 10).build().unwrap();
    let timers = WallTimers::by_hand(&engine, NOON);
    let timer = timers.repeat(|after| Some(after + NS), task).unwrap();
    let end = Instant::now() + most;
    let (is_done, passed) = (AtomicBool::new(false), AtomicU64::new(0));
    thread::scope(|threads| {
        let setters = [(); 2].map(|()| {
            threads.spawn(|| {
                while !is_done.load(Ordering::SeqCst) {
                    let micros = passed.fetch_add(1, Ordering::SeqCst);
                    timers.set_now(NOON + Duration::from_micros(micros));
                }
            })
        });
        while Instant::now() < end && !timer.is_over() {
            thread::yield_now();
        }
        is_done.store(true, Ordering::SeqCst);
        // ThreadSanitizer does not see that a scope waits for its threads.
        setters.into_iter().for_each(|setter| setter.join().unwrap());
    });
    !timer.is_over()
}

#[test]
fn a_task_that_panics_and_is_due_again_at_once_goes_on() {
    quietly();
    assert!(hammer(MS * scaled(500) as u32, |_| panic_as_planned()), "nobody has ended it");
}

#[test]
fn a_task_that_is_due_again_at_once_goes_on() {
    assert!(hammer(MS * scaled(2000) as u32, |_| ()), "nobody has ended it");
}

#[test]
fn a_repeating_task_that_was_cancelled_before_its_run_does_not_run() {
    let engine = engine_by_hand();
    let timers = WallTimers::by_hand(&engine, NOON);
    let (runs, task) = counting();
    let timer = timers.repeat(|after| Some(after + HOUR), task).unwrap();
    timers.set_now(NOON + HOUR);
    // It was handed to the engine, and has not begun.
    assert!(timer.cancel());
    engine.advance(Duration::ZERO).unwrap();
    assert_eq!(runs.load(Ordering::SeqCst), 0, "`cancel` said that it would not run");
}

#[test]
fn a_repeating_task_that_was_cancelled_after_a_refusal_is_not_returned() {
    let engine = engine_by_hand();
    let timers = WallTimers::by_hand(&engine, NOON);
    let (runs, task) = counting();
    let timer = timers.repeat(|after| Some(after + HOUR), task).unwrap();
    engine.stop().unwrap();
    timers.set_now(NOON + HOUR);
    assert!(timer.cancel());
    timers.stop().into_iter().for_each(Task::run);
    assert_eq!(runs.load(Ordering::SeqCst), 0, "`cancel` said that it would not run");
}

/// Of a hundred places in the queue of what is refused, where it is cut off: each of them, or some.
fn rounds() -> impl Iterator<Item = usize> {
    (0..100).step_by(100 / scaled(400).min(100) as usize)
}

#[test]
fn timers_that_are_dropped_while_a_stopped_engine_refuses_them_leave_nothing() {
    const TIMERS: usize = 1000;
    let token = Arc::new(());
    for round in rounds() {
        let engine = Engine::builder().shards(1).build().unwrap();
        engine.stop().unwrap();
        let timers = WallTimers::new(&engine).unwrap();
        let time = SystemTime::now() + 5 * MS;
        for _ in 0..TIMERS {
            let token = token.clone();
            timers.repeat(move |_| Some(time), move |_| _ = &token).unwrap();
        }
        while timers.len() > TIMERS - 1 - round * 8 {
            thread::yield_now();
        }
        drop(timers);
        assert_eq!(Arc::strong_count(&token), 1, "leaked in round {round}");
    }
}

#[test]
fn a_stop_returns_what_is_just_being_refused() {
    const TIMERS: usize = 500;
    for round in rounds() {
        let engine = Engine::builder().shards(1).build().unwrap();
        engine.stop().unwrap();
        let timers = WallTimers::new(&engine).unwrap();
        let time = SystemTime::now() + 3 * MS;
        for _ in 0..TIMERS {
            timers.schedule(time, || ()).unwrap();
        }
        while timers.len() > TIMERS - 1 - round * 4 {
            thread::yield_now();
        }
        assert_eq!(timers.stop().len(), TIMERS, "lost by the stop in round {round}");
    }
}

/// Drops a copy of the timers in a child process. Returns its exit status; `None`: it hangs.
#[cfg(unix)]
fn drop_in_a_child(timers: &WallTimers) -> Option<i32> {
    // SAFETY: the child drops one value and ends without going back.
    let child = unsafe { libc::fork() };
    if child == 0 {
        // SAFETY: the child's copy, of which it uses no other.
        let copy = unsafe { std::ptr::read(&raw const *timers) };
        let code = i32::from(catch_unwind(AssertUnwindSafe(|| drop(copy))).is_err());
        // SAFETY: it ends the process at once.
        unsafe { libc::_exit(code) };
    }
    let begin = Instant::now();
    let (mut status, mut hangs) = (0, false);
    // SAFETY: the number lives through the call, and the child is ours.
    while unsafe { libc::waitpid(child, &raw mut status, libc::WNOHANG) } != child {
        if begin.elapsed() > Duration::from_secs(60) {
            // SAFETY: the child is ours and has not been waited for.
            unsafe { libc::kill(child, libc::SIGKILL) };
            hangs = true;
        }
        thread::sleep(MS);
    }
    (!hangs).then(|| libc::WEXITSTATUS(status))
}

#[cfg(unix)]
#[test]
fn a_child_can_drop_its_copy() {
    let engine = Engine::builder().shards(1).build().unwrap();
    let timers = WallTimers::new(&engine).unwrap();
    assert_eq!(drop_in_a_child(&timers), Some(0), "the drop panics");
}

#[cfg(unix)]
#[test]
fn a_child_can_drop_its_copy_whatever_other_threads_did() {
    let engine = engine_by_hand();
    let timers = WallTimers::by_hand(&engine, NOON);
    let is_done = AtomicBool::new(false);
    thread::scope(|threads| {
        threads.spawn(|| {
            while !is_done.load(Ordering::SeqCst) && timers.is_empty() {
                std::hint::spin_loop();
            }
        });
        let hangs = (0..10).filter(|_| drop_in_a_child(&timers).is_none()).count();
        is_done.store(true, Ordering::SeqCst);
        assert_eq!(hangs, 0, "of 10 children");
    });
}

#[test]
fn by_hand_a_time_that_has_passed_is_due_at_once_as_well() {
    let engine = engine_by_hand();
    let timers = WallTimers::by_hand(&engine, NOON);
    let runs = Arc::new(AtomicU32::new(0));
    let count = || {
        let runs = runs.clone();
        move || _ = runs.fetch_add(1, Ordering::SeqCst)
    };
    let past = NOON - Duration::from_secs(1);
    for (time, moved) in [(past, None), (NOON, None), (NOON + HOUR, Some(past))] {
        runs.store(0, Ordering::SeqCst);
        let timer = timers.schedule(time, count()).unwrap();
        assert!(moved.is_none_or(|moved| timer.reset(moved)));
        engine.advance(Duration::ZERO).unwrap();
        assert_eq!(runs.load(Ordering::SeqCst), 1, "{time:?}, moved to {moved:?}");
    }
    // The second time of this one has passed when it comes back from its first run.
    let mut times = vec![NOON, past].into_iter();
    let count = count();
    let _repeat = timers.repeat(move |_| times.next(), move |_| count()).unwrap();
    while engine.advance(Duration::ZERO).unwrap() > 0 {}
    assert_eq!(runs.load(Ordering::SeqCst), 3);
    assert!(timers.is_empty());
}
