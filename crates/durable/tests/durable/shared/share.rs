//! Instances in one process, on each store that instances share: how they share the shards, and
//! what one can do with the timers of another.
//!
//! The module above says where that is: `place()`.

use std::collections::BTreeSet;
use std::fmt::Display;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use tickless_durable::cluster::{Firing, Shard};
use tickless_durable::{Backoff, Builder, Cancelled, Cluster, cluster, every};

use super::super::scene;
use super::super::server::Place;
use super::place;
use crate::common::limit::LIMIT;
use crate::common::until::wait_until;

/// Far from now.
pub(super) const HOUR: Duration = Duration::from_secs(3600);

/// Of most instances.
pub(super) const LEASE: Duration = Duration::from_secs(10);

/// Who has fired what.
pub(super) type Fired = (u64, String);

pub(super) struct Scene {
    pub(super) place: Place,
    shards: u32,
    pub(super) sender: Sender<Fired>,
    fired: Receiver<Fired>,
}

impl Scene {
    pub(super) fn new(place: Place, shards: u32) -> Scene {
        let (sender, fired) = channel();
        Scene { place, shards, sender, fired }
    }

    pub(super) fn start(&self) -> Cluster<String> {
        let sender = self.sender.clone();
        self.start_with(move |firing: &Firing<'_, String>| {
            sender.send((firing.cluster().instance(), firing.payload().clone()))
        })
    }

    pub(super) fn start_with<E: Display>(
        &self,
        handler: impl Fn(&Firing<'_, String>) -> Result<(), E> + Clone + Send + Sync + 'static,
    ) -> Cluster<String> {
        let backoff = Backoff::new(Duration::from_millis(10));
        self.start_as(Builder::new().workers(1).backoff(backoff), LEASE, handler)
    }

    pub(super) fn start_as<E: Display>(
        &self,
        service: Builder,
        lease: Duration,
        handler: impl Fn(&Firing<'_, String>) -> Result<(), E> + Clone + Send + Sync + 'static,
    ) -> Cluster<String> {
        let configured = |builder: cluster::Builder| builder.lease(lease).service(service.clone());
        scene::start(self.place.parts(), self.shards, configured, handler)
    }

    #[track_caller]
    pub(super) fn fired(&self) -> Fired {
        self.fired.recv_timeout(LIMIT).expect("a timer fires")
    }

    /// Waits until these have all shards, as evenly as can be.
    #[track_caller]
    pub(super) fn wait_for_share(&self, clusters: &[&Cluster<String>]) {
        wait_until("they share the shards", || {
            let held: Vec<usize> = clusters.iter().map(|one| one.shards().len()).collect();
            let (most, least) = (held.iter().max(), held.iter().min());
            held.iter().sum::<usize>() == self.shards as usize
                && most.zip(least).is_some_and(|(most, least)| most - least <= 1)
        });
    }
}

/// A key whose timers are in a shard that this instance does not hold.
pub(super) fn key_of_another(cluster: &Cluster<String>) -> String {
    let held: BTreeSet<u32> = cluster.shards().into_iter().map(|(shard, _)| shard).collect();
    let is_elsewhere = |key: &String| {
        let ticket = cluster.schedule_keyed(key, cluster.now() + HOUR, String::new()).unwrap();
        let id = ticket.wait().unwrap();
        assert_eq!(cluster.cancel(id).wait().unwrap(), Cancelled::Cancelled);
        !held.contains(&id.shard())
    };
    (0..).map(|n| format!("key {n}")).find(is_elsewhere).expect("there is one")
}

/// Each occurrence has one number, whichever instance handles it, while instances come and go.
#[test]
fn a_recurring_timer_comes_once_for_all_instances() {
    let Some(place) = place() else { return };
    let scene = Scene::new(place, 2);
    let (sender, fired) = channel();
    let start = || -> Cluster<String> {
        let sender = sender.clone();
        let handler = move |firing: &Firing<'_, String>| {
            let sent = (firing.due(), firing.payload().clone(), firing.id());
            sender.send(sent).map_err(|_| "the test is over")
        };
        let tick = every(Duration::from_millis(50));
        let service = Builder::new().recurring("a", "a", tick.clone()).recurring("b", "b", tick);
        scene.start_as(service, LEASE, handler)
    };
    let (mut seen, mut instances) = (BTreeSet::new(), vec![start()]);
    for _ in 0..4 {
        instances.push(start());
        for _ in 0..20 {
            seen.insert(fired.recv_timeout(LIMIT).expect("it comes again"));
        }
        instances.remove(0).stop().unwrap();
    }
    drop(instances);
    seen.extend(fired.try_iter());
    let times: BTreeSet<_> = seen.iter().map(|(due, name, _)| (due, name)).collect();
    assert_eq!(times.len(), seen.len(), "one has two numbers: {seen:?}");
    assert!(["a", "b"].iter().all(|name| seen.iter().any(|(_, seen, _)| seen == name)));
}

