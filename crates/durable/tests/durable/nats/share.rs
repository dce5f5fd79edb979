//! Instances in one process: how they share the shards, and what one can do with the timers of
//! another.

#[path = "../shared/share.rs"]
mod suite;

use std::time::{Duration, Instant};

use tickless_durable::cluster::Firing;
use tickless_durable::store::nats::probe;
use tickless_durable::{Builder, Cancelled, Cluster, Error, StoreErrorKind};

use super::server::{Place, on_one as place, on_three, patiently};
use crate::common::limit::LIMIT;
use crate::common::until::wait_until;
use suite::{HOUR, Scene, key_of_another, shared_by_three};

#[test]
fn an_instance_that_comes_gets_a_share_and_one_that_goes_leaves_it() {
    let Some(place) = place() else { return };
    shared_by_three(place);
}

#[test]
fn the_same_on_three_servers() {
    let Some(place) = on_three() else { return };
    shared_by_three(place);
}

#[test]
fn what_does_not_fit_into_a_message_is_refused_only_for_another_instances_shard() {
    let Some(place) = place() else { return };
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
    let Some(place) = place() else { return };
    let scene = Scene::new(place, 2);
    let one = scene.start();
    scene.wait_for_share(&[&one]);
    let number = "999-0000019af0c4d2000000010000000007".parse().unwrap();
    assert_eq!(one.cancel(number).wait().unwrap(), Cancelled::NotFound);
}

#[test]
fn an_instance_that_idles_writes_a_log_anew_that_somebody_has_purged() {
    let Some(place) = place() else { return };
    let scene = Scene::new(place, 1);
    let cluster = scene.start();
    scene.wait_for_share(&[&cluster]);
    for n in 0..5 {
        cluster.schedule(cluster.now() + HOUR, n.to_string()).unwrap().wait().unwrap();
    }
    let Place { url, name } = &scene.place;
    let purge = format!("$JS.API.STREAM.PURGE.tickless_{name}_0");
    // The reply is not one to a message that was added.
    assert!(probe::publish(url, &purge, b"").is_err());
    let begun = Instant::now();
    while patiently(|| probe::history(url, name, 0))
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
    let Some(place) = place() else { return };
    let scene = Scene::new(place, 2);
    let cluster = scene.start();
    scene.wait_for_share(&[&cluster]);
    cluster.stop().unwrap();
    let Place { url, name } = &scene.place;
    // The reply is not one to a message that was added.
    let delete = format!("$JS.API.STREAM.DELETE.tickless_{name}_1");
    assert!(probe::publish(url, &delete, b"").is_err());
    // The number of a key that nobody reads: so many writes were made before.
    let probe = format!("$KV.tickless_{name}.probe");
    let writes = || patiently(|| probe::publish(url, &probe, b"")).unwrap();
    let begun = Instant::now();
    let cluster = scene.start();
    let before = writes();
    let mut failed = Vec::new();
    wait_until("it is tried four times", || {
        if let Some(failure) = cluster.failure().filter(|it| failed.last() != Some(&it.at)) {
            assert_eq!(failure.shard, Some(1), "{failure:?}");
            assert!(failure.error.to_string().contains("not there"), "{failure:?}");
            failed.push(failure.at);
        }
        failed.len() == 4
    });
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
    assert!(probe::publish(url, &create, stream.as_bytes()).is_err());
    scene.wait_for_share(&[&cluster]);
    wait_until("nothing is told any more", || cluster.failure().is_none());
}

