//! Reapers that wait in user space: that nothing is early, and that whatever a waiting reaper has
//! to find, it finds. And the preset for precise timers.

use std::thread;
use std::time::{Duration, Instant};

use support::mpsc::{self, Receiver, Sender};
use support::patience::PATIENCE;
use support::random::Random;
use support::scaled;
use tickless::{BuildError, Builder, Clock, Driver, Engine, ManualClock, When};

const US: Duration = Duration::from_micros(1);

const MS: Duration = Duration::from_millis(1);

const HOUR: Duration = Duration::from_secs(3600);

/// Within the credit of a reaper that may have a whole core.
const CREDIT: Duration = Duration::from_millis(90);

/// An engine whose reaper waits in user space for what is due within `CREDIT`.
fn spinning() -> Engine {
    let builder = Engine::builder().shards(1).tick(50 * US).takeover(None);
    builder.spin_before(CREDIT).spin_share(1.0).build().unwrap()
}

fn note<T: Send + 'static>(sender: &Sender<T>, what: T) -> impl FnOnce() + Send + 'static {
    let sender = sender.clone();
    // The test may have failed and gone.
    move || _ = sender.send(what)
}

fn next<T: 'static>(receiver: &Receiver<T>) -> T {
    receiver.recv_timeout(PATIENCE).expect("every timer fires")
}

/// Schedules timers in user-space waits and sleeps, on two threads, and moves some.
fn nothing_is_early(builder: Builder) {
    let engine = builder.build().unwrap();
    let (sender, fired) = mpsc::channel();
    let timers = scaled(400);
    let promises: Vec<Vec<Instant>> = thread::scope(|scope| {
        let producers = [0, 1].map(|producer| {
            let (engine, sender) = (&engine, sender.clone());
            scope.spawn(move || {
                let mut random = Random::new(producer);
                let produce = |n| {
                    let delay = US * random.below(3000) as u32;
                    let sender = sender.clone();
                    let task = move || _ = sender.send((producer, n, Instant::now()));
                    let mut earliest = Instant::now() + delay;
                    let mut timer = engine.schedule(delay, task).unwrap();
                    if n % 4 == 0 {
                        let later = Instant::now() + 2 * delay;
                        if timer.reset(2 * delay).is_ok() {
                            earliest = later;
                        }
                    }
                    thread::sleep(US * random.below(400) as u32);
                    earliest
                };
                (0..timers).map(produce).collect()
            })
        });
        producers.map(|producer| producer.join().unwrap()).into()
    });
    for _ in 0..2 * timers {
        let (producer, n, at) = next(&fired);
        let earliest = promises[producer as usize][n as usize];
        assert!(at >= earliest, "{:?} early", earliest - at);
    }
    assert_eq!(engine.len(), 0);
    engine.check().unwrap();
}

#[test]
fn a_precise_timer_is_never_early() {
    nothing_is_early(Engine::builder().shards(1).precise(0.5));
    let clock = Clock::instant();
    nothing_is_early(Engine::builder().shards(1).clock(clock).precise(0.0));
}

#[test]
#[cfg(all(target_os = "linux", not(elsewhere)))]
fn a_precise_timer_by_the_clock_that_counts_suspended_time_is_never_early() {
    let clock = Clock::boottime().unwrap();
    nothing_is_early(Engine::builder().shards(1).clock(clock).precise(0.5));
}

#[test]
fn a_timer_whose_reaper_waits_in_user_space_is_never_early() {
    let builder = Engine::builder().shards(1).tick(50 * US);
    nothing_is_early(builder.clone().spin_before(100 * US));
    nothing_is_early(builder.spin_before(MS).spin_share(1.0));
}

#[test]
fn a_timer_that_comes_while_the_reaper_waits_for_another_is_not_kept_waiting() {
    for _ in 0..scaled(5) {
        let engine = spinning();
        let (sender, fired) = mpsc::channel();
        let begun = Instant::now();
        engine.schedule_detached(80 * MS, note(&sender, "far")).unwrap();
        engine.schedule_detached(Duration::ZERO, note(&sender, "first")).unwrap();
        let first = next(&fired);
        engine.schedule_detached(2 * MS, note(&sender, "near")).unwrap();
        // (A thread that is suspended may come too late with them.)
        let are_nearer = begun.elapsed() < 70 * MS;
        let order = [first, next(&fired), next(&fired)];
        assert!(order == ["first", "near", "far"] || !are_nearer, "{order:?}");
    }
}

