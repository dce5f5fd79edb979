//! Timers: the memory that the caller gives, and how a timer is ended, moved and looked at.
//!
//! *Owner*: one thread at a time, as the header asks.
//!
//! *Invariants*: an ended timer is moved out of its memory first, which its `drop_fn` may free.

use std::ffi::{c_int, c_void};
use std::mem::MaybeUninit;

use tickless::wait::{Ended, Stage, WaitError, Waiter};
use tickless::{Handle, ResetError, State, When};

use crate::failure::{
    Failure, Outcome, TICKLESS_E_CIRCULAR, TICKLESS_E_FORKED, TICKLESS_E_HANDLE,
    TICKLESS_E_INSIDE_TASK, TICKLESS_E_NOT_WAITABLE, TICKLESS_E_STOPPED, TICKLESS_E_TIMED_OUT,
    TICKLESS_E_TOO_LATE, TICKLESS_OK, enter,
};
use crate::schedule::{TicklessWhen, when_of};
use crate::task::{Payload, Task};
use crate::time::{TICKLESS_NEVER, delay, duration, ns_of};

/// A state of a timer: it waits for its deadline.
pub const TICKLESS_STATE_PENDING: c_int = 1;
/// A state of a timer: it was handed over. Its callback has run, runs, or is about to.
pub const TICKLESS_STATE_FIRED: c_int = 2;
/// A state of a timer: its engine stopped first, so it will not run.
pub const TICKLESS_STATE_STOPPED: c_int = 3;
/// A state of a timer that can be waited for: its callback runs, or its user data is being
/// released.
pub const TICKLESS_STATE_RUNNING: c_int = 4;
/// A state of a timer that can be waited for: its callback has returned, and its user data was
/// released.
pub const TICKLESS_STATE_FINISHED: c_int = 5;

/// A timer, in memory of the caller's. tickless_schedule and tickless_schedule_when fill it. From
/// then on it has to be ended once, also if it has fired: by tickless_timer_cancel,
/// tickless_timer_take, tickless_timer_cancel_wait (when that does not fail) or
/// tickless_timer_detach. After that the memory may be used again. If it is never ended, the
/// memory that the engine keeps for it is not used again.
///
/// It may be moved by copying its bytes; only one of the copies may be used then. It may outlive
/// its engine. One thread may use it at a time; that includes the call that schedules it, which
/// writes it before it returns: a callback that uses it may run before that, so it has to wait for
/// a lock that the caller holds meanwhile. If all is zero, it is no timer, and so it is after it
/// was ended: calls return TICKLESS_E_HANDLE.
#[repr(C)]
#[derive(Debug)]
pub struct TicklessTimer {
    /// Not for the caller.
    pub private_words: [u64; 4],
}

/// What is in a timer's memory.
#[repr(C)]
struct Armed {
    mark: u64,
    handle: MaybeUninit<Handle<Payload>>,
    /// If the mark says so.
    waiter: MaybeUninit<Waiter<Task>>,
}

const _: () = assert!(size_of::<Armed>() <= size_of::<TicklessTimer>());
const _: () = assert!(align_of::<Armed>() <= align_of::<TicklessTimer>());

const PLAIN: u64 = u64::from_be_bytes(*b"tickless");
const WAITABLE: u64 = u64::from_be_bytes(*b"ticktock");
const ENDED: u64 = u64::from_be_bytes(*b"ticked!!");

/// A timer that was moved out of the caller's memory.
enum Taken {
    Plain(Handle<Payload>),
    Waitable(Handle<Payload>, Waiter<Task>),
}

/// Ends the timer: its callback will not run, if it has not begun. Returns 1 if it was cancelled by
/// this call: its callback never runs, and its user data was released, on this thread. Returns 0 if
/// it was too late: the callback has run, runs or is about to, or the engine was stopped. Never
/// waits.
///
/// A timer with TICKLESS_WAITABLE can be cancelled until its callback begins, others until they are
/// handed over.
///
/// Errors: TICKLESS_E_NULL, TICKLESS_E_HANDLE.
///
/// Threads: any, one at a time for a timer. In callbacks: yes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tickless_timer_cancel(timer: *mut TicklessTimer) -> c_int {
    enter(|| {
        // SAFETY: it points to a timer, as the header asks.
        match unsafe { take(timer) }? {
            // The one call of it: the engine's code becomes a part of this function.
            Taken::Plain(handle) => Ok(handle.cancel().into()),
            Taken::Waitable(handle, waiter) => Ok(revoke(handle, waiter).is_some().into()),
        }
    })
}

