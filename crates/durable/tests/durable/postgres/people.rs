//! What people and their programs do in the database: timers within transactions, and rows that
//! they look at and change.

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use postgres::Client;
use postgres::error::SqlState;
use tickless_durable::cluster::{Firing, TimerId};
use tickless_durable::store::PostgresStore;
use tickless_durable::{Cancelled, Cluster};

use super::instance::{Instance, Settings};
use super::scene::Scene;
use super::server::Place;
use crate::common::limit::LIMIT;
use crate::common::until::wait_until;

const HOUR: Duration = Duration::from_secs(3600);

/// What has fired: the payload, the number, and whether it may be a repeat.
type Fired = (String, TimerId, bool);

/// A cluster whose keeper looks for nothing during the test, so that all it knows it is told.
fn start(place: &Place, shards: u32) -> (Cluster<String>, Receiver<Fired>) {
    let (sender, fired) = channel();
    let handler = move |firing: &Firing<'_, String>| {
        sender.send((firing.payload().clone(), firing.id(), firing.may_be_repeat()))
    };
    let builder = Cluster::builder(&place.url).schema(&place.schema).shards(shards);
    let cluster: Cluster<String> = builder.lease(24 * HOUR).start(handler).unwrap();
    wait_until("it has all shards", || cluster.shards().len() == shards as usize);
    // What is in the shards was read.
    let is_read = || cluster.stats().iter().all(|work| work.stats.refills > 0);
    wait_until("it has read what is there", is_read);
    (cluster, fired)
}

/// Asks for one text.
fn ask(client: &mut Client, sql: &str) -> String {
    client.query_one(sql, &[]).unwrap().get(0)
}

#[test]
fn a_timer_of_a_transaction_exists_if_and_when_that_is_committed() {
    let Some(place) = Place::new() else { return };
    let (cluster, fired) = start(&place, 3);
    let (mut client, mut other) = (place.client(), place.client());
    let schedule = |client: &mut Client| -> BTreeSet<String> {
        client.batch_execute("BEGIN").unwrap();
        let now = cluster.now();
        let one = cluster.schedule_in(client, None, now, "a".to_owned()).unwrap();
        let two = cluster.schedule_in(client, Some(b"key"), now, "b".to_owned()).unwrap();
        let three = ask(client, "SELECT schedule(now(), 'c', 'another key')");
        let four = ask(client, "SELECT schedule(now(), 'd'::bytea)");
        BTreeSet::from([one.to_string(), two.to_string(), three, four])
    };
    let dropped = schedule(&mut client);
    client.batch_execute("ROLLBACK").unwrap();
    let left = "SELECT count(*)::text FROM records";
    assert_eq!(ask(&mut other, left), "0");
    let ids = schedule(&mut client);
    assert!(ids.is_disjoint(&dropped));
    // What is due after them fires, and they do not.
    for n in 0..20 {
        cluster
            .schedule_keyed(n.to_string(), cluster.now(), "later".to_owned())
            .unwrap()
            .wait()
            .unwrap();
    }
    for _ in 0..20 {
        assert_eq!(fired.recv_timeout(LIMIT).unwrap().0, "later");
    }
    client.batch_execute("COMMIT").unwrap();
    let four: Vec<Fired> =
        (0..4).map(|_| fired.recv_timeout(LIMIT).expect("it was told")).collect();
    assert_eq!(four.iter().map(|fired| fired.1.to_string()).collect::<BTreeSet<_>>(), ids);
    let payloads: BTreeSet<&str> = four.iter().map(|fired| &*fired.0).collect();
    assert_eq!(payloads, BTreeSet::from(["a", "b", "c", "d"]));
    assert!(four.iter().all(|fired| !fired.2), "they were made after the shards were opened");
    wait_until("they are over", || ask(&mut other, left) == "0");
}

