//! The hashed wheel without the faults that its ancestors' users reported: one test for each. (That
//! it does not wake up at each tick is in `wakes.rs`.)

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use support::patience::PATIENCE;
use support::scaled;
use support::token::Fates;
use tickless::ManualClock;
use tickless_netty::{Builder, Expired, HashedWheelTimer, Timeout};

const HOUR: Duration = Duration::from_secs(3600);

const MS: Duration = Duration::from_millis(1);

fn nothing(_: &Timeout) {}

/// Ticks of 1 ms and eight of them per wheel: everything worth speaking of is beyond one round.
fn small() -> Builder {
    HashedWheelTimer::builder().tick_duration(MS).ticks_per_wheel(8)
}

fn by_hand() -> (HashedWheelTimer, ManualClock) {
    let clock = ManualClock::new();
    (small().manual_clock(&clock).build().unwrap(), clock)
}

// === the limit and the count ===

#[test]
fn cancelling_makes_room_at_once_and_not_at_the_next_tick() {
    let clock = ManualClock::new();
    let timer = small().max_pending_timeouts(2).manual_clock(&clock).build().unwrap();
    let mut waiting = vec![timer.new_timeout(nothing, HOUR).unwrap()];
    for _ in 0..scaled(1000) {
        waiting.push(timer.new_timeout(nothing, HOUR).unwrap());
        assert!(timer.new_timeout(nothing, HOUR).unwrap_err().is_full());
        assert!(waiting.swap_remove(0).cancel());
        assert_eq!(timer.pending_timeouts(), 1);
    }
    assert_eq!(clock.elapsed(), Duration::ZERO, "no turn has come by");
}

#[test]
fn the_count_does_not_drift_when_a_task_cancels_what_is_due_with_it() {
    let clock = ManualClock::new();
    let timer = small().max_pending_timeouts(100).manual_clock(&clock).build().unwrap();
    for _ in 0..scaled(20) {
        let (cancelled, ran) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicU32::new(0)));
        let victims: Vec<_> = (0..60)
            .map(|n| {
                let ran = ran.clone();
                let task = move |_: &Timeout| {
                    ran.fetch_add(1, Ordering::SeqCst);
                };
                // Due before, with, and after the killer.
                timer.new_timeout(task, MS * (1 + n % 3)).unwrap()
            })
            .collect();
        let counter = cancelled.clone();
        let killer = move |_: &Timeout| {
            let kills = victims.iter().filter(|victim| victim.cancel()).count();
            counter.fetch_add(kills as u32, Ordering::SeqCst);
        };
        timer.new_timeout(killer, MS * 2).unwrap();
        assert_eq!(timer.pending_timeouts(), 61);
        timer.advance(MS * 3).unwrap();
        assert_eq!(timer.pending_timeouts(), 0);
        assert_eq!(cancelled.load(Ordering::SeqCst) + ran.load(Ordering::SeqCst), 60);
        assert!(cancelled.load(Ordering::SeqCst) >= 20, "those that were due later");
    }
    // Nor does the limit: it is all there.
    let hundred: Vec<_> = (0..100).map(|_| timer.new_timeout(nothing, HOUR).unwrap()).collect();
    assert!(timer.new_timeout(nothing, HOUR).is_err());
    assert!(hundred.iter().all(Timeout::cancel));
}

#[test]
fn a_timeout_that_is_refused_is_not_counted() {
    let (timer, _clock) = by_hand();
    timer.new_timeout(nothing, HOUR).unwrap();
    assert_eq!(timer.stop().unwrap().len(), 1);
    for _ in 0..3 {
        assert!(timer.new_timeout(nothing, HOUR).is_err());
        assert_eq!(timer.pending_timeouts(), 0);
    }
}

// === many at once ===

#[test]
fn a_tick_runs_all_that_is_due_however_many_were_made_since_the_last() {
    let (timer, _clock) = by_hand();
    let ran = Arc::new(AtomicU32::new(0));
    let counter = ran.clone();
    let task = Arc::new(move |_: &Timeout| {
        counter.fetch_add(1, Ordering::SeqCst);
    });
    let many = 250_000;
    for _ in 0..many {
        timer.new_timeout(task.clone(), MS).unwrap();
    }
    assert_eq!(timer.advance(MS), Ok(many));
    assert_eq!(ran.load(Ordering::SeqCst) as usize, many);
}

#[test]
fn what_was_cancelled_before_its_tick_keeps_nothing_else_waiting() {
    let (timer, _clock) = by_hand();
    let all: Vec<_> = (0..250_000).map(|_| timer.new_timeout(nothing, MS * 2).unwrap()).collect();
    let late = timer.new_timeout(nothing, MS).unwrap();
    assert!(all.iter().all(Timeout::cancel));
    assert_eq!((timer.advance(MS), late.is_expired()), (Ok(1), true));
}

