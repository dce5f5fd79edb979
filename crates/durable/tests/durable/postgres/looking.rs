//! What can be seen of a cluster, from any of its instances.

use std::collections::BTreeSet;
use std::time::{Duration, SystemTime};

use tickless_durable::cluster::{Firing, TimerId};
use tickless_durable::{Builder, Cluster, Position};

use super::server::Place;
use crate::common::until::wait_until;

#[test]
fn each_instance_sees_the_timers_of_all_shards_and_who_has_them() {
    let Some(place) = Place::new() else { return };
    let start = || -> Cluster<String> {
        let builder = Cluster::builder(&place.url).schema(&place.schema).shards(4);
        let handler = |_: &Firing<'_, String>| Err::<(), _>("on purpose");
        builder.service(Builder::new().attempts(1)).start(handler).unwrap()
    };
    let (one, other) = (start(), start());
    while one.shards().len() < 2 || other.shards().len() < 2 {
        std::thread::yield_now();
    }
    let far = one.now() + Duration::from_secs(3600);
    let mut ids = BTreeSet::new();
    for n in 0..20 {
        let ticket = one.schedule_keyed(format!("key {n}"), far, n.to_string()).unwrap();
        ids.insert(ticket.wait().unwrap());
        one.schedule_keyed(format!("dies {n}"), one.now(), n.to_string()).unwrap().wait().unwrap();
    }
    let contents = loop {
        let contents = other.contents().wait().unwrap();
        if contents.iter().map(|shard| shard.contents.dead_letters).sum::<u64>() == 20 {
            break contents;
        }
        std::thread::yield_now();
    };
    assert_eq!(contents.iter().map(|shard| shard.shard).collect::<Vec<_>>(), [0, 1, 2, 3]);
    assert_eq!(contents.iter().map(|shard| shard.contents.timers).sum::<u64>(), 20);
    let holders: BTreeSet<_> = contents.iter().filter_map(|shard| shard.holder).collect();
    assert_eq!(holders, BTreeSet::from([one.instance(), other.instance()]));
    for (shard, fence) in one.shards() {
        assert_eq!(contents[shard as usize].fence, fence);
        let first = contents[shard as usize].contents.first_due;
        assert!(first.is_none_or(|first| first >= far), "{first:?}");
    }
    let buried = |cluster: &Cluster<String>| {
        cluster.stats().iter().map(|work| work.stats.buried).sum::<u64>()
    };
    assert_eq!(buried(&one) + buried(&other), 20);
    #[cfg(feature = "metrics")]
    assert_eq!([&one, &other].map(|cluster| published(cluster).len()), [2, 2]);

    let mut listed = Vec::new();
    loop {
        let page = other.list(listed.last(), 7).wait().unwrap();
        assert!(page.len() <= 7);
        if page.is_empty() {
            break;
        }
        listed.extend(page);
    }
    let found: BTreeSet<TimerId> = listed.iter().map(|timer| timer.id()).collect();
    assert_eq!((found, listed.len()), (ids, 20));
    for timer in &listed {
        assert_eq!(one.get(timer.id()).wait().unwrap().as_ref(), Some(timer));
    }
    let late = Position::before_all_at(far + Duration::from_secs(60));
    assert!(other.list_after(Some((3, late)), 9).wait().unwrap().is_empty());
    one.cancel(listed[0].id()).wait().unwrap();
    assert_eq!(other.get(listed[0].id()).wait().unwrap(), None);
    let strange = "77-0000019af0c4d2000000010000000007".parse().unwrap();
    assert_eq!(other.get(strange).wait().unwrap(), None);
    assert!(contents[0].contents.lag(SystemTime::UNIX_EPOCH) == Duration::ZERO);
}

/// How many timers each shard has buried, as the metrics say.
#[cfg(feature = "metrics")]
fn published(cluster: &Cluster<String>) -> std::collections::BTreeMap<String, u64> {
    use metrics_util::debugging::{DebugValue, DebuggingRecorder};
    let recorder = DebuggingRecorder::new();
    metrics::with_local_recorder(&recorder, || cluster.metrics().publish());
    let found = recorder.snapshotter().snapshot().into_vec().into_iter();
    let buried = found.filter_map(|(key, _, _, value)| {
        let key = key.key();
        // What is of the instance has none.
        let shard = key.labels().find(|label| label.key() == "shard")?;
        match value {
            DebugValue::Counter(value) if key.name() == "tickless_durable_buried_total" => {
                Some((shard.value().to_owned(), value))
            }
            _ => None,
        }
    });
    let buried: std::collections::BTreeMap<_, _> = buried.collect();
    let stats: u64 = cluster.stats().iter().map(|work| work.stats.buried).sum();
    assert_eq!(buried.values().sum::<u64>(), stats);
    buried
}

