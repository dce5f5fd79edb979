//! A store in a file: processes that are killed, a disk that fails or is full, a clock that is set
//! between two processes, copies that are damaged or take the file's place.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::Duration;

use tickless_durable::{Record, StoreError, StoreErrorKind};

use super::Run;
use super::ledger::Pen;
use super::worker::{Job, ROOM, Worker};
use crate::common::disk::Disk;
use crate::common::random::Random;
use crate::common::scale::cases;
use crate::common::{Open, faketime};

/// What is done in a round; at its end, the process is killed.
#[derive(Clone, Copy, Debug)]
enum Fault {
    /// No more than that.
    Kill,
    /// One call of the disk fails, or all from there on: a later call at each time.
    Eio,
    /// The disk has some room, or none.
    Full,
    /// The clock of the process is an hour ahead, or an hour behind.
    Clock,
    /// The file is copied, and the copies are damaged, each in one place.
    Damage,
    /// The file is copied, or a copy takes its place.
    Restore,
}

const FAULTS: [Fault; 8] = [
    Fault::Kill,
    Fault::Eio,
    Fault::Eio,
    Fault::Kill,
    Fault::Full,
    Fault::Clock,
    Fault::Damage,
    Fault::Restore,
];

const HOUR: i64 = 3600;

/// How large payloads are that fill a disk: a few are more than the room that is left, and than
/// what the file has to itself.
const LARGE: usize = 100_000;

/// How often a file is damaged in each way.
fn each() -> u32 {
    cases(30.0).clamp(1, 4)
}

struct Files {
    run: Run,
    open: Open,
    /// How many processes were started.
    started: u64,
    /// How often a call has failed.
    failed: u64,
    /// The file as it was when copies were damaged last.
    earlier: Vec<u8>,
    is_behind: bool,
    /// Where the file is, if that can be a disk of its own.
    disk: Option<Disk>,
    faketime: Option<PathBuf>,
}

pub(crate) fn run(run: Run, open: Open) -> String {
    let place = run.directory.join("disk");
    let disk = Disk::mount(&place);
    if disk.is_none() {
        println!("left out: a full disk under {}, since nothing can be mounted here", run.name);
    }
    fs::create_dir_all(place).unwrap();
    let faketime = faketime::library();
    if faketime.is_none() {
        println!("left out: a clock that is set, since there is no library for it (libfaketime)");
    }
    let mut files = Files {
        run,
        open,
        started: 0,
        failed: 0,
        earlier: Vec::new(),
        is_behind: false,
        disk,
        faketime,
    };
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    crate::common::eio::library(&files.run.directory);
    let mut faults = Vec::new();
    for _ in 0..files.run.kills {
        if faults.is_empty() {
            faults = files.run.shuffled(&FAULTS);
        }
        match faults.pop().expect("there are some") {
            Fault::Kill => files.kill(),
            Fault::Eio => files.fail(),
            Fault::Full => files.fill(),
            Fault::Clock => files.set_clock(),
            Fault::Damage => {
                files.kill();
                files.damage();
            }
            Fault::Restore => {
                files.kill();
                files.copy();
            }
        }
    }
    files.drain();
    let Files { run, disk, .. } = files;
    drop(disk);
    run.check()
}

// === impl Files ===

impl Files {
    /// What the disk that fails goes by.
    fn path(&self) -> PathBuf {
        self.place().join("eio.store")
    }

    fn place(&self) -> PathBuf {
        self.run.directory.join("disk")
    }

    fn job(&mut self, drains: bool) -> Job {
        self.started += 1;
        let (store, place) = (self.run.name.to_owned(), self.path().display().to_string());
        Job { store, place, number: self.started, drains }
    }

    fn some_time(&mut self) -> Duration {
        Duration::from_millis(15 + self.run.random.below(150))
    }

    fn kill(&mut self) {
        self.kill_as(|_| ());
    }

    fn kill_as(&mut self, set: impl FnOnce(&mut Command)) {
        let job = self.job(false);
        let mut worker = Worker::start(&job, &self.run.ledger(), set);
        assert_eq!(worker.hear(), "works");
        thread::sleep(self.some_time());
        assert!(!worker.has_ended(), "{}: a process has ended by itself", self.run.name);
        worker.kill();
        self.run.count("kills");
    }

    #[cfg(not(all(target_os = "linux", target_env = "gnu")))]
    fn fail(&mut self) {
        self.kill();
    }

    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    fn fail(&mut self) {
        let (job, log) = (self.job(false), self.run.directory.join("log"));
        let (library, at) = (self.run.directory.join("eio.so"), self.failed / 2);
        let stays = self.failed % 2 == 1;
        self.failed += 1;
        let mut worker = Worker::start(&job, &self.run.ledger(), |command| {
            command.env("LD_PRELOAD", library).env("EIO_AT", at.to_string()).env("EIO_LOG", &log);
            if stays {
                command.env("EIO_STAYS", "1");
            }
        });
        // It may fail to open its file.
        worker.hear();
        thread::sleep(self.some_time());
        worker.kill();
        self.run.count("kills");
        if fs::remove_file(log).is_ok() {
            self.run.count(if stays { "disks that failed" } else { "calls that failed" });
        }
    }

