//! Damaged files, full disks, and places where nothing may be written: a typed error, the file as
//! it was, and never a timer that is left out without a word.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::SystemTime;

use tickless_durable::{
    DeadLetter, Durable, Error, Firing, Op, Position, Record, RedbOptions, ScheduleError,
    ScheduleReason, StopError, Store, StoreErrorKind,
};

use crate::common::{self, Open, scale::cases};

fn record(number: u64) -> Record {
    let position = Position { due_ms: 1000 + number / 3, number };
    let key = number.is_multiple_of(4).then(|| format!("key {number}").into_bytes().into());
    Record::new(position, key, vec![number as u8; 100].into())
}

fn put_all(store: &mut impl Store, records: &[Record]) {
    let batch: Vec<Op> = records.iter().map(|record| Op::Put(Arc::new(record.clone()))).collect();
    store.commit(&batch).unwrap();
}

/// So many that a file has pages of each kind.
const TIMERS: u64 = 600;

/// A file with timers, closed in good order, and the timers.
fn filled(open: Open, path: &Path) -> Vec<Record> {
    let records: Vec<Record> = (1..=TIMERS).map(record).collect();
    let mut store = open(path).unwrap();
    store.begin().unwrap();
    put_all(&mut store, &records);
    records
}

/// What opening and reading a file comes to. It has to be all, or an error.
fn read_all(open: Open, path: &Path) -> Result<Vec<Record>, StoreErrorKind> {
    let mut store = open(path).map_err(|error| error.kind())?;
    store.scan(None, usize::MAX).map_err(|error| error.kind())
}

/// Runs `test` on a fresh file of each store.
fn on_each(test: impl Fn(&str, Open, &Path)) {
    for (name, open) in common::stores() {
        let directory = tempfile::tempdir().unwrap();
        test(name, open, &directory.path().join("timers"));
    }
}

/// The file after it was opened: unchanged if that failed.
#[track_caller]
fn assert_untouched(name: &str, path: &Path, before: &[u8]) {
    let after = fs::read(path).unwrap();
    assert!(after == before, "{name}: an opening that failed has changed the file");
}

#[test]
fn a_file_that_is_something_else_is_refused_and_left_alone() {
    on_each(|name, open, path| {
        for text in [b"dear diary".repeat(1000), vec![0; 8192], b"x".to_vec(), vec![]] {
            fs::write(path, &text).unwrap();
            let error = open(path).err().unwrap_or_else(|| panic!("{name} opens {text:.20?}"));
            assert_eq!(error.kind(), StoreErrorKind::Corrupt, "{name}: {error:?}");
            assert_untouched(name, path, &text);
        }
    });
}

/// At how many lengths a file is cut off.
const PARTS: usize = 80;

#[test]
fn a_file_that_was_cut_off_is_refused_and_left_alone() {
    on_each(|name, open, path| {
        let records = filled(open, path);
        let whole = fs::read(path).unwrap();
        assert_eq!(read_all(open, path).unwrap(), records);
        let whole = if fs::read(path).unwrap() == whole { whole } else { fs::read(path).unwrap() };
        let mut refused = 0;
        for part in 1..PARTS {
            let cut = &whole[..whole.len() * part / PARTS - part % 2];
            fs::write(path, cut).unwrap();
            match read_all(open, path) {
                Ok(read) => assert_eq!(read, records, "{name}, cut at {part}/{PARTS}"),
                Err(kind) => {
                    refused += 1;
                    assert_eq!(kind, StoreErrorKind::Corrupt, "{name}, cut at {part}/{PARTS}");
                    assert_untouched(name, path, cut);
                }
            }
        }
        assert_eq!(refused, PARTS - 1, "{name} was content with a part");
    });
}

/// How often a file is damaged.
fn rounds() -> usize {
    cases(800.0).max(48) as usize
}

/// What a damaged file comes to: all timers, each of which is found by its key, or an error.
#[track_caller]
fn assert_all_or_corrupt(open: Open, path: &Path, records: &[Record], what: &str) -> bool {
    let found = open(path).and_then(|mut store| {
        let read = store.scan(None, usize::MAX)?;
        let keyed: Vec<&Record> = records.iter().filter(|record| record.key.is_some()).collect();
        let cancel = |record: &&Record| Op::CancelKey(record.key.clone().unwrap());
        let cancelled = store.commit(&keyed.iter().map(cancel).collect::<Vec<_>>())?;
        let places: Vec<_> = keyed.iter().map(|record| Some(record.position)).collect();
        Ok((read, cancelled == places))
    });
    match found {
        Ok((read, all_by_key)) => {
            assert!(read == records, "{what}: {} of {} timers", read.len(), records.len());
            assert!(all_by_key, "{what}: some are not found by their keys");
            false
        }
        Err(error) => {
            assert_eq!(error.kind(), StoreErrorKind::Corrupt, "{what}: {error:?}");
            true
        }
    }
}

