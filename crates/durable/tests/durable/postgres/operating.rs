//! What those who operate a cluster rely on: backlogs, servers that do not reply, and roles.

use std::collections::BTreeSet;
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, SystemTime};

use tickless_durable::cluster::Firing;
use tickless_durable::{Builder, Cluster, Misfire};

use super::history::Recorder;
use super::server::{Place, Server};
use crate::common::limit::LIMIT;
use crate::common::until::wait_until;

/// A gate that is opened once, at the latest when a test ends.
#[derive(Clone, Default)]
struct Gate(Arc<(Mutex<bool>, Condvar)>);

impl Gate {
    fn open(&self) {
        *self.0.0.lock().unwrap() = true;
        self.0.1.notify_all();
    }

    fn pass(&self) {
        drop(self.0.1.wait_while(self.0.0.lock().unwrap(), |is_open| !*is_open).unwrap());
    }
}

/// Opens its gates, so that a test which fails does not wait for handlers.
struct Opens(Vec<Gate>);

impl Drop for Opens {
    fn drop(&mut self) {
        self.0.iter().for_each(Gate::open);
    }
}

fn builder(place: &Place) -> tickless_durable::cluster::Builder {
    let lease = Duration::from_secs(10);
    Cluster::builder(&place.url).schema(&place.schema).lease(lease)
}

/// A backlog is late because handlers are slow, and was not missed.
#[test]
fn an_instance_that_joins_skips_nothing_of_what_waits_for_another() {
    const TIMERS: usize = 200;
    let Some(place) = Place::new() else { return };
    let mut recorder = Recorder::new(&place, 4);
    let (gate, fired) = (Gate::default(), Arc::new(Mutex::new(BTreeSet::new())));
    let start = || {
        let (gate, fired) = (gate.clone(), fired.clone());
        let handler = move |firing: &Firing<'_, String>| {
            gate.pass();
            fired.lock().unwrap().insert(firing.payload().clone());
            Ok::<(), String>(())
        };
        let service = Builder::new().workers(1).misfire(Misfire::Skip);
        builder(&place).service(service).start(handler).unwrap()
    };
    let first = start();
    wait_until("it has all shards", || first.shards().len() == 4);
    // Long overdue, as in a backlog of minutes.
    let due = first.now() - Duration::from_secs(100);
    let tickets: Vec<_> =
        (0..TIMERS).map(|n| first.schedule(due, n.to_string()).unwrap()).collect();
    for ticket in tickets {
        ticket.wait().unwrap();
    }
    let second = start();
    let _opens = Opens(vec![gate.clone()]);
    wait_until("it gives some up", || first.shards().len() == 2);
    // Handlers end only now, so there is a backlog in each shard.
    gate.open();
    wait_until("the other one has them", || second.shards().len() == 2);
    recorder.wait_for_the_end();
    assert_eq!(fired.lock().unwrap().len(), TIMERS, "some were deleted and not handled");
}

#[test]
fn a_shard_that_cannot_be_opened_is_left_alone_for_a_while_and_told() {
    let Some(place) = Place::new() else { return };
    let mut recorder = Recorder::new(&place, 2);
    recorder.refuse_second_shard();
    let handler = |_: &Firing<'_, String>| Ok::<(), String>(());
    let cluster: Cluster<String> = builder(&place).start(handler).unwrap();
    let before = SystemTime::now();
    wait_until("the shard that works is open", || cluster.shards().len() == 1);
    wait_until("the other one is told", || cluster.failure().is_some());
    let failure = cluster.failure().unwrap();
    assert_eq!(failure.shard, Some(1));
    assert!(failure.error.to_string().contains("on purpose"), "{failure:?}");
    assert!(failure.at >= before - Duration::from_secs(60));
    // Each try takes the shard. The pauses grow from half a second on.
    recorder.wait_for("SELECT least(count(*), 4) FROM takings WHERE shard = 1", 4);
    let tried = "SELECT at_us FROM takings WHERE shard = 1 ORDER BY at_us LIMIT 4";
    let tried: Vec<i64> =
        recorder.client.query(tried, &[]).unwrap().iter().map(|row| row.get(0)).collect();
    for (pair, least_ms) in tried.windows(2).zip([500, 1000, 2000]) {
        assert!(pair[1] - pair[0] >= least_ms * 990, "{tried:?}");
    }
    recorder.refuse_no_shard();
    wait_until("it is open", || cluster.shards().len() == 2);
    wait_until("nothing is told any more", || cluster.failure().is_none());
}