/// One that is gone cannot tell how late its timers are.
#[cfg(feature = "metrics")]
#[test]
fn how_late_a_shard_is_that_nobody_serves_is_published_by_each_instance() {
    use metrics_util::debugging::{DebugValue, DebuggingRecorder};
    let Some(place) = Place::new() else { return };
    let handler = |_: &Firing<'_, String>| Ok::<(), String>(());
    let builder = || Cluster::builder(&place.url).schema(&place.schema).shards(2);
    // It makes the tables.
    builder().start(handler).unwrap().stop().unwrap();
    let mut client = place.client();
    let gone = "UPDATE shards SET holder = 1, expires = now() + interval '1 hour';
        SELECT schedule(now() - n * interval '1 second', 'late', 'k' || n)
            FROM generate_series(1000, 1020) AS n";
    client.batch_execute(gone).unwrap();
    let cluster: Cluster<String> = builder().lease(Duration::from_secs(1)).start(handler).unwrap();
    let lags = || {
        let recorder = DebuggingRecorder::new();
        metrics::with_local_recorder(&recorder, || cluster.metrics().publish());
        let found = recorder.snapshotter().snapshot().into_vec().into_iter();
        let lag = found.filter_map(|(key, _, _, value)| match value {
            DebugValue::Gauge(lag) if key.key().name() == "tickless_durable_overdue_seconds" => {
                Some(lag.into_inner())
            }
            _ => None,
        });
        lag.collect::<Vec<f64>>()
    };
    let are_late = |lags: &[f64]| lags.len() == 2 && lags.iter().all(|lag| *lag >= 1000.0);
    wait_until("it says so", || are_late(&lags()));
    assert!(cluster.shards().is_empty());
    client.batch_execute("UPDATE shards SET expires = now()").unwrap();
    wait_until("they have fired", || lags() == [0.0, 0.0]);
    cluster.stop().unwrap();
}

