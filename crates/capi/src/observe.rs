//! What an engine has counted, and what is overdue.

use std::ffi::c_int;

use crate::failure::{Failure, TICKLESS_OK, enter};
use crate::shell::{self, TicklessEngine};
use crate::sized::{self, HasSize};
use crate::time::saturating_ns;

/// Counts. At rest, scheduled = cancelled + fired + returned + pending.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct TicklessStats {
    /// sizeof(tickless_stats_info).
    pub size: usize,
    /// Timers scheduled.
    pub scheduled: u64,
    /// Of these, in the place of a cancelled one.
    pub seated: u64,
    /// Cancelled in time.
    pub cancelled: u64,
    /// Moved by a reset.
    pub reset: u64,
    /// Handed over.
    pub fired: u64,
    /// Returned by a stop.
    pub returned: u64,
    /// Pending now.
    pub pending: u64,
    /// Times that one was filed again.
    pub cascaded: u64,
    /// Cancelled, and kept for no later timer: their memory waits to be used again.
    pub dead: u64,
    /// Callbacks in Rust that panicked.
    pub panicked: u64,
    /// Of shards, from a callback.
    pub takeovers: u64,
    /// Callbacks that run for too long.
    pub stuck: u64,
    /// How long the oldest has been due.
    pub overdue_ns: u64,
    /// Of threads of the engine.
    pub wake_ups: u64,
    /// Half were at most this late.
    pub lateness_p50_ns: u64,
    /// 99 of 100.
    pub lateness_p99_ns: u64,
    /// 999 of 1000.
    pub lateness_p999_ns: u64,
    /// All.
    pub lateness_max_ns: u64,
    /// Fired, and not ended: if this grows, the program forgets to.
    pub unended: u64,
}

// SAFETY: it is `repr(C)`, numbers of eight bytes.
unsafe impl HasSize for TicklessStats {
    const FIRST_SIZE: usize = 152;
}

/// What is overdue in an engine.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct TicklessOverdue {
    /// sizeof(tickless_overdue_info).
    pub size: usize,
    /// How long the oldest timer has been due, at least.
    pub oldest_ns: u64,
    /// With such timers.
    pub shards: u64,
    /// Callbacks that run for too long.
    pub stuck: u64,
}

// SAFETY: it is `repr(C)`, numbers of eight bytes.
unsafe impl HasSize for TicklessOverdue {
    const FIRST_SIZE: usize = 32;
}

/// Stores what the engine has counted. Never waits.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tickless_stats(
    engine: *const TicklessEngine,
    stats: *mut TicklessStats,
) -> c_int {
    enter(|| {
        // SAFETY: it is an engine, as the header asks.
        let inner = unsafe { shell::inner(engine) }?;
        if stats.is_null() {
            return Err(Failure::null("stats"));
        }
        let counted = inner.engine.stats();
        let late = counted.lateness;
        let counted = TicklessStats {
            size: 0,
            scheduled: counted.scheduled,
            seated: counted.seated,
            cancelled: counted.cancelled,
            reset: counted.reset,
            fired: counted.fired,
            returned: counted.returned,
            pending: counted.pending,
            cascaded: counted.cascaded,
            dead: counted.dead,
            panicked: counted.panicked,
            takeovers: counted.takeovers,
            stuck: counted.stuck as u64,
            overdue_ns: saturating_ns(counted.overdue),
            wake_ups: counted.wake_ups,
            lateness_p50_ns: saturating_ns(late.p50),
            lateness_p99_ns: saturating_ns(late.p99),
            lateness_p999_ns: saturating_ns(late.p999),
            lateness_max_ns: saturating_ns(late.max),
            unended: counted.unended,
        };
        // SAFETY: it points to such a struct, as the header asks.
        unsafe { sized::write(stats, &counted) }?;
        Ok(TICKLESS_OK)
    })
}

/// Stores what is overdue. Never waits.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tickless_overdue(
    engine: *const TicklessEngine,
    overdue: *mut TicklessOverdue,
) -> c_int {
    enter(|| {
        // SAFETY: it is an engine, as the header asks.
        let inner = unsafe { shell::inner(engine) }?;
        if overdue.is_null() {
            return Err(Failure::null("overdue"));
        }
        let found = inner.engine.overdue();
        let found = TicklessOverdue {
            size: 0,
            oldest_ns: saturating_ns(found.oldest),
            shards: found.shards as u64,
            stuck: found.stuck.len() as u64,
        };
        // SAFETY: it points to such a struct, as the header asks.
        unsafe { sized::write(overdue, &found) }?;
        Ok(TICKLESS_OK)
    })
}