/// By the server's clock, its lease lasts for another hour, and so does its life.
#[test]
fn an_instance_that_died_when_the_clock_was_set_back_does_not_keep_its_shards_for_that_time() {
    let Some(place) = Place::new() else { return };
    let mut recorder = Recorder::new(&place, 2);
    let died = "UPDATE shards SET holder = 7, expires = now() + interval '1 hour';
        INSERT INTO instances VALUES (7, now() + interval '1 hour'),
            (8, now() + interval '1 hour')";
    recorder.client.batch_execute(died).unwrap();
    let handler = |_: &Firing<'_, String>| Ok::<(), String>(());
    // Nothing waits for the server for longer than two thirds of it.
    let lease = Duration::from_millis(500);
    let cluster: Cluster<String> = builder(&place).lease(lease).start(handler).unwrap();
    wait_until("it has all shards", || cluster.shards().len() == 2);
    recorder.wait_for("SELECT count(*) FROM instances", 1);
}

/// A standby that takes over without the last transactions, or a restored database.
#[test]
fn a_server_that_lacks_the_last_transactions_gives_no_fence_and_no_instance_twice() {
    let Some(place) = Place::new() else { return };
    let mut recorder = Recorder::new(&place, 1);
    let (mut fences, mut instances) = (Vec::new(), BTreeSet::new());
    for _ in 0..4 {
        let handler = |_: &Firing<'_, String>| Ok::<(), String>(());
        let cluster: Cluster<String> = builder(&place).start(handler).unwrap();
        while cluster.shards().is_empty() {
            std::thread::yield_now();
        }
        fences.push(cluster.shards()[0].1);
        instances.insert(cluster.instance());
        cluster.stop().unwrap();
        recorder.client.batch_execute("UPDATE shards SET fence = 0").unwrap();
        recorder.client.batch_execute("UPDATE meta SET sessions = 0").unwrap();
    }
    assert!(fences.is_sorted_by(|before, after| before < after), "{fences:?}");
    // Two of them can have the same number, once in 32,768 times.
    assert!(instances.len() > 1, "{instances:?}");
}

#[test]
fn a_row_that_somebody_has_changed_becomes_a_dead_letter_and_the_others_fire() {
    let Some(place) = Place::new() else { return };
    let mut recorder = Recorder::new(&place, 1);
    let (sender, fired) = std::sync::mpsc::channel();
    let handler = move |firing: &Firing<'_, String>| sender.send(firing.payload().clone());
    let start = || {
        let handler = handler.clone();
        let cluster: Cluster<String> = builder(&place).start(handler).unwrap();
        wait_until("it has the shard", || cluster.shards().len() == 1);
        cluster
    };
    let cluster = start();
    let soon = cluster.now() + Duration::from_secs(3600);
    for n in 0..20 {
        cluster.schedule_keyed(n.to_string(), soon, n.to_string()).unwrap().wait().unwrap();
    }
    cluster.stop().unwrap();
    // All are due, by hand, and none is as it was written.
    let change = "UPDATE records SET due = due - 7200000, first_due = first_due - 1";
    recorder.client.batch_execute(change).unwrap();
    let cluster = start();
    recorder.wait_for("SELECT count(*) FROM dead_letters", 20);
    cluster.schedule(cluster.now(), "another".to_owned()).unwrap().wait().unwrap();
    assert_eq!(fired.recv_timeout(LIMIT).unwrap(), "another");
    assert!(cluster.failure().is_none(), "{:?}", cluster.failure());
    let letters = cluster.dead_letters(None, 100).wait().unwrap();
    assert!(letters[0].letter().error.contains("checksum"), "{:?}", letters[0]);
    for letter in &letters {
        assert!(cluster.revive(letter, cluster.now()).wait().unwrap());
    }
    let revived: BTreeSet<String> =
        (0..20).map(|_| fired.recv_timeout(LIMIT).expect("it is revived")).collect();
    assert_eq!(revived.len(), 20);
}

