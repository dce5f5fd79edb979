//! Clocks: where an engine reads the time.

use std::io;
use std::time::{Duration, Instant};

use crate::os;

use super::manual::ManualClock;
use super::thread_clock::{Moment, READ_CYCLES};
use super::{cycles, saturating_ns};

/// Where an engine reads the time: from the system, or from a hand that moves it.
///
/// Every party of an engine (callers, reapers, sleeping) reads the same clock, and every promise
/// about time is made against it; for [`Clock::system`] that is [`std::time::Instant`].
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
    /// What [`Clock::now_ns`] calls zero.
    start: Instant,
    /// The cycle counter then or a little later, if threads may carry the clock on by it.
    start_cycles: Option<u64>,
    manual: Option<ManualClock>,
    /// What the clock that counts suspended time showed at the start, if it is that one.
    boot_start: Option<Duration>,
}

/// Two clocks that are read within this show the same moment.
const CLOSE: Duration = Duration::from_micros(5);

// === impl Clock ===

impl Clock {
    /// The system's monotonic clock, [`std::time::Instant`].
    ///
    /// Where the system keeps its own time by the processor's cycle counter (Linux on x86-64,
    /// clock source `tsc`), a thread that schedules carries the clock on by that counter for up
    /// to 33 us before it asks the system again. That takes less than half as long, is never
    /// behind [`Instant`], and at most some 8 us ahead (40 us if the thread was interrupted just
    /// then), by which a timer may be later.
    ///
    /// A system that finds fault with the counter while the program runs turns to another clock.
    /// That is noticed some seconds later, and the counter is not read again; until then a timer
    /// may be early by as much as the counter is wrong. [`Clock::instant`] has no such interval.
    ///
    /// ```
    /// # use tickless::{Clock, Engine};
    /// let engine = Engine::builder().clock(Clock::system()).build()?;
    /// assert!(Clock::system().as_manual().is_none());
    /// # Ok::<(), tickless::BuildError>(())
    /// ```
    pub fn system() -> Clock {
        let mut clock = Clock::instant();
        // Read close together: what the counter gains on the clock makes its rate look high.
        for _ in 0..if cycles::keep_time() { 8 } else { 0 } {
            let before = Moment::now().cycles;
            clock.start = Instant::now();
            let after = Moment::now().cycles;
            clock.start_cycles = Some(after);
            if after.wrapping_sub(before) < READ_CYCLES {
                break;
            }
        }
        clock
    }

    /// The system's monotonic clock, [`std::time::Instant`], read each time.
    ///
    /// ```
    /// # use std::time::Instant;
    /// # use tickless::{Clock, Engine};
    /// // For whoever holds the engine's time against `Instant` to the microsecond.
    /// let before = Instant::now();
    /// let engine = Engine::builder().clock(Clock::instant()).build()?;
    /// assert!(before <= engine.now() && engine.now() <= Instant::now());
    /// # Ok::<(), tickless::BuildError>(())
    /// ```
    pub fn instant() -> Clock {
        Clock { start: Instant::now(), start_cycles: None, manual: None, boot_start: None }
    }

    /// The system's clock that also counts the time during which the machine is suspended:
    /// `CLOCK_BOOTTIME` of Linux.
    ///
    /// With any other clock time stands still meanwhile, and a timer of an hour fires after an
    /// hour that the machine was awake. With this one it fires when the hour is over, or as soon
    /// as the machine is awake again. (Nothing here wakes the machine.) An engine's own threads
    /// sleep by this clock too; whoever drives an engine by hand sees to that himself.
    ///
    /// [`Instant`]s do not count suspended time. So an instant that is given to an engine is
    /// taken for the time that is left until then *now*, as if the machine were never suspended;
    /// and an instant that an engine answers (the deadline of a handle, say) is computed from the
    /// time that is left when it is asked for. After a suspension the same timer therefore has an
    /// earlier deadline, and two answers may differ by the time between two
    /// readings (nanoseconds, unless the thread is interrupted).
    ///
    /// Costs: the clock is read for each schedule, since threads do not carry it on by themselves
    /// as they do with [`Clock::system`]; and a sleep takes three calls of the
    /// system instead of one.
    ///
    /// # Errors
    /// `Unsupported` where the system is not Linux; else what the system says.
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

    /// Whether the clock goes on while the machine is suspended, by as much.
    ///
    /// ```
    /// assert!(!tickless::Clock::system().counts_suspension());
    /// ```
    pub fn counts_suspension(&self) -> bool {
        self.boot_start.is_some()
    }

    /// A clock moved by hand.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tickless::{Clock, Engine, ManualClock};
    /// let hand = ManualClock::new();
    /// let engine = Engine::builder().clock(Clock::manual(&hand)).build()?;
    /// let start = engine.now();
    /// hand.advance(Duration::from_secs(5));
    /// assert_eq!(engine.now() - start, Duration::from_secs(5));
    /// # Ok::<(), tickless::BuildError>(())
    /// ```
    pub fn manual(clock: &ManualClock) -> Clock {
        Clock { manual: Some(clock.clone()), ..Clock::instant() }
    }

