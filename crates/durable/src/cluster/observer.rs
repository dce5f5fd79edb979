//! A look at a cluster from outside, for those who operate it: no shard is taken, nothing fires.
//!
//! *Owner*: the thread that has it.
//!
//! *Tested by*: `tests/durable/postgres/looking.rs`, `tests/durable/nats/letters.rs`.

use std::fmt;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, SystemTime};

use crate::error::{StoreError, StoreErrorKind};
use crate::position::{Position, ms_at_or_after};
use crate::record::{Key, Record};
use crate::store::Op;

use super::clock::since_start;
use super::hub::{Clerking, Shard, ShardOf};
use super::id::TimerId;
use super::letters::DeadLetter;
use super::looking::Timer;

/// The timers of a cluster, seen and changed from outside: see
/// [`Builder::observe`](super::Builder::observe).
///
/// Each call blocks until the database has replied. Instances hear of what is changed here as of
/// what another instance changes.
pub struct Observer {
    pub(super) clerking: Box<dyn Clerking>,
    pub(super) shards: u32,
    pub(super) shard_of: ShardOf,
    pub(super) lease: Duration,
}

// === impl Observer ===

impl Observer {
    /// See [`Cluster::contents`](super::Cluster::contents).
    ///
    /// # Errors
    /// The database cannot be read.
    pub fn contents(&mut self) -> Result<Vec<Shard>, StoreError> {
        self.ask(|clerking| clerking.contents())
    }

    /// See [`Cluster::list_after`](super::Cluster::list_after).
    ///
    /// # Errors
    /// As [`contents`](Observer::contents).
    pub fn list(
        &mut self,
        after: Option<(u32, Position)>,
        limit: usize,
    ) -> Result<Vec<Timer>, StoreError> {
        let found = self.ask(|clerking| clerking.timers(after, limit))?;
        Ok(found.into_iter().map(|(shard, record)| Timer { shard, record }).collect())
    }

    /// Looks a timer up.
    ///
    /// # Errors
    /// As [`contents`](Observer::contents).
    pub fn get(&mut self, id: TimerId) -> Result<Option<Timer>, StoreError> {
        let (shard, timer) = (id.shard_of(self.shards), id.timer);
        let found = self.ask(|clerking| clerking.get(shard, timer))?;
        Ok(found.map(|record| Timer { shard, record }))
    }

    /// See [`Cluster::dead_letters`](super::Cluster::dead_letters).
    ///
    /// # Errors
    /// As [`contents`](Observer::contents).
    pub fn dead_letters(
        &mut self,
        after: Option<&DeadLetter>,
        limit: usize,
    ) -> Result<Vec<DeadLetter>, StoreError> {
        self.dead_letters_after(
            after.map(|after| (after.shard, after.letter.record.position)),
            limit,
        )
    }

    /// As [`dead_letters`](Observer::dead_letters), from a place in a shard on.
    ///
    /// # Errors
    /// As [`contents`](Observer::contents).
    pub fn dead_letters_after(
        &mut self,
        after: Option<(u32, Position)>,
        limit: usize,
    ) -> Result<Vec<DeadLetter>, StoreError> {
        let found = self.ask(|clerking| clerking.letters(after, limit))?;
        Ok(found.into_iter().map(|(shard, letter)| DeadLetter { shard, letter }).collect())
    }

    /// Cancels a timer. Returns whether it was there; its handler may be running.
    ///
    /// # Errors
    /// It is unknown whether the timer is cancelled.
    pub fn cancel(&mut self, id: TimerId) -> Result<bool, StoreError> {
        self.change(id.shard_of(self.shards), Op::Cancel(id.timer))
    }

    /// Cancels the timer with this key. Returns whether there was one.
    ///
    /// # Errors
    /// As [`cancel`](Observer::cancel).
    pub fn cancel_key(&mut self, key: impl AsRef<[u8]>) -> Result<bool, StoreError> {
        let key: Key = key.as_ref().into();
        self.change((self.shard_of)(&key, self.shards), Op::CancelKey(key))
    }

    /// Has a timer due at another time. Returns whether it was there. One whose handler runs comes
    /// again, whatever that handler returns; and because it may have run, the timer
    /// [may be a repeat](super::Firing::may_be_repeat). On NATS, this is not possible.
    ///
    /// # Errors
    /// As [`cancel`](Observer::cancel).
    pub fn reschedule(&mut self, id: TimerId, at: SystemTime) -> Result<bool, StoreError> {
        let Some(Timer { shard, record }) = self.get(id)? else { return Ok(false) };
        let (from, due_ms) = (record.position, ms_at_or_after(at));
        let position = Position { due_ms, number: from.number };
        let to = Arc::new(Record { position, tried: true, ..record });
        self.change(shard, Op::Move { from, to })
    }

