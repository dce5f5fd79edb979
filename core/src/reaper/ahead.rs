//! Looking ahead: what a task that serves a shard does for a ring, instead of a turn.
//!
//! Most rings tell of a timer that is due before the others, and not yet. Then all that the shard
//! needs is that its notices are read, and that the time of its next turn is published.
//!
//! *Owner*: the thread that holds the role of the shard. It holds the shard's own lock while it
//! reads.
//!
//! *Orderings*: DOORBELL: the time is published, and then the notices are looked at, as after a
//! turn. Unlike a turn this leaves the time before in place until then: a producer that reads it
//! rings, or has posted its notice before the fence of `publish`.
//!
//! *Tested by*: `loom-tests/tests/listener.rs`, `tests/suite/drive/steps.rs`.

use crate::dispatch::InHand;

use super::{Report, TurnContext};

impl<T> TurnContext<'_, T> {
    /// Reads the notices, and publishes when the shard needs its next turn. The report is `busy` if
    /// a notice came meanwhile. Returns `None`, and publishes nothing, if there is something to do:
    /// the shard needs a turn.
    #[inline]
    pub fn look_ahead(&self, in_hand: &InHand<T>) -> Option<Report> {
        let mut owner = self.lock();
        let has_left = !in_hand.payloads().is_empty() || owner.is_closed();
        // A thread that helps to sweep may have begun.
        if has_left || self.shard.sweep_some(&mut owner, self.shared, 0) {
            return None;
        }
        self.shard.read_notices(&mut owner, self.shared);
        if self.shard.is_due(&owner, self.shard.clock()) {
            return None;
        }
        let next = self.shard.next_wake(&owner, self.shared, owner.next_opening());
        drop(owner);
        self.shard.doorbell().publish(next);
        let busy = self.shard.has_notices();
        Some(Report { fired: 0, busy, collects: false, next, taken_over: false })
    }
}
