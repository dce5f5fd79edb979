//! A process that schedules and cancels timers until it ends, or handles what is left.
//!
//! The process is this program again, with the test `child`. What it does it writes into the
//! ledger. It tells its parent by a line that it works, and that nothing is left.

use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, SystemTime};

use tickless_durable::{Backoff, Builder, Cancelled, Durable, Firing, Misfire, StoreError};

use super::ledger::{Pen, fails, micros, since_start_us};
use super::setting;
use crate::common;
use crate::common::limit::LIMIT;
use crate::common::random::Random;

/// Numbers of a process's timers begin at its own number times this.
pub(crate) const RANGE: u64 = 1_000_000;

/// Of instances on PostgreSQL.
#[cfg(feature = "postgres")]
pub(crate) const LEASE: Duration = Duration::from_secs(2);

/// What a process does.
#[derive(Clone, Debug)]
pub(crate) struct Job {
    /// Which store, by its name.
    pub(crate) store: String,
    /// The path of its file, or how to reach its servers.
    pub(crate) place: String,
    /// The number of the process, from 1 on.
    pub(crate) number: u64,
    /// Schedules nothing, and tells when nothing is left.
    pub(crate) drains: bool,
}

/// The variable that says how many timers a process schedules, some of which are poisoned.
pub(crate) const POISONS: &str = "CHAOS_POISONS";

/// The variable that says after how many ends of their process timers are dead letters. Usually a
/// process is killed so soon that a timer can be cut off many times.
pub(crate) const CRASHES: &str = "CHAOS_CRASHES";

/// The variable that says how many bytes more each payload has.
pub(crate) const ROOM: &str = "CHAOS_ROOM";

/// The variable with the program of these tests of another version, with tables of this version, of
/// which every other instance is.
pub(crate) const OTHER: &str = "DURABLE_OTHER";

/// The process, as its parent has it.
pub(crate) struct Worker {
    child: Child,
    told: Receiver<String>,
    // It ends with its parent.
    _input: ChildStdin,
}

// === impl Worker ===

impl Worker {
    pub(crate) fn start(job: &Job, ledger: &Path, set: impl FnOnce(&mut Command)) -> Worker {
        let this = std::env::current_exe().expect("this program has a path");
        Worker::start_as((&this, "chaos::child"), job, ledger, set)
    }

    /// The same as a process of this program, which may be one of another version, by the test that
    /// has the process there.
    pub(crate) fn start_as(
        (program, test): (&Path, &str),
        job: &Job,
        ledger: &Path,
        set: impl FnOnce(&mut Command),
    ) -> Worker {
        let role = format!("{}|{}|{}|{}", job.store, job.place, job.number, job.drains);
        let mut command = common::child_of(program, test, &role);
        command.env("CHAOS_LEDGER", ledger).stdin(Stdio::piped()).stdout(Stdio::piped());
        set(&mut command);
        let mut child = command.spawn().unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        let (tell, told) = channel();
        thread::spawn(move || {
            for line in output.lines().map_while(Result::ok) {
                if let Some(line) = line.strip_prefix('@') {
                    let _ = tell.send(line.to_owned());
                }
            }
        });
        Worker { _input: child.stdin.take().unwrap(), child, told }
    }

    /// Waits until it tells something.
    #[track_caller]
    pub(crate) fn hear(&self) -> String {
        self.told.recv_timeout(LIMIT).expect("the process hangs or has died")
    }

    /// What it tells within that time; `None` at once if it has ended.
    pub(crate) fn hear_within(&self, time: Duration) -> Option<String> {
        self.told.recv_timeout(time).ok()
    }

    /// Waits until it tells something, or has ended.
    pub(crate) fn hear_of_its_end(&self) -> Option<String> {
        match self.told.recv_timeout(LIMIT) {
            Ok(told) => Some(told),
            Err(RecvTimeoutError::Disconnected) => None,
            Err(RecvTimeoutError::Timeout) => panic!("the process hangs"),
        }
    }

    /// Whether it has ended by itself.
    pub(crate) fn has_ended(&mut self) -> bool {
        self.child.try_wait().unwrap().is_some()
    }

    pub(crate) fn kill(&mut self) {
        let _ = self.child.kill();
        self.child.wait().unwrap();
    }

    #[cfg(any(feature = "postgres", feature = "nats"))]
    pub(crate) fn signal(&self, name: &str) {
        let id = self.child.id().to_string();
        assert!(Command::new("kill").args([&format!("-{name}"), &id]).status().unwrap().success());
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.kill();
    }
}

// === the process ===

/// The key of a timer: every third has one.
fn key_of(number: u64) -> Option<String> {
    number.is_multiple_of(3).then(|| format!("key {number}"))
}

