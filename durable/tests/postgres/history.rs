//! What instances did, as rows that handlers and triggers write, and what has to hold of it.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use postgres::Client;
use postgres::fallible_iterator::FallibleIterator;
use tickless_durable::store::PostgresStore;

use crate::server::Place;

/// How long a test waits for something.
const LIMIT: Duration = Duration::from_secs(60);

/// A handler began.
#[derive(Clone, Debug)]
pub(crate) struct Start {
    pub(crate) timer: String,
    pub(crate) shard: i32,
    pub(crate) fence: i64,
    pub(crate) instance: i64,
    pub(crate) due_us: i64,
    /// By the database's clock as its instance knows it: no later than it was.
    pub(crate) begun_us: i64,
    /// By the database's clock, when this was written: no earlier than it was.
    pub(crate) at_us: i64,
}

/// A timer's row was made or deleted.
#[derive(Clone, Debug)]
pub(crate) struct Change {
    pub(crate) timer: String,
    pub(crate) is_put: bool,
    /// Under which fence, if by the holder of the shard; and which fence the shard had then.
    pub(crate) under: Option<i64>,
    pub(crate) fence: i64,
    pub(crate) at_us: i64,
}

/// An instance took a shard.
#[derive(Clone, Debug)]
pub(crate) struct Taking {
    pub(crate) shard: i32,
    pub(crate) fence: i64,
    pub(crate) at_us: i64,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct History {
    pub(crate) starts: Vec<Start>,
    pub(crate) changes: Vec<Change>,
    pub(crate) takings: Vec<Taking>,
}

/// The tables and triggers that record a history.
pub(crate) struct Recorder {
    pub(crate) client: Client,
}

/// A timer is called by its shard and number. The connection of a shard's store says in its name
/// under which fence it writes.
const TABLES: &str = "
    CREATE TABLE starts (seq bigserial, timer text, shard int, fence bigint, instance bigint,
        attempt int, due_us bigint, begun_us bigint,
        at_us bigint DEFAULT extract(epoch FROM clock_timestamp()) * 1000000);
    CREATE TABLE changes (seq bigserial, timer text, is_put bool, under bigint, fence bigint,
        at_us bigint DEFAULT extract(epoch FROM clock_timestamp()) * 1000000);
    CREATE TABLE takings (seq bigserial, shard int, fence bigint,
        at_us bigint DEFAULT extract(epoch FROM clock_timestamp()) * 1000000);
    CREATE FUNCTION note_start() RETURNS trigger LANGUAGE plpgsql SET search_path
        FROM CURRENT AS $$ BEGIN
        PERFORM pg_notify(TG_TABLE_SCHEMA || '_history', '');
        RETURN NULL;
    END $$;
    CREATE FUNCTION note_change() RETURNS trigger LANGUAGE plpgsql SET search_path
        FROM CURRENT AS $$
    DECLARE one timers;
    BEGIN
        IF TG_OP = 'INSERT' THEN one := NEW; ELSE one := OLD; END IF;
        INSERT INTO changes (timer, is_put, under, fence) VALUES (
            one.shard || '-' || one.number, TG_OP = 'INSERT',
            substring(current_setting('application_name') from 'fence (\\d+)')::bigint,
            (SELECT fence FROM shards WHERE shard = one.shard));
        PERFORM pg_notify(TG_TABLE_SCHEMA || '_history', '');
        RETURN NULL;
    END $$;
    CREATE FUNCTION note_taking() RETURNS trigger LANGUAGE plpgsql SET search_path
        FROM CURRENT AS $$ BEGIN
        IF NEW.fence <> OLD.fence THEN
            INSERT INTO takings (shard, fence) VALUES (NEW.shard, NEW.fence);
        END IF;
        PERFORM pg_notify(TG_TABLE_SCHEMA || '_history', '');
        RETURN NULL;
    END $$;
    CREATE TRIGGER noted AFTER INSERT ON starts FOR EACH ROW EXECUTE FUNCTION note_start();
    CREATE TRIGGER noted AFTER INSERT OR DELETE ON timers FOR EACH ROW
        EXECUTE FUNCTION note_change();
    CREATE TRIGGER noted AFTER UPDATE ON shards FOR EACH ROW EXECUTE FUNCTION note_taking();
";

// === impl Recorder ===

impl Recorder {
    /// Makes the tables of timers, and those of their history.
    pub(crate) fn new(place: &Place, shards: u32) -> Recorder {
        PostgresStore::make_tables(&place.config(), &place.schema, shards).unwrap();
        let mut client = place.client();
        client.batch_execute(TABLES).unwrap();
        client.batch_execute(&format!("LISTEN {}_history", place.schema)).unwrap();
        Recorder { client }
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
            let left = LIMIT.saturating_sub(begun.elapsed());
            let told = self.client.notifications().timeout_iter(left).next().unwrap();
            let is_over = told.is_none() || left.is_zero();
            assert!(!is_over, "it is {counted}, not {count}: {query}\n{}", self.state());
        }
    }