/// Only those that read lists of timers are told how to plan that.
#[test]
fn no_session_compiles_its_statements_and_a_keeper_plans_them_as_ever() {
    let Some(place) = Place::new() else { return };
    let mut recorder = Recorder::new(&place, 2);
    // Rows are changed within the sessions of the keepers, the stores and the clerks.
    let note = "CREATE TABLE settings (who text, jit text, reads_all text);
        CREATE FUNCTION note_settings() RETURNS trigger LANGUAGE plpgsql SET search_path
            FROM CURRENT AS $$ BEGIN
            INSERT INTO settings VALUES (current_setting('application_name'),
                current_setting('jit'), current_setting('enable_seqscan'));
            RETURN NULL;
        END $$;
        CREATE TRIGGER noting AFTER UPDATE OR INSERT ON instances FOR EACH ROW
            EXECUTE FUNCTION note_settings();
        CREATE TRIGGER noting AFTER INSERT ON records FOR EACH ROW
            EXECUTE FUNCTION note_settings()";
    recorder.client.batch_execute(note).unwrap();
    let handler = |_: &Firing<'_, String>| Ok::<(), String>(());
    let start = || -> Cluster<String> { builder(&place).start(handler).unwrap() };
    let (one, other) = (start(), start());
    wait_until("both have one", || one.shards().len() == 1 && other.shards().len() == 1);
    for n in 0..20 {
        one.schedule_keyed(n.to_string(), one.now(), n.to_string()).unwrap().wait().unwrap();
    }
    let noted = "SELECT DISTINCT split_part(who, ' ', 2), jit, reads_all FROM settings ORDER BY 1";
    let noted = recorder.client.query(noted, &[]).unwrap();
    let noted: Vec<[String; 3]> = noted.iter().map(|row| [0, 1, 2].map(|n| row.get(n))).collect();
    let expected = [["clerk", "off", "off"], ["keeper", "off", "on"], ["writer", "off", "off"]];
    assert_eq!(noted, expected);
}

/// Two instances, and handlers that hang on the first one as soon as it has shards.
#[test]
fn handlers_that_hang_keep_neither_a_stop_nor_another_instance_from_their_shards() {
    let Some(place) = Place::new() else { return };
    let mut recorder = Recorder::new(&place, 2);
    let (gate, (sender, begun)) = (Gate::default(), std::sync::mpsc::channel());
    let _opens = Opens(vec![gate.clone()]);
    let start = |limit| {
        let (gate, sender) = (gate.clone(), sender.clone());
        let handler = move |firing: &Firing<'_, String>| {
            sender.send(firing.cluster().instance()).unwrap();
            gate.pass();
            Ok::<(), String>(())
        };
        let service = Builder::new().workers(1).handler_limit(limit);
        builder(&place).service(service).start(handler).unwrap()
    };
    let first: Cluster<String> = start(Duration::from_millis(50));
    wait_until("it has both", || first.shards().len() == 2);
    for n in 0..8 {
        first.schedule(first.now(), n.to_string()).unwrap().wait().unwrap();
    }
    let hung: BTreeSet<u64> = (0..2).map(|_| begun.recv_timeout(LIMIT).unwrap()).collect();
    assert_eq!(hung, BTreeSet::from([first.instance()]));
    let second: Cluster<String> = start(Duration::from_secs(1_000_000));
    wait_until("it has one beside them", || second.shards().len() == 1);
    assert_eq!(begun.recv_timeout(LIMIT), Ok(second.instance()));
    // Without a limit of its own, a handler hangs for good.
    assert_eq!(second.stop_within(Duration::from_millis(10)).unwrap(), 1);
    assert_eq!(second.shards(), []);
    recorder.wait_for("SELECT count(*) FROM instances", 1);
    first.stop().unwrap();
    recorder.wait_for("SELECT count(*) FROM shards WHERE holder IS NULL", 2);
}