/// What a timer brings to its handler: its number, with words or room in front; `huge` bytes of
/// room if it is huge.
fn payload_of(number: u64, huge: usize) -> String {
    match poison_of(number) {
        Some(Poison::Aborts) => format!("aborts {number}"),
        Some(Poison::IsHuge) => format!("{}{number}", " ".repeat(huge)),
        None => format!("{}{number}", " ".repeat(setting(ROOM, 0) as usize)),
    }
}

/// The number of a timer whose payload may be no text.
fn number_of(payload: &[u8]) -> u64 {
    String::from_utf8_lossy(payload).split_whitespace().next_back().unwrap().parse().unwrap()
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Poison {
    /// Its handler ends the process.
    Aborts,
    /// It is larger than the usual limits of messages. Its handler succeeds.
    IsHuge,
}

#[cfg(any(feature = "postgres", feature = "nats"))]
const HUGE: usize = 2 << 20;

/// The same for a file, in which it takes many pages.
const HUGE_IN_FILE: usize = 100_000;

/// Numbers from here on are those of a process that schedules poisoned timers.
const POISONED: u64 = 1_000_000 * RANGE;

fn poison_of(number: u64) -> Option<Poison> {
    match number % POISONED {
        _ if number < POISONED => None,
        // It is one, since others could become dead letters because of several.
        67 => Some(Poison::Aborts),
        tens if tens % 20 == 13 => Some(Poison::IsHuge),
        _ => None,
    }
}

/// What is written of a moment, for those who compare moments of several processes.
fn at() -> String {
    match std::env::var_os(OTHER) {
        Some(_) => String::new(),
        None => format!(" {}", since_start_us()),
    }
}

/// A service or a cluster, as far as a process works with it.
pub(crate) trait Timers {
    type Ticket;
    type Id: ToString + Copy;
    fn now(&self) -> SystemTime;
    /// `None`: it is refused.
    fn schedule(&self, due: SystemTime, number: u64) -> Option<Self::Ticket>;
    /// `None`: nobody knows whether it is durable.
    fn wait(&self, ticket: Self::Ticket) -> Option<Self::Id>;
    /// Whether it certainly never fires again.
    fn cancel(&self, id: Self::Id) -> bool;
    /// How many timers are left, and how many dead letters, if it can be told.
    fn left(&self) -> Option<(u64, u64)>;
    /// What is wrong at the moment, if it is told.
    fn failure(&self) -> Option<StoreError>;
    /// The numbers of the dead letters.
    fn dead(&self) -> Vec<u64>;
}

impl Timers for Durable<String> {
    type Ticket = tickless_durable::Ticket;
    type Id = tickless_durable::TimerId;

    fn now(&self) -> SystemTime {
        SystemTime::now()
    }

    fn schedule(&self, due: SystemTime, number: u64) -> Option<Self::Ticket> {
        match key_of(number) {
            Some(key) => self.schedule_keyed(key, due, payload_of(number, HUGE_IN_FILE)).ok(),
            None => self.schedule(due, payload_of(number, HUGE_IN_FILE)).ok(),
        }
    }

    fn wait(&self, ticket: Self::Ticket) -> Option<Self::Id> {
        ticket.wait().ok()
    }

    fn cancel(&self, id: Self::Id) -> bool {
        self.cancel(id).wait().is_ok_and(|found| found == Cancelled::Cancelled)
    }

    fn left(&self) -> Option<(u64, u64)> {
        self.contents().wait().ok().map(|contents| (contents.timers, contents.dead_letters))
    }

    fn failure(&self) -> Option<StoreError> {
        self.failure()
    }

    fn dead(&self) -> Vec<u64> {
        let letters = self.dead_letters(None, usize::MAX).wait().unwrap();
        letters.iter().map(|letter| number_of(&letter.record.payload)).collect()
    }
}

#[cfg(any(feature = "postgres", feature = "nats"))]
impl Timers for tickless_durable::Cluster<String> {
    type Ticket = tickless_durable::cluster::Ticket;
    type Id = tickless_durable::cluster::TimerId;

    fn now(&self) -> SystemTime {
        self.now()
    }

    fn schedule(&self, due: SystemTime, number: u64) -> Option<Self::Ticket> {
        match key_of(number) {
            Some(key) => self.schedule_keyed(key, due, payload_of(number, HUGE)).ok(),
            None => self.schedule(due, payload_of(number, HUGE)).ok(),
        }
    }

    fn wait(&self, ticket: Self::Ticket) -> Option<Self::Id> {
        ticket.wait().ok()
    }

    fn cancel(&self, id: Self::Id) -> bool {
        // The holder of another's shard may hear of it later.
        let held = || self.shards().into_iter().find(|(shard, _)| *shard == id.shard());
        let before = held();
        let found = self.cancel(id).wait();
        found.is_ok_and(|found| found == Cancelled::Cancelled)
            && before.is_some()
            && before == held()
    }

    fn left(&self) -> Option<(u64, u64)> {
        let shards = self.contents().wait().ok()?;
        let timers = shards.iter().map(|shard| shard.contents.timers).sum();
        Some((timers, shards.iter().map(|shard| shard.contents.dead_letters).sum()))
    }

    fn failure(&self) -> Option<StoreError> {
        self.failure().map(|failure| failure.error)
    }

    fn dead(&self) -> Vec<u64> {
        let letters = self.dead_letters(None, usize::MAX).wait().unwrap();
        letters.iter().map(|letter| number_of(&letter.letter().record.payload)).collect()
    }
}

/// The process that is told so. It has the settings that bring most to pass.
pub(crate) fn child(role: &str) {
    let [store, place, number, drains] = role.split('|').collect::<Vec<_>>()[..] else {
        panic!("not a role: {role}");
    };
    let drains = drains == "true";
    let job =
        Job { store: store.into(), place: place.into(), number: number.parse().unwrap(), drains };
    let ledger = PathBuf::from(std::env::var_os("CHAOS_LEDGER").unwrap());
    thread::spawn(|| {
        // Whoever has started it is gone.
        let _ = std::io::stdin().read(&mut [0]);
        std::process::exit(0);
    });
    let service = Builder::new()
        // So small that it is refilled all the time.
        .window(64)
        .workers(2)
        .backoff(Backoff::new(Duration::from_millis(5)).max(Duration::from_millis(5)))
        .crashes(setting(CRASHES, 1_000_000) as u32)
        .misfire(Misfire::FireAll);
    match &*job.store {
        #[cfg(feature = "postgres")]
        "postgres" => cluster(&job, service, &ledger, || {
            // The server has so long for a batch, which can be large then.
            let lease = if setting(CRASHES, 0) > 0 { 4 * LEASE } else { LEASE };
            tickless_durable::Cluster::builder(&job.place).schema("chaos").shards(4).lease(lease)
        }),
        #[cfg(feature = "nats")]
        "nats" => cluster(&job, service, &ledger, || {
            let lease = Duration::from_secs(6);
            tickless_durable::Cluster::nats(&job.place).schema("chaos").shards(4).lease(lease)
        }),
        _ => file(&job, service.linger(Duration::from_millis(2)), &ledger),
    }
}

fn file(job: &Job, service: Builder, ledger: &Path) {
    let pen = Pen::new(ledger);
    let handler = move |firing: &Firing<String>| {
        begin(&pen, firing.payload(), firing.attempt(), firing.may_be_repeat(), (0, 0))
    };
    let opened = common::store(&job.store)(Path::new(&job.place)).and_then(|store| {
        service.open(store, handler).map_err(|error| match error {
            tickless_durable::OpenError::Store(error) => error,
            other => panic!("{other}"),
        })
    });
    // A disk that fails. What is there, the next process finds.
    let timers = opened.unwrap_or_else(|error| {
        Pen::new(ledger).add(&failed(&error));
        println!("\n@failed {error}");
        std::process::exit(0);
    });
    // Twice what it takes until they are cancelled: so it is not too late for all of them.
    run(&timers, job, ledger, Duration::from_millis(80), Duration::ZERO);
    let _ = timers.stop();
}

#[cfg(any(feature = "postgres", feature = "nats"))]
fn cluster(
    job: &Job,
    service: Builder,
    ledger: &Path,
    builder: impl Fn() -> tickless_durable::cluster::Builder,
) {
    let start = || {
        let pen = Pen::new(ledger);
        let handler = move |firing: &tickless_durable::cluster::Firing<'_, String>| {
            let under = (firing.shard(), firing.fence());
            begin(&pen, firing.payload(), firing.attempt(), firing.may_be_repeat(), under)
        };
        builder().service(service.clone()).start(handler)
    };
    let begun = std::time::Instant::now();
    let timers = loop {
        match start() {
            Ok(timers) => break timers,
            // Servers that die, or whose network fails.
            Err(error) if begun.elapsed() > LIMIT => panic!("{error}"),
            Err(_) => thread::sleep(Duration::from_millis(50)),
        }
    };
    run(&timers, job, ledger, Duration::from_secs(2), Duration::from_millis(100));
}