    /// What the tables have, for a test that has waited for too long.
    fn state(&mut self) -> String {
        let mut state = String::new();
        for table in ["shards", "instances", "timers", "starts"] {
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

    /// The time by the database's clock.
    pub(crate) fn now_us(&mut self) -> i64 {
        let now = "SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint";
        self.client.query_one(now, &[]).unwrap().get(0)
    }

    pub(crate) fn read(&mut self) -> History {
        let starts = "SELECT timer, shard, fence, instance, due_us, begun_us, at_us
                      FROM starts ORDER BY seq";
        let start = |row: &postgres::Row| Start {
            timer: row.get(0),
            shard: row.get(1),
            fence: row.get(2),
            instance: row.get(3),
            due_us: row.get(4),
            begun_us: row.get(5),
            at_us: row.get(6),
        };
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
            starts: self.client.query(starts, &[]).unwrap().iter().map(start).collect(),
            changes: self.client.query(changes, &[]).unwrap().iter().map(change).collect(),
            takings: self.client.query(takings, &[]).unwrap().iter().map(taking).collect(),
        }
    }
}

// === impl History ===

impl History {
    /// What is wrong with it, if all its timers are over.
    pub(crate) fn complaints(&self) -> Vec<String> {
        let mut complaints = self.wrong_ends();
        complaints.extend(self.early_starts());
        complaints.extend(self.stale_starts());
        complaints.extend(self.stale_writes());
        complaints.extend(self.fences_that_do_not_grow());
        complaints
    }

    #[track_caller]
    pub(crate) fn check(&self) {
        let complaints = self.complaints();
        assert!(complaints.is_empty(), "{}", complaints.join("\n"));
    }

    /// A timer is made once, put off some times, and deleted once; and then it does not begin. It
    /// is not deleted before it has begun.
    fn wrong_ends(&self) -> Vec<String> {
        let mut changes: BTreeMap<&str, Vec<&Change>> = BTreeMap::new();
        for change in &self.changes {
            changes.entry(&change.timer).or_default().push(change);
        }
        let mut complaints = Vec::new();
        for (timer, changes) in changes {
            // To put off is to delete and to make.
            let puts = changes.iter().filter(|change| change.is_put).count();
            let last = changes[changes.len() - 1];
            if last.is_put || puts * 2 != changes.len() {
                complaints.push(format!("{timer} did not end once: {changes:?}"));
            }
            let mut starts = self.starts.iter().filter(|start| start.timer == timer).peekable();
            if starts.peek().is_none() {
                complaints.push(format!("{timer} was lost"));
            }
            let late = starts.filter(|start| start.begun_us > last.at_us);
            complaints.extend(late.map(|start| format!("after its end: {start:?}")));
        }
        complaints
    }

