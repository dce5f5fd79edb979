//! Handlers that end their process: their timers become dead letters, and no others do.

#![cfg(unix)]

use std::collections::BTreeSet;
use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::Path;
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::time::{Duration, SystemTime};

use tickless_durable::store::Disk;
use tickless_durable::{Builder, Durable, Error, Firing, Store};

use crate::common;
use crate::common::service::{HOUR, builder, gated, now, sending, text};

/// How often a handler may end the process before its timer becomes a dead letter.
const CRASHES: u32 = 4;

/// Timers that do no harm.
const GOOD: u32 = 300;

/// The poison is due in the middle of them.
const PILL: &str = "poison";

// === the child ===

#[test]
fn child() {
    let Some(role) = common::role() else { return };
    let [what, name, place] = role.split('|').collect::<Vec<_>>()[..] else { panic!("{role}") };
    let place = Path::new(place);
    match what {
        "schedule" => schedule(name, place),
        "work" => work(name, place),
        other => panic!("{other}"),
    }
}

fn open(name: &str, place: &Path) -> Durable<String> {
    let log = OpenOptions::new().create(true).append(true).open(place.join("log")).unwrap();
    let handler = move |firing: &Firing<String>| {
        while !IS_SCHEDULED.load(Ordering::SeqCst) {
            std::thread::yield_now();
        }
        // One write, so that it is whole.
        let line = format!("{} {}\n", firing.payload(), firing.crashes());
        (&log).write_all(line.as_bytes()).unwrap();
        if firing.payload() == PILL {
            std::process::abort();
        }
        Ok::<(), String>(())
    };
    let builder = Builder::new().crashes(CRASHES).workers(2);
    builder.open(common::store(name)(&place.join("store")).unwrap(), handler).unwrap()
}

/// Whether all that this child has to schedule is durable. However late that is, no handler ends
/// the process before.
static IS_SCHEDULED: AtomicBool = AtomicBool::new(false);

/// All of them are due before the next child opens the store.
fn schedule(name: &str, place: &Path) {
    let timers = open(name, place);
    let due = SystemTime::now() + Duration::from_millis(400);
    let mut tickets = Vec::new();
    for number in 0..GOOD {
        let due = due + Duration::from_micros(u64::from(number));
        if number == GOOD / 2 {
            tickets.push(timers.schedule(due, PILL.to_owned()).unwrap());
        }
        tickets.push(timers.schedule(due, number.to_string()).unwrap());
    }
    tickets.push(timers.schedule(due, GOOD.to_string()).unwrap());
    for ticket in &tickets {
        ticket.wait().unwrap();
    }
    IS_SCHEDULED.store(true, Ordering::SeqCst);
    wait_for_the_end();
}

fn work(name: &str, place: &Path) {
    IS_SCHEDULED.store(true, Ordering::SeqCst);
    let timers = open(name, place);
    loop {
        // It comes to this if the process lives.
        let letters = timers.dead_letters(None, 9).wait().unwrap();
        if let [letter] = &letters[..] {
            assert_eq!(letter.record.payload[..], *PILL.as_bytes());
            assert!(letter.error.contains("4 attempts in a row"), "{}", letter.error);
            assert_eq!((letter.record.attempt, letter.record.crashes), (1, CRASHES));
            break;
        }
        assert!(letters.is_empty(), "{letters:?}");
        std::thread::yield_now();
    }
    // All were in the window when the poison was found.
    while timers.stats().near > 0 {
        std::thread::yield_now();
    }
    timers.stop().unwrap();
    println!("\n@done");
}

/// The parent waits for a death, which is the pill's.
fn wait_for_the_end() {
    loop {
        std::thread::park();
    }
}

fn fired(place: &Path) -> BTreeSet<String> {
    let log = fs::read_to_string(place.join("log")).unwrap_or_default();
    log.lines().map(|line| line.split(' ').next().unwrap().to_owned()).collect()
}

// === the parent ===

#[test]
fn a_handler_that_ends_its_process_each_time_makes_a_dead_letter_and_harms_no_other_timer() {
    if common::role().is_some() {
        return;
    }
    for (name, open) in common::stores() {
        let directory = tempfile::tempdir().unwrap();
        let place = directory.path();
        let run = |what: &str| {
            let role = format!("{what}|{name}|{}", place.display());
            let mut command = common::child("crashes::child", &role);
            let output = command.stderr(Stdio::null()).output().unwrap();
            (output.status.success(), String::from_utf8_lossy(&output.stdout).into_owned())
        };
        assert!(!run("schedule").0, "{name}: the poison works");
        let mut deaths = 1;
        let out = loop {
            let (is_well, out) = run("work");
            if is_well {
                break out;
            }
            deaths += 1;
            assert!(deaths < 20, "{name}: it goes on for ever");
        };
        assert!(out.contains("@done"), "{name}: {out}");
        assert_eq!(deaths, 1 + CRASHES, "{name}: the first one is not counted");
        let log = fs::read_to_string(place.join("log")).unwrap();
        let pills: Vec<&str> = log.lines().filter(|line| line.starts_with(PILL)).collect();
        assert_eq!(pills, ["poison 0", "poison 0", "poison 1", "poison 2", "poison 3"], "{name}");
        let mut store = open(&place.join("store")).unwrap();
        assert_eq!(store.scan(None, 9).unwrap(), [], "{name}");
        assert_eq!(fired(place).len(), GOOD as usize + 2, "{name}: all others, and the poison");
        assert_eq!(store.dead_letters(None, 9).unwrap().len(), 1, "{name}");
        println!("{name}: {deaths} deaths, then a dead letter; {GOOD} others have fired");
    }
}

