//! Instances in one process: how they share the shards, and what one can do with the timers of
//! another.

use std::collections::BTreeSet;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use tickless_durable::cluster::Firing;
use tickless_durable::store::nats;
use tickless_durable::{Backoff, Builder, Cancelled, Cluster, Error, StoreErrorKind, every};

use crate::limit::LIMIT;
use crate::server::{Place, on_one, on_three, patiently};

/// Far from now.
const HOUR: Duration = Duration::from_secs(3600);

/// Who has fired what.
type Fired = (u64, String);

struct Scene {
    place: Place,
    shards: u32,
    sender: Sender<Fired>,
    fired: Receiver<Fired>,
}

impl Scene {
    fn new(place: Place, shards: u32) -> Scene {
        let (sender, fired) = channel();
        Scene { place, shards, sender, fired }
    }

    fn start(&self) -> Cluster<String> {
        let sender = self.sender.clone();
        let handler = move |firing: &Firing<'_, String>| {
            sender.send((firing.cluster().instance(), firing.payload().clone()))
        };
        let service = Builder::new().workers(1).backoff(Backoff::new(Duration::from_millis(10)));
        let start = || {
            let builder = Cluster::nats(&self.place.url).schema(&self.place.name);
            let builder = builder.shards(self.shards).lease(Duration::from_secs(10));
            builder.service(service.clone()).start(handler.clone())
        };
        patiently(start).unwrap()
    }

    #[track_caller]
    fn fired(&self) -> Fired {
        self.fired.recv_timeout(LIMIT).expect("a timer fires")
    }

    /// Waits until these have all shards, as evenly as can be.
    #[track_caller]
    fn wait_for_share(&self, clusters: &[&Cluster<String>]) {
        let begun = Instant::now();
        let is_shared = || {
            let held: Vec<usize> = clusters.iter().map(|one| one.shards().len()).collect();
            let (most, least) = (held.iter().max(), held.iter().min());
            held.iter().sum::<usize>() == self.shards as usize
                && most.zip(least).is_some_and(|(most, least)| most - least <= 1)
        };
        while !is_shared() {
            assert!(begun.elapsed() < LIMIT, "{clusters:?}");
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

/// A key whose timers are in a shard that this instance does not hold.
fn key_of_another(cluster: &Cluster<String>) -> String {
    let held: BTreeSet<u32> = cluster.shards().into_iter().map(|(shard, _)| shard).collect();
    let is_elsewhere = |key: &String| {
        let ticket = cluster.schedule_keyed(key, cluster.now() + HOUR, String::new()).unwrap();
        let id = ticket.wait().unwrap();
        assert_eq!(cluster.cancel(id).wait().unwrap(), Cancelled::Cancelled);
        !held.contains(&id.shard())
    };
    (0..).map(|n| format!("key {n}")).find(is_elsewhere).expect("there is one")
}

fn shared_by_three(place: Place) {
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
fn an_instance_that_comes_gets_a_share_and_one_that_goes_leaves_it() {
    let Some(place) = on_one() else { return };
    shared_by_three(place);
}

#[test]
fn the_same_on_three_servers() {
    let Some(place) = on_three() else { return };
    shared_by_three(place);
}

#[test]
fn a_timer_that_another_instance_schedules_earlier_fires_at_its_time() {
    let Some(place) = on_one() else { return };
    let scene = Scene::new(place, 2);
    let (one, other) = (scene.start(), scene.start());
    scene.wait_for_share(&[&one, &other]);
    let key = key_of_another(&one);
    // The holder waits for a timer in an hour when it is asked for another.
    other.schedule(other.now() + HOUR, "late".into()).unwrap().wait().unwrap();
    let due = one.now() + Duration::from_millis(300);
    one.schedule_keyed(&key, due, "soon".into()).unwrap().wait().unwrap();
    assert_eq!(scene.fired(), (other.instance(), "soon".into()));
    assert!(other.now() >= due);
}

#[test]
fn a_timer_of_another_instance_is_replaced_and_cancelled() {
    let Some(place) = on_one() else { return };
    let scene = Scene::new(place, 2);
    let (one, other) = (scene.start(), scene.start());
    scene.wait_for_share(&[&one, &other]);
    let key = key_of_another(&one);
    // So far away that what is cancelled and replaced below is not due by then, on any machine.
    let soon = one.now() + Duration::from_secs(60);
    let first = other.schedule_keyed(&key, soon, "first".into()).unwrap().wait().unwrap();
    let second = one.schedule_keyed(&key, soon, "second".into()).unwrap().wait().unwrap();
    assert_eq!(one.cancel(first).wait().unwrap(), Cancelled::NotFound, "it was replaced");
    assert_eq!(one.cancel(second).wait().unwrap(), Cancelled::Cancelled);
    assert_eq!(one.cancel_key(&key).wait().unwrap(), Cancelled::NotFound);
    let third = one.schedule_keyed(&key, soon, "third".into()).unwrap().wait().unwrap();
    assert_eq!(other.cancel(third).wait().unwrap(), Cancelled::Cancelled);
    one.schedule_keyed(&key, soon, "fourth".into()).unwrap().wait().unwrap();
    assert_eq!(scene.fired().1, "fourth", "and none of the others");
}

#[test]
fn what_does_not_fit_into_a_message_is_refused_only_for_another_instances_shard() {
    let Some(place) = on_one() else { return };
    let scene = Scene::new(place, 2);
    let (one, other) = (scene.start(), scene.start());
    scene.wait_for_share(&[&one, &other]);
    let key = key_of_another(&one);
    let large = "x".repeat(2 << 20);
    let refused = one.schedule_keyed(&key, one.now(), large.clone()).unwrap().wait();
    assert!(
        matches!(&refused, Err(Error::Store(error)) if error.kind() == StoreErrorKind::TooLarge),
        "{refused:?}"
    );
    other.schedule_keyed(&key, other.now(), large.clone()).unwrap().wait().unwrap();
    assert_eq!(scene.fired(), (other.instance(), large.clone()));
    // Those beside it are as well as ever, which the clerk writes together with it.
    for _ in 0..20 {
        let far = one.now() + HOUR;
        let before = one.schedule_keyed(&key, far, "before".into()).unwrap();
        let refused = one.schedule_keyed(&key, far, large.clone()).unwrap();
        let after = one.schedule_keyed(&key, far, "after".into()).unwrap();
        let cancel = one.cancel_key(&key);
        assert!(before.wait().is_ok(), "{:?}", before.wait());
        assert!(refused.wait().is_err());
        assert!(after.wait().is_ok(), "{:?}", after.wait());
        assert_eq!(cancel.wait().unwrap(), Cancelled::Cancelled);
    }
}

#[test]
fn a_number_with_a_shard_that_there_is_not_is_no_timer() {
    let Some(place) = on_one() else { return };
    let scene = Scene::new(place, 2);
    let one = scene.start();
    scene.wait_for_share(&[&one]);
    let number = "999-0000019af0c4d2000000010000000007".parse().unwrap();
    assert_eq!(one.cancel(number).wait().unwrap(), Cancelled::NotFound);
}

#[test]
fn an_instance_that_idles_writes_a_log_anew_that_somebody_has_purged() {
    let Some(place) = on_one() else { return };
    let scene = Scene::new(place, 1);
    let cluster = scene.start();
    scene.wait_for_share(&[&cluster]);
    for n in 0..5 {
        cluster.schedule(cluster.now() + HOUR, n.to_string()).unwrap().wait().unwrap();
    }
    let Place { url, name } = &scene.place;
    let purge = format!("$JS.API.STREAM.PURGE.tickless_{name}_0");
    // The reply is not one to a message that was added.
    assert!(nats::publish(url, &purge, b"").is_err());
    let begun = Instant::now();
    while patiently(|| nats::history(url, name, 0))
        .unwrap()
        .iter()
        .all(|one| one.changes.is_empty())
    {
        assert!(begun.elapsed() < LIMIT, "it is never written anew");
        std::thread::sleep(Duration::from_millis(50));
    }
    cluster.stop().unwrap();
    let next = scene.start();
    scene.wait_for_share(&[&next]);
    assert_eq!(next.list(None, 9).wait().unwrap().len(), 5);
}

/// Each try writes to the bucket: it takes the shard and lets go of it.
#[test]
fn a_shard_that_cannot_be_opened_is_left_alone_for_a_while_and_told() {
    let Some(place) = on_one() else { return };
    let scene = Scene::new(place, 2);
    let cluster = scene.start();
    scene.wait_for_share(&[&cluster]);
    cluster.stop().unwrap();
    let Place { url, name } = &scene.place;
    // The reply is not one to a message that was added.
    let delete = format!("$JS.API.STREAM.DELETE.tickless_{name}_1");
    assert!(nats::publish(url, &delete, b"").is_err());
    // The number of a key that nobody reads: so many writes were made before.
    let probe = format!("$KV.tickless_{name}.probe");
    let writes = || patiently(|| nats::publish(url, &probe, b"")).unwrap();
    let begun = Instant::now();
    let cluster = scene.start();
    let before = writes();
    let mut failed = Vec::new();
    while failed.len() < 4 {
        assert!(begun.elapsed() < LIMIT, "it is not tried again: {failed:?}");
        match cluster.failure() {
            Some(failure) if failed.last() != Some(&failure.at) => {
                assert_eq!(failure.shard, Some(1), "{failure:?}");
                assert!(failure.error.to_string().contains("not there"), "{failure:?}");
                failed.push(failure.at);
            }
            _ => std::thread::sleep(Duration::from_millis(5)),
        }
    }
    let writes = writes() - before;
    // The pauses grow from half a second on.
    for (pair, least_ms) in failed.windows(2).zip([500, 1000, 2000]) {
        let pause = pair[1].duration_since(pair[0]).expect("no clock was set");
        assert!(pause >= Duration::from_millis(least_ms) * 99 / 100, "{failed:?}");
    }
    // Some for each try, and three renewals in each lease of 10 s: of the instance and of a shard.
    let most = 12 * failed.len() as u64 + 2 * (begun.elapsed().as_secs() + 10);
    assert!(writes <= most, "{writes} writes, and at most {most} were expected");
    assert_eq!(cluster.shards().len(), 1, "the other one is served meanwhile");
    let stream = format!(
        r#"{{"name":"tickless_{name}_1","subjects":["tickless.{name}.log.1"],
        "storage":"file","discard":"new","allow_direct":true,"num_replicas":1}}"#
    );
    let create = format!("$JS.API.STREAM.CREATE.tickless_{name}_1");
    assert!(nats::publish(url, &create, stream.as_bytes()).is_err());
    scene.wait_for_share(&[&cluster]);
    while cluster.failure().is_some() {
        assert!(begun.elapsed() < LIMIT, "it is told although it works again");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn a_recurring_timer_comes_again_and_goes_on_after_a_restart() {
    let Some(place) = on_one() else { return };
    let (sender, fired) = channel();
    let start = || -> Cluster<String> {
        let sender = sender.clone();
        let handler = move |firing: &Firing<'_, String>| {
            sender.send((firing.due(), firing.id())).map_err(|_| "the test is over")
        };
        let service = Builder::new().recurring("a", "a", every(Duration::from_millis(50)));
        let builder = || Cluster::nats(&place.url).schema(&place.name).shards(2);
        patiently(|| builder().service(service.clone()).start(handler.clone())).unwrap()
    };
    let mut seen = BTreeSet::new();
    for _ in 0..2 {
        let (cluster, before) = (start(), seen.len());
        // Some may be repeated, with their numbers.
        while seen.len() < before + 5 {
            seen.insert(fired.recv_timeout(LIMIT).expect("it comes again"));
        }
        cluster.stop().unwrap();
        seen.extend(fired.try_iter());
    }
    let times: BTreeSet<_> = seen.iter().map(|(due, _)| due).collect();
    assert_eq!(times.len(), seen.len(), "one has two numbers: {seen:?}");
}