#[test]
fn the_same_in_an_asynchronous_transaction() {
    let Some(place) = Place::new() else { return };
    let (cluster, fired) = start(&place, 2);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let id = runtime.block_on(async {
        let connected = tokio_postgres::connect(&place.url, tokio_postgres::NoTls).await;
        let (mut client, connection) = connected.unwrap();
        tokio::spawn(connection);
        let now = cluster.now();
        let transaction = client.transaction().await.unwrap();
        cluster.schedule_in_async(&transaction, None, now, "dropped".to_owned()).await.unwrap();
        transaction.rollback().await.unwrap();
        let transaction = client.transaction().await.unwrap();
        let id = cluster.schedule_in_async(&transaction, Some(b"k"), now, "kept".to_owned()).await;
        transaction.commit().await.unwrap();
        id.unwrap()
    });
    assert_eq!(fired.recv_timeout(LIMIT).unwrap(), ("kept".to_owned(), id, false));
}

#[test]
fn an_instance_that_is_killed_in_a_transaction_leaves_no_timer_and_after_it_the_timer() {
    let Some(place) = Place::new() else { return };
    let mut scene = Scene::new(place, 2);
    let settings = Settings { lease: Duration::from_secs(2), ..Settings::default() };
    let mut first = Instance::start(&scene, &settings);
    first.does("enter");
    first.kill();
    let backends = "SELECT count(*) FROM pg_stat_activity WHERE state = 'idle in transaction'
        AND query LIKE '%' || current_schema || '.schedule_ms%'";
    scene.recorder.wait_for(backends, 0);
    scene.recorder.wait_for("SELECT count(*) FROM timers", 0);
    // This one does not have a shard before the lease of the first one is over, and is killed.
    let mut second = Instance::start(&scene, &settings);
    second.does("enter");
    second.does("commit");
    second.kill();
    let _third = Instance::start(&scene, &settings);
    scene.starts.wait_for(1, |_| true);
    scene.wait_for_the_end();
}

#[test]
fn a_timer_of_a_transaction_has_its_key_to_itself_and_can_be_cancelled() {
    let Some(place) = Place::new() else { return };
    let (cluster, fired) = start(&place, 7);
    let mut client = place.client();
    let far = cluster.now() + HOUR;
    // The same shards for keys of all lengths, so that an instance finds them.
    for n in 0..40 {
        let key = "k\u{e9}y \0".repeat(n % 5) + &n.to_string();
        let key = key.as_bytes();
        cluster.schedule_keyed(key, far, "old".to_owned()).unwrap().wait().unwrap();
        cluster.schedule_in(&mut client, Some(key), far, "new".to_owned()).unwrap();
        let all = cluster.list(None, 9).wait().unwrap();
        assert_eq!(all.len(), 1, "{all:?}");
        assert_eq!(&*all[0].record.payload, b"new");
        if n % 2 == 0 {
            assert_eq!(cluster.cancel_key(key).wait().unwrap(), Cancelled::Cancelled);
        } else {
            let cancelled: bool =
                client.query_one("SELECT cancel($1::bytea)", &[&key]).unwrap().get(0);
            assert!(cancelled);
        }
    }
    assert_eq!(ask(&mut client, "SELECT cancel('k')::text"), "false");
    // One that the holder has in memory already is not handled.
    cluster.schedule_keyed("k", far, "old".to_owned()).unwrap().wait().unwrap();
    let now = cluster.now();
    cluster.schedule_in(&mut client, Some(b"k"), now, "new".to_owned()).unwrap();
    assert_eq!(fired.recv_timeout(LIMIT).unwrap().0, "new");
    wait_until("it is over", || cluster.list(None, 9).wait().unwrap().is_empty());
}

