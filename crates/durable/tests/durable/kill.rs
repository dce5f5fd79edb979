//! A process is killed in the middle of its work, time after time, and started again on the same
//! store: nothing that was durable is lost, nothing fires before its time, and nothing comes again
//! after its end was durable.
//!
//! `DURABLE_KILLS` is the number of kills (12). The child tells what is durable by a pipe, and what
//! its handler runs by a file, which both outlive it. Between two children, this process looks into
//! the store.

#![cfg(unix)]

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, OpenOptions};
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Stdio};
use std::sync::mpsc::channel;
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use tickless_durable::{Backoff, Cancelled, Durable, Firing, Misfire};

use crate::common::limit::LIMIT;
use crate::common::{self, Open};

/// Numbers of a child's timers begin at its own number times this.
const RANGE: u64 = 1_000_000;

// === the child ===

#[test]
fn child() {
    let Some(role) = common::role() else { return };
    let [store, place, first, drains] = role.split('|').collect::<Vec<_>>()[..] else {
        panic!("not a role: {role}");
    };
    work(common::store(store), Path::new(place), first.parse().unwrap(), drains == "drain");
}

fn now_ms() -> u128 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis()
}

/// Schedules and cancels until it is killed, or else waits until nothing is left.
fn work(open: Open, place: &Path, first: u64, drains: bool) {
    let fired = OpenOptions::new().create(true).append(true).open(place.join("fired")).unwrap();
    let timers = Durable::builder()
        // So small that it is refilled all the time.
        .window(64)
        .linger(Duration::from_millis(2))
        .backoff(Backoff::new(Duration::from_millis(5)).max(Duration::from_millis(5)))
        // A process is killed so soon that a timer can be cut off many times.
        .crashes(1_000_000)
        .misfire(Misfire::FireAll)
        .open(open(&place.join("store")).unwrap(), move |firing: &Firing<String>| {
            let line = format!("{} {} {}\n", firing.payload(), firing.attempt(), now_ms());
            // One write, so that a kill does not cut it.
            (&fired).write_all(line.as_bytes()).unwrap();
            // Every seventh fails at first.
            let number: u64 = firing.payload().parse().unwrap();
            if number.is_multiple_of(7) && firing.attempt() == 1 { Err("again") } else { Ok(()) }
        })
        .unwrap();
    if drains {
        // Told once, so that the parent sees that the store has opened.
        tell(&["drains".to_owned()]);
        return drain(&timers);
    }
    let mut random = first.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    // Twice what it takes until they are cancelled: so it is not too late for all of them.
    let mut span = Duration::from_millis(80);
    for round in 0.. {
        let begun = Instant::now();
        let mut tickets = Vec::new();
        for index in 0..20 {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            let number = first + round * 20 + index;
            let due = SystemTime::now() + Duration::from_millis(random % span.as_millis() as u64);
            tell(&[format!("asked {number} {}", millis_up(due))]);
            tickets.push((number, timers.schedule(due, number.to_string()).unwrap()));
        }
        let mut lines = Vec::new();
        for (number, ticket) in &tickets {
            ticket.wait().unwrap();
            lines.push(format!("durable {number}"));
        }
        tell(&lines);
        // Every fifth is cancelled, if it is not too late.
        for (number, ticket) in tickets.iter().filter(|(number, _)| number.is_multiple_of(5)) {
            tell(&[format!("cancelling {number}")]);
            if timers.cancel(ticket.id()).wait().unwrap() == Cancelled::Cancelled {
                tell(&[format!("cancelled {number}")]);
            }
        }
        span = span.max(2 * begun.elapsed());
    }
}

fn millis_up(time: SystemTime) -> u128 {
    time.duration_since(UNIX_EPOCH).unwrap().as_nanos().div_ceil(1_000_000)
}

fn tell(lines: &[String]) {
    let text: String = lines.iter().flat_map(|line| ["\n@", line]).chain(["\n"]).collect();
    let mut out = std::io::stdout().lock();
    out.write_all(text.as_bytes()).unwrap();
    out.flush().unwrap();
}