/// Roles that may not make schemas: one for which somebody else has made the tables, and one that
/// may make tables in its schema.
#[test]
fn a_role_needs_no_more_than_it_is_said_to() {
    let Some(place) = Place::new() else { return };
    let mut client = place.config().connect(postgres::NoTls).unwrap();
    let handler = |_: &Firing<'_, String>| Ok::<(), String>(());
    for who in ["user", "maker"] {
        let schema = format!("{}_{who}", place.schema);
        let role = format!("role_of_{schema}");
        let prepare = match who {
            "user" => format!(
                "{}
                CREATE ROLE {role} LOGIN;
                GRANT USAGE ON SCHEMA {schema} TO {role};
                GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA {schema} TO {role};",
                tickless_durable::cluster::ddl(&schema, 2)
            ),
            _ => format!("CREATE ROLE {role} LOGIN; CREATE SCHEMA {schema} AUTHORIZATION {role}"),
        };
        client.batch_execute(&prepare).unwrap();
        let url = place.url.replace("user=tickless", &format!("user={role}"));
        let builder = Cluster::builder(&url).schema(&schema).shards(2);
        let cluster: Cluster<String> = builder.start(handler).unwrap();
        wait_until("it has both", || cluster.shards().len() == 2);
        cluster.schedule_keyed("k", cluster.now(), who.to_owned()).unwrap().wait().unwrap();
        let left = format!("SELECT count(*) FROM {schema}.timers");
        wait_until("it is over", || client.query_one(&left, &[]).unwrap().get::<_, i64>(0) == 0);
        cluster.stop().unwrap();
        assert!(cluster.failure().is_none(), "{who}: {:?}", cluster.failure());
    }
}

/// A task counts itself as long as it lives.
#[cfg(feature = "tokio")]
#[test]
fn tasks_of_a_shard_whose_lease_is_lost_are_aborted_and_run_again_under_the_next_one() {
    struct Alive(Arc<Mutex<Vec<u64>>>, u64);
    impl Drop for Alive {
        fn drop(&mut self) {
            self.0.lock().unwrap().push(self.1);
        }
    }
    let Some(place) = Place::new() else { return };
    let mut recorder = Recorder::new(&place, 1);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).build().unwrap();
    let (begin, begun) = std::sync::mpsc::channel();
    let (ended, gate) =
        (Arc::new(Mutex::new(Vec::new())), Arc::new(tokio::sync::Semaphore::new(0)));
    let (theirs, ends) = (gate.clone(), ended.clone());
    let handler = move |firing: Firing<'static, String>| {
        let (alive, gate) = (Alive(ends.clone(), firing.fence()), theirs.clone());
        begin.send((firing.fence(), firing.may_be_repeat())).unwrap();
        async move {
            gate.acquire().await.unwrap().forget();
            drop((alive, firing));
            Ok::<(), String>(())
        }
    };
    // A test that fails does not wait for the task.
    let service = Builder::new().handler_limit(Duration::from_secs(1));
    let builder = builder(&place).service(service);
    let cluster = builder.start_async(runtime.handle(), 10, handler).unwrap();
    wait_until("it has the shard", || cluster.shards().len() == 1);
    cluster.schedule(cluster.now(), "a".to_owned()).unwrap().wait().unwrap();
    let (first, is_repeat) = begun.recv_timeout(LIMIT).unwrap();
    assert!(!is_repeat);
    recorder
        .client
        .batch_execute("UPDATE shards SET fence = fence + 1, holder = NULL, expires = now()")
        .unwrap();
    wait_until("the task is aborted", || *ended.lock().unwrap() == [first]);
    let (second, is_repeat) = begun.recv_timeout(LIMIT).unwrap();
    assert!(second > first && is_repeat);
    gate.add_permits(1);
    recorder.wait_for_the_end();
    cluster.stop().unwrap();
}

