//! Timers: the memory that the caller gives, and how a timer is ended, moved and looked at.
//!
//! The first word of the memory is its *mark*: what is in it, and which thread was the last to use
//! it without ending it (`users`). A CAS of the mark decides which of several threads ends a timer.
//! The memory is filled before the timer can fire, and not touched after that by the call that
//! fills it: the callback may end the timer, and `drop_fn` may free the memory, before that call
//! returns.
//!
//! *Owner*: any thread. The call that schedules fills the memory, and is the only one until then:
//! its mark may be that of an earlier timer, and the CAS of a call for that one would not notice. A
//! call that starts a timer again leaves its use in the mark.
//!
//! *Invariants*: who ends a timer moves the handle out of the memory first, which the timer's
//! `drop_fn` may free. Who uses the handle otherwise has left its use in the mark, and is waited
//! for.
//!
//! *Tested by*: `tests/c/published.c`, `tests/c/contended.c`, `tests/c/calls.c`.

use std::ffi::{c_int, c_void};
use std::mem::{self, ManuallyDrop, MaybeUninit};
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};
use std::time::Duration;

use tickless::periodic::Periodic;
use tickless::wait::{Ended, Stage, WaitError, Waiter};
use tickless::{Handle, ResetError, State, When};

use crate::failure::{
    Failure, Outcome, TICKLESS_E_ARGUMENT, TICKLESS_E_CIRCULAR, TICKLESS_E_FORKED,
    TICKLESS_E_HANDLE, TICKLESS_E_INSIDE_TASK, TICKLESS_E_NOT_WAITABLE, TICKLESS_E_STOPPED,
    TICKLESS_E_TIMED_OUT, TICKLESS_E_TOO_LATE, TICKLESS_OK, enter,
};
use crate::memory;
use crate::process;
use crate::task::{Payload, Task};
use crate::time::{TICKLESS_NEVER, delay, duration, ns_of};
use crate::users::{KIND, USE_BITS, Use, wait_for};
use crate::when::{TicklessWhen, after, is_far, unreached, when_of};

/// It waits for its deadline.
pub const TICKLESS_STATE_PENDING: c_int = 1;
/// Its callback has run, runs, or is about to.
pub const TICKLESS_STATE_FIRED: c_int = 2;
/// Its engine stopped first: it never runs.
pub const TICKLESS_STATE_STOPPED: c_int = 3;
/// If it can be waited for: its callback or `drop_fn` runs.
pub const TICKLESS_STATE_RUNNING: c_int = 4;
/// If it can be waited for: that has ended.
pub const TICKLESS_STATE_FINISHED: c_int = 5;

/// A timer, in memory of yours: see TIMERS. All zero, it is none.
#[repr(C)]
#[derive(Debug)]
pub struct TicklessTimer {
    /// Not for the caller.
    pub private_words: [u64; 4],
}

/// What is in a timer's memory.
#[repr(C)]
struct Armed {
    mark: AtomicU64,
    /// A handle, if the mark says so. That of a plain timer is read before the CAS that makes it
    /// the reader's.
    handle: AtomicPtr<()>,
    /// If the mark says so. It is written and read in a use.
    rest: MaybeUninit<Rest>,
}

/// What a timer has besides, by its kind.
union Rest {
    /// Of one that can be waited for.
    waiter: ManuallyDrop<Waiter<Task>>,
    /// Of one that repeats; that has no handle.
    periodic: ManuallyDrop<Periodic>,
}

const _: () = assert!(size_of::<Armed>() <= size_of::<TicklessTimer>());
const _: () = assert!(align_of::<Armed>() <= align_of::<TicklessTimer>());

const PLAIN: u64 = 0x746b << USE_BITS;
const WAITABLE: u64 = 0x7477 << USE_BITS;
const REPEATING: u64 = 0x7470 << USE_BITS;
const ENDED: u64 = 0x7421 << USE_BITS;

const _: () = assert!(size_of::<Handle<Payload>>() == size_of::<*mut ()>());

