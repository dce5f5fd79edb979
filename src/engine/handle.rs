//! The caller's end of a timer, and a guard that cancels a timer when it is dropped.

use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;
use std::time::Instant;

use crate::dispatch::Task;
use crate::entry::{Entry, Phase, Reset};
use crate::error::ResetError;
use crate::producer::{self, Moved};
use crate::sync::prefetch_to_write;
use crate::time::{Moment, Tick};

use super::thread_cache::{self, Lent, Producers, ThreadCache};
use super::{When, limits};

/// The caller's end of a timer: cancel, reset or inspect it.
///
/// One word in size. There is one handle per timer; it can be sent to and used from any thread.
/// Dropping it *detaches* the timer, which still fires; [`Handle::cancel_on_drop`] does the
/// opposite. A handle may outlive its engine; a timer that was pending is then [`State::Stopped`].
///
/// ```
/// use std::time::Duration;
/// use tickless::{Engine, State};
///
/// let engine = Engine::new()?;
/// let mut timeout = engine.schedule(Duration::from_secs(5), || println!("timed out"))?;
/// timeout.reset(Duration::from_secs(30))?;
/// assert_eq!(timeout.state(), State::Pending);
/// assert!(timeout.cancel());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "a dropped handle detaches its timer; `schedule_detached` costs less"]
pub struct Handle<T: Send + 'static = Task> {
    entry: NonNull<Entry<T>>,
    payload: PhantomData<T>,
}

const _: () = assert!(size_of::<Option<Handle>>() == size_of::<usize>(), "a handle is a word");

/// The state of a timer.
///
/// ```
/// use std::time::Duration;
/// use tickless::{Engine, ManualClock, State};
///
/// let engine = Engine::builder().manual_clock(&ManualClock::new()).build()?;
/// let soon = engine.schedule(Duration::from_secs(1), || println!("due"))?;
/// let later = engine.schedule(Duration::from_secs(9), || println!("due"))?;
/// assert_eq!(soon.state(), State::Pending);
/// engine.advance(Duration::from_secs(1))?;
/// assert_eq!(soon.state(), State::Fired);
/// engine.stop()?;
/// assert_eq!(later.state(), State::Stopped);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum State {
    /// The timer waits for its deadline.
    Pending,
    /// A reaper has collected the payload, which is too late for the handle. The payload was handed
    /// over, or is about to be, unless a stop comes first and returns it. Until then,
    /// [`Engine::len`](crate::Engine::len) and [`Stats`](crate::Stats) count it as pending.
    Fired,
    /// The engine stopped first. The stop returned the payload, or left it in the handle: see
    /// [`Handle::reset`].
    Stopped,
}

/// A handle that cancels when it is dropped: a [`Handle`], a [`Waitable`](crate::Waitable), or that
/// of a keyed timer, a periodic task or a retry.
///
/// ```
/// use std::time::Duration;
/// use tickless::Engine;
///
/// let engine = Engine::new()?;
/// {
///     let _deadline = engine
///         .schedule(Duration::from_secs(5), || eprintln!("this takes too long"))?
///         .cancel_on_drop();
///     // Do the work here. If it ends in time, in whichever way, nothing is printed.
/// }
/// assert_eq!(engine.len(), 0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
#[must_use = "a guard that is dropped at once cancels at once"]
pub struct CancelOnDrop<H: Cancel = Handle>(Option<H>);

/// A handle that can cancel: of this crate alone.
pub trait Cancel {
    /// Cancels.
    fn cancel(self);

    /// A guard that cancels when it is dropped.
    fn guarded(self) -> CancelOnDrop<Self>
    where
        Self: Sized,
    {
        CancelOnDrop::new(self)
    }
}

// SAFETY: a handle reaches its entry through atomic operations only, and the payload moves to the
// thread that wins it, which `T: Send` permits.
unsafe impl<T: Send + 'static> Send for Handle<T> {}
// SAFETY: a shared handle offers only atomic reads.
unsafe impl<T: Send + 'static> Sync for Handle<T> {}

// === impl Handle ===

