//! Instances in one process: how they share the shards, and what one can do with the timers of
//! another.

#[path = "../shared/share.rs"]
mod suite;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use postgres::{Client, NoTls};
use tickless_durable::cluster::Firing;
use tickless_durable::{Builder, Cancelled, Cluster, StopError};

use super::history::Recorder;
use super::server::Place;
use suite::{Fired, HOUR, Scene, key_of_another, shared_by_three};

fn place() -> Option<Place> {
    Place::new()
}

fn recorded(shards: u32) -> Option<(Scene, Recorder)> {
    let place = Place::new()?;
    let recorder = Recorder::new(&place, shards);
    Some((Scene::new(place, shards), recorder))
}

#[test]
fn an_instance_that_comes_gets_a_share_and_one_that_goes_leaves_it() {
    let Some(place) = Place::new() else { return };
    let mut recorder = Recorder::new(&place, 7);
    shared_by_three(place);
    let free = "SELECT count(*) FROM shards WHERE holder IS NULL";
    recorder.wait_for(free, 7);
    assert_eq!(recorder.client.query("SELECT 1 FROM instances", &[]).unwrap().len(), 0);
    let most = "SELECT max(n) FROM (SELECT count(*) AS n FROM takings GROUP BY shard) AS counts";
    let most: i64 = recorder.client.query_one(most, &[]).unwrap().get(0);
    assert!(most < 10, "a shard was taken {most} times");
}

#[test]
fn an_instance_that_is_late_with_each_renewal_hears_what_others_do_all_the_same() {
    let Some((scene, mut recorder)) = recorded(2) else { return };
    let start = || {
        let sender = scene.sender.clone();
        let handler = move |firing: &Firing<'_, String>| {
            sender.send((firing.cluster().instance(), firing.payload().clone()))
        };
        scene.start_as(Builder::new(), Duration::from_secs(3), handler)
    };
    let (one, other) = (start(), start());
    scene.wait_for_share(&[&one, &other]);
    let key = key_of_another(&one);
    // When a renewal is over, it is time for the next one.
    let slow = "CREATE FUNCTION be_slow() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
                    PERFORM pg_sleep(1.1);
                    RETURN NEW;
                END $$;
                CREATE TRIGGER slow BEFORE UPDATE ON instances FOR EACH ROW
                    EXECUTE FUNCTION be_slow()";
    recorder.client.batch_execute(slow).unwrap();
    for n in 0..5 {
        // After a renewal that was slow, at least from the second time on.
        let before = fences(&mut recorder);
        one.schedule_keyed(&key, one.now(), format!("{n}")).unwrap().wait().unwrap();
        assert_eq!(scene.fired(), (other.instance(), format!("{n}")));
        assert_eq!(fences(&mut recorder), before, "it was not told by taking the shard anew");
    }
}

#[test]
fn two_instances_that_replace_the_same_timers_do_not_disturb_each_other() {
    let Some((scene, mut recorder)) = recorded(2) else { return };
    let (one, other) = (scene.start(), scene.start());
    recorder.wait_for_holders(2);
    let before = fences(&mut recorder);
    std::thread::scope(|scope| {
        for cluster in [&one, &other] {
            scope.spawn(move || {
                for round in 0..40 {
                    let due = cluster.now() + HOUR;
                    let enter = |key: u8| cluster.schedule_keyed([key], due, round.to_string());
                    let tickets: Vec<_> = (0..5).map(|key| enter(key).unwrap()).collect();
                    for ticket in tickets {
                        ticket.wait().unwrap();
                    }
                }
            });
        }
    });
    recorder.wait_for("SELECT count(*) FROM timers", 5);
    // No service has failed, and taken its shard anew.
    assert_eq!(fences(&mut recorder), before);
}

fn fences(recorder: &mut Recorder) -> i64 {
    let fences = "SELECT sum(fence)::bigint FROM shards";
    recorder.client.query_one(fences, &[]).unwrap().get(0)
}

