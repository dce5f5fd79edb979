//! Clocks: where an engine reads the time.

use std::fmt;
use std::io;
use std::iter;
use std::time::{Duration, Instant};

use crate::os;
use crate::sync::{Arc, AtomicU64, CachePadded, Ordering};

use super::{cycles, saturating_ns};

/// Where an engine reads the time: the system's clock, or one that is moved by hand.
///
/// All parts of an engine (callers, reapers, sleeps) read the same clock, and every promise about
/// time is made against it. For [`Clock::system`] that is [`std::time::Instant`].
///
/// ```
/// use std::time::Duration;
/// use tickless::{Clock, Engine, ManualClock};
///
/// /// The program runs by the system's clock, its tests by hand.
/// fn timers(clock: Clock) -> Result<Engine, tickless::BuildError> {
///     Engine::builder().clock(clock).shards(1).build()
/// }
///
/// let hand = ManualClock::new();
/// let engine = timers(Clock::manual(&hand))?;
/// engine.schedule_detached(Duration::from_secs(3600), || println!("an hour later"))?;
/// assert_eq!(engine.advance(Duration::from_secs(3600))?, 1);
/// timers(Clock::system())?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Clock {
    /// The time that is zero for [`Clock::now_ns`].
    start: Instant,
    /// Whether threads may carry the clock on by the cycle counter.
    goes_by_cycles: bool,
    manual: Option<ManualClock>,
    /// The reading of `CLOCK_BOOTTIME` at the start, if this clock counts suspended time.
    boot_start: Option<Duration>,
    /// Where the present is read instead, if this is the clock of a runtime.
    source: Option<RuntimeNow>,
}

/// A clock of a runtime: the system's, until the runtime's time is stopped or moved.
#[doc(hidden)]
#[derive(Clone)]
pub struct RuntimeNow(pub Arc<dyn Fn() -> Instant + Send + Sync>);

/// A clock that moves only when told to.
///
/// Clones move together. Give one to a builder and keep another to move time from a test:
///
/// ```
/// use std::time::Duration;
/// use tickless::ManualClock;
///
/// let clock = ManualClock::new();
/// clock.advance(Duration::from_secs(5));
/// assert_eq!(clock.elapsed(), Duration::from_secs(5));
/// ```
#[derive(Clone, Default)]
pub struct ManualClock {
    elapsed_ns: Arc<CachePadded<AtomicU64>>,
}

/// Two clocks that are read within this time show the same moment.
const CLOSE: Duration = Duration::from_micros(5);

// === impl Clock ===

impl Clock {
    /// The system's monotonic clock, [`std::time::Instant`].
    ///
    /// Where the system keeps its own time by the processor's cycle counter (Linux on x86-64, clock
    /// source `tsc`), a thread that schedules often carries the clock on by that counter for up to
    /// 33 us before it asks the system again. That takes less than half as long as reading
    /// [`Instant`]. (It learns the counter's rate from two readings some milliseconds apart.)
    /// The result is never behind [`Instant`], and at most some 8 us ahead (40 us if the thread was
    /// interrupted just then). A timer may be later by as much.
    ///
    /// If the system finds the counter faulty while the program runs, it switches to another clock.
    /// The engine notices this when it wakes up some seconds later or is turned, and does not read
    /// the counter again. Until then a timer may be early by the error of the counter.
    /// [`Clock::instant`] has no such interval.
    pub fn system() -> Clock {
        Clock { goes_by_cycles: cycles::keep_time(), ..Clock::instant() }
    }

    /// The system's monotonic clock, [`std::time::Instant`], read each time. Use it to compare the
    /// engine's time with [`Instant`] to the microsecond.
    pub fn instant() -> Clock {
        let start = Instant::now();
        Clock { start, goes_by_cycles: false, manual: None, boot_start: None, source: None }
    }

