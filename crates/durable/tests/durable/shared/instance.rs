//! An instance in a process of its own, which a test can kill and stop.
//!
//! The process is this program again, with the one test that is an instance. It is told by a line
//! what to do, and tells by a line when that is done, and when a handler begins. It ends when its
//! input does.
//!
//! The module `scene` of the program says what it shares with others: `start(..)`, and what it
//! `does(..)` beyond what is here.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use std::{env, io, thread};

use tickless_durable::cluster::{Faults, Firing};
use tickless_durable::{Backoff, Builder, Cluster, cluster};

use super::scene::{Scene, does, start};
use crate::common::faketime;
use crate::common::history::{Change, Start};
use crate::common::limit::LIMIT;
use crate::common::until::wait_until;

/// What its lines begin with: the harness of the tests writes some, too.
const MARK: &str = "@ ";

/// What a line begins with that says that a handler begins.
const STARTS: &str = "starts ";

/// What handlers have said that they began.
#[derive(Clone, Default)]
pub(crate) struct Starts(Arc<(Mutex<Vec<Start>>, Condvar)>);

pub(crate) struct Instance {
    child: Child,
    input: ChildStdin,
    told: Receiver<String>,
    /// Its number.
    pub(crate) number: i64,
}

#[derive(Clone, Default)]
pub(crate) struct Settings {
    pub(crate) lease: Duration,
    pub(crate) faults: Faults,
    /// See [`Builder::crashes`].
    pub(crate) crashes: Option<u32>,
    /// What its wall clock is off by, in seconds, and the library that does it.
    pub(crate) skew: Option<(i64, PathBuf)>,
    /// How it reaches the servers, if not as others do.
    pub(crate) through: Option<String>,
}

/// The time by this machine's clock, which is that of the servers.
pub(crate) fn now_us() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_micros() as i64
}

// === impl Starts ===

impl Starts {
    /// A handler has said so, just now or before: `TIMER SHARD FENCE INSTANCE DUE BEGUN`.
    pub(crate) fn add(&self, told: &str) {
        let words: Vec<&str> = told.split(' ').collect();
        let number = |at: usize| words[at].parse::<i64>().unwrap();
        let start = Start {
            timer: words[0].to_owned(),
            shard: i32::try_from(number(1)).unwrap(),
            fence: number(2),
            instance: number(3),
            due_us: number(4),
            begun_us: number(5),
            at_us: now_us(),
        };
        self.0.0.lock().unwrap().push(start);
        self.0.1.notify_all();
    }

    /// Waits until an instance has begun so many timers.
    #[track_caller]
    pub(crate) fn wait_for_those_of(&self, instance: &Instance, count: usize) {
        let number = instance.number;
        self.wait_for(count, |start| start.instance == number);
    }

    /// Waits until so many are as asked for.
    #[track_caller]
    pub(crate) fn wait_for(&self, count: usize, is_one: impl Fn(&Start) -> bool) {
        let are_too_few =
            |all: &mut Vec<Start>| all.iter().filter(|start| is_one(start)).count() < count;
        let all = self.0.0.lock().unwrap();
        let (all, waited) = self.0.1.wait_timeout_while(all, LIMIT, are_too_few).unwrap();
        assert!(!waited.timed_out(), "too few have begun of {count}: {all:?}");
    }

    /// All of them. Before the end of a timer is written, its handler has said that it begins, but
    /// that can be on its way: so this waits until those are here whose timers are over.
    pub(crate) fn all(&self, changes: &[Change]) -> Vec<Start> {
        let mut is_there = BTreeMap::new();
        for change in changes {
            is_there.insert(&*change.timer, change.is_put);
        }
        let is_missing = |all: &mut Vec<Start>| {
            let begun: BTreeSet<&str> = all.iter().map(|start| &*start.timer).collect();
            is_there.iter().any(|(timer, is_there)| !is_there && !begun.contains(timer))
        };
        let all = self.0.0.lock().unwrap();
        self.0.1.wait_timeout_while(all, LIMIT, is_missing).unwrap().0.clone()
    }
}

// === impl Instance ===

