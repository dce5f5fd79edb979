//! What those who operate a cluster rely on: backlogs, servers that do not reply, and roles.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use tickless_durable::cluster::Firing;
use tickless_durable::{Builder, Cluster, Misfire};

use crate::history::Recorder;
use crate::server::Place;

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
    const TIMERS: i64 = 200;
    let Some(place) = Place::new() else { return };
    let mut recorder = Recorder::new(&place, 4);
    // Handlers of the first one end when it gives shards up, and those that begin later wait.
    let (gives_up, all) = (Gate::default(), Gate::default());
    let has_given = Arc::new(AtomicBool::new(false));
    let start = |first: bool| {
        let (gives_up, all, has_given) = (gives_up.clone(), all.clone(), has_given.clone());
        let handler = move |_: &Firing<'_, String>| {
            if first && !has_given.load(SeqCst) {
                gives_up.pass()
            } else {
                all.pass()
            }
            Ok::<(), String>(())
        };
        let service = Builder::new().workers(1).misfire(Misfire::Skip);
        builder(&place).service(service).start(handler).unwrap()
    };
    let first = start(true);
    while first.shards().len() < 4 {
        std::thread::yield_now();
    }
    // Long overdue, as in a backlog of minutes.
    let due = first.now() - Duration::from_secs(100);
    let tickets: Vec<_> =
        (0..TIMERS).map(|n| first.schedule(due, n.to_string()).unwrap()).collect();
    for ticket in tickets {
        ticket.wait().unwrap();
    }
    let second = start(false);
    let _opens = Opens(vec![gives_up.clone(), all.clone()]);
    while first.shards().len() > 2 {
        std::thread::yield_now();
    }
    has_given.store(true, SeqCst);
    gives_up.open();
    while second.shards().len() < 2 {
        std::thread::yield_now();
    }
    let left: i64 = recorder.client.query_one("SELECT count(*) FROM timers", &[]).unwrap().get(0);
    assert!(left >= TIMERS - 4, "{left} of {TIMERS} timers are left, and at most 4 were handled");
    all.open();
    recorder.wait_for_the_end();
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
    // Two of them can have the same number, once in 65,536 times.
    assert!(instances.len() > 1, "{instances:?}");
}
