//! The lead of a group of shards: which thread sleeps until the first of them is due.
//!
//! ```text
//!            ┌──────── give up ────────┐
//!            ▼                         │
//!          Free ── take by n ──► Kept by n ◄── reclaim ──┐
//!                                      ▲  └─ lend ──► Lent by n
//!                                      └── take from n by m ──┘
//! ```
//!
//! The leader lends the lead while it runs a turn, which may take any time. Another thread may take
//! a lead that is lent: the thread that lent it finds that out when the turn is over, and leads no
//! longer.
//!
//! *Owner*: a thread that keeps the lead publishes in the doorbell of the group, and sleeps by it.
//! Nobody else does either.
//!
//! *Invariants*: at most one thread keeps the lead. Nobody keeps a lead that is lent.
//!
//! *Orderings*: LEAD. Lending and giving up release; taking and reclaiming acquire. So what a
//! leader does to the doorbell comes after all that the leaders before it did to it.
//!
//! *Tested by*: `loom-tests/tests/lead.rs`.

use crate::sync::{AtomicUsize, Ordering};

const FREE: usize = 0;
const LENT: usize = 1;

/// The lead of a group.
#[derive(Debug)]
pub struct Lead(AtomicUsize);

/// Number `number` of the engine's threads keeps the lead.
fn kept_by(number: usize) -> usize {
    (number + 1) << 1
}

// === impl Lead ===

impl Lead {
    /// Takes a lead that nobody has, for thread `number`.
    pub fn take(&self, number: usize) -> bool {
        self.replace(FREE, kept_by(number))
    }

    /// Takes a lead that thread `from` has lent, for the calling thread, which is number `number`.
    pub fn take_from(&self, from: usize, number: usize) -> bool {
        self.replace(kept_by(from) | LENT, kept_by(number))
    }

    /// Thread `number`, which keeps the lead, lends it to a thread that needs it.
    #[inline]
    pub fn lend(&self, number: usize) {
        self.put(number, kept_by(number) | LENT);
    }

    /// Thread `number`, which has lent the lead, keeps it again. Returns `false` if another thread
    /// has taken it.
    #[inline]
    #[must_use = "a thread that has lost the lead does not lead"]
    pub fn reclaim(&self, number: usize) -> bool {
        self.take_from(number, number)
    }

    /// Thread `number`, which keeps the lead, gives it up.
    pub fn give_up(&self, number: usize) {
        self.put(number, FREE);
    }

    fn put(&self, number: usize, word: usize) {
        // ORDER(LEAD): Relaxed - only the thread that keeps the lead changes the word.
        debug_assert_eq!(self.0.load(Ordering::Relaxed), kept_by(number), "it does not lead");
        // ORDER(LEAD): Release - pairs with the Acquire in `replace`.
        self.0.store(word, Ordering::Release);
    }

    fn replace(&self, from: usize, to: usize) -> bool {
        // ORDER(LEAD): Acquire - pairs with the Release in `put`.
        self.0.compare_exchange(from, to, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }
}

/// Nobody leads.
impl Default for Lead {
    fn default() -> Lead {
        Lead(AtomicUsize::new(FREE))
    }
}