#[test]
fn of_two_instances_that_add_the_same_timer_one_does() {
    let Some(place) = Place::new() else { return };
    let start = || -> Cluster<String> {
        let builder = Cluster::builder(&place.url).schema(&place.schema).shards(4);
        builder.start(|_: &Firing<'_, String>| Ok::<(), String>(())).unwrap()
    };
    let (one, other) = (start(), start());
    while one.shards().len() < 2 || other.shards().len() < 2 {
        std::thread::yield_now();
    }
    let far = one.now() + Duration::from_secs(3600);
    let add = |cluster: &Cluster<String>| -> Vec<Option<TimerId>> {
        let enter = |n| cluster.schedule_if_absent(format!("key {n}"), far, String::new()).unwrap();
        let entered: Vec<_> = (0..40).map(enter).collect();
        entered.iter().map(|entered| entered.wait().unwrap()).collect()
    };
    let (mine, theirs) = std::thread::scope(|scope| {
        let theirs = scope.spawn(|| add(&other));
        (add(&one), theirs.join().unwrap())
    });
    let ids: BTreeSet<TimerId> = mine.iter().chain(&theirs).flatten().copied().collect();
    assert_eq!(ids.len(), 40);
    for (mine, theirs) in mine.iter().zip(&theirs) {
        assert!(mine.is_some() != theirs.is_some(), "{mine:?} and {theirs:?}");
    }
    let listed = one.list(None, 100).wait().unwrap();
    assert_eq!(listed.iter().map(|timer| timer.id()).collect::<BTreeSet<_>>(), ids);
}

#[test]
fn an_observer_sees_and_changes_timers_and_takes_no_shard() {
    let Some(place) = Place::new() else { return };
    let builder = || Cluster::builder(&place.url).schema(&place.schema);
    assert!(builder().observe().is_err(), "there is no cluster yet");
    let (sender, fired) = std::sync::mpsc::channel();
    let handler = move |firing: &Firing<'_, String>| {
        sender.send(firing.payload().clone()).unwrap();
        if firing.payload() == "dies" { Err("on purpose") } else { Ok(()) }
    };
    let service = Builder::new().attempts(1);
    let cluster: Cluster<String> = builder().shards(2).service(service).start(handler).unwrap();
    let mut observer = builder().observe().unwrap();
    while cluster.shards().len() < 2 {
        std::thread::yield_now();
    }
    let far = cluster.now() + Duration::from_secs(3600);
    let schedule =
        |key: &str, at| cluster.schedule_keyed(key, at, key.to_owned()).unwrap().wait().unwrap();
    let (first, second, third) = (schedule("a", far), schedule("b", far), schedule("c", far));
    schedule("dies", cluster.now());
    assert_eq!(fired.recv().unwrap(), "dies");
    let letter = loop {
        if let Some(letter) = observer.dead_letters(None, 9).unwrap().pop() {
            break letter;
        }
        std::thread::yield_now();
    };
    assert_eq!(observer.list(None, 9).unwrap().len(), 3);
    let holders: Vec<_> = observer.contents().unwrap().iter().map(|shard| shard.holder).collect();
    assert_eq!(holders, [Some(cluster.instance()); 2]);
    assert!(observer.cancel(first).unwrap() && !observer.cancel(first).unwrap());
    assert!(observer.cancel_key("b").unwrap());
    assert_eq!(observer.get(second).unwrap(), None);
    // The holder hears of what is sooner than it knows.
    assert!(observer.reschedule(third, SystemTime::UNIX_EPOCH).unwrap());
    assert_eq!(fired.recv().unwrap(), "c");
    assert!(observer.revive(&letter, SystemTime::UNIX_EPOCH).unwrap());
    assert_eq!(fired.recv().unwrap(), "dies");
    let letter = loop {
        if let Some(letter) = observer.dead_letters(None, 9).unwrap().pop() {
            break letter;
        }
        std::thread::yield_now();
    };
    assert!(observer.forget(&letter).unwrap() && !observer.forget(&letter).unwrap());
    assert_eq!(cluster.shards().len(), 2);
    cluster.stop().unwrap();
}

/// The URL of a database on the server of `place`.
#[cfg(any(feature = "cli", feature = "sqlite"))]
fn url(place: &Place, database: &str) -> String {
    let host = place.socket().parent().unwrap().display().to_string().replace('/', "%2F");
    format!("postgres://tickless@{host}:{}/{database}", place.port)
}

/// What becomes of a command: its status, what it prints, and what it says of errors.
#[cfg(feature = "cli")]
fn command_line(place: &Place, arguments: &[&str]) -> (Option<i32>, String, String) {
    let mut program = std::process::Command::new(env!("CARGO_BIN_EXE_tickless-durable"));
    let program = program.args([&url(place, "postgres"), "--schema", &place.schema]);
    let output = program.args(arguments).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    (output.status.code(), String::from_utf8(output.stdout).unwrap(), said)
}

/// The command line shows the same, and does the same.
#[cfg(feature = "cli")]
#[test]
fn the_command_line_works_on_a_cluster() {
    let Some(place) = Place::new() else { return };
    let handler = |_: &Firing<'_, String>| Ok::<(), String>(());
    let builder = Cluster::builder(&place.url).schema(&place.schema).shards(2);
    let cluster: Cluster<String> = builder.start(handler).unwrap();
    while cluster.shards().len() < 2 {
        std::thread::yield_now();
    }
    let far = cluster.now() + Duration::from_secs(3600);
    let id = cluster.schedule_keyed("k", far, "tea".to_owned()).unwrap().wait().unwrap();
    let run = |arguments: &[&str]| {
        let (code, out, said) = command_line(&place, arguments);
        assert_eq!(code, Some(0), "{arguments:?}: {said}");
        out
    };
    let listed = run(&["ls"]);
    assert!(listed.starts_with(&id.to_string()) && listed.contains("\"tea\""), "{listed}");
    assert_eq!(run(&["ls", "--from", "2100-01-01T00:00:00Z"]), "");
    assert_eq!(run(&["ls", "--late"]), "");
    let count = run(&["count"]);
    assert!(count.contains(&format!("held by {}", cluster.instance())), "{count}");
    assert!(run(&["show", &id.to_string()]).contains("key        k"));
    let ddl = run(&["ddl"]);
    assert!(ddl.contains("CREATE TABLE records"));
    let json: serde_json::Value = serde_json::from_str(&run(&["ddl", "--json"])).unwrap();
    assert_eq!(json["ddl"].as_str().map(str::trim_end), Some(ddl.trim_end()));
    assert!(run(&["cancel", "--key", "k"]).contains("cancelled"));
    assert!(run(&["check"]).starts_with("0 timers"));
    cluster.stop().unwrap();
}

