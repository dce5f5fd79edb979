//! How timers are scheduled.

use std::ffi::{c_int, c_void};
use std::time::Duration;

use tickless::wait::pair;
use tickless::{ScheduleError, When};

use crate::failure::{
    Failure, Outcome, TICKLESS_E_ARGUMENT, TICKLESS_E_FULL, TICKLESS_E_STOPPED, TICKLESS_OK, enter,
};
use crate::shell::{self, Inner, TicklessEngine};
use crate::task::{Payload, Task, TicklessFn, UserData};
use crate::time::{delay, duration, instant_at};
use crate::timer::{TicklessTimer, put, put_waitable, withdraw};

/// For `flags`: `time_ns` is a time as tickless_now_ns counts, not a delay. A time that has passed
/// is due at once.
pub const TICKLESS_AT: u64 = 1;
/// For `flags`: the timer can be waited for, with tickless_timer_cancel_wait. It costs an
/// allocation.
pub const TICKLESS_WAITABLE: u64 = 2;

/// When a timer is due. It does not grow: `flags` may have more bits in later versions.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct TicklessWhen {
    /// A delay in nanoseconds or, with TICKLESS_AT, a time. TICKLESS_NEVER: never.
    pub time_ns: u64,
    /// How much later it may fire, so that it can share a wake-up with others. 0: within a tick.
    pub slack_ns: u64,
    /// TICKLESS_AT and TICKLESS_WAITABLE, or 0.
    pub flags: u64,
}

/// A time as it was read.
pub(crate) struct Timing {
    pub(crate) when: When,
    is_waitable: bool,
}

/// Schedules a timer: when `delay_ns` are over (TICKLESS_NEVER: never), `run(user_data)` is called,
/// and then `drop_fn(user_data)`. `drop_fn` is NULL if there is nothing to release. Stores the
/// timer in `*timer`, over whatever is there; `timer` is NULL if nobody will cancel or move it,
/// which costs less.
///
/// The timer is never early. It is late by less than a tick, plus what the system needs to wake the
/// engine's thread, and other callbacks of its shard take. Never waits. Allocates nothing while the
/// engine has memory of earlier timers.
///
/// Errors, after which `user_data` was released: TICKLESS_E_NULL (of engine and run),
/// TICKLESS_E_HANDLE, TICKLESS_E_FULL, TICKLESS_E_STOPPED.
///
/// Threads: any. In callbacks: yes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tickless_schedule(
    engine: *const TicklessEngine,
    delay_ns: u64,
    run: TicklessFn,
    user_data: *mut c_void,
    drop_fn: TicklessFn,
    timer: *mut TicklessTimer,
) -> c_int {
    enter(|| {
        let task = task(run, user_data, drop_fn)?;
        // SAFETY: it is an engine, as the header asks.
        let inner = unsafe { shell::inner(engine) }?;
        if timer.is_null() {
            return detached(inner, after(delay_ns), task);
        }
        // This is the one call with a duration: so the engine's code becomes a part of this
        // function, without what a delay does not need.
        // SAFETY: it is memory for a timer, as the header asks.
        unsafe { plain(inner, delay(delay_ns), task, timer) }
    })
}

/// As tickless_schedule, for a time that is a deadline or has a slack, or a timer that can be
/// waited for (which needs a `timer`).
///
/// Errors: as tickless_schedule, and TICKLESS_E_ARGUMENT, a flag is not known or `timer` is NULL
/// for TICKLESS_WAITABLE.
///
/// Threads: any. In callbacks: yes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tickless_schedule_when(
    engine: *const TicklessEngine,
    when: *const TicklessWhen,
    run: TicklessFn,
    user_data: *mut c_void,
    drop_fn: TicklessFn,
    timer: *mut TicklessTimer,
) -> c_int {
    enter(|| {
        let task = task(run, user_data, drop_fn)?;
        // SAFETY: it points to a time, as the header asks.
        let Timing { when, is_waitable } = unsafe { when_of(when) }?;
        if is_waitable && timer.is_null() {
            let why = format_args!("a timer that nobody keeps cannot be waited for");
            return Err(Failure::new(TICKLESS_E_ARGUMENT, why));
        }
        // SAFETY: it is an engine, as the header asks.
        let inner = unsafe { shell::inner(engine) }?;
        if timer.is_null() {
            return detached(inner, when, task);
        }
        // SAFETY: it is memory for a timer, as the header asks.
        unsafe {
            if is_waitable {
                waitable(inner, when, task, timer)
            } else {
                plain(inner, when, task, timer)
            }
        }
    })
}