/// A timer that was moved out of the caller's memory.
enum Taken {
    Plain(Handle<Payload>),
    Lasting(Lasting),
}

/// A timer whose end can be waited for, moved out of the caller's memory.
enum Lasting {
    Waitable(Handle<Payload>, Waiter<Task>),
    Repeating(Periodic),
}

/// Ends a timer. Returns 1 if its callback never runs; its user data was released on this thread.
/// Returns 0 if it is too late: if the callback has begun or, without TICKLESS_WAITABLE, if it is
/// among the 256 that are about to. If one that repeats is in a run, that is the last. Never waits.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tickless_timer_cancel(timer: *mut TicklessTimer) -> c_int {
    enter(|| {
        // SAFETY: it points to a timer, as the header asks.
        match unsafe { take(timer) }? {
            // The one call of it: the engine's code becomes a part of this function.
            Taken::Plain(handle) => Ok(handle.cancel().into()),
            Taken::Lasting(Lasting::Waitable(handle, waiter)) => {
                Ok(revoke(handle, waiter).is_some().into())
            }
            Taken::Lasting(Lasting::Repeating(periodic)) => Ok(periodic.cancel().into()),
        }
    })
}

/// As tickless_timer_cancel, but stores the user data instead of releasing it, or NULL for 0. For
/// one that repeats, always 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tickless_timer_take(
    timer: *mut TicklessTimer,
    user_data: *mut *mut c_void,
) -> c_int {
    enter(|| {
        if user_data.is_null() {
            return Err(Failure::null("user_data"));
        }
        // SAFETY: it points to a pointer, as the header asks. It may lie in what is released below.
        unsafe { user_data.write(std::ptr::null_mut()) };
        // SAFETY: it points to a timer, as the header asks.
        let task = match unsafe { take(timer) }? {
            Taken::Plain(handle) => handle.take().and_then(Payload::into_plain),
            Taken::Lasting(Lasting::Waitable(handle, waiter)) => revoke(handle, waiter),
            Taken::Lasting(Lasting::Repeating(periodic)) => {
                periodic.cancel();
                None
            }
        };
        let Some(task) = task else { return Ok(0) };
        // SAFETY: as above; the user data was not released.
        unsafe { user_data.write(task.into_user_data()) };
        Ok(1)
    })
}

/// Ends a timer with TICKLESS_WAITABLE or one that repeats: cancels it, or waits for the end of its
/// callback and `drop_fn`, but no longer than `limit_ns`. Then what they use can be freed. Returns
/// 1 if it never runs (if it repeats: if this ended it), else 0. It waits for what was started
/// last: if the callback has restarted the timer, not for the callback. Memory that `drop_fn` frees
/// may hold the timer, if the limit is TICKLESS_NEVER.
///
/// Errors, after which it can be ended again: TICKLESS_E_TIMED_OUT, TICKLESS_E_INSIDE_TASK,
/// TICKLESS_E_CIRCULAR, TICKLESS_E_FORKED. And TICKLESS_E_NOT_WAITABLE.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tickless_timer_cancel_wait(
    timer: *mut TicklessTimer,
    limit_ns: u64,
) -> c_int {
    enter(|| {
        let (lasting, left) = loop {
            // SAFETY: it points to a timer, as the header asks.
            let mark = unsafe { live_mark(timer) }?;
            if mark & KIND == PLAIN {
                let why = format_args!("the timer was scheduled without TICKLESS_WAITABLE");
                return Err(Failure::new(TICKLESS_E_NOT_WAITABLE, why));
            }
            // SAFETY: as above, and the mark is not that of a plain one.
            if let Some(taken) = unsafe { take_lasting(timer, mark) }? {
                break taken;
            }
        };
        // SAFETY: passed on to the caller. The memory is there, since the timer has not ended.
        let give_back = |lasting| unsafe { put_back(timer, lasting, left) };
        match lasting {
            Lasting::Repeating(periodic) => {
                let is_cancelled = periodic.cancel();
                if let Err(error) = wait(limit_ns, |limit| periodic.cancel_wait_within(limit)) {
                    give_back(Lasting::Repeating(periodic));
                    return Err(wait_failure(error));
                }
                Ok(is_cancelled.into())
            }
            Lasting::Waitable(handle, mut waiter) => {
                // If it is not cancelled, its timer has fired, or will do nothing.
                if let Some(task) = waiter.take() {
                    drop(handle.take());
                    drop(task);
                    return Ok(1);
                }
                match wait(limit_ns, |limit| waiter.cancel_wait_within(limit)) {
                    Ok(Ended::Finished) => Ok(0),
                    Ok(_) => Ok(1),
                    Err(error) => {
                        give_back(Lasting::Waitable(handle, waiter));
                        Err(wait_failure(error))
                    }
                }
            }
        }
    })
}

