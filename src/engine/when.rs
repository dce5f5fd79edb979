//! The time of a timer, as callers give it.

use std::time::{Duration, Instant, SystemTime};

use crate::time::{Tick, saturating_ns};

use super::core::Core;

/// When a timer is due: after a delay or at a point in time, and how much later it may fire.
///
/// Every method that schedules or moves a timer takes `impl Into<When>`. A [`Duration`] is a delay
/// from the call on, and an [`Instant`] is a point in time on the engine's clock; neither has a
/// slack. The methods of `When` express the rest:
///
/// ```
/// use std::time::Duration;
/// use tickless::{Engine, When};
///
/// let engine = Engine::new()?;
/// let lease_ends = engine.now() + Duration::from_secs(30);
/// let minute = Duration::from_secs(60);
///
/// let timeout = engine.schedule(minute, || println!("no answer"))?;
/// let renewal = engine.schedule(lease_ends, || println!("renew"))?;
/// let idle = When::after(minute).slack(minute / 10);
/// let idle = engine.schedule(idle, || println!("nothing came for a minute or so"))?;
/// # timeout.cancel();
/// # renewal.cancel();
/// # idle.cancel();
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[must_use = "it says when, and schedules nothing"]
pub struct When {
    pub(super) start: Start,
    pub(super) slack: Duration,
}

/// A delay that is this long is far.
const FAR: Duration = Duration::from_millis(100);

/// The earliest time at which the timer is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Start {
    After(Duration),
    At(Instant),
}

// === impl When ===

impl When {
    /// The timer is due `delay` after the call that schedules or moves it. With a delay too long to
    /// represent it never fires.
    #[inline(always)]
    pub const fn after(delay: Duration) -> When {
        When { start: Start::After(delay), slack: Duration::ZERO }
    }

    /// The timer is due at `deadline`, by the engine's clock ([`Engine::now`](crate::Engine::now)).
    /// A point in time that has passed is due at once.
    #[inline(always)]
    pub const fn at(deadline: Instant) -> When {
        When { start: Start::At(deadline), slack: Duration::ZERO }
    }

    /// The timer is due at a time of the system's clock. A time that has passed is due at once.
    /// With a time too far away to represent the timer never fires.
    ///
    /// The time that is left is computed here, once, and added to [`Instant::now`]. The timer then
    /// follows the engine's clock, which is monotonic: setting the system's clock later does not
    /// move the timer. Timers that follow it are in [`wall`](crate::wall). (A clock that was moved
    /// by hand shows other instants: give a delay there.)
    ///
    /// A time of that clock is no `When` by itself:
    ///
    /// ```compile_fail,E0277
    /// # let engine = tickless::Engine::global();
    /// // "the trait `PassesThroughWhenAtSystemTime` is not implemented for `SystemTime`"
    /// engine.schedule_detached(std::time::SystemTime::now(), || ());
    /// ```
    pub fn at_system_time(time: SystemTime) -> When {
        let left = time.duration_since(SystemTime::now()).unwrap_or(Duration::ZERO);
        Instant::now().checked_add(left).map_or(When::after(Duration::MAX), When::at)
    }

