//! Never early, by the system's clock: a timer fires no earlier by the clock that its caller reads.
//! (`tests/suite/engine/never_early.rs` has each level and tick, by a clock that is set by hand.)

use std::thread;
use std::time::{Duration, Instant};

use support::mpsc::{self, Sender};
use support::patience::PATIENCE;
use support::random::Random;
use support::scaled;
use tickless::{Engine, Handle};

/// What a producer did: for each timer, when it may fire at the earliest.
type Promises = Vec<(Handle, Instant)>;

fn fires_in_time(tick: Duration, produce: impl Fn(&Engine, u64, Fired) -> Promises + Sync) {
    const PRODUCERS: u64 = 3;
    let engine = Engine::builder().tick(tick).shards(2).build().unwrap();
    let (sender, receiver) = mpsc::channel();
    let fired = |producer| Fired { sender: sender.clone(), producer };
    let promises: Vec<Promises> = thread::scope(|scope| {
        let (engine, produce) = (&engine, &produce);
        let producers: Vec<_> = (0..PRODUCERS)
            .map(|seed| (seed, fired(seed)))
            .map(|(seed, fired)| scope.spawn(move || produce(engine, seed, fired)))
            .collect();
        producers.into_iter().map(|producer| producer.join().unwrap()).collect()
    });
    for _ in 0..promises.iter().map(Vec::len).sum() {
        let (producer, timer, at) = receiver.recv_timeout(PATIENCE).expect("every timer fires");
        let (_, earliest) = promises[producer as usize][timer as usize];
        assert!(at >= earliest, "{:?} early at a tick of {tick:?}", earliest - at);
    }
}

/// Where a producer's tasks tell when they ran.
struct Fired {
    sender: Sender<(u64, u64, Instant)>,
    producer: u64,
}

impl Fired {
    fn task(&self, timer: u64) -> impl FnOnce() + Send + 'static {
        let (sender, producer) = (self.sender.clone(), self.producer);
        // The test may have failed and gone.
        move || {
            let _ = sender.send((producer, timer, Instant::now()));
        }
    }
}

fn some_delay(random: &mut Random) -> Duration {
    Duration::from_nanos(random.below(60_000_000))
}

const TICKS: [Duration; 3] =
    [Duration::from_micros(100), Duration::from_millis(1), Duration::from_millis(7)];

#[test]
fn a_delay_has_passed_by_the_callers_clock_when_its_task_runs() {
    for tick in TICKS {
        fires_in_time(tick, |engine, seed, fired| {
            let random = &mut Random::new(seed);
            let one = |timer| {
                let delay = some_delay(random);
                let earliest = Instant::now() + delay;
                (engine.schedule(delay, fired.task(timer)).unwrap(), earliest)
            };
            (0..scaled(500)).map(one).collect()
        });
    }
}

#[test]
fn a_point_in_time_has_come_by_the_callers_clock_when_its_task_runs() {
    for tick in TICKS {
        fires_in_time(tick, |engine, seed, fired| {
            let random = &mut Random::new(seed);
            let one = |timer| {
                let earliest = Instant::now() + some_delay(random);
                (engine.schedule(earliest, fired.task(timer)).unwrap(), earliest)
            };
            (0..scaled(500)).map(one).collect()
        });
    }
}

#[test]
fn a_timer_that_was_reset_waits_for_its_new_time() {
    for tick in TICKS {
        fires_in_time(tick, |engine, seed, fired| {
            let random = &mut Random::new(seed);
            let one = |timer| {
                let mut earliest = Instant::now() + some_delay(random);
                let mut handle = engine.schedule(earliest, fired.task(timer)).unwrap();
                for _ in 0..random.below(3) {
                    let delay = some_delay(random);
                    let after_reset = Instant::now() + delay;
                    if handle.reset(delay).is_ok() {
                        earliest = after_reset;
                    }
                    if handle.reset(after_reset + tick).is_ok() {
                        earliest = after_reset + tick;
                    }
                }
                (handle, earliest)
            };
            (0..scaled(300)).map(one).collect()
        });
    }
}