    fn early_starts(&self) -> Vec<String> {
        let early = self.starts.iter().filter(|start| start.at_us < start.due_us);
        early.map(|start| format!("before it was due: {start:?}")).collect()
    }

    /// No handler begins under a fence when one of that shard has begun under a later one.
    fn stale_starts(&self) -> Vec<String> {
        let is_stale = |start: &&Start| {
            let later = self
                .starts
                .iter()
                .filter(|other| other.shard == start.shard && other.fence > start.fence);
            later.map(|later| later.at_us).min().is_some_and(|first| start.begun_us > first)
        };
        let stale = self.starts.iter().filter(is_stale);
        stale.map(|start| format!("under an old fence: {start:?}")).collect()
    }

    fn stale_writes(&self) -> Vec<String> {
        let is_stale = |change: &&Change| change.under.is_some_and(|under| under != change.fence);
        let stale = self.changes.iter().filter(is_stale);
        stale.map(|change| format!("written under an old fence: {change:?}")).collect()
    }

    fn fences_that_do_not_grow(&self) -> Vec<String> {
        let mut last = BTreeMap::new();
        let mut complaints = Vec::new();
        for Taking { shard, fence, .. } in &self.takings {
            if last.insert(shard, *fence).is_some_and(|before| before >= *fence) {
                complaints.push(format!("the fence of shard {shard} does not grow: {fence}"));
            }
        }
        complaints
    }

    /// The instances whose handlers began.
    pub(crate) fn instances(&self) -> BTreeSet<i64> {
        self.starts.iter().map(|start| start.instance).collect()
    }
}

// === each check finds what it is for ===

fn sound() -> History {
    let start = |timer: &str, fence, begun_us| Start {
        timer: timer.to_owned(),
        shard: 1,
        fence,
        instance: fence,
        due_us: 100,
        begun_us,
        at_us: begun_us + 5,
    };
    let change = |timer: &str, is_put, fence, at_us| Change {
        timer: timer.to_owned(),
        is_put,
        under: Some(fence),
        fence,
        at_us,
    };
    History {
        // The first one is repeated, because its instance was held up.
        starts: vec![start("1-1", 3, 100), start("1-2", 4, 150), start("1-1", 4, 200)],
        changes: vec![
            change("1-1", true, 3, 10),
            change("1-2", true, 3, 11),
            change("1-2", false, 4, 160),
            change("1-2", true, 4, 160),
            change("1-2", false, 4, 190),
            change("1-1", false, 4, 210),
        ],
        takings: [3, 4].map(|fence| Taking { shard: 1, fence, at_us: 0 }).to_vec(),
    }
}

#[track_caller]
fn assert_finds(plant: impl FnOnce(&mut History), complaint: &str) {
    let mut history = sound();
    plant(&mut history);
    let complaints = history.complaints();
    assert!(complaints.iter().any(|found| found.contains(complaint)), "{complaints:?}");
}

#[test]
fn a_sound_history_is_found_so() {
    // Under an old fence, too, if it only was written down late.
    let mut history = sound();
    history.starts[0].at_us = 1000;
    history.starts.rotate_left(1);
    history.check();
}

#[test]
fn what_is_wrong_with_a_history_is_found() {
    assert_finds(|history| history.starts.truncate(1), "1-2 was lost");
    assert_finds(|history| history.changes.truncate(5), "1-1 did not end once");
    let again = |history: &mut History| history.changes.push(history.changes[5].clone());
    assert_finds(again, "1-1 did not end once");
    assert_finds(|history| history.starts[1].begun_us = 191, "after its end");
    assert_finds(|history| history.starts[0].due_us = 106, "before it was due");
    assert_finds(|history| history.starts[0].begun_us = 156, "under an old fence");
    assert_finds(|history| history.changes[5].under = Some(3), "written under an old fence");
    assert_finds(|history| history.takings[1].fence = 3, "does not grow");
}
