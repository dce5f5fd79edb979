//! Timers that may fire a little later: in their window, with fewer cascades, in fewer wake-ups.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime};

use support::compiled;
use support::mpsc;
use support::random::Random;
use tickless::periodic::Schedule;
use tickless::{Batch, Builder, Engine, ManualClock, When};
use tickless_purgatory::{Operation, Purgatory};

const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// An engine with ticks of 1 ms and the default geometry: buckets are 1, 32, 1024, .. ms wide.
fn engine(clock: &ManualClock) -> Engine {
    Engine::builder().shards(1).exact_below(0).manual_clock(clock).build().expect("it is valid")
}

/// Runs the engine until `end`, and answers how often it had to wake up for it.
fn wake_ups_until(engine: &Engine, clock: &ManualClock, end: Duration) -> usize {
    let mut wake_ups = 0;
    while !engine.is_empty() {
        let next = engine.turn(0).expect("the caller drives").next;
        let Some(next) = next.filter(|_| !engine.is_empty()) else { break };
        clock.advance(next - engine.now());
        wake_ups += 1;
    }
    assert!(clock.elapsed() <= end, "the last fired in its window");
    wake_ups
}

/// A thousand timers of 30 s, one each 3 ms, with so much slack: how often each was cascaded on
/// average, and how often the engine woke up.
fn cost_of(slack: Duration) -> (f64, usize) {
    let clock = ManualClock::new();
    let engine = engine(&clock);
    let fired = Arc::new(AtomicUsize::new(0));
    for _ in 0..1000 {
        let count = fired.clone();
        let task = move || {
            count.fetch_add(1, Ordering::Relaxed);
        };
        let _detached =
            engine.schedule(When::after(ms(30_000)).slack(slack), task).expect("it runs");
        engine.advance(ms(3)).expect("the caller drives");
    }
    let wake_ups = wake_ups_until(&engine, &clock, ms(33_000) + slack);
    assert_eq!(fired.load(Ordering::Relaxed), 1000);
    engine.check().expect("every invariant holds");
    (engine.stats().cascaded as f64 / 1000.0, wake_ups)
}

#[test]
fn slack_saves_cascades_and_wake_ups() {
    let (cascades, wake_ups) = cost_of(Duration::ZERO);
    assert!(cascades > 1.9, "30 s are two levels up: {cascades}");
    assert!(wake_ups > 1000, "each fires by itself: {wake_ups}");

    let (cascades, wake_ups) = cost_of(ms(100));
    assert!((0.9..1.1).contains(&cascades), "down to level 2 only: {cascades}");
    assert!(wake_ups < 60, "3 s hold 47 windows of 64 ms: {wake_ups}");

    let (cascades, wake_ups) = cost_of(ms(3_000));
    assert_eq!(cascades, 0.0, "filed where it fires");
    assert!(wake_ups <= 3, "at multiples of 2048 ms: {wake_ups}");
}

#[test]
fn a_timer_with_slack_fires_in_its_window() {
    let clock = ManualClock::new();
    // Of each timer; its payload is its place here.
    let windows = Arc::new(Mutex::new(Vec::<(Instant, Instant)>::new()));
    let (shared, windows_of_handler) = (clock.clone(), windows.clone());
    let started = Arc::new(std::sync::OnceLock::new());
    let start = started.clone();
    let handler = move |batch: Batch<'_, u64>| {
        let now = *start.get().expect("it is set") + shared.elapsed();
        for number in batch {
            let (first, last) = windows_of_handler.lock().unwrap()[number as usize];
            assert!(first <= now && now <= last, "{first:?} <= {now:?} <= {last:?}");
        }
    };
    let builder = Builder::new().shards(1).manual_clock(&clock);
    let engine = builder.build_with_handler(handler).expect("it is valid");
    started.set(engine.now()).expect("it is set once");

    let mut random = Random::new(7);
    let mut handles = Vec::new();
    for number in 0..5_000 {
        // Of every order of magnitude alike: up to a minute, and to 16 s.
        let mut micros = |bits| {
            let below = 1 << (1 + random.below(bits));
            Duration::from_micros(random.below(below))
        };
        let (delay, slack) = (micros(26), micros(24));
        // What a tick adds, it adds with slack as without.
        let first = engine.now() + delay;
        let window = (first, first + slack.max(ms(1)));
        windows.lock().unwrap().push(window);
        let handle = match random.below(2) {
            0 => engine.schedule(When::after(delay).slack(slack), number),
            _ => engine.schedule(When::at(first).slack(slack), number),
        };
        let handle = handle.expect("the engine runs");
        let deadline = handle.deadline().expect("it is due");
        assert!(window.0 <= deadline && deadline <= window.1);
        handles.push(handle);
        engine.advance(Duration::from_micros(random.below(3_000))).expect("the caller drives");
    }
    let fired = engine.advance(Duration::from_secs(100)).expect("the caller drives");
    assert!(fired > 0 && engine.is_empty());
    assert_eq!(engine.stats().fired, 5_000);
    assert_eq!(engine.stats().panicked, 0, "each was in its window");
}

