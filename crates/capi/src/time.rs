//! Times as C knows them: nanoseconds of `CLOCK_MONOTONIC`.
//!
//! An [`Instant`] is a reading of that clock but does not show its number. So both are read once,
//! one after the other, and everything is computed from there. The number is read first: an instant
//! that is computed from a number is then late by the time between the readings, and never early.

use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};
use std::time::{Duration, Instant};

/// A time that never comes; no limit.
pub const TICKLESS_NEVER: u64 = u64::MAX;

/// Both readings.
#[derive(Clone, Copy)]
struct Anchor {
    ns: u64,
    instant: Instant,
}

/// The instant of a time; `None` if it never comes.
pub(crate) fn instant_at(ns: u64) -> Option<Instant> {
    let anchor = anchor();
    match ns.checked_sub(anchor.ns) {
        _ if ns == TICKLESS_NEVER => None,
        Some(after) => anchor.instant.checked_add(Duration::from_nanos(after)),
        // It has passed, whatever it is.
        None => {
            let before = Duration::from_nanos(anchor.ns - ns);
            Some(anchor.instant.checked_sub(before).unwrap_or(anchor.instant))
        }
    }
}

/// The time of an instant.
pub(crate) fn ns_of(instant: Instant) -> u64 {
    let anchor = anchor();
    match instant.checked_duration_since(anchor.instant) {
        Some(after) => anchor.ns.saturating_add(saturating_ns(after)),
        None => anchor.ns.saturating_sub(saturating_ns(anchor.instant - instant)),
    }
}

/// A duration; [`TICKLESS_NEVER`] is longer than all others.
#[inline]
pub(crate) fn duration(ns: u64) -> Duration {
    if ns == TICKLESS_NEVER { Duration::MAX } else { Duration::from_nanos(ns) }
}

/// A delay from now on. The engine adds it to its time, which saturates at never; so
/// [`TICKLESS_NEVER`] needs no look at it, and the division by which it becomes seconds is undone
/// by the compiler.
#[inline]
pub(crate) fn delay(ns: u64) -> Duration {
    Duration::from_nanos(ns)
}

/// In nanoseconds.
pub(crate) fn saturating_ns(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// Nobody waits for another thread here: in a child process, that thread may not exist.
fn anchor() -> Anchor {
    static ANCHOR: AtomicPtr<Anchor> = AtomicPtr::new(ptr::null_mut());
    // ORDER: Acquire - pairs with the AcqRel below: the readings are there.
    let mut known = ANCHOR.load(Ordering::Acquire);
    if known.is_null() {
        let ours = Box::into_raw(Box::new(Anchor::read()));
        // ORDER: AcqRel, Acquire - publishes the readings, or finds another thread's.
        let (to, failed) = (Ordering::AcqRel, Ordering::Acquire);
        known = match ANCHOR.compare_exchange(ptr::null_mut(), ours, to, failed) {
            Ok(_) => ours,
            Err(theirs) => {
                // SAFETY: it was made above, and nobody has seen it.
                drop(unsafe { Box::from_raw(ours) });
                theirs
            }
        };
    }
    // SAFETY: what was published is never freed nor changed.
    unsafe { *known }
}

impl Anchor {
    /// The thread may be interrupted between the readings: the closest pair of a few.
    fn read() -> Anchor {
        let pairs = (0..8).map(|_| {
            let before = Instant::now();
            let pair = Anchor { ns: monotonic_ns(), instant: Instant::now() };
            (pair.instant - before, pair)
        });
        pairs.min_by_key(|(gap, _)| *gap).map(|(_, pair)| pair).expect("there are some")
    }
}

fn monotonic_ns() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: it writes to the struct, and every Linux has this clock.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}
