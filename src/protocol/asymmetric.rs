//! Two fences that pair with each other, of which one is nearly free: for a handshake with one side
//! that is frequent and one that is rare.
//!
//! Both sides store and then load, as around `fence(SeqCst)`: of two such pairs of a store and a
//! load, at least one load sees the other side's store. The *light* fence only keeps the compiler
//! from moving accesses across it. The *heavy* one makes the system fence on all processors that
//! run a thread of this process (`membarrier` on Linux). Where the system cannot do that, both are
//! sequentially consistent fences.
//!
//! *Owner*: any thread.
//!
//! *Orderings*: as two `fence(SeqCst)`, which they are for the checkers.
//!
//! *Tested by*: `loom-tests/tests/takeover.rs`, `tests/races/engine/takeover.rs`.

use crate::os;
use crate::sync::{Counter, IS_CHECKED, Ordering, compiler_fence, fence};

/// Whether the system fences on all processors. Zero until it was asked.
static IS_SYSTEMS: Counter = Counter::new(0);

/// Asks whether the system can fence on all processors. Until then, light fences are not light.
pub fn prepare() {
    if !IS_CHECKED && os::can_fence_all() {
        // ORDER: Relaxed - a light fence that does not see it yet is a full one.
        IS_SYSTEMS.store(1, Ordering::Relaxed);
    }
}

/// The fence of the frequent side.
#[inline(always)]
pub fn light() {
    // ORDER: Relaxed - as in `prepare`; it never goes back to zero.
    let is_systems = !IS_CHECKED && IS_SYSTEMS.load(Ordering::Relaxed) != 0;
    // ORDER(TAKEOVER): SeqCst, for the compiler or for all - pairs with the fence in `heavy`.
    if is_systems { compiler_fence(Ordering::SeqCst) } else { fence(Ordering::SeqCst) }
}

/// The fence of the rare side. Returns `false` if the system did not fence: then nothing follows
/// from what is read after it.
#[must_use = "without a fence, what is read means nothing"]
pub fn heavy() -> bool {
    // ORDER(TAKEOVER): SeqCst fence - pairs with those in `light` that are full ones.
    fence(Ordering::SeqCst);
    if IS_CHECKED {
        return true;
    }
    // The system is asked whatever this thread knows: another one may know more, and rely on it.
    // ORDER: Relaxed - as in `prepare`.
    let knows_that_it_can = IS_SYSTEMS.load(Ordering::Relaxed) != 0;
    os::fence_all() || !knows_that_it_can && !os::can_fence_all()
}