/// Lets a timer run without you, or ends one that has fired. NULL is none.
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

/// Moves a timer that is pending to `delay_ns` from now. Those that are moved so in one tick fire
/// together.
///
/// Errors: TICKLESS_E_TOO_LATE; TICKLESS_E_ARGUMENT, it repeats.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tickless_timer_reset(timer: *mut TicklessTimer, delay_ns: u64) -> c_int {
    enter(|| {
        // SAFETY: it points to a timer, as the header asks.
        if is_far(delay_ns) && !unsafe { reaches(timer, after(delay_ns)) } {
            return Err(unreached(delay_ns));
        }
        // SAFETY: it points to a timer, as the header asks.
        unsafe { reset(timer, delay(delay_ns)) }
    })
}

/// As tickless_timer_reset, for a time or a slack.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tickless_timer_reset_when(
    timer: *mut TicklessTimer,
    when: *const TicklessWhen,
) -> c_int {
    enter(|| {
        // SAFETY: it points to a time, as the header asks.
        let timing = unsafe { when_of(when) }?;
        // SAFETY: it points to a timer, as the header asks.
        if timing.is_far() && !unsafe { reaches(timer, timing.when) } {
            return Err(timing.unreached());
        }
        // SAFETY: it points to a timer, as the header asks.
        unsafe { reset(timer, timing.when) }
    })
}

/// Returns one of TICKLESS_STATE_*. One that repeats is pending until it ends.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tickless_timer_state(timer: *const TicklessTimer) -> c_int {
    enter(|| {
        // SAFETY: it points to a timer, as the header asks.
        let borrowed = unsafe { borrow(timer.cast_mut()) }?;
        if let Some(periodic) = borrowed.periodic() {
            let runs = periodic.is_running();
            return Ok(if runs { TICKLESS_STATE_PENDING } else { TICKLESS_STATE_STOPPED });
        }
        let stage = borrowed.waiter().map(Waiter::stage);
        Ok(match (stage, borrowed.handle().state()) {
            (Some(Stage::Running), _) => TICKLESS_STATE_RUNNING,
            (Some(Stage::Finished), _) => TICKLESS_STATE_FINISHED,
            (Some(Stage::Cancelled), _) => TICKLESS_STATE_STOPPED,
            (_, State::Pending) => TICKLESS_STATE_PENDING,
            (_, State::Fired) => TICKLESS_STATE_FIRED,
            (_, _) => TICKLESS_STATE_STOPPED,
        })
    })
}

/// Stores when a timer is or was due, rounded up to the tick; TICKLESS_NEVER if its engine has
/// stopped. If it repeats, its next run or the one under way.
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
        let borrowed = unsafe { borrow(timer) }?;
        let deadline = match borrowed.periodic() {
            Some(periodic) => periodic.next_deadline(),
            None => borrowed.handle().deadline(),
        };
        drop(borrowed);
        // SAFETY: it points to a number, as the header asks.
        unsafe { deadline_ns.write(deadline.map_or(TICKLESS_NEVER, ns_of)) };
        Ok(TICKLESS_OK)
    })
}