    /// A process works until its disk is full. It may not even open its file.
    fn fill(&mut self) {
        let Some(disk) = &self.disk else { return self.kill() };
        disk.fill_but(self.run.random.below(17) * 4096);
        let job = self.job(false);
        let mut worker = Worker::start(&job, &self.run.ledger(), |command| {
            command.env(ROOM, LARGE.to_string());
        });
        let mut told = worker.hear();
        if told == "works" {
            told = worker.hear();
        }
        assert!(told.starts_with("failed "), "{}: {told}", self.run.name);
        worker.kill();
        self.disk.iter().for_each(Disk::empty);
        self.run.count("kills");
        self.run.count("full disks");
    }

    fn set_clock(&mut self) {
        let Some(library) = self.faketime.clone() else { return self.kill() };
        let seconds = if self.run.random.below(2) == 0 { HOUR } else { -HOUR };
        self.kill_as(|command| faketime::set(command, &library, seconds));
        self.run.count("clocks set away and back");
    }

    /// The file, and what a store has beside it.
    fn parts(&self) -> Vec<PathBuf> {
        let all = fs::read_dir(self.place()).unwrap().map(|entry| entry.unwrap().path());
        let is_part =
            |path: &PathBuf| path.file_name().unwrap().to_str().unwrap().starts_with("eio.store");
        all.filter(is_part).collect()
    }

    /// Copies the file, or puts the copy in its place.
    fn copy(&mut self) {
        let (pen, copies) = (Pen::new(&self.run.ledger()), self.run.directory.join("copies"));
        let _ = fs::create_dir(&copies);
        if !self.is_behind {
            pen.add("behind\n");
            for part in self.parts() {
                fs::copy(&part, copies.join(part.file_name().unwrap())).unwrap();
            }
        } else {
            self.parts().iter().for_each(|part| fs::remove_file(part).unwrap());
            for copy in fs::read_dir(&copies).unwrap().map(|entry| entry.unwrap().path()) {
                fs::copy(&copy, self.place().join(copy.file_name().unwrap())).unwrap();
                fs::remove_file(copy).unwrap();
            }
            pen.add("replaced\n");
            self.run.count("restores");
        }
        self.is_behind = !self.is_behind;
    }

    /// Damages copies of the file in each way. Each has all timers, or is refused.
    fn damage(&mut self) {
        let directory = tempfile::tempdir().unwrap();
        for part in self.parts() {
            fs::copy(&part, directory.path().join(part.file_name().unwrap())).unwrap();
        }
        // After a kill, it has to be opened once.
        let path = directory.path().join("eio.store");
        let all = read(self.open, &path).unwrap_or_else(|error| panic!("{error:?}"));
        let whole = fs::read(&path).unwrap();
        for way in 0..WAYS {
            for _ in 0..each() {
                let bytes = damaged(way, &whole, &self.earlier, &mut self.run.random);
                if bytes == whole {
                    continue;
                }
                let directory = tempfile::tempdir().unwrap();
                let path = directory.path().join("eio.store");
                fs::write(&path, &bytes).unwrap();
                self.run.count("damaged copies in all");
                match read(self.open, &path) {
                    Ok(found) if found == all => self.run.count("damaged copies that were whole"),
                    Ok(found) => {
                        let kept = self.run.directory.join("silent");
                        fs::write(&kept, &bytes).unwrap();
                        let (found, all, name) = (found.len(), all.len(), self.run.name);
                        panic!("{name}: damage in way {way} is silent: {found} of {all}, {kept:?}");
                    }
                    Err(error) if error.kind() == StoreErrorKind::Corrupt => {
                        self.run.count("damaged copies that were refused");
                    }
                    // No timer is left out, but a person is not told that it is the file.
                    Err(error) => {
                        let kept = self.run.directory.with_extension("refused");
                        fs::write(&kept, &bytes).unwrap();
                        println!("{}: way {way}, {kept:?}: {error:?}", self.run.name);
                        self.run.count("damaged copies that were refused as something else");
                    }
                }
            }
        }
        self.earlier = whole;
    }

    /// Lets a process finish what is left.
    fn drain(&mut self) {
        if self.is_behind {
            self.copy();
        }
        let job = self.job(true);
        let library = self.faketime.clone();
        // What was scheduled by a clock that was ahead is due in an hour.
        let worker = Worker::start(&job, &self.run.ledger(), |command| {
            library.iter().for_each(|library| faketime::set(command, library, HOUR + 60));
        });
        assert_eq!(worker.hear(), "works");
        assert_eq!(worker.hear(), "drained 0", "{} has dead letters", self.run.name);
    }
}

fn read(open: Open, path: &Path) -> Result<Vec<Record>, StoreError> {
    open(path)?.scan(None, usize::MAX)
}

const PAGE: usize = 4096;

const WAYS: u64 = 5;

/// The file with one damage: a bit, a sector that was never written, a page of another place, a
/// page of an earlier time, or a part alone.
fn damaged(way: u64, whole: &[u8], earlier: &[u8], random: &mut Random) -> Vec<u8> {
    let mut bytes = whole.to_vec();
    let at = random.below(whole.len() as u64) as usize;
    let (page, other) = (at / PAGE * PAGE, random.below(whole.len() as u64) as usize / PAGE * PAGE);
    let from = if way == 2 { other } else { page };
    let source = if way == 2 { whole } else { earlier };
    match way {
        0 => bytes[at] ^= 1 << random.below(8),
        1 => bytes[at / 512 * 512..][..512].fill(0),
        2 | 3 => {
            if let (Some(found), Some(place)) =
                (source.get(from..from + PAGE), bytes.get_mut(page..page + PAGE))
            {
                place.copy_from_slice(found);
            }
        }
        _ => bytes.truncate(at),
    }
    bytes
}