/// Two keys of one shard, in the opposite order: the server ends the wait of one of them.
#[test]
fn a_holder_and_a_transaction_that_wait_for_each_other_both_get_through() {
    let Some(place) = Place::new() else { return };
    let (cluster, _fired) = start(&place, 1);
    let (mut client, mut other) = (place.client(), place.client());
    // It is the holder that gives way.
    client.batch_execute("SET deadlock_timeout = '1h'; BEGIN").unwrap();
    let far = cluster.now() + HOUR;
    cluster.schedule_in(&mut client, Some(b"b"), far, "theirs".to_owned()).unwrap();
    let tickets =
        ["a", "b"].map(|key| cluster.schedule_keyed(key, far, "ours".to_owned()).unwrap());
    let waits = "SELECT count(*)::text FROM pg_stat_activity WHERE wait_event_type = 'Lock'
        AND application_name = 'tickless writer in ' || current_schema";
    wait_until("the holder waits", || ask(&mut other, waits) == "1");
    cluster.schedule_in(&mut client, Some(b"a"), far, "theirs".to_owned()).unwrap();
    client.batch_execute("COMMIT").unwrap();
    for ticket in tickets {
        ticket.wait().unwrap();
    }
    let all = cluster.list(None, 9).wait().unwrap();
    assert_eq!(all.len(), 2, "{all:?}");
    // Each has replaced the other's. If the holder has not waited for the second call, its own
    // timer was there before.
    let of = |key: &[u8]| all.iter().find(|timer| timer.record.key.as_deref() == Some(key));
    assert_eq!(of(b"b").map(|timer| &*timer.record.payload), Some(&b"ours"[..]), "{all:?}");
    assert!(of(b"a").is_some(), "{all:?}");
    assert!(cluster.failure().is_none(), "{:?}", cluster.failure());
}

/// In a table of any size, which the server knows nothing of yet.
#[test]
fn what_the_documentation_asks_for_goes_by_indexes() {
    let Some(place) = Place::new() else { return };
    PostgresStore::make_tables(&place.url, &place.schema, 2).unwrap();
    let mut client = place.client();
    client.batch_execute("SET enable_seqscan = off").unwrap();
    let mut plan = |asked: &str| -> String {
        let lines = client.query(&format!("EXPLAIN {asked}"), &[]).unwrap();
        lines.iter().map(|line| line.get::<_, String>(0)).collect()
    };
    let late = plan("SELECT due, key, payload, attempt FROM timers WHERE due < now()");
    assert!(late.contains("records_by_time"), "{late}");
    let moved = plan("UPDATE timers SET due = now() WHERE key = 'order 17'");
    assert!(moved.contains("records_by_text"), "{moved}");
    // What they write has the checksum that instances look at, and the shard that they look in.
    let scheduled = "SELECT schedule('2100-01-01', convert_to(text, 'UTF8'), CASE WHEN has_key
            THEN decode(md5(text), 'hex') END)
        FROM (VALUES (''), ('a'), ('\u{fc}\\'), ('b')) AS texts (text),
            unnest('{t,f}'::bool[]) AS has_key";
    assert_eq!(client.query(scheduled, &[]).unwrap().len(), 8);
    client.batch_execute("UPDATE timers SET due = due + interval '1 hour'").unwrap();
    let wrong = "SELECT count(*) FROM records WHERE checksum <> checksum_of(due, number, first_due,
        attempt, crashes, tried, key, payload, errors, NULL) OR shard <> shard_of(key)";
    assert_eq!(client.query_one(wrong, &[]).unwrap().get::<_, i64>(0), 0);
    let mut seen = Cluster::builder(&place.url).schema(&place.schema).observe().unwrap();
    let listed = seen.list(None, 99).unwrap();
    assert_eq!(listed.len(), 8);
    for key in listed.iter().filter_map(|timer| timer.record.key.clone()) {
        assert!(seen.cancel_key(key).unwrap());
    }
}