/// Fills a timer's memory, in a use of these bits, or in none.
///
/// # Safety
/// `timer` points to memory for a timer, which no other thread knows as one, or waits for.
#[inline]
pub(crate) unsafe fn put(timer: *mut TicklessTimer, handle: Handle<Payload>, bits: u64) {
    // SAFETY: as the caller promises.
    unsafe { set_handle(timer, handle) };
    // SAFETY: as above.
    unsafe { set_mark(timer, PLAIN | bits) };
}

/// As `put`, for a timer that can be waited for.
///
/// # Safety
/// As for `put`.
pub(crate) unsafe fn put_waitable(
    timer: *mut TicklessTimer,
    handle: Handle<Payload>,
    waiter: Waiter<Task>,
    bits: u64,
) {
    // SAFETY: as the caller promises.
    unsafe { set_handle(timer, handle) };
    // SAFETY: as above.
    unsafe { set_rest(timer, Rest { waiter: ManuallyDrop::new(waiter) }) };
    // SAFETY: as above.
    unsafe { set_mark(timer, WAITABLE | bits) };
}

/// As `put`, for a timer that repeats.
///
/// # Safety
/// As for `put`.
pub(crate) unsafe fn put_repeating(timer: *mut TicklessTimer, periodic: Periodic) {
    // SAFETY: as the caller promises.
    unsafe { set_rest(timer, Rest { periodic: ManuallyDrop::new(periodic) }) };
    // SAFETY: as above.
    unsafe { set_mark(timer, REPEATING) };
}

/// # Safety
/// `timer` points to memory for a timer.
unsafe fn set_rest(timer: *mut TicklessTimer, rest: Rest) {
    // SAFETY: as the caller promises.
    unsafe { (&raw mut (*armed(timer)).rest).write(MaybeUninit::new(rest)) };
}

/// # Safety
/// `timer` points to memory for a timer.
#[inline]
unsafe fn set_handle(timer: *mut TicklessTimer, handle: Handle<Payload>) {
    // SAFETY: as the caller promises; the words are aligned.
    let place = unsafe { AtomicPtr::from_ptr((&raw mut (*armed(timer)).handle).cast()) };
    // SAFETY: a handle is a pointer.
    let handle = unsafe { mem::transmute::<Handle<Payload>, *mut ()>(handle) };
    // ORDER: Relaxed - the mark, or the end of the use, publishes it.
    place.store(handle, Ordering::Relaxed);
}

/// # Safety
/// `timer` points to memory for a timer.
#[inline]
unsafe fn set_mark(timer: *mut TicklessTimer, mark: u64) {
    // SAFETY: as the caller promises; the mark comes first, and is aligned.
    let place = unsafe { AtomicU64::from_ptr(timer.cast()) };
    // ORDER: Release - pairs with the Acquire in `live_mark`: what was put is there.
    place.store(mark, Ordering::Release);
}

/// Makes a timer's memory no timer again: it was claimed or filled for one that was refused.
///
/// # Safety
/// The timer was not filed, and no other thread knows the memory as a timer, or it waits for the
/// use. `is_filled` tells whether it was filled, as one that can be waited for.
#[cold]
pub(crate) unsafe fn withdraw(timer: *mut TicklessTimer, is_filled: bool) {
    let from = armed(timer);
    // SAFETY: the caller says that there is one, which is moved out once.
    let rest = is_filled.then(|| unsafe { (&raw const (*from).rest).read().assume_init() });
    // SAFETY: as the caller promises.
    unsafe { set_mark(timer, ENDED) };
    // SAFETY: as above.
    drop(rest.map(|rest| ManuallyDrop::into_inner(unsafe { rest.waiter })));
}

/// As `withdraw`, of a timer that repeats.
///
/// # Safety
/// The timer was filled, and not filed, and no other thread knows the memory as a timer.
#[cold]
pub(crate) unsafe fn withdraw_repeating(timer: *mut TicklessTimer) {
    // SAFETY: the caller says that it is one.
    drop(unsafe { take(timer) });
}