/// Waits for the parent, which looks into the log of what has fired.
fn drain(timers: &Durable<String>) {
    let _ = std::io::stdin().read(&mut [0]);
    timers.stop().unwrap();
}

// === the parent ===

/// What is known about a timer.
#[derive(Debug, Default)]
struct Known {
    due_ms: u128,
    is_durable: bool,
    /// A cancel was asked for, and may or may not be durable.
    may_be_cancelled: bool,
    is_cancelled: bool,
    is_over: bool,
    fired: u32,
    /// How often an attempt was made again, because a kill came before its end was durable.
    repeated: u32,
    attempts: BTreeSet<u32>,
}

struct Parent {
    name: &'static str,
    open: Open,
    place: PathBuf,
    known: BTreeMap<u64, Known>,
    /// Bytes of the log that were read.
    read: usize,
    started: u64,
}

impl Parent {
    fn start(&mut self, drains: bool) -> (Child, BufReader<ChildStdout>) {
        self.started += 1;
        let first = self.started * RANGE;
        let how = if drains { "drain" } else { "work" };
        let role = format!("{}|{}|{first}|{how}", self.name, self.place.display());
        let mut command = common::child("kill::child", &role);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap());
        (child, lines)
    }

    /// Lets a child work for a while, and kills it. How far it comes meanwhile is left to chance;
    /// without a time, it comes as far as to cancel something.
    fn kill(&mut self, after: Option<Duration>) {
        let (mut child, mut lines) = self.start(false);
        let (enough, is_enough) = channel();
        let killer = thread::spawn(move || {
            let _ = is_enough.recv_timeout(after.unwrap_or(LIMIT));
            child.kill().unwrap();
            child.wait().unwrap();
        });
        let mut line = String::new();
        while lines.read_line(&mut line).unwrap() > 0 {
            // The last line may be cut.
            if line.ends_with('\n') {
                self.hear(line.trim_end());
            }
            if after.is_none() && self.known.values().any(|known| known.is_cancelled) {
                let _ = enough.send(());
            }
            line.clear();
        }
        killer.join().unwrap();
        self.look();
    }

    fn hear(&mut self, line: &str) {
        let Some(line) = line.strip_prefix('@') else { return };
        let words: Vec<&str> = line.split(' ').collect();
        let number = |index: usize| words[index].parse::<u64>().unwrap();
        match words[0] {
            "asked" => {
                let due_ms = words[2].parse().unwrap();
                self.known.insert(number(1), Known { due_ms, ..Known::default() });
            }
            "durable" => self.known.get_mut(&number(1)).unwrap().is_durable = true,
            "cancelling" => self.known.get_mut(&number(1)).unwrap().may_be_cancelled = true,
            "cancelled" => self.known.get_mut(&number(1)).unwrap().is_cancelled = true,
            other => assert_eq!(other, "drains"),
        }
    }

    /// Reads on in the log of what has fired.
    fn read_log(&mut self) {
        let log = fs::read_to_string(self.place.join("fired")).unwrap_or_default();
        for line in log[self.read..].lines() {
            let words: Vec<&str> = line.split(' ').collect();
            let number: u64 = words[0].parse().unwrap();
            let now_ms: u128 = words[2].parse().unwrap();
            let known = self.known.get_mut(&number).expect("it was asked for");
            assert!(now_ms >= known.due_ms, "{number} was early");
            assert!(!known.is_over, "{number} came again, and was over: {known:?}");
            let attempt: u32 = words[1].parse().unwrap();
            // It may have been cancelled between two attempts.
            let is_first_of_two = number.is_multiple_of(7) && attempt == 1;
            assert!(!known.is_cancelled || is_first_of_two, "{number} fired, and was cancelled");
            known.fired += 1;
            known.repeated += u32::from(!known.attempts.insert(attempt));
        }
        self.read = log.len();
    }

    /// Compares what is in the store with what is known.
    fn look(&mut self) {
        self.read_log();
        let records = (self.open)(&self.place.join("store")).unwrap().scan(None, usize::MAX);
        let text = |payload: &[u8]| String::from_utf8(payload.to_vec()).unwrap();
        let records = records.unwrap();
        let stored: BTreeSet<u64> =
            records.iter().map(|record| text(&record.payload).parse().unwrap()).collect();
        assert_eq!(stored.len(), records.len(), "a timer is there twice");
        for (number, known) in &mut self.known {
            if stored.contains(number) {
                assert!(!known.is_over, "{number} is back");
                assert!(!known.is_cancelled, "{number} is there, and was cancelled");
                continue;
            }
            let is_accounted_for = known.fired > 0 || known.may_be_cancelled || !known.is_durable;
            assert!(is_accounted_for, "{number} is lost: {known:?}");
            known.is_over = true;
        }
        assert!(stored.iter().all(|number| self.known.contains_key(number)));
    }

    /// Lets a child finish what is left.
    fn drain(&mut self) {
        let (mut child, lines) = self.start(true);
        let begun = SystemTime::now();
        let log = self.place.join("fired");
        let left = || self.known.iter().filter(|(_, known)| !known.is_over);
        let left: BTreeSet<u64> = left().map(|(number, _)| *number).collect();
        // A timer is over when its handler has succeeded, which it may have before as well, in a
        // child that was killed then; every seventh needs two attempts.
        loop {
            let log = fs::read_to_string(&log).unwrap_or_default();
            let log = log.get(self.read..).unwrap_or_default();
            let done = |number: &u64| {
                let attempt = if number.is_multiple_of(7) { 2 } else { 1 };
                log.contains(&format!("\n{number} {attempt} "))
                    || log.starts_with(&format!("{number} {attempt} "))
            };
            if left.iter().all(done) {
                break;
            }
            assert!(begun.elapsed().unwrap() < LIMIT, "it hangs");
            thread::sleep(Duration::from_millis(5));
        }
        drop(child.stdin.take());
        assert!(child.wait().unwrap().success());
        drop(lines);
        self.look();
        assert!(self.known.values().all(|known| known.is_over), "something is left");
    }
}