    /// The hand that moves this clock; `None`: it is the system's.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tickless::{Clock, ManualClock};
    /// /// Lets time pass, whichever clock it is.
    /// fn pass(clock: &Clock, time: Duration) {
    ///     match clock.as_manual() {
    ///         Some(hand) => hand.advance(time),
    ///         None => std::thread::sleep(time),
    ///     }
    /// }
    /// let hand = ManualClock::new();
    /// pass(&Clock::manual(&hand), Duration::from_secs(3600));
    /// assert_eq!(hand.elapsed(), Duration::from_secs(3600));
    /// ```
    pub fn as_manual(&self) -> Option<&ManualClock> {
        self.manual.as_ref()
    }

    /// Nanoseconds since the clock was made.
    #[inline]
    pub(crate) fn now_ns(&self) -> u64 {
        match (&self.manual, self.boot_start) {
            (Some(clock), _) => clock.elapsed_ns(),
            (None, None) => saturating_ns(self.start.elapsed()),
            (None, Some(boot_start)) => boot_ns(boot_start),
        }
    }

    /// What the clock that counts suspended time shows `ns` after this one was made, if it is
    /// that clock.
    pub(crate) fn boottime_at(&self, ns: u64) -> Option<Duration> {
        self.boot_start.map(|start| start.saturating_add(Duration::from_nanos(ns)))
    }

    /// The cycle counter when the clock was made, if threads may carry the clock on by it.
    #[inline]
    pub(super) fn start_cycles(&self) -> Option<u64> {
        self.start_cycles
    }

    /// `instant` in nanoseconds since the clock was made; what lies before is zero.
    #[cfg_attr(any(loom, shuttle), expect(dead_code, reason = "only engines meet instants"))]
    #[inline]
    pub(crate) fn ns_at(&self, instant: Instant) -> u64 {
        if let Some(boot_start) = self.boot_start {
            return boot_ns_at(boot_start, instant);
        }
        saturating_ns(instant.saturating_duration_since(self.start))
    }

    /// The instant `ns` after the clock was made; `None` where the platform has none.
    pub(crate) fn instant_at(&self, ns: u64) -> Option<Instant> {
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

/// The present by the one clock and then by the other, read close together if the thread is not
/// interrupted each time. That the one that counts suspended time comes second makes a deadline
/// that is computed from it later; and who asks when a timer was due that has just fired never
/// hears of a time to come.
fn both_now(boot_start: Duration) -> (Instant, u64) {
    let read = || (Instant::now(), boot_ns(boot_start));
    let mut both = read();
    for _ in 0..4 {
        if both.0.elapsed() < CLOSE {
            break;
        }
        both = read();
    }
    both
}

/// `instant`, as far from that clock's present as from the other's.
#[cold]
fn boot_ns_at(boot_start: Duration, instant: Instant) -> u64 {
    let (now, now_ns) = both_now(boot_start);
    match instant.checked_duration_since(now) {
        Some(ahead) => now_ns.saturating_add(saturating_ns(ahead)),
        None => now_ns.saturating_sub(saturating_ns(now.duration_since(instant))),
    }
}

/// The way back.
fn instant_at_boot(boot_start: Duration, ns: u64) -> Option<Instant> {
    let (now, now_ns) = both_now(boot_start);
    let between = Duration::from_nanos(ns.abs_diff(now_ns));
    if ns >= now_ns { now.checked_add(between) } else { now.checked_sub(between) }
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

    /// A clock that was made some time ago, on a machine that has been suspended since but for the
    /// last moment.
    #[cfg(target_os = "linux")]
    fn suspended_for(time: Duration) -> Clock {
        let clock = Clock::boottime().unwrap();
        Clock { boot_start: clock.boot_start.map(|start| start - time), ..clock }
    }

    #[test]
    #[cfg(target_os = "linux")]
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
        // What became due while the machine slept, and before it did.
        assert!(clock.instant_at(now_ns / 2).unwrap() <= Instant::now());
        assert_eq!(clock.ns_at(before.checked_sub(asleep * 2).unwrap_or(before)), 0);
        assert!(clock.ns_at(before) <= clock.now_ns());
        assert_eq!(clock.boottime_at(0), clock.boot_start);
    }

    #[test]
    fn no_other_clock_counts_suspended_time() {
        let hand = ManualClock::new();
        for clock in [Clock::system(), Clock::instant(), Clock::manual(&hand)] {
            assert!(!clock.counts_suspension() && clock.boottime_at(5).is_none());
        }
        assert_eq!(Clock::boottime().is_ok(), cfg!(target_os = "linux"));
    }
}
