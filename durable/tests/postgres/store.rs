//! What one store in the database does.

use tickless_durable::store::PostgresStore;
use tickless_durable::conformance;

use crate::server::Place;

#[test]
fn a_shard_conforms() {
    if Place::new().is_none() {
        return;
    }
    conformance::all(|| {
        let place = Place::new().unwrap();
        move || PostgresStore::take(&place.config(), &place.schema)
    });
}

#[test]
fn dbg() {
    let place = Place::new().unwrap();
    let cluster = tickless_durable::Cluster::builder(&place.url).schema(&place.schema).shards(4).lease(std::time::Duration::from_secs(1)).start(|f: &tickless_durable::cluster::Firing<'_, String>| { println!("{f:?}"); Ok::<(), String>(()) }).unwrap();
    for _ in 0..10 {
        std::thread::sleep(std::time::Duration::from_millis(300));
        println!("{cluster:?} {:?}", cluster.failure());
    }
    cluster.schedule(cluster.now(), "x".into()).unwrap().wait().unwrap();
    std::thread::sleep(std::time::Duration::from_millis(300));
    cluster.stop().unwrap();
}
