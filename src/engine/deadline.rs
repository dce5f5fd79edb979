//! The deadline of a sleep, in the form in which its engine computes.
//!
//! An [`Instant`] is seconds and nanoseconds, and an engine counts nanoseconds from the start of
//! its clock. A sleep converts its deadline when somebody asks for it, not each time that it is
//! scheduled or moved. So that it can do so after its engine has ended, the nanoseconds are counted
//! from an instant that all engines of the process share.
//!
//! *Owner*: any thread; the origin is set once.
//!
//! *Invariant*: a deadline is read by the engine that made it.
//!
//! *Tested by*: `tests/suite/future/sleep.rs`, `tests/suite/future/ends.rs`,
//! `tests/alone/boottime.rs`.

use std::time::{Duration, Instant};

use crate::sync::Global;
use crate::time::Clock;

use super::core::Core;

/// The start of the first engine's clock.
static ORIGIN: Global<Instant> = Global::empty();

/// When a sleep is due.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Deadline {
    /// At this instant, as the caller gave it.
    At(Instant),
    /// So many nanoseconds after the origin.
    AfterOrigin(u64),
    Never,
}

const _: () = assert!(size_of::<Deadline>() == size_of::<Option<Instant>>(), "a sleep is small");

/// How many nanoseconds after the origin the clock starts. `None`: it started before, or its time
/// and the instants are not equally fast.
pub(super) fn start_after_origin_ns(clock: &Clock) -> Option<u64> {
    let start = clock.steady_start()?;
    let origin = ORIGIN.get_or_make(|_| true, || start);
    let after = start.checked_duration_since(*origin)?;
    u64::try_from(after.as_nanos()).ok()
}

// === impl Deadline ===

impl Deadline {
    /// The deadline as an instant. `None`: never.
    pub(crate) fn instant(self) -> Option<Instant> {
        match self {
            Deadline::At(instant) => Some(instant),
            Deadline::AfterOrigin(ns) => {
                ORIGIN.get(|_| true)?.checked_add(Duration::from_nanos(ns))
            }
            Deadline::Never => None,
        }
    }
}

impl From<Option<Instant>> for Deadline {
    fn from(instant: Option<Instant>) -> Deadline {
        instant.map_or(Deadline::Never, Deadline::At)
    }
}

// === impl Core: deadlines ===

impl<T> Core<T> {
    /// The deadline at a time of the engine's clock; `u64::MAX` is never.
    #[inline]
    pub(super) fn deadline_at(&self, due_ns: u64) -> Deadline {
        if due_ns == u64::MAX {
            return Deadline::Never;
        }
        match self.start_after_origin_ns.and_then(|start_ns| start_ns.checked_add(due_ns)) {
            Some(ns) => Deadline::AfterOrigin(ns),
            None => self.instant_deadline(due_ns),
        }
    }

    /// The same, for a clock that has not this form.
    #[cold]
    #[inline(never)]
    fn instant_deadline(&self, due_ns: u64) -> Deadline {
        self.clock.instant_at(due_ns).into()
    }

    /// The time of the engine's clock at which a deadline of this engine is; an earlier one than
    /// the clock's start is zero. `u64::MAX` is never.
    #[inline]
    pub(super) fn due_ns(&self, deadline: Deadline) -> u64 {
        match deadline {
            Deadline::At(instant) => self.clock.ns_at(instant),
            Deadline::AfterOrigin(ns) => {
                debug_assert!(self.start_after_origin_ns.is_some(), "another engine made it");
                ns.saturating_sub(self.start_after_origin_ns.unwrap_or(0))
            }
            Deadline::Never => u64::MAX,
        }
    }

    /// The same deadline, in the form that is quick to read, if it is exactly `due_ns`.
    #[inline]
    pub(super) fn quick(&self, deadline: Deadline, due_ns: u64) -> Deadline {
        match (deadline, self.start_after_origin_ns) {
            // At its ends, the time of the clock may stand for instants beyond.
            (Deadline::At(_), Some(start_ns)) if due_ns > 0 && due_ns < u64::MAX => {
                start_ns.checked_add(due_ns).map_or(deadline, Deadline::AfterOrigin)
            }
            _ => deadline,
        }
    }
}
