//! Two fences that pair with each other, of which one is nearly free: for a handshake with one side
//! that is frequent and one that is rare.
//!
//! Both sides store and then load, as around `fence(SeqCst)`: of two such pairs of a store and a
//! load, at least one load sees the other side's store. The *light* fence only keeps the compiler
//! from moving accesses across it. The *heavy* one makes the system fence on all processors that
//! run a thread of this process (`membarrier` on Linux). A light fence pairs with a heavy one
//! alone: not with another light one, and not with any other fence.
//!
//! Where the system cannot do that, no fence is light ([`is_light`]), and the frequent side fences
//! in full. A system that could may refuse later, since a program may forbid itself such calls.
//! From the first refusal on, no fence is light either. But nothing orders what the frequent side
//! did before under a light fence. So that side says, with what it stores, whether it fences in
//! full. If a heavy fence is refused, the rare side relies on a store that says so, and on no
//! other.
//!
//! *Owner*: any thread.
//!
//! *Invariants*: a thread for which a fence was not light meets no light one afterwards. So a
//! thread whose last store says that it fenced in full does so for the next one too.
//!
//! *Orderings*: as two `fence(SeqCst)`. To the model checker as well, a light fence is one for
//! heavy ones alone (`crates/sync/src/membarrier.rs`).
//!
//! *Tested by*: the unit tests below, `loom-tests/tests/{asymmetric,ending,takeover}.rs`,
//! `tests/races/engine/takeover.rs`, `tests/alone/refused.rs`.

use crate::sync::{Ordering, fence};

#[cfg(loom)]
use crate::sync::membarrier as system;

/// What the system has answered.
#[cfg(not(loom))]
mod system {
    use crate::os;
    use crate::sync::{Counter, IS_CHECKED, Ordering, compiler_fence};

    static ANSWER: Counter = Counter::new(0);

    #[inline(always)]
    pub(super) fn answer() -> &'static Counter {
        &ANSWER
    }

    #[inline(always)]
    pub(super) fn light() {
        // ORDER(TAKEOVER): SeqCst, for the compiler - pairs with the system's fence.
        compiler_fence(Ordering::SeqCst);
    }

    pub(super) fn fence_all() -> bool {
        !IS_CHECKED && os::fence_all()
    }
}

/// The system fences on all processors. Before it was asked, the answer is zero.
const FENCES: u64 = 1;
/// It does not, or does no longer.
const REFUSES: u64 = 2;

/// Asks whether the system can fence on all processors. To be called before the caller's engine has
/// any thread that fences.
pub fn prepare() {
    let answer = if system::fence_all() { FENCES } else { REFUSES };
    // ORDER: Relaxed, both - those who read it come later. The first answer stays until a refusal.
    let (done, failed) = (Ordering::Relaxed, Ordering::Relaxed);
    let _ = system::answer().compare_exchange(0, answer, done, failed);
}

/// Whether [`light`] is enough for the frequent side. Otherwise its store says that it fences in
/// full, and it does.
#[inline(always)]
pub fn is_light() -> bool {
    // ORDER(TAKEOVER): Relaxed - of one thread, a load sees what an earlier one saw, or what came
    // later. It never goes from a refusal back.
    system::answer().load(Ordering::Relaxed) == FENCES
}

/// The fence of the frequent side, where fences are light.
#[inline(always)]
pub fn light() {
    system::light();
}

/// The fence of the rare side. Returns `false` if the system did not fence: then it pairs with
/// those on the frequent side that are full.
#[must_use = "what is read after it may mean nothing"]
pub fn heavy() -> bool {
    // ORDER(TAKEOVER): SeqCst fence - pairs with those of the frequent side that are full.
    fence(Ordering::SeqCst);
    let is_done = system::fence_all();
    if !is_done {
        // ORDER(TAKEOVER): Relaxed - it never goes from a refusal back.
        system::answer().store(REFUSES, Ordering::Relaxed);
    }
    is_done
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;
    use crate::sync::{AtomicU32, CachePadded, Counter, spin_loop, thread};

    const ROUNDS: u32 = 4_000;

    /// Waits, without a call of the system if it is soon.
    fn wait_until(is_it: impl Fn() -> bool) {
        for tries in 1_u32.. {
            match is_it() {
                true => return,
                false if tries % 1000 == 0 => thread::yield_now(),
                false => spin_loop(),
            }
        }
    }

    /// With a full fence in place of the heavy one, some rounds of a thousand see neither.
    #[test]
    fn of_a_light_and_a_heavy_side_one_sees_the_other() {
        prepare();
        let numbers = [(); 4].map(|()| CachePadded::new(AtomicU32::new(0)));
        let [begun, left, right, ended] = &numbers;
        let seen_left = Counter::new(0);
        let missed = thread::scope(|scope| {
            scope.spawn(|| {
                for n in 1..=ROUNDS {
                    wait_until(|| begun.load(Ordering::Acquire) == n);
                    left.store(n, Ordering::Relaxed);
                    if is_light() {
                        light()
                    } else {
                        fence(Ordering::SeqCst)
                    }
                    let is_seen = right.load(Ordering::Relaxed) == n;
                    seen_left.store(u64::from(is_seen), Ordering::Relaxed);
                    ended.store(n, Ordering::Release);
                }
            });
            let rounds = (1..=ROUNDS).filter(|&n| {
                begun.store(n, Ordering::Release);
                right.store(n, Ordering::Relaxed);
                assert!(heavy() || !is_light(), "a refusal is for ever");
                let is_seen = left.load(Ordering::Relaxed) == n;
                wait_until(|| ended.load(Ordering::Acquire) == n);
                !is_seen && seen_left.load(Ordering::Relaxed) == 0
            });
            rounds.count()
        });
        assert_eq!(missed, 0, "of {ROUNDS} rounds");
    }
}
