//! How timers are scheduled.

use std::ffi::{c_int, c_void};

use tickless::periodic::{Schedule, StartReason};
use tickless::wait::pair;
use tickless::{ScheduleError, When};

use crate::failure::{
    Failure, Outcome, TICKLESS_E_ARGUMENT, TICKLESS_E_FULL, TICKLESS_E_STOPPED, TICKLESS_OK, enter,
};
use crate::shell::{self, Inner, TicklessEngine};
use crate::task::{Payload, Task, TicklessFn, UserData};
use crate::time::{delay, duration};
use crate::timer::{
    TicklessTimer, claim, put, put_repeating, put_waitable, tickless_timer_reset, withdraw,
    withdraw_repeating,
};
use crate::users::Use;
use crate::when::{
    TICKLESS_AT, TICKLESS_FIXED_DELAY, TICKLESS_WAITABLE, TicklessWhen, Timing, after, when_of,
    when_with,
};

/// Calls run(user_data) after `delay_ns`, then drop_fn(user_data), unless that is NULL. Fills
/// `*timer`, whatever is there; NULL if nobody will end or move it. Never early; late by less than
/// a tick, a wake-up, and other callbacks of the shard. Never waits.
///
/// Errors: TICKLESS_E_FULL.
#[must_use]
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
        let inner = match unsafe { shell::inner_to_start(engine) } {
            Ok(inner) => inner,
            Err(failure) => return Err(release_after(task, failure)),
        };
        if let Err(failure) = inner.check_reach(delay_ns, 0) {
            return Err(release_after(task, failure));
        }
        if timer.is_null() {
            return detached(inner, after(delay_ns), task);
        }
        // This is the one call with a duration: so the engine's code becomes a part of this
        // function, without what a delay does not need.
        // SAFETY: it is memory for a timer, as the header asks.
        unsafe { start(inner, delay(delay_ns), false, task, timer, None) }
    })
}

/// As tickless_schedule, for a time, a slack, or a timer that can be waited for.
#[must_use]
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
        // SAFETY: they point to an engine and a time, as the header asks.
        let (inner, Timing { when, is_waitable, .. }) =
            match unsafe { checked(engine, when, timer) } {
                Ok(checked) => checked,
                Err(failure) => return Err(release_after(task, failure)),
            };
        if timer.is_null() {
            return detached(inner, when, task);
        }
        // SAFETY: it is memory for a timer, as the header asks.
        unsafe { start(inner, when, is_waitable, task, timer, None) }
    })
}

/// Calls run(user_data) at `first` (NULL: after a period) and every `period_ns` from then on, until
/// the timer is ended, the engine stops, or it is full when a run is to be scheduled. Then calls
/// drop_fn(user_data). The rate is fixed, unless TICKLESS_FIXED_DELAY is set; times that have
/// passed when a run ends are left out. Runs do not overlap, nor allocate.
///
/// Errors: TICKLESS_E_FULL.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tickless_schedule_repeating(
    engine: *const TicklessEngine,
    first: *const TicklessWhen,
    period_ns: u64,
    run: TicklessFn,
    user_data: *mut c_void,
    drop_fn: TicklessFn,
    timer: *mut TicklessTimer,
) -> c_int {
    enter(|| {
        let task = task(run, user_data, drop_fn)?;
        let period = TicklessWhen { time_ns: period_ns, slack_ns: 0, flags: 0 };
        let first = if first.is_null() { &raw const period } else { first };
        // SAFETY: they point to a time and an engine, as the header asks.
        let checked = unsafe {
            let known = TICKLESS_AT | TICKLESS_WAITABLE | TICKLESS_FIXED_DELAY;
            when_with(first, known).and_then(|first| {
                let inner = shell::inner_to_start(engine)?;
                inner.check_reach(period_ns, 0)?;
                Ok((inner, first.within(inner)?))
            })
        };
        let (inner, Timing { when, has_fixed_delay, .. }) = match checked {
            Ok(checked) => checked,
            Err(failure) => return Err(release_after(task, failure)),
        };
        let every = duration(period_ns);
        let schedule = match has_fixed_delay {
            true => Schedule::fixed_delay(every),
            false => Schedule::fixed_rate(every),
        };
        let mut is_filled = false;
        let store = |periodic| {
            if !timer.is_null() {
                is_filled = true;
                // SAFETY: it is memory for a timer, as the header asks.
                unsafe { put_repeating(timer, periodic) };
            }
        };
        let started =
            schedule.starting(when).start_with(&inner.engine, move |_| task.call(), store);
        let Err(error) = started else { return Ok(TICKLESS_OK) };
        if is_filled {
            // SAFETY: it was not filed.
            unsafe { withdraw_repeating(timer) };
        }
        let code = match error.reason() {
            StartReason::Full => TICKLESS_E_FULL,
            StartReason::Stopped => TICKLESS_E_STOPPED,
            _ => TICKLESS_E_ARGUMENT,
        };
        let failure = Failure::new(code, format_args!("{}", error.reason()));
        Err(release_after(error, failure))
    })
}

/// Starts a timer, whatever it is: zero, ended, pending (it is cancelled first) or fired. Also
/// where other threads may end it, and in its callback: a cancel that comes while that runs does
/// not keep it from this. If user data serves several runs, its `drop_fn` is NULL. A callback that
/// runs can no longer be waited for.
///
/// Errors: TICKLESS_E_FULL, TICKLESS_E_STOPPED; the timer is ended then.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tickless_timer_restart(
    engine: *const TicklessEngine,
    timer: *mut TicklessTimer,
    delay_ns: u64,
    run: TicklessFn,
    user_data: *mut c_void,
    drop_fn: TicklessFn,
) -> c_int {
    let when = TicklessWhen { time_ns: delay_ns, slack_ns: 0, flags: 0 };
    // SAFETY: passed on to the caller.
    unsafe { tickless_timer_restart_when(engine, timer, &raw const when, run, user_data, drop_fn) }
}