    /// The timer may fire up to `slack` later: at any time from its deadline to its deadline plus
    /// `slack`, and still never earlier. Default: no slack, which means late by less than a tick.
    ///
    /// Of the ticks in that window, the engine picks one at which the widest bucket of the wheel
    /// opens. So timers whose windows overlap tend to share a wake-up. A slack as long as the
    /// timer's bucket is wide saves the timer all cascades; with the default reach, a bucket's
    /// width is between a 32nd of the delay and about the delay itself. There are two exceptions:
    /// the few timers that the slack takes beyond the reach of their level are cascaded once, and a
    /// timer that takes the seat of a cancelled one is re-filed when that one's bucket opens. A
    /// slack in which no tick begins makes no difference.
    ///
    /// [`Handle::deadline`](crate::Handle::deadline) and [`Lateness`](crate::Lateness) go by the
    /// tick that was picked. Use a slack for timers whose exact time does not matter to people and
    /// remote machines: idle connections, keep-alives, caches.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tickless::{Engine, ManualClock, When};
    ///
    /// let clock = ManualClock::new();
    /// let engine = Engine::builder().shards(1).manual_clock(&clock).build()?;
    /// for connection in 0..100_u32 {
    ///     let delay = Duration::from_millis(30_000 + 10 * u64::from(connection));
    ///     let when = When::after(delay).slack(Duration::from_secs(3));
    ///     engine.schedule_detached(when, move || println!("{connection} is idle"))?;
    /// }
    /// assert_eq!(engine.advance(Duration::from_secs(33))?, 100);
    /// assert_eq!(engine.stats().cascaded, 0);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[inline(always)]
    pub const fn slack(self, slack: Duration) -> When {
        When { slack, ..self }
    }

    /// Whether it is a delay that is not over soon after it was computed.
    #[inline(always)]
    pub(crate) fn is_far(self) -> bool {
        matches!(self.start, Start::After(delay) if delay >= FAR)
    }

    /// The tick at which a timer that is filed at `now_ns` is due.
    #[inline(always)]
    pub(super) fn tick<T>(self, core: &Core<T>, now_ns: u64) -> Tick {
        if !self.slack.is_zero() {
            return core.due_within(self.start_ns(core, now_ns), self.slack, now_ns);
        }
        match self.start {
            Start::After(delay) => core.scale.ceil_after(now_ns, delay),
            Start::At(deadline) => core.scale.ceil(core.clock.ns_at(deadline)),
        }
    }

    /// The time on the engine's clock at which the timer is due, for a caller whose clock shows
    /// `now_ns`. With a slack it is that of the tick that `tick` picks, else exactly the given
    /// time. `u64::MAX` is never.
    #[inline]
    pub(super) fn due_ns<T>(self, core: &Core<T>, now_ns: u64) -> u64 {
        if self.slack.is_zero() {
            return self.start_ns(core, now_ns);
        }
        core.scale.start_ns(self.tick(core, now_ns)).unwrap_or(u64::MAX)
    }

    #[inline]
    fn start_ns<T>(self, core: &Core<T>, now_ns: u64) -> u64 {
        match self.start {
            Start::After(delay) => now_ns.saturating_add(saturating_ns(delay)),
            Start::At(deadline) => core.clock.ns_at(deadline),
        }
    }
}

/// No type has this. Its name is the cure that the compiler tells who schedules by the system's
/// clock.
#[doc(hidden)]
pub trait PassesThroughWhenAtSystemTime<'a> {}

/// Only to say, where it does not compile, what does: [`When::at_system_time`].
#[doc(hidden)]
impl From<SystemTime> for When
where
    for<'a> SystemTime: PassesThroughWhenAtSystemTime<'a>,
{
    fn from(time: SystemTime) -> When {
        When::at_system_time(time)
    }
}

/// The same for tokio's instants, which follow the runtime's clock.
#[cfg(feature = "tokio")]
#[doc(hidden)]
pub trait ConvertsByIntoStd<'a> {}

/// Only to say, where it does not compile, what does: `into_std`.
#[cfg(feature = "tokio")]
#[doc(hidden)]
impl From<tokio::time::Instant> for When
where
    for<'a> tokio::time::Instant: ConvertsByIntoStd<'a>,
{
    fn from(deadline: tokio::time::Instant) -> When {
        When::at(deadline.into_std())
    }
}

impl From<Duration> for When {
    #[inline(always)]
    fn from(delay: Duration) -> When {
        When::after(delay)
    }
}

impl From<Instant> for When {
    #[inline(always)]
    fn from(deadline: Instant) -> When {
        When::at(deadline)
    }
}
