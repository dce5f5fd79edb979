//! A batch of changes within a transaction, and what it makes of the digest.
//!
//! *Tested by*: `tests/durable/stores.rs`.

use std::sync::Arc;

use rusqlite::{Connection, OptionalExtension, Row, ToSql, params};

use crate::position::{Position, TimerId};
use crate::record::{DeadLetter, Key, Record};
use crate::store::list::List;

use super::row::{LETTER, TIMER, hash, hash_of, position_of, signed};

/// Changes within a transaction.
pub(super) struct Changes<'c> {
    pub(super) connection: &'c Connection,
    pub(super) digest: u64,
}

impl Changes<'_> {
    fn add(&mut self, position: Position, checksum: u32, salt: u64) {
        let hash = hash(signed(position.due_ms), signed(position.number), checksum.into(), salt);
        self.digest = self.digest.wrapping_add(hash);
    }

    /// Deletes one row at most, and returns where it was.
    fn delete(
        &mut self,
        delete: &str,
        params: &[&dyn ToSql],
        salt: u64,
    ) -> rusqlite::Result<Option<Position>> {
        let delete = format!("{delete} RETURNING due, number, checksum");
        let mut delete = self.connection.prepare_cached(&delete)?;
        let row = |row: &Row<'_>| Ok((position_of(row)?, hash_of(row, salt)?));
        let deleted = delete.query_row(params, row).optional()?;
        let (position, hash) = deleted.unzip();
        self.digest = self.digest.wrapping_sub(hash.unwrap_or(0));
        Ok(position)
    }
}

impl List for Changes<'_> {
    type Error = rusqlite::Error;

    fn put(&mut self, record: &Arc<Record>) -> rusqlite::Result<()> {
        let put = "INSERT INTO timers VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)";
        self.connection.prepare_cached(put)?.execute(params![
            signed(record.position.due_ms),
            signed(record.position.number),
            signed(record.first_due_ms),
            record.attempt,
            record.crashes,
            record.tried,
            record.key.as_deref(),
            &*record.payload,
            record.checksum(),
            &*record.errors,
        ])?;
        self.add(record.position, record.checksum(), TIMER);
        Ok(())
    }

    fn bury(&mut self, letter: &Arc<DeadLetter>) -> rusqlite::Result<()> {
        let bury = "INSERT INTO dead_letters VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)";
        self.connection.prepare_cached(bury)?.execute(params![
            signed(letter.record.position.due_ms),
            signed(letter.record.position.number),
            signed(letter.record.first_due_ms),
            letter.record.attempt,
            letter.record.crashes,
            letter.record.tried,
            letter.record.key.as_deref(),
            &*letter.record.payload,
            letter.checksum(),
            letter.error,
            &*letter.record.errors,
        ])?;
        self.add(letter.record.position, letter.checksum(), LETTER);
        Ok(())
    }

    fn take(&mut self, position: Position) -> rusqlite::Result<Option<Position>> {
        let take = "DELETE FROM timers WHERE due = ?1 AND number = ?2";
        self.delete(take, params![signed(position.due_ms), signed(position.number)], TIMER)
    }

    fn take_id(&mut self, id: TimerId) -> rusqlite::Result<Option<Position>> {
        let first = id.first_position();
        if let Some(position) = self.take(first)? {
            return Ok(Some(position));
        }
        let take = "DELETE FROM timers WHERE number = ?1 AND first_due = ?2 AND due <> first_due";
        self.delete(take, params![signed(first.number), signed(first.due_ms)], TIMER)
    }

    fn find_key(&mut self, key: &Key) -> rusqlite::Result<Option<Position>> {
        let find = "SELECT due, number FROM timers WHERE key = ?1";
        self.connection.prepare_cached(find)?.query_row([&**key], position_of).optional()
    }

    fn take_key(&mut self, key: &Key) -> rusqlite::Result<Option<Position>> {
        self.delete("DELETE FROM timers WHERE key = ?1", params![&**key], TIMER)
    }

    fn forget(&mut self, position: Position) -> rusqlite::Result<Option<Position>> {
        let forget = "DELETE FROM dead_letters WHERE due = ?1 AND number = ?2";
        self.delete(forget, params![signed(position.due_ms), signed(position.number)], LETTER)
    }
}
