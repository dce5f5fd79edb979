//! Dead letters of shards that this instance holds, and of others, which are asked for them.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use tickless_durable::cluster::{DeadLetter, Firing};
use tickless_durable::{Backoff, Builder, Cancelled, Cluster};

use crate::limit::LIMIT;
use crate::scene;
use crate::server::{on_one, patiently};

const SHARDS: u32 = 4;

/// Two instances, what fires, and whether that fails.
struct Scene {
    history: scene::Scene,
    one: Cluster<String>,
    other: Cluster<String>,
    fired: Receiver<String>,
    fails: Arc<AtomicBool>,
}

impl Scene {
    fn new() -> Option<Scene> {
        let place = on_one()?;
        let (sender, fired) = channel();
        let fails = Arc::new(AtomicBool::new(true));
        let start = || {
            let (sender, fails) = (sender.clone(), fails.clone());
            let service =
                Builder::new().attempts(1).backoff(Backoff::new(Duration::from_millis(1)));
            let handler = move |firing: &Firing<'_, String>| {
                sender.send(firing.payload().clone()).unwrap();
                if fails.load(Ordering::Relaxed) { Err("no") } else { Ok(()) }
            };
            let start = || {
                let builder = Cluster::nats(&place.url).schema(&place.name).shards(SHARDS);
                let builder = builder.lease(Duration::from_secs(10)).service(service.clone());
                builder.start(handler.clone())
            };
            patiently(start).unwrap()
        };
        let (one, other) = (start(), start());
        let begun = Instant::now();
        while [&one, &other].iter().any(|cluster| cluster.shards().len() != SHARDS as usize / 2) {
            assert!(begun.elapsed() < LIMIT, "{one:?} {other:?}");
            std::thread::sleep(Duration::from_millis(10));
        }
        Some(Scene { history: scene::Scene::new(place, SHARDS), one, other, fired, fails })
    }

    /// Waits until that many timers have failed.
    #[track_caller]
    fn failed(&self, count: usize) -> Vec<DeadLetter> {
        let begun = Instant::now();
        loop {
            let letters = self.other.dead_letters(None, 100).wait().unwrap();
            if letters.len() == count {
                self.fired.try_iter().for_each(drop);
                self.fails.store(false, Ordering::Relaxed);
                return letters;
            }
            assert!(begun.elapsed() < LIMIT, "{} letters of {count}", letters.len());
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// A dozen timers that fail, in shards of both instances.
    #[track_caller]
    fn fail(&self) -> Vec<DeadLetter> {
        for n in 0..12 {
            // By their keys, they are in all shards.
            let (key, text) = (format!("key {n}"), format!("text {n}"));
            self.one.schedule_keyed(key, self.one.now(), text).unwrap().wait().unwrap();
        }
        self.failed(12)
    }
}

fn text(letter: &DeadLetter) -> String {
    String::from_utf8(letter.letter().record.payload.to_vec()).unwrap()
}

#[test]
fn each_instance_reads_the_dead_letters_of_all_shards() {
    let Some(scene) = Scene::new() else { return };
    let all = scene.fail();
    let texts: BTreeSet<String> = all.iter().map(text).collect();
    assert_eq!(texts.len(), 12);
    assert!(all.iter().all(|letter| letter.letter().error == "no"));
    let shards: BTreeSet<u32> = all.iter().map(|letter| letter.id().shard()).collect();
    assert!(shards.len() > 2, "they are in shards of both: {shards:?}");
    // In pages, from each of the instances.
    for cluster in [&scene.one, &scene.other] {
        let mut read: Vec<DeadLetter> = Vec::new();
        while let page @ [_, ..] = &cluster.dead_letters(read.last(), 5).wait().unwrap()[..] {
            assert!(page.len() <= 5);
            read.extend_from_slice(page);
        }
        assert_eq!(read, all);
    }
    // They are in the logs: who takes the shards has them.
    scene.one.stop().unwrap();
    assert_eq!(scene.other.dead_letters(None, 100).wait().unwrap(), all);
}

#[test]
fn a_dead_letter_is_revived_once_and_forgotten_once_from_any_instance() {
    let Some(scene) = Scene::new() else { return };
    let letters = scene.fail();
    let Scene { history, one, other, fired, .. } = &scene;
    let (revived, forgotten) = letters.split_at(6);
    let due = one.now() + Duration::from_secs(2);
    for letter in revived {
        assert!(one.revive(letter, due).wait().unwrap());
        assert!(!one.revive(letter, due).wait().unwrap(), "it is a timer again");
        assert!(!other.revive(letter, due).wait().unwrap(), "it is a timer again");
        assert!(!other.forget(letter).wait().unwrap(), "it is a timer again");
    }
    for letter in forgotten {
        assert!(other.forget(letter).wait().unwrap());
        assert!(!one.forget(letter).wait().unwrap());
        assert!(!one.revive(letter, due).wait().unwrap());
    }
    assert_eq!(one.dead_letters(None, 9).wait().unwrap(), []);
    let mut texts: Vec<String> =
        revived.iter().map(|_| fired.recv_timeout(LIMIT).expect("it fires")).collect();
    assert!(one.now() >= due);
    let mut expected: Vec<String> = revived.iter().map(text).collect();
    texts.sort();
    expected.sort();
    assert_eq!(texts, expected);
    history.wait_for_the_end();
    assert_eq!(other.dead_letters(None, 9).wait().unwrap(), []);
}

#[test]
fn of_two_instances_that_revive_a_dead_letter_at_the_same_time_one_does() {
    let Some(scene) = Scene::new() else { return };
    let letters = scene.fail();
    let Scene { history, one, other, fired, .. } = &scene;
    let replies: Vec<_> = letters
        .iter()
        .flat_map(|letter| [one.revive(letter, one.now()), other.revive(letter, other.now())])
        .collect();
    let done: Vec<bool> = replies.iter().map(|reply| reply.wait().unwrap()).collect();
    assert!(done.chunks(2).all(|pair| pair[0] != pair[1]), "{done:?}");
    history.wait_for_the_end();
    let mut texts: Vec<String> = fired.try_iter().collect();
    let mut expected: Vec<String> = letters.iter().map(text).collect();
    texts.sort();
    expected.sort();
    assert_eq!(texts, expected);
}

#[test]
fn a_revived_timer_is_known_by_its_number() {
    let Some(scene) = Scene::new() else { return };
    let letters = scene.fail();
    let due = scene.one.now() + Duration::from_secs(3600);
    for letter in &letters {
        assert!(scene.one.revive(letter, due).wait().unwrap());
        let found = scene.other.cancel(letter.id()).wait().unwrap();
        assert_eq!(found, Cancelled::Cancelled);
    }
    scene.history.wait_for_the_end();
}

#[test]
fn a_dead_letter_that_is_longer_than_a_message_is_read_and_revived_by_any_instance() {
    let Some(scene) = Scene::new() else { return };
    let Scene { one, other, fired, .. } = &scene;
    // A timer without a key goes to a shard of the instance that schedules it.
    let large = [one, other].map(|cluster| format!("{} ", cluster.instance()).repeat(1 << 20));
    one.schedule(one.now(), large[0].clone()).unwrap().wait().unwrap();
    other.schedule(other.now(), large[1].clone()).unwrap().wait().unwrap();
    let all = scene.failed(2);
    assert_eq!(all.iter().map(text).collect::<BTreeSet<_>>(), large.iter().cloned().collect());
    assert_eq!(one.dead_letters(None, 9).wait().unwrap(), all);
    for letter in &all {
        assert!(one.revive(letter, one.now()).wait().unwrap());
    }
    let fired: BTreeSet<String> =
        all.iter().map(|_| fired.recv_timeout(LIMIT).expect("it fires")).collect();
    assert_eq!(fired, large.into_iter().collect());
}

#[test]
fn who_reads_dead_letters_of_an_instance_that_has_stopped_is_told_so() {
    let Some(scene) = Scene::new() else { return };
    let letters = scene.fail();
    scene.one.stop().unwrap();
    let stopped = |error| matches!(error, tickless_durable::Error::Stopped);
    assert!(stopped(scene.one.dead_letters(None, 1).wait().unwrap_err()));
    assert!(stopped(scene.one.forget(&letters[0]).wait().unwrap_err()));
    assert!(stopped(scene.one.revive(&letters[0], scene.one.now()).wait().unwrap_err()));
}

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
    let Some(scene) = Scene::new() else { return };
    let letters = scene.fail();
    let place = &scene.history.place;
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