#[test]
fn people_see_timers_put_them_off_and_throw_them_away() {
    let Some(place) = Place::new() else { return };
    let (cluster, fired) = start(&place, 2);
    let mut client = place.client();
    let far = cluster.now() + HOUR;
    for key in ["a", "b", "c"] {
        cluster.schedule_keyed(key, far, format!("{{\"to\": \"{key}\"}}")).unwrap().wait().unwrap();
    }
    let binary = [0xff_u8, 0x00];
    client
        .query_one("SELECT schedule(now() + interval '1 day', $1::bytea, $1)", &[&&binary[..]])
        .unwrap();
    let shown = "SELECT string_agg(concat_ws(' ', key, attempt, tried, due > now(),
        due = first_due), ', ' ORDER BY key DESC) FROM timers";
    assert_eq!(ask(&mut client, shown), "c 1 f t t, b 1 f t t, a 1 f t t, \\xff00 1 f t t");
    let json = "SELECT payload::jsonb ->> 'to' FROM timers WHERE key = 'b'";
    assert_eq!(ask(&mut client, json), "b");
    let id = ask(&mut client, "SELECT id FROM timers WHERE key = 'b'");
    let found = cluster.get(id.parse().unwrap()).wait().unwrap().expect("it has this number");
    assert_eq!(&**found.record.key.as_ref().unwrap(), b"b");

    let change = |client: &mut Client, sql: &str| client.execute(sql, &[]);
    // The holder has them in memory.
    assert_eq!(change(&mut client, "DELETE FROM timers WHERE key = 'a'").unwrap(), 1);
    assert_eq!(change(&mut client, "UPDATE timers SET due = now() WHERE key = 'b'").unwrap(), 1);
    let (payload, its_id, is_repeat) = fired.recv_timeout(LIMIT).expect("the holder is told");
    assert_eq!((&*payload, its_id.to_string(), is_repeat), ("{\"to\": \"b\"}", id, true));
    let later = "UPDATE timers SET due = due + interval '1 day 1 millisecond' WHERE key = 'c'";
    assert_eq!(change(&mut client, later).unwrap(), 1);
    assert_eq!(
        change(&mut client, "UPDATE timers SET due = '1900-01-01' WHERE key = 'c'").unwrap(),
        1
    );
    assert_eq!(fired.recv_timeout(LIMIT).unwrap().0, "{\"to\": \"c\"}");
    wait_until("one is left", || cluster.list(None, 9).wait().unwrap().len() == 1);

    // What would leave nothing that can be read is refused.
    for (sql, code) in [
        ("UPDATE timers SET payload = 'x'", SqlState::FEATURE_NOT_SUPPORTED),
        ("INSERT INTO timers (due) VALUES (now())", SqlState::FEATURE_NOT_SUPPORTED),
        ("UPDATE records SET due = -5", SqlState::CHECK_VIOLATION),
        ("UPDATE records SET number = -5", SqlState::CHECK_VIOLATION),
        ("UPDATE records SET attempt = -5", SqlState::CHECK_VIOLATION),
    ] {
        assert_eq!(change(&mut client, sql).unwrap_err().code(), Some(&code), "{sql}");
    }
    assert!(cluster.failure().is_none(), "{:?}", cluster.failure());
}

/// By a person, and by an observer. The first handler is over, and its timer is not.
#[test]
fn a_timer_that_is_put_off_while_its_handler_runs_comes_again_and_says_so() {
    let Some(place) = Place::new() else { return };
    let (sender, fired) = channel();
    let (go, gate) = channel::<()>();
    let gate = Mutex::new(gate);
    let handler = move |firing: &Firing<'_, String>| {
        sender.send(firing.may_be_repeat()).unwrap();
        gate.lock().unwrap().recv()
    };
    let builder = || Cluster::builder(&place.url).schema(&place.schema);
    let cluster: Cluster<String> = builder().shards(1).start(handler).unwrap();
    wait_until("it has the shard", || cluster.shards().len() == 1);
    // It goes before the cluster, so that a test which fails does not wait for the handler.
    let go = go;
    let (mut client, mut observer) = (place.client(), builder().observe().unwrap());
    for by_observer in [false, true] {
        let id = cluster.schedule(cluster.now(), "a".to_owned()).unwrap().wait().unwrap();
        assert!(!fired.recv_timeout(LIMIT).unwrap());
        if by_observer {
            assert!(observer.reschedule(id, cluster.now()).unwrap());
        } else {
            client.batch_execute("UPDATE timers SET due = now()").unwrap();
        }
        go.send(()).unwrap();
        assert!(fired.recv_timeout(LIMIT).expect("it comes again"));
        go.send(()).unwrap();
        wait_until("it is over", || cluster.list(None, 9).wait().unwrap().is_empty());
    }
}

