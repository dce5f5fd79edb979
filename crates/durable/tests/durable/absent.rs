//! Timers that are scheduled only if no other has their key.

use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, SystemTime};

use tickless_durable::store::Disk;
use tickless_durable::{Builder, Cancelled, Durable, Error, Firing, TimerId};

const HOUR: Duration = Duration::from_secs(3600);

fn far() -> SystemTime {
    SystemTime::now() + 5 * HOUR
}

/// A service whose writer waits until somebody waits for it, and what it fires.
fn service(disk: &Disk) -> (Durable<String>, Receiver<String>) {
    let (sender, fired) = channel();
    let handler = move |firing: &Firing<String>| sender.send(firing.payload().clone());
    (Builder::new().linger(HOUR).open(disk.open(), handler).unwrap(), fired)
}

fn payloads(disk: &Disk) -> Vec<String> {
    let text = |payload: &[u8]| String::from_utf8(payload.to_vec()).unwrap();
    disk.timers().iter().map(|record| text(&record.payload)).collect()
}

#[test]
fn the_first_one_stays_whether_it_is_written_or_not() {
    let disk = Disk::default();
    let (timers, _fired) = service(&disk);
    let add = |text: &str| timers.schedule_if_absent("k", far(), text.to_owned()).unwrap();
    // None is written yet, and the last one is asked for first.
    let (first, second, third) = (add("a"), add("b"), add("c"));
    assert_eq!(third.wait().unwrap(), None);
    assert_eq!(second.wait().unwrap(), None);
    let id = first.wait().unwrap().expect("it is the first one");
    assert_eq!(payloads(&disk), ["a"]);
    assert_eq!(add("d").wait().unwrap(), None);
    assert_eq!(timers.get(id).wait().unwrap().unwrap().id(), id);
    assert_eq!(timers.cancel(id).wait().unwrap(), Cancelled::Cancelled);
    let again = add("e").wait().unwrap();
    assert!(again.is_some_and(|again| again != id));
    assert_eq!(timers.stats().stored, 2);
}

#[test]
fn what_replaces_a_timer_and_what_does_not_are_written_in_their_order() {
    let disk = Disk::default();
    let (timers, _fired) = service(&disk);
    let add = |text: &str| timers.schedule_if_absent("k", far(), text.to_owned()).unwrap();
    let put = |text: &str| timers.schedule_keyed("k", far(), text.to_owned()).unwrap();
    // The one that waits for nobody comes first all the same.
    let (replaces, added) = (put("a"), add("b"));
    assert_eq!(pollster::block_on(added).unwrap(), None);
    replaces.wait().unwrap();
    assert_eq!(payloads(&disk), ["a"]);
    let (added, replaces) = (add("c"), put("d"));
    replaces.wait().unwrap();
    assert_eq!(added.wait().unwrap(), None);
    assert_eq!(payloads(&disk), ["d"]);
}

#[test]
fn one_that_is_due_soon_is_written_after_those_that_came_before_it() {
    let disk = Disk::default();
    let (timers, _fired) = service(&disk);
    // Within four lingers, and later.
    let (soon, far) = (SystemTime::now() + HOUR, far());
    let _first = timers.schedule_keyed("k", far, "a".to_owned()).unwrap();
    let _first = timers.schedule_if_absent("l", far, "b".to_owned()).unwrap();
    for key in ["k", "l"] {
        let added = timers.schedule_if_absent(key, soon, "c".to_owned()).unwrap();
        // Waiting for it would hurry those before it.
        let id = loop {
            if let Some(id) = added.try_get() {
                break id.unwrap();
            }
            thread::yield_now();
        };
        assert_eq!(id, None, "{key}");
    }
    assert_eq!(payloads(&disk), ["a", "b"]);
}

#[test]
fn a_cancel_takes_out_what_was_to_be_added_before_it_and_nothing_later() {
    let disk = Disk::default();
    let (timers, _fired) = service(&disk);
    let add = |text: &str| timers.schedule_if_absent("k", far(), text.to_owned()).unwrap();
    let (first, second) = (add("a"), add("b"));
    let cancel = timers.cancel_key("k");
    let third = add("c");
    assert_eq!(cancel.wait().unwrap(), Cancelled::Cancelled);
    assert!(matches!(first.wait(), Err(Error::Cancelled)));
    assert!(matches!(second.wait(), Err(Error::Cancelled)));
    assert!(third.wait().unwrap().is_some());
    assert_eq!(payloads(&disk), ["c"]);
    assert_eq!(timers.cancel_key("k").wait().unwrap(), Cancelled::Cancelled);
    assert_eq!(timers.cancel_key("k").wait().unwrap(), Cancelled::NotFound);
}

#[test]
fn a_timer_that_was_added_fires_and_frees_its_key() {
    let disk = Disk::default();
    let (timers, fired) = service(&disk);
    let now = SystemTime::now();
    let added = timers.schedule_if_absent("k", now, "a".to_owned()).unwrap();
    assert!(added.wait().unwrap().is_some());
    assert_eq!(fired.recv().unwrap(), "a");
    let again = loop {
        let again = timers.schedule_if_absent("k", now, "b".to_owned()).unwrap();
        if let Some(again) = again.wait().unwrap() {
            break again;
        }
        // Its end lingers, unless somebody waits for something.
        thread::yield_now();
    };
    assert_eq!(fired.recv().unwrap(), "b");
    timers.stop().unwrap();
    assert!(payloads(&disk).is_empty() && again != TimerId::of(tickless_durable::Position::FIRST));
}

#[test]
fn of_many_at_the_same_time_one_is_added() {
    let disk = Disk::default();
    let (timers, _fired) = service(&disk);
    for round in 0..50 {
        let key = format!("key {round}");
        let added: usize = thread::scope(|scope| {
            let one = || {
                let added = timers.schedule_if_absent(&key, far(), String::new()).unwrap();
                usize::from(added.wait().unwrap().is_some())
            };
            let threads: Vec<_> = (0..4).map(|_| scope.spawn(one)).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).sum()
        });
        assert_eq!(added, 1, "in round {round}");
    }
    assert_eq!(disk.timers().len(), 50);
}
