//! The operations of a history, and what a model is.

use std::fmt::{Debug, Write};
use std::hash::Hash;

use crate::timeline::{Stamp, Timeline};

/// An operation of a history, by one thread, on one timer or key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Operation<C> {
    /// The timer or the key.
    pub id: u32,
    /// The thread, for readers of the history. Callbacks are of thread [`CALLBACK`].
    pub thread: u32,
    /// Stamp of the invocation.
    pub begin: u64,
    /// Stamp of the return.
    pub end: u64,
    /// The engine's clock before the invocation.
    pub from_ns: u64,
    /// The engine's clock after the return: the engine has seen no later time.
    pub to_ns: u64,
    /// The call and its result.
    pub call: C,
}

/// In place of a thread's number: the thread that runs a task.
pub const CALLBACK: u32 = 99;

/// A sequential specification of one timer or key.
pub trait Model {
    /// A call with its result.
    type Call: Clone + Debug;
    /// What the model remembers.
    type State: Clone + Debug + Default + Eq + Hash;

    /// The state after `operation`, or `None` if the docs do not permit its result here.
    fn step(state: &Self::State, operation: &Operation<Self::Call>) -> Option<Self::State>;

    /// The call and its result as a report names them. `None`: reports leave it out.
    fn label(call: &Self::Call) -> Option<&'static str>;

    /// Whether two operations are parts of one event. That they overlap says nothing.
    fn are_one_event(_: &Self::Call, _: &Self::Call) -> bool {
        false
    }

    /// Whether the operation changes nothing: what is left of a history that the model accepts is
    /// accepted without it.
    fn is_observer(call: &Self::Call) -> bool;
}

/// What one thread has recorded.
#[derive(Debug)]
pub struct Recorder<'a, C> {
    /// The time of the history.
    pub timeline: &'a Timeline,
    /// The thread's number.
    pub thread: u32,
    /// What it has recorded.
    pub operations: Vec<Operation<C>>,
}

impl<C> Operation<C> {
    /// Whether the intervals have a moment in common.
    pub fn overlaps(&self, other: &Operation<C>) -> bool {
        self.begin <= other.end && other.begin <= self.end
    }
}

impl<'a, C> Recorder<'a, C> {
    /// A thread that has recorded nothing.
    pub fn new(timeline: &'a Timeline, thread: u32) -> Recorder<'a, C> {
        Recorder { timeline, thread, operations: Vec::new() }
    }

    /// Performs `call` and records what `describe` makes of its result.
    pub fn record<R>(
        &mut self,
        id: u32,
        call: impl FnOnce() -> R,
        describe: impl FnOnce(&R) -> C,
    ) -> R {
        let before = self.timeline.before();
        let result = call();
        let after = self.timeline.after();
        self.push(id, before, after, describe(&result));
        result
    }

    /// Records an operation between two stamps.
    pub fn push(&mut self, id: u32, before: Stamp, after: Stamp, call: C) {
        self.operations.push(Operation {
            id,
            thread: self.thread,
            begin: before.at,
            end: after.at,
            from_ns: before.clock_ns,
            to_ns: after.clock_ns,
            call,
        });
    }
}

/// The operations as a table, one a line.
pub fn table<C: Debug>(operations: &[Operation<C>]) -> String {
    let mut text =
        String::from("thread       begin         end  clock before   clock after  call\n");
    for it in operations {
        let thread = if it.thread == CALLBACK { "task".into() } else { it.thread.to_string() };
        let _ = writeln!(
            text,
            "{thread:>6} {:>11} {:>11} {:>13} {:>13}  {:?}",
            it.begin, it.end, it.from_ns, it.to_ns, it.call
        );
    }
    text
}