#[test]
fn an_instance_whose_connections_are_cut_goes_on() {
    let Some((scene, mut recorder)) = recorded(3) else { return };
    let cluster = scene.start();
    recorder.wait_for("SELECT count(*) FROM shards WHERE holder IS NOT NULL", 3);
    cluster.schedule(cluster.now() + HOUR, "late".into()).unwrap().wait().unwrap();
    let soon = cluster.now() + Duration::from_millis(1000);
    for n in 0..30 {
        let text = n.to_string();
        cluster.schedule_keyed(&text, soon, text.clone()).unwrap().wait().unwrap();
    }
    // The recorder's has no such name.
    let cut = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
               WHERE application_name LIKE 'tickless % in ' || $1";
    let count = recorder.client.execute(cut, &[&scene.place.schema]).unwrap();
    assert!(count >= 5, "{count}");
    let mut fired = BTreeSet::new();
    while fired.len() < 30 {
        fired.insert(scene.fired().1);
    }
    assert!(!fired.contains("late"));
    recorder.wait_for("SELECT count(*) FROM timers", 1);
    recorder.wait_for(
        "SELECT count(*) FROM (SELECT shard FROM takings GROUP BY shard HAVING count(*) > 1) AS n",
        3,
    );
}

#[test]
fn a_handler_that_settles_in_its_transaction_has_its_effect_once() {
    let Some((scene, mut recorder)) = recorded(1) else { return };
    recorder.client.batch_execute("CREATE TABLE effects (timer text)").unwrap();
    let (url, schema) = (scene.place.url.clone(), scene.place.schema.clone());
    let sender = scene.sender.clone();
    let handler = move |firing: &Firing<'_, String>| {
        let mut client = Client::connect(&url, NoTls).unwrap();
        let mut transaction = client.transaction().unwrap();
        let is_settled = firing.settle(&mut transaction).unwrap();
        if is_settled {
            let note = format!("INSERT INTO {schema}.effects VALUES ($1)");
            transaction.execute(&note, &[firing.payload()]).unwrap();
        }
        if firing.payload() != "rolled back" || firing.attempt() > 1 {
            transaction.commit().unwrap();
        }
        sender.send((u64::from(firing.attempt()), is_settled.to_string())).unwrap();
        // As if the process had died before the end of the timer was written.
        if firing.attempt() == 1 { Err("too late") } else { Ok(()) }
    };
    let cluster: Cluster<String> = scene.start_with(handler);
    cluster.schedule(cluster.now(), "committed".into()).unwrap().wait().unwrap();
    assert_eq!(scene.fired(), (1, "true".into()));
    recorder.wait_for_the_end();
    cluster.schedule(cluster.now(), "rolled back".into()).unwrap().wait().unwrap();
    assert_eq!(scene.fired(), (1, "true".into()));
    assert_eq!(scene.fired(), (2, "true".into()));
    recorder.wait_for_the_end();
    cluster.stop().unwrap();
    let effects = recorder.client.query("SELECT timer FROM effects", &[]).unwrap();
    let effects: Vec<String> = effects.iter().map(|row| row.get(0)).collect();
    assert_eq!(effects, ["committed", "rolled back"]);
}

#[test]
fn a_handler_of_a_shard_that_was_taken_settles_nothing() {
    let Some((scene, mut recorder)) = recorded(1) else { return };
    let url = scene.place.url.clone();
    let schema = scene.place.schema.clone();
    let sender = scene.sender.clone();
    let is_taken = Arc::new(AtomicBool::new(false));
    let handler = move |firing: &Firing<'_, String>| {
        let mut client = Client::connect(&url, NoTls).unwrap();
        if !is_taken.swap(true, Ordering::Relaxed) {
            let take = format!("UPDATE {schema}.shards SET fence = fence + 1, holder = NULL");
            client.batch_execute(&take).unwrap();
        }
        let mut transaction = client.transaction().unwrap();
        let is_settled = firing.settle(&mut transaction).unwrap();
        sender.send((firing.fence(), is_settled.to_string())).unwrap();
        Ok::<(), String>(())
    };
    let cluster: Cluster<String> = scene.start_with(handler);
    cluster.schedule(cluster.now(), "taken".into()).unwrap().wait().unwrap();
    let (fence, is_settled) = scene.fired();
    assert_eq!(is_settled, "false");
    // The instance notices, and takes the shard again.
    let (later, is_settled) = scene.fired();
    assert!(later > fence);
    assert_eq!(is_settled, "true");
    recorder.wait_for_the_end();
}