/// Ends what is in the memory, if it is a timer, and claims the memory for another: in the use that
/// this returns, it is filled and filed, or withdrawn.
///
/// # Safety
/// `timer` is NULL or points to a timer, to zeroes, or to a timer that was ended.
pub(crate) unsafe fn claim(timer: *mut TicklessTimer, is_waitable: bool) -> Result<Use, Failure> {
    if timer.is_null() {
        return Err(Failure::null("timer"));
    }
    loop {
        // SAFETY: as the caller promises.
        let place = unsafe { &(*armed(timer)).mark };
        // ORDER: Acquire - as in `live_mark`.
        let mark = place.load(Ordering::Acquire);
        match mark & KIND {
            // SAFETY: as the caller promises.
            PLAIN | WAITABLE | REPEATING => match unsafe { take(timer) } {
                Ok(Taken::Plain(handle)) => drop(handle.take()),
                Ok(Taken::Lasting(Lasting::Waitable(handle, waiter))) => {
                    drop(revoke(handle, waiter));
                }
                Ok(Taken::Lasting(Lasting::Repeating(periodic))) => _ = periodic.cancel(),
                // Another thread has ended it meanwhile.
                Err(failure) if failure.code() == TICKLESS_E_HANDLE => {}
                Err(failure) => return Err(failure),
            },
            _ if mark == 0 || mark & KIND == ENDED => {
                let kind = if is_waitable { WAITABLE } else { PLAIN };
                if let Some(begun) = Use::begin_at(place, mark, kind)? {
                    return Ok(begun);
                }
            }
            _ => return Err(no_timer(mark)),
        }
    }
}

/// Puts a timer back that was taken out and has left that mark, unless it was started again since:
/// then it is detached.
///
/// # Safety
/// `timer` points to memory for a timer.
#[cold]
unsafe fn put_back(timer: *mut TicklessTimer, lasting: Lasting, left: u64) {
    // SAFETY: as the caller promises.
    let place = unsafe { &(*armed(timer)).mark };
    let kind = match lasting {
        Lasting::Waitable(..) => WAITABLE,
        Lasting::Repeating(_) => REPEATING,
    };
    if let Ok(Some(_begun)) = Use::begin_at(place, left, kind) {
        let rest = match lasting {
            Lasting::Waitable(handle, waiter) => {
                // SAFETY: the memory is this thread's while it uses it.
                unsafe { set_handle(timer, handle) };
                Rest { waiter: ManuallyDrop::new(waiter) }
            }
            Lasting::Repeating(periodic) => Rest { periodic: ManuallyDrop::new(periodic) },
        };
        // SAFETY: as above.
        unsafe { set_rest(timer, rest) };
    }
}

/// Moves a timer out of its memory, which is marked: one of several threads succeeds.
///
/// # Safety
/// `timer` is NULL or points to memory for a timer.
#[inline]
unsafe fn take(timer: *mut TicklessTimer) -> Result<Taken, Failure> {
    let from = armed(timer);
    loop {
        // SAFETY: as the caller promises.
        let mark = unsafe { live_mark(timer) }?;
        if mark & KIND != PLAIN {
            // SAFETY: as above; the mark says so.
            match unsafe { take_lasting(timer, mark) }? {
                Some((lasting, _)) => return Ok(Taken::Lasting(lasting)),
                None => continue,
            }
        }
        wait_for(mark)?;
        // ORDER: Relaxed - if the mark is still the same after this, so is the handle.
        // SAFETY: the memory is a timer's.
        let handle = unsafe { &(*from).handle }.load(Ordering::Relaxed);
        // ORDER: AcqRel - one thread ends the timer; it sees the handle that was put, and what the
        // last use has written, which `wait_for` found to be over. Relaxed - it looks again.
        let (to, failed) = (Ordering::AcqRel, Ordering::Relaxed);
        // SAFETY: the memory is a timer's.
        let place = unsafe { &(*from).mark };
        if place.compare_exchange(mark, ENDED, to, failed).is_ok() {
            // SAFETY: the mark said that there is one, and this thread alone moves it out.
            return Ok(Taken::Plain(unsafe { handle_of(handle) }));
        }
    }
}