fn kills() -> u64 {
    std::env::var("DURABLE_KILLS").ok().and_then(|kills| kills.parse().ok()).unwrap_or(12)
}

#[test]
fn nothing_is_lost_or_early_or_comes_again_when_the_process_is_killed() {
    if common::role().is_some() {
        return;
    }
    for (name, open) in common::stores() {
        let directory = tempfile::tempdir().unwrap();
        let place = directory.path().to_owned();
        let known = BTreeMap::new();
        let mut parent = Parent { name, open, place, known, read: 0, started: 0 };
        let mut totals = (0_u64, 0, 0, 0);
        for round in 0..=kills() {
            // The last one comes to something on any machine.
            let after = Duration::from_millis(15 + round * 37 % 150);
            parent.kill((round < kills()).then_some(after));
            if round % 50 == 49 || round == kills() {
                parent.drain();
                let known = parent.known.values();
                totals.0 += known.len() as u64;
                totals.1 += parent.known.values().filter(|known| known.is_durable).count();
                totals.2 += parent.known.values().filter(|known| known.is_cancelled).count();
                totals.3 += parent.known.values().filter(|known| known.repeated > 0).count();
                // All of them are over.
                parent.known.clear();
                fs::remove_file(parent.place.join("fired")).unwrap();
                parent.read = 0;
            }
        }
        let (asked, durable, cancelled, repeated) = totals;
        assert!(durable > 0 && cancelled > 0, "{name}: none comes to anything");
        println!(
            "{name}: {} kills, {asked} timers asked for, {durable} durable, {cancelled} cancelled",
            kills() + 1
        );
        println!("{name}: {repeated} repeated; 0 lost, 0 early, 0 back after their end");
    }
}