/// An instance that comes gets a share, and one that goes leaves it.
pub(super) fn shared_by_three(place: Place) {
    let scene = Scene::new(place, 7);
    let first = scene.start();
    scene.wait_for_share(&[&first]);
    let second = scene.start();
    scene.wait_for_share(&[&first, &second]);
    let third = scene.start();
    scene.wait_for_share(&[&first, &second, &third]);
    for (n, cluster) in [&first, &second, &third].into_iter().enumerate() {
        let now = cluster.now();
        cluster.schedule(now, n.to_string()).unwrap().wait().unwrap();
    }
    let mut fired: Vec<String> = (0..3).map(|_| scene.fired().1).collect();
    fired.sort();
    assert_eq!(fired, ["0", "1", "2"]);
    second.stop().unwrap();
    scene.wait_for_share(&[&first, &third]);
    assert_eq!(second.shards(), []);
    assert!(second.schedule(second.now(), String::new()).is_err());
    drop(first);
    scene.wait_for_share(&[&third]);
}

#[test]
fn a_timer_that_another_instance_schedules_earlier_fires_at_its_time() {
    let Some(place) = place() else { return };
    let scene = Scene::new(place, 2);
    let (one, other) = (scene.start(), scene.start());
    scene.wait_for_share(&[&one, &other]);
    let key = key_of_another(&one);
    // The holder waits for a timer in an hour when it is told of another.
    other.schedule(other.now() + HOUR, "late".into()).unwrap().wait().unwrap();
    let due = one.now() + Duration::from_millis(300);
    one.schedule_keyed(&key, due, "soon".into()).unwrap().wait().unwrap();
    assert_eq!(scene.fired(), (other.instance(), "soon".into()));
    assert!(other.now() >= due);
}

#[test]
fn a_timer_of_another_instance_is_replaced_and_cancelled() {
    let Some(place) = place() else { return };
    let scene = Scene::new(place, 2);
    let (one, other) = (scene.start(), scene.start());
    scene.wait_for_share(&[&one, &other]);
    let key = key_of_another(&one);
    // So far away that what is cancelled and replaced below is not due by then, on any machine.
    let soon = one.now() + HOUR;
    let first = other.schedule_keyed(&key, soon, "first".into()).unwrap().wait().unwrap();
    let second = one.schedule_keyed(&key, soon, "second".into()).unwrap().wait().unwrap();
    assert_eq!(one.cancel(first).wait().unwrap(), Cancelled::NotFound, "it was replaced");
    let third = other.schedule_keyed(&key, soon, "third".into()).unwrap().wait().unwrap();
    assert_eq!(other.cancel(second).wait().unwrap(), Cancelled::NotFound, "it was replaced");
    assert_eq!(one.cancel(third).wait().unwrap(), Cancelled::Cancelled);
    let last = one.schedule_keyed(&key, soon, "last".into()).unwrap().wait().unwrap();
    assert_eq!(one.cancel_key(&key).wait().unwrap(), Cancelled::Cancelled);
    // Which the holder says may be its own cancel, if it was not told of the other yet.
    let _ = other.cancel(last).wait().unwrap();
    // None of those that were taken out is left, in a shard or in its holder's memory.
    let timers = |shards: Vec<Shard>| shards.iter().map(|shard| shard.contents.timers).sum::<u64>();
    assert_eq!(timers(one.contents().wait().unwrap()), 0);
    wait_until("the holder has none", || other.stats().iter().all(|work| work.stats.near == 0));
    one.schedule_keyed(&key, one.now(), "after all".into()).unwrap().wait().unwrap();
    assert_eq!(scene.fired(), (other.instance(), "after all".into()));
}