/// Nobody else than the cluster needs rights to the tables.
#[test]
fn a_program_needs_no_more_than_the_function_and_a_person_no_more_than_the_view() {
    let Some(place) = Place::new() else { return };
    let (cluster, fired) = start(&place, 2);
    let schema = &place.schema;
    let (program, person) = (format!("program_{schema}"), format!("person_{schema}"));
    let grants = format!(
        "CREATE ROLE {program} LOGIN; CREATE ROLE {person} LOGIN;
        GRANT USAGE ON SCHEMA {schema} TO {program}, {person};
        GRANT SELECT, UPDATE, DELETE ON {schema}.timers, {schema}.dead TO {person}"
    );
    place.client().batch_execute(&grants).unwrap();
    let connect = |role: &str| {
        let url = place.url.replace("user=tickless", &format!("user={role}"));
        Client::connect(&url, postgres::NoTls).unwrap()
    };
    let (mut program, mut person) = (connect(&program), connect(&person));
    // Names of the caller's hide nothing.
    program.batch_execute("CREATE TEMP TABLE records (); CREATE TEMP TABLE meta ()").unwrap();
    let schedule =
        format!("SELECT {schema}.schedule(due => now() + '1h', payload => 'x', key => 'k')");
    ask(&mut program, &schedule);
    let read = format!("SELECT * FROM {schema}.timers");
    let denied = Some(&SqlState::INSUFFICIENT_PRIVILEGE);
    assert_eq!(program.query(&read, &[]).unwrap_err().code(), denied);
    let write = format!("DELETE FROM {schema}.records");
    assert_eq!(person.execute(&write, &[]).unwrap_err().code(), denied);
    assert_eq!(person.query(&read, &[]).unwrap().len(), 1);
    person.batch_execute(&format!("UPDATE {schema}.timers SET due = now()")).unwrap();
    assert_eq!(fired.recv_timeout(LIMIT).unwrap().0, "x");
    drop(cluster);
}

/// All timers are there afterwards, once, where the new instance looks for them. One that started
/// before writes nothing.
#[test]
fn a_cluster_gets_another_number_of_shards() {
    let Some(place) = Place::new() else { return };
    let mut client = place.client();
    let (cluster, _fired) = start(&place, 3);
    let refused = client.batch_execute("SELECT reshard(7)").unwrap_err();
    assert_eq!(refused.code(), Some(&SqlState::OBJECT_IN_USE), "{refused}");
    let at = cluster.now() + HOUR;
    let schedule = |n: usize| {
        let payload = n.to_string();
        let ticket = match n % 2 {
            0 => cluster.schedule(at, payload),
            _ => cluster.schedule_keyed(format!("key {n}"), at, payload),
        };
        ticket.unwrap().wait().unwrap()
    };
    let ids: Vec<TimerId> = (0..40).map(schedule).collect();
    // It is taken for dead, and does not know.
    let dead = "DELETE FROM instances; UPDATE shards SET expires = now()";
    client.batch_execute(dead).unwrap();
    assert!(client.batch_execute("SELECT reshard(0)").is_err());
    client.batch_execute("SELECT reshard(7)").unwrap();
    for n in 0..20 {
        let late = cluster.schedule_keyed(format!("late {n}"), at, "late".to_owned());
        assert!(late.is_err() || late.is_ok_and(|ticket| ticket.wait().is_err()), "{n}");
    }
    cluster.stop_within(Duration::ZERO).unwrap();

    let (cluster, _fired) = start(&place, 7);
    assert_eq!(cluster.list(None, 99).wait().unwrap().len(), 40);
    for n in (0..40).step_by(4) {
        assert_eq!(cluster.cancel(ids[n]).wait().unwrap(), Cancelled::Cancelled, "{n}");
        let key = format!("key {}", n + 1);
        assert_eq!(cluster.cancel_key(&key).wait().unwrap(), Cancelled::Cancelled, "{key}");
    }
    cluster.stop().unwrap();
    client.batch_execute("SELECT reshard(2)").unwrap();

    let (cluster, fired) = start(&place, 2);
    // Also by the number that it got when there were three.
    assert_eq!(cluster.cancel(ids[2]).wait().unwrap(), Cancelled::Cancelled);
    client.batch_execute("UPDATE timers SET due = now()").unwrap();
    let mut left: Vec<usize> =
        (0..19).map(|_| fired.recv_timeout(LIMIT).unwrap().0.parse().unwrap()).collect();
    left.sort_unstable();
    let expected: Vec<usize> = (0..40).filter(|n| n % 4 > 1 && *n != 2).collect();
    assert_eq!(left, expected);
    wait_until("they are over", || cluster.list(None, 9).wait().unwrap().is_empty());
    assert!(fired.try_recv().is_err());
}