/// As tickless_timer_cancel, and if it returns 1, stores the user data in `*user_data` instead of
/// releasing it. If it returns 0, stores NULL.
///
/// Errors: TICKLESS_E_NULL, TICKLESS_E_HANDLE.
///
/// Threads: any, one at a time for a timer. In callbacks: yes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tickless_timer_take(
    timer: *mut TicklessTimer,
    user_data: *mut *mut c_void,
) -> c_int {
    enter(|| {
        if user_data.is_null() {
            return Err(Failure::null("user_data"));
        }
        // SAFETY: it points to a timer, as the header asks.
        let task = match unsafe { take(timer) }? {
            Taken::Plain(handle) => handle.take().and_then(Payload::into_plain),
            Taken::Waitable(handle, waiter) => revoke(handle, waiter),
        };
        let is_taken = task.is_some();
        let address = task.map_or(std::ptr::null_mut(), Task::into_user_data);
        // SAFETY: it points to a pointer, as the header asks.
        unsafe { user_data.write(address) };
        Ok(is_taken.into())
    })
}

/// Ends a timer with TICKLESS_WAITABLE: cancels it if its callback has not begun, else waits until
/// the callback has returned and the user data was released, but no longer than `limit_ns`
/// (TICKLESS_NEVER: no limit). Returns 1 if it was cancelled, 0 if the callback has run. Then
/// nothing of the timer runs any more: what its callback uses can be freed.
///
/// A timer may lie in the memory that its `drop_fn` frees, if `limit_ns` is TICKLESS_NEVER: with
/// another limit, it has to be there when that is over.
///
/// Errors, after which the timer is still there and can be waited for again: TICKLESS_E_TIMED_OUT,
/// the callback still runs; TICKLESS_E_INSIDE_TASK, this is the callback; TICKLESS_E_CIRCULAR, the
/// callback waits for one that makes this call; TICKLESS_E_FORKED, the callback runs in the parent
/// process. And TICKLESS_E_NULL, TICKLESS_E_HANDLE, TICKLESS_E_NOT_WAITABLE.
///
/// Threads: any, one at a time for a timer. In callbacks: yes, but a callback cannot wait for
/// itself.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tickless_timer_cancel_wait(
    timer: *mut TicklessTimer,
    limit_ns: u64,
) -> c_int {
    enter(|| {
        // SAFETY: it points to a timer, as the header asks.
        if unsafe { mark(timer) }? == PLAIN {
            let why = format_args!("the timer was scheduled without TICKLESS_WAITABLE");
            return Err(Failure::new(TICKLESS_E_NOT_WAITABLE, why));
        }
        // SAFETY: as above.
        let Taken::Waitable(handle, mut waiter) = unsafe { take(timer) }? else {
            unreachable!("the mark says that it has a waiter");
        };
        let task = waiter.take();
        let is_cancelled = task.is_some();
        // If it is not cancelled, its timer has fired, or will do nothing.
        if is_cancelled {
            drop(handle.take());
            drop(task);
            return Ok(1);
        }
        match waiter.cancel_wait_within(duration(limit_ns)) {
            Ok(Ended::Finished) => Ok(0),
            Ok(_) => Ok(1),
            Err(error) => {
                // SAFETY: the caller's memory is there, since the task has not ended.
                unsafe { put_waitable(timer, handle, waiter) };
                Err(wait_failure(error))
            }
        }
    })
}

/// Ends the caller's side of the timer and lets it run: it fires as if nobody had kept it. A timer
/// that has fired needs this as well, or a cancel. NULL is no timer: returns 0.
///
/// Errors: TICKLESS_E_HANDLE.
///
/// Threads: any, one at a time for a timer. In callbacks: yes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tickless_timer_detach(timer: *mut TicklessTimer) -> c_int {
    enter(|| {
        if timer.is_null() {
            return Ok(TICKLESS_OK);
        }
        // SAFETY: it points to a timer, as the header asks.
        drop(unsafe { take(timer) }?);
        Ok(TICKLESS_OK)
    })
}

