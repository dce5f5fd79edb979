//! Dead letters and timers of shards that this instance holds, and of others, which are asked for
//! them.

#[path = "../shared/letters.rs"]
mod suite;

use std::collections::BTreeSet;
use std::time::Duration;

use tickless_durable::Cluster;
use tickless_durable::cluster::Firing;

use super::server::on_one as place;
use crate::common::limit::LIMIT;
use suite::{SHARDS, Scene};

/// Holders are asked for what the others want to see of their shards.
#[test]
fn each_instance_sees_the_timers_of_all_shards_and_who_has_them() {
    let Some(scene) = Scene::new() else { return };
    scene.fail();
    let (one, other) = (&scene.one, &scene.other);
    let far = one.now() + Duration::from_secs(3600);
    let mut ids = BTreeSet::new();
    for n in 0..20 {
        let text = "x".repeat(n * 1000);
        let ticket = one.schedule_keyed(format!("far {n}"), far, text).unwrap();
        ids.insert(ticket.wait().unwrap());
    }
    let contents = other.contents().wait().unwrap();
    assert_eq!(contents.iter().map(|shard| shard.contents.timers).sum::<u64>(), 20);
    assert_eq!(contents.iter().map(|shard| shard.contents.dead_letters).sum::<u64>(), 12);
    let holders: BTreeSet<_> = contents.iter().filter_map(|shard| shard.holder).collect();
    assert_eq!(holders, BTreeSet::from([one.instance(), other.instance()]));
    let mut listed = Vec::new();
    loop {
        let page = other.list(listed.last(), 7).wait().unwrap();
        if page.is_empty() {
            break;
        }
        listed.extend(page);
    }
    assert_eq!(listed.iter().map(|timer| timer.id()).collect::<BTreeSet<_>>(), ids);
    for timer in &listed {
        assert_eq!(one.get(timer.id()).wait().unwrap().as_ref(), Some(timer));
    }
    one.cancel(listed[0].id()).wait().unwrap();
    assert_eq!(other.get(listed[0].id()).wait().unwrap(), None);
}

#[test]
fn an_observer_sees_and_changes_timers_through_their_holders() {
    let Some(place) = place() else { return };
    let scene = Scene::at(&place);
    let letters = scene.fail();
    let builder = |name: &str| Cluster::nats(&place.url).schema(name);
    assert!(builder("nobody").observe().is_err(), "there is no such cluster");
    let mut observer = builder(&place.name).observe().unwrap();
    assert_eq!(observer.dead_letters(None, 100).unwrap(), letters);
    let far = scene.one.now() + Duration::from_secs(3600);
    let id = scene.one.schedule_keyed("k", far, "a".to_owned()).unwrap().wait().unwrap();
    assert_eq!(observer.get(id).unwrap().map(|timer| timer.id()), Some(id));
    assert!(observer.reschedule(id, far).is_err(), "not here");
    assert!(observer.cancel_key("k").unwrap() && !observer.cancel(id).unwrap());
    assert!(observer.revive(&letters[0], scene.one.now()).unwrap());
    scene.fired.recv_timeout(LIMIT).unwrap();
    assert!(observer.forget(&letters[1]).unwrap());
    assert_eq!(observer.contents().unwrap().len(), SHARDS as usize);
}

/// The command line shows the same, and does the same.
#[cfg(feature = "cli")]
#[test]
fn the_command_line_works_on_a_cluster() {
    let Some(place) = place() else { return };
    let scene = Scene::at(&place);
    let letters = scene.fail();
    let far = scene.one.now() + Duration::from_secs(3600);
    let id = scene.one.schedule_keyed("k", far, "tea".to_owned()).unwrap().wait().unwrap();
    let run = |arguments: &[&str]| {
        let mut program = std::process::Command::new(env!("CARGO_BIN_EXE_tickless-durable"));
        let program = program.args([&place.url, "--schema", &place.name]).args(arguments);
        let output = program.output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        (output.status.success(), String::from_utf8(output.stdout).unwrap(), said)
    };
    let (is_done, listed, said) = run(&["ls"]);
    assert!(is_done && listed.starts_with(&id.to_string()) && listed.contains("\"tea\""), "{said}");
    assert_eq!(run(&["ls", "--late"]), (true, String::new(), String::new()));
    let (is_done, dead, said) = run(&["dead"]);
    assert!(is_done && dead.matches("error=\"no\"").count() == letters.len(), "{dead}{said}");
    let (is_done, shown, said) = run(&["show", &id.to_string()]);
    assert!(is_done && shown.contains("key        k"), "{shown}{said}");
    let (is_done, count, said) = run(&["count"]);
    assert!(
        is_done && count.contains(&format!("held by {}", scene.one.instance())),
        "{count}{said}"
    );
    let (is_done, revived, said) = run(&["revive", &letters[0].id().to_string()]);
    assert!(is_done && revived.contains("revived"), "{revived}{said}");
    scene.fired.recv_timeout(LIMIT).unwrap();
    let (is_done, _, said) = run(&["reschedule", &id.to_string(), "--in", "1h"]);
    assert!(!is_done && said.contains("cancel it and schedule another"), "{said}");
    let (is_done, cancelled, said) = run(&["cancel", "--key", "k"]);
    assert!(is_done && cancelled.contains("cancelled"), "{cancelled}{said}");
}