// === notes ===

/// A disk on which timers are due, of a service that has ended.
fn left_over(count: usize) -> Disk {
    let disk = Disk::default();
    let (timers, _fired) = sending(&disk, builder());
    for number in 0..count {
        let id = timers.schedule(now() + HOUR, number.to_string()).unwrap().wait().unwrap();
        let stored = disk.timers().into_iter().find(|record| record.id() == id);
        let mut record = stored.expect("it is durable");
        timers.cancel(id).wait().unwrap();
        record.position.due_ms -= 7_200_000;
        record.first_due_ms = record.position.due_ms;
        disk.add(record);
    }
    timers.stop().unwrap();
    disk
}

fn crashes(disk: &Disk) -> Vec<u32> {
    disk.timers().iter().map(|record| record.crashes).collect()
}

#[test]
fn what_is_due_when_a_service_opens_is_noted_before_it_runs_and_nothing_else_is() {
    let disk = left_over(3);
    let (timers, begun, release) = gated(&disk, builder().workers(1));
    begun.recv().unwrap();
    assert_eq!(crashes(&disk)[0], 1);
    (0..3).for_each(|_| release.send(true).unwrap());
    for _ in 0..2 {
        begun.recv().unwrap();
    }
    // One that is due later is not.
    timers.schedule(now(), text("new")).unwrap().wait().unwrap();
    begun.recv().unwrap();
    assert_eq!(crashes(&disk).last(), Some(&0));
    release.send(true).unwrap();
    timers.stop().unwrap();
    assert_eq!((timers.stats().noted, timers.stats().fired), (3, 4));
    assert!(disk.timers().is_empty());
}

#[test]
fn notes_of_handlers_that_do_not_run_after_all_are_taken_back() {
    let disk = left_over(3);
    for _ in 0..10 {
        let (timers, begun, release) = gated(&disk, builder().workers(1));
        begun.recv().unwrap();
        // The first one fails and is put off, and the service ends before the others run.
        std::thread::scope(|scope| {
            scope.spawn(|| timers.stop().unwrap());
            while !matches!(timers.cancel_key("none").try_get(), Some(Err(Error::Stopped))) {
                std::thread::yield_now();
            }
            release.send(false).unwrap();
        });
        assert_eq!(timers.stats().fired, 1);
        assert!(crashes(&disk).iter().all(|crashes| *crashes == 0), "{:?}", disk.timers());
    }
}

#[test]
fn an_attempt_that_fails_takes_its_note_back() {
    let disk = left_over(1);
    let (sender, failed) = channel();
    let builder = builder().attempts(50);
    let timers = builder.open(disk.open(), move |firing: &Firing<String>| {
        sender.send((firing.attempt(), firing.crashes())).unwrap();
        if firing.attempt() < 20 { Err("not yet") } else { Ok(()) }
    });
    let timers = timers.unwrap();
    let attempts: Vec<(u32, u32)> = failed.iter().take(20).collect();
    assert_eq!(attempts, (1..=20).map(|attempt| (attempt, 0)).collect::<Vec<_>>());
    timers.stop().unwrap();
    assert!(disk.timers().is_empty());
}

#[test]
fn without_a_limit_nothing_is_noted() {
    let disk = left_over(3);
    let (timers, fired) = sending(&disk, builder().crashes(u32::MAX));
    (0..3).for_each(|_| drop(fired.recv().unwrap()));
    timers.stop().unwrap();
    assert_eq!(timers.stats().noted, 0);
}

#[test]
fn a_suspect_can_be_cancelled_while_others_run() {
    let disk = left_over(70);
    let timers = disk.timers();
    // All of them were cut off twice, so one runs at a time.
    for record in timers {
        disk.remove(record.position);
        disk.add(tickless_durable::Record { crashes: 2, ..record });
    }
    let ids: Vec<_> = disk.timers().iter().map(|record| record.id()).collect();
    let (service, begun, release) = gated(&disk, builder().workers(4));
    begun.recv().unwrap();
    for id in &ids[1..69] {
        assert_eq!(service.cancel(*id).wait().unwrap(), tickless_durable::Cancelled::Cancelled);
    }
    assert!(begun.try_recv().is_err(), "it runs alone");
    release.send(true).unwrap();
    begun.recv().unwrap();
    release.send(true).unwrap();
    service.stop().unwrap();
    assert!(disk.timers().is_empty());
    assert_eq!(service.stats().fired, 2);
}

#[test]
fn a_stop_that_leaves_a_handler_behind_is_no_crash() {
    let disk = left_over(1);
    for _ in 0..10 {
        let (timers, begun, release) = gated(&disk, builder().workers(1));
        begun.recv().unwrap();
        assert_eq!(crashes(&disk), [1], "it is noted");
        assert_eq!(timers.stop_within(Duration::from_millis(1)).unwrap(), 1);
        // It was asked to end and did, so whatever becomes of the process now is not the handler's.
        assert_eq!(crashes(&disk), [0]);
        drop(release);
    }
    assert_eq!(disk.open().dead_letters(None, 9).unwrap(), []);
}
