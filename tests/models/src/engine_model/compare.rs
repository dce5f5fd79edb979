//! Everything that can be observed of an engine, held against the oracle.

use std::time::{Duration, Instant};

use tickless::{Handle, State, Turn};

use super::Pair;
use super::log::Token;
use super::oracle::{Oracle, Scene};
use super::stage::Held;

impl Pair {
    /// Both agree, and the engine's invariants hold.
    pub(super) fn compare(&self) {
        let (engine, oracle) = (&self.stage.engine, &self.oracle);
        engine.check().unwrap_or_else(|violation| panic!("{violation}"));
        assert_eq!(engine.len(), oracle.len());
        assert_eq!(engine.is_empty(), oracle.len() == 0);
        assert_eq!(engine.shards(), self.config().shards());
        assert_eq!(engine.now() - self.stage.zero, self.stage.clock.elapsed());
        assert_eq!(oracle.alive(), oracle.pending.len(), "payloads that exist");
        assert_eq!(oracle.timers.len(), self.log.numbers());
        self.compare_stats();
        self.compare_snapshot();
        self.compare_overdue();
        for held in &*self.stage.handles() {
            compare_handle(oracle, held);
        }
    }

    fn compare_stats(&self) {
        let (stats, counts) = (self.stage.engine.stats(), self.oracle.counts);
        assert_eq!(stats.scheduled, counts.scheduled);
        assert_eq!(stats.cancelled, counts.cancelled);
        assert_eq!(stats.reset, counts.reset);
        assert_eq!(stats.fired, counts.fired);
        assert_eq!(stats.returned, counts.returned);
        assert_eq!(stats.panicked, counts.panicked);
        assert_eq!(stats.pending, self.oracle.len() as u64);
        assert_eq!(stats.wake_ups, 0, "there are no threads");
        assert!(stats.seated <= stats.scheduled);
        assert_eq!(stats.lateness.count, counts.fired);
        assert_eq!(stats.lateness.max, Duration::from_nanos(counts.latest_ns));
    }

    /// At rest the snapshot is what is pending; else a part of it.
    fn compare_snapshot(&self) {
        let snapshot = self.stage.engine.snapshot();
        assert_eq!(snapshot.len(), snapshot.iter().count());
        let levels = 1..=self.stage.geometry.levels();
        let shards = 0..self.config().shards();
        let is_somewhere = |timer: &tickless::PendingTimer| {
            levels.contains(&timer.level) && shards.contains(&timer.shard)
        };
        assert!(snapshot.iter().all(is_somewhere));
        let mut found: Vec<_> = snapshot.iter().map(|timer| timer.deadline).collect();
        found.sort_unstable();
        let pending = self.oracle.pending.iter();
        let mut expected: Vec<_> = pending.map(|&(due, _)| self.oracle.instant(due)).collect();
        expected.sort_unstable();
        if !self.at_rest.iter().all(|at_rest| *at_rest) {
            let mut rest = expected.iter();
            let is_part = found.iter().all(|deadline| rest.any(|other| other == deadline));
            return assert!(is_part, "{found:?} is more than {expected:?}");
        }
        assert_eq!(found, expected, "the snapshot");
    }

    /// At rest what is overdue is as old as the oldest that is due; else no older.
    fn compare_overdue(&self) {
        let overdue = self.stage.engine.overdue();
        let now_ns = self.stage.clock.elapsed().as_nanos() as u64;
        let first = self.oracle.pending.first().map(|&(due, _)| due);
        let first = first.filter(|&due| due <= self.oracle.floor(now_ns));
        let since_ns = first.and_then(|due| self.oracle.start_ns(due)).unwrap_or(now_ns);
        let oldest = Duration::from_nanos(now_ns - since_ns);
        // Of very many, dead or alive, it looks at some.
        let are_few = self.oracle.counts.scheduled + self.oracle.counts.reset <= 4096;
        if !self.at_rest.iter().all(|at_rest| *at_rest) || !are_few {
            return assert!(overdue.oldest <= oldest, "{overdue:?} is not {oldest:?}");
        }
        assert_eq!((overdue.oldest, overdue.shards > 0), (oldest, first.is_some()));
        assert_eq!(overdue.stuck, []);
        assert_eq!(self.stage.engine.stats().overdue, oldest);
    }