/// As `take`, of a timer that has this mark and is not a plain one. Returns the mark that is left
/// as well, or `None` if it has changed meanwhile.
///
/// # Safety
/// As for `take`, and it is not NULL.
unsafe fn take_lasting(
    timer: *mut TicklessTimer,
    mark: u64,
) -> Result<Option<(Lasting, u64)>, Failure> {
    debug_assert_ne!(mark & KIND, PLAIN, "there is more than a handle");
    let from = armed(timer);
    // SAFETY: the memory is a timer's.
    let place = unsafe { &(*from).mark };
    // The rest is read in a use, so that nobody starts the timer again meanwhile.
    let Some(begun) = Use::begin_at(place, mark, ENDED)? else { return Ok(None) };
    // SAFETY: this thread alone moves out what there is; with this mark there is more.
    let rest = unsafe { (&raw const (*from).rest).read().assume_init() };
    let lasting = if mark & KIND == REPEATING {
        // SAFETY: as the mark said.
        Lasting::Repeating(ManuallyDrop::into_inner(unsafe { rest.periodic }))
    } else {
        // ORDER: Relaxed - nobody changes it in this use.
        // SAFETY: the memory is a timer's.
        let handle = unsafe { &(*from).handle }.load(Ordering::Relaxed);
        // SAFETY: as the mark said, there is one.
        let handle = unsafe { handle_of(handle) };
        // SAFETY: as the mark said.
        Lasting::Waitable(handle, ManuallyDrop::into_inner(unsafe { rest.waiter }))
    };
    Ok(Some((lasting, ENDED | begun.bits())))
}

/// # Safety
/// It is a handle, which is moved out of the memory or not dropped.
#[inline]
unsafe fn handle_of(word: *mut ()) -> Handle<Payload> {
    // SAFETY: as the caller promises.
    unsafe { mem::transmute::<*mut (), Handle<Payload>>(word) }
}

/// The mark of a timer that is one.
///
/// # Safety
/// As for `take`.
#[inline]
unsafe fn live_mark(timer: *mut TicklessTimer) -> Result<u64, Failure> {
    if timer.is_null() {
        return Err(Failure::null("timer"));
    }
    // SAFETY: the memory is a timer's, so there is a number.
    // ORDER: Acquire - pairs with the AcqRel of the CAS that left a use in it.
    let mark = unsafe { (*armed(timer)).mark.load(Ordering::Acquire) };
    match mark & KIND {
        PLAIN | WAITABLE | REPEATING => Ok(mark),
        _ => Err(no_timer(mark)),
    }
}

#[cold]
fn no_timer(mark: u64) -> Failure {
    let what = match mark & KIND {
        ENDED => "the timer was ended before",
        _ if mark == 0 => "the timer was not scheduled",
        _ => "this is not a timer",
    };
    Failure::new(TICKLESS_E_HANDLE, format_args!("{what}"))
}

/// A timer that this thread uses, and that nobody ends or moves meanwhile.
struct Borrowed {
    armed: *mut Armed,
    /// As the mark says.
    kind: u64,
    _begun: Use,
}

impl Borrowed {
    /// If it repeats.
    fn periodic(&self) -> Option<&Periodic> {
        // SAFETY: nobody ends or moves it meanwhile, and the mark says what there is.
        (self.kind == REPEATING).then(|| unsafe { &*(*self.armed).rest.assume_init_ref().periodic })
    }

    /// If it can be waited for.
    fn waiter(&self) -> Option<&Waiter<Task>> {
        // SAFETY: as above.
        (self.kind == WAITABLE).then(|| unsafe { &*(*self.armed).rest.assume_init_ref().waiter })
    }