/// The handler returns each time, in a process that lives: nothing of it is the end of a process.
#[test]
fn attempts_whose_lease_was_lost_do_not_count_as_ends_of_their_process() {
    let Some(place) = Place::new() else { return };
    let mut recorder = Recorder::new(&place, 1);
    let (begin, begun) = std::sync::mpsc::channel();
    let (go, gate) = std::sync::mpsc::channel::<()>();
    let (go, gate) = (go, Mutex::new(gate));
    let handler = move |firing: &Firing<'_, String>| {
        begin.send((firing.fence(), firing.crashes())).unwrap();
        let _ = gate.lock().unwrap().recv();
        Ok::<(), String>(())
    };
    // It is due before the shard is opened, and so it is noted that it begins.
    recorder.client.batch_execute("SELECT schedule(now(), 'a')").unwrap();
    let service = Builder::new().crashes(2);
    let builder = Cluster::builder(&place.url).schema(&place.schema).service(service);
    let cluster = builder.lease(Duration::from_secs(2)).start(handler).unwrap();
    let go = go;
    let mut last = 0;
    for is_over_before in [false, true, false, true] {
        let (fence, crashes) = begun.recv_timeout(LIMIT).expect("it is no dead letter");
        assert!(fence > last);
        assert_eq!(crashes, 0, "under the fence {fence}");
        last = fence;
        if is_over_before {
            // Its end cannot be written.
            let lock = "BEGIN; SELECT FROM writers FOR UPDATE;
                UPDATE shards SET fence = fence + 1, holder = NULL, expires = now()";
            recorder.client.batch_execute(lock).unwrap();
            go.send(()).unwrap();
            recorder.client.batch_execute("COMMIT").unwrap();
        } else {
            let lose = "UPDATE shards SET fence = fence + 1, holder = NULL, expires = now()";
            recorder.client.batch_execute(lose).unwrap();
            wait_until("it is lost", || cluster.shards().iter().all(|(_, held)| *held != fence));
            go.send(()).unwrap();
        }
    }
    assert_eq!(begun.recv_timeout(LIMIT).expect("it is no dead letter").1, 0);
    go.send(()).unwrap();
    recorder.wait_for_the_end();
    recorder.wait_for("SELECT count(*) FROM dead_letters", 0);
    cluster.stop().unwrap();
}

/// The keeper's connection alone, and then all of them, as when the server is started again.
#[test]
fn a_connection_that_is_lost_does_not_have_a_shard_wait_for_its_handlers() {
    let Some(place) = Place::new() else { return };
    let mut recorder = Recorder::new(&place, 1);
    let (long, gate) = (Gate::default(), Gate::default());
    let opens = vec![gate.clone()];
    let (sender, fired) = std::sync::mpsc::channel();
    let (begun, gate) = (long.clone(), gate.clone());
    let handler = move |firing: &Firing<'_, String>| {
        if firing.payload() == "long" {
            begun.open();
            gate.pass();
        }
        sender.send(firing.payload().clone())
    };
    let builder = builder(&place).service(Builder::new().workers(2));
    let cluster: Cluster<String> = builder.start(handler).unwrap();
    wait_until("it has the shard", || cluster.shards().len() == 1);
    let opens = Opens(opens);
    cluster.schedule(cluster.now(), "long".to_owned()).unwrap().wait().unwrap();
    long.pass();
    for who in ["keeper", "%"] {
        let lose = format!(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
                WHERE application_name LIKE 'tickless {who} in {}'",
            place.schema
        );
        assert!(!recorder.client.query(&lose, &[]).unwrap().is_empty());
        wait_until("the keeper is back", || {
            let back = format!(
                "SELECT count(*) FROM pg_stat_activity
                    WHERE application_name = 'tickless keeper in {}'",
                place.schema
            );
            recorder.client.query_one(&back, &[]).unwrap().get::<_, i64>(0) == 1
        });
        recorder.client.query(&format!("SELECT schedule(now(), '{who}')"), &[]).unwrap();
        // The one before comes again, if its end was not written.
        while fired.recv_timeout(LIMIT).expect("it waits for no handler") != who {}
    }
    drop(opens);
    recorder.wait_for_the_end();
    cluster.stop().unwrap();
}

