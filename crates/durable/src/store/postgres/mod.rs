//! A store in a database of PostgreSQL's, which several instances share.
//!
//! | table | what is there |
//! |---|---|
//! | `records` | a row for each timer; each shard's are a list in order of `due` and `number` |
//! | `dead_letters` | the same, with the `error` of the last attempt |
//! | `shards` | who holds a shard, until when, and its fence |
//! | `writers` | a row for each shard, which those who write to its list lock |
//! | `instances` | the instances that are alive, and until when |
//! | `pauses` | how keys begin whose timers do not fire |
//! | `meta` | the version of all this, and the number of sessions |
//!
//! Times in `due` are milliseconds since 1970.
//!
//! People have the views `timers` and `dead`, and their programs the functions `schedule` and
//! `cancel` (`people.sql`). These write to `records`, within transactions of any length, and tell
//! the holder by the notifications that other instances send. So they lock no more than the rows
//! that they write: what an instance writes to the same timer, or to one with the same key, is put
//! off until they are over, and nothing else is. They run with the rights of who has made them, so
//! that nobody else needs rights to the tables.
//!
//! A store is the list of one shard, for the instance that has taken the shard. All stores of an
//! instance write by way of one session (`together.rs`). Each batch begins
//! with a look at the shard's row, `WHERE fence = mine FOR KEY SHARE`: the row is there only if
//! nobody has taken the shard since, and while it is locked like that, nobody can. (A foreign key
//! keeps its row in the same way.) So a batch is either committed before a takeover, whose holder
//! then finds it, or refused.
//!
//! *Owner*: a service's writer.
//!
//! *Invariant*: the `number` of a timer is unique, in all shards.
//!
//! *Tested by*: `tests/durable/postgres/`.

mod changes;
mod row;
mod session;
mod tables;
mod together;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tokio_postgres::{NoTls, Row};

use crate::error::{StoreError, StoreErrorKind};
use crate::position::{Position, TimerId};
use crate::record::{DeadLetter, Record};

use super::contract::{Contents, Op, Store};
use super::version::Makes;

pub(crate) use changes::apply;
use row::columns;
pub(crate) use row::{contents_of, shard_of};
use session::is_out_of_time;
pub(crate) use session::{Database, Params, Session, failed};
pub(crate) use tables::{channel, ddl, prepare};
use together::fenced;
pub(crate) use together::{Together, lock_lists};

/// How long the server lets the transactions of tests wait for them.
const PATIENCE: Duration = Duration::from_secs(60);

/// The list of one shard, for as long as nobody else has taken the shard.
///
/// A [`Cluster`](crate::Cluster) makes these; see [`store::postgres`](crate::store) for the tables.
pub struct PostgresStore {
    /// For reading.
    session: Session,
    together: Arc<Together>,
    shard: i32,
    fence: i64,
    /// How many rows are read at a time.
    most: usize,
}

// === impl PostgresStore ===

impl PostgresStore {
    /// The list of a shard that was taken with this fence, which is written by way of `together`.
    pub(crate) fn new(
        database: &Database,
        shard: u32,
        fence: i64,
        together: &Arc<Together>,
    ) -> Result<PostgresStore, StoreError> {
        let name = format!("tickless shard {shard} fence {fence}");
        let session = database.connect_to_lists(&name)?;
        Ok(PostgresStore {
            session,
            shard: shard.cast_signed(),
            fence,
            most: usize::MAX,
            together: together.clone(),
        })
    }

    /// Makes the tables of a schema, for tests that look into them.
    #[doc(hidden)]
    pub fn make_tables(url: &str, schema: &str, shards: u32) -> Result<(), StoreError> {
        let database = Database::new(url.parse().map_err(failed)?, NoTls, schema, PATIENCE);
        prepare(&database, Some(shards), Makes { new: true, newer: false }).map(drop)
    }

    /// Takes the first shard of a schema, also from an instance that holds it, for tests.
    #[doc(hidden)]
    pub fn take(url: &str, schema: &str) -> Result<PostgresStore, StoreError> {
        let database = Database::new(url.parse().map_err(failed)?, NoTls, schema, PATIENCE);
        prepare(&database, Some(1), Makes { new: true, newer: false })?;
        let mut session = database.connect("tickless taking")?;
        let take = "UPDATE shards SET fence = fence + 1 WHERE shard = 0 RETURNING fence";
        let fence = session.query(take, &[])?[0].get(0);
        PostgresStore::new(&database, 0, fence, &Together::new(database.clone(), false))
    }

