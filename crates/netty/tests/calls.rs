//! The hashed wheel: what its users know from Netty and Dubbo, and what a timeout says of itself.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use support::patience::PATIENCE;
use support::planned::{panic_as_planned, quietly};
use tickless::{BuildError, GeometryError, ManualClock, ScheduleReason, StopError, TurnError};
use tickless_netty::{HashedWheelTimer, IntoTask, StartError, Timeout, TimerTask, WorkerState};
use tickless_sync::Mutex;

const HOUR: Duration = Duration::from_secs(3600);

const TICK: Duration = Duration::from_millis(10);

/// A timer on a clock that only `advance` moves, with ticks of 10 ms, eight of them per wheel.
fn by_hand() -> (HashedWheelTimer, ManualClock) {
    quietly();
    let clock = ManualClock::new();
    let builder = HashedWheelTimer::builder().tick_duration(TICK).ticks_per_wheel(8);
    (builder.manual_clock(&clock).build().unwrap(), clock)
}

fn nothing(_: &Timeout) {}

/// A task that counts its runs.
fn counting(runs: &Arc<AtomicU32>) -> impl TimerTask {
    let runs = runs.clone();
    move |_: &Timeout| {
        runs.fetch_add(1, Ordering::SeqCst);
    }
}

// === building ===

#[test]
fn a_timer_is_built_from_what_is_in_bounds_and_says_what_is_not() {
    let builder = HashedWheelTimer::builder;
    let refused = |build: Result<HashedWheelTimer, BuildError>| build.unwrap_err();
    for tick in [Duration::ZERO, Duration::from_millis(u64::MAX)] {
        let error = refused(builder().tick_duration(tick).build());
        assert!(matches!(error, BuildError::Tick { tick: named } if named == tick), "{error}");
    }
    for ticks in [0, (1 << 20) + 1, u32::MAX] {
        let error = refused(builder().ticks_per_wheel(ticks).build());
        let BuildError::Geometry(GeometryError::Slots { slots }) = error else { panic!("{error}") };
        assert_eq!(slots, ticks);
    }
    assert!(matches!(refused(builder().max_pending_timeouts(0).build()), BuildError::MaxPending));
    assert!(matches!(refused(builder().shards(0).build()), BuildError::Shards { shards: 0 }));
    let error = refused(builder().thread_name("a\0b").build());
    assert!(matches!(error, BuildError::ThreadName { .. }), "{error}");
    for ticks in [1, 2, 3, 9, 512, 513] {
        let clock = ManualClock::new();
        let timer = builder().ticks_per_wheel(ticks).manual_clock(&clock).build().unwrap();
        let timeout = timer.new_timeout(nothing, HOUR).unwrap();
        assert_eq!((timer.advance(HOUR), timeout.is_expired()), (Ok(1), true), "{ticks}");
    }
}

#[test]
fn more_timers_than_netty_warns_of_live_side_by_side() {
    let timers: Vec<_> = (0..128).map(|_| HashedWheelTimer::new().unwrap()).collect();
    for timer in &timers {
        timer.new_timeout(nothing, HOUR).unwrap();
    }
    assert_ne!(timers[0], timers[1]);
    assert!(timers.iter().all(|timer| timer.stop().unwrap().len() == 1));
}

#[test]
fn a_timer_starts_with_its_first_timeout_or_when_told_and_stays_stopped() {
    let (told, _clock) = by_hand();
    assert_eq!(told.worker_state(), WorkerState::Init);
    assert_eq!((told.start(), told.worker_state()), (Ok(()), WorkerState::Started));
    assert_eq!(told.start(), Ok(()), "once more does no harm");
    assert_eq!(StartError::Stopped.to_string(), "a timer that has stopped cannot be started");

    let (used, _clock) = by_hand();
    used.new_timeout(nothing, HOUR).unwrap();
    assert_eq!(used.worker_state(), WorkerState::Started);

    let (unused, _clock) = by_hand();
    for timer in [told, used, unused] {
        timer.stop().unwrap();
        assert_eq!(timer.worker_state(), WorkerState::Shutdown);
        assert_eq!(timer.start(), Err(StartError::Stopped));
        assert_eq!(timer.worker_state(), WorkerState::Shutdown);
    }
}

