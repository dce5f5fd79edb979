//! The task of a sleep's timer: it holds a waker. And the identity of a waker.
//!
//! *Owner*: the entry of the timer; after that, who ends the timer.
//!
//! *Tested by*: `tests/future_sleep.rs`, `tests/future_panics.rs`.

use std::ptr;
use std::task::Waker;

use crate::dispatch::{Runs, Task};

/// The task of a sleep's timer. Rings when it is run or dropped: it wakes the task that waits.
pub(super) struct Ringer {
    /// `Some` until it rings.
    waker: Option<Waker>,
}

/// The identity of a waker: wakers with the same identity, which exist at the same time, wake the
/// same task.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct WakerId {
    data: usize,
    vtable: usize,
}

// === impl Ringer ===

impl Ringer {
    /// A task that rings for the task of this waker, and the identity of the waker that it holds: a
    /// clone, which may be another waker than its original.
    ///
    /// # Panics
    /// If the waker's `clone` panics.
    #[inline]
    pub(super) fn task(waker: &Waker) -> (Task, WakerId) {
        let waker = waker.clone();
        let id = WakerId::of(&waker);
        (Task::of(Ringer { waker: Some(waker) }), id)
    }
}

impl Runs for Ringer {
    const IS_EXEMPT: bool = true;

    fn run(self) {
        drop(self);
    }
}

impl Drop for Ringer {
    #[inline]
    fn drop(&mut self) {
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }
}

/// Drops a ringer that came back, without waking the task.
///
/// # Panics
/// If the waker's `drop` panics.
///
/// # Safety
/// The task was made by [`Ringer::task`].
#[inline]
pub(super) unsafe fn hush(ringer: Task) {
    // SAFETY: passed on to the caller.
    let mut ringer: Ringer = unsafe { ringer.into_value() };
    drop(ringer.waker.take());
}

// === impl WakerId ===

impl WakerId {
    /// Of no waker.
    pub(super) const NONE: WakerId = WakerId { data: 0, vtable: 0 };

    #[inline]
    pub(super) fn of(waker: &Waker) -> WakerId {
        WakerId { data: waker.data().addr(), vtable: ptr::from_ref(waker.vtable()).addr() }
    }
}
