//! Dead letters of shards that this instance holds, and of others, on each store that instances
//! share.
//!
//! The module above says where that is: `place()`.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use tickless_durable::cluster::{DeadLetter, Firing};
use tickless_durable::{Backoff, Builder, Cancelled, Cluster, cluster};

use super::super::scene::start;
use super::super::server::Place;
use super::place;
use crate::common::limit::LIMIT;
use crate::common::until::wait_until;

pub(super) const SHARDS: u32 = 4;

/// Two instances, what fires, and whether that fails.
pub(super) struct Scene {
    pub(super) one: Cluster<String>,
    pub(super) other: Cluster<String>,
    pub(super) fired: Receiver<String>,
    fails: Arc<AtomicBool>,
}

impl Scene {
    pub(super) fn new() -> Option<Scene> {
        Some(Scene::at(&place()?))
    }

    pub(super) fn at(place: &Place) -> Scene {
        let (sender, fired) = channel();
        let fails = Arc::new(AtomicBool::new(true));
        let begin = || {
            let (sender, fails) = (sender.clone(), fails.clone());
            let service =
                Builder::new().attempts(1).backoff(Backoff::new(Duration::from_millis(1)));
            let handler = move |firing: &Firing<'_, String>| {
                sender.send(firing.payload().clone()).unwrap();
                if fails.load(Ordering::Relaxed) { Err("no") } else { Ok(()) }
            };
            let configured = |builder: cluster::Builder| {
                builder.lease(Duration::from_secs(10)).service(service.clone())
            };
            start(place.parts(), SHARDS, configured, handler)
        };
        let (one, other) = (begin(), begin());
        wait_until("each has half of the shards", || {
            [&one, &other].iter().all(|cluster| cluster.shards().len() == SHARDS as usize / 2)
        });
        Scene { one, other, fired, fails }
    }

    /// Waits until that many timers have failed.
    #[track_caller]
    fn failed(&self, count: usize) -> Vec<DeadLetter> {
        let mut letters = Vec::new();
        wait_until("all have failed", || {
            letters = self.other.dead_letters(None, 100).wait().unwrap();
            letters.len() == count
        });
        self.fired.try_iter().for_each(drop);
        self.fails.store(false, Ordering::Relaxed);
        letters
    }

    /// A dozen timers that fail, in shards of both instances.
    #[track_caller]
    pub(super) fn fail(&self) -> Vec<DeadLetter> {
        for n in 0..12 {
            // By their keys, they are in all shards.
            let (key, text) = (format!("key {n}"), format!("text {n}"));
            self.one.schedule_keyed(key, self.one.now(), text).unwrap().wait().unwrap();
        }
        self.failed(12)
    }

    #[track_caller]
    fn wait_for_the_end(&self) {
        wait_until("no timers are left", || {
            let shards = self.other.contents().wait().unwrap();
            shards.iter().all(|shard| shard.contents.timers == 0)
        });
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
    // They are in the store: who takes the shards has them.
    scene.one.stop().unwrap();
    assert_eq!(scene.other.dead_letters(None, 100).wait().unwrap(), all);
}

#[test]
fn a_dead_letter_is_revived_once_and_forgotten_once_from_any_instance() {
    let Some(scene) = Scene::new() else { return };
    let letters = scene.fail();
    let Scene { one, other, fired, .. } = &scene;
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
    scene.wait_for_the_end();
    assert_eq!(other.dead_letters(None, 9).wait().unwrap(), []);
}

#[test]
fn of_two_instances_that_revive_a_dead_letter_at_the_same_time_one_does() {
    let Some(scene) = Scene::new() else { return };
    let letters = scene.fail();
    let Scene { one, other, fired, .. } = &scene;
    let replies: Vec<_> = letters
        .iter()
        .flat_map(|letter| [one.revive(letter, one.now()), other.revive(letter, other.now())])
        .collect();
    let done: Vec<bool> = replies.iter().map(|reply| reply.wait().unwrap()).collect();
    assert!(done.chunks(2).all(|pair| pair[0] != pair[1]), "{done:?}");
    scene.wait_for_the_end();
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
    scene.wait_for_the_end();
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