/// A disk that has written a page to another's place, or not at all.
#[test]
fn a_page_in_the_place_of_another_or_of_an_earlier_time_is_noticed() {
    const PAGE: usize = 4096;
    on_each(|name, open, path| {
        let (earlier, records) = {
            let records = filled(open, path);
            drop(open(path).unwrap());
            let earlier = fs::read(path).unwrap();
            // Some are due later, so that places and records differ.
            let mut store = open(path).unwrap();
            let mut moved = records.clone();
            let mut batch = Vec::new();
            for record in moved.iter_mut().step_by(3) {
                let from = record.position;
                (record.position.due_ms, record.attempt, record.tried) = (from.due_ms + 9, 2, true);
                batch.push(Op::Move { from, to: Arc::new(record.clone()) });
            }
            store.commit(&batch).unwrap();
            moved.sort_by_key(|record| record.position);
            (earlier, moved)
        };
        drop(open(path).unwrap());
        let whole = fs::read(path).unwrap();
        let pages = whole.len() / PAGE;
        let (rounds, mut random, mut refused, mut damaged) = (rounds(), 11_u64, 0_usize, 0);
        for round in 0..rounds {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let to = 1 + (random >> 16) as usize % (pages - 1);
            let from = 1 + (random >> 40) as usize % (pages - 1);
            let source = if round % 2 == 0 { &whole } else { &earlier };
            let from = if round % 2 == 0 { from } else { to };
            let Some(page) = source.get(from * PAGE..(from + 1) * PAGE) else { continue };
            let mut bytes = whole.clone();
            bytes[to * PAGE..(to + 1) * PAGE].copy_from_slice(page);
            if bytes == whole {
                continue;
            }
            damaged += 1;
            fs::write(path, &bytes).unwrap();
            let what = format!("{name}: page {from} at {to}, round {round}");
            refused += usize::from(assert_all_or_corrupt(open, path, &records, &what));
        }
        println!("{name}: {refused} of {damaged} were refused, the others did no harm");
        assert!(refused > rounds / 24, "{name} noticed damage only {refused} times");
    });
}

#[test]
fn damage_anywhere_is_noticed_or_does_no_harm() {
    on_each(|name, open, path| {
        let records = filled(open, path);
        drop(open(path).unwrap());
        let whole = fs::read(path).unwrap();
        let (rounds, mut random, mut refused) = (rounds(), 7_u64, 0);
        for round in 0..rounds {
            let mut damaged = whole.clone();
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let at = (random >> 16) as usize % whole.len();
            // A bit, or a sector that was never written.
            if round % 2 == 0 {
                damaged[at] ^= 1 << (round % 8);
            } else {
                let sector = at / 512 * 512;
                damaged[sector..whole.len().min(sector + 512)].fill(0);
            }
            if damaged == whole {
                continue;
            }
            fs::write(path, &damaged).unwrap();
            let what = format!("{name}, damaged at {at}");
            refused += usize::from(assert_all_or_corrupt(open, path, &records, &what));
        }
        println!(
            "{name}: {refused} of {rounds} kinds of damage were refused, the others did no harm"
        );
        assert!(refused > rounds / 10, "{name} noticed damage only {refused} times");
    });
}

/// SQLite calls a format that it does not know an error of the statement, and not damage.
#[test]
#[cfg(feature = "sqlite")]
fn a_file_of_sqlite_with_another_format_is_damage() {
    let directory = tempfile::tempdir().unwrap();
    let (open, path) = (common::store("sqlite"), directory.path().join("timers"));
    let records = filled(open, &path);
    drop(open(&path).unwrap());
    let whole = fs::read(&path).unwrap();
    // The number of the format of its tables, whose largest is 4.
    for bit in 0..32 {
        let mut damaged = whole.clone();
        damaged[44 + bit / 8] ^= 1 << (bit % 8);
        fs::write(&path, &damaged).unwrap();
        assert_all_or_corrupt(open, &path, &records, &format!("bit {bit}"));
    }
}

