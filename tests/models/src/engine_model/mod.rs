//! An engine on a manual clock and a sorted map side by side: the body of the fuzz target
//! `engine`, of `tests/oracles/engine.rs` and of the corpus replay.
//!
//! One thing happens at a time, though on several threads: each has seats and memory of its own.
//! After every step both must agree on everything that can be observed, and the engine must pass
//! its own `check`.

pub mod case;
mod compare;
mod crew;
mod log;
mod oracle;
mod stage;

use std::sync::Arc;
use std::time::{Duration, Instant};

use tickless::{ManualClock, Turn, TurnError};

use case::{At, By, Call, Case, Config, Manner, Op, STORMY, Task, Way};
use crew::Crew;
use log::Log;
use oracle::{Fate, Oracle, Scene};
use stage::Stage;

/// Histories stop scheduling in bursts beyond so many timers.
const MOST: usize = 3000;

/// Cancelled timers that are more than seats are kept for and dead entries are let be.
const STORM: usize = 9000;

/// Turns without progress at one time, from which on it is taken for endless.
const PATIENCE: usize = 5000;

/// Runs a history, then (mostly) time until nothing fires any more, and the engine's end.
pub fn run(case: &Case) {
    run_in_shares(case, None);
}

/// The same, where each bucket that a turn does not finish is a crowd.
pub fn run_in_crowds(case: &Case) {
    run_in_shares(case, Some(0));
}

fn run_in_shares(case: &Case, share: Option<usize>) {
    let mut pair = Pair::new(case, share);
    for op in &case.ops {
        pair.step(op);
        pair.compare();
    }
    if !pair.oracle.is_stopped && !case.ends_at_once() {
        pair.run_dry();
        pair.compare();
    }
    pair.stop();
    pair.compare();
    pair.end();
}

/// An engine and its oracle.
struct Pair {
    stage: Arc<Stage>,
    oracle: Oracle,
    crew: Crew,
    log: Arc<Log>,
    has_stormed: bool,
    /// Per shard: nothing is half done there.
    at_rest: Vec<bool>,
}

// === impl Pair ===

impl Pair {
    fn new(case: &Case, share: Option<usize>) -> Pair {
        let (clock, log) = (ManualClock::new(), Arc::new(Log::default()));
        set(&clock, case.start, case.config);
        let stage = Stage::new(case.config, share, &clock, &log);
        let oracle = Oracle::new(case.config, share.is_some(), stage.zero);
        let crew = Crew::new(case.helpers());
        let at_rest = vec![true; case.config.shards()];
        Pair { stage, oracle, crew, log, has_stormed: false, at_rest }
    }

    fn step(&mut self, op: &Op) {
        match *op {
            Op::Call { thread, call } => self.on(thread, move |stage| stage.call(call)),
            Op::Burst { thread, count, at, apart, owned, task } => {
                self.burst(thread, 2 * usize::from(count), at, apart, owned, task);
            }
            Op::CancelMany { thread, first, count } => self.on(thread, move |stage| {
                for _ in 0..count {
                    stage.call(Call::Cancel { pick: first, way: Way::Cancel });
                }
            }),
            Op::Storm { thread, at, rarely: STORMY } => self.storm(thread, at),
            Op::Storm { .. } => {}
            Op::Clock(at) => self.move_clock_to(self.stage.resolve_ns(at)),
            Op::Advance { to, manner } => self.advance(to, manner),
            Op::ToNext => {
                if let Some(next_ns) = self.settle() {
                    self.move_clock_to(next_ns);
                    self.settle();
                }
            }
            Op::ShortOfNext => self.short_of_next(),
            Op::Turn { thread, shard, at_most, manner } => {
                let shard = usize::from(shard) % (self.config().shards() + 1);
                self.turn(thread, shard, at_most.map_or(usize::MAX, usize::from), manner);
            }
            Op::Settle => drop(self.settle()),
            Op::Replace { thread } => self.crew.replace(thread),
            Op::Stop => self.stop(),
            Op::Rebuild { config, clock, keeps, stops } => {
                self.rebuild(config, clock, keeps, stops);
            }
        }
    }

    fn config(&self) -> Config {
        self.stage.config
    }

    /// Has a thread do something that fires nothing.
    fn on(&mut self, thread: u8, f: impl FnOnce(&Stage) + Send + 'static) {
        let stage = self.stage.clone();
        self.crew.ask(thread, move || f(&stage));
        self.judge(Scene::Call);
    }