#[test]
fn a_stop_ends_the_wait_and_returns_what_was_waited_for() {
    for _ in 0..scaled(5) {
        let (engine, begun) = (spinning(), Instant::now());
        engine.schedule_detached(85 * MS, || ()).unwrap();
        let returned = engine.stop().unwrap().len();
        // (A thread that is suspended may stop the engine too late.)
        assert!(returned == 1 || begun.elapsed() > 85 * MS);
        let builder = Engine::builder().shards(1).precise(1.0);
        let engine = builder.build().unwrap();
        engine.schedule_detached(HOUR, || ()).unwrap();
        assert_eq!(engine.stop().unwrap().len(), 1);
    }
}

/// The dead are swept while the reaper waits for a timer: the request is seen.
#[test]
fn a_sweep_is_not_kept_waiting() {
    let engine = spinning();
    let (sender, fired) = mpsc::channel();
    engine.schedule_detached(80 * MS, note(&sender, ())).unwrap();
    let timers: Vec<_> =
        (0..20_000).map(|n| engine.schedule(HOUR + MS * n, || ()).unwrap()).collect();
    assert!(timers.into_iter().all(tickless::Handle::cancel));
    next(&fired);
    let begun = Instant::now();
    while engine.stats().dead > 5_000 {
        assert!(begun.elapsed() < PATIENCE, "{}", engine.stats());
        thread::yield_now();
    }
}

#[test]
fn by_the_systems_clock_a_turn_says_to_the_microsecond_when_to_come_back() {
    let builder = Engine::builder().shards(1).driver(Driver::Caller).precise(0.2);
    let engine = builder.build().unwrap();
    // Until a turn comes before its timer is due, which a loaded machine does not grant each time.
    loop {
        let deadline = engine.now() + 2345 * US;
        let timer = engine.schedule(When::at(deadline), || ()).unwrap();
        let due = timer.deadline().unwrap();
        assert!(due >= deadline && due < deadline + US);
        let turn = engine.turn(0).unwrap();
        let was_early = engine.now() < due;
        while engine.now() < due {
            std::hint::spin_loop();
        }
        if was_early {
            assert_eq!((turn.fired, turn.next), (0, Some(due)));
            assert_eq!(engine.turn(0).unwrap().fired, 1);
            return;
        }
        engine.turn(0).unwrap();
    }
}

#[test]
fn by_hand_a_precise_timer_fires_at_its_microsecond() {
    let clock = ManualClock::new();
    let builder = Engine::builder().shards(2).manual_clock(&clock).precise(0.2);
    let (sender, fired) = mpsc::channel();
    let (at, sender) = (clock.clone(), std::sync::Mutex::new(sender));
    let each = move |payload| sender.lock().unwrap().send((payload, at.elapsed())).unwrap();
    let engine: Engine<u64> = builder.build_each(each).unwrap();
    let delays = [1234 * US, Duration::from_nanos(1_234_567), HOUR + 7 * US, Duration::ZERO];
    for (n, delay) in (0..).zip(delays) {
        engine.schedule_detached(delay, n).unwrap();
    }
    let mut moved = engine.schedule(10 * MS, 4).unwrap();
    moved.reset(77 * US).unwrap();
    engine.check().unwrap();
    assert_eq!(engine.advance(2 * HOUR).unwrap(), 5);
    let expected =
        [(3, Duration::ZERO), (4, 77 * US), (0, 1234 * US), (1, 1235 * US), (2, HOUR + 7 * US)];
    assert_eq!(fired.try_iter().collect::<Vec<_>>(), expected);
}

#[test]
fn what_the_preset_sets_can_be_set_anew() {
    let clock = ManualClock::new();
    let of = |builder: Builder| {
        let engine = builder.shards(1).manual_clock(&clock).build().unwrap();
        // The first is filed for its own deadline if few are pending.
        engine.schedule_detached(10_000 * MS, || ()).unwrap();
        engine.schedule_detached(US, || ()).unwrap();
        engine.snapshot().by_level().into_iter().map(|count| count.width).collect::<Vec<_>>()
    };
    let precise = Engine::builder().precise(0.2);
    assert_eq!(of(precise.clone()), [US]);
    assert_eq!(of(precise.clone().tick(MS)), [MS]);
    // The third level has buckets of 256 * 256 us, and 256 of them reach 16.7 s.
    assert_eq!(of(precise.exact_below(0)), [US, 65_536 * US]);
}

#[test]
fn a_share_is_between_nothing_and_a_whole_core() {
    for share in [-0.1, 1.1, f64::NAN, f64::INFINITY] {
        for builder in [Builder::new().precise(share), Builder::new().spin_share(share)] {
            let error = builder.build().unwrap_err();
            assert!(matches!(error, BuildError::Share { .. }), "{error}");
            assert!(error.to_string().contains("between 0 and 1"));
        }
    }
    for share in [0.0, 1.0] {
        Builder::new().driver(Driver::Caller).precise(share).build().unwrap();
    }
}