/// redb panics where damage of a file that it has open misleads it, also when it closes the file.
#[test]
#[cfg(unix)]
fn a_file_of_redb_that_is_damaged_while_it_is_open_is_closed_without_a_panic() {
    use std::os::unix::fs::FileExt;
    let directory = tempfile::tempdir().unwrap();
    let path = &directory.path().join("timers");
    for fill in [0x00, 0x01, 0xff] {
        let _ = fs::remove_file(path);
        filled(common::store("redb"), path);
        let mut store = RedbOptions::new().cache_bytes(0).open(path).unwrap();
        store.commit(&[Op::Put(Arc::new(record(9000)))]).unwrap();
        let file = fs::OpenOptions::new().write(true).open(path).unwrap();
        let length = file.metadata().unwrap().len() as usize;
        file.write_all_at(&vec![fill; length - 4096], 4096).unwrap();
        let _ = store.begin();
    }
}

/// The others fire, and what cannot be read is a dead letter with the bytes that are there.
#[test]
fn a_record_that_cannot_be_read_stops_no_other() {
    on_each(|name, open, path| {
        let records = filled(open, path);
        drop(open(path).unwrap());
        let mut bytes = fs::read(path).unwrap();
        // The payload of one that has no key, and of one that has.
        for number in [7, 8] {
            let payload = &records[number - 1].payload[..];
            let at = bytes.windows(payload.len()).position(|window| window == payload);
            bytes[at.unwrap() + 50] ^= 1;
        }
        fs::write(path, bytes).unwrap();
        let (fired, count) = std::sync::mpsc::channel();
        let handler = move |firing: &Firing<Vec<u8>>| fired.send(firing.payload()[0]);
        // A page of redb's has a checksum, too, which is not to refuse the whole file here.
        let timers = match name {
            "redb" => {
                let store = RedbOptions::new().check(false).open(path).unwrap();
                Durable::builder().open(store, handler).unwrap()
            }
            _ => Durable::builder().open(open(path).unwrap(), handler).unwrap(),
        };
        let all = count.iter().take(records.len() - 2).count();
        assert_eq!(all, records.len() - 2, "{name}");
        let letters = timers.dead_letters(None, 9).wait().unwrap();
        assert_eq!(timers.stats().buried, 2, "{name}");
        timers.stop().unwrap();
        let dead: Vec<_> = letters.iter().map(|letter| letter.record.position).collect();
        assert_eq!(dead, [records[6].position, records[7].position], "{name}");
        for letter in &letters {
            assert!(letter.error.contains("checksum"), "{name}: {}", letter.error);
            let payload = &letter.record.payload;
            let number = letter.record.position.number as u8;
            let same = payload.iter().filter(|byte| **byte == number).count();
            assert!(same >= 99, "{name}: its bytes are kept");
        }
        assert_eq!(read_all(open, path), Ok(Vec::new()), "{name}");
    });
}

/// Whoever takes a record out need not read it.
#[test]
fn a_record_that_cannot_be_read_can_be_cancelled_and_replaced() {
    on_each(|name, open, path| {
        let record = |number| {
            let payload = format!("payload {number}.").into_bytes();
            Record { payload: payload.into(), ..record(number) }
        };
        let [mut moved, keyed, replaced, plain, intact] = [7, 8, 12, 13, 14].map(record);
        let mut store = open(path).unwrap();
        put_all(&mut store, &[&moved, &keyed, &replaced, &plain, &intact].map(Clone::clone));
        // It is tried again.
        let from = moved.position;
        (moved.position.due_ms, moved.attempt) = (5000, 2);
        store.commit(&[Op::Move { from, to: Arc::new(moved.clone()) }]).unwrap();
        drop(store);
        let mut bytes = fs::read(path).unwrap();
        for damaged in [&moved, &keyed, &replaced, &plain] {
            let payload = &damaged.payload[..];
            let is_there = |at: &usize| bytes[*at..].starts_with(payload);
            let places: Vec<usize> = (0..bytes.len()).filter(is_there).collect();
            places.into_iter().for_each(|at| bytes[at] = b'P');
        }
        fs::write(path, bytes).unwrap();
        let mut store: Box<dyn Store> = match name {
            "redb" => Box::new(RedbOptions::new().check(false).open(path).unwrap()),
            _ => open(path).unwrap(),
        };
        assert_eq!(store.unreadable(None, 9).unwrap().len(), 4, "{name}");
        let new = Record { key: replaced.key.clone(), ..record(100) };
        let batch = [
            Op::Cancel(moved.id()),
            Op::CancelKey(keyed.key.unwrap()),
            Op::Put(Arc::new(new.clone())),
            Op::Cancel(plain.id()),
        ];
        let taken = [moved.position, keyed.position, replaced.position, plain.position].map(Some);
        assert_eq!(store.commit(&batch).unwrap(), taken, "{name}");
        assert_eq!(store.scan(None, 9).unwrap(), [intact, new], "{name}");
    });
}

