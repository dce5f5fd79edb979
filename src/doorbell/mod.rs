//! The doorbell: how a producer wakes a reaper that sleeps too long, and only then.
//!
//! The reaper publishes the time at which it will wake by itself. A producer rings only if its
//! timer is due before that. Of several such producers each rings, until the reaper is awake: if
//! one rang for all, their timers would wait for that one thread.
//!
//! A thread and an alarm are rung wherever the producer stands. A *hook* is the caller's own code:
//! it must not run while the thread cache is lent, so a later `call_hook` calls it.
//!
//! *Owner*: the reaper calls `publish`, `retract` and `sleep`; any thread rings.
//!
//! *Orderings*: DOORBELL, a store-load handshake with a fence on both sides. Producer: post the
//! notice, fence, read the wake-up time. Reaper: publish the wake-up time, fence, look at the
//! notices. Whichever fence comes first, the other side sees: if the producer's, the reaper
//! finds the notice before it parks; if the reaper's, the producer reads the wake-up time and
//! rings.
//!
//! *Tested by*: `loom-tests/tests/doorbell.rs`, `tests/hooks.rs`.

mod hook;

use std::time::Duration;

use crate::os::Alarm;
use crate::sync::{AtomicU64, CachePadded, Ordering, Thread, fence, park};
use crate::time::Tick;

pub use hook::Hook;

/// Published while the reaper is awake: nothing is due before this, so nobody rings.
const AWAKE: u64 = 0;

/// A reaper's published wake-up time, and the bell beside it.
pub struct Doorbell {
    wakes_at: CachePadded<AtomicU64>,
    bell: Bell,
}

/// What a ring wakes.
#[derive(Debug)]
pub enum Bell {
    /// Nothing: the caller drives the shard and asks when to come back.
    None,
    /// The reaper's thread, once it is known.
    Thread(crate::sync::OnceLock<Thread>),
    /// The reaper's thread, if its sleep has to count the time that the machine is suspended.
    Alarm(Alarm),
    /// The caller's own loop, through its callback.
    Hook(Hook),
}

// === impl Doorbell ===

impl Doorbell {
    /// A doorbell whose reaper is awake.
    pub fn new(bell: Bell) -> Doorbell {
        Doorbell { wakes_at: CachePadded::new(AtomicU64::new(AWAKE)), bell }
    }

    /// Sets the thread to wake. Must be called before anything can be scheduled.
    pub fn answered_by(&self, thread: Thread) {
        if let Bell::Thread(place) = &self.bell {
            place.set(thread).expect("a shard has one reaper");
        }
    }

    /// Rings if `due` comes before the reaper wakes by itself. The caller must have posted its work
    /// before. Returns `true` if there is a hook to call, which is left to the caller.
    #[inline]
    #[must_use = "a hook waits to be called"]
    pub fn ring_before(&self, due: Tick) -> bool {
        // ORDER(DOORBELL): SeqCst fence - pairs with the one in `publish`; see the header.
        fence(Ordering::SeqCst);
        // ORDER(DOORBELL): Relaxed - ordered by the fence.
        let wakes_at = self.wakes_at.load(Ordering::Relaxed);
        if due.get() >= wakes_at {
            return false;
        }
        self.ring_but_hooks()
    }

    /// Rings whatever the published time is. A ring that comes before the sleep cuts the sleep
    /// short. A hook is called at once; a hook that this thread is already calling is called once
    /// more after that call.
    pub fn ring(&self) {
        if self.ring_but_hooks() {
            self.hook().map(Hook::insist);
        }
    }

    /// Calls the hook that a ring has left to its caller. Returns `false` if this thread is inside
    /// a call of it, which will handle the ring.
    pub fn call_hook(&self) -> bool {
        self.hook().is_some_and(Hook::call)
    }

