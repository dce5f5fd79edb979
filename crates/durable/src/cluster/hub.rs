//! What instances share, as far as they need to know it: leases, messages, and the shards' stores.
//!
//! A [`Hub`] is a database or a set of servers. The keeper's thread has a [`Keeping`] of it and the
//! clerk's a [`Clerking`]: connections, if that is what they are. All that is decided about a lease
//! is decided there.
//!
//! *Tested by*: `tests/durable/postgres/`, `tests/durable/nats/`.

use std::time::Duration;

use crate::error::StoreError;
use crate::position::Position;
use crate::record::{DeadLetter, Key, Record};
use crate::store::{Contents, Op, Store};

use super::message::{MOST, Message};

/// Where instances meet.
pub(super) trait Hub: Send + Sync {
    /// The name under which this cluster's things are there.
    #[cfg(feature = "postgres")]
    fn name(&self) -> &str;

    /// For the keeper. From then on, it hears what is told to all instances.
    fn keeping(&self) -> Result<Box<dyn Keeping>, StoreError>;

    /// For the clerk.
    fn clerking(&self) -> Result<Box<dyn Clerking>, StoreError>;

    /// The list of a shard that was taken with this fence. `tell` is for what others do to it, if
    /// the store learns of that by itself.
    fn open(&self, lease: Taken, tell: Tell) -> Result<Box<dyn Store>, StoreError>;

    /// The shard of a key, of so many: the same on every instance.
    fn shard_of(&self) -> ShardOf {
        |key, shards| crc32fast::hash(key) % shards
    }

    /// How the services of this instance are asked to commit what they have ready. It returns how
    /// many will. For a hub that writes all shards together.
    fn set_ring(&self, _: Box<dyn Fn() -> usize + Send + Sync>) {}

    /// Whether what others do to a shard reaches its holder even if a connection fails. If not, a
    /// failure of the keeper's is a reason to read all shards anew.
    fn misses_nothing(&self) -> bool;
}

pub(super) type ShardOf = fn(&Key, u32) -> u32;

/// A shard, who has it, and what is in it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Shard {
    /// Its number, from 0 on.
    pub shard: u32,
    /// How it was taken last.
    pub fence: u64,
    /// The [instance](super::Cluster::instance) that has it. `None`: none has.
    pub holder: Option<u64>,
    /// How many timers and dead letters it has.
    pub contents: Contents,
}

/// Passes on what has become of a shard's list.
pub(super) type Tell = Box<dyn Fn(Message) + Send>;

/// A shard, and the fence with which it was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Taken {
    pub(super) shard: u32,
    pub(super) fence: i64,
}

/// A shard that was taken.
#[derive(Clone, Copy, Debug)]
pub(super) struct Taking {
    pub(super) taken: Taken,
    /// Until when another instance had it, in milliseconds since 1970 by the hub's clock, as far as
    /// the hub knows. Zero: none ever had.
    pub(super) served_ms: u64,
}

/// What became of a request to renew leases.
#[derive(Debug)]
pub(super) struct Renewal {
    /// By [`since_start`](super::clock::since_start): the leases were renewed no earlier than that.
    pub(super) sent: Duration,
    /// The leases that are renewed.
    pub(super) renewed: Vec<Taken>,
    pub(super) reading: Option<Reading>,
}

/// When the first timer of a shard is due.
#[derive(Clone, Copy, Debug)]
pub(super) struct First {
    pub(super) shard: u32,
    /// In milliseconds since 1970. `None`: there is no timer.
    pub(super) due_ms: Option<u64>,
    /// That was so then, by the hub's clock.
    pub(super) at_ms: u64,
}

/// What the clock of the hub showed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reading {
    /// By [`since_start`](super::clock::since_start): it was read no earlier than that,
    pub(super) sent: Duration,
    /// and no later.
    pub(super) received: Duration,
    pub(super) shows_us: i64,
}

/// The keeper's part.
pub(super) trait Keeping: Send {
    /// The number of a new instance.
    fn next_session(&mut self) -> Result<u64, StoreError>;

    /// Says that an instance is alive for as long as a lease, renews its leases, and reads the
    /// clock if it can.
    fn renew(
        &mut self,
        instance: u64,
        leases: &[Taken],
        lease: Duration,
    ) -> Result<Renewal, StoreError>;

    /// The instances that are alive. Who has more shards comes first.
    fn alive(&mut self, lease: Duration) -> Result<Vec<u64>, StoreError>;

    /// Takes shards that are free and not among these, at most that many.
    fn take(
        &mut self,
        instance: u64,
        held: &[u32],
        most: usize,
        lease: Duration,
    ) -> Result<Vec<Taking>, StoreError>;

    /// How long the first lease of another instance lasts, if it is not renewed: zero if it is
    /// over.
    fn next_expiry(
        &mut self,
        instance: u64,
        lease: Duration,
    ) -> Result<Option<Duration>, StoreError>;

    /// When the first timer of each shard is due, also of those that nobody holds. The hub's clock
    /// shows `now_ms`.
    fn first_dues(&mut self, now_ms: u64) -> Result<Vec<First>, StoreError>;

