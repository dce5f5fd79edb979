//! Where timers go when they fire: one per process, since each measurement has a process.
//!
//! A timer is a token. It is counted or, if room was made for it, stamped with the time, each
//! token into a place of its own.

use std::ops::Range;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crossbeam_utils::CachePadded;

use crate::machine::clock;

/// A timer that tells that everything before it was dealt with; it is not counted.
pub(crate) const FLUSH: u64 = u64::MAX;

/// A timer whose task takes long; it is not counted.
pub(crate) const STUCK: u64 = u64::MAX - 1;

/// Between two looks at what takes seconds, so that looking does not show in the CPU time.
pub(crate) const SELDOM: Duration = Duration::from_millis(5);

/// Between two looks at what takes a millisecond.
const OFTEN: Duration = Duration::from_micros(300);

static FIRED: CachePadded<AtomicU64> = CachePadded::new(AtomicU64::new(0));
/// Of those, the ones that a first poll found due.
static AT_ONCE: AtomicU64 = AtomicU64::new(0);
static FLUSHED: CachePadded<AtomicBool> = CachePadded::new(AtomicBool::new(false));
static STUCK_NS: AtomicU64 = AtomicU64::new(0);
static STAMPS: OnceLock<Box<[AtomicU64]>> = OnceLock::new();

/// The task of every timer of every contender.
#[inline]
pub(crate) fn fire(token: u64) {
    if let Some(stamp) = STAMPS.get().and_then(|stamps| stamps.get(token as usize)) {
        stamp.store(clock::now_ns().max(1), Ordering::Release);
    } else if token >= STUCK {
        fire_special(token);
    } else {
        FIRED.fetch_add(1, Ordering::Relaxed);
    }
}

/// The same for a future that is due at its first poll. A waker may be woken besides, if the
/// deadline passes during that poll: then the timer is counted twice.
#[cold]
pub(crate) fn fire_at_once(token: u64) {
    AT_ONCE.fetch_add(1, Ordering::Relaxed);
    fire(token);
}

#[cold]
fn fire_special(token: u64) {
    match token {
        FLUSH => FLUSHED.store(true, Ordering::Release),
        _ => thread::sleep(Duration::from_nanos(STUCK_NS.load(Ordering::Relaxed))),
    }
}

/// How long the task of [`STUCK`] takes.
pub(crate) fn be_stuck_for(time: Duration) {
    STUCK_NS.store(clock::ns(time), Ordering::Relaxed);
}

/// From now on, tokens below `count` are stamped instead of counted.
pub(crate) fn stamp(count: u64) {
    // Touched here, so that the first store to a page is not charged to a contender.
    let stamps: Box<[AtomicU64]> = (0..count).map(|i| AtomicU64::new(i + 1)).collect();
    stamps.iter().for_each(|stamp| stamp.store(0, Ordering::Relaxed));
    assert!(STAMPS.set(stamps).is_ok(), "a process measures one workload");
}

/// When the timer fired that had this token; 0: not yet.
pub(crate) fn stamped_ns(token: u64) -> u64 {
    STAMPS.get().map_or(0, |stamps| stamps[token as usize].load(Ordering::Acquire))
}

/// Timers that were counted.
pub(crate) fn fired() -> u64 {
    FIRED.load(Ordering::Relaxed)
}

/// Timers that were counted, each once, if `expected` were to fire.
pub(crate) fn fired_of(expected: u64) -> u64 {
    let (fired, at_once) = (fired(), AT_ONCE.load(Ordering::Relaxed));
    if (expected..=expected.saturating_add(at_once)).contains(&fired) { expected } else { fired }
}

/// Waits until all these tokens are stamped, at most for `limit`. How many are not?
pub(crate) fn wait_for_stamps(tokens: Range<u64>, limit: Duration) -> u64 {
    let mut first_missing = tokens.start;
    wait(limit, SELDOM, || {
        while first_missing < tokens.end && stamped_ns(first_missing) != 0 {
            first_missing += 1;
        }
        first_missing == tokens.end
    });
    (first_missing..tokens.end).filter(|&token| stamped_ns(token) == 0).count() as u64
}

/// Waits until the flush timer has fired, at most for `limit`.
pub(crate) fn wait_for_flush(limit: Duration) -> bool {
    let done = wait(limit, OFTEN, || FLUSHED.load(Ordering::Acquire));
    FLUSHED.store(false, Ordering::Relaxed);
    done
}

/// Waits until that many timers were counted, at most for `limit`.
pub(crate) fn wait_for_fired(count: u64, limit: Duration) -> bool {
    wait(limit, SELDOM, || fired() >= count)
}

/// Looks now and then until it is done, or the limit has passed.
pub(crate) fn wait(limit: Duration, pause: Duration, mut is_done: impl FnMut() -> bool) -> bool {
    let begun = Instant::now();
    loop {
        if is_done() {
            return true;
        }
        if begun.elapsed() > limit {
            return false;
        }
        thread::sleep(pause);
    }
}
