//! The tasks that have begun and have not ended, so that they can be found by their keys.
//!
//! A thread that takes a timer out to run its task enters the task here, under the lock under which
//! it takes the timer out. So another thread finds it waiting, running, or ended. The task is
//! removed under that lock too. Only a thread that waits for it makes the latch that its end opens.
//!
//! *Owner*: the part of the table that has the key, behind its lock.
//!
//! *Orderings*: LATCH, through the latch; everything else is behind the lock.
//!
//! *Tested by*: `tests/races/wait/keys.rs`.

use tickless::internal::protocol::latch::Latch;
use tickless::internal::protocol::twin::Twin;
use tickless::internal::sync::Arc;
use tickless::internal::{Ends, Party, Process, Sleeper, work_for};

use super::node::{KeyHash, Node, SharedNode};

/// The tasks of some of the keys.
pub(super) struct Running<K, T>(Vec<Begun<K, T>>);

struct Begun<K, T> {
    node: SharedNode<K, T>,
    process: Process,
    /// `None`: nobody waits for it.
    run: Option<SharedRun<K, T>>,
}

/// A run of a task that a thread waits for.
pub(super) struct Run<K, T> {
    latch: Latch<Sleeper>,
    process: Process,
    /// As long as somebody waits, no other task has its address.
    node: SharedNode<K, T>,
}

/// Such a run, as the list and those who wait have it.
pub(super) type SharedRun<K, T> = Arc<Run<K, T>>;

/// The runs of one key.
pub(super) type SharedRuns<K, T> = Vec<SharedRun<K, T>>;

/// An empty list keeps its memory if it has room for at most this number of tasks.
const KEPT: usize = 4;

// === impl Running ===

impl<K, T> Running<K, T> {
    pub(super) const fn new() -> Running<K, T> {
        Running(Vec::new())
    }

    /// The task of `node` begins.
    pub(super) fn begin(&mut self, node: SharedNode<K, T>) {
        self.0.push(Begun { node, process: Process::current(), run: None });
    }

    /// The task of `node` has ended. The caller drops what this returns without the lock, and tells
    /// the run, if there is one.
    pub(super) fn end(
        &mut self,
        node: &SharedNode<K, T>,
    ) -> (SharedNode<K, T>, Option<SharedRun<K, T>>) {
        let at = self.0.iter().position(|begun| Twin::ptr_eq(&begun.node, node));
        let Begun { node, run, .. } = self.0.swap_remove(at.expect("a task ends once"));
        if self.0.is_empty() && self.0.capacity() > KEPT {
            self.0 = Vec::new();
        }
        (node, run)
    }

    /// The runs of the tasks of this hash whose nodes fit `is_it`.
    pub(super) fn runs(
        &mut self,
        hash: KeyHash,
        is_it: impl Fn(&Node<K>) -> bool,
    ) -> SharedRuns<K, T> {
        let found = self.0.iter_mut().filter(|begun| begun.node.hash == hash && is_it(&begun.node));
        let run = |begun: &mut Begun<K, T>| {
            let Begun { node, process, run } = begun;
            let new = || Run { latch: Latch::default(), process: *process, node: node.clone() };
            run.get_or_insert_with(|| Arc::new(new())).clone()
        };
        found.map(run).collect()
    }
}

/// Runs `f` as work on the task of `node`.
pub(super) fn working_on<K, T, R>(node: &SharedNode<K, T>, f: impl FnOnce() -> R) -> R {
    work_for(party(node), f)
}

fn party<K, T>(node: &SharedNode<K, T>) -> Party {
    Party::Task(Twin::addr(node))
}

// === impl Run ===

impl<K, T> Run<K, T> {
    /// Tells those who wait that it has ended.
    pub(super) fn end(&self) {
        self.latch.open(Sleeper::ring);
    }
}

impl<K: Send + Sync, T> Ends<()> for Run<K, T> {
    fn latch(&self) -> &Latch<Sleeper> {
        &self.latch
    }

    fn process(&self) -> Process {
        self.process
    }

    fn party(&self) -> Party {
        party(&self.node)
    }

    fn ended(&self) -> Option<()> {
        self.latch.is_open().then_some(())
    }
}