    fn judge(&mut self, scene: Scene) -> usize {
        self.oracle.judge(scene, &self.log.take())
    }

    fn burst(&mut self, thread: u8, count: usize, at: At, apart: u8, owned: bool, task: Task) {
        let room = MOST.saturating_sub(self.oracle.timers.len());
        let (at_ns, count) = (self.stage.resolve_ns(at), count.min(room));
        self.on(thread, move |stage| {
            let apart_ns = stage.config.tick_ns().saturating_mul(apart.into());
            for n in 0..count {
                let at_ns = at_ns.saturating_add(apart_ns.saturating_mul(n as u64));
                stage.schedule(at_ns, By::Delay, owned, stage.log.token(task));
            }
        });
    }

    fn storm(&mut self, thread: u8, at: At) {
        if std::mem::replace(&mut self.has_stormed, true) {
            return;
        }
        let at_ns = self.stage.resolve_ns(at);
        self.on(thread, move |stage| {
            let before = stage.handles().len();
            for _ in 0..STORM {
                stage.schedule(at_ns, By::Delay, true, stage.log.token(Task::Nothing));
            }
            let mine = stage.handles().split_off(before);
            mine.into_iter().for_each(|held| stage.cancel(held, Way::Cancel));
        });
    }

    fn move_clock_to(&self, ns: u64) {
        let by_ns = ns.saturating_sub(self.stage.now_ns());
        self.stage.clock.advance(Duration::from_nanos(by_ns));
    }

    fn advance(&mut self, to: At, manner: Manner) {
        let (now_ns, to_ns) = (self.stage.now_ns(), self.stage.resolve_ns(to));
        let by = Duration::from_nanos(to_ns.saturating_sub(now_ns));
        self.stage.set_manner(manner);
        let fired = self.stage.engine.advance(by);
        let start = self.oracle.floor(now_ns);
        let counted = self.judge(Scene::Advance { start });
        if self.oracle.is_stopped {
            return assert_eq!((fired, counted), (Err(TurnError::Stopped), 0));
        }
        assert_eq!(fired, Ok(counted));
        assert!(self.stage.now_ns() >= now_ns.max(to_ns), "the clock went all the way");
        self.oracle.settled(self.stage.now_ns());
        self.oracle.wakes_at = None;
        self.at_rest.fill(true);
    }

    /// A turn by itself, with all that it promises.
    fn turn(&mut self, thread: u8, shard: usize, at_most: usize, manner: Manner) {
        let now_ns = self.stage.now_ns();
        if let Some(turn) = self.bare_turn(thread, shard, at_most, manner) {
            self.assert_next_turn_is_right(&turn, shard, at_most, now_ns);
        }
    }

    fn bare_turn(
        &mut self,
        thread: u8,
        shard: usize,
        at_most: usize,
        manner: Manner,
    ) -> Option<Turn> {
        self.stage.set_manner(manner);
        let stage = self.stage.clone();
        let turn = self.crew.ask(thread, move || match at_most {
            usize::MAX => stage.engine.turn(shard),
            _ => stage.engine.turn_at_most(shard, at_most),
        });
        let counted = self.judge(Scene::Turn { shard });
        let shards = self.config().shards();
        if shard >= shards || self.oracle.is_stopped {
            let no_shard = Err(TurnError::NoSuchShard { shard, shards });
            let is_stopped = self.oracle.is_stopped && turn == Err(TurnError::Stopped);
            assert!(is_stopped || (shard >= shards && turn == no_shard), "{turn:?}");
            assert_eq!(counted, 0);
            return None;
        }
        let turn = turn.expect("a turn of a shard that is there");
        assert_eq!(turn.fired, counted);
        assert!(counted <= at_most, "{counted} of at most {at_most}");
        self.at_rest[shard] = !turn.more;
        self.note_wake_up(&turn);
        Some(turn)
    }

