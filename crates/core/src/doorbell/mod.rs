//! The doorbell: how a producer wakes a reaper that sleeps too long, and only then.
//!
//! `README.md` has both outcomes of the race.
//!
//! | who | calls, in this order |
//! |---|---|
//! | a producer that has posted a notice | `ask`, `ring_before`; if there is a hook, `call_hook` |
//! | a thread that wants a sweep; a stop | `ask`, `ring`; `ring` |
//! | the reaper, before a turn of a shard | `take_ask`; then it reads the shard's notices |
//! | the reaper, when nothing is due | `publish`; it looks who asks; `retract`, or `sleep` |
//!
//! While the reaper is awake, the published time is zero, so that nobody rings. Each producer whose
//! timer is due before the published time rings, until the reaper is awake: if one rang for all,
//! their timers would depend on that one thread.
//!
//! The shards of a group share a doorbell. So a producer *asks* for a turn of its shard, and a
//! reaper that was rung need not look at all of them.
//!
//! A [`Bell`] says what a ring wakes. A *hook* is foreign code, and must not run while the thread
//! cache is lent. So `ring_before` only says that there is one, and the producer calls it later.
//!
//! *Owner*: the reaper calls `take_ask`, `publish`, `retract` and `sleep`; any thread asks and
//! rings.
//!
//! *Orderings*: DOORBELL, a store-load handshake with a fence on both sides. Producer: post the
//! notice, ask, fence, read the wake-up time. Reaper: publish the wake-up time, fence, look who
//! asks. (A caller that drives a shard looks at its notices.) Whichever fence comes first, the
//! other side sees: if the producer's, the reaper finds the notice before it parks; if the
//! reaper's, the producer reads the wake-up time and rings.
//!
//! *Tested by*: `loom-tests/tests/doorbell.rs`, `tests/races/engine/hooks.rs`.

mod alarm;
mod earliest;
mod hook;
mod listener;
mod parker;

use std::time::Duration;

use crate::sync::{AtomicU64, CachePadded, Ordering, fence};
use crate::time::Tick;

pub use alarm::{Alarm, SystemAlarm, SystemTimer};
pub use earliest::{Earliest, Timer};
pub use hook::Hook;
pub use listener::{Listener, Listening, Rings, Rung};
pub use parker::Parker;

/// Published while the reaper is awake: nothing is due before this, so nobody rings.
const AWAKE: u64 = 0;

/// A reaper's published wake-up time, and the bell beside it.
pub struct Doorbell {
    wakes_at: CachePadded<AtomicU64>,
    bell: Bell,
    /// A bit for each shard that asks for a turn. None if the caller drives the shard.
    asks: Box<[AtomicU64]>,
}

/// What a ring wakes.
pub enum Bell {
    /// Nothing: the caller drives the shard and asks when to come back.
    None,
    /// The reaper, which is the thread that leads the group: it sleeps here.
    Thread(Parker),
    /// The reaper's thread, if its sleep has to count the time that the machine is suspended.
    Alarm(Box<dyn Alarm>),
    /// The caller's own loop, through its callback.
    Hook(Hook),
}

// === impl Doorbell ===

impl Doorbell {
    /// The doorbell of one shard, whose reaper is awake.
    pub fn new(bell: Bell) -> Doorbell {
        Doorbell::for_shards(1, bell)
    }

    /// A doorbell for so many shards, whose reaper is awake.
    pub fn for_shards(shards: usize, bell: Bell) -> Doorbell {
        let words = match bell {
            Bell::None | Bell::Hook(_) => 0,
            _ => shards.div_ceil(u64::BITS as usize),
        };
        let wakes_at = CachePadded::new(AtomicU64::new(AWAKE));
        let asks = (0..words).map(|_| AtomicU64::new(0)).collect();
        Doorbell { wakes_at, bell, asks }
    }

    /// Closes the files of an alarm, which nobody needs any more: the reaper does not sleep again.
    pub fn close(&self) {
        match &self.bell {
            Bell::Alarm(alarm) => alarm.close(),
            Bell::None | Bell::Thread(_) | Bell::Hook(_) => {}
        }
    }
}

// === impl Doorbell: who wants something ===

