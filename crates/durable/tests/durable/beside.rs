//! What is beside a store that has a file of SQLite's open: other programs that read or write it,
//! and stores that only read. Each is a process of its own, as `sqlite3` is.

#![cfg(all(feature = "sqlite", target_os = "linux"))]

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use rusqlite::Connection;
use tickless_durable::{
    Op, Position, Record, SqliteOptions, SqliteStore, Store, StoreError, StoreErrorKind,
};

use crate::common;

/// How many timers a batch has.
const EACH: u64 = 100;

fn put(number: u64, payload: &[u8]) -> Op {
    let position = Position { due_ms: number * 7919 % 100_003, number };
    Op::Put(Arc::new(Record::new(position, None, payload.into())))
}

fn batch(number: u64) -> Vec<Op> {
    (number * EACH..number * EACH + EACH).map(|number| put(number, &[7; 100])).collect()
}

fn look(path: &Path) -> Result<SqliteStore, StoreError> {
    SqliteOptions::new().read_only(true).open(path)
}

fn with(path: &Path, end: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(end);
    PathBuf::from(name)
}

// === another process ===

#[test]
fn child() {
    let Some(role) = common::role() else { return };
    let (what, path) = role.split_once('|').unwrap();
    let path = Path::new(path);
    match what {
        "program" => obey(path),
        "service" => write(path),
        "second" => ask_again_and_again(path),
        _ => println!("\n@{}", count(path)),
    }
}

/// How many timers are shown, or why none are.
fn count(path: &Path) -> String {
    match look(path).and_then(|mut store| store.scan(None, usize::MAX)) {
        Ok(timers) => timers.len().to_string(),
        Err(error) => format!("{:?}", error.kind()),
    }
}

/// Runs the statements that it is told, as `sqlite3` does.
fn obey(path: &Path) {
    let connection = Connection::open(path).unwrap();
    connection.busy_timeout(Duration::ZERO).unwrap();
    for statement in std::io::stdin().lines().map_while(Result::ok) {
        let mut statement = connection.prepare(&statement).unwrap();
        let found = statement.query([]).and_then(|mut rows| {
            let first = rows.next()?.map(|row| row.get::<_, rusqlite::types::Value>(0));
            first.transpose()
        });
        // To the end, so that it is committed.
        let ended = found.map_err(|error| error.to_string());
        println!("\n@{ended:?}");
    }
}

/// Writes one batch after another, until it is killed.
fn write(path: &Path) {
    let mut store = SqliteStore::open(path).unwrap();
    println!("\n@{}", store.begin().unwrap());
    let there = store.contents().unwrap().timers / EACH;
    for number in there.. {
        store.commit(&batch(number)).unwrap();
        println!("\n@{}", number + 1);
    }
}

/// Opens the file to write, and is refused each time.
fn ask_again_and_again(path: &Path) {
    for _ in 0..200 {
        let error = SqliteStore::open(path).expect_err("another process writes");
        let message = error.to_string();
        assert!(error.kind() == StoreErrorKind::InUse && message.contains("another process"));
    }
    println!("\n@done");
}

/// A child, and what it tells.
struct Other {
    child: Child,
    asks: ChildStdin,
    told: BufReader<ChildStdout>,
}

impl Other {
    fn start(what: &str, path: &Path) -> Other {
        let mut command = common::child("beside::child", &format!("{what}|{}", path.display()));
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (asks, told) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        Other { child, asks, told: BufReader::new(told) }
    }

    fn program(path: &Path) -> Other {
        Other::start("program", path)
    }

    /// The next thing that it tells.
    #[track_caller]
    fn hear(&mut self) -> String {
        let mut line = String::new();
        while self.told.read_line(&mut line).unwrap() > 0 {
            if let Some(told) = line.strip_prefix('@') {
                return told.trim_end().to_owned();
            }
            line.clear();
        }
        panic!("it has ended");
    }

    #[track_caller]
    fn run(&mut self, statement: &str) -> String {
        writeln!(self.asks, "{statement}").unwrap();
        self.hear()
    }

    /// Begins to read, which goes on until the end.
    #[track_caller]
    fn read_on(&mut self) -> String {
        self.run("BEGIN");
        self.run("SELECT count(*) FROM timers")
    }

    fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// The last thing that it has told, after it was killed.
    fn last_words(&mut self) -> Option<String> {
        let mut rest = String::new();
        self.told.read_to_string(&mut rest).unwrap();
        // The last line may be cut.
        let lines = rest.split_inclusive('\n').filter_map(|line| line.strip_suffix('\n'));
        lines.filter_map(|line| line.strip_prefix('@')).next_back().map(str::to_owned)
    }
}

