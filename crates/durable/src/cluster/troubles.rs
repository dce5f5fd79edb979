//! What an instance has failed at, and when it may try to open a shard again.
//!
//! *Owner*: any thread, under the lock of [`State`](super::inner::State).
//!
//! *Tested by*: here, `tests/durable/postgres/operating.rs`.

use std::collections::BTreeMap;
use std::hash::{BuildHasher, RandomState};
use std::time::{Duration, SystemTime};

use crate::error::StoreError;

/// The longest pause before a shard is tried again.
const MOST: Duration = Duration::from_secs(60);

/// Something that an instance has failed at, and that is still so: see
/// [`Cluster::failure`](super::Cluster::failure).
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Failure {
    /// What has failed.
    pub error: StoreError,
    /// When, by the wall clock of this machine: the last time, if it has failed again.
    pub at: SystemTime,
    /// The shard that could not be opened or whose service has failed. `None`: the connection of
    /// the instance itself.
    pub shard: Option<u32>,
}

#[derive(Debug, Default)]
pub(super) struct Troubles {
    failures: BTreeMap<Option<u32>, Failure>,
    pauses: BTreeMap<u32, Pause>,
}

/// A shard that is not to be opened for a while.
#[derive(Clone, Copy, Debug)]
struct Pause {
    /// How often in a row it has failed.
    failed: u32,
    /// By [`since_start`](super::clock::since_start).
    until: Duration,
}

// === impl Troubles ===

impl Troubles {
    pub(super) fn note(&mut self, shard: Option<u32>, error: &StoreError) {
        let failure = Failure { error: error.clone(), at: SystemTime::now(), shard };
        self.failures.insert(shard, failure);
    }

    /// What has failed works again.
    pub(super) fn clear(&mut self, shard: Option<u32>) {
        self.failures.remove(&shard);
    }

    /// The last failure of those that have not been cleared.
    pub(super) fn last(&self) -> Option<&Failure> {
        self.failures.values().max_by_key(|failure| failure.at)
    }

    /// Whether the connection of the instance itself works, as far as is known.
    pub(super) fn is_connected(&self) -> bool {
        !self.failures.contains_key(&None)
    }

    /// A shard has failed: it is left alone for a while, twice as long as the last time, from a
    /// tenth of a lease on. Up to half of that is random, so that instances do not come back to a
    /// server together. If it has worked for a lease since the last pause, it begins again.
    pub(super) fn pause(&mut self, shard: u32, now: Duration, lease: Duration) {
        let before = self.pauses.get(&shard).filter(|pause| now < pause.until + lease);
        let failed = before.map_or(0, |pause| pause.failed.saturating_add(1));
        let whole = (lease / 10).saturating_mul(1 << failed.min(20)).min(MOST);
        let parts = RandomState::new().hash_one(shard) % 1000;
        let random = whole.mul_f64(parts as f64 / 2000.0);
        self.pauses.insert(shard, Pause { failed, until: now + whole - random });
    }

    /// The shards that are to be left alone.
    pub(super) fn paused(&self, now: Duration) -> Vec<u32> {
        let is_paused = |(_, pause): &(&u32, &Pause)| now < pause.until;
        self.pauses.iter().filter(is_paused).map(|(shard, _)| *shard).collect()
    }

    /// When the first of the pauses is over.
    pub(super) fn first_end(&self, now: Duration) -> Option<Duration> {
        self.pauses.values().map(|pause| pause.until).filter(|until| *until > now).min()
    }

    /// Forgets pauses that were over long ago, and failures of shards that others have by now.
    pub(super) fn tidy(&mut self, now: Duration, lease: Duration, held: &[u32]) {
        self.pauses.retain(|_, pause| now < pause.until + lease);
        let pauses = &self.pauses;
        let is_mine = |shard: &u32| pauses.contains_key(shard) || held.contains(shard);
        self.failures.retain(|shard, _| shard.as_ref().is_none_or(is_mine));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::StoreErrorKind;

    const LEASE: Duration = Duration::from_secs(10);

    fn pauses(troubles: &mut Troubles, mut now: Duration, count: usize) -> Vec<Duration> {
        let mut pauses = Vec::new();
        for _ in 0..count {
            troubles.pause(3, now, LEASE);
            assert_eq!(troubles.paused(now), [3]);
            let until = troubles.first_end(now).unwrap();
            assert!(troubles.paused(until).is_empty());
            pauses.push(until - now);
            now = until;
        }
        pauses
    }

    #[test]
    fn a_shard_that_fails_again_and_again_is_left_alone_for_longer_each_time() {
        let mut troubles = Troubles::default();
        let waited = pauses(&mut troubles, Duration::from_secs(100), 10);
        for (n, pause) in waited.iter().enumerate() {
            let whole = Duration::from_secs(1 << n).min(MOST);
            assert!(*pause > whole / 3 && *pause <= whole, "{n}: {waited:?}");
        }
        let first = troubles.first_end(Duration::ZERO).unwrap();
        // It has worked for a lease.
        let waited = pauses(&mut troubles, first + LEASE, 1);
        assert!(waited[0] <= Duration::from_secs(1));
    }

    #[test]
    fn a_failure_is_told_until_it_is_over() {
        let error = |text: &str| StoreError::new(StoreErrorKind::Io, text);
        let mut troubles = Troubles::default();
        troubles.note(None, &error("the connection"));
        troubles.note(Some(3), &error("a shard"));
        troubles.clear(None);
        let last = troubles.last().unwrap();
        assert_eq!((last.shard, last.error.to_string()), (Some(3), "a shard".to_owned()));
        troubles.pause(3, Duration::ZERO, LEASE);
        troubles.tidy(LEASE, LEASE, &[]);
        assert!(troubles.last().is_some(), "it is to be tried again");
        troubles.tidy(LEASE * 3, LEASE, &[3]);
        assert!(troubles.last().is_some(), "it is still here");
        troubles.tidy(LEASE * 3, LEASE, &[]);
        assert!(troubles.last().is_none(), "another instance has it");
    }
}