    /// The system's clock that also counts the time during which the machine is suspended:
    /// `CLOCK_BOOTTIME` of Linux.
    ///
    /// On Linux every other clock stands still during a suspension, and a timer of an hour fires
    /// after the machine was awake for an hour. With this clock it fires when the hour is over, or
    /// as soon as the machine is awake again. (The engine does not wake the machine.) An engine's
    /// reapers sleep by this clock too. A caller that drives an engine itself must arrange that
    /// for its own sleeps.
    ///
    /// [`Instant`]s do not count suspended time there. So the engine converts an instant that it is
    /// given to the time that is left until then *now*, as if the machine were never suspended. An
    /// instant that an engine returns (the deadline of a handle, say) is computed from the time
    /// that is left when the method is called. After a suspension the same timer therefore has an
    /// earlier deadline, and two results may differ by the time between two readings (nanoseconds,
    /// unless the thread is interrupted).
    ///
    /// Costs: the clock is read for each schedule, since threads do not carry it on by themselves
    /// as they do with [`Clock::system`]. A sleep takes two system calls instead of one.
    ///
    /// # Errors
    /// `Unsupported` on systems other than Linux; otherwise the error of the system call.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tickless::{Clock, Engine};
    ///
    /// let clock = Clock::boottime().unwrap_or_else(|_| Clock::system());
    /// let engine = Engine::builder().clock(clock).build()?;
    /// engine.schedule_detached(Duration::from_secs(3600), || println!("an hour has passed"))?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn boottime() -> io::Result<Clock> {
        Ok(Clock { boot_start: Some(os::boottime()?), ..Clock::instant() })
    }

    /// The clock of a runtime, which begins now. If it `is_systems`, threads may carry it on, as
    /// with [`Clock::system`]. If it is stopped later it goes slow, which they notice.
    #[doc(hidden)]
    pub fn of_runtime(source: RuntimeNow, is_systems: bool) -> Clock {
        let like = if is_systems { Clock::system() } else { Clock::instant() };
        Clock { start: (source.0)(), source: Some(source), ..like }
    }

    /// Whether this is the clock of a runtime.
    #[doc(hidden)]
    pub fn is_of_runtime(&self) -> bool {
        self.source.is_some()
    }

    /// Whether the clock counts the time during which the machine is suspended.
    pub fn counts_suspension(&self) -> bool {
        self.boot_start.is_some()
    }

    /// A clock that is moved by hand, through `clock` or a clone of it.
    pub fn manual(clock: &ManualClock) -> Clock {
        Clock { manual: Some(clock.clone()), ..Clock::instant() }
    }

    /// The [`ManualClock`] that moves this clock; `None` for a clock of the system.
    #[inline]
    pub fn as_manual(&self) -> Option<&ManualClock> {
        self.manual.as_ref()
    }

    /// The same clock, read from the system each time: see [`Clock::instant`].
    #[doc(hidden)]
    pub fn without_cycles(&self) -> Clock {
        Clock { goes_by_cycles: false, ..self.clone() }
    }

    /// Nanoseconds since the clock was made.
    #[doc(hidden)]
    #[inline]
    pub fn now_ns(&self) -> u64 {
        match (&self.manual, self.boot_start) {
            (Some(clock), _) => clock.elapsed_ns(),
            (None, None) => match &self.source {
                None => saturating_ns(self.start.elapsed()),
                Some(RuntimeNow(now)) => saturating_ns(now().saturating_duration_since(self.start)),
            },
            (None, Some(boot_start)) => boot_ns(boot_start),
        }
    }

    /// The reading of the system's clock when this one was made, too late by some hundred
    /// nanoseconds if the thread was not interrupted: of `CLOCK_BOOTTIME` if this one counts
    /// suspended time, else of the monotonic clock. `None`: this one is moved by hand, or the
    /// system has no such reading.
    pub(crate) fn system_start(&self) -> Option<Duration> {
        if self.manual.is_some() || self.boot_start.is_some() {
            return self.boot_start;
        }
        // The start that follows is too late by the gap between the two readings, which is smallest
        // where the thread was not interrupted.
        let read = || {
            let before = os::monotonic()?;
            let elapsed = self.start.elapsed();
            let after = os::monotonic()?;
            Some((after.saturating_sub(before), after.saturating_sub(elapsed)))
        };
        iter::repeat_with(read).take(8).flatten().min().map(|(_, start)| start)
    }

    /// Asks the system now and then whether it still keeps time by the cycle counter, if threads
    /// may carry the clock on by it. Not for threads that schedule: it may open a file.
    #[doc(hidden)]
    #[inline]
    pub fn look_again(&self) {
        if self.goes_by_cycles {
            cycles::look_again();
        }
    }

    /// Whether threads may carry it on by the cycle counter.
    #[inline]
    pub(super) fn goes_by_cycles(&self) -> bool {
        self.goes_by_cycles
    }

    /// The instant at which the clock was made, if the clock shows how much later an instant is: it
    /// does not count suspended time.
    #[doc(hidden)]
    #[inline]
    pub fn steady_start(&self) -> Option<Instant> {
        self.boot_start.is_none().then_some(self.start)
    }

    /// `instant` in nanoseconds since the clock was made; an earlier instant is zero.
    #[doc(hidden)]
    #[inline]
    pub fn ns_at(&self, instant: Instant) -> u64 {
        if let Some(boot_start) = self.boot_start {
            return boot_ns_at(boot_start, instant);
        }
        saturating_ns(instant.saturating_duration_since(self.start))
    }

    /// The instant `ns` after the clock was made; `None` where the platform has none.
    #[doc(hidden)]
    #[inline]
    pub fn instant_at(&self, ns: u64) -> Option<Instant> {
        if let Some(boot_start) = self.boot_start {
            return instant_at_boot(boot_start, ns);
        }
        self.start.checked_add(Duration::from_nanos(ns))
    }
}

