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

/// What a turn did, and when the next one is needed. Set `size` to sizeof(tickless_turn_info).
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct TicklessTurn {
    /// sizeof(tickless_turn_info).
    pub size: usize,
    /// How many timers were handed over.
    pub fired: u64,
    /// When the shard needs its next turn, as tickless_now_ns counts. TICKLESS_NEVER: not before a
    /// timer is scheduled on it.
    pub next_ns: u64,
    /// How long the caller may sleep before that: 0 if there is more to do at once, TICKLESS_NEVER
    /// if nothing is scheduled.
    pub sleep_ns: u64,
}

// SAFETY: it is `repr(C)`, four numbers of eight bytes.
unsafe impl HasSize for TicklessTurn {
    const FIRST_SIZE: usize = 32;
}

/// Runs a turn of a shard: calls back what is due, but at most `fired_max` timers (0: all that are
/// due). Describes it in `*turn`, unless that is NULL. First it makes the shard's eventfd
/// unreadable; if the turn then fails, that is undone.
///
/// This is for engines with TICKLESS_DRIVER_CALLER or a manual clock. Turns of different shards may
/// run at the same time; a second turn of one shard waits for the first. Run a turn before the
/// first sleep.
///
/// Errors: TICKLESS_E_NULL, TICKLESS_E_HANDLE; TICKLESS_E_DRIVEN, the engine has threads of its
/// own; TICKLESS_E_NO_SHARD; TICKLESS_E_STOPPED; TICKLESS_E_FORKED; TICKLESS_E_ARGUMENT, the size.
///
/// Threads: any; those of one shard wait for each other. In callbacks: of other engines only (else
/// TICKLESS_E_INSIDE_TASK).
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

/// Returns the eventfd of a shard of an engine that its caller drives. It becomes readable when a
/// timer was scheduled, by whichever thread, that is due before the time that the shard's last turn
/// returned, and when the engine stops: run a turn then. An epoll loop waits for it beside its
/// other descriptors. It belongs to the engine: do not read or close it. It is closed when the
/// engine is freed.
///
/// Errors: TICKLESS_E_NULL, TICKLESS_E_HANDLE, TICKLESS_E_DRIVEN, TICKLESS_E_NO_SHARD.
///
/// Threads: any. In callbacks: yes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tickless_eventfd(engine: *const TicklessEngine, shard: u32) -> c_int {
    // SAFETY: it is an engine, as the header asks.
    enter(|| Ok(bell(unsafe { shell::inner(engine) }?, shard)?.fd()))
}

/// Returns one descriptor for all that a loop has to wait for, of a shard of an engine that its
/// caller drives. It is readable when the shard needs a turn: when a timer is due, when the eventfd
/// is readable, and before the first turn. So a loop of any kind adds this one descriptor, needs no
/// timeout, and calls tickless_turn when it is readable, and only then. It sleeps to the
/// nanosecond. The next turn makes it unreadable, unless that fails. A clock that is moved by hand
/// makes it readable only with the turn that finds more to do: run a turn after
/// tickless_clock_advance.
///
/// It is an epoll of the eventfd and a timerfd, made when it is first asked for. From then on a
/// turn sets the timer, which is a system call if the time is another than before. A loop that has
/// a timeout anyway needs less with tickless_eventfd.
///
/// It belongs to the engine: do not read, change or close it. It is closed when the engine is
/// freed.
///
/// Errors: TICKLESS_E_NULL, TICKLESS_E_HANDLE, TICKLESS_E_DRIVEN, TICKLESS_E_NO_SHARD;
/// TICKLESS_E_SYSTEM, the system refused a descriptor; TICKLESS_E_FORKED.
///
/// Threads: any. In callbacks: yes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tickless_pollable_fd(engine: *const TicklessEngine, shard: u32) -> c_int {
    // SAFETY: it is an engine, as the header asks.
    enter(|| bell(unsafe { shell::inner(engine) }?, shard)?.pollable_fd())
}

/// Stores in `*next_ns` when a shard of an engine that its caller drives needs its next turn, as
/// tickless_now_ns counts: what its last turn has returned, or 0 if that is now. It is now if a
/// timer was scheduled that is due earlier, if there was no turn yet or the last one left more to
/// do, while a turn is under way (also in its callbacks), and after turns of several threads
/// overlapped. So this is never later than the next timer, but it may be earlier: a timer that was
/// cancelled still counts until a turn. TICKLESS_NEVER: nothing is scheduled.
///
/// Errors: as tickless_eventfd.
///
/// Threads: any. In callbacks: yes.
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

/// Returns a time as poll and epoll_wait want it: in milliseconds, rounded up, -1 for
/// TICKLESS_NEVER.
///
/// Threads: any. In callbacks: yes.
#[unsafe(no_mangle)]
pub extern "C" fn tickless_timeout_ms(sleep_ns: u64) -> c_int {
    if sleep_ns == TICKLESS_NEVER {
        return -1;
    }
    c_int::try_from(sleep_ns.div_ceil(1_000_000)).unwrap_or(c_int::MAX)
}

/// Returns a time as epoll_pwait2, ppoll and pselect want it: fills `*room` and returns it, or
/// returns NULL for TICKLESS_NEVER. So a loop sleeps to the nanosecond, where tickless_timeout_ms
/// rounds up to a millisecond. `room` must not be NULL.
///
/// Threads: any. In callbacks: yes.
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

/// Binds the calling thread to a shard: from now on its timers go there. For threads that each
/// drive one shard.
///
/// Errors: TICKLESS_E_NULL, TICKLESS_E_HANDLE, TICKLESS_E_NO_SHARD, TICKLESS_E_FORKED;
/// TICKLESS_E_THREAD_ENDS, the call comes from the end of a thread.
///
/// Threads: any: the one that calls is bound. In callbacks: yes.
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

/// Moves a manual clock forward, and calls back all timers that become due on the way, in order;
/// each sees the time of its deadline. Stores in `*fired` how many, unless that is NULL. (A
/// callback that schedules itself with no delay at all keeps this from returning.)
///
/// Errors: TICKLESS_E_NULL, TICKLESS_E_HANDLE; TICKLESS_E_NOT_MANUAL; TICKLESS_E_STOPPED;
/// TICKLESS_E_FORKED.
///
/// Threads: any, one at a time. In callbacks: of other engines only (else TICKLESS_E_INSIDE_TASK).
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

/// Moves a manual clock forward and calls nothing back: that is left to tickless_turn.
///
/// Errors: TICKLESS_E_NULL, TICKLESS_E_HANDLE, TICKLESS_E_NOT_MANUAL.
///
/// Threads: any. In callbacks: yes.
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
