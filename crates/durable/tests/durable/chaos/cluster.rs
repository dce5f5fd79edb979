//! Instances that share servers: they are killed and held up, the network of each fails in each
//! way, and so do the servers.

use std::path::PathBuf;
use std::process::Command;
use std::thread;
use std::time::Duration;

use super::Run;
use super::worker::{Job, OTHER, Worker};
use crate::common::proxy::Mode;

/// How many instances there are at a time.
pub(crate) const INSTANCES: usize = 3;

/// What is done in a round; at its end, an instance is killed.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Fault {
    /// An instance is held up.
    Pause,
    /// The network of one is like that.
    Network(Mode, &'static str),
    /// The servers fail in one of their own ways.
    Servers(usize),
}

pub(crate) const EVERYWHERE: [Fault; 5] = [
    Fault::Pause,
    Fault::Network(Mode::Delays(Duration::from_millis(30)), "slow networks"),
    Fault::Network(Mode::Stalls, "networks that stalled"),
    Fault::Network(Mode::KeepsReplies, "networks without replies"),
    Fault::Network(Mode::Cuts, "networks that were cut"),
];

pub(crate) trait Servers {
    /// How long a fault lasts at most.
    const LONGEST: Duration;

    /// How one of the instances reaches them: by a proxy of its own.
    fn place(&self, instance: usize) -> String;

    /// What becomes of the network of one of the instances.
    fn set(&self, instance: usize, mode: Mode);

    /// They fail, and work again.
    fn fail(&mut self, way: usize, run: &mut Run);

    /// How a process of an instance is started.
    fn dress(&self, _command: &mut Command) {}

    /// No fault comes any more.
    fn end(&mut self, _run: &mut Run) {}
}

struct Cluster<'a, S> {
    run: &'a mut Run,
    servers: &'a mut S,
    instances: Vec<Worker>,
    /// How many were started.
    started: u64,
}

pub(crate) fn run<S: Servers>(run: &mut Run, servers: &mut S, faults: &[Fault]) {
    let mut cluster = Cluster { run, servers, instances: Vec::new(), started: 0 };
    for number in 0..INSTANCES {
        let first = cluster.start(number, false);
        assert_eq!(first.hear(), "works");
        cluster.instances.push(first);
    }
    let mut left = Vec::new();
    for _ in 0..cluster.run.kills {
        if left.is_empty() {
            left = cluster.run.shuffled(faults);
        }
        cluster.fail(left.pop().expect("there are some"));
        cluster.pause();
        let number = cluster.some();
        cluster.instances[number].kill();
        cluster.run.count("kills");
        cluster.instances[number] = cluster.start(number, false);
    }
    cluster.instances.clear();
    cluster.servers.end(cluster.run);
    let last = [cluster.start(0, true), cluster.start(1, true)];
    last.iter().for_each(|worker| assert_eq!(worker.hear(), "works"));
    assert_eq!(last[0].hear(), "drained 0", "{} has dead letters", cluster.run.name);
}

impl<S: Servers> Cluster<'_, S> {
    fn start(&mut self, number: usize, drains: bool) -> Worker {
        self.started += 1;
        let (store, place) = (self.run.name.to_owned(), self.servers.place(number));
        let job = Job { store, place, number: self.started, drains };
        let other = std::env::var_os(OTHER).filter(|_| !drains && self.started.is_multiple_of(2));
        let program = other.map_or_else(|| std::env::current_exe().unwrap(), PathBuf::from);
        let program = (&*program, "chaos::child");
        Worker::start_as(program, &job, &self.run.ledger(), |command| self.servers.dress(command))
    }

    fn some(&mut self) -> usize {
        self.run.random.below(INSTANCES as u64) as usize
    }

    fn pause(&mut self) {
        let longest = S::LONGEST.as_millis() as u64;
        thread::sleep(Duration::from_millis(longest / 8 + self.run.random.below(longest * 7 / 8)));
    }

    fn fail(&mut self, fault: Fault) {
        let number = self.some();
        match fault {
            Fault::Pause => {
                self.instances[number].signal("STOP");
                self.pause();
                self.instances[number].signal("CONT");
                self.run.count("instances held up");
            }
            Fault::Network(mode, what) => {
                self.servers.set(number, mode);
                self.pause();
                self.servers.set(number, Mode::Passes);
                self.run.count(what);
            }
            Fault::Servers(way) => self.servers.fail(way, self.run),
        }
    }
}
