//! The tables of a schema, and how they are made.
//!
//! *Tested by*: `tests/durable/postgres/`.

use crate::error::{StoreError, StoreErrorKind};

use super::session::{Database, Session};
use crate::store::version::{Makes, wrong_version};

/// The version of the tables.
const VERSION: i32 = 4;

/// The first one that can be brought up to that.
const FIRST: i32 = 3;

/// What each step from there does to the tables. All that is for people is made anew after it.
///
/// - To 4: what attempts have failed with is kept, checksums are such as SQL can compute, and so is
///   the shard of a key: timers with keys change shards. Holders from before are fenced off.
const STEPS: [&str; 1] = ["
    ALTER TABLE records DROP COLUMN checksum, ADD COLUMN checksum bytea NOT NULL DEFAULT '',
        ADD COLUMN errors text NOT NULL DEFAULT '';
    ALTER TABLE dead_letters DROP COLUMN checksum, ADD COLUMN checksum bytea NOT NULL DEFAULT '',
        ADD COLUMN errors text NOT NULL DEFAULT '';
    ALTER TABLE records ALTER COLUMN checksum DROP DEFAULT;
    ALTER TABLE dead_letters ALTER COLUMN checksum DROP DEFAULT;
    CREATE TABLE pauses (prefix bytea PRIMARY KEY);
    UPDATE shards SET fence = fence + 1, holder = NULL;
    {people}
    UPDATE records SET shard = CASE WHEN key IS NULL THEN shard ELSE shard_of(key) END,
        checksum = checksum_of(due, number, first_due, attempt, crashes, tried, key, payload, '',
            NULL);
    UPDATE dead_letters SET
        checksum = checksum_of(due, number, first_due, attempt, crashes, tried, key, payload, '',
            error);
"];

/// How many shards there are in a new schema, if nobody says.
pub(crate) const SHARDS: u32 = 8;

/// The tables.
///
/// - `shards` has `(shard, fence)` as a key, so that `FOR KEY SHARE` keeps the fence from changing
///   as long as a batch is written, and does not keep a lease from being renewed.
/// - `writers` has a row for each shard. A writer to the shard's list locks it first: a
///   holder and another instance could otherwise put timers with the same key at the same time.
/// - A key is indexed by its hash, because an index cannot have values of any length.
/// - What no record can have is refused.
const TABLES: &str = "
    CREATE TABLE meta (version int NOT NULL, sessions bigint NOT NULL, salt bigint NOT NULL);
    CREATE SEQUENCE numbers;
    CREATE TABLE shards (
        shard int PRIMARY KEY,
        fence bigint NOT NULL DEFAULT 0,
        holder bigint,
        expires timestamptz NOT NULL DEFAULT '-infinity',
        UNIQUE (shard, fence)
    );
    CREATE TABLE writers (shard int PRIMARY KEY);
    CREATE TABLE instances (
        instance bigint PRIMARY KEY,
        expires timestamptz NOT NULL
    );
    CREATE TABLE records (
        shard int NOT NULL,
        due bigint NOT NULL CHECK (due >= 0),
        number bigint NOT NULL CHECK (number >= 0),
        first_due bigint NOT NULL CHECK (first_due >= 0),
        attempt bigint NOT NULL CHECK (attempt BETWEEN 0 AND 4294967295),
        crashes bigint NOT NULL CHECK (crashes BETWEEN 0 AND 4294967295),
        tried boolean NOT NULL,
        key bytea,
        payload bytea NOT NULL,
        checksum bytea NOT NULL,
        errors text NOT NULL DEFAULT '',
        PRIMARY KEY (shard, due, number)
    ) WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_analyze_scale_factor = 0.02);
    CREATE UNIQUE INDEX records_by_key ON records (shard, sha256(key)) WHERE key IS NOT NULL;
    CREATE INDEX records_moved ON records (shard, number) WHERE due <> first_due;
    CREATE TABLE dead_letters (
        LIKE records INCLUDING CONSTRAINTS INCLUDING DEFAULTS,
        error text NOT NULL,
        PRIMARY KEY (shard, due, number)
    );
    CREATE TABLE pauses (prefix bytea PRIMARY KEY);
";

/// The views and the functions.
const PEOPLE: &str = include_str!("people.sql");

/// What makes the tables of a schema: see [`ddl`](crate::cluster::ddl).
pub(crate) fn ddl(schema: &str, shards: u32) -> String {
    format!(
        "CREATE SCHEMA IF NOT EXISTS {schema};
SET search_path TO {schema};
{}
",
        rows_and_tables(schema, shards)
    )
}