/// Neither a short one, during which the instance keeps its shard, nor one that is longer than its
/// lease.
#[test]
fn a_restart_of_the_server_has_no_timer_wait_for_a_long_handler() {
    const TIMERS: u32 = 20;
    let Some(mut server) = Server::of_its_own() else { return };
    let place = server.place("tickless".to_owned());
    let (sender, fired) = std::sync::mpsc::channel();
    let gate = Gate::default();
    let start = || {
        let (sender, gate) = (sender.clone(), gate.clone());
        let handler = move |firing: &Firing<'_, String>| {
            let late = firing.cluster().now().duration_since(firing.due());
            sender.send((firing.payload().clone(), late.unwrap_or_default())).unwrap();
            if firing.payload() == "long" {
                gate.pass();
            }
            Ok::<(), String>(())
        };
        let builder = builder(&place).shards(1).lease(Duration::from_secs(3));
        builder.start(handler).unwrap()
    };
    let (one, other) = (start(), start());
    let opens = Opens(vec![gate.clone()]);
    wait_until("one has the shard", || one.shards().len() + other.shards().len() == 1);
    one.schedule(one.now(), "long".to_owned()).unwrap().wait().unwrap();
    assert_eq!(fired.recv_timeout(LIMIT).unwrap().0, "long");
    for pause_s in [0, 1, 5] {
        let first = one.now() + Duration::from_millis(500);
        let short = |n: u32| {
            let text = format!("{n} beside a pause of {pause_s} s");
            one.schedule(first + Duration::from_millis(50) * n, text).unwrap()
        };
        let tickets: Vec<_> = (0..TIMERS).map(short).collect();
        tickets.iter().for_each(|ticket| assert!(ticket.wait().is_ok()));
        server.restart(pause_s);
        let after = || other.schedule(other.now(), "after".to_owned()).unwrap().wait();
        wait_until("it is asked for a new one", || after().is_ok());
        let (mut all, mut latest) = (BTreeSet::new(), Duration::ZERO);
        while all.len() <= TIMERS as usize {
            let (payload, late) = fired.recv_timeout(LIMIT).expect("none waits for the long one");
            if payload != "long" && all.insert(payload) {
                latest = latest.max(late);
            }
        }
        println!("beside a pause of {pause_s} s, the latest was late by {latest:?}");
    }
    drop(opens);
    let left = || one.list(None, 9).wait().map_or(usize::MAX, |left| left.len());
    wait_until("all are over", || left() == 0);
    assert!(one.dead_letters(None, 9).wait().unwrap().is_empty());
    one.stop().unwrap();
    other.stop().unwrap();
}

/// It has cancelled a timer that fires nevertheless, and whose end cannot be written until then.
#[test]
fn a_transaction_that_stays_open_keeps_no_other_timer_of_its_shard_waiting() {
    let Some(place) = Place::new() else { return };
    let mut recorder = Recorder::new(&place, 1);
    let (sender, fired) = std::sync::mpsc::channel();
    let handler = move |firing: &Firing<'_, String>| sender.send(firing.payload().clone());
    let cluster: Cluster<String> = builder(&place).start(handler).unwrap();
    wait_until("it has the shard", || cluster.shards().len() == 1);
    let due = cluster.now() + Duration::from_secs(1);
    cluster.schedule_keyed("k", due, "locked".to_owned()).unwrap().wait().unwrap();
    let mut idle = place.client();
    idle.batch_execute("BEGIN; SELECT cancel('k')").unwrap();
    assert_eq!(fired.recv_timeout(LIMIT).unwrap(), "locked");
    for n in 0..5 {
        let other = cluster.schedule_keyed([n], cluster.now(), n.to_string()).unwrap();
        other.wait().expect("it is written");
        assert_eq!(fired.recv_timeout(LIMIT).unwrap(), n.to_string());
    }
    recorder.wait_for("SELECT count(*) FROM records", 1);
    let cancelled = cluster.cancel_key("k");
    idle.batch_execute("ROLLBACK").unwrap();
    recorder.wait_for_the_end();
    cancelled.wait().unwrap();
    assert!(cluster.failure().is_none(), "{:?}", cluster.failure());
    cluster.stop().unwrap();
    assert!(fired.try_recv().is_err(), "each has run once");
}

