//! Timers as rows.

use tokio_postgres::Row;

use crate::error::{StoreError, StoreErrorKind};
use crate::position::{Position, time_of};
use crate::record::{DeadLetter, Key, Record};
use crate::store::contract::Contents;

/// What is stored is less than 2^63. A position to read on from may not be, and comes after all.
pub(super) fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// The position in the first two columns.
pub(super) fn position_of(row: &Row) -> Result<Position, StoreError> {
    Ok(Position { due_ms: unsigned(row, 0)?, number: unsigned(row, 1)? })
}

pub(super) fn record_of(row: &Row) -> Result<Record, StoreError> {
    let record = parts_of(row)?;
    intact(row, record.checksum(), record.position)?;
    Ok(record)
}

/// From three columns: how many timers, when the first is due, how many dead letters.
pub(crate) fn contents_of(row: &Row, from: usize) -> Contents {
    let count = |column| u64::try_from(row.get::<_, i64>(column)).unwrap_or(0);
    let first = row.get::<_, Option<i64>>(from + 1).and_then(|first| u64::try_from(first).ok());
    Contents {
        timers: count(from),
        first_due: first.and_then(time_of),
        dead_letters: count(from + 2),
    }
}

/// A row that is not as this crate has written it.
pub(super) fn unreadable(row: &Row) -> Result<Option<DeadLetter>, StoreError> {
    let Err(error) = record_of(row) else { return Ok(None) };
    Ok(Some(DeadLetter::unreadable(parts_of(row)?, &error)))
}

pub(super) fn letter_of(row: &Row) -> Result<DeadLetter, StoreError> {
    let letter = DeadLetter::new(parts_of(row)?, row.get::<_, &str>(9));
    intact(row, letter.checksum(), letter.record.position)?;
    Ok(letter)
}

fn parts_of(row: &Row) -> Result<Record, StoreError> {
    let count = |column| u32::try_from(unsigned(row, column)?).map_err(|_| misfit(row, column));
    Ok(Record {
        position: position_of(row)?,
        first_due_ms: unsigned(row, 2)?,
        attempt: count(3)?,
        crashes: count(4)?,
        tried: row.get(5),
        key: row.get::<_, Option<&[u8]>>(6).map(Key::from),
        payload: row.get::<_, &[u8]>(7).into(),
    })
}

fn unsigned(row: &Row, column: usize) -> Result<u64, StoreError> {
    u64::try_from(row.get::<_, i64>(column)).map_err(|_| misfit(row, column))
}

fn misfit(row: &Row, column: usize) -> StoreError {
    let name = row.columns()[column].name();
    let message =
        format!("the number {} in the column {name} cannot be", row.get::<_, i64>(column));
    StoreError::new(StoreErrorKind::Corrupt, message)
}

/// Somebody may have changed the row, and a server need not have checksums of its own. A row that
/// people have written by way of the functions and the view has none.
fn intact(row: &Row, checksum: u32, position: Position) -> Result<(), StoreError> {
    if row.get::<_, Option<i64>>(8).is_none_or(|noted| noted == i64::from(checksum)) {
        return Ok(());
    }
    let message = format!("the checksum of the row at {position:?} does not match");
    Err(StoreError::new(StoreErrorKind::Corrupt, message))
}
