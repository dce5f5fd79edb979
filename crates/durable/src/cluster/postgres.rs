//! Instances that meet in a database of PostgreSQL's: the statements about leases and messages.
//!
//! All decisions about leases are the database's, by its clock. Free shards are taken with `FOR
//! UPDATE SKIP LOCKED`, and messages are notifications, sent in the transaction that they are
//! about.
//!
//! *Tested by*: `tests/durable/postgres/`.

use std::sync::Arc;
use std::time::Duration;

use tokio_postgres::Row;

use crate::error::StoreError;
use crate::position::Position;
use crate::record::{DeadLetter, Key, Record};
use crate::service::fits;
use crate::store::postgres::{
    Database, Params, PostgresStore, Session, Together, all_letters, all_timers, apply, channel,
    contents_of, ddl as tables, get, keep_shards, lock_lists, next_session, resharded, shard_of,
};
use crate::store::{Op, Store};

use super::clock::since_start;
use super::hub::{
    Clerking, First, Hub, Keeping, Outcomes, Reading, Renewal, Shard, ShardOf, Taken, Taking, Tell,
    Written, is_named_well, messages,
};
use super::message::Message;

/// The statements that make a cluster's tables in PostgreSQL, for those who make them themselves.
///
/// A cluster makes what is missing when it starts. Where its role may not, have somebody else run
/// these, and grant the role what it needs:
///
/// ```text
/// GRANT USAGE ON SCHEMA tickless TO timers;
/// GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA tickless TO timers;
/// ```
///
/// Grant them once more after a [migration](super::Builder::migrate), which may have made a table.
///
/// # For people and for other programs
///
/// - `schedule(due, payload, key)` schedules a timer and returns its number; with a key, it
///   replaces the timer that has it. Payload and key are both `text` or both `bytea`; the key can
///   be left out. It takes `USAGE` on the schema.
/// - `cancel(key)` cancels a timer and returns whether it was there. It takes the same.
/// - `timers` is a view: when each timer is due, its key, its payload, its attempt. Text is shown
///   as text, other bytes as `\x..`. `UPDATE` of `due` and `DELETE` are possible, for roles that
///   have these rights to the view.
/// - `dead` is a view of the dead letters, with their errors. `DELETE` is possible.
///
/// All of this takes effect when its transaction is committed, and the shards' holders hear of it
/// then. The functions and the views have the rights of who made the tables, so `USAGE` on the
/// schema is a right to schedule and to cancel. A transaction that has changed a timer, or has used
/// a key, should be short: see [`schedule_in`](super::Cluster::schedule_in). A timer that was put
/// off by hand says that it [may be a repeat](super::Firing::may_be_repeat), because its handler
/// may have begun meanwhile. All other tables are the cluster's alone.
///
/// `schema` and `shards` as of [`Builder::schema`](super::Builder::schema) and
/// [`Builder::shards`](super::Builder::shards).
///
/// # Panics
/// A schema cannot have this name here.
pub fn ddl(schema: &str, shards: u32) -> String {
    assert!(is_named_well(schema), "a schema cannot be called {schema:?} here");
    tables(schema, shards)
}

pub(super) struct Postgres {
    pub(super) database: Database,
    pub(super) shards: u32,
    pub(super) together: Arc<Together>,
}

/// A session that listens.
struct Listening(Session, u32);

/// A session that tells.
struct Telling {
    session: Session,
    channel: String,
    shards: u32,
}

impl Hub for Postgres {
    fn name(&self) -> &str {
        &self.database.schema
    }

    fn keeping(&self) -> Result<Box<dyn Keeping>, StoreError> {
        let mut session = self.database.connect("tickless keeper")?;
        let listen = format!("LISTEN {}", channel(&self.database.schema));
        session.batch(&listen)?;
        Ok(Box::new(Listening(session, self.shards)))
    }

    fn clerking(&self) -> Result<Box<dyn Clerking>, StoreError> {
        let session = self.database.connect_to_lists("tickless clerk")?;
        let (channel, shards) = (channel(&self.database.schema), self.shards);
        Ok(Box::new(Telling { session, channel, shards }))
    }

    /// What others do is told by notifications, to the keeper.
    fn open(&self, taken: Taken, _: Tell) -> Result<Box<dyn Store>, StoreError> {
        let Taken { shard, fence } = taken;
        Ok(Box::new(PostgresStore::new(&self.database, shard, fence, &self.together)?))
    }

    fn shard_of(&self) -> ShardOf {
        shard_of
    }

