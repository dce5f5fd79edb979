//! Engines that their caller drives: turns, what wakes the caller, and clocks that are moved by
//! hand.

use std::ffi::c_int;
use std::ptr;

use tickless::TurnError;

use crate::bells::{Bell, of_shard};
use crate::failure::{
    Failure, TICKLESS_E_DRIVEN, TICKLESS_E_FORKED, TICKLESS_E_INSIDE_TASK, TICKLESS_E_NO_SHARD,
    TICKLESS_E_NOT_MANUAL, TICKLESS_E_STOPPED, TICKLESS_E_THREAD_ENDS, TICKLESS_OK, enter,
};
use crate::shell::{self, Inner, TicklessEngine};
use crate::sized::{self, HasSize};
use crate::time::{TICKLESS_NEVER, duration, ns_of, saturating_ns};

/// What a turn did, and when the next is needed.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct TicklessTurn {
    /// sizeof(tickless_turn_info).
    pub size: usize,
    /// How many timers were handed over.
    pub fired: u64,
    /// When the next turn is needed.
    pub next_ns: u64,
    /// How long to sleep: 0 if there is more to do.
    pub sleep_ns: u64,
}

// SAFETY: it is `repr(C)`, four numbers of eight bytes.
unsafe impl HasSize for TicklessTurn {
    const FIRST_SIZE: usize = 32;
}

/// Calls back what is due of a shard that the caller drives, but at most `fired_max` timers (0:
/// all), and fills `*turn`, unless that is NULL. If it succeeds, the descriptors become unreadable.
/// Run one before the first sleep.
///
/// Errors: TICKLESS_E_DRIVEN, TICKLESS_E_NO_SHARD.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tickless_turn(
    engine: *mut TicklessEngine,
    shard: u32,
    fired_max: u64,
    turn: *mut TicklessTurn,
) -> c_int {
    enter(|| {
        // SAFETY: it is an engine, as the header asks.
        let inner = unsafe { shell::inner(engine) }?;
        let none = TicklessTurn { size: 0, fired: 0, next_ns: 0, sleep_ns: 0 };
        if !turn.is_null() {
            // SAFETY: it points to a turn, as the header asks. If its size is wrong, nothing runs.
            unsafe { sized::write(turn, &none) }?;
        }
        let bell = bell(inner, shard)?;
        let begun = bell.begin();
        let was_rung = bell.clear();
        let fired_max = match fired_max {
            0 => usize::MAX,
            most => usize::try_from(most).unwrap_or(usize::MAX),
        };
        let report = inner.engine.turn_at_most(shard as usize, fired_max).map_err(|error| {
            // There was no turn, so the caller has to be woken for the next.
            if was_rung {
                bell.ring();
            }
            turn_failure(error)
        })?;
        let next_ns = report.next.map_or(TICKLESS_NEVER, ns_of);
        let sleep_ns = report.sleep(inner.engine.now()).map_or(TICKLESS_NEVER, saturating_ns);
        begun.note(if report.more { 0 } else { next_ns }, sleep_ns);
        if !turn.is_null() {
            let turned = TicklessTurn { fired: report.fired as u64, next_ns, sleep_ns, ..none };
            // SAFETY: as above.
            unsafe { sized::write(turn, &turned) }?;
        }
        Ok(TICKLESS_OK)
    })
}

/// Returns the eventfd of a shard. It is readable when a timer was scheduled that is due before
/// `next_ns` of the last turn, and when the engine stops. It is the engine's: do not read or close
/// it.
///
/// Errors: as tickless_turn.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tickless_eventfd(engine: *const TicklessEngine, shard: u32) -> c_int {
    // SAFETY: it is an engine, as the header asks.
    enter(|| Ok(bell(unsafe { shell::inner(engine) }?, shard)?.fd()))
}

/// Returns a descriptor that is readable when a shard needs a turn, so that the loop needs no
/// timeout, also if it is edge-triggered. It is an epoll with the eventfd and a timerfd, which a
/// turn sets if the time has changed: a system call. A manual clock does not make it readable. It
/// is the engine's, as the eventfd.
///
/// Errors: as tickless_turn, and TICKLESS_E_SYSTEM.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tickless_pollable_fd(engine: *const TicklessEngine, shard: u32) -> c_int {
    // SAFETY: it is an engine, as the header asks.
    enter(|| bell(unsafe { shell::inner(engine) }?, shard)?.pollable_fd())
}