fn begin(
    pen: &Pen,
    payload: &str,
    attempt: u32,
    may_be_repeat: bool,
    (shard, fence): (u32, u64),
) -> Result<(), &'static str> {
    let (number, now, at) = (number_of(payload.as_bytes()), micros(SystemTime::now()), at());
    pen.add(&format!("began {number} {attempt} {may_be_repeat} {now} {shard} {fence}{at}\n"));
    if number >= POISONED {
        // So that others run when one of them ends the process.
        thread::sleep(Duration::from_millis(number % 50));
    }
    if poison_of(number) == Some(Poison::Aborts) {
        std::process::abort();
    }
    if fails(number, attempt) { Err("again") } else { Ok(()) }
}

/// What is written of a failure, with one line for all that it says.
fn failed(error: &StoreError) -> String {
    format!("failed {:?} {}\n", error.kind(), error.to_string().replace('\n', " "))
}

/// Writes down each failure that is told, until this is over.
fn watch<T: Timers>(timers: &T, ledger: &Path, is_over: &AtomicBool) {
    let (pen, mut before) = (Pen::new(ledger), String::new());
    while !is_over.load(Ordering::Relaxed) {
        let failure = timers.failure().map_or_else(String::new, |error| failed(&error));
        if failure != before {
            pen.add(&failure);
        }
        before = failure;
        thread::sleep(Duration::from_millis(20));
    }
}

