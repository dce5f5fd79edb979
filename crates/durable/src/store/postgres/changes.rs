//! The changes of a batch, as statements within a transaction.
//!
//! Changes of a kind that follow one another make one statement, because each statement waits for
//! the server. A statement takes a limited number of them: what it returns then fits into the
//! buffers between both ends, so that the server never waits for a client that has stopped while a
//! row is locked.
//!
//! *Owner*: the thread that has the session.
//!
//! *Tested by*: the conformance suite, `tests/durable/postgres/`.

use std::collections::{HashMap, HashSet};

use tokio_postgres::Row;

use crate::error::StoreError;
use crate::position::{Position, TimerId};
use crate::record::{DeadLetter, Key, Record};
use crate::store::contract::Op;

use super::row::{checksum_of, position_of, signed};
use super::session::Session;

/// How many changes make a statement at most, and how large they are together.
const MOST: usize = 1000;
const MOST_BYTES: usize = 8 << 20;

struct Changes<'s> {
    session: &'s mut Session,
    shard: i32,
}

/// Makes the changes, in order. For each, the result has what it took out.
pub(crate) fn apply(
    session: &mut Session,
    shard: i32,
    batch: &[Op],
) -> Result<Vec<Option<Position>>, StoreError> {
    let mut changes = Changes { session, shard };
    let mut outcomes = Vec::with_capacity(batch.len());
    let mut rest = batch;
    while !rest.is_empty() {
        let puts = run_of_puts(rest);
        let (removals, letters) = (run_of_removals(rest), run_of_letters(rest));
        let done = match (puts.len(), removals.len(), letters.len()) {
            (0, 0, 0) => vec![changes.one(&rest[0])?],
            (0, 0, _) => changes.take_letters(&letters)?,
            (0, ..) => changes.take_all(TAKE_TIMERS, &removals)?,
            _ => changes.put_all(&puts)?,
        };
        rest = &rest[done.len()..];
        outcomes.extend(done);
    }
    Ok(outcomes)
}

/// The new timers at the beginning of the batch that can be put together: no two have the same key.
fn run_of_puts(batch: &[Op]) -> Vec<&Record> {
    let mut keys = HashSet::new();
    let mut bytes = 0;
    let mut run: Vec<&Record> = Vec::new();
    for op in batch.iter().take(MOST) {
        let Op::Put(record) = op else { break };
        bytes += record.payload.len() + record.key.as_ref().map_or(0, |key| key.len());
        let is_apart = record.key.as_ref().is_none_or(|key| keys.insert(key));
        if !is_apart || (bytes > MOST_BYTES && !run.is_empty()) {
            break;
        }
        run.push(record);
    }
    run
}

fn run_of_removals(batch: &[Op]) -> Vec<Position> {
    let removed = |op: &Op| match op {
        Op::Remove(position) => Some(*position),
        _ => None,
    };
    batch.iter().take(MOST).map_while(removed).collect()
}

/// Take out those at these places.
const TAKE_TIMERS: &str =
    "DELETE FROM records AS there USING unnest($2::bigint[], $3::bigint[]) AS gone (due, number)
     WHERE shard = $1 AND there.due = gone.due AND there.number = gone.number
     RETURNING there.due, there.number";
const TAKE_LETTERS: &str = "DELETE FROM dead_letters AS there
        USING unnest($2::bigint[], $3::bigint[]) AS gone (due, number)
     WHERE shard = $1 AND there.due = gone.due AND there.number = gone.number
     RETURNING there.due, there.number";

/// A dead letter that is taken out, and the timer that it becomes, if it does.
type Letter<'b> = (Position, Option<&'b Record>);

fn run_of_letters(batch: &[Op]) -> Vec<Letter<'_>> {
    let mut bytes = 0;
    let mut letter = |op| match op {
        &Op::Forget(position) => Some((position, None)),
        Op::Revive { from, to } => {
            let before = bytes;
            bytes += to.payload.len();
            (before < MOST_BYTES).then_some((*from, Some(&**to)))
        }
        _ => None,
    };
    batch.iter().take(MOST).map_while(&mut letter).collect()
}