    /// A turn at `now_ns` left nothing behind that it should have fired, and says when the next
    /// one is needed: in time, and not in vain.
    pub(super) fn assert_next_turn_is_right(
        &self,
        turn: &Turn,
        shard: usize,
        at_most: usize,
        now_ns: u64,
    ) {
        let zero = self.stage.zero;
        let now = self.oracle.floor(now_ns);
        let first = self.first_on(shard);
        let is_due = first.is_some_and(|due| due <= now);
        let is_done = turn.fired < at_most && self.oracle.born.is_empty();
        assert!(!(is_due && is_done), "something is left that is due: {first:?} at {now}");
        assert!(!is_due || turn.more, "something is left that is due, and no turn is asked for");
        assert_eq!(turn.sleep(zero).is_none(), turn.next.is_none() && !turn.more);
        if turn.more {
            assert_eq!(turn.sleep(zero), Some(Duration::ZERO));
        } else {
            self.assert_sleep_fits(turn.next, first);
            let begins = turn.next.map(|next| next - zero);
            assert!(begins.is_none_or(|ns| ns > Duration::from_nanos(now_ns)), "in vain");
        }
    }

    /// From now on whoever is due before that must ring.
    pub(super) fn note_wake_up(&mut self, turn: &Turn) {
        let is_only = self.config().shards() == 1;
        let zero = self.stage.zero;
        let tick = |next: Instant| self.oracle.floor((next - zero).as_nanos() as u64);
        self.oracle.wakes_at = is_only.then(|| turn.next.map_or(u64::MAX, tick));
    }

    /// The first tick at which something is due on a shard.
    fn first_on(&self, shard: usize) -> Option<u64> {
        if self.config().shards() == 1 {
            return self.oracle.pending.first().map(|&(due, _)| due);
        }
        let snapshot = self.stage.engine.snapshot();
        let there = snapshot.iter().filter(|timer| timer.shard == shard);
        let first = there.filter_map(|timer| timer.deadline).min()?;
        Some(self.oracle.floor((first - self.stage.zero).as_nanos() as u64))
    }

    pub(super) fn assert_no_oversleeping(&self, next: Option<Instant>) {
        self.assert_sleep_fits(next, self.oracle.pending.first().map(|&(due, _)| due));
    }

    fn assert_sleep_fits(&self, next: Option<Instant>, first: Option<u64>) {
        let Some(due) = first.and_then(|due| self.oracle.instant(due)) else { return };
        assert!(next.is_some_and(|next| next <= due), "asleep until {next:?}, due at {due:?}");
    }

    pub(super) fn assert_only_the_unreachable_is_left(&self) {
        let mut left = self.oracle.pending.iter().map(|&(due, _)| due);
        assert!(left.all(|due| self.oracle.start_ns(due).is_none()), "it will never fire");
    }

    /// The end of the engine, which handles outlive.
    pub(super) fn end(self) {
        let Pair { stage, mut oracle, crew, log, .. } = self;
        let handles = std::mem::take(&mut *stage.handles());
        drop(stage);
        // With them goes what the other threads kept of the engine.
        drop(crew);
        oracle.judge(Scene::End, &log.take());
        for (n, held) in handles.into_iter().enumerate() {
            assert_eq!(held.handle.state(), oracle.state_of(held.number));
            match n % 3 {
                0 => assert!(!held.handle.cancel()),
                1 => assert!(held.handle.take().is_none()),
                _ => assert_it_cannot_be_moved(held.handle),
            }
        }
        oracle.judge(Scene::End, &log.take());
        assert_eq!(oracle.alive(), 0, "every payload is gone");
    }
}

fn assert_it_cannot_be_moved(mut handle: Handle<Token>) {
    assert!(handle.reset(Duration::from_secs(1)).is_err());
    assert_ne!(handle.state(), State::Pending);
}

fn compare_handle(oracle: &Oracle, Held { number, handle }: &Held) {
    assert_eq!(handle.state(), oracle.state_of(*number), "timer {number}");
    let timer = oracle.timers[*number];
    if oracle.is_stopped {
        assert_eq!(handle.deadline(), None, "the deadline of {number}");
    } else if timer.is_ours {
        assert_eq!(handle.deadline(), oracle.instant(timer.due), "the deadline of {number}");
    }
}