    /// See [`Cluster::revive`](super::Cluster::revive).
    ///
    /// # Errors
    /// As [`cancel`](Observer::cancel).
    pub fn revive(&mut self, letter: &DeadLetter, at: SystemTime) -> Result<bool, StoreError> {
        let from = letter.letter.record.position;
        let to = Arc::new(letter.letter.revived(at));
        self.change(letter.shard, Op::Revive { from, to })
    }

    /// See [`Cluster::forget`](super::Cluster::forget).
    ///
    /// # Errors
    /// As [`cancel`](Observer::cancel).
    pub fn forget(&mut self, letter: &DeadLetter) -> Result<bool, StoreError> {
        self.change(letter.shard, Op::Forget(letter.letter.record.position))
    }

    /// As [`revive`](Observer::revive), of many: all or none, in one transaction, during which no
    /// batch of their shards is written. On NATS, those of a shard are made timers together.
    ///
    /// # Errors
    /// As [`cancel`](Observer::cancel). On NATS, for those of a shard; those of shards before it
    /// are timers.
    pub fn revive_all(
        &mut self,
        letters: &[DeadLetter],
        at: SystemTime,
    ) -> Result<Vec<bool>, StoreError> {
        self.change_letters(letters, |letter| {
            let to = Arc::new(letter.letter.revived(at));
            Op::Revive { from: letter.letter.record.position, to }
        })
    }

    /// The same as [`forget`](Observer::forget).
    ///
    /// # Errors
    /// As of [`revive_all`](Observer::revive_all).
    pub fn forget_all(&mut self, letters: &[DeadLetter]) -> Result<Vec<bool>, StoreError> {
        self.change_letters(letters, |letter| Op::Forget(letter.letter.record.position))
    }

    /// See [`Cluster::pause`](super::Cluster::pause).
    ///
    /// # Errors
    /// It is unknown whether it is paused; or the beginning is too long.
    pub fn pause(&mut self, prefix: impl AsRef<[u8]>) -> Result<bool, StoreError> {
        let prefix: Key = prefix.as_ref().into();
        self.ask(|clerking| clerking.set_pause(&prefix, true))
    }

    /// See [`Cluster::resume`](super::Cluster::resume).
    ///
    /// # Errors
    /// As [`pause`](Observer::pause).
    pub fn resume(&mut self, prefix: impl AsRef<[u8]>) -> Result<bool, StoreError> {
        let prefix: Key = prefix.as_ref().into();
        self.ask(|clerking| clerking.set_pause(&prefix, false))
    }

    /// How keys begin whose timers are paused.
    ///
    /// # Errors
    /// As [`contents`](Observer::contents).
    pub fn pauses(&mut self) -> Result<Vec<Key>, StoreError> {
        self.ask(|clerking| clerking.pauses())
    }

    fn change_letters(
        &mut self,
        letters: &[DeadLetter],
        op: impl Fn(&DeadLetter) -> Op,
    ) -> Result<Vec<bool>, StoreError> {
        let of_shards = letters.chunk_by(|one, next| one.shard == next.shard);
        let list = |letters: &[DeadLetter]| (letters[0].shard, letters.iter().map(&op).collect());
        self.change_all(&of_shards.map(list).collect::<Vec<_>>())
    }

    fn change(&mut self, shard: u32, op: Op) -> Result<bool, StoreError> {
        // An id may have the number of a shard that there is not.
        Ok(shard < self.shards && self.change_all(&[(shard, vec![op])])? == [true])
    }

    fn change_all(&mut self, lists: &[(u32, Vec<Op>)]) -> Result<Vec<bool>, StoreError> {
        let mut found = Vec::new();
        for lists in lists.chunks(self.clerking.most_together()) {
            let outcomes = self.ask(|clerking| {
                lists.iter().flat_map(|(_, ops)| ops).try_for_each(|op| clerking.fits(op))?;
                clerking.write_all(lists)
            })?;
            found.extend(outcomes.iter().flatten().map(Option::is_some));
        }
        Ok(found)
    }

    /// Asks again while a shard has no holder that could be asked: that lasts for some leases.
    fn ask<T>(
        &mut self,
        mut question: impl FnMut(&mut dyn Clerking) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let begun = since_start();
        loop {
            let is_over = since_start() > begun + self.lease * 3;
            match question(&mut *self.clerking) {
                Err(error) if error.kind() == StoreErrorKind::InUse && !is_over => {
                    thread::sleep(Duration::from_millis(50));
                }
                other => return other,
            }
        }
    }
}

impl fmt::Debug for Observer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Observer").field("shards", &self.shards).finish_non_exhaustive()
    }
}
