//! Timers as rows.

use sha2::{Digest, Sha256};
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

/// The columns of a timer, as [`record_of`] reads them.
macro_rules! columns {
    () => {
        "due, number, first_due, attempt, crashes, tried, key, payload, checksum, errors"
    };
}
pub(super) use columns;

pub(super) fn record_of(row: &Row) -> Result<Record, StoreError> {
    let record = parts_of(row)?;
    intact(row, &checksum_of(&record, None), record.position)?;
    Ok(record)
}

/// What `checksum_of` of `people.sql` returns for the row of a timer, or of a dead letter with this
/// error.
pub(super) fn checksum_of(record: &Record, error: Option<&str>) -> Vec<u8> {
    let mut sum = Sha256::new();
    for number in [record.position.due_ms, record.position.number, record.first_due_ms] {
        sum.update(signed(number).to_be_bytes());
    }
    sum.update(i64::from(record.attempt).to_be_bytes());
    sum.update(i64::from(record.crashes).to_be_bytes());
    sum.update([u8::from(record.tried)]);
    for part in [record.key.as_deref(), Some(&*record.payload), Some(record.errors.as_bytes())] {
        sum.update(part.map_or(-1, |part| part.len() as i64).to_be_bytes());
        sum.update(part.unwrap_or_default());
    }
    sum.update(error.unwrap_or_default());
    sum.finalize()[..8].to_vec()
}

/// The shard of a key, as `shard_of` of `people.sql` computes it.
pub(crate) fn shard_of(key: &Key, shards: u32) -> u32 {
    let hash = Sha256::digest(key);
    u32::from_be_bytes([hash[0], hash[1], hash[2], hash[3]]) % shards
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
    let letter = DeadLetter::new(parts_of(row)?, row.get::<_, &str>(10));
    let checksum = checksum_of(&letter.record, Some(&letter.error));
    intact(row, &checksum, letter.record.position)?;
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
        errors: row.get::<_, &str>(9).into(),
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

/// Somebody may have changed the row, and a server need not have checksums of its own.
fn intact(row: &Row, checksum: &[u8], position: Position) -> Result<(), StoreError> {
    if row.get::<_, &[u8]>(8) == checksum {
        return Ok(());
    }
    let message = format!("the checksum of the row at {position:?} does not match");
    Err(StoreError::new(StoreErrorKind::Corrupt, message))
}