/// Schedules a timer, and fills its memory before it can fire.
///
/// # Safety
/// `timer` points to memory for a timer.
#[inline(always)]
unsafe fn plain(
    inner: &Inner,
    when: impl Into<When>,
    task: Task,
    timer: *mut TicklessTimer,
) -> Outcome {
    let mut is_filled = false;
    let keep = |handle| {
        is_filled = true;
        // SAFETY: it is memory for a timer, as the caller promises.
        unsafe { put(timer, handle) }
    };
    // SAFETY: the handle is stored and no more.
    match unsafe { inner.engine.schedule_with(when, Payload::Plain(task), keep) } {
        // The memory may be gone.
        Ok(()) => Ok(TICKLESS_OK),
        // SAFETY: it was not filed.
        Err(error) => Err(unsafe { refused(error, is_filled.then_some(timer)) }),
    }
}

/// As `plain`, for a timer that can be waited for.
///
/// # Safety
/// As for `plain`.
unsafe fn waitable(inner: &Inner, when: When, task: Task, timer: *mut TicklessTimer) -> Outcome {
    let (guarded, waiter) = pair(task);
    let mut is_filled = false;
    let keep = |handle| {
        is_filled = true;
        // SAFETY: it is memory for a timer, as the caller promises.
        unsafe { put_waitable(timer, handle, waiter) }
    };
    // SAFETY: the handle is stored and no more.
    match unsafe { inner.engine.schedule_with(when, Payload::Waitable(guarded), keep) } {
        Ok(()) => Ok(TICKLESS_OK),
        // SAFETY: it was not filed.
        Err(error) => Err(unsafe { refused(error, is_filled.then_some(timer)) }),
    }
}

/// The timer was refused: its memory, if it was filled, is no timer, and its user data is released.
///
/// # Safety
/// `filled` points to the memory of a timer that was not filed.
#[cold]
unsafe fn refused(error: ScheduleError<Payload>, filled: Option<*mut TicklessTimer>) -> Failure {
    // SAFETY: as the caller promises.
    drop(filled.and_then(|timer| unsafe { withdraw(timer) }));
    refusal(error)
}

/// Schedules a timer that nobody keeps.
#[inline(never)]
fn detached(inner: &Inner, when: When, task: Task) -> Outcome {
    inner.engine.schedule_detached(when, Payload::Plain(task)).map_err(refusal)?;
    Ok(TICKLESS_OK)
}

/// Makes the task, or releases the user data.
#[inline]
fn task(run: TicklessFn, user_data: *mut c_void, drop_fn: TicklessFn) -> Result<Task, Failure> {
    let user_data = UserData::new(user_data, drop_fn);
    run.map(|run| Task::new(run, user_data)).ok_or_else(|| Failure::null("run"))
}

/// A delay as the engine's.
#[inline]
fn after(delay_ns: u64) -> When {
    When::after(duration(delay_ns))
}

/// A time as the engine's.
///
/// # Safety
/// `when` is NULL or points to a time.
pub(crate) unsafe fn when_of(when: *const TicklessWhen) -> Result<Timing, Failure> {
    if when.is_null() {
        return Err(Failure::null("when"));
    }
    // SAFETY: as the caller promises.
    let TicklessWhen { time_ns, slack_ns, flags } = unsafe { when.read() };
    if flags & !(TICKLESS_AT | TICKLESS_WAITABLE) != 0 {
        let why = format_args!("the flags {flags:#x} are not all known");
        return Err(Failure::new(TICKLESS_E_ARGUMENT, why));
    }
    let start = match flags & TICKLESS_AT {
        0 => after(time_ns),
        _ => instant_at(time_ns).map_or(When::after(Duration::MAX), When::at),
    };
    let is_waitable = flags & TICKLESS_WAITABLE != 0;
    Ok(Timing { when: start.slack(duration(slack_ns)), is_waitable })
}

/// The timer was refused, and its user data is released here.
#[cold]
fn refusal(error: ScheduleError<Payload>) -> Failure {
    let code = if error.is_full() { TICKLESS_E_FULL } else { TICKLESS_E_STOPPED };
    let reason = error.reason();
    // This runs foreign code, which may fail in turn and leave a message.
    drop(error.into_payload());
    Failure::new(code, format_args!("{reason}"))
}
