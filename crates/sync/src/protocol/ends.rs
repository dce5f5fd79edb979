//! How things with a [hold word](super::hold) end: the public enums, and their codes in the word.

/// A way to end, as a hold word keeps it.
#[doc(hidden)]
pub trait EndCode: Copy + 'static {
    /// All ways to end, in the order of their codes.
    const ALL: &'static [Self];

    /// 1 to 7: zero in the word means that the thing has not ended.
    fn code(self) -> u64;

    /// The end with this code; `None` for zero.
    fn from_code(code: u64) -> Option<Self> {
        Self::ALL.get((code as usize).checked_sub(1)?).copied()
    }
}

/// Why a periodic, a retry or a heartbeat ended.
///
/// ```
/// use std::time::Duration;
/// use tickless::{Engine, ManualClock};
/// use tickless::periodic::{End, Run, Schedule};
///
/// let engine = Engine::builder().manual_clock(&ManualClock::new()).build()?;
/// let second = Duration::from_secs(1);
/// let three_times = |run: &Run| drop(run.number() == 3 && run.cancel());
/// let periodic = Schedule::fixed_rate(second).start(&engine, three_times)?;
/// engine.advance(10 * second)?;
/// assert_eq!(periodic.end(), Some(End::Cancelled));
/// assert_eq!(periodic.runs(), 3);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum End {
    /// It ended by itself: a schedule had no further run, a retry had its outcome, or a heartbeat
    /// fired.
    Finished = 1,
    /// It was cancelled, from outside or from inside its own closure.
    Cancelled,
    /// The engine stopped, or dropped the task in some other way.
    Stopped,
    /// The engine was full when it was to start. (No engine is full for the next timer of what it
    /// has accepted.)
    Full,
    /// The closure that says when the next run is due panicked, or the one that gets the handle
    /// before the first.
    Panicked,
    /// Only for a retry that is a future: its task was not permitted to await the next pause
    /// (`ScheduleReason::Circular`).
    Circular,
}

/// How an operation ended.
///
/// ```
/// use std::time::Duration;
/// use tickless_purgatory::{Decision, Operation, Purgatory};
///
/// struct Join;
/// impl Operation for Join {
///     fn try_complete(&self) -> bool {
///         false
///     }
///     fn on_complete(&self) {}
/// }
///
/// let purgatory = Purgatory::new()?;
/// let minute = Duration::from_secs(60);
/// let arrival = purgatory.try_complete_else_watch(Join.into(), ["group"], minute)?;
/// let ticket = arrival.into_delayed().expect("it cannot complete");
/// purgatory.stop();
/// assert_eq!(ticket.decision(), Some(Decision::Cancelled));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Decision {
    /// It was completed: a try succeeded, or a caller forced it.
    Completed = 1,
    /// Its timeout came first.
    Expired,
    /// It was cancelled, or its purgatory stopped: none of its callbacks is called.
    Cancelled,
}

// === impl End ===

impl EndCode for End {
    const ALL: &'static [End] =
        &[End::Finished, End::Cancelled, End::Stopped, End::Full, End::Panicked, End::Circular];

    fn code(self) -> u64 {
        self as u64
    }
}

// === impl Decision ===

impl EndCode for Decision {
    const ALL: &'static [Decision] = &[Decision::Completed, Decision::Expired, Decision::Cancelled];

    fn code(self) -> u64 {
        self as u64
    }
}
