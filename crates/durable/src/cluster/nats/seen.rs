//! What an instance knows of the bucket, and since when.
//!
//! *Owner*: any thread, under its lock.
//!
//! *Invariant*: a revision is never older than the one that was known before.
//!
//! *Tested by*: here, and `tests/durable/nats/`.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::cluster::clock::since_start;
use crate::cluster::hub::First;
use crate::store::nats::FirstDue;

/// What this instance knows of the bucket.
#[derive(Debug, Default)]
pub(super) struct Seen {
    /// The leases, by shard.
    pub(super) shards: BTreeMap<u32, Key>,
    /// By instance, those that may be alive.
    pub(super) instances: BTreeMap<u64, Key>,
    /// Of the shards that were opened here, with their fences.
    pub(super) firsts: BTreeMap<u32, (u64, FirstDue)>,
}

/// A key of the bucket.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Key {
    pub(super) revision: u64,
    /// When this revision was first seen, by [`since_start`].
    pub(super) since: Duration,
    /// When it was written by the clock of the bucket's leader, in microseconds since 1970, if that
    /// was read.
    pub(super) written_us: Option<i64>,
    pub(super) holder: u64,
    pub(super) fence: u64,
    /// When the first timer of the shard was due, in milliseconds since 1970, as its holder has
    /// said at that time, which is as of `written_us`. `None`: it has none.
    due_ms: Option<u64>,
    due_at_us: i64,
}

pub(super) fn lock(seen: &Mutex<Seen>) -> MutexGuard<'_, Seen> {
    seen.lock().unwrap_or_else(PoisonError::into_inner)
}

// === impl Seen ===

impl Seen {
    /// A holder or an instance says which revisions it has written: `KEY REVISION ..`.
    pub(super) fn hear(&mut self, renewed: &str) {
        let now = since_start();
        let words: Vec<&str> = renewed.split(' ').collect();
        for pair in words.chunks_exact(2) {
            let Ok(revision) = pair[1].parse() else { continue };
            if let Some(key) = self.key(pair[0]) {
                // Who has it does not change with a renewal. What is new is read in a round.
                if key.revision > 0 && key.revision < revision {
                    (key.revision, key.since, key.written_us) = (revision, now, None);
                }
            }
        }
    }

    fn key(&mut self, name: &str) -> Option<&mut Key> {
        match name.split_once('.')? {
            ("s", shard) => self.shards.get_mut(&shard.parse().ok()?),
            ("i", instance) => self.instances.get_mut(&instance.parse().ok()?),
            _ => None,
        }
    }

    /// A key was read, with the time at which it was written.
    pub(super) fn read_written(&mut self, name: &str, revision: u64, value: &[u8], us: i64) {
        self.read(name, revision, value);
        if let Some(key) = self.key(name).filter(|key| key.revision == revision) {
            key.written_us = Some(us);
        }
    }

    /// The same of when its first timer is due.
    pub(super) fn read_due(&mut self, name: &str, revision: u64, due_ms: Option<u64>, us: i64) {
        if let Some(key) = self.key(name).filter(|key| key.revision == revision) {
            (key.due_ms, key.due_at_us) = (due_ms, us);
        }
    }

    /// What is known of a shard, and when its first timer is due: what is known of that, too,
    /// unless it is open here.
    pub(super) fn known(&self, shard: u32) -> (Key, Option<u64>) {
        let known = self.shards.get(&shard).copied().unwrap_or_default();
        let due_ms = self.open(shard, &known).map_or(known.due_ms, FirstDue::ms);
        (known, due_ms)
    }

    fn open(&self, shard: u32, known: &Key) -> Option<&FirstDue> {
        let open = self.firsts.get(&shard).filter(|(fence, _)| *fence == known.fence);
        open.map(|(_, first)| first)
    }

    /// The same of each shard. Of one that another instance holds, it is what that one has said
    /// with its last renewal: what was not late then may have fired since.
    pub(super) fn firsts(&self, shards: u32, now_ms: u64, lease: Duration) -> Vec<First> {
        let now = since_start();
        let first = |shard| {
            let (known, due_ms) = self.known(shard);
            let is_held = known.holder != 0 && !known.is_over(now, lease);
            let said_ms = u64::try_from(known.due_at_us / 1000).unwrap_or(0);
            let is_told = is_held && self.open(shard, &known).is_none();
            First { shard, due_ms, at_ms: if is_told { said_ms } else { now_ms } }
        };
        (0..shards).map(first).collect()
    }

