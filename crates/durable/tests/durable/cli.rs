//! The command line, on files of each store.

#![cfg(feature = "sqlite")]

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader};
use std::panic::{self, AssertUnwindSafe};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, SystemTime};

use serde_json::Value;
use tickless_durable::{
    Builder, DeadLetter, Durable, Firing, Key, Op, Position, Record, RedbStore, SqliteStore, Store,
    TimerId,
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

pub(crate) type Open = fn(&Path) -> Box<dyn Store>;

/// On a file of each store with two timers and a dead letter.
pub(crate) fn on_each(test: impl Fn(&Path, [TimerId; 3], Open)) {
    let stores: [Open; 2] = [
        |path| Box::new(RedbStore::open(path).unwrap()),
        |path| Box::new(SqliteStore::open(path).unwrap()),
    ];
    for open in stores {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("timers");
        let record = |due_ms, number, text: &str| {
            let key = format!("key {number}").into_bytes().into();
            Record::new(Position { due_ms, number }, Some(key), text.as_bytes().into())
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
fn a_reader_that_has_seen_enough_is_no_error() {
    on_each(|path, _, _| {
        for arguments in [&["ls"][..], &["count"], &["watch", "--every", "1ms"]] {
            let (reader, writer) = std::io::pipe().unwrap();
            drop(reader);
            let mut program = Command::new(env!("CARGO_BIN_EXE_tickless-durable"));
            let output = program.arg(path).args(arguments).stdout(writer).output().unwrap();
            let said = String::from_utf8(output.stderr).unwrap();
            assert_eq!((output.status.code(), &*said), (Some(2), ""), "{arguments:?}");
        }
    });
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
        let late_ones = json(path, &["ls", "--late"]);
        assert_eq!((late_ones.len(), &late_ones[0]["id"]), (1, &late.to_string().into()));
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
        assert!(code == 0 && out.lines().count() == 2 && out.contains("key=\"key 2\""), "{out}");
        let (code, out, _) = run(path, &["count"]);
        assert!(code == 0 && out.contains("late by 5") && out.contains("years"), "{out}");
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
fn many_dead_letters_are_revived_and_forgotten_by_their_age_in_one_batch() {
    // More than are read at a time.
    const LETTERS: u64 = 1200;
    on_each(|path, _, open| {
        let day_ms = 24 * 3600 * 1000;
        let now_ms = SystemTime::UNIX_EPOCH.elapsed().unwrap().as_millis() as u64;
        let batch = (10..10 + LETTERS).flat_map(|number| {
            // Half of them have failed long ago.
            let age_ms = if number % 2 == 0 { 40 * day_ms } else { day_ms };
            let position = Position { due_ms: now_ms - age_ms, number };
            let record = Record::new(position, None, b"dies".as_slice().into());
            let letter = Arc::new(DeadLetter::new(record.clone(), "why"));
            [Op::Put(Arc::new(record)), Op::Bury { from: position, letter }]
        });
        open(path).commit(&batch.collect::<Vec<Op>>()).unwrap();
        let letters = || open(path).dead_letters(None, usize::MAX).unwrap().len() as u64;
        let (code, _, said) = run(path, &["forget"]);
        assert!(code == 2 && letters() == LETTERS + 1, "{said}");
        // And the one that is there already, of 1970.
        assert_eq!(json(path, &["forget", "--older-than", "30d"]).len() as u64, LETTERS / 2 + 1);
        assert_eq!(letters(), LETTERS / 2);
        let all = ["revive", "--all", "--in", "1h"];
        assert_eq!(json(path, &all).len() as u64, LETTERS / 2);
        assert_eq!((letters(), json(path, &all).len()), (0, 0));
        let timers = open(path).scan(None, usize::MAX).unwrap();
        assert_eq!(timers.len() as u64, LETTERS / 2 + 2);
        assert_eq!(run(path, &["forget", "--all"]).0, 0);
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
    on_each(|path, _, _| {
        let (code, _, said) = run(path, &["cancel", "7"]);
        assert!(code == 2 && said.contains("32 hexadecimal digits"), "{said}");
        let (code, _, said) = run(path, &["revive", "--all", "--in", "500000000000y"]);
        assert!(code == 2 && said.contains("too far away"), "{said}");
    });
}

#[test]
fn a_time_after_the_year_9999_is_shown_as_its_end() {
    on_each(|path, [late, far, _], open| {
        let position = Position { due_ms: (1 << 63) - 1, number: 9 };
        let last = Record::new(position, None, "last".as_bytes().into());
        let id = last.id().to_string();
        open(path).commit(&[Op::Put(Arc::new(last))]).unwrap();
        let end = "9999-12-31T23:59:59.999Z";
        let listed = json(path, &["ls"]);
        assert_eq!((&listed[2]["id"], &listed[2]["due"]), (&id.as_str().into(), &end.into()));
        let (code, out, said) = run(path, &["show", &id]);
        assert!(code == 0 && out.contains(end), "{out}{said}");
        for other in [late, far] {
            assert_eq!(run(path, &["cancel", &other.to_string()]).0, 0);
        }
        assert_eq!(json(path, &["count"])[0]["first_due"], end);
        let (code, out, said) = run(path, &["count"]);
        assert!(code == 0 && out.contains(&format!("the first is due {end}")), "{out}{said}");
    });
}

/// A service whose timers are far away.
pub(crate) fn serve(path: &Path, open: Open) -> Durable<String> {
    Builder::new().open(open(path), |_: &Firing<String>| Ok::<(), String>(())).unwrap()
}

/// Whether a service leaves the file to readers. While it runs, nothing else in its process may
/// open the file.
pub(crate) fn has_readers(path: &Path) -> bool {
    cfg!(target_os = "linux") && fs::read(path).unwrap().starts_with(b"SQLite")
}

#[test]
fn beside_a_service_a_file_of_sqlite_is_shown_and_no_file_is_changed() {
    on_each(|path, [late, far, dead], open| {
        assert_eq!(run(path, &["cancel", &late.to_string()]).0, 0);
        let [far, dead] = [far, dead].map(|id| id.to_string());
        let has_readers = has_readers(path);
        let timers = serve(path, open);
        let show_far = &["show", &far][..];
        let show_dead = &["show", &dead][..];
        let watch = &["watch", "--times", "2", "--every", "1ms"][..];
        for shows in [&["ls"][..], &["count"], &["dead"], &["check"], watch, show_far, show_dead] {
            let (code, out, said) = run(path, shows);
            let is_refused =
                code == 2 && said.contains("in use: ask the service") && out.is_empty();
            let is_shown = code == 0 && said.is_empty();
            assert!(if has_readers { is_shown } else { is_refused }, "{shows:?}: {out}{said}");
        }
        if has_readers {
            assert_eq!(json(path, &["ls"])[0]["id"], *far);
            assert_eq!(json(path, &["dead"])[0]["id"], *dead);
            assert_eq!(json(path, show_dead)[0]["error"], "no such host");
            assert_eq!(json(path, &["check"])[0]["timers"], 1);
            let at = SystemTime::now() + Duration::from_secs(1 << 20);
            timers.schedule(at, "new".to_owned()).unwrap().wait().unwrap();
            let listed = json(path, &["ls"]);
            assert_eq!((listed.len(), &listed[0]["payload"]), (2, &"new".into()));
        }
        let to = path.with_extension("new");
        let (code, out, said) = run(path, &["salvage", "--to", to.to_str().unwrap()]);
        assert!(code == 2 && said.contains("is in use") && out.is_empty(), "{out}{said}");
        assert!(!to.exists());
        let there = timers.contents().wait().unwrap();
        let in_an_hour = ["--in", "1h"];
        for changes in [
            &["cancel", &far][..],
            &["cancel", "--key", "key 2"],
            &[&["reschedule", &far], &in_an_hour[..]].concat(),
            &[&["revive", &dead], &in_an_hour[..]].concat(),
            &["revive", "--all"],
            &["forget", &dead],
        ] {
            let (code, out, said) = run(path, changes);
            let is_refused =
                code == 2 && said.contains("in use: ask the service") && out.is_empty();
            assert!(is_refused, "{changes:?}: {out}{said}");
        }
        assert_eq!(timers.contents().wait().unwrap(), there);
        timers.stop().unwrap();
        assert_eq!(open(path).contents().unwrap(), there);
    });
}

/// A service that starts while somebody watches is not kept from its file.
#[test]
fn who_watches_a_file_of_sqlite_keeps_no_service_from_it() {
    on_each(|path, [late, ..], open| {
        if !has_readers(path) {
            return;
        }
        assert_eq!(run(path, &["cancel", &late.to_string()]).0, 0);
        let mut program = Command::new(env!("CARGO_BIN_EXE_tickless-durable"));
        program.arg(path).args(["watch", "--json", "--every", "1ms"]).stdout(Stdio::piped());
        let mut watch = program.spawn().unwrap();
        let mut lines = BufReader::new(watch.stdout.take().unwrap()).lines().map_while(Result::ok);
        let mut seen = |timers: u64| {
            lines.any(|line| serde_json::from_str::<Value>(&line).unwrap()["timers"] == timers)
        };
        assert!(seen(1));
        let at = SystemTime::now() + Duration::from_secs(1 << 20);
        for round in 2..6 {
            let timers = serve(path, open);
            timers.schedule(at, String::new()).unwrap().wait().unwrap();
            assert!(seen(round), "it ends");
            timers.stop().unwrap();
        }
        watch.kill().unwrap();
        watch.wait().unwrap();
    });
}

/// Timers with keys are put off all the time, so that there are always as many, in other places.
#[test]
fn what_is_shown_beside_a_service_is_of_one_moment() {
    const TIMERS: u64 = 1200;
    if !cfg!(target_os = "linux") {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let path = &directory.path().join("timers");
    let (is_over, commits) = (AtomicBool::new(false), AtomicU64::new(0));
    let put = |round: u64, number: u64| {
        let due_ms = (1 << 42) + (number * 7919 + round * 104_729) % 1_000_000;
        let position = Position { due_ms, number: round << 20 | number };
        let key = Key::from(format!("key {number}").into_bytes());
        Op::Put(Arc::new(Record::new(position, Some(key), [].into())))
    };
    let mut store = SqliteStore::open(path).unwrap();
    store.commit(&(0..TIMERS).map(|number| put(0, number)).collect::<Vec<_>>()).unwrap();
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            let mut store = store;
            for round in 1.. {
                if is_over.load(Relaxed) {
                    break;
                }
                let some = (0..TIMERS).skip(round as usize % 50).step_by(50);
                store.commit(&some.map(|number| put(round, number)).collect::<Vec<_>>()).unwrap();
                commits.store(round, Relaxed);
            }
        });
        let look = || {
            for _ in 0..3 {
                let keys = |rows: Vec<Value>| -> BTreeSet<String> {
                    assert_eq!(rows.len() as u64, TIMERS);
                    rows.iter().map(|row| row["key"].to_string()).collect()
                };
                let keys = keys(json(path, &["ls", "--limit", "9999"]));
                assert_eq!(keys.len() as u64, TIMERS, "one is there twice");
                assert_eq!(json(path, &["check"])[0]["timers"], TIMERS);
            }
        };
        let looked = panic::catch_unwind(AssertUnwindSafe(look));
        while commits.load(Relaxed) == 0 && looked.is_ok() && !writer.is_finished() {
            std::thread::yield_now();
        }
        is_over.store(true, Relaxed);
        looked.unwrap_or_else(|panicked| panic::resume_unwind(panicked));
    });
    assert!(commits.into_inner() > 0);
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

/// How many timers a file has that is damaged: several pages of them.
const MANY: u64 = 1000;

/// A file with many timers, and their payloads.
fn fill(path: &Path, open: Open) -> BTreeSet<String> {
    let record = |n: u64| {
        let position = Position { due_ms: 10_000 + n, number: 1000 + n };
        Op::Put(Arc::new(Record::new(position, None, format!("payload {n}.").as_bytes().into())))
    };
    open(path).commit(&(0..MANY).map(record).collect::<Vec<Op>>()).unwrap();
    (0..MANY).map(|n| format!("payload {n}.")).collect()
}

#[test]
fn what_can_be_read_of_a_damaged_file_is_salvaged_and_the_rest_is_listed() {
    on_each(|path, [_, far, _], open| {
        let mut payloads = fill(path, open);
        payloads.extend(["late", "far"].map(str::to_owned));
        let intact = fs::read(path).unwrap();
        // A file can have a page of before, too.
        let places = |text: &'static str| {
            let windows = intact.windows(text.len()).enumerate();
            windows.filter(|(_, window)| *window == text.as_bytes()).map(|(place, _)| place)
        };
        let (mut changed, mut zeroed) = (intact.clone(), intact.clone());
        places("far").for_each(|place| changed[place] = b'F');
        for page in places("payload 500.").map(|place| place / 4096 * 4096) {
            // Not its kind, by which a debug build of redb's refuses the file.
            zeroed[page + 64..page + 4096].fill(0);
        }
        let to = path.with_extension("new");
        for (damage, damaged) in [("none", &intact), ("record", &changed), ("page", &zeroed)] {
            fs::write(path, damaged).unwrap();
            let (code, out, said) = run(path, &["salvage", "--to", to.to_str().unwrap(), "--json"]);
            assert_eq!((code, &*said), (i32::from(damage != "none"), ""), "{damage}: {out}");
            assert_eq!(fs::read(path).unwrap(), *damaged, "the file is as it was");
            let told: Vec<Value> =
                out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
            let sum = &told[told.len() - 1];
            let (timers, gaps) = (sum["timers"].as_u64().unwrap(), &sum["gaps"]);
            let kept = open(&to).scan(None, usize::MAX).unwrap();
            assert_eq!(kept.len() as u64, timers);
            let text = |record: &Record| String::from_utf8(record.payload.to_vec()).unwrap();
            assert!(kept.iter().all(|record| payloads.contains(&text(record))));
            let letters = json(&to, &["dead"]);
            match damage {
                "none" => assert_eq!((timers, gaps, letters.len()), (MANY + 2, &0.into(), 1)),
                "record" => {
                    assert_eq!((timers, gaps, letters.len()), (MANY + 1, &0.into(), 2));
                    let id = told[0]["id"].as_str().unwrap();
                    assert!(letters.iter().any(|letter| letter["id"] == *id));
                    assert!(
                        told[0]["payload"].as_str().unwrap().contains("Far")
                            || id == far.to_string()
                    );
                }
                // All but those of one page.
                _ => {
                    assert!((MANY / 2..MANY + 2).contains(&timers), "{sum}");
                    let found = timers + sum["dead_letters"].as_u64().unwrap();
                    let missing = sum["missing"].as_u64().is_none_or(|n| n + found == MANY + 3);
                    assert!(missing && (*gaps != 0 || sum["missing"].is_number()), "{sum}");
                }
            }
            fs::remove_file(&to).unwrap();
            assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 1, "no copy is left");
        }
    });
}

/// Of a position that may be what is damaged, nothing is concluded.
#[test]
fn new_timers_of_a_file_that_was_salvaged_have_later_numbers_than_those_that_can_be_read() {
    on_each(|path, _, open| {
        let record = |session: u64, text: &str| {
            let position = Position { due_ms: 9000, number: session << 40 };
            Op::Put(Arc::new(Record::new(position, None, text.as_bytes().into())))
        };
        open(path).commit(&[record(5, "intact"), record(30, "damaged")]).unwrap();
        let mut bytes = fs::read(path).unwrap();
        let places: Vec<usize> =
            (0..bytes.len()).filter(|at| bytes[*at..].starts_with(b"damaged")).collect();
        places.into_iter().for_each(|at| bytes[at] = b'D');
        fs::write(path, bytes).unwrap();
        let to = path.with_extension("new");
        let (code, out, said) = run(path, &["salvage", "--to", to.to_str().unwrap()]);
        assert!(code == 1 && out.contains("1 of which cannot be read"), "{out}{said}");
        assert_eq!(open(&to).begin().unwrap(), 6);
    });
}

/// As in a file with a page of before.
#[test]
fn of_two_timers_with_one_key_that_are_salvaged_the_other_one_is_listed() {
    let directory = tempfile::tempdir().unwrap();
    let (path, to) = (directory.path().join("timers"), directory.path().join("new"));
    let record = |number: u64, key: Option<&[u8]>| {
        let position = Position { due_ms: 9000 + number, number };
        Arc::new(Record::new(position, key.map(Key::from), b"text".as_slice().into()))
    };
    let from = record(8, None).position;
    let batch = [
        Op::Put(record(7, Some(b"k"))),
        Op::Put(record(8, None)),
        // This looks for no other one with the key.
        Op::Move { from, to: record(8, Some(b"k")) },
    ];
    RedbStore::open(&path).unwrap().commit(&batch).unwrap();
    let (code, out, said) = run(&path, &["salvage", "--to", to.to_str().unwrap(), "--json"]);
    assert_eq!((code, &*said), (1, ""), "{out}");
    let told: Vec<Value> = out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(told[0]["id"], record(7, None).id().to_string());
    assert_eq!(told[0]["error"], "another timer has its key");
    let sum = &told[1];
    assert_eq!(
        (&sum["timers"], &sum["replaced"], &sum["missing"]),
        (&1.into(), &1.into(), &0.into())
    );
    assert_eq!(
        RedbStore::open(&to).unwrap().scan(None, 9).unwrap(),
        [(*record(8, Some(b"k"))).clone()]
    );
}

#[test]
fn of_a_file_that_was_cut_off_its_beginning_is_salvaged() {
    let directory = tempfile::tempdir().unwrap();
    let (path, to) = (directory.path().join("timers"), directory.path().join("new"));
    let payloads = fill(&path, |path| Box::new(SqliteStore::open(path).unwrap()));
    let whole = fs::read(&path).unwrap();
    fs::write(&path, &whole[..whole.len() / 2]).unwrap();
    assert_eq!(run(&path, &["check"]).0, 2);
    let (code, out, said) = run(&path, &["salvage", "--to", to.to_str().unwrap()]);
    assert!(code == 1 && out.contains("cannot be read"), "{out}{said}");
    let kept = SqliteStore::open(&to).unwrap().scan(None, usize::MAX).unwrap();
    assert!(!kept.is_empty() && kept.len() < payloads.len(), "{}", kept.len());
    let (code, _, said) = run(&path, &["salvage", "--to", to.to_str().unwrap()]);
    assert!(code == 2 && said.contains("exists"), "{said}");
}

#[test]
fn counts_are_watched() {
    on_each(|path, _, _| {
        let watched = json(path, &["watch", "--times", "3", "--every", "1ms"]);
        assert_eq!(watched.len(), 3);
        assert!(watched.iter().all(|count| count["timers"] == 2), "{watched:?}");
        let (code, out, _) = run(path, &["watch", "--times", "1"]);
        assert!(code == 0 && out.contains("2 timers, 1 dead letters"), "{out}");
    });
}

#[test]
fn a_file_of_an_earlier_version_says_what_to_do_and_that_works() {
    let files = [
        &include_bytes!("../fixtures/redb-1.redb")[..],
        &include_bytes!("../fixtures/sqlite-2.sqlite")[..],
    ];
    for written in files {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("timers");
        fs::write(&path, written).unwrap();
        for arguments in [&["ls"][..], &["cancel", "--key", "order 17"]] {
            let (code, _, said) = run(&path, arguments);
            assert!(code == 2 && said.contains("`tickless-durable migrate`"), "{said}");
        }
        assert_eq!(json(&path, &["migrate"])[0]["migrated"], true);
        assert_eq!(json(&path, &["migrate"])[0]["migrated"], true, "there is nothing to do");
        assert_eq!(json(&path, &["ls"]).len(), 2);
        assert_eq!(json(&path, &["dead"])[0]["failed"].as_array().map(Vec::len), Some(0));
        assert_eq!(run(&path, &["cancel", "--key", "order 17"]).0, 0);
    }
}

#[test]
fn what_is_paused_is_said_and_a_service_obeys() {
    on_each(|path, _, open| {
        assert_eq!(json(path, &["pause", "key 1"])[0]["paused"], true);
        assert_eq!(json(path, &["pause", "key 1"])[0]["paused"], false);
        assert_eq!(json(path, &["pauses"])[0]["prefix"], "key 1");
        let (code, _, said) = run(path, &["pause", &"x".repeat(1001)]);
        assert!(code == 2 && said.contains("1000 bytes"), "{said}");
        let (code, _, said) = run(path, &["pause"]);
        assert!(code == 2 && said.contains("<PREFIX>"), "{said}");
        let (sender, fired) = std::sync::mpsc::channel();
        // What is paused was not missed, either.
        let builder = Builder::new().misfire(tickless_durable::Misfire::Skip);
        let handler = move |firing: &Firing<String>| sender.send(firing.payload().clone());
        let timers = builder.open(open(path), handler).unwrap();
        timers.schedule(SystemTime::now(), "other".to_owned()).unwrap().wait().unwrap();
        assert_eq!(fired.recv().unwrap(), "other");
        timers.stop().unwrap();
        drop(timers);
        assert!(fired.try_recv().is_err());
        assert_eq!(json(path, &["ls"]).len(), 2);
        assert_eq!(json(path, &["resume", "key 1"])[0]["resumed"], true);
        assert_eq!(json(path, &["pauses"]).len(), 0);
    });
}