#[test]
fn time_is_moved_by_hand_where_a_hand_moves_it_and_no_task_does() {
    let threaded = HashedWheelTimer::new().unwrap();
    assert_eq!(threaded.advance(TICK), Err(TurnError::NotManual));
    let (timer, clock) = by_hand();
    let (sender, receiver) = mpsc::channel();
    let task = move |timeout: &Timeout| {
        sender.send(timeout.timer().unwrap().advance(TICK)).unwrap();
    };
    timer.new_timeout(task, TICK).unwrap();
    assert_eq!(timer.advance(TICK * 2), Ok(1));
    assert_eq!(receiver.try_recv(), Ok(Err(TurnError::InsideTask)));
    assert_eq!(clock.elapsed(), TICK * 2);
    timer.stop().unwrap();
    assert_eq!(timer.advance(TICK), Err(TurnError::Stopped));
}

// === Dubbo's own scenarios ===

#[test]
fn a_timeout_whose_task_panicked_is_expired_and_the_timer_goes_on() {
    quietly();
    let builder = HashedWheelTimer::builder().tick_duration(TICK).ticks_per_wheel(8);
    let timer = builder.max_pending_timeouts(8).build().unwrap();
    let (sender, receiver) = mpsc::channel();
    let failing = |_: &Timeout| panic_as_planned();
    let failed = timer.new_timeout(failing, Duration::ZERO).unwrap();
    let after = move |_: &Timeout| sender.send(()).unwrap();
    timer.new_timeout(after, TICK).unwrap();
    receiver.recv_timeout(PATIENCE).unwrap();
    assert!(failed.is_expired() && !failed.is_cancelled());
    assert!(!failed.cancel());
    assert_eq!(format!("{failed:?}"), "Timeout(Expired)");
    assert_eq!(failed.timer(), Some(timer.clone()));

    let far = timer.new_timeout(nothing, HOUR).unwrap();
    assert_eq!(format!("{far:?}"), "Timeout(Waiting)");
    assert!(far.cancel());
    assert!(far.is_cancelled() && !far.is_expired());
    assert_eq!(format!("{far:?}"), "Timeout(Cancelled)");
    // Stopping waits for the turn that counts the panic.
    timer.stop().unwrap();
    assert_eq!(timer.stats().panicked, 1);
}

#[test]
fn what_exceeds_the_limit_comes_back_and_the_others_expire() {
    quietly();
    let clock = ManualClock::new();
    let builder = HashedWheelTimer::builder().tick_duration(TICK).max_pending_timeouts(8);
    let timer = builder.manual_clock(&clock).build().unwrap();
    let mut timeouts = Vec::new();
    for n in 0..8 {
        let task = move |_: &Timeout| {
            if n == 2 {
                panic_as_planned();
            }
        };
        timeouts.push(timer.new_timeout(task, Duration::ZERO).unwrap());
    }
    assert_eq!(timer.pending_timeouts(), 8);
    let task = nothing.into_task();
    let rejected = timer.new_timeout(task.clone(), Duration::ZERO).unwrap_err();
    assert!(rejected.is_full() && !rejected.is_stopped());
    assert_eq!(rejected.to_string(), "as many timers as allowed are pending");
    assert!(Arc::ptr_eq(&rejected.into_payload(), &task));
    assert_eq!(Arc::strong_count(&task), 1, "and the timer has kept nothing of it");
    assert_eq!((timer.advance(Duration::ZERO), timer.pending_timeouts()), (Ok(8), 0));
    assert!(timeouts.iter().all(Timeout::is_expired));
    timer.new_timeout(task, Duration::ZERO).unwrap();
}