/// Nor is there a reason then for the rest not to fire.
#[test]
#[cfg(feature = "sqlite")]
fn a_letter_that_is_gone_is_not_revived_if_the_next_one_cannot_be_read() {
    let directory = tempfile::tempdir().unwrap();
    let (open, path) = (common::store("sqlite"), directory.path().join("timers"));
    let bury = |number| {
        let record = record(number);
        let from = record.position;
        let letter = Arc::new(DeadLetter::new(record.clone(), "why"));
        [Op::Put(Arc::new(record)), Op::Bury { from, letter }]
    };
    open(&path).unwrap().commit(&[bury(1), bury(2)].concat()).unwrap();
    let letter = open(&path).unwrap().dead_letters(None, 1).unwrap().remove(0);
    let damage = "UPDATE dead_letters SET payload = x'00' WHERE number = 2";
    rusqlite::Connection::open(&path).unwrap().execute(damage, []).unwrap();
    let handler = |_: &Firing<Vec<u8>>| Ok::<(), Error>(());
    let timers = Durable::builder().open(open(&path).unwrap(), handler).unwrap();
    assert!(timers.forget(&letter).wait().unwrap());
    assert!(!timers.revive(&letter, SystemTime::now()).wait().unwrap());
    timers.stop().unwrap();
}

#[test]
fn a_second_opening_is_refused() {
    on_each(|name, open, path| {
        let store = open(path).unwrap();
        let error = open(path).err().unwrap_or_else(|| panic!("{name} opens twice"));
        assert_eq!(error.kind(), StoreErrorKind::InUse, "{name}: {error:?}");
        drop(store);
        open(path).unwrap();
    });
}

#[test]
fn a_directory_that_is_missing_is_an_error() {
    on_each(|name, open, path| {
        let error = open(&path.join("nowhere")).err().unwrap();
        assert_eq!(error.kind(), StoreErrorKind::Io, "{name}: {error:?}");
        assert!(!path.exists());
    });
}

// === in another process ===

/// What a child does, by its role.
#[test]
#[cfg(unix)]
fn child() {
    let Some(role) = common::role() else { return };
    let [what, name, path] = role.split('|').collect::<Vec<_>>()[..] else { panic!("{role}") };
    let (open, path) = (common::store(name), Path::new(path));
    match what {
        "fill" => fill_the_disk(name, path),
        "begin" => begin_without_room(open, path),
        "in use" => {
            let error = open(path).err().expect("another process has it open");
            assert_eq!(error.kind(), StoreErrorKind::InUse, "{error:?}");
        }
        "denied" => {
            let error = open(path).err().expect("nothing may be written here");
            assert_eq!(error.kind(), StoreErrorKind::Denied, "{error:?}");
        }
        other => panic!("{other}"),
    }
    // So that a child which did nothing is told from one that did.
    println!("\n@done");
}