    fn set_ring(&self, ring: Box<dyn Fn() -> usize + Send + Sync>) {
        self.together.set_ring(ring);
    }

    fn misses_nothing(&self) -> bool {
        false
    }
}

fn micros(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}

// === impl Keeping ===

impl Keeping for Listening {
    fn next_session(&mut self) -> Result<u64, StoreError> {
        next_session(&mut self.0)
    }

    fn renew(
        &mut self,
        instance: u64,
        leases: &[Taken],
        lease: Duration,
    ) -> Result<Renewal, StoreError> {
        let shards: Vec<i32> = leases.iter().map(|lease| lease.shard.cast_signed()).collect();
        let renew = "WITH alive AS (
                        INSERT INTO instances VALUES ($1, now() + $3 * interval '1 microsecond')
                        ON CONFLICT (instance) DO UPDATE SET expires = excluded.expires),
                    renewed AS (
                        UPDATE shards SET expires = now() + $3 * interval '1 microsecond'
                        WHERE holder = $1 AND shard = ANY ($2) RETURNING shard, fence)
                    SELECT shard, fence, (extract(epoch FROM read) * 1000000)::bigint,
                        (SELECT count(*) FROM shards)
                    FROM (SELECT clock_timestamp() AS read) AS clock LEFT JOIN renewed ON true";
        let params: Params<'_> = &[&instance.cast_signed(), &shards, &micros(lease)];
        let sent = since_start();
        let rows = self.0.query(renew, params)?;
        let reading = Reading { sent, received: since_start(), shows_us: rows[0].get(2) };
        let shards: i64 = rows[0].get(3);
        if shards != i64::from(self.1) {
            return Err(resharded(shards, self.1));
        }
        // One row that tells nothing but the time, if there is none to renew.
        let is_lease = |row: &&Row| row.get::<_, Option<i32>>(0).is_some();
        let renewed = rows.iter().filter(is_lease).map(taken_of).collect();
        Ok(Renewal { sent, renewed, reading: Some(reading) })
    }

    fn alive(&mut self, lease: Duration) -> Result<Vec<u64>, StoreError> {
        // Who has more keeps the one more, so that no shard changes hands for nothing.
        let alive = "SELECT instance, expires > now() AS is_alive,
                        (SELECT max(expires) > now() + $1 * interval '10 microseconds'
                            FROM (SELECT expires FROM shards UNION ALL
                                SELECT expires FROM instances) AS all_of_them) AS is_set_back
                     FROM instances
                     LEFT JOIN (SELECT holder, count(*) AS shards FROM shards
                        WHERE expires > now() GROUP BY holder) AS held ON holder = instance
                     WHERE expires > now() OR expires < now() - $1 * interval '10 microseconds'
                     ORDER BY coalesce(held.shards, 0) DESC, instance";
        let known = self.0.query(alive, &[&micros(lease)])?;
        let (alive, dead): (Vec<_>, Vec<_>) = known.iter().partition(|row| row.get::<_, bool>(1));
        // One statement for itself, so that no two instances wait for each other.
        if !dead.is_empty() {
            let bury = "DELETE FROM instances WHERE instance IN (
                            SELECT instance FROM instances
                            WHERE expires < now() - $1 * interval '10 microseconds'
                            FOR UPDATE SKIP LOCKED)";
            self.0.query(bury, &[&micros(lease)])?;
        }
        // The clock was set back. Who lives has a lease of its usual length with its next renewal.
        if known.iter().any(|row| row.get(2)) {
            let shorten = "UPDATE shards SET expires = now() + $1 * interval '10 microseconds'
                           WHERE shard IN (SELECT shard FROM shards
                               WHERE expires > now() + $1 * interval '10 microseconds'
                               FOR UPDATE SKIP LOCKED)";
            self.0.query(shorten, &[&micros(lease)])?;
            let shorten = "UPDATE instances SET expires = now() + $1 * interval '10 microseconds'
                           WHERE instance IN (SELECT instance FROM instances
                               WHERE expires > now() + $1 * interval '10 microseconds'
                               FOR UPDATE SKIP LOCKED)";
            self.0.query(shorten, &[&micros(lease)])?;
        }
        Ok(alive.iter().map(|row| row.get::<_, i64>(0).cast_unsigned()).collect())
    }

    fn take(
        &mut self,
        instance: u64,
        held: &[u32],
        most: usize,
        lease: Duration,
    ) -> Result<Vec<Taking>, StoreError> {
        let held: Vec<i32> = held.iter().map(|shard| shard.cast_signed()).collect();
        // By the clock, so that a standby that lacks the last takings does not give a fence twice.
        let take = "WITH free AS (
                        SELECT shard, expires FROM shards
                        WHERE (holder IS NULL OR holder = $1 OR expires < now())
                            AND NOT shard = ANY ($2)
                            AND (SELECT count(*) FROM shards) = $5
                        ORDER BY expires, shard LIMIT $3 FOR UPDATE SKIP LOCKED)
                    UPDATE shards SET holder = $1,
                        fence = greatest(fence + 1,
                            (extract(epoch FROM clock_timestamp()) * 1000)::bigint),
                        expires = now() + $4 * interval '1 microsecond'
                    FROM free WHERE shards.shard = free.shard
                    RETURNING shards.shard, shards.fence, CASE WHEN isfinite(free.expires)
                        THEN (extract(epoch FROM free.expires) * 1000)::bigint ELSE 0 END";
        let most = i64::try_from(most).unwrap_or(i64::MAX);
        let params: Params<'_> =
            &[&instance.cast_signed(), &held, &most, &micros(lease), &i64::from(self.1)];
        let taken = self.0.query(take, params)?;
        let served_ms = |row: &Row| u64::try_from(row.get::<_, i64>(2)).unwrap_or(0);
        let taking = |row| Taking { taken: taken_of(row), served_ms: served_ms(row) };
        Ok(taken.iter().map(taking).collect())
    }

    fn next_expiry(&mut self, instance: u64, _: Duration) -> Result<Option<Duration>, StoreError> {
        let first = "SELECT (extract(epoch FROM min(expires) - now()) * 1000000)::bigint
                     FROM shards WHERE holder <> $1";
        let first = self.0.query(first, &[&instance.cast_signed()])?;
        let first_us = first[0].get::<_, Option<i64>>(0);
        let left = |first_us| Duration::from_micros(u64::try_from(first_us).unwrap_or(0));
        Ok(first_us.map(left))
    }

    fn first_dues(&mut self, now_ms: u64) -> Result<Vec<First>, StoreError> {
        let first = "SELECT shard, (SELECT due FROM records WHERE records.shard = shards.shard
                        ORDER BY due, number LIMIT 1)
                     FROM shards ORDER BY shard";
        let rows = self.0.query(first, &[])?;
        let first = |row: &Row| First {
            shard: row.get::<_, i32>(0).cast_unsigned(),
            due_ms: row.get::<_, Option<i64>>(1).map(i64::cast_unsigned),
            at_ms: now_ms,
        };
        Ok(rows.iter().map(first).collect())
    }

    fn pauses(&mut self) -> Result<Vec<Key>, StoreError> {
        all_pauses(&mut self.0)
    }

    fn wait(&mut self, left: Duration) -> Vec<Message> {
        let told = self.0.hear(left);
        told.iter().filter_map(|told| Message::from_text(told.payload())).collect()
    }

    fn leave(&mut self, instance: u64) -> Result<(), StoreError> {
        let gone = "DELETE FROM instances WHERE instance = $1";
        self.0.query(gone, &[&instance.cast_signed()]).map(drop)
    }
}