#[test]
fn a_task_that_stops_its_timer_is_told_that_it_cannot() {
    let timer = HashedWheelTimer::builder().tick_duration(TICK).build().unwrap();
    let (sender, receiver) = mpsc::channel();
    let stopping = move |timeout: &Timeout| {
        let stopped = timeout.timer().unwrap().stop();
        sender.send(stopped.map(|timeouts| timeouts.len())).unwrap();
    };
    timer.new_timeout(stopping, Duration::ZERO).unwrap();
    assert_eq!(receiver.recv_timeout(PATIENCE), Ok(Err(StopError::InsideTask)));
    assert_eq!(timer.worker_state(), WorkerState::Started, "nothing happened");

    let runs = Arc::new(AtomicU32::new(0));
    let made: Vec<_> =
        (0..8).map(|_| timer.new_timeout(counting(&runs), Duration::ZERO).unwrap()).collect();
    let returned = timer.stop().unwrap();
    let ran = runs.load(Ordering::SeqCst) as usize;
    assert_eq!(ran + returned.len(), 8);
    assert!(made.iter().all(|timeout| timeout.is_cancelled() == returned.contains(timeout)));
    assert_eq!(timer.worker_state(), WorkerState::Shutdown);
    let task = nothing.into_task();
    match timer.new_timeout(task.clone(), Duration::ZERO) {
        Err(error) if error.reason() == ScheduleReason::Stopped => {
            assert_eq!(error.to_string(), "the engine has stopped");
            assert!(error.is_stopped() && !error.is_full());
            assert!(Arc::ptr_eq(&error.into_payload(), &task));
        }
        other => panic!("{other:?}"),
    }
}

// === a timeout's life ===

#[test]
fn a_delay_of_zero_ends_with_the_tick_and_the_longest_never() {
    let (timer, _clock) = by_hand();
    let now = timer.new_timeout(nothing, Duration::ZERO).unwrap();
    let never = timer.new_timeout(nothing, Duration::MAX).unwrap();
    assert!(!now.is_expired(), "no turn has come");
    assert_eq!((timer.advance(Duration::ZERO), now.is_expired()), (Ok(1), true));
    assert_eq!(timer.advance(TICK / 2), Ok(0));
    let amid = timer.new_timeout(nothing, Duration::ZERO).unwrap();
    assert_eq!((timer.advance(TICK / 3), amid.is_expired()), (Ok(0), false));
    assert_eq!((timer.advance(TICK), amid.is_expired()), (Ok(1), true));
    assert_eq!(timer.advance(HOUR * 24 * 365), Ok(0));
    assert_eq!(timer.pending_timeouts(), 1);
    assert_eq!(timer.stop().unwrap(), [never]);
}

#[test]
fn a_tick_of_a_nanosecond_reaches_208_days_and_no_further() {
    let builder = HashedWheelTimer::builder().tick_duration(Duration::from_nanos(1));
    let timer = builder.manual_clock(&ManualClock::new()).build().unwrap();
    let day = 24 * HOUR;
    let [within, beyond] = [208, 209].map(|days| timer.new_timeout(nothing, days * day).unwrap());
    assert_eq!(timer.advance(208 * day - Duration::from_nanos(1)), Ok(0));
    assert_eq!((timer.advance(Duration::from_nanos(1)), within.is_expired()), (Ok(1), true));
    assert_eq!((timer.advance(1_000 * day), beyond.is_expired()), (Ok(0), false));
    assert!(beyond.cancel());
}

#[test]
fn inside_its_task_a_timeout_is_expired_and_cannot_be_cancelled() {
    let (timer, _clock) = by_hand();
    let (sender, receiver) = mpsc::channel();
    let task = move |timeout: &Timeout| {
        let seen = (timeout.is_expired(), timeout.cancel(), timeout.is_cancelled());
        sender.send((seen, timeout.clone())).unwrap();
    };
    let timeout = timer.new_timeout(task, TICK).unwrap();
    assert_eq!(timer.advance(TICK), Ok(1));
    assert_eq!(receiver.try_recv(), Ok(((true, false, false), timeout)));
}

#[test]
fn a_task_cancels_the_others_of_its_tick() {
    let (timer, _clock) = by_hand();
    let runs = Arc::new(AtomicU32::new(0));
    let siblings = Arc::new(tickless_sync::Mutex::new(Vec::<Timeout>::new()));
    for _ in 0..10 {
        let (runs, others) = (runs.clone(), siblings.clone());
        let task = move |timeout: &Timeout| {
            runs.fetch_add(1, Ordering::SeqCst);
            let others = std::mem::take(&mut *others.lock().unwrap());
            for other in others {
                assert_eq!(other.cancel(), other != *timeout);
            }
        };
        siblings.lock().unwrap().push(timer.new_timeout(task, TICK).unwrap());
    }
    timer.advance(TICK).unwrap();
    assert_eq!(runs.load(Ordering::SeqCst), 1, "whichever came first");
    assert_eq!((timer.pending_timeouts(), timer.stats().panicked), (0, 0));
}

