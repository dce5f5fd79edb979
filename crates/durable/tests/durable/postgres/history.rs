//! What instances did, as rows that triggers write.

use std::time::{Duration, Instant};

use postgres::Client;
use postgres::fallible_iterator::FallibleIterator;
use tickless_durable::store::PostgresStore;

use super::server::Place;
use crate::common::history::{Change, History, Taking};
use crate::common::limit::LIMIT;

/// The tables and triggers that record a history.
pub(crate) struct Recorder {
    pub(crate) client: Client,
}

/// A timer is called by its shard and number. Who writes to a shard's list says in a setting under
/// which fence it does.
const TABLES: &str = "
    CREATE TABLE changes (seq bigserial, timer text, is_put bool, under bigint, fence bigint,
        at_us bigint DEFAULT extract(epoch FROM clock_timestamp()) * 1000000);
    CREATE TABLE takings (seq bigserial, shard int, fence bigint,
        at_us bigint DEFAULT extract(epoch FROM clock_timestamp()) * 1000000);
    CREATE FUNCTION note_change() RETURNS trigger LANGUAGE plpgsql SET search_path
        FROM CURRENT AS $$
    DECLARE one records;
    BEGIN
        IF TG_OP = 'INSERT' THEN one := NEW; ELSE one := OLD; END IF;
        INSERT INTO changes (timer, is_put, under, fence) VALUES (
            one.shard || '-' || one.number, TG_OP = 'INSERT',
            substring(current_setting('tickless.fences', true)
                from '(?:^|,)' || one.shard || '=(\\d+)')::bigint,
            (SELECT fence FROM shards WHERE shard = one.shard));
        PERFORM pg_notify(TG_TABLE_SCHEMA || '_history', '');
        RETURN NULL;
    END $$;
    CREATE FUNCTION note_taking() RETURNS trigger LANGUAGE plpgsql SET search_path
        FROM CURRENT AS $$ BEGIN
        IF NEW.fence <> OLD.fence THEN
            INSERT INTO takings (shard, fence) VALUES (NEW.shard, NEW.fence);
        END IF;
        -- Not of a renewal: all transactions that notify wait for each other.
        IF NEW.holder IS DISTINCT FROM OLD.holder THEN
            PERFORM pg_notify(TG_TABLE_SCHEMA || '_history', '');
        END IF;
        RETURN NULL;
    END $$;
    CREATE TRIGGER noted AFTER INSERT OR DELETE ON records FOR EACH ROW
        EXECUTE FUNCTION note_change();
    CREATE TRIGGER noted AFTER UPDATE ON shards FOR EACH ROW EXECUTE FUNCTION note_taking();
";

// === impl Recorder ===

impl Recorder {
    /// Makes the tables of timers, and those of their history.
    pub(crate) fn new(place: &Place, shards: u32) -> Recorder {
        PostgresStore::make_tables(&place.url, &place.schema, shards).unwrap();
        let mut client = place.client();
        client.batch_execute(TABLES).unwrap();
        client.batch_execute(&format!("LISTEN {}_history", place.schema)).unwrap();
        Recorder { client }
    }

    /// Shard 1 cannot be opened, until `refuse_no_shard`: the database says "on purpose".
    pub(crate) fn refuse_second_shard(&mut self) {
        let refuse = "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
            IF current_setting('application_name') LIKE 'tickless shard 1 %' THEN
                RAISE 'on purpose';
            END IF;
            RETURN NEW;
        END $$;
        CREATE TRIGGER refusing BEFORE UPDATE ON meta FOR EACH ROW EXECUTE FUNCTION refuse()";
        self.client.batch_execute(refuse).unwrap();
    }

    pub(crate) fn refuse_no_shard(&mut self) {
        self.client.batch_execute("DROP TRIGGER refusing ON meta").unwrap();
    }

    /// Waits until a query counts that many.
    #[track_caller]
    pub(crate) fn wait_for(&mut self, query: &str, count: i64) {
        let begun = Instant::now();
        loop {
            let counted: i64 = self.client.query_one(query, &[]).unwrap().get(0);
            if counted == count {
                return;
            }
            let is_over = begun.elapsed() > LIMIT;
            assert!(!is_over, "it is {counted}, not {count}: {query}\n{}", self.state());
            // A lease that is renewed or runs out is not told.
            let mut told = self.client.notifications();
            told.timeout_iter(Duration::from_millis(100)).next().unwrap();
        }
    }

    /// What the tables have, for a test that has waited for too long.
    fn state(&mut self) -> String {
        let mut state = String::new();
        for table in ["shards", "instances", "records"] {
            let rows = format!("SELECT t::text FROM {table} AS t LIMIT 50");
            let rows = self.client.query(&rows, &[]).unwrap();
            let rows: Vec<String> = rows.iter().map(|row| row.get(0)).collect();
            state.push_str(&format!("{table}\n  {}\n", rows.join("\n  ")));
        }
        state
    }

    /// Waits until that many instances have the shards, as evenly as can be.
    #[track_caller]
    pub(crate) fn wait_for_holders(&mut self, instances: i64) {
        let holders = "SELECT CASE WHEN bool_and(n > 0) AND max(n) - min(n) <= 1
                THEN count(*) ELSE 0 END
            FROM (SELECT count(*) FILTER (WHERE expires > now()) AS n FROM shards
                GROUP BY holder) AS counts";
        self.wait_for(holders, instances);
    }

    /// Waits until there are no timers.
    #[track_caller]
    pub(crate) fn wait_for_the_end(&mut self) {
        self.wait_for("SELECT count(*) FROM timers", 0);
    }

    pub(crate) fn read(&mut self) -> History {
        let changes = "SELECT timer, is_put, under, fence, at_us FROM changes ORDER BY seq";
        let change = |row: &postgres::Row| Change {
            timer: row.get(0),
            is_put: row.get(1),
            under: row.get(2),
            fence: row.get(3),
            at_us: row.get(4),
        };
        let takings = "SELECT shard, fence, at_us FROM takings ORDER BY seq";
        let taking = |row: &postgres::Row| Taking {
            shard: row.get(0),
            fence: row.get(1),
            at_us: row.get(2),
        };
        History {
            changes: self.client.query(changes, &[]).unwrap().iter().map(change).collect(),
            takings: self.client.query(takings, &[]).unwrap().iter().map(taking).collect(),
            ..History::default()
        }
    }
}
