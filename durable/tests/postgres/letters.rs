//! Dead letters of shards that this instance holds, and of others.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use tickless_durable::cluster::{DeadLetter, Firing};
use tickless_durable::{Backoff, Builder, Cluster};

use crate::history::Recorder;
use crate::limit::LIMIT;
use crate::server::Place;

/// Two instances, what fires, and whether that fails.
struct Scene {
    recorder: Recorder,
    one: Cluster<String>,
    other: Cluster<String>,
    fired: Receiver<String>,
    fails: Arc<AtomicBool>,
}

impl Scene {
    fn new() -> Option<Scene> {
        let place = Place::new()?;
        let mut recorder = Recorder::new(&place, 4);
        let (sender, fired) = channel();
        let fails = Arc::new(AtomicBool::new(true));
        let start = || {
            let (sender, fails) = (sender.clone(), fails.clone());
            let service =
                Builder::new().attempts(1).backoff(Backoff::new(Duration::from_millis(1)));
            let builder = Cluster::builder(&place.url).schema(&place.schema).service(service);
            let handler = move |firing: &Firing<'_, String>| {
                sender.send(firing.payload().clone()).unwrap();
                if fails.load(Ordering::Relaxed) { Err("no") } else { Ok(()) }
            };
            builder.start(handler).unwrap()
        };
        let (one, other) = (start(), start());
        recorder.wait_for_holders(2);
        Some(Scene { recorder, one, other, fired, fails })
    }

    /// A dozen timers that fail, in shards of both instances.
    fn fail(&mut self) -> Vec<DeadLetter> {
        for n in 0..12 {
            // By their keys, they are in all shards.
            let (key, text) = (format!("key {n}"), format!("text {n}"));
            self.one.schedule_keyed(key, self.one.now(), text).unwrap().wait().unwrap();
        }
        self.recorder.wait_for("SELECT count(*) FROM dead_letters", 12);
        self.fired.try_iter().for_each(drop);
        self.fails.store(false, Ordering::Relaxed);
        self.other.dead_letters(None, 100).wait().unwrap()
    }
}

#[test]
fn each_instance_reads_the_dead_letters_of_all_shards() {
    let Some(mut scene) = Scene::new() else { return };
    let all = scene.fail();
    assert_eq!(all.len(), 12);
    let mut texts: Vec<&[u8]> = all.iter().map(|letter| &*letter.letter().record.payload).collect();
    texts.sort_unstable();
    texts.dedup();
    assert_eq!(texts.len(), 12);
    assert!(all.iter().all(|letter| letter.letter().error == "no"));
    let shards: std::collections::BTreeSet<u32> =
        all.iter().map(|letter| letter.id().shard()).collect();
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
}

#[test]
fn a_dead_letter_is_revived_once_and_forgotten_once_from_any_instance() {
    let Some(mut scene) = Scene::new() else { return };
    let letters = scene.fail();
    let Scene { recorder, one, other, fired, .. } = &mut scene;
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
    let text =
        |letter: &DeadLetter| String::from_utf8(letter.letter().record.payload.to_vec()).unwrap();
    let mut expected: Vec<String> = revived.iter().map(text).collect();
    texts.sort();
    expected.sort();
    assert_eq!(texts, expected);
    recorder.wait_for("SELECT count(*) FROM timers", 0);
    recorder.wait_for("SELECT count(*) FROM dead_letters", 0);
}

#[test]
fn of_two_instances_that_revive_a_dead_letter_at_the_same_time_one_does() {
    let Some(mut scene) = Scene::new() else { return };
    let letters = scene.fail();
    let Scene { recorder, one, other, fired, .. } = &mut scene;
    let replies: Vec<_> = letters
        .iter()
        .flat_map(|letter| [one.revive(letter, one.now()), other.revive(letter, other.now())])
        .collect();
    let done: Vec<bool> = replies.iter().map(|reply| reply.wait().unwrap()).collect();
    assert!(done.chunks(2).all(|pair| pair[0] != pair[1]), "{done:?}");
    recorder.wait_for("SELECT count(*) FROM timers", 0);
    assert_eq!(fired.try_iter().count(), letters.len());
}

#[test]
fn a_revived_timer_is_known_by_its_number() {
    let Some(mut scene) = Scene::new() else { return };
    let letters = scene.fail();
    let due = scene.one.now() + Duration::from_secs(3600);
    for letter in &letters {
        assert!(scene.one.revive(letter, due).wait().unwrap());
        let found = scene.other.cancel(letter.id()).wait().unwrap();
        assert_eq!(found, tickless_durable::Cancelled::Cancelled);
    }
    scene.recorder.wait_for("SELECT count(*) FROM timers", 0);
}

#[test]
fn who_reads_dead_letters_of_an_instance_that_has_stopped_is_told_so() {
    let Some(mut scene) = Scene::new() else { return };
    let letters = scene.fail();
    scene.one.stop().unwrap();
    let stopped = |error| matches!(error, tickless_durable::Error::Stopped);
    assert!(stopped(scene.one.dead_letters(None, 1).wait().unwrap_err()));
    assert!(stopped(scene.one.forget(&letters[0]).wait().unwrap_err()));
    assert!(stopped(scene.one.revive(&letters[0], scene.one.now()).wait().unwrap_err()));
}