#[test]
fn a_handler_schedules_on_any_shard_and_cannot_stop_its_instance() {
    let Some((scene, mut recorder)) = recorded(4) else { return };
    let other = scene.start();
    let sender = scene.sender.clone();
    let handler = move |firing: &Firing<'_, String>| {
        let cluster = firing.cluster();
        assert!(matches!(cluster.stop(), Err(StopError::InHandler)));
        for n in 0..firing.payload().parse::<u32>().unwrap_or(0) {
            let ticket = cluster.schedule_keyed(format!("{n}"), cluster.now(), "child".into());
            ticket.unwrap().wait().unwrap();
        }
        sender.send((cluster.instance(), firing.payload().clone()))
    };
    let cluster: Cluster<String> = scene.start_with(handler);
    recorder.wait_for_holders(2);
    // A timer without a key goes to a shard of this instance's, once one is open.
    while cluster.shards().is_empty() {
        std::thread::yield_now();
    }
    cluster.schedule(cluster.now(), "20".into()).unwrap().wait().unwrap();
    let fired: Vec<Fired> = (0..21).map(|_| scene.fired()).collect();
    assert_eq!(fired.iter().filter(|(_, text)| text == "child").count(), 20);
    let instances: BTreeSet<u64> = fired.iter().map(|(instance, _)| *instance).collect();
    assert_eq!(instances, BTreeSet::from([cluster.instance(), other.instance()]));
    recorder.wait_for_the_end();
}

/// The database's client cannot be used by a thread that runs tasks, and asynchronous programs
/// start a cluster there.
#[test]
fn an_instance_can_be_used_inside_an_asynchronous_runtime() {
    let Some((scene, mut recorder)) = recorded(2) else { return };
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(async {
        let one = scene.start();
        let id = one.schedule(one.now(), "a".into()).unwrap().await.unwrap();
        assert_eq!(scene.fired().1, "a");
        // (The handler that has told may not have returned.)
        assert_ne!(one.cancel(id).await.unwrap(), Cancelled::Cancelled);
        one.stop().unwrap();
        drop(scene.start());
    });
    let free = "SELECT count(*) FROM shards WHERE holder IS NULL";
    recorder.wait_for(free, 2);
}

/// A database or a role can ask for another isolation. Two writers of a list then read a state of
/// before they had it.
#[test]
fn the_isolation_that_a_database_asks_for_elsewhere_changes_nothing() {
    for isolation in ["repeatable\\ read", "serializable"] {
        let Some((mut scene, mut recorder)) = recorded(2) else { return };
        let options = format!(" options='-c default_transaction_isolation={isolation}'");
        scene.place.url.push_str(&options.replace('\\', "\\\\"));
        let (one, other) = (scene.start(), scene.start());
        recorder.wait_for_holders(2);
        std::thread::scope(|scope| {
            for cluster in [&one, &other] {
                scope.spawn(move || {
                    for n in 0..200 {
                        let key = format!("key {}", n % 3);
                        let far = cluster.now() + HOUR;
                        let ticket = cluster.schedule_keyed(&key, far, "a".into()).unwrap();
                        match ticket.wait() {
                            Ok(_) | Err(tickless_durable::Error::Replaced) => {}
                            Err(error) => panic!("{isolation}: {error:?}"),
                        }
                    }
                });
            }
        });
        assert!(one.failure().is_none() && other.failure().is_none(), "{:?}", one.failure());
    }
}

/// The connection of a shard is idle as long as none of its timers is due.
#[test]
fn a_server_that_ends_idle_sessions_does_not_end_those_of_a_shard() {
    let Some((mut scene, mut recorder)) = recorded(1) else { return };
    scene.place.url.push_str(" options='-c idle_session_timeout=2s'");
    let cluster = scene.start();
    cluster.schedule(cluster.now(), "a".into()).unwrap().wait().unwrap();
    assert_eq!(scene.fired().1, "a");
    // Idle for longer than that.
    let schema = &scene.place.schema;
    let idle = format!(
        "SELECT count(*) FROM pg_stat_activity
         WHERE application_name LIKE 'tickless shard % in {schema}'
            AND state = 'idle' AND now() - state_change > interval '3 seconds'"
    );
    recorder.wait_for(&idle, 1);
    cluster.schedule(cluster.now(), "b".into()).unwrap().wait().unwrap();
    assert_eq!(scene.fired().1, "b");
    assert!(cluster.failure().is_none(), "{:?}", cluster.failure());
}
