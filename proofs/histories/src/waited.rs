//! The sequential model of a timer whose task can be waited for, from the docs of `Waitable` and of
//! the module `wait`.
//!
//! The task *begins* and *finishes*; its captures are *dropped*. A `cancel_wait` is two operations,
//! both from its call to its return: it *settles* how the task ends, and when it returns all is
//! *over*, the drop of the captures included. The task says when its last line runs; that it has
//! finished may take effect at any time after that, so only the wait bounds it.
//!
//! A stop closes the engine. The tasks that it returns have not begun: the caller drops or runs
//! them, and until then the handle can cancel them. A task that is dropped unrun is *discarded*,
//! which begins before the drop of its captures and ends after it.

use tickless::wait::{Ended, Stage};

use crate::history::{Model, Operation};
use crate::timer::Refusal;

/// A call on a timer or its task, and its result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Call {
    /// `Engine::schedule_waitable`.
    Schedule(u64, Result<(), Refusal>),
    /// `Waitable::reset`.
    Reset(u64, Result<(), Refusal>),
    /// `Waitable::cancel`.
    Cancel(bool),
    /// The first part of `cancel_wait`.
    Settle(Ended),
    /// The second part.
    Over,
    /// `cancel_wait_within`, and the limit has passed.
    TimedOut,
    /// `Waitable::stage`.
    Stage(Stage),
    /// The task begins, on a reaper or because the caller of a stop runs it.
    Begin {
        /// It is the latter.
        is_by_caller: bool,
    },
    /// The task has come to its end.
    Finish,
    /// The captures are dropped.
    Drop,
    /// A stop closes the engine.
    Close,
    /// A stop has returned.
    Stopped,
    /// All that was due is over.
    Quiet,
    /// Nothing comes after this.
    End,
}

/// How far a task is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Phase {
    /// It was not scheduled.
    #[default]
    Unborn,
    /// It has not begun.
    Pending,
    /// It runs.
    Running,
    /// It has run.
    Finished,
    /// It is being dropped unrun, or was, and nobody has seen the end of that yet.
    Discarding,
    /// It will never run.
    Cancelled,
}

/// The state of a timer and its task.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct State {
    phase: Phase,
    deadline_ns: u64,
    /// The timer has fired, or has been taken by a stop; the task need not have begun.
    is_due: bool,
    is_dropped: bool,
    is_closed: bool,
    is_stopped: bool,
}

/// The model of a timer whose task can be waited for.
#[derive(Clone, Copy, Debug)]
pub struct Waited;

impl Model for Waited {
    type Call = Call;
    type State = State;

