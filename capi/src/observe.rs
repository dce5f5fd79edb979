//! What an engine has counted, and what is overdue.

use std::ffi::c_int;

use crate::failure::{Failure, TICKLESS_OK, enter};
use crate::shell::{self, TicklessEngine};
use crate::sized::{self, HasSize};
use crate::time::saturating_ns;

/// What an engine has counted since it was made. Set `size` to sizeof(tickless_stats_info). While
/// other threads use the engine, the numbers need not add up; at rest,
/// scheduled = cancelled + fired + returned + pending.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct TicklessStats {
    /// sizeof(tickless_stats_info).
    pub size: usize,
    /// Timers scheduled.
    pub scheduled: u64,
    /// How often a timer took the place of a cancelled one.
    pub seated: u64,
    /// Timers cancelled before they fired.
    pub cancelled: u64,
    /// Resets that moved a timer.
    pub reset: u64,
    /// Timers handed over.
    pub fired: u64,
    /// Timers returned because the engine stopped.
    pub returned: u64,
    /// Timers pending.
    pub pending: u64,
    /// Times that a timer was filed again, in another bucket.
    pub cascaded: u64,
    /// Cancelled timers whose memory waits to be used again.
    pub dead: u64,
    /// Callbacks that panicked, if they are written in Rust.
    pub panicked: u64,
    /// Times that a shard became saturated: more than a second behind.
    pub saturations: u64,
    /// Times that a shard was taken over from a callback that kept it for too long.
    pub takeovers: u64,
    /// Callbacks that keep their shard for too long now.
    pub stuck: u64,
    /// The age of the oldest timer that is due and was not handed over.
    pub overdue_ns: u64,
    /// Times that a thread of the engine woke up.
    pub wake_ups: u64,
    /// Half of the timers were handed over at most this late.
    pub lateness_p50_ns: u64,
    /// 99 of 100 timers were at most this late.
    pub lateness_p99_ns: u64,
    /// 999 of 1000 timers were at most this late.
    pub lateness_p999_ns: u64,
    /// No timer was later than this.
    pub lateness_max_ns: u64,
    /// Timers that have fired and that nobody has ended or started again: their memory serves no
    /// other timer. If this grows, the program forgets to end its timers.
    pub unended: u64,
}

// SAFETY: it is `repr(C)`, numbers of eight bytes.
unsafe impl HasSize for TicklessStats {
    const FIRST_SIZE: usize = 160;
}

/// What is overdue in an engine. Set `size` to sizeof(tickless_overdue_info).
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct TicklessOverdue {
    /// sizeof(tickless_overdue_info).
    pub size: usize,
    /// The age of the oldest timer that is due and was not handed over, at least. Zero: none.
    pub oldest_ns: u64,
    /// How many shards have such timers.
    pub shards: u64,
    /// How many callbacks keep their shard for too long now.
    pub stuck: u64,
}

// SAFETY: it is `repr(C)`, numbers of eight bytes.
unsafe impl HasSize for TicklessOverdue {
    const FIRST_SIZE: usize = 32;
}

/// Stores in `*stats` what the engine has counted. Waits for no lock.
///
/// Errors: TICKLESS_E_NULL, TICKLESS_E_HANDLE; TICKLESS_E_ARGUMENT, the size.
///
/// Threads: any. In callbacks: yes.
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
            saturations: counted.saturations,
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

/// Stores in `*overdue` for how long timers have been due that were not handed over, and how many
/// callbacks are stuck. Any thread may call this, whatever state the engine is in.
///
/// Errors: TICKLESS_E_NULL, TICKLESS_E_HANDLE; TICKLESS_E_ARGUMENT, the size.
///
/// Threads: any. In callbacks: yes.
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
