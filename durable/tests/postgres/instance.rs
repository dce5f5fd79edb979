//! An instance in a process of its own, which a test can kill and stop.
//!
//! The process is this program again, with the one test that is an instance. It is told by a line
//! what to do, and tells by a line when that is done. It ends when its input does.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use std::{env, fs, io};

use postgres::{Client, NoTls};
use tickless_durable::cluster::{Faults, Firing};
use tickless_durable::{Backoff, Builder, Cluster};

use crate::server::Place;

/// What its lines begin with: the harness of the tests writes some, too.
const MARK: &str = "@ ";

pub(crate) struct Instance {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    /// Its number.
    pub(crate) number: i64,
}

#[derive(Clone, Default)]
pub(crate) struct Settings {
    pub(crate) lease: Duration,
    pub(crate) faults: Faults,
    /// What its wall clock is off by, in seconds, and the library that does it.
    pub(crate) skew: Option<(i64, PathBuf)>,
    /// How its cluster reaches the server, if not as its handlers do.
    pub(crate) through: Option<String>,
}

/// The library that shows a process another time.
pub(crate) fn faketime() -> Option<PathBuf> {
    let libraries = fs::read_dir("/usr/lib").into_iter().flatten().flatten();
    let mut found = libraries.map(|entry| entry.path().join("faketime/libfaketime.so.1"));
    found.find(|library| library.exists())
}

// === impl Instance ===