    fn step(state: &State, operation: &Operation<Call>) -> Option<State> {
        let &State { phase, deadline_ns, is_due, is_dropped, is_closed, is_stopped } = state;
        let to = |phase| Some(State { phase, ..state.clone() });
        let stay = |is_so: bool| is_so.then(|| state.clone());
        let deadline = |delay: u64| operation.from_ns.saturating_add(delay);
        let may_be_due = is_due || is_closed || deadline_ns <= operation.to_ns;
        let due = || may_be_due.then(|| State { is_due: true, ..state.clone() });
        match operation.call {
            Call::Schedule(delay, Ok(())) => (phase == Phase::Unborn && !is_closed).then(|| {
                let deadline_ns = deadline(delay);
                State { phase: Phase::Pending, deadline_ns, ..state.clone() }
            }),
            Call::Schedule(_, Err(_)) if phase == Phase::Unborn && is_closed => {
                to(Phase::Cancelled)
            }
            Call::Schedule(..) => None,
            Call::Reset(delay, Ok(())) => (phase == Phase::Pending && !is_due && !is_closed)
                .then(|| State { deadline_ns: deadline(delay), ..state.clone() }),
            Call::Reset(_, Err(Refusal::Stopped)) => stay(is_closed),
            Call::Reset(_, Err(Refusal::TooLate)) => match phase {
                Phase::Pending => due(),
                _ => stay(phase != Phase::Unborn),
            },
            Call::Cancel(true) if phase == Phase::Pending => to(Phase::Cancelled),
            Call::Cancel(true) => None,
            Call::Cancel(false) if phase == Phase::Pending => discarding(state),
            Call::Cancel(false) => stay(phase != Phase::Unborn),
            Call::Settle(Ended::Cancelled) => match phase {
                Phase::Pending | Phase::Discarding | Phase::Cancelled => to(Phase::Cancelled),
                _ => None,
            },
            Call::Settle(_) => stay(phase == Phase::Finished),
            Call::Over => stay(is_dropped && matches!(phase, Phase::Finished | Phase::Cancelled)),
            Call::TimedOut => {
                stay(matches!(phase, Phase::Running | Phase::Discarding) || !is_dropped)
            }
            Call::Stage(stage) => match stage {
                Stage::Pending => stay(phase == Phase::Pending && !is_due),
                Stage::Due if phase == Phase::Pending => due(),
                Stage::Running if phase == Phase::Pending => discarding(state),
                Stage::Running => stay(matches!(phase, Phase::Running | Phase::Discarding)),
                Stage::Finished => stay(phase == Phase::Finished && is_dropped),
                Stage::Cancelled if is_dropped => match phase {
                    Phase::Discarding | Phase::Cancelled => to(Phase::Cancelled),
                    _ => None,
                },
                _ => None,
            },
            Call::Begin { is_by_caller } => {
                let may = if is_by_caller {
                    is_closed
                } else {
                    !is_stopped && deadline_ns <= operation.to_ns
                };
                if may && phase == Phase::Pending { to(Phase::Running) } else { None }
            }
            Call::Finish if phase == Phase::Running => to(Phase::Finished),
            Call::Finish => None,
            Call::Drop => {
                let phase = if phase == Phase::Pending { Phase::Discarding } else { phase };
                (!is_dropped && (is_closed || phase != Phase::Unborn)).then(|| State {
                    phase,
                    is_dropped: true,
                    ..state.clone()
                })
            }
            Call::Close => Some(State { is_closed: true, ..state.clone() }),
            Call::Stopped => Some(State { is_stopped: true, ..state.clone() }),
            Call::Quiet => stay(phase != Phase::Pending || operation.to_ns < deadline_ns),
            Call::End => stay(is_dropped && phase != Phase::Running && phase != Phase::Pending),
        }
    }

    fn label(call: &Call) -> Option<&'static str> {
        Some(match call {
            Call::Schedule(_, Ok(())) => "schedule_waitable: ok",
            Call::Schedule(_, Err(_)) => "schedule_waitable: stopped",
            Call::Reset(_, Ok(())) => "reset: ok",
            Call::Reset(_, Err(Refusal::TooLate)) => "reset: too late",
            Call::Reset(_, Err(Refusal::Stopped)) => "reset: stopped",
            Call::Cancel(true) => "cancel: true",
            Call::Cancel(false) => "cancel: false",
            Call::Settle(Ended::Cancelled) => "cancel_wait: cancelled",
            Call::Settle(_) => "cancel_wait: finished",
            Call::TimedOut => "cancel_wait: timed out",
            Call::Stage(Stage::Pending) => "stage: pending",
            Call::Stage(Stage::Due) => "stage: due",
            Call::Stage(Stage::Running) => "stage: running",
            Call::Stage(Stage::Finished) => "stage: finished",
            Call::Stage(_) => "stage: cancelled",
            Call::Begin { is_by_caller: false } => "the task begins",
            Call::Begin { is_by_caller: true } => "the task begins: run by the stop's caller",
            Call::Drop => "captures dropped",
            Call::Close => "stop",
            Call::Over | Call::Finish | Call::Stopped | Call::Quiet | Call::End => return None,
        })
    }

    fn are_one_event(one: &Call, other: &Call) -> bool {
        let drops = |call: &Call| matches!(call, Call::Cancel(true) | Call::Settle(_));
        (*one == Call::Drop && drops(other)) || (*other == Call::Drop && drops(one))
    }

    fn is_observer(call: &Call) -> bool {
        match call {
            Call::Stage(_) | Call::TimedOut | Call::Over | Call::Quiet => true,
            Call::Reset(_, result) => result.is_err(),
            Call::Cancel(is_so) => !is_so,
            _ => false,
        }
    }
}

/// A task that has not begun is found being dropped, by the caller of a stop that has returned it.
fn discarding(state: &State) -> Option<State> {
    state.is_closed.then(|| State { phase: Phase::Discarding, ..state.clone() })
}