impl Instance {
    pub(crate) fn start(scene: &Scene, settings: &Settings) -> Instance {
        let Faults { ignores_fence, ignores_lease, goes_by_own_clock } = settings.faults;
        let faults = [ignores_fence, ignores_lease, goes_by_own_clock].map(|is| is as u8);
        let (url, name) = scene.place.parts();
        let (_, module) = module_path!().split_once("::").expect("it is below the program");
        let test = format!("{module}::is_one_if_it_is_told_to");
        let mut command = Command::new(env::current_exe().unwrap());
        command
            .args(["--exact", &test, "--nocapture"])
            .env("INSTANCE_URL", settings.through.as_deref().unwrap_or(url))
            .env("INSTANCE_NAME", name)
            .env("INSTANCE_SHARDS", scene.shards.to_string())
            .env("INSTANCE_LEASE_MS", settings.lease.as_millis().to_string())
            .env("INSTANCE_FAULTS", format!("{faults:?}"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        if let Some(crashes) = settings.crashes {
            command.env("INSTANCE_CRASHES", crashes.to_string());
        }
        if let Some((seconds, library)) = &settings.skew {
            faketime::set(&mut command, library, *seconds);
        }
        let mut child = command.spawn().unwrap();
        let input = child.stdin.take().unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        let (tell, told) = channel();
        let starts = scene.starts.clone();
        thread::spawn(move || {
            for line in output.lines().map_while(Result::ok) {
                // The harness may have begun a line.
                let Some((_, line)) = line.split_once(MARK) else { continue };
                match line.strip_prefix(STARTS) {
                    Some(start) => starts.add(start),
                    None => drop(tell.send(line.to_owned())),
                }
            }
        });
        let mut instance = Instance { child, input, told, number: 0 };
        instance.number = instance.line().parse().unwrap();
        instance
    }

    /// Has it schedule timers over a time from now on, and waits until they are durable.
    pub(crate) fn schedule(&mut self, count: u32, from_ms: u64, over_ms: u64) {
        self.begin_to_schedule(count, from_ms, over_ms);
        self.has_done();
    }

    /// Has it schedule a timer that is due at once, and whose handler waits until it is told to
    /// [`go`](Instance::go).
    pub(crate) fn schedule_gated(&mut self) {
        self.does("schedule 1 0 0 gated");
    }

    pub(crate) fn begin_to_schedule(&mut self, count: u32, from_ms: u64, over_ms: u64) {
        self.tell(&format!("schedule {count} {from_ms} {over_ms} plain"));
    }

    pub(crate) fn has_done(&mut self) {
        assert_eq!(self.line(), "done");
    }

    pub(crate) fn go(&mut self) {
        self.does("go");
    }

    /// The shards whose timers fire there.
    pub(crate) fn shards(&mut self) -> Vec<u32> {
        self.tell("shards");
        let line = self.line();
        line.split_whitespace().skip(1).map(|shard| shard.parse().unwrap()).collect()
    }

    /// What the dead letters say.
    pub(crate) fn letters(&mut self) -> String {
        self.tell("letters");
        self.line()
    }

    /// By how many seconds its wall clock is ahead of another time.
    pub(crate) fn is_ahead_of(&mut self, now_us: i64) -> f64 {
        self.tell("time");
        let shows: f64 = self.line().parse().unwrap();
        shows - now_us as f64 / 1e6
    }

    pub(crate) fn stop(&mut self) {
        self.does("stop");
    }

    /// Has it do something, and waits until that is done.
    pub(crate) fn does(&mut self, command: &str) {
        self.tell(command);
        self.has_done();
    }

    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    pub(crate) fn pause(&self) {
        self.signal("STOP");
    }

    pub(crate) fn go_on(&self) {
        self.signal("CONT");
    }

    fn signal(&self, name: &str) {
        let id = self.child.id().to_string();
        let status = Command::new("kill").args([&format!("-{name}"), &id]).status().unwrap();
        assert!(status.success());
    }

    fn tell(&mut self, command: &str) {
        writeln!(self.input, "{command}").unwrap();
    }

    #[track_caller]
    fn line(&mut self) -> String {
        self.told.recv_timeout(LIMIT).expect("the instance tells something")
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Waits until these instances have all shards, as evenly as can be.
#[track_caller]
pub(crate) fn wait_for_holders(shards: u32, instances: &mut [&mut Instance]) {
    wait_until("they share the shards", || {
        let held: Vec<Vec<u32>> = instances.iter_mut().map(|one| one.shards()).collect();
        let all: BTreeSet<u32> = held.iter().flatten().copied().collect();
        let most = held.iter().map(Vec::len).max().unwrap_or(0);
        let least = held.iter().map(Vec::len).min().unwrap_or(0);
        let count: usize = held.iter().map(Vec::len).sum();
        all.len() == shards as usize && count == all.len() && most - least <= 1
    });
}

// === the process ===

#[test]
fn is_one_if_it_is_told_to() {
    let Ok(url) = env::var("INSTANCE_URL") else { return };
    let number = |name: &str| env::var(name).unwrap().parse::<u64>().unwrap();
    let faults = env::var("INSTANCE_FAULTS").unwrap();
    let gate = Arc::new((Mutex::new(false), Condvar::new()));
    let backoff = Backoff::new(Duration::from_millis(20));
    let mut service = Builder::new().workers(2).linger(Duration::ZERO).backoff(backoff);
    if let Ok(crashes) = env::var("INSTANCE_CRASHES") {
        service = service.crashes(crashes.parse().unwrap());
    }
    let configured = |builder: cluster::Builder| {
        builder
            .lease(Duration::from_millis(number("INSTANCE_LEASE_MS")))
            .service(service.clone())
            .faults(Faults {
                ignores_fence: &faults[1..2] == "1",
                ignores_lease: &faults[4..5] == "1",
                goes_by_own_clock: &faults[7..8] == "1",
            })
    };
    let (name, shards) = (env::var("INSTANCE_NAME").unwrap(), number("INSTANCE_SHARDS") as u32);
    let cluster = start((&url, &name), shards, configured, handler(&gate));
    say(&cluster.instance().to_string());
    for line in io::stdin().lines() {
        let line = line.unwrap();
        let words: Vec<&str> = line.split(' ').collect();
        match words[..] {
            ["schedule", count, from_ms, over_ms, kind] => {
                let number = |text: &str| text.parse::<u64>().unwrap();
                schedule(&cluster, number(count), number(from_ms), number(over_ms), kind);
            }
            ["go"] => {
                *gate.0.lock().unwrap() = true;
                gate.1.notify_all();
            }
            ["shards"] => {
                let shards: String =
                    cluster.shards().iter().map(|(shard, _)| format!(" {shard}")).collect();
                say(&format!("shards{shards}"));
                continue;
            }
            ["letters"] => {
                let letters = cluster.dead_letters(None, 100).wait().unwrap();
                let errors: Vec<&str> =
                    letters.iter().map(|letter| &*letter.letter().error).collect();
                say(&format!("letters {}", errors.join("; ")));
                continue;
            }
            ["time"] => {
                say(&(now_us() as f64 / 1e6).to_string());
                continue;
            }
            ["stop"] => cluster.stop().unwrap(),
            _ => assert!(does(&url, &cluster, &line), "{line}"),
        }
        say("done");
    }
    // Whoever has started it is gone.
    std::process::exit(0);
}

fn say(text: &str) {
    println!("{MARK}{text}");
}

fn schedule(cluster: &Cluster<String>, count: u64, from_ms: u64, over_ms: u64, kind: &str) {
    let begin = cluster.now() + Duration::from_millis(from_ms);
    let enter = |n, round: u32| {
        let due = begin + Duration::from_micros(over_ms * 1000 * n / count);
        // Some have a key, and so go to the shard of that.
        if n % 2 == 0 {
            let key = format!("{} {n} {from_ms} {round}", cluster.instance());
            cluster.schedule_keyed(key, due, kind.to_owned()).unwrap()
        } else {
            cluster.schedule(due, kind.to_owned()).unwrap()
        }
    };
    let mut left: Vec<u64> = (0..count).collect();
    for round in 0.. {
        if left.is_empty() {
            break;
        }
        let tickets: Vec<_> = left.iter().map(|&n| (n, enter(n, round))).collect();
        // One whose shard was lost meanwhile is entered again, under another key: it may be durable
        // all the same, and would be replaced before it began.
        let lost = tickets.into_iter().filter(|(_, ticket)| ticket.wait().is_err());
        left = lost.map(|(n, _)| n).collect();
    }
}

/// Says that it has begun. Each tenth timer fails at first.
fn handler(
    gate: &Arc<(Mutex<bool>, Condvar)>,
) -> impl Fn(&Firing<'_, String>) -> Result<(), &'static str> + Clone + Send + Sync + 'static {
    let gate = gate.clone();
    move |firing| {
        let micros = |time: SystemTime| time.duration_since(UNIX_EPOCH).unwrap().as_micros();
        let begun_us = micros(firing.cluster().now());
        let number = firing.id().timer().first_position().number;
        say(&format!(
            "{STARTS}{shard}-{number} {shard} {} {} {} {begun_us}",
            firing.fence(),
            firing.cluster().instance(),
            micros(firing.due()),
            shard = firing.shard(),
        ));
        if firing.payload() == "gated" {
            let opened = gate.1.wait_while(gate.0.lock().unwrap(), |is_open| !*is_open);
            drop(opened.unwrap());
        }
        if number % 10 == 3 && firing.attempt() == 1 { Err("not yet") } else { Ok(()) }
    }
}
