//! The dead letters of all shards.
//!
//! They are read from the database, or from the holders of their shards where a shard's list is
//! its holder's. A change of a letter goes the way of any other: to the shard's service if this
//! instance holds the shard, and else by way of the clerk.
//!
//! *Tested by*: `tests/durable/postgres/letters.rs`, `tests/durable/nats/letters.rs`.

use std::sync::Arc;
use std::time::SystemTime;

use crate::promise::{Reply, promise_alone};
use crate::service::Durable;
use crate::store::Op;

use super::clerk::{Then, reading};
use super::handle::Cluster;
use super::id::TimerId;

/// A timer of some shard that will not be tried again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeadLetter {
    pub(super) shard: u32,
    pub(super) letter: crate::record::DeadLetter,
}

// === impl DeadLetter ===

impl DeadLetter {
    /// The timer's number.
    pub fn id(&self) -> TimerId {
        TimerId { shard: self.shard, timer: self.letter.id() }
    }

    /// What is kept of the timer, and what its last attempt failed with.
    pub fn letter(&self) -> &crate::record::DeadLetter {
        &self.letter
    }
}

// === impl Cluster ===

impl<P> Cluster<P> {
    /// Reads the dead letters of all shards: at most `limit`, after that one, in the order of their
    /// shards and then of their last attempts.
    pub fn dead_letters(&self, after: Option<&DeadLetter>, limit: usize) -> Reply<Vec<DeadLetter>> {
        let (promise, reply) = promise_alone();
        let after = after.map(|after| (after.shard, after.letter.record.position));
        let letter = |(shard, letter)| DeadLetter { shard, letter };
        self.inner.clerk.read(reading(promise, move |clerking| {
            Ok(clerking.letters(after, limit)?.into_iter().map(letter).collect())
        }));
        reply
    }

    /// Makes a timer of a dead letter again, with all its attempts and the same number, but without
    /// its key, which another timer may have by now. The reply tells whether the letter was there.
    pub fn revive(&self, letter: &DeadLetter, at: SystemTime) -> Reply<bool> {
        let from = letter.letter.record.position;
        let to = Arc::new(letter.letter.revived(at));
        let op = Op::Revive { from, to };
        self.change_letter(letter, op, |durable| durable.revive(&letter.letter, at))
    }

    /// Throws a dead letter away. The reply tells whether it was there.
    pub fn forget(&self, letter: &DeadLetter) -> Reply<bool> {
        let op = Op::Forget(letter.letter.record.position);
        self.change_letter(letter, op, |durable| durable.forget(&letter.letter))
    }

    fn change_letter(
        &self,
        letter: &DeadLetter,
        op: Op,
        here: impl FnOnce(&Durable<P>) -> Reply<bool>,
    ) -> Reply<bool> {
        if let Some(durable) = self.inner.open_at(letter.shard) {
            let reply = here(&durable);
            // If it refuses, it has just lost the shard.
            if !matches!(reply.try_get(), Some(Err(_))) {
                return reply;
            }
        }
        let (promise, reply) = promise_alone();
        self.inner.clerk.write(letter.shard, op, Then::Letter(promise), true);
        reply
    }
}