/// A page of timers that takes longer to read than a statement may.
#[test]
fn a_shard_whose_timers_are_slow_to_read_is_read_in_smaller_pieces() {
    const TIMERS: usize = 200;
    let Some(place) = Place::new() else { return };
    let mut recorder = Recorder::new(&place, 1);
    let (sender, fired) = std::sync::mpsc::channel();
    let start = || {
        let sender = sender.clone();
        let handler = move |firing: &Firing<'_, String>| sender.send(firing.payload().clone());
        // Without notes, each timer is read and deleted, and not written.
        let service = Builder::new().crashes(u32::MAX);
        let builder = Cluster::builder(&place.url).schema(&place.schema).service(service);
        let cluster: Cluster<String> =
            builder.lease(Duration::from_secs(3)).start(handler).unwrap();
        cluster
    };
    let cluster = start();
    wait_until("it has the shard", || cluster.shards().len() == 1);
    let due = cluster.now() + Duration::from_secs(3600);
    let tickets: Vec<_> =
        (0..TIMERS).map(|n| cluster.schedule(due, n.to_string()).unwrap()).collect();
    tickets.iter().for_each(|ticket| assert!(ticket.wait().is_ok()));
    cluster.stop().unwrap();
    // Each row takes 20 ms, and a statement has 1.8 s.
    let slow = "DROP VIEW timers; ALTER TABLE records RENAME TO quick;
        CREATE FUNCTION slow(value bytea) RETURNS bytea LANGUAGE plpgsql STABLE AS $$ BEGIN
            PERFORM pg_sleep(0.02);
            RETURN value;
        END $$;
        CREATE VIEW records AS SELECT shard, due, number, first_due, attempt, crashes, tried, key,
            payload, slow(checksum) AS checksum, errors FROM quick";
    recorder.client.batch_execute(slow).unwrap();
    let cluster = start();
    wait_until("all of them are read", || {
        cluster.stats().first().is_some_and(|work| work.stats.near == TIMERS)
    });
    assert!(cluster.failure().is_none(), "{:?}", cluster.failure());
    assert!(fired.try_recv().is_err(), "none is due");
    cluster.stop().unwrap();
}

/// Whatever the number of its shards, and as many when it has fewer of them.
#[test]
fn the_window_is_the_instances() {
    const WINDOW: usize = 64;
    let Some(place) = Place::new() else { return };
    let start = || -> Cluster<String> {
        let handler = |_: &Firing<'_, String>| Ok::<(), String>(());
        let service = Builder::new().window(WINDOW);
        builder(&place).shards(8).service(service).start(handler).unwrap()
    };
    let near = |cluster: &Cluster<String>| -> usize {
        cluster.stats().iter().map(|work| work.stats.near).sum()
    };
    let one = start();
    wait_until("it has all shards", || one.shards().len() == 8);
    let due = one.now() + Duration::from_secs(600);
    let tickets: Vec<_> = (0..400).map(|n| one.schedule(due, n.to_string()).unwrap()).collect();
    tickets.iter().for_each(|ticket| assert!(ticket.wait().is_ok()));
    // Each time until it is full, and it is never fuller.
    let is_full = |cluster: &Cluster<String>| {
        let near = near(cluster);
        assert!(near <= WINDOW, "{near}");
        near == WINDOW
    };
    wait_until("it is full", || is_full(&one));
    let other = start();
    wait_until("they share", || one.shards().len() == 4 && other.shards().len() == 4);
    wait_until("both are full", || is_full(&one) && is_full(&other));
    other.stop().unwrap();
    wait_until("it has all again", || one.shards().len() == 8 && is_full(&one));
    one.stop().unwrap();
}