/// One that is gone cannot tell how late its timers are, nor can one that cannot open a shard.
#[test]
fn how_late_each_shard_is_is_known_to_all_whether_one_has_it_or_none() {
    let Some(place) = place() else { return };
    let start = |directory: Option<&str>| -> Cluster<String> {
        let builder = Cluster::nats(&place.url).schema(&place.name).shards(2);
        let builder = builder.lease(Duration::from_secs(1));
        let builder = directory.into_iter().fold(builder, |one, path| one.index_directory(path));
        builder.start(|_: &Firing<'_, String>| Ok::<(), String>(())).unwrap()
    };
    let late = Duration::from_secs(1000);
    let are_late = |lags: &[(u32, Duration)]| {
        lags.len() == 2 && lags.iter().all(|(_, lag)| *lag >= late && *lag < late * 2)
    };
    let one = start(None);
    wait_until("it has all shards", || one.shards().len() == 2);
    assert!(one.pause("").wait().unwrap());
    wait_until("it is told", || one.stats().iter().all(|work| work.stats.pauses == 1));
    for n in 0..20 {
        one.schedule(one.now() - late, n.to_string()).unwrap().wait().unwrap();
    }
    wait_until("who has them says so", || are_late(&one.lags()));
    let other = start(Some("/nowhere"));
    wait_until("another one says so", || are_late(&other.lags()));
    one.stop().unwrap();
    let before = other.lags();
    assert!(are_late(&before), "{before:?}");
    wait_until("it gets later", || {
        let (now, before) = (other.lags(), &before);
        are_late(&now) && now.iter().zip(before).all(|((_, now), (_, then))| now > then)
    });
    assert!(other.shards().is_empty());
    other.stop().unwrap();
    let last = start(None);
    assert!(last.resume("").wait().unwrap());
    let none = [(0, Duration::ZERO), (1, Duration::ZERO)];
    wait_until("they have fired", || last.lags() == none);
    last.stop().unwrap();
}

/// The handler returns each time, in a process that lives: nothing of it is the end of a process.
#[test]
fn attempts_whose_lease_was_lost_do_not_count_as_ends_of_their_process() {
    let Some(place) = place() else { return };
    let (begin, begun) = std::sync::mpsc::channel();
    let (go, gate) = std::sync::mpsc::channel::<()>();
    let gate = std::sync::Arc::new(std::sync::Mutex::new(gate));
    let start = || -> Cluster<String> {
        let (begin, gate) = (begin.clone(), gate.clone());
        let builder = Cluster::nats(&place.url).schema(&place.name).shards(1);
        let builder = builder.lease(Duration::from_secs(2)).service(Builder::new().crashes(2));
        let handler = move |firing: &Firing<'_, String>| {
            begin.send((firing.fence(), firing.crashes())).unwrap();
            let _ = gate.lock().unwrap().recv();
            Ok::<(), String>(())
        };
        builder.start(handler).unwrap()
    };
    // It is due before the shard is opened, and so it is noted that it begins.
    let first = start();
    wait_until("it has the shard", || first.shards().len() == 1);
    assert!(first.pause("").wait().unwrap());
    wait_until("it is told", || first.stats().iter().all(|work| work.stats.pauses == 1));
    first.schedule(first.now(), "a".to_owned()).unwrap().wait().unwrap();
    first.stop().unwrap();
    let cluster = start();
    assert!(cluster.resume("").wait().unwrap());
    // Dropped before the cluster, so that a test which fails does not wait for handlers.
    let go = go;
    let mut last = 0;
    for _ in 0..4 {
        let (fence, crashes) = begun.recv_timeout(LIMIT).expect("it is no dead letter");
        assert!(fence > last);
        assert_eq!(crashes, 0, "under the fence {fence}");
        last = fence;
        let lease = format!("$KV.tickless_{}.s.0", place.name);
        patiently(|| probe::publish(&place.url, &lease, b"0 0")).unwrap();
        wait_until("it is lost", || cluster.shards().iter().all(|(_, held)| *held != fence));
        go.send(()).unwrap();
    }
    assert_eq!(begun.recv_timeout(LIMIT).expect("it is no dead letter").1, 0);
    go.send(()).unwrap();
    let left = || cluster.list(None, 9).wait().map_or(usize::MAX, |left| left.len());
    wait_until("all are over", || left() == 0);
    assert!(cluster.dead_letters(None, 9).wait().unwrap().is_empty());
    cluster.stop().unwrap();
}