/// The time since `boot_start` by the clock that counts suspended time.
fn boot_ns(boot_start: Duration) -> u64 {
    let now = os::boottime().expect("a clock that could be read once can be read again");
    saturating_ns(now.saturating_sub(boot_start))
}

/// The present by both clocks, read close together unless the thread is interrupted each time. The
/// clock that counts suspended time is read second, which makes a deadline that is computed from it
/// later. For the same reason, a timer that has just fired was never due in the future.
fn both_now(boot_start: Duration) -> (Instant, u64) {
    let read = || (Instant::now(), boot_ns(boot_start));
    let mut tries = iter::repeat_with(read).take(4);
    tries.find(|both| both.0.elapsed() < CLOSE).unwrap_or_else(read)
}

/// Converts `instant`: the result is as far from the present of the clock that counts suspended
/// time as `instant` is from the present of the other clock.
#[cold]
fn boot_ns_at(boot_start: Duration, instant: Instant) -> u64 {
    let (now, now_ns) = both_now(boot_start);
    match instant.checked_duration_since(now) {
        Some(ahead) => now_ns.saturating_add(saturating_ns(ahead)),
        None => now_ns.saturating_sub(saturating_ns(now.duration_since(instant))),
    }
}

/// The reverse of [`boot_ns_at`].
#[cold]
fn instant_at_boot(boot_start: Duration, ns: u64) -> Option<Instant> {
    let (now, now_ns) = both_now(boot_start);
    let between = Duration::from_nanos(ns.abs_diff(now_ns));
    if ns >= now_ns { now.checked_add(between) } else { now.checked_sub(between) }
}

impl fmt::Debug for RuntimeNow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("RuntimeNow").field(&(self.0)()).finish()
    }
}

// === impl ManualClock ===

impl ManualClock {
    /// A clock that stands at zero.
    pub fn new() -> ManualClock {
        ManualClock::default()
    }

