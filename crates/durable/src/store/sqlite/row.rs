//! What a row has, and what SQLite's errors mean.
//!
//! *Tested by*: `tests/durable/stores.rs`, `tests/durable/faults.rs`.

use std::num::TryFromIntError;

use rusqlite::types::Type;
use rusqlite::{ErrorCode, Row};

use crate::error::{StoreError, StoreErrorKind};
use crate::position::Position;
use crate::record::{Key, Record};

/// What a row has, whether its checksum says so, and where it is.
pub(super) type Found<T> = (bool, Position, T);

pub(super) const COLUMNS: &str =
    "due, number, first_due, attempt, crashes, tried, key, payload, checksum, errors";

pub(super) fn found_of(row: &Row<'_>) -> rusqlite::Result<Found<Record>> {
    let record = record_of(row)?;
    let is_intact = row.get::<_, i64>(8)? == i64::from(record.checksum());
    Ok((is_intact, record.position, record))
}

/// What tells timers from dead letters in the digest.
pub(super) const TIMER: u64 = 1;
pub(super) const LETTER: u64 = 2;

/// Of a row's first three columns: its place and its checksum.
pub(super) fn hash_of(row: &Row<'_>, salt: u64) -> rusqlite::Result<u64> {
    Ok(hash(row.get::<_, i64>(0)?, row.get::<_, i64>(1)?, row.get::<_, i64>(2)?, salt))
}

/// The finish of SplitMix64 after each part, so that sums of hashes say something.
pub(super) fn hash(due: i64, number: i64, checksum: i64, salt: u64) -> u64 {
    [due, number, checksum].into_iter().fold(salt, |hash, part| {
        let mut mixed = (hash ^ part.cast_unsigned()).wrapping_add(0x9e37_79b9_7f4a_7c15);
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    })
}

/// What is stored is less than 2^63. A position to read on from may not be, and comes after all.
pub(super) fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

pub(super) fn position_of(row: &Row<'_>) -> rusqlite::Result<Position> {
    Ok(Position { due_ms: unsigned(row, 0)?, number: unsigned(row, 1)? })
}

pub(super) fn unsigned(row: &Row<'_>, column: usize) -> rusqlite::Result<u64> {
    let number = row.get::<_, i64>(column)?;
    u64::try_from(number).map_err(|error| misfit(column, error))
}

pub(super) fn misfit(column: usize, error: TryFromIntError) -> rusqlite::Error {
    rusqlite::Error::FromSqlConversionFailure(column, Type::Integer, Box::new(error))
}

pub(super) fn record_of(row: &Row<'_>) -> rusqlite::Result<Record> {
    let count = |column| {
        let count = row.get::<_, i64>(column)?;
        u32::try_from(count).map_err(|error| misfit(column, error))
    };
    Ok(Record {
        position: position_of(row)?,
        first_due_ms: unsigned(row, 2)?,
        attempt: count(3)?,
        crashes: count(4)?,
        tried: row.get::<_, bool>(5)?,
        key: row.get::<_, Option<Vec<u8>>>(6)?.map(Key::from),
        payload: row.get::<_, Vec<u8>>(7)?.into(),
        errors: row.get::<_, String>(9)?.into(),
    })
}

/// SQLite has no checksums of its own.
pub(super) fn intact<T>((is_intact, position, found): Found<T>) -> Result<T, StoreError> {
    let message = || format!("the checksum of the row at {position:?} does not match");
    is_intact.then_some(found).ok_or_else(|| StoreError::new(StoreErrorKind::Corrupt, message()))
}

pub(super) fn failed(error: rusqlite::Error) -> StoreError {
    let code = error.sqlite_error_code();
    let kind = match code {
        // "Unknown" is a statement that does not fit the file: its format is another, or its
        // tables.
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase | ErrorCode::Unknown) => {
            StoreErrorKind::Corrupt
        }
        Some(ErrorCode::DiskFull) => StoreErrorKind::Full,
        Some(ErrorCode::ReadOnly | ErrorCode::PermissionDenied | ErrorCode::CannotOpen) => {
            StoreErrorKind::Denied
        }
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => StoreErrorKind::InUse,
        Some(ErrorCode::TooBig) => StoreErrorKind::TooLarge,
        Some(_) => StoreErrorKind::Io,
        // A value or a table that is not as it was made.
        None => StoreErrorKind::Corrupt,
    };
    StoreError::caused(kind, "the timers cannot be used", error)
}