// === impl Changes ===

impl Changes<'_> {
    fn one(&mut self, op: &Op) -> Result<Option<Position>, StoreError> {
        match op {
            Op::Put(record) => Ok(self.put_all(&[record])?[0]),
            Op::Remove(position) => self.take(*position),
            Op::Move { from, to } => {
                let taken = self.take(*from)?;
                if taken.is_some() {
                    self.insert(&[to])?;
                }
                Ok(taken)
            }
            Op::Bury { from, letter } => {
                let taken = self.take(*from)?;
                if taken.is_some() {
                    self.bury(letter)?;
                }
                Ok(taken)
            }
            Op::Cancel(id) => self.cancel(*id),
            Op::CancelKey(key) => Ok(self.take_keys(&[key])?.remove(key)),
            Op::PutNew(record) => self.put_new(record),
            Op::Forget(_) | Op::Revive { .. } => {
                Ok(self.take_letters(&run_of_letters(std::slice::from_ref(op)))?[0])
            }
        }
    }

    /// Between the two statements, somebody's transaction may have put one with the same key.
    fn put_all(&mut self, records: &[&Record]) -> Result<Vec<Option<Position>>, StoreError> {
        let mut replaced = HashMap::new();
        let mut left = records.to_vec();
        while !left.is_empty() {
            let keys: Vec<&Key> = left.iter().filter_map(|record| record.key.as_ref()).collect();
            replaced.extend(self.take_keys(&keys)?);
            let inserted = self.insert(&left)?;
            left.retain(|record| !inserted.contains(&signed(record.position.number)));
        }
        let replaced = |record: &&Record| replaced.remove(record.key.as_ref()?);
        Ok(records.iter().map(replaced).collect())
    }

    fn put_new(&mut self, record: &Record) -> Result<Option<Position>, StoreError> {
        loop {
            let found = self.find_key(record.key.as_ref())?;
            if found.is_some() || !self.insert(&[record])?.is_empty() {
                return Ok(found);
            }
        }
    }

    /// Returns the numbers of those that are there now: all but those whose key another has.
    fn insert(&mut self, records: &[&Record]) -> Result<HashSet<i64>, StoreError> {
        let numbers = |part: fn(&Record) -> i64| -> Vec<i64> {
            records.iter().map(|record| part(record)).collect()
        };
        let tried: Vec<bool> = records.iter().map(|record| record.tried).collect();
        let keys: Vec<Option<&[u8]>> = records.iter().map(|record| record.key.as_deref()).collect();
        let payloads: Vec<&[u8]> = records.iter().map(|record| &*record.payload).collect();
        let checksums: Vec<Vec<u8>> =
            records.iter().map(|record| checksum_of(record, None)).collect();
        let errors: Vec<&str> = records.iter().map(|record| &*record.errors).collect();
        let rows = self.session.query(
            "INSERT INTO records (shard, due, number, first_due, attempt, crashes, tried, key,
                payload, checksum, errors)
             SELECT $1::int, * FROM unnest($2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[],
                $6::bigint[], $7::boolean[], $8::bytea[], $9::bytea[], $10::bytea[], $11::text[])
             ON CONFLICT (shard, sha256(key)) WHERE key IS NOT NULL DO NOTHING RETURNING number",
            &[
                &self.shard,
                &numbers(|record| signed(record.position.due_ms)),
                &numbers(|record| signed(record.position.number)),
                &numbers(|record| signed(record.first_due_ms)),
                &numbers(|record| record.attempt.into()),
                &numbers(|record| record.crashes.into()),
                &tried,
                &keys,
                &payloads,
                &checksums,
                &errors,
            ],
        )?;
        Ok(rows.iter().map(|row| row.get(0)).collect())
    }

    fn bury(&mut self, letter: &DeadLetter) -> Result<(), StoreError> {
        let record = &letter.record;
        // A text of this database cannot have the character zero, and an error can.
        let error = letter.error.replace('\0', "\u{fffd}");
        self.session.query(
            "INSERT INTO dead_letters (shard, due, number, first_due, attempt, crashes, tried, key,
                payload, checksum, error, errors)
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)",
            &[
                &self.shard,
                &signed(record.position.due_ms),
                &signed(record.position.number),
                &signed(record.first_due_ms),
                &i64::from(record.attempt),
                &i64::from(record.crashes),
                &record.tried,
                &record.key.as_deref(),
                &&*record.payload,
                &checksum_of(record, Some(&error)),
                &error,
                &&*record.errors,
            ],
        )?;
        Ok(())
    }

    // --- taking out ---

    fn take(&mut self, position: Position) -> Result<Option<Position>, StoreError> {
        let take = "DELETE FROM records WHERE shard = $1 AND due = $2 AND number = $3
                    RETURNING due, number";
        self.first(take, position)
    }

    fn take_all(
        &mut self,
        delete: &'static str,
        positions: &[Position],
    ) -> Result<Vec<Option<Position>>, StoreError> {
        let numbers = |part: fn(&Position) -> u64| -> Vec<i64> {
            positions.iter().map(|position| signed(part(position))).collect()
        };
        let rows = self
            .session
            .query(delete, &[&self.shard, &numbers(|at| at.due_ms), &numbers(|at| at.number)])?;
        let mut taken = rows.iter().map(position_of).collect::<Result<HashSet<_>, _>>()?;
        // Of two removals of the same timer, the first one takes it out.
        Ok(positions.iter().map(|position| taken.take(position)).collect())
    }

    fn find_key(&mut self, key: Option<&Key>) -> Result<Option<Position>, StoreError> {
        let Some(key) = key else { return Ok(None) };
        let find = "SELECT due, number FROM records
             WHERE shard = $1 AND key IS NOT NULL AND sha256(key) = sha256($2) AND key = $2";
        let rows = self.session.query(find, &[&self.shard, &&**key])?;
        rows.first().map(position_of).transpose()
    }

    fn take_keys(&mut self, keys: &[&Key]) -> Result<HashMap<Key, Position>, StoreError> {
        if keys.is_empty() {
            return Ok(HashMap::new());
        }
        let keys: Vec<&[u8]> = keys.iter().map(|key| &***key).collect();
        let rows = self.session.query(
            "DELETE FROM records USING unnest($2::bytea[]) AS gone (key)
             WHERE shard = $1 AND records.key IS NOT NULL
                AND sha256(records.key) = sha256(gone.key) AND records.key = gone.key
             RETURNING records.due, records.number, records.key",
            &[&self.shard, &keys],
        )?;
        let taken = |row: &Row| Ok((row.get::<_, &[u8]>(2).into(), position_of(row)?));
        rows.iter().map(taken).collect()
    }

    /// Takes a dead letter out.
    fn take_letters(
        &mut self,
        letters: &[Letter<'_>],
    ) -> Result<Vec<Option<Position>>, StoreError> {
        let positions: Vec<Position> = letters.iter().map(|(position, _)| *position).collect();
        let taken = self.take_all(TAKE_LETTERS, &positions)?;
        let there = letters.iter().zip(&taken).filter(|(_, taken)| taken.is_some());
        let revived: Vec<&Record> = there.filter_map(|((_, to), _)| *to).collect();
        if !revived.is_empty() {
            self.insert(&revived)?;
        }
        Ok(taken)
    }

    /// Takes the timer out where it was first, or else where it is tried again.
    fn cancel(&mut self, id: TimerId) -> Result<Option<Position>, StoreError> {
        let first = id.first_position();
        if let Some(position) = self.take(first)? {
            return Ok(Some(position));
        }
        let moved = "DELETE FROM records WHERE shard = $1 AND first_due = $2 AND number = $3
                        AND due <> first_due
                     RETURNING due, number";
        self.first(moved, first)
    }

    fn first(
        &mut self,
        sql: &'static str,
        position: Position,
    ) -> Result<Option<Position>, StoreError> {
        let place = (signed(position.due_ms), signed(position.number));
        let rows = self.session.query(sql, &[&self.shard, &place.0, &place.1])?;
        rows.first().map(position_of).transpose()
    }
}