    /// The timer's handle, which stays where it is. One that repeats has none.
    #[inline]
    fn handle(&self) -> ManuallyDrop<Handle<Payload>> {
        debug_assert_ne!(self.kind, REPEATING, "it has no handle");
        // ORDER: Relaxed - what was put before this use is there.
        // SAFETY: the memory is a timer's, which the caller of `borrow` has promised.
        let word = unsafe { &(*self.armed).handle }.load(Ordering::Relaxed);
        // SAFETY: the mark says that there is a handle, and this copy is not dropped.
        ManuallyDrop::new(unsafe { handle_of(word) })
    }
}

/// Begins to use a timer without ending it.
///
/// # Safety
/// As for `take`. The memory may be gone as soon as the timer can fire.
#[inline]
unsafe fn borrow(timer: *mut TicklessTimer) -> Result<Borrowed, Failure> {
    // SAFETY: as the caller promises.
    let mut mark = unsafe { live_mark(timer) }?;
    loop {
        // SAFETY: the memory is a timer's.
        let place = unsafe { &(*armed(timer)).mark };
        let kind = mark & KIND;
        if let Some(begun) = Use::begin_at(place, mark, kind)? {
            return Ok(Borrowed { armed: armed(timer), kind, _begun: begun });
        }
        // SAFETY: as the caller promises.
        mark = unsafe { live_mark(timer) }?;
    }
}

#[inline]
fn armed(timer: *mut TicklessTimer) -> *mut Armed {
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
///
/// # Safety
/// As for `borrow`.
#[inline]
unsafe fn reset(timer: *mut TicklessTimer, when: impl Into<When>) -> Outcome {
    process::check()?;
    memory::check()?;
    // SAFETY: as the caller promises.
    let borrowed = unsafe { borrow(timer) }?;
    if borrowed.kind == REPEATING {
        return Err(Failure::new(TICKLESS_E_ARGUMENT, format_args!("a timer that repeats stays")));
    }
    let handle = ManuallyDrop::into_inner(borrowed.handle());
    // SAFETY: the memory is a timer's until the new handle can fire.
    let store = |moved| unsafe { set_handle(timer, moved) };
    // SAFETY: this is a copy of the handle; it is stored where it was, and nobody else uses it.
    let reset = unsafe { handle.reset_with(when, store) };
    // From here on the memory may be gone. The use is over with `borrowed`.
    match reset {
        Ok(()) => Ok(TICKLESS_OK),
        Err(error) => Err(reset_failure(error)),
    }
}

/// Whether the ticks of a timer's engine reach that far. If there is no timer, or none that can be
/// moved, that is not for this call to say.
///
/// # Safety
/// As for `borrow`.
#[cold]
unsafe fn reaches(timer: *mut TicklessTimer, when: When) -> bool {
    if process::check().is_err() {
        return true;
    }
    // SAFETY: as the caller promises.
    unsafe { borrow(timer) }
        .map_or(true, |borrowed| borrowed.kind == REPEATING || borrowed.handle().reaches(when))
}

#[cold]
pub(crate) fn reset_failure(error: ResetError) -> Failure {
    let code = match error {
        ResetError::TooLate => TICKLESS_E_TOO_LATE,
        _ => TICKLESS_E_STOPPED,
    };
    Failure::new(code, format_args!("{error}"))
}

/// Waits, but looks before whether the process is one of which nobody was told.
pub(crate) fn wait<R>(
    limit_ns: u64,
    mut wait: impl FnMut(Duration) -> Result<R, WaitError>,
) -> Result<R, WaitError> {
    match wait(Duration::ZERO) {
        Err(WaitError::TimedOut) if limit_ns > 0 => {
            process::check().map_err(|_| WaitError::Forked)?;
            wait(duration(limit_ns))
        }
        ended => ended,
    }
}

#[cold]
pub(crate) fn wait_failure(error: WaitError) -> Failure {
    let code = match error {
        WaitError::InsideTask => TICKLESS_E_INSIDE_TASK,
        WaitError::Circular => TICKLESS_E_CIRCULAR,
        WaitError::TimedOut => TICKLESS_E_TIMED_OUT,
        _ => TICKLESS_E_FORKED,
    };
    Failure::new(code, format_args!("{error}"))
}