impl<T: Send + 'static> Handle<T> {
    /// Makes the handle of a pending entry that has the held bit set.
    pub(super) fn new(entry: NonNull<Entry<T>>) -> Handle<T> {
        Handle { entry, payload: PhantomData }
    }

    /// Cancels the timer. Returns `true` if it will never fire: its payload was dropped here, on
    /// this thread. Returns `false` if it has fired already, or its engine's stop has returned the
    /// payload.
    ///
    /// One compare-and-swap, and now and then work for the memory of many; never waits. O(1).
    ///
    /// # Panics
    /// Dropping the payload panics. The timer is cancelled all the same.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tickless::{Engine, ManualClock};
    /// let engine = Engine::builder().manual_clock(&ManualClock::new()).build()?;
    /// let answered = engine.schedule(Duration::from_secs(5), || println!("no answer"))?;
    /// let lost = engine.schedule(Duration::from_secs(5), || println!("no answer"))?;
    /// assert!(answered.cancel());
    /// assert_eq!(engine.advance(Duration::from_secs(5))?, 1);
    /// assert!(!lost.cancel(), "too late");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn cancel(self) -> bool {
        let handle = ManuallyDrop::new(self);
        // SAFETY: this was the handle, and `Producers` finds the thread's producer by the engine.
        unsafe { producer::cancel(handle.entry, Producers) }
    }

    /// Cancels the timer and returns its payload. Returns `None` if it has fired already, or its
    /// engine's stop has returned the payload. Costs the same as [`cancel`](Handle::cancel).
    #[must_use = "`cancel` drops the payload, and costs the same"]
    pub fn take(self) -> Option<T> {
        self.take_of_kind::<false>()
    }

    /// As [`take`](Handle::take), for the timer of a sleep, which is exempt from the limit.
    pub(crate) fn take_from_sleep(self) -> Option<T> {
        self.take_of_kind::<true>()
    }

    #[inline(always)]
    fn take_of_kind<const EXEMPT: bool>(self) -> Option<T> {
        let handle = ManuallyDrop::new(self);
        // SAFETY: this was the handle, and `Producers` finds the thread's producer.
        let payload = unsafe { producer::cancel_and_take::<T, _, EXEMPT>(handle.entry, Producers) };
        debug_assert!(!EXEMPT || payload.iter().all(limits::is_exempt));
        payload
    }

    /// Moves the timer: it is then due at `when` (a [`Duration`](std::time::Duration) from now, an
    /// [`Instant`], or a [`When`]), and at no other time.
    ///
    /// One compare-and-swap if the new time is not much earlier than the old one (not before its
    /// bucket opens, which is not due yet), else the cost of a cancel and a schedule. Never waits.
    /// O(1).
    ///
    /// For a timer that repeats, take [`Schedule::spread`](crate::periodic::Schedule::spread): many
    /// timers that are moved from the present when they are due slide into one tick and stay there.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tickless::{Engine, ManualClock};
    /// let engine = Engine::builder().manual_clock(&ManualClock::new()).build()?;
    /// let minute = Duration::from_secs(60);
    /// let mut idle = engine.schedule(minute, || println!("a minute of silence"))?;
    /// engine.advance(minute / 2)?;
    /// idle.reset(minute)?; // a packet came
    /// assert_eq!(engine.advance(minute / 2)?, 0);
    /// assert_eq!(engine.advance(minute / 2)?, 1);
    /// assert!(idle.reset(minute).is_err(), "too late");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// The timer has fired, or the engine has stopped. If the stop comes while the timer is being
    /// moved to another place in the wheel, or in a child process, the payload stays in the handle:
    /// the timer does not fire, and `stop` does not return the payload. [`take`](Handle::take)
    /// returns it, and dropping the
    /// handle drops it.
    #[inline]
    pub fn reset(&mut self, when: impl Into<When>) -> Result<(), ResetError> {
        let this = Handle::new(self.entry);
        // SAFETY: this is the handle, and `store` saves its new value.
        unsafe { this.reset_with(when, |moved| self.entry = ManuallyDrop::new(moved).entry) }
    }

    /// As [`reset`](Handle::reset), of a copy of a handle that lies where the timer's task reaches
    /// it: if the handle changes, `store` gets it before the timer can fire.
    ///
    /// # Errors
    /// As [`reset`](Handle::reset).
    ///
    /// # Safety
    /// `store` saves the handle and does no more: it neither uses nor drops it, does not use the
    /// engine, and does not panic. The stored handle is not used meanwhile.
    #[doc(hidden)]
    #[inline]
    pub unsafe fn reset_with(
        self,
        when: impl Into<When>,
        store: impl FnOnce(Handle<T>),
    ) -> Result<(), ResetError> {
        let this = ManuallyDrop::new(self);
        let when = when.into();
        // The entry may not be in the processor's cache: it is fetched while the time is read.
        prefetch_to_write(this.entry.addr().get());
        let moment = Moment::now();
        let number = this.as_entry().engine();
        let Some(mut cache): Option<Lent<T>> = thread_cache::of(number) else {
            return Err(this.refusal());
        };
        let ThreadCache { core, producer, thread_clock, shard, .. } = &mut *cache;
        let now_ns = thread_clock.at_ns(&core.clock, moment);
        let (deadline, now) = (when.tick(core, now_ns), || core.scale.floor(now_ns));
        let due = || thread_clock.tick();
        let shard = &core.shards[*shard as usize];
        let store = |entry| store(Handle::new(entry));
        // SAFETY: this is the handle, and each outcome is handled below; as for `store`, passed on
        // to the caller.
        match unsafe { producer.reset(&core.shared, shard, this.entry, deadline, now, due, store) }
        {
            Moved::Here => Ok(()),
            Moved::Elsewhere(deferred) => {
                cache.give_back_with_timer(deferred);
                Ok(())
            }
            // As `refusal` says. (As one arm, the two take 16 instructions more of a request.)
            Moved::Stranded => Err(ResetError::Stopped),
            Moved::Gone => Err(this.refusal()),
        }
    }

    /// Whether the engine's time reaches `when`: if not, a reset to it makes the timer never fire.
    /// Returns `true` if the engine is not there any more.
    #[doc(hidden)]
    pub fn reaches(&self, when: When) -> bool {
        let Some(mut cache): Option<Lent<T>> = thread_cache::of(self.as_entry().engine()) else {
            return true;
        };
        let now_ns = cache.now_ns();
        when.tick(&cache.core, now_ns) < Tick::NEVER
    }

    /// Returns the state of the timer, which may change right after. One atomic load.
    pub fn state(&self) -> State {
        let word = self.as_entry().word();
        match word.phase() {
            Phase::Pending if word.in_list() => State::Pending,
            Phase::Fired => State::Fired,
            _ => State::Stopped,
        }
    }

    /// Returns when the timer is due (or was, if it has fired): its deadline rounded up to the
    /// tick. Returns `None` if it never fires, or if its engine has stopped or is the parent
    /// process's.
    pub fn deadline(&self) -> Option<Instant> {
        let entry = self.as_entry();
        let deadline = entry.word().deadline();
        let cache: Lent<T> = thread_cache::of(entry.engine())?;
        // A stopped engine may still be in some thread's cache, so the result must not depend on
        // whether it is found.
        if cache.core.is_stopping() { None } else { cache.core.instant_of(deadline) }
    }

    /// Turns the handle into a guard that cancels the timer when it is dropped, also during a
    /// panic.
    pub fn cancel_on_drop(self) -> CancelOnDrop<Handle<T>> {
        CancelOnDrop::new(self)
    }

    /// The handle's entry, for calls that need its address.
    pub(super) fn entry(&self) -> NonNull<Entry<T>> {
        self.entry
    }

    /// The handle's entry.
    #[inline]
    pub(super) fn as_entry(&self) -> &Entry<T> {
        // SAFETY: the handle keeps the entry allocated.
        unsafe { self.entry.as_ref() }
    }

    /// Moves the timer if one CAS on its word can: see
    /// [`Entry::reset`](crate::entry::Entry::reset). Calls no foreign code, allocates nothing, and
    /// leaves it to the caller to count the move.
    pub(crate) fn reset_in_place(&mut self, deadline: Tick, due: Tick) -> bool {
        // SAFETY: this is the handle.
        matches!(unsafe { self.as_entry().reset(deadline, due) }, Reset::Moved)
    }

    /// Why the timer could not be moved.
    #[cold]
    fn refusal(&self) -> ResetError {
        if self.state() == State::Fired { ResetError::TooLate } else { ResetError::Stopped }
    }
}

