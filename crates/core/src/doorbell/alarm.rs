//! A sleep by a timer of the system, in place of parking: others can set when it ends.
//!
//! A reaper sleeps so if the engine's clock counts the time during which the machine is suspended.
//! The watcher sleeps so, because a reaper may want it to look at a time that it does not know yet.
//!
//! A task of a runtime, which does not sleep itself, waits for a [`SystemTimer`] by the runtime's
//! reactor (`earliest.rs`).
//!
//! *Owner*: one thread sleeps; any thread rings; who sets it, the user of the alarm decides. Any
//! thread sets a system timer.
//!
//! *Orderings*: DOORBELL, TAKEOVER. The system orders what came before a ring, and before the call
//! that sets the time, before what comes after the sleep that it ends. It orders the calls that set
//! a timer: what came before a call is seen by a thread whose call comes later.
//!
//! *Tested by*: `loom-tests/tests/listener.rs`, `tests/suite/drive/on_tokio.rs`,
//! `tests/alone/boottime.rs`.

use std::io;
use std::time::Duration;

use crate::os::{AlarmClock, AlarmFiles, TimerFile};
use crate::sync::protocol::closable::Closable;
use crate::time::Clock;

use super::Timer;

/// A sleep of one thread that others can end, at once or at a time.
pub trait Alarm: Send + Sync {
    /// Ends the sleep when the engine's clock shows `at_ns`, or later by what the system takes
    /// (`None`: not because of a time). Replaces the time that was set before. A time that comes
    /// between two sleeps ends the second.
    fn set(&self, at_ns: Option<u64>);

    /// Ends the sleep that is under way, or else the next one.
    fn ring(&self);

    /// Sleeps until rung, until the time that was set, or until `timeout` has passed.
    fn sleep(&self, timeout: Option<Duration>);

    /// Gives back what the system keeps for it: nobody sleeps by it any more.
    fn close(&self) {}
}

/// A sleep by the system's clock that an engine's clock follows.
#[derive(Debug)]
pub struct SystemAlarm {
    alarm: Closable<AlarmFiles>,
    zero: Zero,
}

/// A timer by that clock, for a reactor that waits for files.
#[derive(Debug)]
pub struct SystemTimer {
    timer: Closable<TimerFile>,
    #[cfg(target_os = "linux")]
    file: std::os::fd::RawFd,
    zero: Zero,
}

/// What the system's clock shows when the engine's shows zero, or a little more.
#[derive(Clone, Copy, Debug)]
struct Zero(Duration);

// === impl Zero ===

impl Zero {
    /// The system's clock that `clock` follows, with its zero.
    ///
    /// # Errors
    /// The clock is moved by hand, or the system has no such clock.
    fn of(clock: &Clock) -> io::Result<(AlarmClock, Zero)> {
        let zero = clock.system_start().ok_or(io::ErrorKind::Unsupported)?;
        let by =
            if clock.counts_suspension() { AlarmClock::Boottime } else { AlarmClock::Monotonic };
        Ok((by, Zero(zero)))
    }

    /// What the system's clock shows when the engine's shows `at_ns`.
    fn at(self, at_ns: u64) -> Duration {
        self.0.saturating_add(Duration::from_nanos(at_ns))
    }
}

// === impl SystemAlarm ===

impl SystemAlarm {
    /// An alarm by `clock`, which is not moved by hand. It takes three file descriptors.
    ///
    /// # Errors
    /// The system refuses.
    pub fn new(clock: &Clock) -> io::Result<SystemAlarm> {
        let (system, zero) = Zero::of(clock)?;
        Ok(SystemAlarm { alarm: Closable::new(AlarmFiles::new(system)?), zero })
    }
}

impl Alarm for SystemAlarm {
    fn set(&self, at_ns: Option<u64>) {
        let at = at_ns.map(|ns| self.zero.at(ns));
        self.alarm.with(|alarm| {
            if alarm.set(at).is_err() {
                alarm.ring();
            }
        });
    }

    fn ring(&self) {
        self.alarm.with(AlarmFiles::ring);
    }

    fn sleep(&self, timeout: Option<Duration>) {
        self.alarm.with(|alarm| alarm.wait(timeout));
    }

    fn close(&self) {
        self.alarm.close();
    }
}

// === impl SystemTimer ===

impl SystemTimer {
    /// A timer by `clock`, which is not moved by hand. It takes one file descriptor.
    ///
    /// # Errors
    /// The system refuses.
    pub fn new(clock: &Clock) -> io::Result<SystemTimer> {
        let (system, zero) = Zero::of(clock)?;
        let timer = TimerFile::new(system)?;
        Ok(SystemTimer {
            #[cfg(target_os = "linux")]
            file: std::os::fd::AsRawFd::as_raw_fd(&timer),
            timer: Closable::new(timer),
            zero,
        })
    }

    /// Closes the file, for which no reactor waits any more.
    pub fn close(&self) {
        self.timer.close();
    }
}

impl Timer for SystemTimer {
    fn set(&self, at_ns: u64) {
        let at = self.zero.at(at_ns);
        // (The system has no reason to refuse that: the file is a timer.)
        self.timer.with(|timer| drop(timer.set(Some(at))));
    }
}

/// The file, which may have been closed.
#[cfg(target_os = "linux")]
impl std::os::fd::AsRawFd for SystemTimer {
    fn as_raw_fd(&self) -> std::os::fd::RawFd {
        self.file
    }
}
