//! What can be seen of a service's store: lists, single timers, and how much there is.

use std::path::Path;
use std::time::{Duration, SystemTime};

use tickless_durable::store::Disk;
use tickless_durable::{Backoff, Builder, Durable, Firing, Position, Record, RedbStore, Store};

const HOUR: Duration = Duration::from_secs(3600);

fn now() -> SystemTime {
    SystemTime::now()
}

/// Runs `test` on a fresh store of each kind, with a service that fails what it fires.
fn on_each(builder: &Builder, test: impl Fn(&str, &Durable<String>)) {
    type Open = fn(&Path) -> Box<dyn Store>;
    let stores: Vec<(&str, Open)> = vec![
        ("memory", |_| Box::new(Disk::default().open())),
        ("redb", |path| Box::new(RedbStore::open(path).unwrap())),
        #[cfg(feature = "sqlite")]
        ("sqlite", |path| Box::new(tickless_durable::SqliteStore::open(path).unwrap())),
    ];
    for (name, open) in stores {
        let directory = tempfile::tempdir().unwrap();
        let store = open(&directory.path().join("timers"));
        let fails = |_: &Firing<String>| Err::<(), _>("on purpose");
        let timers = builder.clone().open(store, fails).unwrap();
        test(name, &timers);
        timers.stop().unwrap();
    }
}

fn once() -> Builder {
    Builder::new().attempts(1)
}

fn text(text: &str) -> String {
    text.to_owned()
}

fn payloads(records: &[Record]) -> Vec<&str> {
    records.iter().map(|record| std::str::from_utf8(&record.payload).unwrap()).collect()
}

#[test]
fn timers_are_listed_page_by_page_and_from_a_time_on() {
    on_each(&once(), |name, timers| {
        assert_eq!(timers.list(None, 10).wait().unwrap(), [], "{name}");
        let begin = now() + HOUR;
        for n in [3_u64, 1, 2, 5, 4] {
            let due = begin + Duration::from_secs(n);
            timers.schedule_keyed(n.to_string(), due, n.to_string()).unwrap().wait().unwrap();
        }
        let page = timers.list(None, 3).wait().unwrap();
        assert_eq!(payloads(&page), ["1", "2", "3"], "{name}");
        let rest = timers.list(Some(page[2].position), 3).wait().unwrap();
        assert_eq!(payloads(&rest), ["4", "5"], "{name}");
        let from = Position::before_all_at(begin + Duration::from_secs(4));
        assert_eq!(payloads(&timers.list(Some(from), 9).wait().unwrap()), ["4", "5"], "{name}");
        assert!(page[0].due() >= begin && page[0].key.as_deref() == Some(b"1"), "{name}");
    });
}

#[test]
fn a_timer_is_found_by_its_number_as_long_as_it_is_not_over() {
    on_each(&once(), |name, timers| {
        let id = timers.schedule(now() + HOUR, text("a")).unwrap().wait().unwrap();
        let found = timers.get(id).wait().unwrap().expect(name);
        assert_eq!((found.id(), payloads(std::slice::from_ref(&found))), (id, vec!["a"]), "{name}");
        timers.cancel(id).wait().unwrap();
        assert_eq!(timers.get(id).wait().unwrap(), None, "{name}");
    });
}

#[test]
fn a_timer_that_is_tried_again_is_found_where_it_is() {
    let pause = Backoff::new(HOUR);
    on_each(&Builder::new().backoff(pause), |name, timers| {
        let id = timers.schedule(now(), text("a")).unwrap().wait().unwrap();
        let moved = loop {
            let found = timers.get(id).wait().unwrap().expect("it is not over");
            if found.has_moved() {
                break found;
            }
            std::thread::yield_now();
        };
        assert_eq!((moved.attempt, moved.tried, moved.id()), (2, true, id), "{name}");
        assert!(moved.due() > now() && timers.stats().retried == 1, "{name}");
    });
}

#[test]
fn what_is_there_is_counted_and_says_how_late_it_is() {
    on_each(&once(), |name, timers| {
        let contents = timers.contents().wait().unwrap();
        assert_eq!((contents.timers, contents.dead_letters), (0, 0), "{name}");
        assert_eq!((contents.first_due, contents.lag(now())), (None, Duration::ZERO), "{name}");
        for n in 0..3 {
            timers.schedule(now() + HOUR * (n + 1), text("a")).unwrap().wait().unwrap();
            timers.schedule(now(), text("dies")).unwrap().wait().unwrap();
        }
        let contents = loop {
            let contents = timers.contents().wait().unwrap();
            if contents.timers == 3 {
                break contents;
            }
            std::thread::yield_now();
        };
        assert_eq!(contents.dead_letters, 3, "{name}");
        let first = contents.first_due.unwrap();
        assert!(first > now(), "{name}");
        assert_eq!(contents.lag(now()), Duration::ZERO, "{name}");
        assert_eq!(contents.lag(first + Duration::from_secs(7)), Duration::from_secs(7), "{name}");
    });
}