/// The server and the user are of the files beside the other fixtures, which are of tests alone.
#[cfg(all(feature = "cli", feature = "tls"))]
#[test]
fn a_file_of_credentials_is_what_a_server_wants() {
    use super::server::{Servers, patiently};
    let operator = include_str!("../../fixtures/nats-operator.conf");
    let Some(servers) = Servers::start_with(1, operator) else { return };
    let fixtures = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures");
    let file = fixtures.join("nats-user.creds");
    let run = |arguments: &[&str], named: Option<&std::path::Path>| {
        let mut program = std::process::Command::new(env!("CARGO_BIN_EXE_tickless-durable"));
        program.env_remove("NATS_CREDS").arg(servers.url()).args(arguments);
        let output = program.envs(named.map(|file| ("NATS_CREDS", file))).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        (output.status.success(), String::from_utf8(output.stdout).unwrap(), said)
    };
    let (is_done, _, said) = run(&["count"], None);
    assert!(!is_done && said.contains("authorization violation"), "{said}");
    let options = || {
        let text = std::fs::read_to_string(&file).unwrap();
        async_nats::ConnectOptions::with_credentials(&text).unwrap()
    };
    let start = || {
        let builder = Cluster::nats(&servers.url()).shards(2).connect_options(options());
        builder.start(|_: &Firing<'_, String>| Ok::<(), String>(()))
    };
    let cluster: Cluster<String> = patiently(start).unwrap();
    crate::common::until::wait_until("it has all shards", || cluster.shards().len() == 2);
    let named = file.to_str().unwrap();
    for (arguments, named) in
        [(&["count", "--credentials", named][..], None), (&["count"], Some(&*file))]
    {
        let (is_done, counted, said) = run(arguments, named);
        assert!(is_done && counted.lines().count() == 2, "{counted}{said}");
    }
    cluster.stop().unwrap();
}

#[cfg(feature = "sqlite")]
#[test]
fn a_page_shows_a_cluster_and_changes_it() {
    let Some(place) = place() else { return };
    let handler = |_: &Firing<'_, String>| Err::<(), _>("on purpose");
    let once = |builder: tickless_durable::cluster::Builder| {
        builder.service(tickless_durable::Builder::new().attempts(1))
    };
    let cluster = super::scene::start(place.parts(), 2, once, handler);
    crate::common::until::wait_until("it has all shards", || cluster.shards().len() == 2);
    let far = cluster.now() + Duration::from_secs(3600);
    let id = cluster.schedule_keyed("mail/1", far, "tea".to_owned()).unwrap().wait().unwrap();
    let dead = cluster.schedule(cluster.now(), "dies".to_owned()).unwrap().wait().unwrap();
    let letters = || cluster.dead_letters(None, 9).wait().unwrap().len();
    crate::common::until::wait_until("it has died", || letters() == 1);
    let (id, dead) = (id.to_string(), dead.to_string());
    let parts = [&*place.url, "--schema", &place.name];
    crate::page::works_on_a_cluster(&parts, cluster.instance(), &id, &dead);
    cluster.stop().unwrap();
}

#[test]
fn an_instance_obeys_a_pause_from_outside() {
    let Some(place) = place() else { return };
    let (sender, fired) = std::sync::mpsc::channel();
    let handler = move |firing: &Firing<'_, String>| sender.send(firing.payload().clone());
    let cluster = super::scene::start(place.parts(), 2, |builder| builder, handler);
    crate::common::until::wait_until("it has all shards", || cluster.shards().len() == 2);
    let mut seen = Cluster::nats(&place.url).schema(&place.name).observe().unwrap();
    assert!(seen.pause("mail/").unwrap() && !cluster.pause("mail/").wait().unwrap());
    let is_told = || cluster.stats().iter().all(|work| work.stats.pauses == 1);
    crate::common::until::wait_until("it is told", is_told);
    for key in ["mail/1", "mail/2", "sms/1", "sms/2"] {
        cluster.schedule_keyed(key, cluster.now(), key.to_owned()).unwrap().wait().unwrap();
    }
    for _ in 0..2 {
        assert!(fired.recv_timeout(LIMIT).unwrap().starts_with("sms/"));
    }
    assert!(cluster.resume("mail/").wait().unwrap() && seen.pauses().unwrap().is_empty());
    for _ in 0..2 {
        assert!(fired.recv_timeout(LIMIT).unwrap().starts_with("mail/"));
    }
    cluster.stop().unwrap();
}