impl Drop for Other {
    fn drop(&mut self) {
        // It may have ended by itself. A service would go on for ever.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn counted(timers: u64) -> String {
    format!("Ok(Some(Integer({timers})))")
}

// === readers ===

#[test]
fn a_program_that_goes_on_reading_holds_nothing_up_and_the_log_is_short_again_after_it() {
    let directory = tempfile::tempdir().unwrap();
    let path = &directory.path().join("timers");
    let mut store = SqliteStore::open(path).unwrap();
    store.commit(&batch(0)).unwrap();
    let mut program = Other::program(path);
    assert_eq!(program.read_on(), counted(EACH));
    // A little more than the log may keep.
    let (megabyte, many) = (vec![7; 1 << 20], 66);
    for number in 1000..1000 + many {
        store.commit(&[put(number, &megabyte)]).unwrap();
    }
    let log = || fs::metadata(with(path, "-wal")).unwrap().len();
    assert!(log() > many << 20, "{}", log());
    assert_eq!(program.run("SELECT count(*) FROM timers"), counted(EACH), "it reads what it read");
    // Nor does it hold up an end or a beginning.
    drop(store);
    let mut store = SqliteStore::open(path).unwrap();
    assert_eq!(store.begin().unwrap(), 1);
    assert_eq!(program.run("COMMIT"), "Ok(None)");
    assert_eq!(program.run("SELECT count(*) FROM timers"), counted(EACH + many));
    for number in 1..4 {
        store.commit(&batch(number)).unwrap();
    }
    assert!(log() <= 64 << 20, "{}", log());
    drop(program);
    drop(store);
    assert!(!with(path, "-wal").exists(), "who closes the file last takes the log away");
    assert_eq!(SqliteStore::open(path).unwrap().contents().unwrap().timers, 4 * EACH + many);
}

#[test]
fn a_store_that_only_reads_shows_one_moment_and_changes_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let path = &directory.path().join("timers");
    assert_eq!(look(path).unwrap_err().kind(), StoreErrorKind::Io);
    assert!(!path.exists(), "it makes no file");
    SqliteStore::open(path).unwrap().commit(&batch(0)).unwrap();
    let before = fs::read(path).unwrap();
    let mut reader = look(path).unwrap();
    for refused in [reader.begin().err(), reader.commit(&batch(1)).err()] {
        assert_eq!(refused.map(|error| error.kind()), Some(StoreErrorKind::Denied));
    }
    let mut service = Other::start("service", path);
    while service.hear() != "4" {}
    assert_eq!(reader.contents().unwrap().timers, EACH);
    // The file cannot be closed twice in one process.
    let second = look(path).map(drop).or(SqliteStore::open(path).map(drop));
    assert_eq!(second.unwrap_err().kind(), StoreErrorKind::InUse);
    drop(reader);
    assert!(look(path).unwrap().contents().unwrap().timers >= 4 * EACH);
    service.kill();
    // Nobody has shortened the log, so the file is as it was.
    assert_eq!(fs::read(path).unwrap(), before);
}

/// A copy that is made while a service runs has what was in the file at one moment.
#[test]
fn a_copy_that_sqlite_makes_beside_a_service_is_whole() {
    let directory = tempfile::tempdir().unwrap();
    let path = &directory.path().join("timers");
    let mut service = Other::start("service", path);
    while service.hear() != "3" {}
    let copy = directory.path().join("copy");
    assert_eq!(Other::program(path).run(&format!("VACUUM INTO '{}'", copy.display())), "Ok(None)");
    let mut store = SqliteStore::open(&copy).unwrap();
    let timers = store.contents().unwrap().timers;
    assert!(timers >= 3 * EACH && timers.is_multiple_of(EACH), "{timers}");
    // SQLite has made it without a log, and readers would hold commits up.
    let mut program = Other::program(&copy);
    assert_eq!(program.read_on(), counted(timers));
    store.commit(&[put(1 << 30, &[])]).unwrap();
    service.kill();
}

// === writers ===

