//! A timer, which is its own message.

use std::cell::UnsafeCell;
use std::fmt;
use std::sync::atomic::{AtomicPtr, AtomicU8, Ordering};

use tickless::local::Key;

/// In the inbox, or about to be.
const QUEUED: u8 = 1;
const CANCELLED: u8 = 2;
const FIRED: u8 = 4;

/// A timer.
pub(crate) struct Node {
    /// The stack's link.
    pub(super) next: AtomicPtr<Node>,
    state: AtomicU8,
    pub(super) deadline_tick: u64,
    pub(super) token: u64,
    /// Where it is in the wheel: the reaper's alone.
    key: UnsafeCell<Option<Key>>,
}

/// What came of a cancel.
pub(super) struct Cancelled {
    /// It had not fired.
    pub(super) in_time: bool,
    /// The reaper does not know of it yet.
    pub(super) must_be_sent: bool,
}

// SAFETY: everything but `key` is atomic or never changes, and `key` is touched by the reaper
// alone, as `Node::key` demands.
unsafe impl Sync for Node {}
// SAFETY: a key is a number.
unsafe impl Send for Node {}

// === impl Node ===

impl Node {
    /// About to be sent.
    pub(super) fn new(deadline_tick: u64, token: u64) -> Node {
        Node {
            next: AtomicPtr::default(),
            state: AtomicU8::new(QUEUED),
            deadline_tick,
            token,
            key: UnsafeCell::new(None),
        }
    }

    /// Cancels, and claims the right to send if it is not on the way anyhow.
    #[inline]
    pub(super) fn cancel(&self) -> Cancelled {
        let mut state = self.state.load(Ordering::Relaxed);
        loop {
            if state & FIRED != 0 {
                return Cancelled { in_time: false, must_be_sent: false };
            }
            let new = state | CANCELLED | QUEUED;
            let swap =
                self.state.compare_exchange_weak(state, new, Ordering::AcqRel, Ordering::Relaxed);
            match swap {
                Ok(_) => return Cancelled { in_time: true, must_be_sent: state & QUEUED == 0 },
                Err(found) => state = found,
            }
        }
    }

    /// The reaper took it from the inbox. Is it cancelled?
    pub(super) fn arrive(&self) -> bool {
        self.state.fetch_and(!QUEUED, Ordering::AcqRel) & CANCELLED != 0
    }

    /// It is due. Does it fire? If not, it is on its way, cancelled.
    pub(super) fn fire(&self) -> bool {
        self.state.compare_exchange(0, FIRED, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }

    /// Where it is in the wheel.
    ///
    /// # Safety
    /// The caller is the reaper, and has no other reference to it.
    #[expect(clippy::mut_from_ref, reason = "the reaper is the only one that asks")]
    pub(super) unsafe fn key(&self) -> &mut Option<Key> {
        // SAFETY: the caller is the only one.
        unsafe { &mut *self.key.get() }
    }
}

impl fmt::Debug for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Node").field("token", &self.token).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timer_on_its_way_is_not_sent_again() {
        let node = Node::new(1, 2);
        let cancelled = node.cancel();
        assert!(cancelled.in_time && !cancelled.must_be_sent);
        assert!(node.arrive());
    }

    #[test]
    fn a_timer_in_the_wheel_is_sent_when_it_is_cancelled_and_does_not_fire() {
        let node = Node::new(1, 2);
        assert!(!node.arrive());
        let cancelled = node.cancel();
        assert!(cancelled.in_time && cancelled.must_be_sent);
        assert!(!node.fire());
    }

    #[test]
    fn a_timer_that_fired_cannot_be_cancelled() {
        let node = Node::new(1, 2);
        assert!(!node.arrive());
        assert!(node.fire());
        let cancelled = node.cancel();
        assert!(!cancelled.in_time && !cancelled.must_be_sent);
    }
}