#[test]
fn a_service_that_has_stopped_shows_nothing() {
    let handler = |_: &Firing<String>| Ok::<(), String>(());
    let timers = once().open(Disk::default().open(), handler).unwrap();
    timers.stop().unwrap();
    assert!(timers.list(None, 1).wait().is_err() && timers.contents().wait().is_err());
    let id = tickless_durable::TimerId::of(Position::before_all_at(SystemTime::now()));
    assert!(timers.get(id).wait().is_err());
}

#[test]
fn the_errors_of_the_last_ten_attempts_are_kept() {
    let quick =
        Builder::new().attempts(12).backoff(Backoff::new(Duration::from_millis(1)).factor(1.0));
    on_each(&quick, |name, timers| {
        let begun = now() - Duration::from_secs(1);
        timers.schedule(now(), text("fails")).unwrap().wait().unwrap();
        let letter = loop {
            if let Some(letter) = timers.dead_letters(None, 1).wait().unwrap().pop() {
                break letter;
            }
            std::thread::yield_now();
        };
        let failed = letter.record.failed_attempts();
        let attempts: Vec<u32> = failed.iter().map(|failed| failed.attempt).collect();
        assert_eq!(attempts, [3, 4, 5, 6, 7, 8, 9, 10, 11, 12], "{name}");
        assert!(failed.iter().all(|failed| failed.error == "on purpose" && failed.at > begun));
    });
}

#[test]
fn timers_that_are_paused_stay_and_fire_when_the_pause_ends() {
    on_each(&once(), |name, timers| {
        let died = |count: usize| loop {
            let letters = timers.dead_letters(None, 9).wait().unwrap();
            if letters.len() >= count {
                assert_eq!(letters.len(), count, "{name}");
                break letters;
            }
            std::thread::yield_now();
        };
        // One is in memory, waits, and leaves when it is due.
        let mut wait = Duration::from_millis(50);
        let soon = loop {
            let soon = now() + wait;
            timers.schedule_keyed("mail/1", soon, text("1")).unwrap().wait().unwrap();
            assert!(timers.pause("mail/").wait().unwrap(), "{name}");
            if now() < soon {
                break soon;
            }
            // The machine took so long that it fired, or was put aside.
            assert!(timers.resume("mail/").wait().unwrap(), "{name}");
            assert!(timers.forget(&died(1)[0]).wait().unwrap(), "{name}");
            wait *= 2;
        };
        assert!(!timers.pause("mail/").wait().unwrap(), "{name}: it was");
        assert!(!timers.pause("x".repeat(1001)).wait().unwrap(), "{name}: too long");
        timers.schedule_keyed("mail/2", now(), text("2")).unwrap().wait().unwrap();
        let id = timers.schedule_keyed("mail/3", now(), text("3")).unwrap().wait().unwrap();
        timers.schedule_keyed("sms/1", soon, text("sms")).unwrap().wait().unwrap();
        timers.schedule(now(), text("none")).unwrap().wait().unwrap();
        died(2);
        timers.cancel(id).wait().unwrap();
        assert_eq!(timers.contents().wait().unwrap().timers, 2, "{name}");
        assert_eq!(timers.pauses(), [tickless_durable::Key::from(*b"mail/")], "{name}");
        assert!(!timers.resume("mail").wait().unwrap(), "{name}: another one");
        assert!(timers.pause("").wait().unwrap() && timers.resume("mail/").wait().unwrap());
        timers.schedule(now(), text("none")).unwrap().wait().unwrap();
        assert_eq!(timers.contents().wait().unwrap().timers, 3, "{name}");
        assert_eq!(died(2).len(), 2);
        assert!(timers.resume("").wait().unwrap(), "{name}");
        died(5);
    });
}

#[test]
fn dead_letters_that_are_older_than_they_may_be_are_thrown_away() {
    let disk = Disk::default();
    let fails = |_: &Firing<String>| Err::<(), _>("on purpose");
    let open = |builder: Builder| builder.open(disk.open(), fails).unwrap();
    let dead = |timers: &Durable<String>| {
        let letters = timers.dead_letters(None, 9999).wait().unwrap();
        letters.iter().map(|letter| letter.record.position.due_ms).collect::<Vec<_>>()
    };
    let timers = open(once());
    timers.schedule(now(), text("young")).unwrap().wait().unwrap();
    while dead(&timers).is_empty() {
        std::thread::yield_now();
    }
    timers.stop().unwrap();
    // More than are read at a time.
    for n in 0..1500 {
        let record = Record::new(Position { due_ms: n, number: n }, None, [].into());
        disk.change(&[
            tickless_durable::Op::Put(record.clone().into()),
            tickless_durable::Op::Bury {
                from: record.position,
                letter: tickless_durable::DeadLetter::new(record, "old").into(),
            },
        ]);
    }
    let timers = open(once());
    assert_eq!(dead(&timers).len(), 1501, "they are kept if nobody says more");
    timers.stop().unwrap();
    let timers = open(once().keep_letters(HOUR));
    while dead(&timers).len() > 1 {
        std::thread::yield_now();
    }
    assert!(dead(&timers)[0] > 1500);
    timers.stop().unwrap();
}