    /// How keys begin whose timers do not fire.
    fn pauses(&mut self) -> Result<Vec<Key>, StoreError> {
        Ok(Vec::new())
    }

    /// Waits for messages for that long at most, and returns all that are there.
    fn wait(&mut self, left: Duration) -> Vec<Message>;

    /// The instance is not alive any more.
    fn leave(&mut self, instance: u64) -> Result<(), StoreError>;
}

/// The clerk's part.
pub(super) trait Clerking: Send {
    /// Whether nothing is known of its end.
    fn is_open(&self) -> bool;

    /// Lets others have a shard, and tells them.
    fn release(&mut self, taken: Taken) -> Result<(), StoreError>;

    /// Tells all instances.
    fn tell(&mut self, message: &Message) -> Result<(), StoreError>;

    /// Whether a change can be made at all, whatever is asked for beside it.
    ///
    /// # Errors
    /// It cannot, and is not to be passed to [`write`](Clerking::write).
    fn fits(&self, _: &Op) -> Result<(), StoreError> {
        Ok(())
    }

    /// Makes changes of shards that other instances hold, and sees that the holders know. For each
    /// shard, the result has what the changes took out.
    ///
    /// # Errors
    /// [`StoreErrorKind::InUse`](crate::StoreErrorKind::InUse) means that nothing was changed, and
    /// that it can be tried again.
    fn write(&mut self, lists: &[(u32, Vec<Op>)]) -> Vec<Outcomes>;

    /// How many lists are written together, all or none, by [`write_all`](Clerking::write_all).
    fn most_together(&self) -> usize {
        1
    }

    /// As [`write`](Clerking::write), all or none; on NATS, of those that go into one message.
    fn write_all(&mut self, lists: &[(u32, Vec<Op>)]) -> Result<Written, StoreError> {
        self.write(lists).into_iter().collect()
    }

    /// Reads the dead letters of all shards after that one, in the order of shards and positions,
    /// at most `limit`.
    ///
    /// # Errors
    /// As of [`write`](Clerking::write).
    fn letters(
        &mut self,
        after: Option<(u32, Position)>,
        limit: usize,
    ) -> Result<Vec<(u32, DeadLetter)>, StoreError>;

    /// The same for timers.
    fn timers(
        &mut self,
        after: Option<(u32, Position)>,
        limit: usize,
    ) -> Result<Vec<(u32, Record)>, StoreError>;

    /// Looks a timer of a shard up.
    fn get(
        &mut self,
        shard: u32,
        id: crate::position::TimerId,
    ) -> Result<Option<Record>, StoreError>;

    /// How keys begin whose timers do not fire.
    fn pauses(&mut self) -> Result<Vec<Key>, StoreError>;

    /// Adds one, or takes it out, and tells all instances. Returns whether that has changed them.
    fn set_pause(&mut self, prefix: &Key, is_paused: bool) -> Result<bool, StoreError>;

    /// What is in all shards.
    fn contents(&mut self) -> Result<Vec<Shard>, StoreError>;
}

/// What the changes of several shards took out.
pub(super) type Written = Vec<Vec<Option<Position>>>;

/// What the changes of a shard took out.
pub(super) type Outcomes = Result<Vec<Option<Position>>, StoreError>;

/// How many timers a holder reads by their places.
const FEW: usize = 64;

/// What the holder has to know of these changes.
pub(super) fn messages(shard: u32, ops: &[Op], outcomes: &[Option<Position>]) -> Vec<Message> {
    // Where it stands has not changed, and its holder knows of it.
    let stays = |op: &Op| matches!(op, Op::Move { from, to } if *from == to.position);
    let there = |(op, outcome): (&Op, &Option<Position>)| match op {
        op if stays(op) => None,
        Op::Put(record) => Some(record.position),
        Op::PutNew(record) if outcome.is_none() => Some(record.position),
        Op::Revive { to, .. } | Op::Move { to, .. } if outcome.is_some() => Some(to.position),
        _ => None,
    };
    let gone = |(op, outcome): (&Op, &Option<Position>)| match op {
        op if stays(op) => None,
        // A letter is no timer, and what was there already stays.
        Op::Forget(_) | Op::Revive { .. } | Op::PutNew(_) => None,
        _ => *outcome,
    };
    let there: Vec<Position> = ops.iter().zip(outcomes).filter_map(there).collect();
    let first = there.iter().map(|position| position.due_ms).min();
    // Many are read by the page.
    let there = match first {
        Some(due_ms) if there.len() > FEW => Some(Message::Due(shard, due_ms)),
        Some(_) => Some(Message::There(shard, there)),
        None => None,
    };
    let gone: Vec<Position> = ops.iter().zip(outcomes).filter_map(gone).collect();
    let gone = gone.chunks(MOST).map(|gone| Message::Gone(shard, gone.to_vec()));
    gone.chain(there).collect()
}

/// Whether a schema can have this name here: it is written without quotes.
pub(super) fn is_named_well(schema: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
    (1..=48).contains(&schema.len())
        && schema.bytes().all(is_plain)
        && !schema.starts_with(|first: char| first.is_ascii_digit())
}
