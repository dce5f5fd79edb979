//! The sequential model of one key of `KeyedTimers`, from the docs of the crate `tickless-keyed`.
//!
//! At most one timer waits under the key. It ends in one of four ways: its task starts, it is
//! cancelled, it is replaced, or the task that a stop has returned is dropped. A task that is due
//! and has not started still waits. A stop changes nothing but that the engine is closed.
//!
//! A task starts on a reaper between the deadline and its first line. If the caller of a stop runs
//! it, it starts during that call.

use crate::history::{Model, Operation};

/// A call on a key, and its result. Tasks have numbers; [`None`] stands for a number that the
/// caller does not learn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Call {
    /// `schedule_keyed` of this task, after a delay.
    Put(u32, u64, Put),
    /// `schedule_if_absent`.
    PutIfAbsent(u32, u64, PutIfAbsent),
    /// `cancel` or `take`, and the task that it ended.
    Cancel {
        /// It was cancelled.
        is_cancelled: bool,
        /// The task that was dropped or returned.
        task: Option<u32>,
    },
    /// `reset`.
    Reset(u64, Reset),
    /// `contains_key`.
    Contains(bool),
    /// A task starts, on a reaper or because the caller of a stop runs it.
    Start {
        /// The task.
        task: u32,
        /// It is the latter.
        is_by_caller: bool,
    },
    /// The caller of a stop drops the task.
    Discard(u32),
    /// A stop closes the engine.
    Close,
    /// A stop has returned.
    Stopped,
    /// All that was due is over.
    Quiet,
    /// Nothing comes after this.
    End,
}

/// The result of `schedule_keyed`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Put {
    /// `Scheduled::New`.
    New,
    /// `Scheduled::Replaced`, and the task that was dropped.
    Replaced(Option<u32>),
    /// The engine has stopped.
    Stopped,
}

/// The result of `schedule_if_absent`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PutIfAbsent {
    /// It was scheduled.
    Ok,
    /// Another timer waits.
    Occupied,
    /// The engine has stopped.
    Stopped,
}

/// The result of `reset`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reset {
    /// It was moved.
    Ok,
    /// No timer waits.
    Absent,
    /// The engine has stopped.
    Stopped,
}

/// The state of a key.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct State {
    /// The task that waits.
    waiting: Option<u32>,
    deadline_ns: u64,
    is_closed: bool,
    /// When the first stop returned, by the stamps.
    stopped_at: Option<u64>,
}

/// The model of one key. A stop closes the engine at one moment if `IS_ATOMIC`. Otherwise, calls
/// may still succeed after one was refused, until the stop returns. And a timer may be entered
/// under its key after that, if it was scheduled by a call that began before: the engine had it
/// first, and the stop has returned its task.
#[derive(Clone, Copy, Debug)]
pub struct Key<const IS_ATOMIC: bool = false>;

impl<const IS_ATOMIC: bool> Model for Key<IS_ATOMIC> {
    type Call = Call;
    type State = State;