/// Schedules timers until a file may grow no further, and tells how many became durable.
#[cfg(unix)]
fn fill_the_disk(name: &str, path: &Path) {
    let open = common::store(name);
    // Otherwise the system ends a process that goes beyond the limit.
    // SAFETY: this sets the disposition of a signal to "ignore", which runs no code.
    unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_IGN) };
    let limit = fs::metadata(path).unwrap().len() + (8 << 20);
    rlimit::Resource::FSIZE.set(limit, limit).unwrap();
    let (failures, failed) = std::sync::mpsc::channel();
    let timers = Durable::builder()
        .on_failure(move |error| failures.send(error.kind()).unwrap())
        .open(open(path).unwrap(), |_: &Firing<Vec<u8>>| Ok::<(), Error>(()))
        .unwrap();
    let due = SystemTime::now() + std::time::Duration::from_secs(3600);
    let mut durable = 0;
    let error = loop {
        let tickets: Vec<_> = (0..50).map(|_| timers.schedule(due, vec![7; 2000])).collect();
        // The disk may be full before the last one is scheduled.
        let ids = tickets.into_iter().map(|ticket| match ticket {
            Ok(ticket) => ticket.wait(),
            Err(ScheduleError { reason: ScheduleReason::Store(error), .. }) => {
                Err(Error::Store(error))
            }
            Err(refused) => panic!("{refused:?}"),
        });
        match ids.collect::<Result<Vec<_>, _>>() {
            Ok(ids) => durable += ids.len(),
            Err(error) => break error,
        }
        assert!(durable < 100_000, "the disk is never full");
    };
    let Error::Store(error) = error else { panic!("{error:?}") };
    // SQLite does not tell the limit of a file from other errors. It does tell a full disk.
    let kind = if name == "sqlite" { StoreErrorKind::Io } else { StoreErrorKind::Full };
    assert_eq!(error.kind(), kind, "{error:?}");
    assert_eq!(failed.recv(), Ok(kind));
    assert_eq!(timers.failure().map(|error| error.kind()), Some(kind));
    let refused = timers.schedule(due, vec![8]).unwrap_err();
    assert!(matches!(refused.reason, ScheduleReason::Store(_)) && refused.payload == [8]);
    assert!(matches!(timers.stop(), Err(StopError::Store(_))));
    println!("\n@durable {durable}");
}

/// Begins sessions while no file may grow.
#[cfg(unix)]
fn begin_without_room(open: Open, path: &Path) {
    // SAFETY: this sets the disposition of a signal to "ignore", which runs no code.
    unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_IGN) };
    let (_, most) = rlimit::Resource::FSIZE.get().unwrap();
    let fails = |is_failing| {
        let limit = if is_failing { 4096 } else { most };
        rlimit::Resource::FSIZE.set(limit, most).unwrap();
    };
    let open = || open(path);
    tickless_durable::conformance::a_session_that_cannot_be_written_is_not_reported(open, fails);
}

#[cfg(unix)]
fn run_child(role: &str, become_nobody: bool) -> String {
    use std::os::unix::process::CommandExt;
    let mut command = common::child("faults::child", role);
    if become_nobody {
        command.uid(65_534);
    }
    let output = command.output().unwrap();
    let out = String::from_utf8_lossy(&output.stdout).into_owned();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && out.contains("@done"), "{role}: {out}{said}");
    out
}

/// The system's locks for SQLite are the process's: closing any other descriptor of the file, as a
/// second opening does, would release them.
#[test]
#[cfg(unix)]
fn a_second_opening_that_is_refused_does_not_let_another_process_in() {
    on_each(|name, open, path| {
        let records = filled(open, path);
        let mut store = open(path).unwrap();
        assert_eq!(open(path).err().map(|error| error.kind()), Some(StoreErrorKind::InUse));
        run_child(&format!("in use|{name}|{}", path.display()), false);
        put_all(&mut store, &[record(5000)]);
        drop(store);
        assert_eq!(read_all(open, path).unwrap().len(), records.len() + 1, "{name}");
        // By another name, it is the same file.
        let other = path.with_file_name("other");
        std::os::unix::fs::symlink(path, &other).unwrap();
        let store = open(path).unwrap();
        assert_eq!(open(&other).err().map(|error| error.kind()), Some(StoreErrorKind::InUse));
        run_child(&format!("in use|{name}|{}", path.display()), false);
        drop(store);
        open(&other).unwrap();
    });
}

