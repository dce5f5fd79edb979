//! Reading on where a record cannot be read: it becomes a dead letter with its bytes, and the
//! others fire.
//!
//! *Owner*: the writer's thread, or who opens the service.
//!
//! *Tested by*: `tests/durable/faults.rs`, `tests/durable/postgres/operating.rs`.

use std::sync::Arc;

use crate::error::{StoreError, StoreErrorKind};
use crate::position::Position;
use crate::record::{DeadLetter, Record};
use crate::store::{Op, Store};

/// Reads the timers at these positions, as [`scan`] does.
pub(super) fn read(
    store: &mut (impl Store + ?Sized),
    positions: &[Position],
) -> Result<(Vec<Record>, u64), StoreError> {
    match store.at(positions) {
        Ok(found) => return Ok((found, 0)),
        Err(error) if error.kind() == StoreErrorKind::Corrupt => {}
        Err(error) => return Err(error),
    }
    let (mut found, mut buried) = (Vec::new(), 0);
    for position in positions {
        let (one, more) = scan(store, Some(position.before()), 1)?;
        found.extend(one.into_iter().filter(|record| record.position == *position));
        buried += more;
    }
    Ok((found, buried))
}

/// Reads a page. What cannot be read is buried before; the second value says how much that was.
///
/// # Errors
/// The store fails, or does not say which of its records cannot be read.
pub(super) fn scan(
    store: &mut (impl Store + ?Sized),
    after: Option<Position>,
    limit: usize,
) -> Result<(Vec<Record>, u64), StoreError> {
    let mut buried = 0;
    loop {
        let error = match store.scan(after, limit) {
            Ok(records) => return Ok((records, buried)),
            Err(error) if error.kind() == StoreErrorKind::Corrupt => error,
            Err(error) => return Err(error),
        };
        let letters = store.unreadable(after, limit)?;
        let bury = |letter: DeadLetter| {
            let letter = Arc::new(letter);
            Op::Bury { from: letter.record.position, letter }
        };
        let batch: Vec<Op> = letters.into_iter().map(bury).collect();
        // A reading that fails leaves the store as it is. A commit that fails is the store's end,
        // whatever it says.
        let gone = store.commit(&batch).map_err(|error| match error.kind() {
            StoreErrorKind::Corrupt => {
                let message = "what cannot be read could not be made a dead letter";
                StoreError::caused(StoreErrorKind::Io, message, error)
            }
            _ => error,
        })?;
        let gone = gone.iter().flatten().count();
        // Otherwise this would go on for ever.
        if gone == 0 {
            return Err(error);
        }
        buried += gone as u64;
    }
}