    fn step(state: &State, operation: &Operation<Call>) -> Option<State> {
        let &State { waiting, deadline_ns, is_closed, stopped_at } = state;
        let is_stopped = stopped_at.is_some();
        let is_open = if IS_ATOMIC { !is_closed } else { !is_stopped };
        let has_begun = stopped_at.is_some_and(|at| operation.begin <= at);
        let may_enter = is_open || (!IS_ATOMIC && has_begun);
        let stay = |is_so: bool| is_so.then(|| state.clone());
        let deadline = |delay: u64| operation.from_ns.saturating_add(delay);
        let put = |task, delay, is_so: bool| {
            let deadline_ns = deadline(delay);
            is_so.then(|| State { waiting: Some(task), deadline_ns, ..state.clone() })
        };
        let emptied = |is_so: bool| is_so.then(|| State { waiting: None, ..state.clone() });
        // The task that the caller has in hand is the one that waited.
        let was = |task: Option<u32>| waiting.is_some() && (task.is_none() || task == waiting);
        match operation.call {
            Call::Put(task, delay, Put::New) => put(task, delay, waiting.is_none() && may_enter),
            Call::Put(task, delay, Put::Replaced(old)) => put(task, delay, was(old) && may_enter),
            Call::Put(_, _, Put::Stopped) => stay(is_closed),
            Call::PutIfAbsent(task, delay, PutIfAbsent::Ok) => {
                put(task, delay, waiting.is_none() && may_enter)
            }
            Call::PutIfAbsent(_, _, PutIfAbsent::Occupied) => stay(waiting.is_some()),
            Call::PutIfAbsent(_, _, PutIfAbsent::Stopped) => stay(is_closed),
            Call::Cancel { is_cancelled: true, task } => emptied(was(task)),
            Call::Cancel { .. } => stay(waiting.is_none()),
            Call::Reset(delay, Reset::Ok) => (waiting.is_some() && may_enter)
                .then(|| State { deadline_ns: deadline(delay), ..state.clone() }),
            Call::Reset(_, Reset::Absent) => stay(waiting.is_none()),
            // Another call may have ended the timer while the engine refused to schedule it anew.
            Call::Reset(_, Reset::Stopped) => stay(is_closed && (waiting.is_some() || !IS_ATOMIC)),
            Call::Contains(is_there) => stay(waiting.is_some() == is_there),
            Call::Start { task, is_by_caller: false } => {
                emptied(waiting == Some(task) && deadline_ns <= operation.to_ns && !is_stopped)
            }
            Call::Start { task, .. } => emptied(waiting == Some(task) && is_closed),
            Call::Discard(task) if waiting == Some(task) => emptied(true),
            Call::Discard(_) => stay(true),
            Call::Close => Some(State { is_closed: true, ..state.clone() }),
            Call::Stopped => {
                Some(State { stopped_at: stopped_at.or(Some(operation.end)), ..state.clone() })
            }
            Call::Quiet => stay(waiting.is_none() || operation.to_ns < deadline_ns),
            Call::End => stay(waiting.is_none()),
        }
    }

    fn label(call: &Call) -> Option<&'static str> {
        Some(match call {
            Call::Put(_, _, Put::New) => "schedule_keyed: new",
            Call::Put(_, _, Put::Replaced(_)) => "schedule_keyed: replaced",
            Call::Put(_, _, Put::Stopped) => "schedule_keyed: stopped",
            Call::PutIfAbsent(_, _, PutIfAbsent::Ok) => "schedule_if_absent: ok",
            Call::PutIfAbsent(_, _, PutIfAbsent::Occupied) => "schedule_if_absent: occupied",
            Call::PutIfAbsent(_, _, PutIfAbsent::Stopped) => "schedule_if_absent: stopped",
            Call::Cancel { is_cancelled: true, .. } => "cancel by key: true",
            Call::Cancel { .. } => "cancel by key: false",
            Call::Reset(_, Reset::Ok) => "reset by key: ok",
            Call::Reset(_, Reset::Absent) => "reset by key: absent",
            Call::Reset(_, Reset::Stopped) => "reset by key: stopped",
            Call::Contains(true) => "contains_key: true",
            Call::Contains(false) => "contains_key: false",
            Call::Start { is_by_caller: false, .. } => "the task starts",
            Call::Start { .. } => "the task starts: run by the stop's caller",
            Call::Discard(_) => "a returned task is dropped",
            Call::Close => "stop",
            Call::Stopped | Call::Quiet | Call::End => return None,
        })
    }

    fn is_observer(call: &Call) -> bool {
        match call {
            Call::Cancel { is_cancelled, .. } => !is_cancelled,
            Call::Reset(_, result) => *result != Reset::Ok,
            Call::Put(_, _, result) => *result == Put::Stopped,
            Call::PutIfAbsent(_, _, result) => *result != PutIfAbsent::Ok,
            Call::Contains(_) | Call::Quiet => true,
            _ => false,
        }
    }
}