/// Stores when a shard needs a turn, 0 for now: also while one is under way, has left something, or
/// several overlapped. Never later than the next timer.
///
/// Errors: as tickless_turn.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tickless_next_deadline_ns(
    engine: *const TicklessEngine,
    shard: u32,
    next_ns: *mut u64,
) -> c_int {
    enter(|| {
        // SAFETY: it is an engine, as the header asks.
        let inner = unsafe { shell::inner(engine) }?;
        if next_ns.is_null() {
            return Err(Failure::null("next_ns"));
        }
        // SAFETY: it points to a number, as the header asks.
        unsafe { next_ns.write(bell(inner, shard)?.next_ns()) };
        Ok(TICKLESS_OK)
    })
}

/// A time to sleep for poll and epoll_wait: in ms, rounded up, -1 for TICKLESS_NEVER.
#[unsafe(no_mangle)]
pub extern "C" fn tickless_timeout_ms(sleep_ns: u64) -> c_int {
    if sleep_ns == TICKLESS_NEVER {
        return -1;
    }
    c_int::try_from(sleep_ns.div_ceil(1_000_000)).unwrap_or(c_int::MAX)
}

/// The same for epoll_pwait2 and ppoll: fills `*room` and returns it, or NULL for TICKLESS_NEVER.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tickless_timespec(
    sleep_ns: u64,
    room: *mut libc::timespec,
) -> *const libc::timespec {
    if sleep_ns == TICKLESS_NEVER {
        return ptr::null();
    }
    let (seconds, rest) = (sleep_ns / 1_000_000_000, sleep_ns % 1_000_000_000);
    // Less than 2^63, and less than a thousand million.
    let time = libc::timespec { tv_sec: seconds as libc::time_t, tv_nsec: rest as libc::c_long };
    // SAFETY: it is room for one, as the header asks.
    unsafe { room.write(time) };
    room
}

/// From now on, timers of the calling thread go to that shard: for threads that each drive one.
///
/// Errors: TICKLESS_E_NO_SHARD, TICKLESS_E_THREAD_ENDS.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tickless_bind_thread(engine: *mut TicklessEngine, shard: u32) -> c_int {
    use tickless::BindError;
    enter(|| {
        // SAFETY: it is an engine, as the header asks.
        let inner = unsafe { shell::inner(engine) }?;
        inner.engine.bind_thread(shard as usize).map_err(|error| {
            let code = match error {
                BindError::NoSuchShard { .. } => TICKLESS_E_NO_SHARD,
                BindError::ThreadEnds => TICKLESS_E_THREAD_ENDS,
                _ => TICKLESS_E_FORKED,
            };
            Failure::new(code, format_args!("{error}"))
        })?;
        Ok(TICKLESS_OK)
    })
}

/// Moves a manual clock, and calls back what becomes due on the way, in order; each sees the time
/// of its deadline. Stores how many, unless `fired` is NULL.
///
/// Errors: TICKLESS_E_NOT_MANUAL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tickless_advance(
    engine: *mut TicklessEngine,
    by_ns: u64,
    fired: *mut u64,
) -> c_int {
    enter(|| {
        // SAFETY: it is an engine, as the header asks.
        let inner = unsafe { shell::inner(engine) }?;
        let count = inner.engine.advance(duration(by_ns)).map_err(turn_failure)?;
        if !fired.is_null() {
            // SAFETY: it points to a number, as the header asks.
            unsafe { fired.write(count as u64) };
        }
        Ok(TICKLESS_OK)
    })
}

/// Moves a manual clock, and leaves the rest to tickless_turn.
///
/// Errors: TICKLESS_E_NOT_MANUAL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tickless_clock_advance(engine: *mut TicklessEngine, by_ns: u64) -> c_int {
    enter(|| {
        // SAFETY: it is an engine, as the header asks.
        let inner = unsafe { shell::inner(engine) }?;
        let clock = inner.clock.as_ref().ok_or_else(|| turn_failure(TurnError::NotManual))?;
        clock.advance(duration(by_ns));
        Ok(TICKLESS_OK)
    })
}

/// The bell of a shard that its caller drives.
fn bell(inner: &Inner, shard: u32) -> Result<&Bell, Failure> {
    let bells = inner.bells.as_ref().ok_or_else(|| turn_failure(TurnError::Driven))?;
    of_shard(bells, shard)
}

#[cold]
fn turn_failure(error: TurnError) -> Failure {
    let code = match error {
        TurnError::Driven => TICKLESS_E_DRIVEN,
        TurnError::InsideTask => TICKLESS_E_INSIDE_TASK,
        TurnError::NoSuchShard { .. } => TICKLESS_E_NO_SHARD,
        TurnError::NotManual => TICKLESS_E_NOT_MANUAL,
        TurnError::Forked => TICKLESS_E_FORKED,
        _ => TICKLESS_E_STOPPED,
    };
    Failure::new(code, format_args!("{error}"))
}