    /// Wakes a thread or an alarm, which is allowed anywhere. Returns `true` if there is a hook to
    /// call instead.
    fn ring_but_hooks(&self) -> bool {
        match &self.bell {
            Bell::None => {}
            Bell::Thread(place) => {
                if let Some(thread) = place.get() {
                    thread.unpark();
                }
            }
            Bell::Alarm(alarm) => alarm.ring(),
            Bell::Hook(_) => return true,
        }
        false
    }

    fn hook(&self) -> Option<&Hook> {
        match &self.bell {
            Bell::Hook(hook) => Some(hook),
            _ => None,
        }
    }

    /// Publishes the wake-up time. The caller looks for notices *after* this and before it sleeps.
    pub fn publish(&self, wakes_at: Tick) {
        // ORDER(DOORBELL): Relaxed store, SeqCst fence - pairs with the fence in `ring_before`.
        self.wakes_at.store(wakes_at.get(), Ordering::Relaxed);
        if let Some(hook) = self.hook() {
            hook.count_sleep();
        }
        fence(Ordering::SeqCst);
    }

    /// Notes that the calling thread, which holds the shard's role, has ended a turn. The turn
    /// wants the next one at `next`; the turn before it wanted one at `before`. Returns `true` if
    /// the hook has to be called: several threads take turns, and those that sleep until `before`
    /// were not rung meanwhile.
    #[must_use = "a hook waits to be called"]
    pub fn is_for_others(&self, before: Tick, next: Tick) -> bool {
        self.hook().is_some_and(|hook| hook.turn() && next < before)
    }

    /// The wake-up time that was published last. For the holder of the shard's role.
    pub fn wakes_at(&self) -> Tick {
        // ORDER(DOORBELL): Relaxed - the role orders it.
        Tick::new(self.wakes_at.load(Ordering::Relaxed))
    }

    /// Publishes that the reaper is awake, so that nobody rings.
    pub fn retract(&self) {
        // ORDER(DOORBELL): Relaxed - a producer that still reads the old time rings once too often.
        self.wakes_at.store(AWAKE, Ordering::Relaxed);
    }

    /// Sleeps until rung or until `timeout` has passed (`None`: until rung). An alarm uses `until`,
    /// a time of its own clock, instead of `timeout`.
    pub fn sleep(&self, timeout: Option<Duration>, until: Option<Duration>) {
        match &self.bell {
            Bell::Alarm(alarm) => alarm.sleep(until),
            _ => park(timeout),
        }
        self.retract();
    }
}

debug! { impl[] Doorbell[] {} }

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;
    use crate::sync::{Arc, AtomicU32};

    #[test]
    fn it_rings_for_what_is_due_before_the_reaper_wakes_and_for_nothing_while_it_is_awake() {
        let rings = Arc::new(AtomicU32::new(0));
        let hook = rings.clone();
        let ring = move || {
            hook.fetch_add(1, Ordering::Relaxed);
        };
        let doorbell = Doorbell::new(Bell::Hook(Hook::new(ring)));
        assert!(!doorbell.ring_before(Tick::ZERO), "nobody sleeps yet");
        doorbell.publish(Tick::new(7));
        assert!(doorbell.ring_before(Tick::new(6)));
        assert_eq!(rings.load(Ordering::Relaxed), 0, "the hook is left to the caller");
        assert!(doorbell.call_hook());
        assert!(doorbell.ring_before(Tick::new(6)), "each rings until the reaper is awake");
        assert!(doorbell.call_hook());
        assert!(!doorbell.ring_before(Tick::new(7)) && !doorbell.ring_before(Tick::NEVER));
        doorbell.retract();
        assert!(!doorbell.ring_before(Tick::new(6)), "it is awake");
        doorbell.publish(Tick::NEVER);
        doorbell.sleep(Some(Duration::ZERO), None);
        assert!(!doorbell.ring_before(Tick::ZERO), "its sleep is over");
        assert_eq!(rings.load(Ordering::Relaxed), 2);
    }
}
