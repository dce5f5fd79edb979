//! Faults that a recorder plants between the engine and its record, to show that the check finds
//! them. Each is what a timer with that fault would do, made of calls to an engine without it.

use std::hint;
use std::time::Duration;

use tickless::{Handle, ResetError, State, When};

/// A fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Cancel looks whether the timer is pending, and acts on that later.
    CheckThenActCancel,
    /// Cancel returns `false` although the timer will not fire.
    DenyingCancel,
    /// Reset reports success for a timer that has fired.
    ResetAfterFire,
    /// Reset reports success, and the timer stays where it is.
    ResetThatForgets,
    /// A timer in twenty fires twice.
    FireTwice,
    /// A timer in twenty never fires.
    LostTimer,
    /// Timers fire after half of their delay.
    EarlyFire,
    /// The state of a timer that has fired is pending again, now and then.
    BackwardState,
    /// A stop keeps a payload to itself.
    StopThatForgets,
    /// Two stops return the same payload.
    StopThatRepeats,
    /// A wait for a task that runs does not wait.
    WaitThatReturnsEarly,
    /// A cancel by key looks whether a timer waits, and acts on that later.
    CheckThenActKey,
    /// A replacement reports that it has replaced nothing.
    SilentReplacement,
    /// A reset by key reports success where nothing waits.
    ResetOfNothing,
    /// A task under a key is due, and its key does not find it any more.
    EarlyAbsence,
}

/// Spins for long enough that something may happen meanwhile.
pub fn dawdle() {
    for _ in 0..2_000 {
        hint::spin_loop();
    }
}

/// `Handle::cancel` with a fault.
pub fn cancel<T: Send>(handle: Handle<T>, fault: Option<Fault>) -> bool {
    match fault {
        Some(Fault::CheckThenActCancel) => {
            let is_pending = handle.state() == State::Pending;
            dawdle();
            handle.cancel();
            is_pending
        }
        Some(Fault::DenyingCancel) => {
            handle.cancel();
            false
        }
        _ => handle.cancel(),
    }
}

/// `Handle::reset` with a fault.
///
/// # Errors
/// As `Handle::reset`.
pub fn reset<T: Send>(
    handle: &mut Handle<T>,
    when: When,
    fault: Option<Fault>,
) -> Result<(), ResetError> {
    match fault {
        Some(Fault::ResetAfterFire) => match handle.reset(when) {
            Err(ResetError::TooLate) => Ok(()),
            result => result,
        },
        Some(Fault::ResetThatForgets) if handle.state() == State::Pending => Ok(()),
        _ => handle.reset(when),
    }
}

/// `Handle::state` with a fault. `is_now` says whether it shows this time.
pub fn state<T: Send>(handle: &Handle<T>, fault: Option<Fault>, is_now: bool) -> State {
    match (fault, handle.state()) {
        (Some(Fault::BackwardState), State::Fired) if is_now => State::Pending,
        (_, state) => state,
    }
}

/// The delay that an engine with a fault goes by.
pub fn delay(id: u32, delay: Duration, fault: Option<Fault>) -> Duration {
    match fault {
        Some(Fault::LostTimer) if is_unlucky(id) => Duration::MAX,
        Some(Fault::EarlyFire) => delay / 2,
        _ => delay,
    }
}

/// Whether a fault of single timers shows in this one.
pub fn is_unlucky(id: u32) -> bool {
    id % 20 == 3
}