/// The tables, and the rows that they begin with.
fn rows_and_tables(schema: &str, shards: u32) -> String {
    let people = people(schema);
    format!(
        "{TABLES}
    INSERT INTO shards SELECT generate_series(0, {shards} - 1);
    INSERT INTO writers SELECT shard FROM shards;
    INSERT INTO meta VALUES ({VERSION}, 0, 0);
{people}"
    )
}

fn people(schema: &str) -> String {
    PEOPLE.replace("{schema}", schema).replace("{channel}", &channel(schema))
}

/// Takes the steps up to this version, of which a migration is made that fails as a whole.
fn migrate(session: &mut Session, schema: &str, version: i32) -> Result<(), StoreError> {
    let alive = "SELECT 1 WHERE EXISTS (SELECT FROM instances WHERE expires > clock_timestamp())
        OR EXISTS (SELECT FROM shards WHERE holder IS NOT NULL AND expires > clock_timestamp())";
    session.batch(
        "SET LOCAL statement_timeout = 0;
         LOCK TABLE instances, shards, writers, records, dead_letters IN ACCESS EXCLUSIVE MODE",
    )?;
    if !session.query_once(alive, &[])?.is_empty() {
        let message = "an instance is running, which the newer tables are not for: stop all first";
        return Err(StoreError::new(StoreErrorKind::InUse, message));
    }
    for (step, next) in STEPS.iter().zip(FIRST + 1..).filter(|(_, next)| *next > version) {
        session.batch(&step.replace("{people}", &people(schema)))?;
        session.query_once("UPDATE meta SET version = $1", &[&next])?;
    }
    Ok(())
}

/// The channel on which instances tell each other what they did.
pub(crate) fn channel(schema: &str) -> String {
    format!("tickless_{schema}")
}

/// Makes the schema if there is none and it is to be made, and returns how many shards it has.
///
/// # Errors
/// The schema is not one of this crate's, or of a later version, or has another number of shards
/// than is asked for.
pub(crate) fn prepare(
    database: &Database,
    shards: Option<u32>,
    makes: Makes,
) -> Result<u32, StoreError> {
    let mut session = database.connect("tickless tables")?;
    database.refuse_pooler(&mut session)?;
    let schema = database.schema.clone();
    session.transaction(|session| {
        // One instance at a time makes them.
        let lock = "SELECT pg_advisory_xact_lock(1953197171, hashtext($1))";
        session.query_once(lock, &[&schema])?;
        let found = "SELECT to_regclass($1 || '.meta') IS NOT NULL";
        let is_there: bool = session.query_once(found, &[&schema])?[0].get(0);
        if !is_there && !makes.new {
            let message = format!("there is no cluster in the schema {schema}");
            return Err(StoreError::new(StoreErrorKind::Denied, message));
        }
        if !is_there {
            // A role that may make tables in a schema need not be one that may make schemas, and is
            // refused also where there is nothing to make.
            let schemas = "SELECT FROM pg_namespace WHERE nspname = $1";
            if session.query_once(schemas, &[&schema])?.is_empty() {
                session.batch(&format!("CREATE SCHEMA {schema}"))?;
            }
            session.batch(&rows_and_tables(&schema, shards.unwrap_or(SHARDS)))?;
        }
        let found = "SELECT version, (SELECT count(*) FROM shards) FROM meta";
        let found = session.query_once(found, &[])?;
        let found = found
            .first()
            .ok_or_else(|| StoreError::new(StoreErrorKind::Corrupt, "the table meta is empty"))?;
        let (version, found): (i32, i64) = (found.get(0), found.get(1));
        if makes.newer && (FIRST..VERSION).contains(&version) {
            migrate(session, &schema, version)?;
        } else if version != VERSION {
            let what = format!("the schema {schema}");
            return Err(wrong_version(&what, version.into(), FIRST.into(), VERSION.into()));
        }
        match (u32::try_from(found), shards) {
            (Ok(found), Some(shards)) if found != shards => {
                let message = format!("there are {found} shards, not {shards}");
                Err(StoreError::new(StoreErrorKind::Denied, message))
            }
            (Ok(found), _) if found > 0 => Ok(found),
            _ => Err(StoreError::new(StoreErrorKind::Corrupt, "there are no shards")),
        }
    })
}