    /// A key was read, or was written here.
    pub(super) fn read(&mut self, name: &str, revision: u64, value: &[u8]) {
        let key = match name.split_once('.') {
            Some(("s", shard)) => shard.parse().ok().map(|n| self.shards.entry(n).or_default()),
            Some(("i", instance)) => {
                instance.parse().ok().map(|n| self.instances.entry(n).or_default())
            }
            _ => None,
        };
        // A server that is behind tells what was before.
        let Some(key) = key.filter(|key| key.revision <= revision) else { return };
        if key.revision < revision {
            (key.revision, key.since, key.written_us) = (revision, since_start(), None);
        }
        let value = String::from_utf8_lossy(value);
        let numbers = value.split_once(' ').map(|(holder, fence)| (holder.parse(), fence.parse()));
        if let Some((Ok(holder), Ok(fence))) = numbers {
            // A taking does not know its number yet.
            (key.holder, key.fence) = (holder, if fence == 0 { revision } else { fence });
        }
    }
}

impl Key {
    /// Until when somebody had the shard, by that clock, in milliseconds; zero: nobody ever had it.
    /// What is not known counts as a time to come, so that nothing is taken for missed.
    pub(super) fn served_ms(&self, lease: Duration) -> u64 {
        match self.written_us.and_then(|us| u64::try_from(us / 1000).ok()) {
            _ if self.revision == 0 => 0,
            None => u64::MAX,
            Some(written_ms) if self.holder == 0 => written_ms,
            Some(written_ms) => {
                let lease_ms = u64::try_from(lease.as_millis()).unwrap_or(u64::MAX);
                written_ms.saturating_add(lease_ms)
            }
        }
    }

    pub(super) fn is_over(&self, now: Duration, lease: Duration) -> bool {
        now >= self.since + lease
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_that_stands_still_is_over_and_one_that_was_read_late_is_not_younger() {
        let mut seen = Seen::default();
        seen.read("s.3", 10, b"7 0");
        let first = seen.shards[&3];
        assert_eq!((first.holder, first.fence, first.revision), (7, 10, 10));
        // The same again, from a server that is behind, and of a key that nobody knows.
        seen.read("s.3", 10, b"7 0");
        seen.read("s.3", 9, b"6 5");
        seen.hear("s.3 9 s.4 11 x");
        let same = seen.shards[&3];
        assert_eq!((same.holder, same.revision, same.since), (7, 10, first.since));
        assert!(!seen.shards.contains_key(&4));
        let lease = Duration::from_secs(1);
        assert!(!same.is_over(first.since, lease) && same.is_over(first.since + lease, lease));
        seen.hear("s.3 12");
        let renewed = seen.shards[&3];
        assert_eq!((renewed.holder, renewed.fence, renewed.revision), (7, 10, 12));
        seen.read("s.3", 13, b"0 0");
        assert_eq!(seen.shards[&3].holder, 0);
    }

    #[test]
    fn how_late_a_shard_was_is_as_of_what_its_holder_said_and_goes_on_if_there_is_none() {
        let (mut seen, lease) = (Seen::default(), Duration::from_secs(3600));
        seen.read("s.0", 10, b"7 9");
        seen.read_due("s.0", 10, Some(4000), 3_000_000);
        let first = |seen: &Seen, lease| {
            let First { due_ms, at_ms, .. } = seen.firsts(1, 9000, lease)[0];
            (due_ms, at_ms)
        };
        assert_eq!(first(&seen, lease), (Some(4000), 3000), "it may have fired since");
        assert_eq!(first(&seen, Duration::ZERO), (Some(4000), 9000), "its lease is over");
        // Heard of, and written here: what was said stays.
        seen.hear("s.0 11");
        seen.read("s.0", 12, b"0 0");
        assert_eq!(first(&seen, lease), (Some(4000), 9000), "nobody holds it");
        seen.read("s.0", 13, b"8 0");
        seen.read_due("s.0", 12, Some(1), 1);
        seen.read_due("s.0", 13, None, 5_000_000);
        assert_eq!(first(&seen, lease), (None, 5000));
    }

    #[test]
    fn until_when_a_shard_was_served_is_not_guessed() {
        let (mut seen, lease) = (Seen::default(), Duration::from_secs(2));
        assert_eq!(Key::default().served_ms(lease), 0);
        seen.read("s.3", 10, b"7 0");
        assert_eq!(seen.shards[&3].served_ms(lease), u64::MAX);
        seen.read_written("s.3", 10, b"7 0", 5_000_000);
        assert_eq!(seen.shards[&3].served_ms(lease), 7000, "as long as the lease may last");
        seen.hear("s.3 11");
        assert_eq!(seen.shards[&3].served_ms(lease), u64::MAX);
        seen.read_written("s.3", 12, b"0 0", 6_000_000);
        assert_eq!(seen.shards[&3].served_ms(lease), 6000, "it was let go of then");
    }
}