impl Doorbell {
    /// Asks for a turn of the shard with this index in the group. The caller
    /// has posted its work before, and rings after this.
    #[inline]
    pub fn ask(&self, shard: usize) {
        if let Some(asks) = self.asks.get(shard / u64::BITS as usize) {
            // ORDER(DOORBELL): Release - pairs with the Acquire in `take_ask`: the work.
            asks.fetch_or(bit(shard), Ordering::Release);
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
        if due.get() >= self.wakes_at.load(Ordering::Relaxed) {
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

    /// Wakes a thread or an alarm, which is allowed anywhere. Returns `true` if there is a
    /// hook to call instead.
    fn ring_but_hooks(&self) -> bool {
        match &self.bell {
            Bell::None => {}
            Bell::Thread(parker) => parker.ring(),
            Bell::Alarm(alarm) => alarm.ring(),
            Bell::Hook(_) => return true,
        }
        false
    }
}

// === impl Doorbell: the reaper ===

impl Doorbell {
    /// Whether that shard asks for a turn.
    #[inline]
    pub fn is_asked(&self, shard: usize) -> bool {
        let asks = &self.asks[shard / u64::BITS as usize];
        // ORDER(DOORBELL): Relaxed - ordered by the fences; `take_ask` orders what was posted.
        asks.load(Ordering::Relaxed) & bit(shard) != 0
    }

    /// The indices of the shards that ask for a turn.
    pub fn asked(&self) -> impl Iterator<Item = usize> {
        // ORDER(DOORBELL): Relaxed - ordered by the fences; `take_ask` orders what was posted.
        let words = self.asks.iter().map(|asks| asks.load(Ordering::Relaxed));
        words.enumerate().filter(|&(_, word)| word != 0).flat_map(|(at, word)| {
            let bits = (0..u64::BITS as usize).filter(move |bit| word >> bit & 1 == 1);
            bits.map(move |bit| at * u64::BITS as usize + bit)
        })
    }

    /// Takes that shard's wish back. The caller looks for its work *after* this.
    #[inline]
    pub fn take_ask(&self, shard: usize) {
        if self.is_asked(shard) {
            let asks = &self.asks[shard / u64::BITS as usize];
            // ORDER(DOORBELL): Acquire - pairs with the Release in `ask`.
            asks.fetch_and(!bit(shard), Ordering::Acquire);
        }
    }

    /// Publishes the wake-up time. The caller looks for notices *after* this and before it sleeps.
    pub fn publish(&self, wakes_at: Tick) {
        // ORDER(DOORBELL): Relaxed, SeqCst fence - pairs with the fence in `ring_before`.
        self.wakes_at.store(wakes_at.get(), Ordering::Relaxed);
        if let Some(hook) = self.hook() {
            hook.count_sleep();
        }
        fence(Ordering::SeqCst);
    }

    /// The wake-up time that was published last. For the holder of the shard's role.
    #[inline]
    pub fn wakes_at(&self) -> Tick {
        // ORDER(DOORBELL): Relaxed - the role orders it.
        Tick::new(self.wakes_at.load(Ordering::Relaxed))
    }

    /// Publishes that the reaper is awake, so that nobody rings.
    pub fn retract(&self) {
        // (A producer that still reads the old time rings once too often.)
        // ORDER(DOORBELL): Relaxed - ordered by the fence of the next publication.
        self.wakes_at.store(AWAKE, Ordering::Relaxed);
    }

    /// The thread that leads sleeps until rung or until `timeout` has passed (`None`: until rung),
    /// as was published. An alarm goes by `until_ns` instead, which is by the engine's clock. This
    /// may also return for no reason.
    pub fn sleep(&self, timeout: Option<Duration>, until_ns: Option<u64>) {
        match &self.bell {
            Bell::Alarm(alarm) => {
                alarm.set(until_ns);
                alarm.sleep(None);
            }
            Bell::Thread(parker) => parker.sleep(timeout),
            Bell::None | Bell::Hook(_) => {}
        }
        self.retract();
    }
}

// === impl Doorbell: hooks, of shards that their caller drives ===

impl Doorbell {
    /// Calls the hook that a ring has left to its caller, for what is due then. Returns `false` if
    /// this thread is inside a call of it, which will handle the ring.
    pub fn call_hook(&self, due: Tick) -> bool {
        self.hook().is_some_and(|hook| hook.call(due))
    }

    /// The calling thread, which holds the shard's role, has published its next wake-up because it
    /// asked for that, and always asks, or takes a turn, before it sleeps: its own rings call no
    /// hook, until another thread publishes.
    pub fn has_asked(&self) {
        self.hook().into_iter().for_each(Hook::has_asked);
    }

    fn hook(&self) -> Option<&Hook> {
        match &self.bell {
            Bell::Hook(hook) => Some(hook),
            _ => None,
        }
    }
}

/// The bit of a shard in its word of `asks`.
#[inline]
fn bit(shard: usize) -> u64 {
    1 << (shard % u64::BITS as usize)
}

debug! { impl[] Bell[] {} }
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
        assert!(doorbell.call_hook(Tick::new(6)));
        assert!(doorbell.ring_before(Tick::new(6)), "each rings until the reaper is awake");
        assert!(doorbell.call_hook(Tick::new(6)));
        assert!(!doorbell.ring_before(Tick::new(7)) && !doorbell.ring_before(Tick::NEVER));
        doorbell.retract();
        assert!(!doorbell.ring_before(Tick::new(6)), "it is awake");
        doorbell.publish(Tick::NEVER);
        doorbell.sleep(Some(Duration::ZERO), None);
        assert!(!doorbell.ring_before(Tick::ZERO), "its sleep is over");
        assert_eq!(rings.load(Ordering::Relaxed), 2);
    }
}
