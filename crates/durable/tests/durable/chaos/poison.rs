//! Timers that no process can handle, among others: each becomes a dead letter, and the others
//! fire.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tickless_durable::{Op, Position, Record, Store};

use super::Run;
use super::ledger::{Pen, micros};
use super::worker::{CRASHES, Job, POISONS, Worker};
use crate::common::Open;

/// How many timers a process schedules, some of them poisoned.
const TIMERS: u64 = 120;

/// How many others are no text.
const NO_TEXT: u64 = 3;

/// As usual.
const CRASHES_MOST: &str = "5";

/// Those of a process that schedules, and then of processes that end again and again.
fn run(run: &mut Run, place: &str, add_no_text: impl FnOnce(&Pen)) {
    let job = |number, drains| {
        let (store, place) = (run.name.to_owned(), place.to_owned());
        Job { store, place, number, drains }
    };
    let ledger = run.ledger();
    let start = |job: &Job, poisons: u64| {
        Worker::start(job, &ledger, |command| {
            command.env(CRASHES, CRASHES_MOST).env(POISONS, poisons.to_string());
        })
    };
    // Until one of them ends it, unless that one was refused.
    let first = start(&job(1, false), TIMERS);
    while first.hear_of_its_end().is_some_and(|told| told != "scheduled") {}
    first.hear_within(Duration::from_secs(10));
    drop(first);
    add_no_text(&Pen::new(&ledger));
    for number in 2.. {
        let next = start(&job(number, true), 0);
        while let Some(told) = next.hear_of_its_end() {
            if told.starts_with("drained") {
                return;
            }
        }
        run.count("processes that their handlers ended");
    }
}

/// Timers with bytes that are no text, due at once: how each is called, and its payload.
fn no_text(pen: &Pen) -> impl Iterator<Item = (u64, Vec<u8>)> {
    (1..=NO_TEXT).map(|number| {
        let due = micros(std::time::SystemTime::now());
        pen.add(&format!("asked {number} {due}\npoisoned {number}\n"));
        (number, [b"\xff ", number.to_string().as_bytes()].concat())
    })
}

pub(super) fn in_file(mut one: Run, open: Open) -> String {
    let path = one.directory.join("poison.store");
    let add = |pen: &Pen| {
        let mut store = open(&path).unwrap();
        store.begin().unwrap();
        for (number, payload) in no_text(pen) {
            let record = Record::new(Position { due_ms: 1, number }, None, payload.into());
            store.commit(&[Op::Put(Arc::new(record))]).unwrap();
            pen.add(&format!("acked {number} no-text-{number}\n"));
        }
    };
    run(&mut one, as_text(&path), add);
    one.check()
}

fn as_text(path: &Path) -> &str {
    path.to_str().expect("it was made here")
}

#[cfg(all(feature = "postgres", target_os = "linux", target_env = "gnu"))]
pub(super) fn on_postgres(mut one: Run) -> Option<String> {
    let server = super::postgres::Pair::start_one(&one.directory)?;
    let place = server.url();
    let add = |pen: &Pen| {
        for (number, payload) in no_text(pen) {
            let mut client = server.client();
            let row = client.query_one("SELECT chaos.schedule(now(), $1::bytea)", &[&payload]);
            pen.add(&format!("acked {number} {}\n", row.unwrap().get::<_, String>(0)));
        }
    };
    run(&mut one, &place, add);
    drop(server);
    Some(one.check())
}

#[cfg(feature = "nats")]
pub(super) fn on_nats(mut one: Run) -> Option<String> {
    let servers = crate::common::nats::Servers::start(1)?;
    // There are no other programs that schedule there.
    run(&mut one, &servers.url(), |_| ());
    Some(one.check())
}