    /// The shard's number, from 0 on.
    pub fn shard(&self) -> u32 {
        self.shard.cast_unsigned()
    }

    /// The number of this taking of the shard: each has a larger one than all before.
    pub fn fence(&self) -> u64 {
        self.fence.cast_unsigned()
    }

    /// Makes changes in a transaction that can only be committed while the shard is this store's.
    fn fenced<T>(
        &mut self,
        mut body: impl FnMut(&mut Session) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let (shard, fence, ignores_fence) = (self.shard, self.fence, self.together.ignores_fence);
        self.session.transaction(|session| {
            let hold = "SELECT 1 FROM shards WHERE shard = $1 AND fence = $2 FOR KEY SHARE";
            if session.query(hold, &[&shard, &fence])?.is_empty() && !ignores_fence {
                return Err(fenced(shard));
            }
            body(session)
        })
    }
}

/// Looks whether there are still that many shards, which then does not change until the end of the
/// transaction: for those who write without a fence.
///
/// # Errors
/// There are not, so keys belong to other shards than the caller thinks.
pub(crate) fn keep_shards(session: &mut Session, shards: u32) -> Result<(), StoreError> {
    let count = "SELECT count(*) FROM shards";
    let found: i64 = session.query(count, &[])?[0].get(0);
    if found == i64::from(shards) { Ok(()) } else { Err(resharded(found, shards)) }
}

/// What is told to an instance that has started before.
pub(crate) fn resharded(found: i64, shards: u32) -> StoreError {
    let message = format!("there are {found} shards now, not {shards}: start the instance anew");
    StoreError::new(StoreErrorKind::Denied, message)
}

/// The number of a new session, or of a new instance.
pub(crate) fn next_session(session: &mut Session) -> Result<u64, StoreError> {
    let next = "UPDATE meta SET sessions = sessions + 1,
        salt = floor(random() * 549755813888)::bigint RETURNING sessions";
    Ok(session.query(next, &[])?[0].get::<_, i64>(0).cast_unsigned())
}

/// Looks a timer up in a shard's list.
pub(crate) fn get(
    session: &mut Session,
    shard: i32,
    id: TimerId,
) -> Result<Option<Record>, StoreError> {
    let first = id.first_position();
    let get = concat!(
        "SELECT ",
        columns!(),
        " FROM records WHERE shard = $1 AND number = $3 AND first_due = $2
            AND (due = $2 OR due <> first_due)"
    );
    let (due, number) = (row::signed(first.due_ms), row::signed(first.number));
    session.query(get, &[&shard, &due, &number])?.first().map(row::record_of).transpose()
}

/// Reads the timers of all shards, in the order of shards and positions.
pub(crate) fn all_timers(
    session: &mut Session,
    after: Option<(u32, Position)>,
    limit: usize,
) -> Result<Vec<(u32, Record)>, StoreError> {
    let scan = concat!(
        "SELECT ",
        columns!(),
        ", shard FROM records
        WHERE (shard, due, number) > ($1, $2, $3) ORDER BY shard, due, number LIMIT $4"
    );
    let (shard, due, number) = after.map_or((-1, 0, 0), |(shard, at)| {
        (shard.cast_signed(), row::signed(at.due_ms), row::signed(at.number))
    });
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let rows = session.query(scan, &[&shard, &due, &number, &limit])?;
    let found = |row| Ok((Row::get::<_, i32>(row, 10).cast_unsigned(), row::record_of(row)?));
    rows.iter().map(found).collect()
}

/// Reads the dead letters of all shards, in the order of shards and positions.
pub(crate) fn all_letters(
    session: &mut Session,
    after: Option<(u32, Position)>,
    limit: usize,
) -> Result<Vec<(u32, DeadLetter)>, StoreError> {
    let scan = concat!(
        "SELECT ",
        columns!(),
        ", error, shard FROM dead_letters
        WHERE (shard, due, number) > ($1, $2, $3) ORDER BY shard, due, number LIMIT $4"
    );
    let (shard, due, number) = after.map_or((-1, 0, 0), |(shard, at)| {
        (shard.cast_signed(), row::signed(at.due_ms), row::signed(at.number))
    });
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let rows = session.query(scan, &[&shard, &due, &number, &limit])?;
    let found = |row| Ok((Row::get::<_, i32>(row, 11).cast_unsigned(), row::letter_of(row)?));
    rows.iter().map(found).collect()
}