/// A row with a shard and its fence.
fn taken_of(row: &Row) -> Taken {
    Taken { shard: row.get::<_, i32>(0).cast_unsigned(), fence: row.get(1) }
}

// === impl Clerking ===

impl Clerking for Telling {
    fn is_open(&self) -> bool {
        self.session.is_open()
    }

    fn release(&mut self, taken: Taken) -> Result<(), StoreError> {
        // Others see from the time until when the shard was served.
        let release = "UPDATE shards SET holder = NULL, expires = now()
                       WHERE shard = $1 AND fence = $2";
        self.session.query(release, &[&taken.shard.cast_signed(), &taken.fence])?;
        self.tell(&Message::Look)
    }

    fn tell(&mut self, message: &Message) -> Result<(), StoreError> {
        notify(&mut self.session, &self.channel, std::slice::from_ref(message))
    }

    /// Without a fence: the list is locked by its writers, and what the holder does not know of, it
    /// reads again.
    ///
    /// All of it is one transaction. If that cannot be made, each shard has one of its own, so that
    /// what is wrong with one is wrong with that one alone.
    fn write(&mut self, lists: &[(u32, Vec<Op>)]) -> Vec<Outcomes> {
        let (together, is_undone) = self.write_together(lists);
        match together {
            Ok(outcomes) => outcomes.into_iter().map(Ok).collect(),
            Err(_) if is_undone && lists.len() > 1 && self.session.is_open() => {
                lists.chunks(1).flat_map(|list| self.write(list)).collect()
            }
            Err(error) => vec![Err(error); lists.len()],
        }
    }

