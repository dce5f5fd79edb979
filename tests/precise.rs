//! Reapers that wait in user space: that nothing is early, and that whatever a waiting reaper has
//! to find, it finds.

use std::sync::mpsc::{self, Receiver, Sender};
use std::thread;
use std::time::{Duration, Instant};

use crate::common::scaled;
use crate::patience::PATIENCE;
use crate::random::Random;
use tickless::{Builder, Clock, Driver, Engine, When};

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

fn next<T>(receiver: &Receiver<T>) -> T {
    receiver.recv_timeout(PATIENCE).expect("every timer fires")
}

/// Schedules timers in user-space waits and sleeps, on two threads, and moves some.
fn nothing_is_early(builder: Builder, class: impl Fn(When) -> When + Sync) {
    let engine = builder.build().unwrap();
    let (sender, fired) = mpsc::channel();
    let timers = scaled(400);
    let promises: Vec<Vec<Instant>> = thread::scope(|scope| {
        let producers = [0, 1].map(|producer| {
            let (engine, class, sender) = (&engine, &class, sender.clone());
            scope.spawn(move || {
                let mut random = Random::new(producer);
                let produce = |n| {
                    let delay = US * random.below(3000) as u32;
                    let sender = sender.clone();
                    let task = move || _ = sender.send((producer, n, Instant::now()));
                    let mut earliest = Instant::now() + delay;
                    let mut timer = engine.schedule(class(When::after(delay)), task).unwrap();
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
    nothing_is_early(Engine::builder().shards(1).precise(0.5), When::precise);
    let clock = Clock::instant();
    nothing_is_early(Engine::builder().shards(1).clock(clock).precise(0.0), When::precise);
}

#[test]
#[cfg(all(target_os = "linux", not(elsewhere)))]
fn a_precise_timer_by_the_clock_that_counts_suspended_time_is_never_early() {
    let clock = Clock::boottime().unwrap();
    nothing_is_early(Engine::builder().shards(1).clock(clock).precise(0.5), When::precise);
}

#[test]
fn a_timer_whose_reaper_waits_in_user_space_is_never_early() {
    let builder = Engine::builder().shards(1).tick(50 * US);
    nothing_is_early(builder.clone().spin_before(100 * US), |when| when);
    nothing_is_early(builder.spin_before(MS).spin_share(1.0), |when| when);
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
        engine.schedule_detached(When::after(HOUR).precise(), || ()).unwrap();
        engine.schedule_detached(HOUR, || ()).unwrap();
        assert_eq!(engine.stop().unwrap().len(), 2);
    }
}

#[test]
fn a_precise_timer_is_served_while_an_ordinary_task_blocks() {
    let engine = Engine::builder().shards(1).precise(0.5).takeover(None).build().unwrap();
    let (sender, fired) = mpsc::channel();
    let (release, released) = mpsc::channel::<()>();
    let begun = note(&sender, "blocks");
    let block = move || {
        begun();
        let _ = released.recv_timeout(PATIENCE);
    };
    engine.schedule_detached(Duration::ZERO, block).unwrap();
    assert_eq!(next(&fired), "blocks");
    engine.schedule_detached(MS, note(&sender, "ordinary")).unwrap();
    engine.schedule_detached(When::after(5 * MS).precise(), note(&sender, "precise")).unwrap();
    assert_eq!(next(&fired), "precise");
    drop(release);
    assert_eq!(next(&fired), "ordinary");
}

/// The dead are swept while the reaper waits for a timer: the request is seen, or a thread helps.
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
        let timer = engine.schedule(When::at(deadline).precise(), || ()).unwrap();
        let due = timer.deadline().unwrap();
        assert!(due >= deadline && due < deadline + US);
        let turn = engine.turn(1).unwrap();
        let was_early = engine.now() < due;
        while engine.now() < due {
            std::hint::spin_loop();
        }
        if was_early {
            assert_eq!((turn.fired, turn.next), (0, Some(due)));
            assert_eq!(engine.turn(1).unwrap().fired, 1);
            return;
        }
        engine.turn(1).unwrap();
    }
}