/// Schedules and cancels until its store fails or it is killed, or waits until nothing is left.
fn run<T: Timers + Sync>(timers: &T, job: &Job, ledger: &Path, span: Duration, pause: Duration) {
    println!("\n@works");
    let (pen, is_over) = (Pen::new(ledger), AtomicBool::new(false));
    thread::scope(|scope| {
        if !pause.is_zero() {
            scope.spawn(|| watch(timers, ledger, &is_over));
        }
        let poisons = setting(POISONS, 0);
        if job.drains {
            drain(timers, &pen);
        } else if poisons > 0 {
            poison(timers, &pen, job.number * POISONED, poisons);
        } else {
            work(timers, &pen, job, span, pause);
        }
        is_over.store(true, Ordering::Relaxed);
    });
}

/// Schedules and cancels. It ends if there is no pause and its store fails, which then is for good.
fn work<T: Timers>(timers: &T, pen: &Pen, job: &Job, span: Duration, pause: Duration) {
    let mut random = Random(job.number);
    let mut span_us = span.as_micros() as u64;
    for round in 0.. {
        let begun = std::time::Instant::now();
        let mut tickets = Vec::new();
        for index in 0..20 {
            let number = job.number * RANGE + round * 20 + index;
            let due = timers.now() + Duration::from_micros(random.below(span_us));
            pen.add(&format!("asked {number} {}\n", micros(due)));
            match timers.schedule(due, number) {
                Some(ticket) => tickets.push((number, ticket)),
                None if pause.is_zero() => break,
                // An instance without shards.
                None => thread::sleep(pause),
            }
        }
        let mut durable = Vec::new();
        for (number, ticket) in tickets {
            if let Some(id) = timers.wait(ticket) {
                pen.add(&format!("acked {number} {}\n", id.to_string()));
                durable.push((number, id));
            }
        }
        for (number, id) in durable.into_iter().filter(|(number, _)| number.is_multiple_of(5)) {
            pen.add(&format!("cancelling {number}\n"));
            if timers.cancel(id) {
                pen.add(&format!("cancelled {number} {}{}\n", micros(SystemTime::now()), at()));
            }
        }
        if let Some(error) = timers.failure().filter(|_| pause.is_zero()) {
            pen.add(&failed(&error));
            return println!("\n@failed {error}");
        }
        span_us = span_us.max(2 * begun.elapsed().as_micros() as u64).min(10_000_000);
        thread::sleep(pause);
    }
}

fn drain<T: Timers>(timers: &T, pen: &Pen) {
    loop {
        if let Some((0, dead)) = timers.left() {
            timers.dead().iter().for_each(|number| pen.add(&format!("dead {number}\n")));
            return println!("\n@drained {dead}");
        }
        thread::sleep(Duration::from_millis(20));
    }
}

/// Schedules so many timers, says so, and has them fire.
fn poison<T: Timers>(timers: &T, pen: &Pen, first: u64, count: u64) {
    let mut random = Random(first);
    let mut tickets = Vec::new();
    for number in first..first + count {
        let due = timers.now() + Duration::from_micros(3_000_000 + random.below(1_000_000));
        pen.add(&format!("asked {number} {}\n", micros(due)));
        if poison_of(number) == Some(Poison::Aborts) {
            pen.add(&format!("poisoned {number}\n"));
        }
        tickets.extend(timers.schedule(due, number).map(|ticket| (number, ticket)));
    }
    for (number, ticket) in tickets {
        if let Some(id) = timers.wait(ticket) {
            pen.add(&format!("acked {number} {}\n", id.to_string()));
        }
    }
    println!("\n@scheduled");
    loop {
        thread::park();
    }
}
