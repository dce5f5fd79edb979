//! Snapshots while the owner has its hands full: what is pending is shown, and nothing else,
//! wherever it is: in a bucket that is swept, or in hand. (`tests/races/engine/scan.rs` looks from
//! another thread.)

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use support::random::Random;
use tickless::{Batch, Builder, Engine, Handle, ManualClock, State};

const MS: Duration = Duration::from_millis(1);

/// More than what a sweep is begun for.
const MANY: u64 = 5_000;

/// What a sweep leaves.
const KEPT: u64 = 1_000;

/// An engine, and what is pending in it by the test's own account.
struct Bench {
    clock: ManualClock,
    engine: Engine<u64>,
    /// How many timers are due when; those that are due have not fired.
    pending: BTreeMap<Instant, usize>,
    looks: usize,
}

impl Bench {
    fn new((slots, reach): (u32, u32)) -> Bench {
        let clock = ManualClock::new();
        let builder = Builder::new().tick(MS).slots(slots).reach(reach).shards(1);
        let engine = builder
            .manual_clock(&clock)
            .build_typed(|batch: Batch<'_, u64>| batch.for_each(drop))
            .unwrap();
        Bench { clock, engine, pending: BTreeMap::new(), looks: 0 }
    }

    fn schedule(&mut self, delay_ms: u64) -> Handle<u64> {
        let delay = Duration::from_millis(delay_ms);
        *self.pending.entry(self.engine.now() + delay).or_default() += 1;
        self.engine.schedule(delay, delay_ms).unwrap()
    }

    fn cancel(&mut self, timer: Handle<u64>) {
        let deadline = timer.deadline().unwrap();
        assert!(timer.cancel());
        *self.pending.get_mut(&deadline).unwrap() -= 1;
    }

    /// A turn that fires at most so many, which are the first. Whether there is more to do.
    fn turn(&mut self, at_most: usize) -> bool {
        let turn = self.engine.turn_at_most(0, at_most).unwrap();
        for _ in 0..turn.fired {
            let mut first = self.pending.first_entry().unwrap();
            while *first.get() == 0 {
                first.remove();
                first = self.pending.first_entry().unwrap();
            }
            *first.get_mut() -= 1;
        }
        turn.more
    }

    /// A snapshot shows what is pending, and nothing else.
    fn look(&mut self, when: &str) {
        self.pending.retain(|_, count| *count > 0);
        let mut shown = BTreeMap::new();
        for timer in &self.engine.snapshot() {
            *shown.entry(timer.deadline.unwrap()).or_default() += 1;
        }
        assert_eq!(shown, self.pending, "{when}");
        self.looks += 1;
        if self.looks % 16 == 1 {
            self.engine.check().unwrap();
        }
    }
}

const SHAPES: [(u32, u32); 5] = [(2, 2), (3, 3), (64, 32), (64, 64), (1024, 1024)];

#[test]
fn what_lives_is_shown_in_each_turn_of_a_sweep() {
    for shape in SHAPES {
        let mut bench = Bench::new(shape);
        let random = &mut Random::new(3);
        let mut timers: Vec<_> = (0..2 * MANY + KEPT)
            .map(|_| bench.schedule(3_600_000 + random.below(100_000)))
            .collect();
        let kept: Vec<_> = timers.split_off(2 * MANY as usize);
        bench.look("before");
        // Not in the order in which they lie.
        for n in (0..timers.len() as u64).rev() {
            let timer = timers.swap_remove(random.below(n + 1) as usize);
            bench.cancel(timer);
        }
        let mut turns = 0;
        while bench.turn(usize::MAX) {
            bench.look("during a sweep");
            turns += 1;
        }
        assert!(turns > 5, "{shape:?}: it was swept in chunks");
        bench.look("after a sweep");
        assert!(bench.engine.stats().dead < MANY, "{shape:?}: {:?}", bench.engine.stats());
        drop(kept);
    }
}

#[test]
fn what_a_bounded_turn_leaves_of_a_bucket_is_shown() {
    let mut bench = Bench::new((64, 32));
    let mut timers: Vec<_> = (0..MANY).map(|_| bench.schedule(7)).collect();
    drop(bench.schedule(1_000));
    bench.clock.advance(7 * MS);
    for fired in 0..20 {
        assert!(bench.turn(1));
        bench.look("after a turn of one");
        while let Some(timer) = timers.pop() {
            if timer.state() == State::Pending {
                bench.cancel(timer);
                bench.look("after a cancel in hand");
                break;
            }
        }
        assert!(fired < 19 || !timers.is_empty(), "some are left to be looked at");
    }
    while bench.turn(999) {
        bench.look("after a larger turn");
    }
    bench.look("in the end");
}

#[test]
fn what_is_cascaded_eagerly_is_shown_in_each_turn_of_it() {
    for shape in [(64, 32), (64, 64), (20, 20)] {
        let mut bench = Bench::new(shape);
        for n in 0..MANY {
            drop(bench.schedule(u64::from(shape.1).pow(2) + n % 999));
        }
        let mut turns = 0;
        for _ in 0..u64::from(shape.1).pow(2) + 1_000 {
            bench.clock.advance(MS);
            while bench.turn(usize::MAX) {
                bench.look("while it is cascaded");
                turns += 1;
            }
        }
        assert!(turns > 3, "{shape:?}: it was cascaded in chunks");
        bench.look("in the end");
    }
}

#[test]
fn the_rounds_that_a_late_turn_finds_are_shown_while_they_wait() {
    for shape in SHAPES {
        let mut bench = Bench::new(shape);
        let slots = u64::from(shape.0);
        for _ in 0..12 {
            for ahead in [1, slots - 1, slots, 3 * slots] {
                drop(bench.schedule(ahead));
            }
            bench.clock.advance(slots as u32 * MS);
        }
        let mut turns = 0;
        while bench.turn(1) {
            turns += 1;
            bench.look("while rounds wait in hand");
        }
        assert!(turns > 10, "{shape:?}");
        bench.clock.advance(3 * slots as u32 * MS);
        while bench.turn(7) {
            bench.look("while the last come");
        }
        assert!(bench.pending.values().all(|&count| count == 0) || bench.engine.is_empty());
    }
}