    fn most_together(&self) -> usize {
        usize::MAX
    }

    fn write_all(&mut self, lists: &[(u32, Vec<Op>)]) -> Result<Written, StoreError> {
        self.write_together(lists).0
    }

    fn letters(
        &mut self,
        after: Option<(u32, Position)>,
        limit: usize,
    ) -> Result<Vec<(u32, DeadLetter)>, StoreError> {
        all_letters(&mut self.session, after, limit)
    }

    fn timers(
        &mut self,
        after: Option<(u32, Position)>,
        limit: usize,
    ) -> Result<Vec<(u32, Record)>, StoreError> {
        all_timers(&mut self.session, after, limit)
    }

    fn get(
        &mut self,
        shard: u32,
        id: crate::position::TimerId,
    ) -> Result<Option<Record>, StoreError> {
        get(&mut self.session, shard.cast_signed(), id)
    }

    fn pauses(&mut self) -> Result<Vec<Key>, StoreError> {
        all_pauses(&mut self.session)
    }

    fn set_pause(&mut self, prefix: &Key, is_paused: bool) -> Result<bool, StoreError> {
        fits(prefix)?;
        let set = match is_paused {
            true => "INSERT INTO pauses VALUES ($1) ON CONFLICT DO NOTHING RETURNING 1",
            false => "DELETE FROM pauses WHERE prefix = $1 RETURNING 1",
        };
        let is_changed = !self.session.query(set, &[&&**prefix])?.is_empty();
        // Also if nothing was: who asks again may not have been heard.
        self.tell(&Message::Look)?;
        Ok(is_changed)
    }

    fn contents(&mut self) -> Result<Vec<Shard>, StoreError> {
        all_contents(&mut self.session)
    }
}

fn all_pauses(session: &mut Session) -> Result<Vec<Key>, StoreError> {
    let rows = session.query("SELECT prefix FROM pauses ORDER BY prefix", &[])?;
    Ok(rows.iter().map(|row| row.get::<_, &[u8]>(0).into()).collect())
}

/// What is in each shard, and who has it: the shard, its fence, its holder, and until when.
fn all_contents(session: &mut Session) -> Result<Vec<Shard>, StoreError> {
    let count = "SELECT coalesce(t.n, 0), t.first, coalesce(d.n, 0), s.shard, s.fence,
            CASE WHEN s.expires > now() THEN s.holder END
        FROM shards AS s
        LEFT JOIN (SELECT shard, count(*) AS n, min(due) AS first FROM records GROUP BY shard)
            AS t ON t.shard = s.shard
        LEFT JOIN (SELECT shard, count(*) AS n FROM dead_letters GROUP BY shard)
            AS d ON d.shard = s.shard
        ORDER BY s.shard";
    let rows = session.query(count, &[])?;
    let shard = |row: &Row| Shard {
        shard: row.get::<_, i32>(3).cast_unsigned(),
        fence: row.get::<_, i64>(4).cast_unsigned(),
        holder: row.get::<_, Option<i64>>(5).map(i64::cast_unsigned),
        contents: contents_of(row, 0),
    };
    Ok(rows.iter().map(shard).collect())
}

impl Telling {
    /// The second value: if it has failed, nothing was changed.
    fn write_together(&mut self, lists: &[(u32, Vec<Op>)]) -> (Result<Written, StoreError>, bool) {
        let (channel, shards, mut is_undone) = (&self.channel, self.shards, true);
        let written = self.session.transaction(|session| {
            let mut write = || {
                keep_shards(session, shards)?;
                let locked: Vec<i32> = lists.iter().map(|(shard, _)| shard.cast_signed()).collect();
                lock_lists(session, &locked, "")?;
                let (mut all, mut told) = (Vec::new(), Vec::new());
                for (shard, ops) in lists {
                    let outcomes = apply(session, shard.cast_signed(), ops)?;
                    told.extend(messages(*shard, ops, &outcomes));
                    all.push(outcomes);
                }
                notify(session, channel, &told)?;
                Ok(all)
            };
            let written = write();
            is_undone = written.is_err();
            written
        });
        (written, is_undone)
    }
}

fn notify(session: &mut Session, channel: &str, told: &[Message]) -> Result<(), StoreError> {
    if told.is_empty() {
        return Ok(());
    }
    let told: Vec<String> = told.iter().map(Message::to_text).collect();
    let notify = "SELECT pg_notify($1, text) FROM unnest($2::text[]) AS text";
    session.query(notify, &[&channel, &told]).map(drop)
}