#[test]
fn slack_below_a_tick_makes_no_difference() {
    let clock = ManualClock::new();
    let engine = engine(&clock);
    let exact = engine.schedule(ms(33), || ()).expect("it runs");
    let none = engine.schedule(When::after(ms(33)).slack(Duration::ZERO), || ()).expect("it runs");
    let little = engine.schedule(When::after(ms(33)).slack(Duration::from_nanos(999_999)), || ());
    assert_eq!(exact.deadline(), none.deadline());
    assert_eq!(exact.deadline(), little.expect("it runs").deadline());
}

#[test]
fn slack_without_end_still_fires_and_a_delay_without_end_never_does() {
    let clock = ManualClock::new();
    let engine = engine(&clock);
    let some_time =
        engine.schedule(When::after(ms(5)).slack(Duration::MAX), || ()).expect("it runs");
    assert!(some_time.deadline().is_some_and(|due| due >= engine.now() + ms(5)));
    let never = engine.schedule(When::after(Duration::MAX).slack(ms(5)), || ()).expect("it runs");
    assert_eq!(never.deadline(), None);
}

#[test]
fn a_reset_with_slack_moves_the_timer_into_the_new_window() {
    let clock = ManualClock::new();
    let engine = engine(&clock);
    let mut timer = engine.schedule(ms(10), || ()).expect("it runs");
    for (delay, slack) in [(5_000, 700), (40_000, 2_000), (20, 40)] {
        assert!(timer.reset(When::after(ms(delay)).slack(ms(slack))).is_ok());
        let due = timer.deadline().expect("it is due");
        assert!(engine.now() + ms(delay) <= due && due <= engine.now() + ms(delay + slack));
    }
    let deadline = engine.now() + ms(100);
    assert!(timer.reset(When::at(deadline).slack(ms(60))).is_ok());
    assert_eq!(timer.deadline(), Some(engine.now() + ms(128)), "where four buckets meet");
    assert_eq!(engine.advance(ms(127)).expect("the caller drives"), 0);
    assert_eq!(engine.advance(ms(1)).expect("the caller drives"), 1);
    assert!(timer.reset(When::after(ms(1)).slack(ms(1))).is_err(), "it has fired");
}

#[test]
fn a_delay_an_instant_and_a_system_time_mean_the_same_time() {
    let clock = ManualClock::new();
    let engine = engine(&clock);
    clock.advance(ms(7));
    let due = engine.now() + ms(50);
    for when in [When::from(ms(50)), When::after(ms(50)), When::from(due), When::at(due)] {
        let timer = engine.schedule(when, || ()).expect("it runs");
        assert_eq!(timer.deadline(), Some(due), "{when:?}");
        assert_eq!(when.slack(Duration::ZERO), when, "none, which is the default");
        timer.cancel();
    }
    // The clocks go by the same time, so that what is left is what it was, and a little less.
    let engine = Engine::builder().shards(1).build().expect("it is valid");
    let (before, hour) = (engine.now(), ms(3_600_000));
    let when = When::at_system_time(SystemTime::now() + hour);
    let timer = engine.schedule(when, || ()).expect("it runs");
    let due = timer.deadline().expect("it is due some time");
    let tick = ms(1);
    assert!(due + ms(1000) > before + hour && due <= engine.now() + hour + tick, "{due:?}");
    let (sender, fired) = mpsc::channel();
    let past = When::at_system_time(SystemTime::UNIX_EPOCH);
    engine.schedule_detached(past, move || sender.send(()).unwrap()).expect("it runs");
    fired.recv_timeout(ms(60_000)).expect("what is past is due at once");
}

#[test]
fn whatever_waits_for_a_time_may_have_a_slack() {
    struct Never;
    impl Operation for Never {
        fn try_complete(&self) -> bool {
            false
        }
        fn on_complete(&self) {}
    }

    let clock = ManualClock::new();
    let engine = engine(&clock);
    clock.advance(ms(3));
    // Level 3 opens at 2048 ms.
    let (begin, when) = (engine.now() - ms(3), When::after(ms(1500)).slack(ms(700)));
    let opens = begin + ms(2048);
    let mut sleep = engine.sleep(ms(9));
    sleep.reset(when);
    assert_eq!(sleep.deadline(), Some(opens));
    let schedule = Schedule::fixed_rate(ms(100)).starting(when);
    let periodic = schedule.start(&engine, compiled::task(|_| ())).expect("it runs");
    assert_eq!(periodic.next_deadline(), Some(opens));
    assert!(periodic.cancel());
    let purgatory = Purgatory::with_engine(&engine);
    purgatory.try_complete_else_watch(Arc::new(Never), ["key"], when).expect("it runs");
    engine.advance(ms(2044)).expect("the caller drives");
    assert_eq!((engine.now(), purgatory.len()), (opens - ms(1), 1));
    engine.advance(ms(1)).expect("the caller drives");
    assert_eq!(purgatory.len(), 0);
}