/// A child has all descriptors of its parent until it runs its program, locked ones as well.
#[test]
#[cfg(target_os = "linux")]
fn a_file_that_was_refused_is_not_in_use_even_if_a_child_was_forked_meanwhile() {
    use std::io::{Read, Write};
    use std::os::unix::{fs::MetadataExt, net::UnixStream, process::CommandExt};
    use std::process::Command;
    use std::thread;

    let directory = tempfile::tempdir().unwrap();
    // An opening waits here for what the file begins with.
    let path = directory.path().join("timers");
    assert!(Command::new("mkfifo").arg(&path).status().unwrap().success());
    let mut pipe = fs::OpenOptions::new().read(true).write(true).open(&path).unwrap();
    let opens = {
        let path = path.clone();
        move || common::store("sqlite")(&path).err().map(|error| error.kind())
    };
    let first = thread::spawn(opens.clone());
    let lock = format!(":{} 0 EOF", fs::metadata(&path).unwrap().ino());
    while !fs::read_to_string("/proc/locks").unwrap().contains(&lock) {
        assert!(!first.is_finished(), "it has not locked the file");
        thread::yield_now();
    }
    // It says that it was forked, and waits for a word before it runs its program.
    let (mut ours, theirs) = UnixStream::pair().unwrap();
    let mut child = Command::new("true");
    let waits = move || (&theirs).write_all(b".").and_then(|()| (&theirs).read_exact(&mut [0]));
    // SAFETY: it writes and reads one byte each, and allocates nothing.
    unsafe { child.pre_exec(waits) };
    let child = thread::spawn(move || child.status().unwrap().success());
    ours.read_exact(&mut [0]).unwrap();
    let mut refused = Vec::new();
    pipe.write_all(&[b'x'; 100]).unwrap();
    refused.push(first.join().unwrap());
    pipe.write_all(&[b'x'; 100]).unwrap();
    refused.push(opens());
    ours.write_all(b".").unwrap();
    assert!(child.join().unwrap());
    assert_eq!(refused, [Some(StoreErrorKind::Corrupt); 2]);
}

/// Threads that come to an empty directory at the same time: one of them has the store, and what
/// the others are told is that it is in use.
#[test]
fn when_several_make_a_store_at_the_same_time_one_has_it_and_the_others_are_told() {
    on_each(|name, open, path| {
        for round in 0..8 {
            let path = &path.with_file_name(format!("timers-{round}"));
            let begin = &std::sync::Barrier::new(4);
            let opened: Vec<_> = std::thread::scope(|scope| {
                let threads: Vec<_> = (0..4)
                    .map(|_| {
                        scope.spawn(move || {
                            begin.wait();
                            open(path).map_err(|error| (error.kind(), format!("{error:?}")))
                        })
                    })
                    .collect();
                threads.into_iter().map(|thread| thread.join().unwrap()).collect()
            });
            let refused = opened.iter().filter_map(|opened| opened.as_ref().err());
            for (kind, text) in refused {
                assert_eq!(*kind, StoreErrorKind::InUse, "{name}: {text}");
            }
            assert_eq!(opened.iter().filter(|opened| opened.is_ok()).count(), 1, "{name}");
        }
        let directory = fs::read_dir(path.parent().unwrap()).unwrap();
        let left = directory
            .filter(|entry| entry.as_ref().unwrap().file_name().to_string_lossy().contains(".new"));
        assert_eq!(left.count(), 0, "{name} leaves nothing behind");
    });
}

#[test]
#[cfg(unix)]
fn a_full_disk_fails_the_service_and_keeps_what_was_durable() {
    on_each(|name, open, path| {
        drop(open(path).unwrap());
        let out = run_child(&format!("fill|{name}|{}", path.display()), false);
        let durable = out.lines().find_map(|line| line.strip_prefix("@durable ")).unwrap();
        let durable: usize = durable.parse().unwrap();
        let read = read_all(open, path).unwrap();
        // Some of the last fifty became durable before the others failed.
        assert!(
            (durable..durable + 50).contains(&read.len()),
            "{name}: {} of {durable} timers are there",
            read.len()
        );
        assert!(durable > 500, "{name}: the disk was full after {durable} timers");
    });
}

#[test]
#[cfg(unix)]
fn a_session_for_which_there_is_no_room_is_not_reported() {
    on_each(|name, _, path| {
        run_child(&format!("begin|{name}|{}", path.display()), false);
    });
}

/// Root may write everywhere, so the child is somebody else.
#[test]
#[cfg(unix)]
fn where_nothing_may_be_written_nothing_is_changed() {
    use std::os::unix::fs::PermissionsExt;
    on_each(|name, open, path| {
        let directory = path.parent().unwrap();
        let allow = |path: &Path, mode| {
            fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
        };
        let is_root = fs::metadata("/proc/self").is_ok_and(|own| {
            use std::os::unix::fs::MetadataExt;
            own.uid() == 0
        });
        // A directory in which no file can be made.
        allow(directory, 0o555);
        run_child(&format!("denied|{name}|{}", path.display()), is_root);
        assert!(!path.exists());
        // A file that can only be read.
        allow(directory, 0o777);
        filled(open, path);
        allow(path, 0o444);
        let before = fs::read(path).unwrap();
        run_child(&format!("denied|{name}|{}", path.display()), is_root);
        assert_untouched(name, path, &before);
        allow(directory, 0o755);
    });
}
