//! What the changes of a batch come to, in a store that makes them one after another.
//!
//! *Tested by*: the conformance suite, for each store that uses this.

use std::sync::Arc;

use crate::position::{Position, TimerId};
use crate::record::{DeadLetter, Key, Record};

use super::contract::Op;

/// The timers and the dead letters of a store, within a transaction.
///
/// What takes something out returns where that was, or `None` if it was not there.
pub(super) trait List {
    type Error;

    /// Adds a timer whose key no other has.
    fn put(&mut self, record: &Arc<Record>) -> Result<(), Self::Error>;

    /// Adds a dead letter.
    fn bury(&mut self, letter: &Arc<DeadLetter>) -> Result<(), Self::Error>;

    /// Takes a timer out, also if its record cannot be read.
    fn take(&mut self, position: Position) -> Result<Option<Position>, Self::Error>;

    /// Takes the timer with this number out, wherever it is.
    fn take_id(&mut self, id: TimerId) -> Result<Option<Position>, Self::Error>;

    /// Where the timer with this key is.
    fn find_key(&mut self, key: &Key) -> Result<Option<Position>, Self::Error>;

    fn take_key(&mut self, key: &Key) -> Result<Option<Position>, Self::Error>;

    /// Takes a dead letter out.
    fn forget(&mut self, position: Position) -> Result<Option<Position>, Self::Error>;
}

/// Makes the changes, in order. For each, the result has what it took out.
pub(super) fn apply<L: List>(
    list: &mut L,
    batch: &[Op],
) -> Result<Vec<Option<Position>>, L::Error> {
    batch.iter().map(|op| one(list, op)).collect()
}

fn one<L: List>(list: &mut L, op: &Op) -> Result<Option<Position>, L::Error> {
    match op {
        Op::Remove(position) => list.take(*position),
        Op::Move { from, to } => {
            let taken = list.take(*from)?;
            if taken.is_some() {
                list.put(to)?;
            }
            Ok(taken)
        }
        Op::Bury { from, letter } => {
            let taken = list.take(*from)?;
            if taken.is_some() {
                list.bury(letter)?;
            }
            Ok(taken)
        }
        Op::Cancel(id) => list.take_id(*id),
        Op::CancelKey(key) => list.take_key(key),
        Op::Put(record) => {
            let replaced = match &record.key {
                Some(key) => list.take_key(key)?,
                None => None,
            };
            list.put(record)?;
            Ok(replaced)
        }
        Op::PutNew(record) => {
            let found = match &record.key {
                Some(key) => list.find_key(key)?,
                None => None,
            };
            if found.is_none() {
                list.put(record)?;
            }
            Ok(found)
        }
        Op::Forget(position) => list.forget(*position),
        Op::Revive { from, to } => {
            let taken = list.forget(*from)?;
            if taken.is_some() {
                list.put(to)?;
            }
            Ok(taken)
        }
    }
}