    /// Moves the clock on; it stops at 2^64 - 1 ns (584 years). From there every delay, also zero,
    /// is too long to represent.
    ///
    /// This moves only the time: an engine on this clock fires the timers that became due at its
    /// next turn. To move time *and* fire everything on the way in order, call the engine's
    /// `advance`, or [`advance_engines`](ManualClock::advance_engines).
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tickless::{Engine, ManualClock};
    /// let clock = ManualClock::new();
    /// let engine = Engine::builder().manual_clock(&clock).shards(1).build()?;
    /// engine.schedule_detached(Duration::from_secs(1), || println!("due"))?;
    /// clock.advance(Duration::from_secs(9));
    /// assert_eq!(engine.len(), 1, "nothing has fired yet");
    /// assert_eq!(engine.turn(0)?.fired, 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn advance(&self, by: Duration) {
        let by = saturating_ns(by);
        // ORDER: Relaxed - a clock publishes nothing but itself. The update is atomic, so that
        // concurrent calls add up.
        let _ = self
            .elapsed_ns
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |now| Some(now.saturating_add(by)));
    }

    /// The time since the clock was made.
    pub fn elapsed(&self) -> Duration {
        Duration::from_nanos(self.elapsed_ns())
    }

    /// Whether the two move together.
    pub(crate) fn is_same(&self, other: &ManualClock) -> bool {
        Arc::ptr_eq(&self.elapsed_ns, &other.elapsed_ns)
    }

    #[doc(hidden)]
    #[inline]
    pub fn elapsed_ns(&self) -> u64 {
        // ORDER: Relaxed - a clock publishes nothing but itself; a caller that needs "after the
        // clock moved" also needs a handshake of its own.
        self.elapsed_ns.load(Ordering::Relaxed)
    }

    /// Moves the clock to `ns`, never back.
    pub(crate) fn move_to_ns(&self, ns: u64) {
        // ORDER: Relaxed - a clock publishes nothing but itself. An atomic maximum keeps the clock
        // monotonic when several threads move it.
        self.elapsed_ns.fetch_max(ns, Ordering::Relaxed);
    }
}

impl fmt::Debug for ManualClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ManualClock").field(&self.elapsed()).finish()
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;

    #[test]
    fn instants_before_the_start_are_the_start() {
        let before = Instant::now();
        let clock = Clock::system();
        assert_eq!(clock.ns_at(before), 0);
        let at = clock.instant_at(5_000).unwrap();
        assert_eq!(clock.ns_at(at), 5_000);
    }

    /// A clock that was made some time ago, on a machine that has been suspended ever since, except
    /// for the last moment.
    #[cfg(all(target_os = "linux", not(elsewhere)))]
    fn suspended_for(time: Duration) -> Clock {
        let clock = Clock::boottime().unwrap();
        Clock { boot_start: clock.boot_start.map(|start| start - time), ..clock }
    }

    #[test]
    #[cfg(all(target_os = "linux", not(elsewhere)))]
    fn a_clock_that_counts_suspended_time_is_ahead_by_that() {
        let hour = Duration::from_secs(3600);
        // The machine has been up for a while, though not for long perhaps.
        let asleep = hour.min(os::boottime().unwrap());
        let clock = suspended_for(asleep);
        let before = Instant::now();
        let now_ns = clock.now_ns();
        assert!(now_ns >= saturating_ns(asleep));
        let later_ns = clock.ns_at(before + hour);
        let after_ns = clock.now_ns();
        assert!(later_ns >= saturating_ns(asleep + hour), "never early by either clock");
        assert!(later_ns <= after_ns + saturating_ns(hour), "and as far ahead as it was");
        let due = clock.instant_at(now_ns + saturating_ns(hour)).unwrap();
        assert!(due <= Instant::now() + hour && due > before + hour / 2);
        // Times during the suspension, and before it.
        assert!(clock.instant_at(now_ns / 2).unwrap() <= Instant::now());
        assert_eq!(clock.ns_at(before.checked_sub(asleep * 2).unwrap_or(before)), 0);
        assert!(clock.ns_at(before) <= clock.now_ns());
        assert_eq!(clock.system_start(), clock.boot_start);
    }

    #[test]
    fn no_other_clock_counts_suspended_time() {
        let hand = ManualClock::new();
        for clock in [Clock::system(), Clock::instant(), Clock::manual(&hand)] {
            assert!(!clock.counts_suspension() && clock.boot_start.is_none());
        }
        assert_eq!(Clock::boottime().is_ok(), cfg!(all(target_os = "linux", not(elsewhere))));
    }

    #[test]
    fn no_clock_is_carried_on_but_the_systems() {
        for clock in [Clock::instant(), Clock::manual(&ManualClock::new())] {
            assert!(!clock.goes_by_cycles());
        }
    }

    #[test]
    fn clones_of_a_manual_clock_move_together_and_never_back() {
        let a = ManualClock::new();
        let b = a.clone();
        a.advance(Duration::from_millis(3));
        assert_eq!(b.elapsed(), Duration::from_millis(3));
        b.move_to_ns(1);
        assert_eq!(a.elapsed(), Duration::from_millis(3));
        a.advance(Duration::MAX);
        assert_eq!(b.elapsed_ns(), u64::MAX);
    }
}
