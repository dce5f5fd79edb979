//! When a timer is due, as C says it.

use std::time::{Duration, Instant};

use tickless::When;

use crate::failure::{Failure, TICKLESS_E_ARGUMENT};
use crate::shell::Inner;
use crate::time::{TICKLESS_NEVER, duration, instant_at, ns_of};

/// `time_ns` is a time, not a delay. One that has passed is due at once.
pub const TICKLESS_AT: u64 = 1;
/// The timer can be waited for: tickless_timer_cancel_wait.
pub const TICKLESS_WAITABLE: u64 = 2;

/// The period of a timer that repeats is a pause between its runs.
pub const TICKLESS_FIXED_DELAY: u64 = 4;

/// When a timer is due. It does not grow.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct TicklessWhen {
    /// A delay or, with TICKLESS_AT, a time.
    pub time_ns: u64,
    /// How much later it may fire, to share a wake-up with others.
    pub slack_ns: u64,
    /// TICKLESS_AT, TICKLESS_WAITABLE, TICKLESS_FIXED_DELAY.
    pub flags: u64,
}

/// A time as it was read.
pub(crate) struct Timing {
    pub(crate) when: When,
    pub(crate) is_waitable: bool,
    pub(crate) has_fixed_delay: bool,
    /// As C said it.
    time_ns: u64,
    flags: u64,
}

// === impl Timing ===

impl Timing {
    /// If ticks reach it.
    pub(crate) fn within(self, inner: &Inner) -> Result<Timing, Failure> {
        inner.check_reach(self.time_ns, self.flags).map(|()| self)
    }

    /// Whether ticks may not reach it.
    pub(crate) fn is_far(&self) -> bool {
        is_far(self.time_ns)
    }

    /// What a call fails with if they do not.
    pub(crate) fn unreached(&self) -> Failure {
        unreached(self.time_ns)
    }

    /// If it was to come once, but the engine's ticks do not reach it: so it was made to be never.
    pub(crate) fn is_unreached(&self, deadline: Option<Instant>) -> Result<(), Failure> {
        if self.is_far() && deadline.is_none() { Err(self.unreached()) } else { Ok(()) }
    }
}

/// Where a look at [`Reach`] is due. It is half of what ticks of 1 ns reach: 104 days.
pub(crate) const FAR: u64 = 1 << 53;

/// Whether a time that is not never may be out of reach.
#[inline]
pub(crate) fn is_far(time_ns: u64) -> bool {
    time_ns >= FAR && time_ns != TICKLESS_NEVER
}

/// The time that the ticks of an engine reach; `None`: all.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reach(Option<u64>);

// === impl Reach ===

impl Reach {
    /// How many ticks an engine's time has.
    const TICKS: u64 = 1 << 54;

    /// Of an engine that is being made, with ticks of that length; 0 is the default.
    pub(crate) fn of_ticks(tick_ns: u64) -> Reach {
        let span_ns = tick_ns.checked_mul(Reach::TICKS).filter(|_| tick_ns > 0);
        Reach(span_ns.and_then(|ns| ns_of(Instant::now()).checked_add(ns)))
    }
}

// === impl Inner ===

impl Inner {
    /// Whether a time or a delay is one that ticks reach. What they do not reach would never fire,
    /// without a word.
    ///
    /// # Errors
    /// It is not, and is not [`TICKLESS_NEVER`].
    #[inline]
    pub(crate) fn check_reach(&self, time_ns: u64, flags: u64) -> Result<(), Failure> {
        if is_far(time_ns) { self.check_far(time_ns, flags) } else { Ok(()) }
    }

    #[cold]
    fn check_far(&self, time_ns: u64, flags: u64) -> Result<(), Failure> {
        let Reach(Some(end_ns)) = self.reach else { return Ok(()) };
        let from_ns = if flags & TICKLESS_AT == 0 { ns_of(self.engine.now()) } else { 0 };
        let is_reached = from_ns.checked_add(time_ns).is_some_and(|ns| ns < end_ns);
        if is_reached { Ok(()) } else { Err(unreached(time_ns)) }
    }
}

#[cold]
pub(crate) fn unreached(time_ns: u64) -> Failure {
    let why = format_args!("ticks do not reach {time_ns} ns; TICKLESS_NEVER is for never");
    Failure::new(TICKLESS_E_ARGUMENT, why)
}

/// A delay as the engine's.
#[inline]
pub(crate) fn after(delay_ns: u64) -> When {
    When::after(duration(delay_ns))
}

/// A time as the engine's.
///
/// # Safety
/// `when` is NULL or points to a time.
pub(crate) unsafe fn when_of(when: *const TicklessWhen) -> Result<Timing, Failure> {
    // SAFETY: passed on to the caller.
    unsafe { when_with(when, TICKLESS_AT | TICKLESS_WAITABLE) }
}

/// As `when_of`, with these flags.
///
/// # Safety
/// As for `when_of`.
pub(crate) unsafe fn when_with(when: *const TicklessWhen, known: u64) -> Result<Timing, Failure> {
    if when.is_null() {
        return Err(Failure::null("when"));
    }
    // SAFETY: as the caller promises.
    let TicklessWhen { time_ns, slack_ns, flags } = unsafe { when.read() };
    if flags & !known != 0 {
        let why = format_args!("the flags {flags:#x} are not all known");
        return Err(Failure::new(TICKLESS_E_ARGUMENT, why));
    }
    let start = match flags & TICKLESS_AT {
        0 => after(time_ns),
        _ => instant_at(time_ns).map_or(When::after(Duration::MAX), When::at),
    };
    let is_waitable = flags & TICKLESS_WAITABLE != 0;
    let has_fixed_delay = flags & TICKLESS_FIXED_DELAY != 0;
    Ok(Timing {
        when: start.slack(duration(slack_ns)),
        is_waitable,
        has_fixed_delay,
        time_ns,
        flags,
    })
}