impl Instance {
    pub(crate) fn start(place: &Place, settings: &Settings) -> Instance {
        let Faults { ignores_fence, ignores_lease, goes_by_own_clock } = settings.faults;
        let faults = [ignores_fence, ignores_lease, goes_by_own_clock].map(|is| is as u8);
        let mut command = Command::new(env::current_exe().unwrap());
        command
            .args(["--exact", "instance::is_one_if_it_is_told_to", "--nocapture"])
            .env("INSTANCE_URL", &place.url)
            .env("INSTANCE_THROUGH", settings.through.as_ref().unwrap_or(&place.url))
            .env("INSTANCE_SCHEMA", &place.schema)
            .env("INSTANCE_LEASE_MS", settings.lease.as_millis().to_string())
            .env("INSTANCE_FAULTS", format!("{faults:?}"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        if let Some((seconds, library)) = &settings.skew {
            command
                .env("LD_PRELOAD", library)
                .env("FAKETIME", format!("{seconds:+}"))
                .env("FAKETIME_DONT_FAKE_MONOTONIC", "1")
                .env("DONT_FAKE_MONOTONIC", "1");
        }
        let mut child = command.spawn().unwrap();
        let input = child.stdin.take().unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        let mut instance = Instance { child, input, output, number: 0 };
        instance.number = instance.line().parse().unwrap();
        instance
    }

    /// Has it schedule timers over a time from now on, and waits until they are durable.
    pub(crate) fn schedule(&mut self, count: u32, from_ms: u64, over_ms: u64) {
        self.tell(&format!("schedule {count} {from_ms} {over_ms} plain"));
        self.has_scheduled();
    }

    /// Has it schedule a timer that is due at once, and whose handler waits until it is told to
    /// [`go`](Instance::go).
    pub(crate) fn schedule_gated(&mut self) {
        self.tell("schedule 1 0 0 gated");
        self.has_scheduled();
    }

    /// Has it schedule a timer that is due at once.
    pub(crate) fn begin_to_schedule(&mut self) {
        self.tell("schedule 1 0 0 plain");
    }

    /// Has it schedule a timer that is due at once within a transaction, which it leaves open.
    pub(crate) fn schedule_in_transaction(&mut self) {
        self.tell("enter");
        self.has_scheduled();
    }

    /// Has it commit that transaction.
    pub(crate) fn commit(&mut self) {
        self.tell("commit");
        self.has_scheduled();
    }

    pub(crate) fn has_scheduled(&mut self) {
        assert_eq!(self.line(), "done");
    }

    pub(crate) fn go(&mut self) {
        self.tell("go");
        assert_eq!(self.line(), "done");
    }

    /// By how many seconds its wall clock is ahead of another time.
    pub(crate) fn is_ahead_of(&mut self, now: SystemTime) -> f64 {
        self.tell("time");
        let shows: f64 = self.line().parse().unwrap();
        shows - now.duration_since(UNIX_EPOCH).unwrap().as_secs_f64()
    }

    pub(crate) fn stop(&mut self) {
        self.tell("stop");
        assert_eq!(self.line(), "done");
    }

    /// Has it schedule a timer that is due at once, and whose handler ends the process.
    pub(crate) fn schedule_poison(&mut self) {
        self.tell("schedule 1 0 0 poison");
    }

    pub(crate) fn has_died(&mut self) -> bool {
        self.child.try_wait().unwrap().is_some()
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

    fn line(&mut self) -> String {
        let mut line = String::new();
        loop {
            line.clear();
            assert!(self.output.read_line(&mut line).unwrap() > 0, "the instance has died");
            // The harness may have begun a line.
            if let Some((_, told)) = line.trim_end().split_once(MARK) {
                return told.to_owned();
            }
        }
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

// === the process ===

/// It has told its number.
static HAS_STARTED: AtomicBool = AtomicBool::new(false);

#[test]
fn is_one_if_it_is_told_to() {
    let Ok(url) = env::var("INSTANCE_URL") else { return };
    let schema = env::var("INSTANCE_SCHEMA").unwrap();
    let lease = env::var("INSTANCE_LEASE_MS").unwrap().parse().unwrap();
    let faults = env::var("INSTANCE_FAULTS").unwrap();
    let gate = Arc::new((Mutex::new(false), Condvar::new()));
    let handler = handler(&url, &schema, &gate);
    let backoff = Backoff::new(Duration::from_millis(20));
    let cluster = Cluster::builder(&env::var("INSTANCE_THROUGH").unwrap())
        .schema(schema)
        .lease(Duration::from_millis(lease))
        .service(Builder::new().workers(2).linger(Duration::ZERO).backoff(backoff))
        .faults(Faults {
            ignores_fence: &faults[1..2] == "1",
            ignores_lease: &faults[4..5] == "1",
            goes_by_own_clock: &faults[7..8] == "1",
        })
        .start(handler)
        .unwrap();
    say(&cluster.instance().to_string());
    HAS_STARTED.store(true, Ordering::Relaxed);
    let mut client = None;
    for line in io::stdin().lines() {
        let line = line.unwrap();
        let words: Vec<&str> = line.split(' ').collect();
        match words[..] {
            ["schedule", count, from_ms, over_ms, kind] => {
                let number = |text: &str| text.parse::<u64>().unwrap();
                schedule(&cluster, number(count), number(from_ms), number(over_ms), kind);
            }
            ["enter"] => {
                let client = client.insert(Client::connect(&url, NoTls).unwrap());
                client.batch_execute("BEGIN").unwrap();
                cluster.schedule_in(client, None, cluster.now(), "plain".to_owned()).unwrap();
            }
            ["commit"] => client.as_mut().unwrap().batch_execute("COMMIT").unwrap(),
            ["go"] => {
                *gate.0.lock().unwrap() = true;
                gate.1.notify_all();
            }
            ["time"] => {
                let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
                say(&now.as_secs_f64().to_string());
                continue;
            }
            ["stop"] => cluster.stop().unwrap(),
            _ => panic!("{line}"),
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
    let enter = |n| {
        let due = begin + Duration::from_micros(over_ms * 1000 * n / count);
        // Some have a key, and so go to the shard of that.
        if n % 2 == 0 {
            let key = format!("{} {n} {from_ms}", cluster.instance());
            cluster.schedule_keyed(key, due, kind.to_owned()).unwrap()
        } else {
            cluster.schedule(due, kind.to_owned()).unwrap()
        }
    };
    let mut left: Vec<u64> = (0..count).collect();
    while !left.is_empty() {
        let tickets: Vec<_> = left.iter().map(|&n| (n, enter(n))).collect();
        // One whose shard was lost meanwhile is entered again.
        let lost = tickets.into_iter().filter(|(_, ticket)| ticket.wait().is_err());
        left = lost.map(|(n, _)| n).collect();
    }
}

/// Writes down that it has begun. Each tenth timer fails at first.
fn handler(
    url: &str,
    schema: &str,
    gate: &Arc<(Mutex<bool>, Condvar)>,
) -> impl Fn(&Firing<'_, String>) -> Result<(), &'static str> + Send + Sync + 'static {
    let clients = Mutex::new(HashMap::<std::thread::ThreadId, Client>::new());
    let (url, gate) = (url.to_owned(), gate.clone());
    let note = format!(
        "INSERT INTO {schema}.starts
            (timer, shard, fence, instance, attempt, due_us, begun_us)
         VALUES ($1, $2, $3, $4, $5, $6, $7)"
    );
    move |firing| {
        let micros = |time: SystemTime| time.duration_since(UNIX_EPOCH).unwrap().as_micros() as i64;
        let begun_us = micros(firing.cluster().now());
        let thread = std::thread::current().id();
        let kept = clients.lock().unwrap().remove(&thread);
        let mut client = kept.unwrap_or_else(|| Client::connect(&url, NoTls).unwrap());
        let number = firing.id().timer().first_position().number;
        client
            .execute(
                &note,
                &[
                    &format!("{}-{number}", firing.shard()),
                    &firing.shard().cast_signed(),
                    &firing.fence().cast_signed(),
                    &firing.cluster().instance().cast_signed(),
                    &firing.attempt().cast_signed(),
                    &micros(firing.due()),
                    &begun_us,
                ],
            )
            .unwrap();
        clients.lock().unwrap().insert(thread, client);
        if firing.payload() == "poison" {
            while !HAS_STARTED.load(Ordering::Relaxed) {
                std::thread::yield_now();
            }
            std::process::abort();
        }
        if firing.payload() == "gated" {
            let opened = gate.1.wait_while(gate.0.lock().unwrap(), |is_open| !*is_open);
            drop(opened.unwrap());
        }
        if number % 10 == 3 && firing.attempt() == 1 { Err("not yet") } else { Ok(()) }
    }
}