/// It connects again when it has to.
#[cfg(feature = "sqlite")]
#[test]
fn a_page_shows_a_cluster_and_changes_it() {
    let Some(place) = Place::new().map(Place::alone) else { return };
    let handler = |_: &Firing<'_, String>| Err::<(), _>("on purpose");
    let builder = Cluster::builder(&place.url).schema(&place.schema).shards(2);
    let builder = builder.service(Builder::new().attempts(1));
    let cluster: Cluster<String> = builder.start(handler).unwrap();
    wait_until("it has all shards", || cluster.shards().len() == 2);
    let far = cluster.now() + Duration::from_secs(3600);
    let id = cluster.schedule_keyed("mail/1", far, "tea".to_owned()).unwrap().wait().unwrap();
    let dead = cluster.schedule(cluster.now(), "dies".to_owned()).unwrap().wait().unwrap();
    let letters = || cluster.dead_letters(None, 9).wait().unwrap().len();
    wait_until("it has died", || letters() == 1);
    let url = url(&place, &place.schema);
    let (id, dead) = (id.to_string(), dead.to_string());
    let parts = [&*url, "--schema", &place.schema];
    let page = crate::page::works_on_a_cluster(&parts, cluster.instance(), &id, &dead);
    let ends = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
        WHERE datname = current_database() AND pid <> pg_backend_pid()";
    place.client().batch_execute(ends).unwrap();
    wait_until("it connects again", || page.ask("GET /counts.json").0 == 200);
    cluster.stop().unwrap();
}

#[test]
fn all_instances_obey_a_pause_from_wherever_it_comes() {
    let Some(place) = Place::new() else { return };
    let (sender, fired) = std::sync::mpsc::channel();
    let start = || -> Cluster<String> {
        let sender = sender.clone();
        let handler = move |firing: &Firing<'_, String>| sender.send(firing.payload().clone());
        let builder = Cluster::builder(&place.url).schema(&place.schema).shards(4);
        // What a round would find, they are told before.
        builder.lease(Duration::from_secs(3600)).start(handler).unwrap()
    };
    let (one, other) = (start(), start());
    while one.shards().len() < 2 || other.shards().len() < 2 {
        std::thread::yield_now();
    }
    let mut seen = Cluster::builder(&place.url).schema(&place.schema).observe().unwrap();
    assert!(one.pause("mail/").wait().unwrap() && !seen.pause("mail/").unwrap());
    assert!(seen.pause("sms/").unwrap());
    assert_eq!(other.pauses().wait().unwrap(), seen.pauses().unwrap());
    let error = one.pause("x".repeat(1001)).wait().unwrap_err();
    let tickless_durable::Error::Store(error) = error else { panic!("{error}") };
    assert_eq!(error.kind(), tickless_durable::StoreErrorKind::TooLarge);
    // Both have looked when they have paused what is in each of their shards.
    let is_paused =
        |cluster: &Cluster<String>| cluster.stats().iter().all(|work| work.stats.pauses == 2);
    wait_until("they obey", || is_paused(&one) && is_paused(&other));
    for n in 0..20 {
        for kind in ["mail", "sms", "post"] {
            let key = format!("{kind}/{n}");
            one.schedule_keyed(&key, one.now(), key.clone()).unwrap().wait().unwrap();
        }
    }
    for _ in 0..20 {
        assert!(fired.recv_timeout(crate::common::limit::LIMIT).unwrap().starts_with("post/"));
    }
    // A third one finds it out before it has a shard.
    let third = start();
    wait_until("it has one", || !third.shards().is_empty());
    assert!(third.stats().iter().all(|work| work.stats.pauses == 2));
    assert!(third.resume("sms/").wait().unwrap());
    for _ in 0..20 {
        assert!(fired.recv_timeout(crate::common::limit::LIMIT).unwrap().starts_with("sms/"));
    }
    assert!(seen.resume("mail/").unwrap() && !seen.resume("mail/").unwrap());
    for _ in 0..20 {
        assert!(fired.recv_timeout(crate::common::limit::LIMIT).unwrap().starts_with("mail/"));
    }
}

