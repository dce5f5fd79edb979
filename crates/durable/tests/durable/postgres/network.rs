//! Instances whose network to the server stops or is cut: a proxy is between them, which they reach
//! by TCP. What their handlers say goes another way, so that it would be seen if they ran.

use std::os::unix::net::UnixStream;
use std::time::Duration;

use tickless_durable::Cluster;
use tickless_durable::cluster::Firing;

use super::history::Recorder;
use super::instance::{Instance, Settings, now_us};
use super::scene::Scene;
use super::server::{LOGIN, Place};
use crate::common::proxy::{Mode, Proxy};
use crate::common::until::wait_until;

const LEASE: Duration = Duration::from_secs(3);

fn proxy(place: &Place) -> Proxy {
    let socket = place.socket();
    Proxy::new(move || Ok(UnixStream::connect(&socket)?.into()))
}

/// One of two instances loses its network, the other one does all, and then it is there again.
fn loses_its_network(mode: Mode) {
    let Some(place) = Place::new() else { return };
    let (proxy, mut scene) = (self::proxy(&place), Scene::new(place, 4));
    let settings = Settings { lease: LEASE, ..Settings::default() };
    let through = Some(format!("host=127.0.0.1 port={} {LOGIN}", proxy.port));
    let mut far = Instance::start(&scene, &Settings { through, ..settings.clone() });
    let mut near = Instance::start(&scene, &settings);
    scene.recorder.wait_for_holders(2);
    far.schedule(150, 300, 2500);
    near.schedule(150, 300, 2500);
    scene.starts.wait_for_those_of(&far, 5);
    proxy.set(mode);
    scene.wait_for_the_end();
    scene.recorder.wait_for_holders(1);
    proxy.set(Mode::Passes);
    scene.recorder.wait_for_holders(2);
    let (now_us, number) = (now_us(), far.number);
    far.schedule(100, 100, 400);
    scene.wait_for_the_end();
    scene.starts.wait_for(5, |start| start.instance == number && start.at_us > now_us);
    let history = scene.read();
    history.check();
    assert_eq!(history.instances().len(), 2);
}

#[test]
fn an_instance_whose_network_stalls_loses_its_shards_and_gets_others_when_it_is_back() {
    loses_its_network(Mode::Stalls);
}

/// What it asked for is done, and it does not know.
#[test]
fn an_instance_that_gets_no_replies_loses_its_shards_and_gets_others_when_it_is_back() {
    loses_its_network(Mode::KeepsReplies);
}

#[test]
fn an_instance_whose_network_is_slow_does_all_the_same() {
    let Some(place) = Place::new() else { return };
    let (proxy, mut scene) = (self::proxy(&place), Scene::new(place, 4));
    let through = Some(format!("host=127.0.0.1 port={} {LOGIN}", proxy.port));
    let mut far =
        Instance::start(&scene, &Settings { lease: LEASE, through, ..Settings::default() });
    scene.recorder.wait_for_holders(1);
    proxy.set(Mode::Delays(Duration::from_millis(20)));
    far.schedule(50, 100, 400);
    scene.wait_for_the_end();
    scene.read().check();
}

#[test]
fn an_instance_whose_network_is_cut_loses_its_shards_and_gets_others_when_it_is_back() {
    loses_its_network(Mode::Cuts);
}

/// Neither end is told that the other is gone, so no system call ends by itself.
#[test]
fn an_instance_whose_server_never_replies_closes_its_shards_and_says_so() {
    let Some(place) = Place::new() else { return };
    let mut recorder = Recorder::new(&place, 4);
    let proxy = self::proxy(&place);
    let through = format!("host=127.0.0.1 port={} {LOGIN}", proxy.port);
    let handler = |_: &Firing<'_, String>| Ok::<(), String>(());
    let cluster: Cluster<String> =
        Cluster::builder(&through).schema(&place.schema).lease(LEASE).start(handler).unwrap();
    wait_until("it has all shards", || cluster.shards().len() == 4);
    assert!(cluster.failure().is_none(), "{:?}", cluster.failure());
    proxy.set(Mode::Stalls);
    let far = cluster.now() + Duration::from_secs(3600);
    let here = cluster.schedule(far, "here".to_owned()).unwrap();
    assert!(here.wait().is_err(), "nobody has said that it is durable");
    wait_until("it closes its shards", || cluster.shards().is_empty());
    wait_until("it says so", || cluster.failure().is_some());
    let elsewhere: Vec<_> =
        (0..20).map(|n| cluster.schedule_keyed([n], far, "there".to_owned()).unwrap()).collect();
    assert!(elsewhere.iter().all(|ticket| ticket.wait().is_err()), "nor that these are");
    proxy.set(Mode::Passes);
    wait_until("it has them again", || cluster.shards().len() == 4);
    cluster.schedule(cluster.now(), "again".to_owned()).unwrap().wait().unwrap();
    cluster.stop().unwrap();
    recorder.wait_for("SELECT count(*) FROM shards WHERE holder IS NULL", 4);
}