#[test]
fn a_cancelled_timeout_is_let_go_before_its_bucket_comes_round() {
    let (timer, _clock) = by_hand();
    let many = scaled(10_000) as usize;
    let fates = Fates::new(many);
    for n in 0..many {
        let token = fates.token(n);
        let timeout = timer.new_timeout(move |_: &Timeout| token.run(), HOUR).unwrap();
        assert!(timeout.cancel());
        drop(timeout);
        assert_eq!(fates.of(n), (0, 1));
    }
    // The wheel lends the same few places again and again.
    let stats = timer.stats();
    assert!(stats.seated * 10 > stats.scheduled * 9, "{stats:?}");
}

#[test]
fn what_is_due_in_a_later_round_is_not_looked_at_in_each() {
    let (timer, _clock) = by_hand();
    let many = 1000;
    for n in 0..many {
        timer.new_timeout(nothing, HOUR + MS * n).unwrap();
    }
    assert_eq!(timer.advance(HOUR * 2), Ok(many as usize));
    // The ring of eight comes round 450,000 times in an hour, and each level is four times as
    // broad as the last: eleven of them reach an hour.
    let moves = timer.stats().cascaded;
    assert!(moves <= 11 * u64::from(many), "{moves}");
}

// === the right time ===

#[test]
fn nothing_is_early_and_nothing_later_than_its_tick_in_any_round() {
    let (timer, clock) = by_hand();
    let off = Arc::new(AtomicU32::new(0));
    let mut made = 0;
    // The clock stands inside a tick.
    timer.advance(Duration::from_micros(300)).unwrap();
    for ticks in (0..200).chain((200..20_000).step_by(97)) {
        for nudge_ns in [0, 1, 999_999] {
            let delay = MS * ticks + Duration::from_nanos(nudge_ns);
            let (due, clock, off) = (clock.elapsed() + delay, clock.clone(), off.clone());
            let task = move |_: &Timeout| {
                let now = clock.elapsed();
                off.fetch_add(u32::from(now < due || now >= due + MS), Ordering::SeqCst);
            };
            timer.new_timeout(task, delay).unwrap();
            made += 1;
        }
    }
    assert_eq!(timer.advance(MS * 20_001), Ok(made));
    assert_eq!(off.load(Ordering::SeqCst), 0);
}

#[test]
fn nothing_is_early_by_the_clock_of_its_maker() {
    let timer = HashedWheelTimer::builder().tick_duration(MS).build().unwrap();
    let (sender, receiver) = mpsc::channel();
    let many = scaled(200) as u32;
    for n in 0..many {
        let sender = sender.clone();
        let delay = Duration::from_micros(u64::from(n) * 137 % 30_000);
        let due = Instant::now() + delay;
        let task = move |_: &Timeout| sender.send(Instant::now() >= due).unwrap();
        timer.new_timeout(task, delay).unwrap();
    }
    for _ in 0..many {
        assert_eq!(receiver.recv_timeout(PATIENCE), Ok(true));
    }
}

#[test]
fn ticks_below_a_millisecond_are_kept() {
    let clock = ManualClock::new();
    let tick = Duration::from_micros(10);
    let builder = HashedWheelTimer::builder().tick_duration(tick);
    let timer = builder.manual_clock(&clock).build().unwrap();
    let timeout = timer.new_timeout(nothing, tick * 3).unwrap();
    assert_eq!((timer.advance(tick * 2), timeout.is_expired()), (Ok(0), false));
    assert_eq!((timer.advance(tick), timeout.is_expired()), (Ok(1), true));
}

#[test]
fn a_delay_beyond_all_time_does_not_come_round_as_one_that_is_due() {
    let (timer, _clock) = by_hand();
    let endless = [
        Duration::MAX,
        Duration::from_nanos(u64::MAX),
        Duration::from_nanos(i64::MAX as u64) * 2,
        Duration::from_secs(u64::MAX),
    ];
    let made = endless.map(|delay| timer.new_timeout(nothing, delay).unwrap());
    assert_eq!(timer.advance(HOUR * 24 * 365 * 100), Ok(0));
    assert_eq!(timer.pending_timeouts(), made.len());
}

// === tasks that take long ===

#[test]
fn with_a_dispatcher_a_task_that_blocks_holds_up_no_other() {
    let dispatcher = |expired: Expired| drop(thread::spawn(|| expired.run()));
    let timer = HashedWheelTimer::builder().tick_duration(MS).dispatcher(dispatcher);
    let timer = timer.build().unwrap();
    let (go_on, wait) = mpsc::channel::<()>();
    let (done, outcome) = mpsc::channel();
    let wait = tickless_sync::Mutex::new(wait);
    let blocking = move |_: &Timeout| {
        let told = wait.lock().unwrap().recv_timeout(PATIENCE);
        done.send(told).unwrap();
    };
    timer.new_timeout(blocking, MS).unwrap();
    // Only the later one ends the wait of the earlier.
    timer.new_timeout(move |_: &Timeout| go_on.send(()).unwrap(), MS * 2).unwrap();
    assert_eq!(outcome.recv_timeout(PATIENCE), Ok(Ok(())));
}
