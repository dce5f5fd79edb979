//! The caller's end of a timer.

use std::fmt;
use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::ptr::NonNull;
use std::time::Instant;

use crate::dispatch::Task;
use crate::entry::{Entry, Phase};
use crate::error::ResetError;
use crate::producer::{self, Moved};
use crate::sync::prefetch;
use crate::time::Moment;

use super::thread_cache::{self, Lent, Producers, ThreadCache};
use super::{CancelOnDrop, When};

/// The caller's end of a timer: cancel, reset or inspect it.
///
/// One word in size. There is one handle per timer; it may be sent to and used from any thread.
/// Dropping it *detaches*: the timer still fires. [`Handle::cancel_on_drop`] is for the
/// opposite. A handle may outlive its engine; its timer is then [`State::Stopped`].
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

/// What a timer is at the moment.
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
    /// It waits for its deadline.
    Pending,
    /// Its payload was handed over (or is being handed over right now).
    Fired,
    /// Its engine stopped first. The stop returned the payload, or left it in the handle: see
    /// [`Handle::reset`].
    Stopped,
}

// SAFETY: a handle reaches its entry through atomic operations only, and the payload moves to
// whoever wins it, which `T: Send` permits.
unsafe impl<T: Send + 'static> Send for Handle<T> {}
// SAFETY: as above; what a shared handle offers are atomic reads.
unsafe impl<T: Send + 'static> Sync for Handle<T> {}

// === impl Handle ===

impl<T: Send + 'static> Handle<T> {
    /// The handle of an entry that was armed with an owner.
    pub(super) fn new(entry: NonNull<Entry<T>>) -> Handle<T> {
        Handle { entry, payload: PhantomData }
    }

    /// Cancels the timer. `true`: it will never fire, and its payload was dropped here, on this
    /// thread. `false`: it has fired already, or its engine's stop has returned the payload.
    ///
    /// One compare-and-swap; never waits. O(1).
    ///
    /// # Panics
    /// With what dropping the payload panics with; the timer is cancelled all the same.
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
        // SAFETY: this was the handle, and the thread's producers are by engines.
        unsafe { producer::cancel(handle.entry, Producers) }
    }

    /// Cancels the timer and returns its payload. `None`: it has fired already, or its engine's
    /// stop has returned the payload. Costs what [`cancel`](Handle::cancel) does.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tickless::{Batch, Engine};
    /// let engine = Engine::typed(|batch: Batch<'_, String>| drop(batch))?;
    /// let handle = engine.schedule(Duration::from_secs(9), "hello".to_owned())?;
    /// assert_eq!(handle.take().as_deref(), Some("hello"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use = "`cancel` drops the payload, and costs the same"]
    pub fn take(self) -> Option<T> {
        let handle = ManuallyDrop::new(self);
        // SAFETY: as in `cancel`.
        unsafe { producer::take(handle.entry, Producers) }
    }

    /// Moves the timer: it is due at `when` (a [`Duration`](std::time::Duration) from now, an
    /// [`Instant`], or a [`When`]), and at no other time.
    ///
    /// One compare-and-swap where the new time is not much earlier than the old one (not before
    /// its bucket opens), else the cost of a cancel and a schedule. Never waits. O(1).
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
    /// The timer has fired, or the engine has stopped. If the stop comes while the timer is on the
    /// way to an earlier time, the payload stays in the handle: it neither fires nor is returned by
    /// `stop`, [`take`](Handle::take) returns it, and it is dropped with the handle.
    #[inline]
    pub fn reset(&mut self, when: impl Into<When>) -> Result<(), ResetError> {
        self.move_to(when.into())
    }

    /// What the timer is at the moment; it may be something else right after. One atomic load.
    pub fn state(&self) -> State {
        let word = self.as_entry().word();
        match word.phase() {
            Phase::Pending if word.in_list() => State::Pending,
            Phase::Fired => State::Fired,
            _ => State::Stopped,
        }
    }

    /// When the timer is due (or was, if it has fired): its deadline rounded up to the tick.
    /// `None`: never, or its engine has stopped.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tickless::{Engine, ManualClock};
    /// let engine = Engine::builder().manual_clock(&ManualClock::new()).build()?;
    /// let timeout = engine.schedule(Duration::from_micros(2_500), || println!("due"))?;
    /// let left = timeout.deadline().map(|deadline| deadline - engine.now());
    /// assert_eq!(left, Some(Duration::from_millis(3)), "ticks are a millisecond long");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn deadline(&self) -> Option<Instant> {
        let entry = self.as_entry();
        let deadline = entry.word().deadline();
        let cache: Lent<T> = thread_cache::of_number(entry.engine())?;
        // Whether the engine is still somewhere depends on what threads keep: they are not asked.
        if cache.core.is_stopping() { None } else { cache.core.instant_of(deadline) }
    }

    /// Turns the handle into one that cancels the timer when it is dropped, also by a panic.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tickless::Engine;
    /// let engine = Engine::new()?;
    /// let timeout = engine.schedule(Duration::from_secs(60), || println!("due"))?;
    /// drop(timeout.cancel_on_drop());
    /// assert!(engine.is_empty());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn cancel_on_drop(self) -> CancelOnDrop<T> {
        CancelOnDrop::new(self)
    }

    /// The handle's entry.
    #[inline]
    pub(super) fn as_entry(&self) -> &Entry<T> {
        // SAFETY: the handle keeps the entry allocated.
        unsafe { self.entry.as_ref() }
    }

    #[inline]
    fn move_to(&mut self, when: When) -> Result<(), ResetError> {
        // The entry may be far away: it is on its way while the time is read.
        prefetch(self.entry.as_ptr());
        let moment = Moment::now();
        let number = self.as_entry().engine();
        let Some(mut cache): Option<Lent<T>> = thread_cache::of_number(number) else {
            return Err(self.refusal());
        };
        let ThreadCache { core, producer, watch, shard } = &mut *cache;
        let now_ns = watch.at_ns(&core.clock, moment);
        let (deadline, now) = (when.tick(core, now_ns), || core.scale.floor(now_ns));
        let shard = &core.shards[*shard as usize];
        // SAFETY: this is the handle; what becomes of it is done below.
        match unsafe { producer.reset(&core.pool, shard, self.entry, deadline, now) } {
            Moved::Here => Ok(()),
            Moved::To { entry, deferred } => {
                self.entry = entry;
                cache.give_back(deferred);
                Ok(())
            }
            Moved::Stranded(entry) => {
                self.entry = entry;
                Err(ResetError::Stopped)
            }
            Moved::Gone => Err(self.refusal()),
        }
    }

    /// Why the timer could not be moved.
    #[cold]
    fn refusal(&self) -> ResetError {
        match self.as_entry().word().phase() {
            Phase::Fired => ResetError::TooLate,
            _ => ResetError::Stopped,
        }
    }
}

// A panic leaves the timer whole: payloads are moved, and run or dropped by nobody who holds a part
// of a handle.
impl<T: Send + 'static> UnwindSafe for Handle<T> {}
impl<T: Send + 'static> RefUnwindSafe for Handle<T> {}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            State::Pending => "pending",
            State::Fired => "fired",
            State::Stopped => "stopped",
        })
    }
}

impl<T: Send + 'static> Drop for Handle<T> {
    fn drop(&mut self) {
        // SAFETY: the handle is going.
        unsafe { producer::let_go(self.entry, Producers) };
    }
}

impl<T: Send + 'static> fmt::Debug for Handle<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Handle").field("state", &self.state()).finish_non_exhaustive()
    }
}
