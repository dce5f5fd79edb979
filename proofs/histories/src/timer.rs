//! The sequential model of a timer with a handle, from the docs of `Engine`, `Handle` and `State`.
//!
//! ```text
//!            ┌─ reset ─┐           handed over
//!  unborn ─► pending ◄─┘ ─► collected ────────► fired
//!    │          │  └───────────┴──── stop ────► returned
//!    │          ├─ cancel, take ──────────────► over
//!    └ refused  └─ reset meets a stop ─► held ─► over
//! ```
//!
//! *Firing* has two steps. A reaper *collects* a timer, from when on the handle is too late. Later
//! the handler *takes* the payload out of its batch; a stop between the two returns the payload.
//! Taking is an operation that begins before the handler asks for the payload, and ends when it has
//! it. Nobody sees a timer being collected. It happens before the payload is taken, and not before
//! the turn that hands the payload over or, where that is not known, not before the earliest
//! deadline that the timer ever had. The run of the task is not a part of firing, because a plain
//! handle tells nothing about it.
//!
//! A stop is two operations on each timer, both from the call to its return: it *closes* the
//! engine, and *returns* the payload or not.
//!
//! *Never early* is a part of the model: no operation finds a timer collected or fired that
//! returned, by the engine's clock, before the deadline that is in force.

use crate::history::{Model, Operation};

/// A call on a timer, and its result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Call {
    /// `Engine::schedule` or `schedule_detached`.
    Schedule(u64, Result<(), Refusal>),
    /// `Handle::reset`.
    Reset(u64, Result<(), Refusal>),
    /// `Handle::cancel`.
    Cancel(bool),
    /// `Handle::take`, and whether there was a payload.
    Take(bool),
    /// The drop of the handle, or `schedule_detached`: nobody has the handle any more.
    Detach,
    /// `Handle::state`.
    State(Seen),
    /// A reaper collects a payload that the handler gets later.
    Collect,
    /// The handler takes the payload out of its batch.
    Fire,
    /// `Engine::stop` or `stop_within`: from here on the engine is closed.
    Close,
    /// The same call: whether the payload is in the result.
    Return {
        /// It is.
        is_returned: bool,
        /// The stop gave up waiting for a task, which has the rest of its batch.
        gave_up: bool,
    },
    /// The recorder has waited until all that was due is over, or for as long as it has patience.
    Quiet,
    /// Nothing comes after this. The engine has stopped, and all handles are gone.
    End,
}

/// An error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// `ResetError::TooLate`.
    TooLate,
    /// `ResetError::Stopped` or `ScheduleReason::Stopped`.
    Stopped,
}

/// A `State`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seen {
    /// `State::Pending`.
    Pending,
    /// `State::Fired`.
    Fired,
    /// `State::Stopped`.
    Stopped,
}

/// Where a payload is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Place {
    /// With the caller, who has not scheduled it.
    #[default]
    Unborn,
    /// `schedule` gave it back.
    Refused,
    /// In the wheel.
    Pending,
    /// With the reaper.
    Collected,
    /// With the handler.
    Fired,
    /// Dropped or returned by its handle.
    Over,
    /// With the caller of `stop`.
    Returned(From),
    /// In its handle: a stop came while it was being moved.
    Held,
}

/// Where a stop took a payload from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum From {
    /// The wheel.
    Wheel,
    /// A reaper that had collected it.
    Reaper,
    /// Either: nothing has told so far.
    Either,
}

/// The state of a timer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct State {
    place: Place,
    /// Not before this.
    deadline_ns: u64,
    is_closed: bool,
}

/// The model of a timer with a handle.
#[derive(Clone, Copy, Debug)]
pub struct Timer;

impl Model for Timer {
    type Call = Call;
    type State = State;