    /// Turns of all shards until nothing is due and nothing is left to do; answers when the next
    /// is needed.
    fn settle(&mut self) -> Option<u64> {
        if self.oracle.is_stopped {
            return None;
        }
        for _ in 0..PATIENCE {
            let (mut again, mut next) = (false, None::<Instant>);
            for shard in 0..self.config().shards() {
                let turn = self.bare_turn(0, shard, usize::MAX, Manner::TakesAll)?;
                again |= turn.more || turn.fired > 0;
                next = [next, turn.next].into_iter().flatten().min();
            }
            if !again {
                self.oracle.settled(self.stage.now_ns());
                self.assert_no_oversleeping(next);
                return next.map(|next| (next - self.stage.zero).as_nanos() as u64);
            }
        }
        panic!("more than {PATIENCE} turns at one time");
    }

    fn short_of_next(&mut self) {
        let Some(next_ns) = self.settle() else { return };
        let fired = self.oracle.counts.fired;
        assert!(next_ns > self.stage.now_ns(), "it is there already, and nothing was to be done");
        self.move_clock_to(next_ns - 1);
        assert_eq!(self.settle(), Some(next_ns), "nothing has changed");
        assert_eq!(self.oracle.counts.fired, fired, "nothing was due");
    }

    fn stop(&mut self) {
        for tokens in [self.stage.engine.stop(), self.stage.engine.stop()] {
            let tokens = tokens.expect("no task is running");
            self.account_for_returned(tokens.iter().map(|token| token.number).collect());
            drop(tokens);
            self.judge(Scene::Call);
        }
    }

    fn account_for_returned(&mut self, numbers: Vec<usize>) {
        self.judge(Scene::Call);
        self.oracle.counts.returned += numbers.len() as u64;
        for number in numbers {
            self.oracle.leave(number, Fate::Stopped);
        }
        assert!(self.oracle.pending.is_empty(), "not returned: {:?}", self.oracle.pending);
        self.oracle.is_stopped = true;
        self.at_rest.fill(true);
    }

    /// Another engine in place of this one. Payloads that were pending go on there, or, if the
    /// engine is not stopped but dropped, with it.
    fn rebuild(&mut self, config: Config, clock: Option<At>, keeps: bool, stops: bool) {
        let moving = if stops {
            let tokens = self.stage.engine.stop().expect("no task is running");
            self.account_for_returned(tokens.iter().map(|token| token.number).collect());
            tokens
        } else {
            Vec::new()
        };
        let now_ns = self.stage.now_ns();
        let left_ns = |number: usize| match self.oracle.timers[number].asked_ns {
            u64::MAX => u64::MAX,
            asked_ns => asked_ns.saturating_sub(now_ns),
        };
        let left_ns: Vec<u64> = moving.iter().map(|token| left_ns(token.number)).collect();
        let new_clock = clock.map_or_else(|| self.stage.clock.clone(), |_| ManualClock::new());
        if let Some(at) = clock {
            set(&new_clock, at, config);
        }
        let next = Stage::new(config, self.stage.share, &new_clock, &self.log);
        next.handles().append(&mut self.stage.handles());
        let before = std::mem::replace(&mut self.stage, next);
        let kept = (keeps && stops).then(|| before.clone());
        drop(before);
        self.judge(Scene::End);
        self.oracle.start_over(config, self.stage.zero);
        self.at_rest = vec![true; config.shards()];
        for (mut token, left_ns) in moving.into_iter().zip(left_ns) {
            token.rename();
            let at_ns = self.stage.now_ns().saturating_add(left_ns);
            self.stage.schedule(at_ns, By::Delay, true, token);
        }
        self.judge(Scene::Call);
        self.compare();
        drop(kept);
        self.judge(Scene::End);
    }

    /// From turn to turn until nothing is left that will ever fire.
    fn run_dry(&mut self) {
        let mut wake_ups = 0;
        while let Some(next_ns) = self.settle() {
            // Tasks that run on the way file more.
            let filed = self.oracle.timers.len() + self.oracle.counts.reset as usize;
            let most = filed * usize::from(self.stage.geometry.levels()) + 1;
            assert!(wake_ups <= most, "more than {most} wake-ups for {filed} timers");
            self.move_clock_to(next_ns);
            wake_ups += 1;
        }
        self.assert_only_the_unreachable_is_left();
    }
}

/// Moves a clock that stands at zero.
fn set(clock: &ManualClock, at: At, config: Config) {
    let (slots, reach) = config.shape();
    let geometry = tickless::local::Geometry::new(slots, reach).expect("the shapes are valid");
    clock.advance(Duration::from_nanos(at.resolve_ns(&geometry, config.tick_ns(), 0)));
}
