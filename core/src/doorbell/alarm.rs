//! A sleep by a timer of the system, in place of parking: others can set when it ends.
//!
//! A reaper sleeps so if the engine's clock counts the time during which the machine is suspended.
//! The watcher sleeps so, because a reaper may want it to look at a time that it does not know yet.
//!
//! *Owner*: one thread sleeps; any thread rings; who sets it, the user of the alarm decides.
//!
//! *Orderings*: DOORBELL, TAKEOVER. The system orders what came before a ring, and before the call
//! that sets the time, before what comes after the sleep that it ends.

use std::io;
use std::time::Duration;

use crate::os;
use crate::protocol::closable::Closable;
use crate::time::Clock;

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
    alarm: Closable<os::Alarm>,
    /// What the system's clock shows when the engine's shows zero, or a little more.
    zero: Duration,
}

// === impl SystemAlarm ===

impl SystemAlarm {
    /// An alarm by `clock`, which is not moved by hand. It takes three file descriptors.
    ///
    /// # Errors
    /// The system refuses.
    pub fn new(clock: &Clock) -> io::Result<SystemAlarm> {
        let zero = clock.system_start().ok_or(io::ErrorKind::Unsupported)?;
        let counts_suspension = clock.counts_suspension();
        let alarm = if counts_suspension { os::Alarm::boottime() } else { os::Alarm::monotonic() };
        Ok(SystemAlarm { alarm: Closable::new(alarm?), zero })
    }
}

impl Alarm for SystemAlarm {
    fn set(&self, at_ns: Option<u64>) {
        let at = at_ns.map(|ns| self.zero.saturating_add(Duration::from_nanos(ns)));
        self.alarm.with(|alarm| {
            if alarm.set(at).is_err() {
                alarm.ring();
            }
        });
    }

    fn ring(&self) {
        self.alarm.with(os::Alarm::ring);
    }

    fn sleep(&self, timeout: Option<Duration>) {
        self.alarm.with(|alarm| alarm.wait(timeout));
    }

    fn close(&self) {
        self.alarm.close();
    }
}