#[test]
fn what_else_would_write_is_told_and_changes_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let path = &directory.path().join("timers");
    let mut store = SqliteStore::open(path).unwrap();
    store.begin().unwrap();
    let mut program = Other::program(path);
    let mut written = BTreeMap::new();
    for number in 0..20 {
        store.commit(&batch(number)).unwrap();
        for write in [
            "DELETE FROM timers",
            "UPDATE timers SET due = 0",
            "BEGIN IMMEDIATE",
            "BEGIN EXCLUSIVE",
            "CREATE INDEX i ON timers (attempt)",
            "PRAGMA user_version = 7",
            "PRAGMA journal_mode = DELETE",
            "VACUUM",
        ] {
            *written.entry(program.run(write)).or_insert(0) += 1;
        }
        // Of this one, the first column says that it could not.
        assert_eq!(program.run("PRAGMA wal_checkpoint(TRUNCATE)"), counted(1));
    }
    assert!(written.keys().all(|told| told.contains("locked")), "{written:?}");
    drop(store);
    assert_eq!(SqliteStore::open(path).unwrap().contents().unwrap().timers, 20 * EACH);
}

/// SQLite's own lock is free for a moment at each commit.
#[test]
fn a_second_store_that_writes_is_refused_at_any_moment() {
    let directory = tempfile::tempdir().unwrap();
    let path = &directory.path().join("timers");
    let mut service = Other::start("service", path);
    while service.hear() != "1" {}
    let mut second = Other::start("second", path);
    let mut number = 1;
    let told = std::thread::spawn(move || second.hear());
    while !told.is_finished() {
        number = service.hear().parse().unwrap();
    }
    assert_eq!(told.join().unwrap(), "done");
    assert_eq!(service.hear(), (number + 1).to_string());
    service.kill();
}

// === kills ===

#[test]
fn a_service_that_is_killed_beside_a_reader_goes_on_from_what_was_durable() {
    let directory = tempfile::tempdir().unwrap();
    let path = &directory.path().join("timers");
    drop(SqliteStore::open(path).unwrap());
    let mut program = Other::program(path);
    let mut durable: u64 = 0;
    for round in 1..=6 {
        let mut service = Other::start("service", path);
        assert_eq!(service.hear(), (2 * round - 1).to_string(), "the session's number");
        let read = program.read_on();
        for _ in 0..round * 3 {
            durable = service.hear().parse().unwrap();
        }
        service.kill();
        durable = service.last_words().map_or(durable, |told| told.parse().unwrap());
        assert_eq!(program.run("SELECT count(*) FROM timers"), read);
        // Its last batch may be there as well.
        let there = look(path).unwrap().contents().unwrap().timers;
        assert!([durable, durable + 1].contains(&(there / EACH)), "{there} of {durable}");
        assert_eq!(there % EACH, 0);
        let mut store = SqliteStore::open(path).unwrap();
        assert_eq!(store.contents().unwrap().timers, there);
        assert_eq!(store.begin().unwrap(), 2 * round);
        drop(store);
        assert_eq!(program.run("COMMIT"), "Ok(None)");
        assert_eq!(program.run("SELECT count(*) FROM timers"), counted(there));
    }
}

/// Somebody else, who may read the file and what is beside it, and write nothing.
#[test]
fn who_may_not_write_sees_a_file_that_a_service_has_open_or_had_when_it_was_killed() {
    let directory = tempfile::tempdir().unwrap();
    let path = &directory.path().join("timers");
    fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let ask = || -> String {
        let mut command: Command =
            common::child("beside::child", &format!("look|{}", path.display()));
        command.uid(65_534).gid(65_534);
        let output = match command.output() {
            Ok(output) => output,
            Err(_) => return String::new(),
        };
        let out = String::from_utf8(output.stdout).unwrap();
        out.lines().find_map(|line| line.strip_prefix('@')).unwrap_or_default().to_owned()
    };
    let names = || fs::read_dir(directory.path()).unwrap().count();
    SqliteStore::open(path).unwrap().commit(&batch(0)).unwrap();
    // Whatever the umask is. What SQLite makes beside the file may be read by the same users.
    fs::set_permissions(path, fs::Permissions::from_mode(0o644)).unwrap();
    let told = ask();
    if told.is_empty() {
        println!("SKIPPED: only root can be somebody else");
        return;
    }
    // Nobody has it open: SQLite would have to make files.
    assert_eq!((&*told, names()), ("Denied", 1));
    let mut service = Other::start("service", path);
    while service.hear() != "3" {}
    let shown: u64 = ask().parse().unwrap();
    assert!(shown >= 3 * EACH && shown.is_multiple_of(EACH), "{shown}");
    service.kill();
    let shown: u64 = ask().parse().unwrap();
    fs::remove_file(with(path, "-shm")).unwrap();
    assert_eq!((&*ask(), names()), ("Denied", 2));
    assert_eq!(SqliteStore::open(path).unwrap().contents().unwrap().timers, shown);
}