/// As tickless_timer_restart, for a time, a slack, or a timer that can be waited for.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tickless_timer_restart_when(
    engine: *const TicklessEngine,
    timer: *mut TicklessTimer,
    when: *const TicklessWhen,
    run: TicklessFn,
    user_data: *mut c_void,
    drop_fn: TicklessFn,
) -> c_int {
    enter(|| {
        let task = task(run, user_data, drop_fn)?;
        // SAFETY: they point to an engine, a time and a timer, as the header asks.
        let claimed = unsafe {
            checked(engine, when, timer).and_then(|(inner, Timing { when, is_waitable, .. })| {
                Ok((inner, when, is_waitable, claim(timer, is_waitable)?))
            })
        };
        let (inner, when, is_waitable, begun) = match claimed {
            Ok(claimed) => claimed,
            Err(failure) => return Err(release_after(task, failure)),
        };
        // SAFETY: it was claimed.
        unsafe { start(inner, when, is_waitable, task, timer, Some(begun)) }
    })
}

/// Moves a timer that is pending, and releases the user data of the call; restarts any other. For
/// idle timeouts.
///
/// Errors: as tickless_timer_restart.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tickless_timer_rearm(
    engine: *const TicklessEngine,
    timer: *mut TicklessTimer,
    delay_ns: u64,
    run: TicklessFn,
    user_data: *mut c_void,
    drop_fn: TicklessFn,
) -> c_int {
    // SAFETY: passed on to the caller.
    if run.is_some() && unsafe { tickless_timer_reset(timer, delay_ns) } == TICKLESS_OK {
        return enter(|| {
            drop(UserData::new(user_data, drop_fn));
            Ok(TICKLESS_OK)
        });
    }
    // SAFETY: passed on to the caller.
    unsafe { tickless_timer_restart(engine, timer, delay_ns, run, user_data, drop_fn) }
}

/// Schedules a timer, and fills its memory before it can fire; in a use, if the memory was claimed.
///
/// # Safety
/// `timer` points to memory for a timer.
#[inline(always)]
unsafe fn start(
    inner: &Inner,
    when: impl Into<When>,
    is_waitable: bool,
    task: Task,
    timer: *mut TicklessTimer,
    begun: Option<Use>,
) -> Outcome {
    let (payload, waiter) = match is_waitable {
        false => (Payload::Plain(task), None),
        true => {
            let (guarded, waiter) = pair(task);
            (Payload::from(guarded), Some(waiter))
        }
    };
    let bits = begun.as_ref().map_or(0, Use::bits);
    let mut is_filled = false;
    let store = |handle| {
        is_filled = true;
        // SAFETY: it is memory for a timer, as the caller promises.
        unsafe {
            match waiter {
                None => put(timer, handle, bits),
                Some(waiter) => put_waitable(timer, handle, waiter, bits),
            }
        }
    };
    // SAFETY: the handle is stored and no more.
    let scheduled = unsafe { inner.engine.schedule_with(when, payload, store) };
    scheduled.map_err(|error| {
        if is_filled || begun.is_some() {
            // SAFETY: it was not filed.
            unsafe { withdraw(timer, is_waitable && is_filled) };
        }
        // Who waits for this use does not wait for foreign code, which releases the user data.
        drop(begun);
        refusal(error)
    })?;
    // The memory may be gone.
    Ok(TICKLESS_OK)
}

/// Schedules a timer that nobody keeps.
#[inline(never)]
fn detached(inner: &Inner, when: When, task: Task) -> Outcome {
    inner.engine.schedule_detached(when, Payload::Plain(task)).map_err(refusal)?;
    Ok(TICKLESS_OK)
}

/// The arguments of a call that schedules.
///
/// # Safety
/// `engine` and `when` are NULL or point to what their types say.
unsafe fn checked<'a>(
    engine: *const TicklessEngine,
    when: *const TicklessWhen,
    timer: *mut TicklessTimer,
) -> Result<(&'a Inner, Timing), Failure> {
    // SAFETY: as the caller promises.
    let timing = unsafe { when_of(when) }?;
    if timing.is_waitable && timer.is_null() {
        let why = format_args!("a timer that nobody keeps cannot be waited for");
        return Err(Failure::new(TICKLESS_E_ARGUMENT, why));
    }
    // SAFETY: as the caller promises.
    let inner = unsafe { shell::inner_to_start(engine) }?;
    Ok((inner, timing.within(inner)?))
}

/// Makes the task, or releases the user data.
#[inline]
pub(crate) fn task(
    run: TicklessFn,
    user_data: *mut c_void,
    drop_fn: TicklessFn,
) -> Result<Task, Failure> {
    let user_data = UserData::new(user_data, drop_fn);
    match run {
        Some(run) => Ok(Task::new(run, user_data)),
        None => Err(release_after(user_data, Failure::null("run"))),
    }
}

/// Releases what a call got that has failed. That runs foreign code, whose failures leave messages:
/// the call's own message is left again.
#[cold]
#[inline(never)]
pub(crate) fn release_after<D>(owned: D, failure: Failure) -> Failure {
    let kept = failure.keep();
    drop(owned);
    kept.leave()
}

/// The timer was refused, and its user data is released here.
#[cold]
pub(crate) fn refusal<T>(error: ScheduleError<T>) -> Failure {
    let code = if error.is_full() { TICKLESS_E_FULL } else { TICKLESS_E_STOPPED };
    let reason = error.reason();
    // This runs foreign code, which may fail in turn and leave a message.
    drop(error.into_payload());
    Failure::new(code, format_args!("{reason}"))
}