/// Moves a timer that is pending: it is then due `delay_ns` from now (TICKLESS_NEVER: never), and
/// at no other time.
///
/// Errors: TICKLESS_E_NULL, TICKLESS_E_HANDLE; TICKLESS_E_TOO_LATE, it has fired;
/// TICKLESS_E_STOPPED.
///
/// Threads: any, one at a time for a timer. In callbacks: yes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tickless_timer_reset(timer: *mut TicklessTimer, delay_ns: u64) -> c_int {
    // SAFETY: it points to a timer, as the header asks.
    enter(|| reset(unsafe { handle_mut(timer) }?, delay(delay_ns)))
}

/// As tickless_timer_reset, for a time that is a deadline or has a slack. The flag
/// TICKLESS_WAITABLE makes no difference.
///
/// Errors: as tickless_timer_reset, and TICKLESS_E_ARGUMENT.
///
/// Threads: any, one at a time for a timer. In callbacks: yes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tickless_timer_reset_when(
    timer: *mut TicklessTimer,
    when: *const TicklessWhen,
) -> c_int {
    enter(|| {
        // SAFETY: they point to a timer and a time, as the header asks.
        let (handle, when) = unsafe { (handle_mut(timer)?, when_of(when)?) };
        reset(handle, when.when)
    })
}

/// Returns the state of a timer, one of TICKLESS_STATE_*, which may change right after.
///
/// Errors: TICKLESS_E_NULL, TICKLESS_E_HANDLE.
///
/// Threads: any, one at a time for a timer. In callbacks: yes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tickless_timer_state(timer: *const TicklessTimer) -> c_int {
    enter(|| {
        // SAFETY: it points to a timer, as the header asks.
        let is_waitable = unsafe { mark(timer) }? == WAITABLE;
        // SAFETY: it is one, and nobody changes it meanwhile.
        let armed = unsafe { &*armed(timer) };
        // SAFETY: the mark says that it is there.
        let handle = unsafe { armed.handle.assume_init_ref() };
        // SAFETY: as above.
        let stage = is_waitable.then(|| unsafe { armed.waiter.assume_init_ref() }.stage());
        Ok(match (stage, handle.state()) {
            (Some(Stage::Running), _) => TICKLESS_STATE_RUNNING,
            (Some(Stage::Finished), _) => TICKLESS_STATE_FINISHED,
            (Some(Stage::Cancelled), _) => TICKLESS_STATE_STOPPED,
            (_, State::Pending) => TICKLESS_STATE_PENDING,
            (_, State::Fired) => TICKLESS_STATE_FIRED,
            (_, _) => TICKLESS_STATE_STOPPED,
        })
    })
}

/// Stores in `*deadline_ns` when the timer is or was due, as tickless_now_ns counts, rounded up to
/// the tick. TICKLESS_NEVER: it never fires, or its engine was stopped.
///
/// Errors: TICKLESS_E_NULL, TICKLESS_E_HANDLE.
///
/// Threads: any, one at a time for a timer. In callbacks: yes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tickless_timer_deadline_ns(
    timer: *mut TicklessTimer,
    deadline_ns: *mut u64,
) -> c_int {
    enter(|| {
        if deadline_ns.is_null() {
            return Err(Failure::null("deadline_ns"));
        }
        // SAFETY: it points to a timer, as the header asks.
        let deadline = unsafe { handle_mut(timer) }?.deadline();
        // SAFETY: it points to a number, as the header asks.
        unsafe { deadline_ns.write(deadline.map_or(TICKLESS_NEVER, ns_of)) };
        Ok(TICKLESS_OK)
    })
}

/// Fills a timer's memory.
///
/// # Safety
/// `timer` points to memory for a timer.
#[inline]
pub(crate) unsafe fn put(timer: *mut TicklessTimer, handle: Handle<Payload>) {
    let to = armed(timer).cast_mut();
    // SAFETY: as the caller promises.
    unsafe { (&raw mut (*to).mark).write(PLAIN) };
    // SAFETY: as above.
    unsafe { (&raw mut (*to).handle).write(MaybeUninit::new(handle)) };
}