// A panic leaves the timer consistent: a payload is moved out before it is run or dropped, and no
// part of a handle is borrowed then.
unwind_safe! { impl[T: Send + 'static] Handle[T] }

impl<T: Send + 'static> Cancel for Handle<T> {
    fn cancel(self) {
        Handle::cancel(self);
    }
}

impl<T: Send + 'static> Drop for Handle<T> {
    fn drop(&mut self) {
        // SAFETY: the handle is being dropped and is not used again.
        unsafe { producer::let_go(self.entry, Producers) };
    }
}

display! { State {
    Pending => "pending",
    Fired => "fired",
    Stopped => "stopped",
} }

debug! { impl[T: Send + 'static] Handle[T] { state = |this| this.state() } }

// === impl CancelOnDrop ===

impl<H: Cancel> CancelOnDrop<H> {
    pub(crate) fn new(handle: H) -> CancelOnDrop<H> {
        CancelOnDrop(Some(handle))
    }

    /// Returns the handle, which does not cancel when it is dropped.
    pub fn into_handle(mut self) -> H {
        self.0.take().expect("a guard has its handle until it is dropped")
    }
}

impl<H: Cancel> Deref for CancelOnDrop<H> {
    type Target = H;

    fn deref(&self) -> &H {
        self.0.as_ref().expect("a guard has its handle until it is dropped")
    }
}

impl<H: Cancel> DerefMut for CancelOnDrop<H> {
    fn deref_mut(&mut self) -> &mut H {
        self.0.as_mut().expect("a guard has its handle until it is dropped")
    }
}

impl<H: Cancel> Drop for CancelOnDrop<H> {
    fn drop(&mut self) {
        if let Some(handle) = self.0.take() {
            handle.cancel();
        }
    }
}
