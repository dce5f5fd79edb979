//! The command line, on files of each store.

#![cfg(feature = "sqlite")]

use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use serde_json::Value;
use tickless_durable::{
    Builder, DeadLetter, Firing, Op, Position, Record, RedbStore, SqliteStore, Store, TimerId,
};

/// Runs the program: how it ended, and what it has said.
fn run(place: &Path, arguments: &[&str]) -> (i32, String, String) {
    let mut program = Command::new(env!("CARGO_BIN_EXE_tickless-durable"));
    let output = program.arg(place).args(arguments).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}

/// The same with `--json`, one value for each line.
#[track_caller]
fn json(place: &Path, arguments: &[&str]) -> Vec<Value> {
    let (code, out, said) = run(place, &[arguments, &["--json"]].concat());
    assert_eq!(code, 0, "{arguments:?}: {out}{said}");
    out.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

type Open = fn(&Path) -> Box<dyn Store>;

/// On a file of each store with two timers and a dead letter.
fn on_each(test: impl Fn(&Path, [TimerId; 3], Open)) {
    let stores: [Open; 2] = [
        |path| Box::new(RedbStore::open(path).unwrap()),
        |path| Box::new(SqliteStore::open(path).unwrap()),
    ];
    for open in stores {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("timers");
        let record = |due_ms, number, text: &str| Record {
            position: Position { due_ms, number },
            first_due_ms: due_ms,
            attempt: 1,
            crashes: 0,
            tried: false,
            key: Some(format!("key {number}").into_bytes().into()),
            payload: text.as_bytes().into(),
        };
        let far_ms = 4_102_444_800_000;
        let records = [record(5000, 1, "late"), record(far_ms, 2, "far"), record(7000, 3, "dies")];
        let mut batch: Vec<Op> = records.iter().cloned().map(Arc::new).map(Op::Put).collect();
        let letter = Arc::new(DeadLetter::new(records[2].clone(), "no such host"));
        batch.push(Op::Bury { from: records[2].position, letter });
        open(&path).commit(&batch).unwrap();
        test(&path, records.map(|record| record.id()), open);
    }
}

#[test]
fn what_is_pending_late_and_dead_is_shown() {
    on_each(|path, [late, far, dead], _| {
        let listed = json(path, &["ls"]);
        let ids: Vec<&str> = listed.iter().map(|row| row["id"].as_str().unwrap()).collect();
        assert_eq!(ids, [late.to_string(), far.to_string()]);
        assert_eq!((&listed[0]["payload"], &listed[0]["key"]), (&"late".into(), &"key 1".into()));
        assert_eq!(listed[0]["due"], "1970-01-01T00:00:05.000Z");
        assert_eq!(json(path, &["ls", "--limit", "1"]).len(), 1);
        let from = json(path, &["ls", "--from", "1970-01-01T00:00:06Z"]);
        assert_eq!((from.len(), &from[0]["payload"]), (1, &"far".into()));
        let count = &json(path, &["count"])[0];
        assert_eq!((&count["timers"], &count["dead_letters"]), (&2.into(), &1.into()));
        assert!(count["lag_s"].as_f64().unwrap() > 1e9);
        let dead_ones = json(path, &["dead"]);
        assert_eq!((dead_ones.len(), &dead_ones[0]["error"]), (1, &"no such host".into()));
        let (code, out, _) = run(path, &["show", &dead.to_string()]);
        assert!(code == 0 && out.contains("error      no such host"), "{out}");
        let (code, out, _) = run(path, &["show", &late.to_string()]);
        assert!(code == 0 && out.contains("payload    late") && !out.contains("error"), "{out}");
        let (code, out, _) = run(path, &["ls"]);
        assert!(code == 0 && out.lines().count() == 2 && out.contains("key=key 2"), "{out}");
        let (code, out, _) = run(path, &["count"]);
        assert!(code == 0 && out.contains("s late"), "{out}");
        assert_eq!(json(path, &["check"])[0]["unreadable"], 0);
    });
}

#[test]
fn timers_are_cancelled_put_off_revived_and_forgotten() {
    on_each(|path, [late, far, dead], open| {
        let ids = [late, far, dead].map(|id| id.to_string());
        assert_eq!(run(path, &["cancel", &ids[0]]).0, 0);
        let (code, out, _) = run(path, &["cancel", &ids[0]]);
        assert!(code == 1 && out.contains("not found"), "{out}");
        assert_eq!(run(path, &["reschedule", &ids[1], "--at", "1970-01-01T00:00:09Z"]).0, 0);
        assert_eq!(run(path, &["revive", &ids[2], "--in", "1h"]).0, 0);
        assert_eq!(run(path, &["revive", &ids[2]]).0, 1);
        let records = open(path).scan(None, 9).unwrap();
        let due: Vec<_> = records.iter().map(|record| (record.id(), record.due())).collect();
        assert_eq!(due[0], (far, SystemTime::UNIX_EPOCH + Duration::from_secs(9)));
        assert!(due.len() == 2 && due[1].0 == dead && due[1].1 > SystemTime::now());
        assert_eq!(run(path, &["cancel", "--key", "key 2"]).0, 0);
        assert_eq!(run(path, &["revive", "--all"]).0, 0);
        assert_eq!(run(path, &["forget", &ids[2]]).0, 1, "it is a timer by now");
    });
    on_each(|path, [_, _, dead], open| {
        assert_eq!(run(path, &["forget", &dead.to_string()]).0, 0);
        assert!(open(path).dead_letters(None, 9).unwrap().is_empty());
    });
}

#[test]
fn what_cannot_be_done_is_said() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("nowhere");
    let (code, _, said) = run(&path, &["ls"]);
    assert!(code == 2 && said.contains("nowhere") && !path.exists(), "{said}");
    fs::write(&path, "dear diary").unwrap();
    let (code, _, said) = run(&path, &["count"]);
    assert!(code == 2 && fs::read(&path).unwrap() == b"dear diary", "{said}");
    on_each(|path, [late, ..], open| {
        let (code, _, said) = run(path, &["cancel", "7"]);
        assert!(code == 2 && said.contains("32 hexadecimal digits"), "{said}");
        // A service has it open, whose timers are far away.
        assert_eq!(run(path, &["cancel", &late.to_string()]).0, 0);
        let handler = |_: &Firing<String>| Ok::<(), String>(());
        let timers = Builder::new().open(open(path), handler).unwrap();
        let (code, _, said) = run(path, &["ls"]);
        assert!(code == 2 && said.contains("in use"), "{said}");
        timers.stop().unwrap();
        assert_eq!(json(path, &["ls"]).len(), 1);
    });
}

#[test]
fn a_record_that_cannot_be_read_is_listed_with_its_bytes() {
    on_each(|path, _, _| {
        let mut bytes = fs::read(path).unwrap();
        let at = bytes.windows(4).position(|window| window == b"late").unwrap();
        bytes[at] = b'L';
        fs::write(path, &bytes).unwrap();
        let (code, out, said) = run(path, &["check"]);
        // A page of redb's has a checksum: the file is refused as a whole.
        if said.is_empty() {
            assert!(code == 1 && out.contains("Late") && out.contains("1 of which"), "{out}");
        } else {
            assert!(code == 2, "{out}{said}");
        }
    });
}