/// As `put`, for a timer that can be waited for.
///
/// # Safety
/// As for `put`.
pub(crate) unsafe fn put_waitable(
    timer: *mut TicklessTimer,
    handle: Handle<Payload>,
    waiter: Waiter<Task>,
) {
    let (handle, waiter) = (MaybeUninit::new(handle), MaybeUninit::new(waiter));
    // SAFETY: as the caller promises.
    unsafe { armed(timer).cast_mut().write(Armed { mark: WAITABLE, handle, waiter }) };
}

/// Moves a timer out of its memory, which is marked.
///
/// # Safety
/// `timer` is NULL or points to memory for a timer.
#[inline]
unsafe fn take(timer: *mut TicklessTimer) -> Result<Taken, Failure> {
    // SAFETY: as the caller promises.
    let mark = unsafe { mark(timer) }?;
    let from = armed(timer).cast_mut();
    // SAFETY: the mark says that there is one, and it is moved out once: the mark is overwritten.
    let handle = unsafe { (&raw const (*from).handle).read().assume_init() };
    // SAFETY: the memory is a timer's.
    unsafe { (&raw mut (*from).mark).write(ENDED) };
    if mark == PLAIN {
        return Ok(Taken::Plain(handle));
    }
    // SAFETY: as above; with this mark there is a waiter as well.
    Ok(Taken::Waitable(handle, unsafe { (&raw const (*from).waiter).read().assume_init() }))
}

/// The mark of a timer that is one.
///
/// # Safety
/// As for `take`.
#[inline]
unsafe fn mark(timer: *const TicklessTimer) -> Result<u64, Failure> {
    if timer.is_null() {
        return Err(Failure::null("timer"));
    }
    // SAFETY: the memory is a timer's, so there is a number.
    match unsafe { (&raw const (*armed(timer)).mark).read() } {
        mark @ (PLAIN | WAITABLE) => Ok(mark),
        mark => Err(no_timer(mark)),
    }
}

#[cold]
fn no_timer(mark: u64) -> Failure {
    let what = match mark {
        ENDED => "the timer was ended before",
        0 => "the timer was not scheduled",
        _ => "this is not a timer",
    };
    Failure::new(TICKLESS_E_HANDLE, format_args!("{what}"))
}

/// The handle of a timer that is one.
///
/// # Safety
/// As for `take`; nobody else uses the timer while the result is used.
#[inline]
unsafe fn handle_mut<'a>(timer: *mut TicklessTimer) -> Result<&'a mut Handle<Payload>, Failure> {
    // SAFETY: as the caller promises.
    unsafe { mark(timer) }?;
    // SAFETY: the mark says that it is there.
    Ok(unsafe { (*armed(timer).cast_mut()).handle.assume_init_mut() })
}

#[inline]
fn armed(timer: *const TicklessTimer) -> *const Armed {
    timer.cast()
}

/// Ends a timer that can be waited for, and returns its task if that has not begun.
#[inline(never)]
fn revoke(handle: Handle<Payload>, mut waiter: Waiter<Task>) -> Option<Task> {
    let task = waiter.take();
    drop(handle.take());
    task
}

/// Once for each kind of time, so that a delay is not treated as a time that may be anything.
#[inline]
fn reset(handle: &mut Handle<Payload>, when: impl Into<When>) -> Outcome {
    match handle.reset(when) {
        Ok(()) => Ok(TICKLESS_OK),
        Err(error) => Err(reset_failure(error)),
    }
}

#[cold]
fn reset_failure(error: ResetError) -> Failure {
    let code = match error {
        ResetError::TooLate => TICKLESS_E_TOO_LATE,
        _ => TICKLESS_E_STOPPED,
    };
    Failure::new(code, format_args!("{error}"))
}

#[cold]
fn wait_failure(error: WaitError) -> Failure {
    let code = match error {
        WaitError::InsideTask => TICKLESS_E_INSIDE_TASK,
        WaitError::Circular => TICKLESS_E_CIRCULAR,
        WaitError::TimedOut => TICKLESS_E_TIMED_OUT,
        _ => TICKLESS_E_FORKED,
    };
    Failure::new(code, format_args!("{error}"))
}
