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

/// How many letters are changed together at most, and how large their payloads are together, but
/// for a single one: the holders of their shards wait meanwhile, and for a part of a lease at most.
const MOST: usize = 10_000;
const MOST_BYTES: usize = 32 << 20;

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

    /// As [`revive`](Observer::revive), of many, in any order: all of them or none, up to 10,000
    /// letters (or 32 MiB of payloads) at a time, in one transaction, during which no batch of
    /// their shards is written. More are several such transactions, one after another. On NATS,
    /// those of a shard that go into one message are made timers together.
    ///
    /// # Errors
    /// As [`cancel`](Observer::cancel). If there were several transactions, the message says how
    /// many letters those before have changed: the first ones of `letters`. On NATS, those of
    /// messages before are timers as well.
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

    /// As many at a time as make a transaction that nobody waits for very long.
    fn change_letters(
        &mut self,
        letters: &[DeadLetter],
        op: impl Fn(&DeadLetter) -> Op,
    ) -> Result<Vec<bool>, StoreError> {
        let (mut found, mut rest) = (Vec::with_capacity(letters.len()), letters);
        while !rest.is_empty() {
            let (letters, later) = rest.split_at(count_together(rest));
            found.extend(self.change_some(letters, &op).map_err(|error| match found.len() {
                0 => error,
                done => after(done, error),
            })?);
            rest = later;
        }
        Ok(found)
    }

    /// In order of their shards, so that each has one list.
    fn change_some(
        &mut self,
        letters: &[DeadLetter],
        op: impl Fn(&DeadLetter) -> Op,
    ) -> Result<Vec<bool>, StoreError> {
        let mut order: Vec<usize> = (0..letters.len()).collect();
        order.sort_by_key(|at| letters[*at].shard);
        let of_shards = order.chunk_by(|one, next| letters[*one].shard == letters[*next].shard);
        let list =
            |of: &[usize]| (letters[of[0]].shard, of.iter().map(|at| op(&letters[*at])).collect());
        let lists: Vec<(u32, Vec<Op>)> = of_shards.map(list).collect();
        let mut found = vec![false; letters.len()];
        order.iter().zip(self.change_all(&lists)?).for_each(|(at, is_found)| found[*at] = is_found);
        Ok(found)
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

/// How many of the first letters are changed together.
fn count_together(letters: &[DeadLetter]) -> usize {
    let mut bytes = 0;
    let fits = |letter: &&DeadLetter| {
        bytes += letter.letter.record.payload.len();
        bytes <= MOST_BYTES
    };
    letters.iter().take(MOST).take_while(fits).count().max(1)
}

/// An error after the changes of so many letters were made.
fn after(done: usize, error: StoreError) -> StoreError {
    let message = format!("{error} (after {done} were changed)");
    StoreError::caused(error.kind(), message, error)
}

impl fmt::Debug for Observer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Observer").field("shards", &self.shards).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;
    use crate::cluster::hub::{Outcomes, Taken};
    use crate::cluster::message::Message;
    use crate::record;

    /// For each transaction, its shards and how many changes they have.
    type Transactions = Vec<Vec<(u32, usize)>>;

    #[derive(Default)]
    struct Desk {
        written: Arc<Mutex<Transactions>>,
        /// How many transactions work.
        works: usize,
    }

    impl Clerking for Desk {
        fn most_together(&self) -> usize {
            usize::MAX
        }

        /// The letters with odd numbers are there.
        fn write(&mut self, lists: &[(u32, Vec<Op>)]) -> Vec<Outcomes> {
            let mut written = self.written.lock().unwrap();
            if written.len() == self.works {
                return vec![Err(StoreError::new(StoreErrorKind::Denied, "no more"))];
            }
            written.push(lists.iter().map(|(shard, ops)| (*shard, ops.len())).collect());
            let outcome = |op: &Op| match op {
                Op::Forget(position) => Some(*position).filter(|at| at.number % 2 == 1),
                other => panic!("{other:?}"),
            };
            lists.iter().map(|(_, ops)| Ok(ops.iter().map(outcome).collect())).collect()
        }

        fn is_open(&self) -> bool {
            true
        }

        fn release(&mut self, _: Taken) -> Result<(), StoreError> {
            unreachable!()
        }

        fn tell(&mut self, _: &Message) -> Result<(), StoreError> {
            unreachable!()
        }

        fn letters(
            &mut self,
            _: Option<(u32, Position)>,
            _: usize,
        ) -> Result<Vec<(u32, record::DeadLetter)>, StoreError> {
            unreachable!()
        }

        fn timers(
            &mut self,
            _: Option<(u32, Position)>,
            _: usize,
        ) -> Result<Vec<(u32, Record)>, StoreError> {
            unreachable!()
        }

        fn get(
            &mut self,
            _: u32,
            _: crate::position::TimerId,
        ) -> Result<Option<Record>, StoreError> {
            unreachable!()
        }

        fn pauses(&mut self) -> Result<Vec<Key>, StoreError> {
            unreachable!()
        }

        fn set_pause(&mut self, _: &Key, _: bool) -> Result<bool, StoreError> {
            unreachable!()
        }

        fn contents(&mut self) -> Result<Vec<Shard>, StoreError> {
            unreachable!()
        }
    }

    fn letter(shard: u32, number: u64, bytes: usize) -> DeadLetter {
        let position = Position { due_ms: 1, number };
        let record = Record::new(position, None, vec![0; bytes].into());
        DeadLetter { shard, letter: record::DeadLetter { record, error: String::new() } }
    }

    fn observer(desk: Desk) -> Observer {
        let shard_of = |_: &Key, _| unreachable!();
        Observer { clerking: Box::new(desk), shards: 4, shard_of, lease: Duration::ZERO }
    }

    #[test]
    fn letters_are_changed_in_order_of_shards_and_ten_thousand_at_a_time() {
        let desk = Desk { works: 2, ..Desk::default() };
        let (written, mut observer) = (desk.written.clone(), observer(desk));
        let mut letters: Vec<DeadLetter> =
            (0..12_000).map(|n| letter(2 - (n % 3) as u32, n, 1)).collect();
        let found = observer.forget_all(&letters).unwrap();
        assert!(found.iter().enumerate().all(|(at, is_found)| *is_found == (at % 2 == 1)));
        assert_eq!(found.len(), 12_000);
        let all = [[(0, 3333), (1, 3333), (2, 3334)], [(0, 667), (1, 667), (2, 666)]];
        assert_eq!(*written.lock().unwrap(), all);

        written.lock().unwrap().remove(0);
        letters.truncate(10_001);
        let error = observer.forget_all(&letters).unwrap_err();
        assert_eq!(error.kind(), StoreErrorKind::Denied);
        assert!(error.to_string().contains("after 10000 "), "{error}");
        let error = observer.forget_all(&letters).unwrap_err();
        assert_eq!(error.to_string(), "no more");
    }

    #[test]
    fn large_letters_are_fewer_at_a_time() {
        let large = MOST_BYTES / 2;
        let letters = [0, large, large, 1, MOST_BYTES + 1, 1].map(|bytes| letter(0, 0, bytes));
        let counts = [0, 3, 4, 5].map(|from| count_together(&letters[from..]));
        assert_eq!(counts, [3, 1, 1, 1]);
    }
}
