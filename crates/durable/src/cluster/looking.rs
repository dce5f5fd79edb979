//! What is in the shards of a cluster, and who has them.
//!
//! It is read from the database, or from the shards' holders where a shard's list is its holder's.
//!
//! *Tested by*: `tests/durable/postgres/looking.rs`, `tests/durable/nats/letters.rs`.

use std::time::Duration;

use crate::position::Position;
use crate::promise::{Reply, promise_alone};
use crate::record::{Key, Record};
#[cfg(feature = "metrics")]
use crate::service::Place;
use crate::service::Stats;

use super::clerk::reading;
use super::clock::since_start;
use super::handle::Cluster;
use super::hub::{Clerking, Shard};
use super::id::TimerId;

/// A timer of some shard.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Timer {
    /// Its shard.
    pub shard: u32,
    /// What the shard has of it.
    pub record: Record,
}

/// What this instance does for a shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Work {
    /// The shard's number.
    pub shard: u32,
    /// The fence with which it was taken.
    pub fence: u64,
    /// What its service has done here since it was opened.
    pub stats: Stats,
}

// === impl Timer ===

impl Timer {
    /// The timer's number.
    pub fn id(&self) -> TimerId {
        TimerId { shard: self.shard, timer: self.record.id() }
    }
}

// === impl Cluster ===

impl<P> Cluster<P> {
    /// What this instance has done for each shard whose timers fire here. Those that it had before
    /// are not in it.
    pub fn stats(&self) -> Vec<Work> {
        let shards = self.shards().into_iter();
        let work = |(shard, fence)| {
            let stats = self.inner.open_at(shard)?.stats();
            Some(Work { shard, fence, stats })
        };
        shards.filter_map(work).collect()
    }

    /// How late the first timer of each shard is, held by any instance or by none: for how long it
    /// has been due, the time that its handler runs included. It is read from the database three
    /// times per lease; while it cannot be read, what was late gets later. On NATS, the holder of a
    /// shard says it with each renewal of its lease, and it goes on if there is none.
    pub fn lags(&self) -> Vec<(u32, Duration)> {
        self.inner.state().overdue.lags(since_start(), self.inner.lease)
    }

    /// The metrics of the shards that this instance holds, and how late all are.
    #[cfg(feature = "metrics")]
    #[cfg_attr(docsrs, doc(cfg(feature = "metrics")))]
    pub fn metrics(&self) -> crate::service::Metrics
    where
        P: Send + 'static,
    {
        let cluster = Cluster { inner: self.inner.clone(), owner: None };
        let all = cluster.inner.clone();
        let lags = move || all.state().overdue.lags(since_start(), all.lease);
        let metrics = crate::service::Metrics::new(move || {
            let place = |work: &Work| {
                let durable = cluster.inner.open_at(work.shard)?;
                let service = durable.name().to_owned();
                let place = Place { service, shard: Some((work.shard, work.fence)) };
                durable.measure(&place);
                Some(place)
            };
            let work = cluster.stats().into_iter();
            work.filter_map(|work| Some((place(&work)?, work.stats))).collect()
        });
        let all = self.inner.clone();
        let instance = move || {
            let held = all.held().open().len();
            [held as f64, f64::from(u8::from(all.state().troubles.last().is_some()))]
        };
        metrics.of_all_shards(lags, instance)
    }

    /// Pauses all timers whose keys begin like that; with nothing, all there are: on all instances,
    /// which are told, and see it within a third of a lease if they were not. Handlers that run
    /// come to their ends. Otherwise as [`Durable::pause`](crate::Durable::pause). The reply tells
    /// whether that changed something; a beginning of more than 1,000 bytes is an error.
    pub fn pause(&self, prefix: impl AsRef<[u8]>) -> Reply<bool> {
        self.set_pause(prefix.as_ref().into(), true)
    }

    /// Ends a [pause](Cluster::pause) with just this beginning: what is due fires. The reply tells
    /// whether there was one.
    pub fn resume(&self, prefix: impl AsRef<[u8]>) -> Reply<bool> {
        self.set_pause(prefix.as_ref().into(), false)
    }

    fn set_pause(&self, prefix: Key, is_paused: bool) -> Reply<bool> {
        let (promise, reply) = promise_alone();
        let set = move |clerking: &mut dyn Clerking| clerking.set_pause(&prefix, is_paused);
        self.inner.clerk.read(reading(promise, set));
        reply
    }

    /// How keys begin whose timers are [paused](Cluster::pause).
    pub fn pauses(&self) -> Reply<Vec<Key>> {
        let (promise, reply) = promise_alone();
        self.inner.clerk.read(reading(promise, |clerking| clerking.pauses()));
        reply
    }

    /// All shards: who has each, how many timers and dead letters it has, and when the first timer
    /// is due. The database counts its rows for that.
    pub fn contents(&self) -> Reply<Vec<Shard>> {
        let (promise, reply) = promise_alone();
        self.inner.clerk.read(reading(promise, |clerking| clerking.contents()));
        reply
    }

    /// Reads the timers of all shards: at most `limit`, after that one, in the order of their
    /// shards and then of their times. It is what is durable: a timer is in it when its ticket is
    /// ready.
    pub fn list(&self, after: Option<&Timer>, limit: usize) -> Reply<Vec<Timer>> {
        let after = after.map(|after| (after.shard, after.record.position));
        self.list_after(after, limit)
    }

    /// As [`list`](Cluster::list), from a place in a shard on: see [`Position::before_all_at`].
    pub fn list_after(&self, after: Option<(u32, Position)>, limit: usize) -> Reply<Vec<Timer>> {
        let (promise, reply) = promise_alone();
        let timer = |(shard, record)| Timer { shard, record };
        self.inner.clerk.read(reading(promise, move |clerking| {
            Ok(clerking.timers(after, limit)?.into_iter().map(timer).collect())
        }));
        reply
    }

    /// Looks a timer up. `None`: it is over, or it never became durable.
    pub fn get(&self, id: TimerId) -> Reply<Option<Timer>> {
        let (promise, reply) = promise_alone();
        let (shard, timer) = (id.shard_of(self.inner.shards), id.timer);
        self.inner.clerk.read(reading(promise, move |clerking| {
            Ok(clerking.get(shard, timer)?.map(|record| Timer { shard, record }))
        }));
        reply
    }
}