/// All of them, or none if one cannot be: whatever shards they are of.
#[cfg(feature = "cli")]
#[test]
fn what_is_done_with_all_dead_letters_is_one_transaction() {
    let Some(place) = Place::new() else { return };
    let handler = |_: &Firing<'_, String>| Err::<(), _>("on purpose");
    let builder = Cluster::builder(&place.url).schema(&place.schema).shards(4);
    let builder = builder.service(Builder::new().attempts(1));
    let cluster: Cluster<String> = builder.start(handler).unwrap();
    wait_until("it has all shards", || cluster.shards().len() == 4);
    for n in 0..40 {
        let ticket = cluster.schedule_keyed(n.to_string(), cluster.now(), n.to_string()).unwrap();
        ticket.wait().unwrap();
    }
    let dead = || cluster.dead_letters(None, 99).wait().unwrap().len();
    wait_until("all have died", || dead() == 40);
    let run = |arguments: &[&str]| command_line(&place, arguments);
    let refuse = "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
            RAISE 'shard 3 is refused';
        END $$;
        CREATE TRIGGER refusing BEFORE DELETE ON dead_letters FOR EACH ROW WHEN (OLD.shard = 3)
            EXECUTE FUNCTION refuse()";
    place.client().batch_execute(refuse).unwrap();
    for arguments in [&["revive", "--all", "--in", "1h"][..], &["forget", "--all"]] {
        let (code, out, said) = run(arguments);
        assert_eq!((code, &*out, dead()), (Some(2), "", 40), "{arguments:?}: {said}");
        assert!(said.contains("shard 3 is refused"), "{said}");
    }
    place.client().batch_execute("DROP TRIGGER refusing ON dead_letters").unwrap();
    let (code, out, said) = run(&["revive", "--all", "--in", "1h"]);
    assert_eq!((code, out.lines().count(), dead()), (Some(0), 40, 0), "{said}");
    assert_eq!(cluster.list(None, 99).wait().unwrap().len(), 40);
    cluster.stop().unwrap();
}

/// The list of a later shard is waited for as the first one is, while its holder writes.
#[test]
fn all_lists_of_one_change_of_letters_are_waited_for() {
    let Some(place) = Place::new() else { return };
    let builder = || Cluster::builder(&place.url).schema(&place.schema);
    let handler = |_: &Firing<'_, String>| Err::<(), _>("on purpose");
    let service = Builder::new().attempts(1);
    let cluster: Cluster<String> = builder().shards(2).service(service).start(handler).unwrap();
    wait_until("it has all shards", || cluster.shards().len() == 2);
    for n in 0..20 {
        let ticket = cluster.schedule_keyed(n.to_string(), cluster.now(), n.to_string()).unwrap();
        ticket.wait().unwrap();
    }
    let dead = || cluster.dead_letters(None, 99).wait().unwrap();
    wait_until("all have died", || dead().len() == 20);
    let letters = dead();
    cluster.stop().unwrap();
    let mut observer = builder().observe().unwrap();
    let (mut holder, mut client) = (place.client(), place.client());
    let mut locked = holder.transaction().unwrap();
    locked.query("SELECT FROM writers WHERE shard = 1 FOR UPDATE", &[]).unwrap();
    let mut is_waiting = || {
        let waits = "SELECT FROM pg_stat_activity
                     WHERE application_name = 'tickless clerk in ' || $1
                        AND wait_event_type = 'Lock' AND now() - query_start > interval '300 ms'";
        !client.query(waits, &[&place.schema]).unwrap().is_empty()
    };
    let changed = std::thread::scope(|scope| {
        let forgotten = scope.spawn(|| observer.forget_all(&letters));
        wait_until("it waits, or has failed", || is_waiting() || forgotten.is_finished());
        drop(locked);
        forgotten.join().unwrap()
    });
    assert_eq!(changed.unwrap(), [true; 20]);
}