const TIMERS: &str = concat!(
    "SELECT ",
    columns!(),
    " FROM records
    WHERE shard = $1 AND (due, number) > ($2, $3) ORDER BY due, number LIMIT $4"
);

impl Store for PostgresStore {
    fn begin(&mut self) -> Result<u64, StoreError> {
        self.fenced(next_session)
    }

    fn commit(&mut self, batch: &[Op]) -> Result<Vec<Option<Position>>, StoreError> {
        if batch.is_empty() {
            return Ok(Vec::new());
        }
        self.together.commit(self.shard, self.fence, batch)
    }

    fn scan(&mut self, after: Option<Position>, limit: usize) -> Result<Vec<Record>, StoreError> {
        self.read(TIMERS, after, limit)?.iter().map(row::record_of).collect()
    }

    fn at(&mut self, positions: &[Position]) -> Result<Vec<Record>, StoreError> {
        let read = concat!(
            "SELECT ",
            columns!(),
            " FROM records JOIN unnest($2::bigint[], $3::bigint[]) AS at (due, number)
                USING (due, number)
            WHERE shard = $1"
        );
        let (due, number): (Vec<i64>, Vec<i64>) =
            positions.iter().map(|at| (row::signed(at.due_ms), row::signed(at.number))).unzip();
        let rows = self.session.query(read, &[&self.shard, &due, &number])?;
        rows.iter().map(row::record_of).collect()
    }

    fn get(&mut self, id: TimerId) -> Result<Option<Record>, StoreError> {
        get(&mut self.session, self.shard, id)
    }

    fn contents(&mut self) -> Result<Contents, StoreError> {
        let count = "SELECT (SELECT count(*) FROM records WHERE shard = $1),
            (SELECT min(due) FROM records WHERE shard = $1),
            (SELECT count(*) FROM dead_letters WHERE shard = $1)";
        Ok(row::contents_of(&self.session.query(count, &[&self.shard])?[0], 0))
    }

    fn unreadable(
        &mut self,
        after: Option<Position>,
        limit: usize,
    ) -> Result<Vec<DeadLetter>, StoreError> {
        let rows = self.read(TIMERS, after, limit)?;
        rows.iter().filter_map(|row| row::unreadable(row).transpose()).collect()
    }

    fn dead_letters(
        &mut self,
        after: Option<Position>,
        limit: usize,
    ) -> Result<Vec<DeadLetter>, StoreError> {
        let scan = concat!(
            "SELECT ",
            columns!(),
            ", error FROM dead_letters
            WHERE shard = $1 AND (due, number) > ($2, $3) ORDER BY due, number LIMIT $4"
        );
        let rows = self.read(scan, after, limit)?;
        rows.iter().map(row::letter_of).collect()
    }
}

impl fmt::Debug for PostgresStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PostgresStore")
            .field("shard", &self.shard)
            .field("fence", &self.fence)
            .finish_non_exhaustive()
    }
}

impl PostgresStore {
    fn read(
        &mut self,
        sql: &'static str,
        after: Option<Position>,
        limit: usize,
    ) -> Result<Vec<Row>, StoreError> {
        // No timer is due before 1970, so all are after this.
        let signed = |at: Position| (row::signed(at.due_ms), row::signed(at.number));
        let (mut due, mut number) = after.map_or((-1, 0), signed);
        let mut rows: Vec<Row> = Vec::new();
        while rows.len() < limit {
            let few = (limit - rows.len()).min(self.most);
            let count = i64::try_from(few).unwrap_or(i64::MAX);
            match self.session.query(sql, &[&self.shard, &due, &number, &count]) {
                Ok(page) => {
                    let is_last = page.len() < few;
                    if let Some(last) = page.last() {
                        (due, number) = (last.get(0), last.get(1));
                    }
                    rows.extend(page);
                    if is_last {
                        break;
                    }
                }
                // Large payloads, or a slow network: fewer at a time are within the limit.
                Err(error) if few > 1 && is_out_of_time(&error) => self.most = few.div_ceil(8),
                Err(error) => return Err(error),
            }
        }
        Ok(rows)
    }
}