    fn step(state: &State, operation: &Operation<Call>) -> Option<State> {
        let &State { place, deadline_ns, is_closed } = state;
        let to = |place| Some(State { place, ..state.clone() });
        let deadline = |delay: u64| operation.from_ns.saturating_add(delay);
        let stay = |is_so: bool| is_so.then(|| state.clone());
        match operation.call {
            Call::Schedule(delay, Ok(())) if place == Place::Unborn && !is_closed => {
                Some(State { place: Place::Pending, deadline_ns: deadline(delay), is_closed })
            }
            Call::Schedule(_, Err(Refusal::Stopped)) if place == Place::Unborn && is_closed => {
                to(Place::Refused)
            }
            Call::Schedule(..) => None,
            Call::Reset(delay, Ok(())) => (place == Place::Pending && !is_closed)
                .then(|| State { deadline_ns: deadline(delay), ..state.clone() }),
            Call::Reset(_, Err(Refusal::TooLate)) => too_late(state, operation),
            Call::Reset(_, Err(Refusal::Stopped)) => match place {
                Place::Pending if is_closed => to(Place::Held),
                _ => stopped(state),
            },
            Call::Cancel(true) | Call::Take(true) => match place {
                Place::Pending | Place::Held => to(Place::Over),
                _ => None,
            },
            Call::Cancel(false) | Call::Take(false) => match place {
                Place::Returned(_) => to(place),
                _ => too_late(state, operation),
            },
            Call::Detach if place == Place::Held => to(Place::Over),
            Call::Detach => to(place),
            Call::State(Seen::Pending) => stay(place == Place::Pending),
            Call::State(Seen::Fired) => too_late(state, operation),
            Call::State(Seen::Stopped) => stopped(state),
            // An operation that was too late may have shown it before.
            Call::Collect => match place {
                Place::Pending if deadline_ns <= operation.to_ns => to(Place::Collected),
                Place::Collected => to(place),
                _ => None,
            },
            Call::Fire => {
                let is_there = matches!(place, Place::Pending | Place::Collected);
                let is_due = deadline_ns <= operation.to_ns;
                if is_there && is_due && !is_closed { to(Place::Fired) } else { None }
            }
            Call::Close => Some(State { is_closed: true, ..state.clone() }),
            Call::Return { is_returned: true, .. } if is_closed => match place {
                Place::Pending if deadline_ns <= operation.to_ns => {
                    to(Place::Returned(From::Either))
                }
                Place::Pending => to(Place::Returned(From::Wheel)),
                Place::Collected => to(Place::Returned(From::Reaper)),
                _ => None,
            },
            Call::Return { is_returned: true, .. } => None,
            Call::Return { gave_up, .. } => match place {
                Place::Pending if gave_up && deadline_ns <= operation.to_ns => to(Place::Collected),
                Place::Pending => None,
                Place::Collected => stay(gave_up),
                _ => to(place),
            },
            Call::Quiet => match place {
                Place::Pending => stay(operation.to_ns < deadline_ns),
                _ => stay(place != Place::Collected),
            },
            Call::End => stay(!matches!(place, Place::Pending | Place::Collected | Place::Held)),
        }
    }

    fn label(call: &Call) -> Option<&'static str> {
        Some(match call {
            Call::Schedule(_, Ok(())) => "schedule: ok",
            Call::Schedule(_, Err(_)) => "schedule: stopped",
            Call::Reset(_, Ok(())) => "reset: ok",
            Call::Reset(_, Err(Refusal::TooLate)) => "reset: too late",
            Call::Reset(_, Err(Refusal::Stopped)) => "reset: stopped",
            Call::Cancel(true) => "cancel: true",
            Call::Cancel(false) => "cancel: false",
            Call::Take(true) => "take: some",
            Call::Take(false) => "take: none",
            Call::Detach => "drop of the handle",
            Call::State(Seen::Pending) => "state: pending",
            Call::State(Seen::Fired) => "state: fired",
            Call::State(Seen::Stopped) => "state: stopped",
            Call::Collect => "collected",
            Call::Fire => "fire",
            Call::Return { is_returned: true, .. } => "stop: returned",
            Call::Return { gave_up: true, .. } => "stop: not returned, a task still runs",
            Call::Return { .. } => "stop: not returned",
            Call::Close | Call::Quiet | Call::End => return None,
        })
    }

    fn are_one_event(one: &Call, other: &Call) -> bool {
        matches!((one, other), (Call::Collect, Call::Fire) | (Call::Fire, Call::Collect))
    }

    fn is_observer(call: &Call) -> bool {
        match call {
            Call::State(_) | Call::Reset(_, Err(Refusal::TooLate)) | Call::Quiet => true,
            Call::Cancel(is_so) | Call::Take(is_so) => !is_so,
            _ => false,
        }
    }
}

/// The handle finds that its timer has fired.
fn too_late(state: &State, operation: &Operation<Call>) -> Option<State> {
    let place = match state.place {
        Place::Pending if state.deadline_ns <= operation.to_ns => Place::Collected,
        Place::Collected => Place::Collected,
        Place::Fired => Place::Fired,
        Place::Returned(From::Reaper | From::Either) => Place::Returned(From::Reaper),
        _ => return None,
    };
    Some(State { place, ..state.clone() })
}

/// The handle finds that the stop came first.
fn stopped(state: &State) -> Option<State> {
    let place = match state.place {
        Place::Held => Place::Held,
        Place::Returned(From::Wheel | From::Either) => Place::Returned(From::Wheel),
        _ => return None,
    };
    Some(State { place, ..state.clone() })
}
