//! The keeper's part: heartbeats, leases, and who is alive.
//!
//! *Owner*: the keeper's thread.
//!
//! *Tested by*: `tests/durable/nats/`.

use std::collections::HashMap;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use async_nats::jetstream::stream::PurgeResponse;
use serde_json::json;

use crate::cluster::clock::since_start;
use crate::cluster::hub::{First, Keeping, Reading, Renewal, Taken, Taking};
use crate::cluster::message::Message;
use crate::error::StoreError;
use crate::store::nats::client::{Listening, Nats};
use crate::store::nats::names::{Names, due_ms_of};
use crate::store::nats::reply::{failed, time_us};

use super::seen::{Key, Seen, lock};

/// How often the clock is tried to be read by a new instance.
const TRIES: u32 = 50;

pub(super) struct Watch {
    pub(super) nats: Nats,
    /// In its place until the clock is known, if the instance starts with this.
    pub(super) starting: Option<Nats>,
    pub(super) names: Names,
    pub(super) shards: u32,
    pub(super) lease: Duration,
    pub(super) seen: Arc<Mutex<Seen>>,
    pub(super) told: Receiver<Message>,
    pub(super) has_read_clock: bool,
    pub(super) _listening: Listening,
}

// === impl Watch ===

impl Watch {
    fn asking(&self) -> &Nats {
        self.starting.as_ref().unwrap_or(&self.nats)
    }

    /// Reads the bucket, and returns when its leader has got that revision, if that is there.
    fn read(&self, revision: u64) -> Result<Option<i64>, StoreError> {
        let which = json!({ "multi_last": [self.names.key("s.*"), self.names.key("i.*")] });
        let all = self.asking().read(&self.names.bucket(), &which).map_err(failed)?;
        let prefix = self.names.key("");
        let mut seen = lock(&self.seen);
        for stored in &all {
            if let Some(key) = stored.subject.strip_prefix(&prefix) {
                seen.read_written(key, stored.sequence, &stored.payload, time_us(stored));
                seen.read_due(key, stored.sequence, due_ms_of(stored), time_us(stored));
            }
        }
        let own = all.iter().find(|stored| stored.sequence == revision);
        Ok(own.map(time_us))
    }

    /// Writes the key of a shard.
    fn swap(
        &self,
        shard: u32,
        revision: u64,
        value: &str,
        due_ms: Option<u64>,
    ) -> Result<Option<u64>, StoreError> {
        let key = format!("s.{shard}");
        let swapped = self.names.swap_with(&self.nats, &key, revision, value, due_ms);
        let swapped = swapped.map_err(failed)?;
        if let Some(revision) = swapped {
            lock(&self.seen).read(&key, revision, value.as_bytes());
        }
        Ok(swapped)
    }

    /// Says that the instance is alive, and reads the clock if it can.
    fn say_alive(&mut self, instance: u64) -> Result<Option<Reading>, StoreError> {
        let key = format!("i.{instance}");
        let sent = since_start();
        let revision =
            self.asking().add(self.names.key(&key), &[], b"0 0".to_vec()).map_err(failed)?;
        let received = since_start();
        self.tell_renewed(&[(key, revision)]);
        let tries = if self.has_read_clock { 1 } else { TRIES };
        for _ in 0..tries {
            if let Some(shows_us) = self.read(revision)? {
                (self.has_read_clock, self.starting) = (true, None);
                return Ok(Some(Reading { sent, received, shows_us }));
            }
            // The server that has replied is behind.
            if tries > 1 {
                thread::sleep(Duration::from_millis(20));
            }
        }
        Ok(None)
    }

    /// Renews the leases that are still the instance's, and returns them.
    fn renew_all(&self, instance: u64, leases: &[Taken]) -> Result<Vec<Taken>, StoreError> {
        let (mut renewed, mut told) = (Vec::new(), Vec::new());
        for &taken in leases {
            let fence = taken.fence.cast_unsigned();
            let (known, due_ms) = lock(&self.seen).known(taken.shard);
            if (known.holder, known.fence) != (instance, fence) {
                continue;
            }
            let value = format!("{instance} {fence}");
            // If its revision is another one, somebody has the shard. Or the reply to the last
            // renewal was lost, and the next round knows the revision.
            if let Some(revision) = self.swap(taken.shard, known.revision, &value, due_ms)? {
                renewed.push(taken);
                told.push((format!("s.{}", taken.shard), revision));
            }
        }
        if !told.is_empty() {
            self.tell_renewed(&told);
        }
        Ok(renewed)
    }

    fn tell_renewed(&self, renewed: &[(String, u64)]) {
        let words: Vec<String> =
            renewed.iter().map(|(key, revision)| format!("{key} {revision}")).collect();
        let text = format!("renewed {}", words.join(" "));
        self.nats.tell(self.names.told(), text.into_bytes());
    }
}