#[test]
fn a_task_that_arms_itself_again_stays_the_same_task() {
    let (timer, clock) = by_hand();
    let (sender, receiver) = mpsc::channel();
    let elapsed = clock.clone();
    let beat = move |timeout: &Timeout| {
        sender.send((elapsed.elapsed(), timeout.task().clone())).unwrap();
        timeout.timer().unwrap().new_timeout(timeout.task().clone(), TICK * 3).unwrap();
    };
    let task = beat.into_task();
    timer.new_timeout(task.clone(), TICK * 3).unwrap();
    assert_eq!(timer.advance(TICK * 30), Ok(10));
    for n in 1..=10 {
        let (at, ran) = receiver.try_recv().unwrap();
        assert_eq!(at, TICK * 3 * n);
        assert!(Arc::ptr_eq(&ran, &task));
    }
    assert_eq!(timer.pending_timeouts(), 1);
}

#[test]
fn a_shared_task_runs_once_for_each_of_its_timeouts() {
    let (timer, _clock) = by_hand();
    let (other, _other_clock) = by_hand();
    let runs = Arc::new(AtomicU32::new(0));
    let task = Arc::new(counting(&runs));
    for (timer, delay) in [(&timer, TICK), (&timer, TICK), (&timer, HOUR), (&other, TICK)] {
        timer.new_timeout(task.clone(), delay).unwrap();
    }
    assert_eq!((timer.advance(TICK), other.advance(TICK)), (Ok(2), Ok(1)));
    assert_eq!(runs.load(Ordering::SeqCst), 3);
    assert_eq!(Arc::strong_count(&task), 2, "ours, and that of the one that waits");
}

#[test]
fn a_timeout_that_nobody_keeps_expires_all_the_same() {
    let runs = Arc::new(AtomicU32::new(0));
    let builder = HashedWheelTimer::builder().tick_duration(Duration::from_millis(1)).shards(3);
    let timer = builder.build().unwrap();
    let (sender, receiver) = mpsc::channel();
    for _ in 0..10 {
        let (runs, sender) = (runs.clone(), sender.clone());
        let task = move |_: &Timeout| {
            runs.fetch_add(1, Ordering::SeqCst);
            sender.send(()).unwrap();
        };
        drop(timer.new_timeout(task, Duration::from_millis(2)).unwrap());
    }
    (0..10).for_each(|_| receiver.recv_timeout(PATIENCE).unwrap());
    assert_eq!(runs.load(Ordering::SeqCst), 10);
}

#[test]
fn a_timeout_is_equal_to_its_clones_alone() {
    let (timer, _clock) = by_hand();
    let task = nothing.into_task();
    let [a, b] = [(); 2].map(|()| timer.new_timeout(task.clone(), TICK).unwrap());
    assert_ne!(a, b);
    let clone = a.clone();
    assert_eq!(a, clone);
    assert!(a.cancel());
    assert!(clone.is_cancelled() && !b.is_cancelled());
}

#[test]
fn a_timeout_that_was_collected_counts_until_the_timer_comes_to_it_cancelled_or_not() {
    let (timer, _clock) = by_hand();
    let made: Arc<Mutex<Vec<Timeout>>> = Arc::default();
    let (tell, told) = mpsc::channel();
    for _ in 0..3 {
        let (inside, tell) = (made.clone(), tell.clone());
        let task = move |timeout: &Timeout| {
            let others = std::mem::take(&mut *inside.lock().unwrap());
            let cancelled = others.iter().filter(|other| other.cancel()).count();
            tell.send((cancelled, timeout.timer().unwrap().pending_timeouts())).unwrap();
        };
        let timeout = timer.new_timeout(task, TICK).unwrap();
        made.lock().unwrap().push(timeout);
    }
    assert_eq!(timer.advance(TICK * 2).unwrap(), 3);
    assert_eq!(told.try_iter().collect::<Vec<_>>(), [(2, 2)], "the others were cancelled");
    assert_eq!(timer.pending_timeouts(), 0);
}
