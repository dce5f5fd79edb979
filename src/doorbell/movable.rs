//! A sleep whose end other threads can bring forward.
//!
//! A reaper that sleeps until a far timer is due need not run when a nearer one comes: somebody has
//! to change the time at which it wakes, and that need not be the reaper. The thread that schedules
//! sets a timer of the system, which takes one system call and no switch of threads.
//!
//! *Owner*: one thread sleeps; any thread rings; one thread at a time sets (`Doorbell`).
//!
//! *Orderings*: DOORBELL.

use std::time::Duration;

use crate::os::Alarm;
use crate::protocol::closable::Closable;
use crate::sync::Ordering;
use crate::sync::events::{Event, reached};
use crate::time::{Scale, Tick};

use super::{Doorbell, MOVABLE, SETTERS, SETTING};

/// A sleep of one thread that others can end, at once or at a time.
pub trait Movable: Send + Sync {
    /// Ends the sleep at the beginning of `at`, or later by what the system takes. Replaces the
    /// time that was set before. A time that comes between two sleeps ends the second.
    fn set(&self, at: Tick);

    /// Ends the sleep that is under way, or else the next one.
    fn ring(&self);

    /// Sleeps until rung, until the time that was set, or until `timeout` has passed.
    fn sleep(&self, timeout: Option<Duration>);

    /// Gives back what the system lends for that. From then on nobody sleeps, and the others do
    /// nothing.
    fn close(&self) {}
}

/// A sleep by the system's monotonic clock.
#[derive(Debug)]
pub struct SystemAlarm {
    alarm: Closable<Alarm>,
    /// What the system's clock shows at tick zero, or a little later.
    zero: Duration,
    scale: Scale,
    /// How long before a time its sleep ends.
    margin: Duration,
}

// === impl SystemAlarm ===

impl SystemAlarm {
    /// An alarm for an engine whose ticks are those of `scale`; the system's clock shows `zero` at
    /// the first of them, or a little later. A sleep ends `margin` before the time that it is set
    /// to: the reaper waits for the rest. It takes three file descriptors. `None`: the system
    /// refuses.
    pub fn new(zero: Duration, scale: Scale, margin: Duration) -> Option<SystemAlarm> {
        let alarm = Closable::new(Alarm::monotonic().ok()?);
        Some(SystemAlarm { alarm, zero, scale, margin })
    }
}

impl Movable for SystemAlarm {
    fn set(&self, at: Tick) {
        let after_zero = self.scale.start_ns(at).map(Duration::from_nanos);
        let at = after_zero.map(|at| self.zero.saturating_add(at).saturating_sub(self.margin));
        self.alarm.with(|alarm| alarm.set(at).unwrap_or_else(|_| alarm.ring()));
    }

    fn ring(&self) {
        self.alarm.with(Alarm::ring);
    }

    fn sleep(&self, timeout: Option<Duration>) {
        self.alarm.with(|alarm| alarm.wait(timeout));
    }

    fn close(&self) {
        self.alarm.close();
    }
}

// === impl Doorbell: the producer's side ===

impl Doorbell {
    /// Sets the alarm to `due`, which is before the time in `word`, and publishes that. Returns
    /// `false` if another thread sets the alarm, or the reaper woke up.
    #[cold]
    pub(super) fn bring_forward(&self, alarm: &dyn Movable, word: u64, due: Tick) -> bool {
        // ORDER(DOORBELL): Acquire - pairs with the Release of the setter before: it has set the
        // alarm.
        let claim = |from, to| {
            self.wakes_at.compare_exchange(from, to, Ordering::Acquire, Ordering::Relaxed)
        };
        if word & SETTERS != 0 || claim(word, word | SETTING).is_err() {
            reached(Event::SetterBusy);
            return false;
        }
        alarm.set(due);
        // ORDER(DOORBELL): Release - the alarm is set before others rely on it, and before the next
        // one sets it.
        let end = self.wakes_at.compare_exchange(
            word | SETTING,
            due.get() | MOVABLE,
            Ordering::Release,
            Ordering::Relaxed,
        );
        reached(if end.is_ok() { Event::BroughtForward } else { Event::SetterLate });
        if end.is_err() {
            // The reaper woke up after the notice was posted, so it finds it in its turn.
            // ORDER(DOORBELL): Release - as above.
            self.wakes_at.fetch_and(!SETTERS, Ordering::Release);
        }
        true
    }
}