impl Keeping for Watch {
    fn pauses(&mut self) -> Result<Vec<crate::record::Key>, StoreError> {
        Ok(self.names.pauses(&self.nats)?.0)
    }

    fn next_session(&mut self) -> Result<u64, StoreError> {
        self.names.count(self.asking(), "sessions")
    }

    fn renew(
        &mut self,
        instance: u64,
        leases: &[Taken],
        _: Duration,
    ) -> Result<Renewal, StoreError> {
        // First, because this reads what became of the leases, too.
        let reading = self.say_alive(instance)?;
        let sent = since_start();
        let renewed = self.renew_all(instance, leases)?;
        Ok(Renewal { sent, renewed, reading })
    }

    fn alive(&mut self, lease: Duration) -> Result<Vec<u64>, StoreError> {
        let now = since_start();
        let mut seen = lock(&self.seen);
        // Long dead ones.
        let is_dead = |key: &Key| now >= key.since + lease * 10;
        let dead: Vec<u64> =
            seen.instances.iter().filter(|(_, key)| is_dead(key)).map(|(one, _)| *one).collect();
        for instance in dead {
            seen.instances.remove(&instance);
            let key = self.names.key(&format!("i.{instance}"));
            self.nats.purge(&self.names.bucket(), &json!({ "filter": key }));
        }
        let mut shards: HashMap<u64, usize> = HashMap::new();
        for key in seen.shards.values().filter(|key| !key.is_over(now, lease)) {
            *shards.entry(key.holder).or_default() += 1;
        }
        let alive = seen.instances.iter().filter(|(_, key)| !key.is_over(now, lease));
        let mut alive: Vec<u64> = alive.map(|(instance, _)| *instance).collect();
        // Who has more keeps the one more, so that no shard changes hands for nothing.
        alive.sort_by_key(|one| (usize::MAX - shards.get(one).copied().unwrap_or(0), *one));
        Ok(alive)
    }

    fn take(
        &mut self,
        instance: u64,
        held: &[u32],
        most: usize,
        lease: Duration,
    ) -> Result<Vec<Taking>, StoreError> {
        let now = since_start();
        let known = |shard: &u32| lock(&self.seen).known(*shard).0;
        let mut free: Vec<(u32, Key)> = (0..self.shards)
            .filter(|shard| !held.contains(shard))
            .map(|shard| (shard, known(&shard)))
            .filter(|(_, key)| [0, instance].contains(&key.holder) || key.is_over(now, lease))
            .collect();
        // Instances that look at the same time begin at different ones.
        let count = u64::from(self.shards);
        free.sort_by_key(|(shard, key)| {
            (key.since, (u64::from(*shard) + count - instance % count) % count)
        });
        let mut taken = Vec::new();
        for (shard, before) in free {
            if taken.len() == most {
                break;
            }
            let (_, due_ms) = lock(&self.seen).known(shard);
            match self.swap(shard, before.revision, &format!("{instance} 0"), due_ms) {
                Ok(Some(revision)) => {
                    let served_ms = before.served_ms(lease);
                    let fence = revision.cast_signed();
                    taken.push(Taking { taken: Taken { shard, fence }, served_ms });
                }
                Ok(None) => {}
                // What was taken is to be opened. The next round finds the others.
                Err(_) if !taken.is_empty() => break,
                Err(error) => return Err(error),
            }
        }
        Ok(taken)
    }

    fn next_expiry(
        &mut self,
        instance: u64,
        lease: Duration,
    ) -> Result<Option<Duration>, StoreError> {
        let now = since_start();
        let seen = lock(&self.seen);
        let others = seen.shards.values().filter(|key| ![0, instance].contains(&key.holder));
        Ok(others.map(|key| (key.since + lease).saturating_sub(now)).min())
    }

    fn first_dues(&mut self, now_ms: u64) -> Result<Vec<First>, StoreError> {
        Ok(lock(&self.seen).firsts(self.shards, now_ms, self.lease))
    }

    fn wait(&mut self, left: Duration) -> Vec<Message> {
        match self.told.recv_timeout(left) {
            Ok(first) => std::iter::once(first).chain(self.told.try_iter()).collect(),
            Err(RecvTimeoutError::Timeout) => Vec::new(),
            Err(RecvTimeoutError::Disconnected) => {
                // The connection's thread has died, so nothing will be told.
                thread::sleep(left.min(self.lease / 10));
                Vec::new()
            }
        }
    }

    fn leave(&mut self, instance: u64) -> Result<(), StoreError> {
        let which = json!({ "filter": self.names.key(&format!("i.{instance}")) });
        let purge = format!("STREAM.PURGE.{}", self.names.bucket());
        self.nats.api::<PurgeResponse>(&purge, &which).map_err(failed)?;
        Ok(())
    }
}
