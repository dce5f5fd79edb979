//! The clock, and the turns: a reaper that comes in time, late, in small turns, or hardly.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::futures::{Ticking, Waiting};
use super::stage::Stage;
use super::world::{horizon_ns, lock};
use models::engine_model::case::At;

/// Turns without an end at one time, from which on it is taken for endless.
const PATIENCE: usize = 20_000;

impl Stage {
    /// The clock goes to `at`, and no turn is run.
    pub(super) fn jump(&self, at: At) {
        self.go_to(self.world.resolve_ns(at).min(horizon_ns(self.world.tick_ns)));
    }

    fn go_to(&self, ns: u64) {
        let by_ns = ns.saturating_sub(self.world.now_ns());
        self.world.clock.advance(Duration::from_nanos(by_ns));
    }

    /// The clock stands, crawls or runs, and each time that the reaper looks it runs a turn.
    pub(super) fn slew(&self, rate: u8, looks: u8) {
        let by_ns = self.world.tick_ns.saturating_mul(rate.into()) / 64;
        for look in 0..looks {
            let to_ns = self.world.now_ns().saturating_add(by_ns);
            self.go_to(to_ns.min(horizon_ns(self.world.tick_ns)));
            self.turn(look, Some(look % 5));
            self.world.judge();
        }
    }

    /// The clock goes to `at`, and everything on the way fires at its tick.
    pub(super) fn advance(&self, at: At) {
        if self.is_stopped() {
            return self.jump(at);
        }
        let to_ns = self.world.resolve_ns(at).min(horizon_ns(self.world.tick_ns));
        let by_ns = to_ns.saturating_sub(self.world.now_ns());
        let by = Duration::from_nanos(by_ns);
        self.world.in_turn(|| self.engine.advance(by)).expect("it is driven from here");
        self.settle();
    }

    /// To where the next turn is wanted.
    pub(super) fn to_next(&self) {
        if let Some(next) = self.settle() {
            self.go_to(u64::try_from((next - self.world.zero).as_nanos()).unwrap_or(u64::MAX));
            self.settle();
        }
    }

    pub(super) fn turn(&self, shard: u8, at_most: Option<u8>) {
        if self.is_stopped() {
            return;
        }
        let shard = usize::from(shard) % self.engine.shards();
        let most = at_most.map_or(usize::MAX, usize::from);
        let turn = self.world.in_turn(|| self.engine.turn_at_most(shard, most));
        let turn = turn.expect("it is driven from here");
        assert!(turn.fired <= most, "{} of at most {most}", turn.fired);
    }

    /// Turns until nothing is left to do, and whether all that is due has fired then. Returns when
    /// the next turn is wanted.
    pub(super) fn settle(&self) -> Option<Instant> {
        if self.is_stopped() {
            return None;
        }
        for _ in 0..PATIENCE {
            let (mut again, mut next) = (false, None::<Instant>);
            for shard in 0..self.engine.shards() {
                let turn = self.world.in_turn(|| self.engine.turn(shard));
                let turn = turn.expect("it is driven from here");
                again |= turn.more || turn.fired > 0;
                next = [next, turn.next].into_iter().flatten().min();
            }
            let fired = self.world.in_turn(|| self.wheel.advance(Duration::ZERO));
            again |= fired.expect("it is driven from here") > 0;
            if !again {
                self.assert_settled();
                return next;
            }
        }
        panic!("more than {PATIENCE} turns at one time");
    }

    fn assert_settled(&self) {
        let world = &self.world;
        world.judge();
        world.assert_settled();
        lock(&self.sleeps).iter().for_each(|sleep: &Waiting| sleep.assert_settled(world));
        lock(&self.intervals).iter().for_each(|ticks: &Ticking| ticks.assert_settled(world));
        lock(&self.queue).assert_settled(world);
        world.judge();
    }

    /// From turn to turn until nothing is left that will ever fire.
    pub(super) fn run_dry(self: &Arc<Stage>) {
        for _ in 0..PATIENCE {
            let Some(next) = self.settle() else { return };
            let before_ns = self.world.now_ns();
            self.to_next();
            let next_ns = (next - self.world.zero).as_nanos();
            assert!(u128::from(before_ns) < next_ns, "a turn is wanted at once, and was run");
        }
        panic!("more than {PATIENCE} wake-ups");
    }
}
