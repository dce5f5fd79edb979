//! A disk that fails: each call in turn (one in five, if the tests are small) that reads or writes
//! the file of a store ends with `EIO`, that call alone or all from there on. What was acknowledged
//! is there afterwards, a batch is there as a whole or not at all, and no session's number is given
//! twice.
//!
//! The calls are those of another process, which has `common/eio.c` preloaded.

#![cfg(all(target_os = "linux", target_env = "gnu"))]

use std::fs;
use std::path::Path;
use std::sync::Arc;

use tickless_durable::{Op, Position, Record, Store};

use crate::common::{self, Open, scale::scale};

/// How many batches are written.
const BATCHES: u64 = 4;

fn record(number: u64) -> Record {
    let position = Position { due_ms: number * 7919 % 1000, number };
    let key = number.is_multiple_of(3).then(|| number.to_be_bytes().into());
    Record::new(position, key, vec![number as u8; 300].into())
}

/// The batch with this number, from 1 on: some timers come, and some of the last ones go.
fn batch(number: u64) -> Vec<Op> {
    let gone = (number * 10 - 10..number * 10).step_by(2).skip(if number == 1 { 5 } else { 0 });
    let gone = gone.map(|number| Op::Remove(record(number).position));
    gone.chain((number * 10..number * 10 + 10).map(|n| Op::Put(Arc::new(record(n))))).collect()
}

/// What is there after so many batches.
fn after(batches: u64) -> Vec<Record> {
    let is_left = |number: &u64| number / 10 == batches || number % 2 == 1;
    let mut left: Vec<Record> = (10..batches * 10 + 10).filter(is_left).map(record).collect();
    left.sort_by_key(|record| record.position);
    left
}

#[test]
fn child() {
    let Some(role) = common::role() else { return };
    let (name, path) = role.split_once('|').unwrap();
    let work = || {
        let mut store = common::store(name)(Path::new(path))?;
        println!("\n@session {}", store.begin()?);
        for number in 1..=BATCHES {
            println!("\n@begun {number}");
            store.commit(&batch(number))?;
            println!("\n@durable {number}");
        }
        store.scan(None, usize::MAX).map(drop)
    };
    let told = work().map_err(|error| error.kind());
    println!("\n@done {told:?}");
}

/// What the child has told last under this word; zero if nothing.
fn told(out: &str, word: &str) -> u64 {
    let last = out.lines().filter_map(|line| line.strip_prefix(word)).next_back();
    last.map_or(0, |number| number.trim().parse().unwrap())
}

/// Runs the child with a call that fails. Returns whether there was that call.
#[track_caller]
fn fails_at(call: u64, stays: bool, name: &str, open: Open, library: &Path) -> bool {
    // In memory, where syncs cost nothing, if there is such a place.
    let memory = Path::new("/dev/shm");
    let place = if memory.is_dir() { memory.to_owned() } else { std::env::temp_dir() };
    let directory = tempfile::tempdir_in(place).unwrap();
    let (path, log) = (directory.path().join("eio.store"), directory.path().join("log"));
    let mut child = common::child("eio::child", &format!("{name}|{}", path.display()));
    child.env("LD_PRELOAD", library).env("EIO_AT", call.to_string()).env("EIO_LOG", &log);
    if stays {
        child.env("EIO_STAYS", "1");
    }
    let output = child.output().unwrap();
    let out = String::from_utf8_lossy(&output.stdout).into_owned();
    let what = format!("{name}, call {call}{}", if stays { " and all later ones" } else { "" });
    assert!(out.contains("@done"), "{what}: {out}{}", String::from_utf8_lossy(&output.stderr));

    let mut store = open(&path).unwrap_or_else(|error| panic!("{what}: {error:?}\n{out}"));
    let found = store.scan(None, usize::MAX).unwrap();
    let (durable, begun) = (told(&out, "@durable "), told(&out, "@begun "));
    let is_whole = (durable..=begun.max(durable)).any(|batches| found == after(batches));
    assert!(is_whole, "{what}: {} timers after {durable} of {begun} batches", found.len());
    assert!(store.begin().unwrap() > told(&out, "@session "), "{what}: a session is there twice");
    let failed = fs::metadata(&log).is_ok();
    assert!(failed || durable == BATCHES, "{what}: {out}");
    failed
}

#[test]
fn a_disk_that_fails_at_any_call_takes_nothing_that_was_durable() {
    let directory = tempfile::tempdir().unwrap();
    let library = common::eio::library(directory.path());
    for (name, open) in common::stores() {
        for stays in [false, true] {
            let step = if scale() < 1.0 { 5 } else { 1 };
            let mut call = u64::from(stays) % step;
            while fails_at(call, stays, name, open, &library) {
                call += step;
            }
            println!("{name}: of {call} calls one in {step}");
            assert!(call > BATCHES, "{name} writes more than that");
        }
    }
}
