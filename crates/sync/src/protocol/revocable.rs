//! A value that one side uses once, and that the other side may revoke until then.
//!
//! The *guard* goes with a timer, through the engine and whatever dispatches it, to the thread that
//! uses the value: it runs a closure, say. The *waiter* stays with the caller. It takes the value
//! back as long as it was not begun, or else waits until the use is over. In both cases nothing of
//! the value is left then.
//!
//! ```text
//!              begin                    end
//!   waits ───────────────► runs ──────────────────► ran          the latch is open
//!     ├──────────────────► drops ─────────────────► dropped      the latch is open
//!     │       discard                   end
//!     └──────────────────────────────────────────── revoked      the waiter has the value
//!                      revoke
//! ```
//!
//! - *Begin* and *revoke* are each one CAS from `waits`: one of them has the value. So a value that
//!   is on its way (in a batch, in the queue of a pool, in a channel, returned by a stop) is
//!   revoked where it is. The waiter waits only for a use that is in progress.
//! - *End* comes after the value and all that was made of it are gone. It opens the [latch], which
//!   publishes that.
//!
//! *Owner*: one guard and one waiter, on any threads. The waiter alone revokes and watches.
//!
//! *Invariant*: the value is initialized while the phase is `waits`; who leaves that phase has it.
//!
//! *Orderings*: REVOKE decides who has the value. No memory is published through it: guard and
//! waiter each got the value with themselves. LATCH says when the use is over.
//!
//! *Tested by*: `loom-tests/tests/revoke.rs`, `tests/suite/wait.rs`, `tests/races/wait/races.rs`.
//!
//! [latch]: super::latch

use std::mem::ManuallyDrop;

use crate::{AtomicU32, Ordering, UnsafeCell};

use super::latch::Latch;

/// A value that is used once or revoked. `W` is what waits for the end of the use.
pub struct Revocable<V, W> {
    phase: AtomicU32,
    value: UnsafeCell<ManuallyDrop<V>>,
    latch: Latch<W>,
}

/// How far the use of a value has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// It has not begun.
    Waits,
    /// It is being used.
    Runs,
    /// It is being dropped unused.
    Drops,
    /// Its use is over.
    Ran,
    /// It was dropped unused.
    Dropped,
    /// The waiter has taken it back.
    Revoked,
}

const WAITS: u32 = Phase::Waits as u32;

const PHASES: [Phase; 6] =
    [Phase::Waits, Phase::Runs, Phase::Drops, Phase::Ran, Phase::Dropped, Phase::Revoked];

// SAFETY: the value and the waiters go with it.
unsafe impl<V: Send, W: Send> Send for Revocable<V, W> {}
// SAFETY: the value is reached by the one thread that leaves `waits`.
unsafe impl<V: Send, W: Send> Sync for Revocable<V, W> {}

// === impl Revocable ===

impl<V, W> Revocable<V, W> {
    /// A value that waits.
    #[inline]
    pub fn new(value: V) -> Revocable<V, W> {
        let value = UnsafeCell::new(ManuallyDrop::new(value));
        Revocable { phase: AtomicU32::new(WAITS), value, latch: Latch::default() }
    }

    /// The guard takes the value to use it, and calls [`end`](Revocable::end) when that is over.
    /// `None`: it was revoked.
    #[inline]
    pub fn begin(&self) -> Option<V> {
        self.take_for(Phase::Runs)
    }

    /// The guard takes the value to drop it unused, and calls [`end`](Revocable::end) then. `None`:
    /// it was revoked.
    pub fn discard(&self) -> Option<V> {
        self.take_for(Phase::Drops)
    }

    /// The waiter takes the value back. `None`: the guard has it, or had it.
    #[inline]
    pub fn revoke(&self) -> Option<V> {
        self.take_for(Phase::Revoked)
    }

    /// The use is over, and nothing is left of the value. Calls `wake` for each that waits.
    pub fn end(&self, wake: impl FnMut(W)) {
        // ORDER(REVOKE): Relaxed - only the guard writes in these phases, and the latch publishes
        // what it writes here.
        let ended = match PHASES[self.phase.load(Ordering::Relaxed) as usize] {
            Phase::Runs => Phase::Ran,
            Phase::Drops => Phase::Dropped,
            other => unreachable!("an end in the phase {other:?}"),
        };
        // ORDER(REVOKE): Relaxed - as above.
        self.phase.store(ended as u32, Ordering::Relaxed);
        self.latch.open(wake);
    }

    /// How far it has come. It is told that the use is over only if what was done in it can be
    /// seen.
    pub fn phase(&self) -> Phase {
        let is_open = self.latch.is_open();
        // ORDER(REVOKE): Relaxed - what is to be seen, the latch has shown.
        match PHASES[self.phase.load(Ordering::Relaxed) as usize] {
            Phase::Ran if !is_open => Phase::Runs,
            Phase::Dropped if !is_open => Phase::Drops,
            phase => phase,
        }
    }

    /// What opens when a use that was begun is over.
    pub fn latch(&self) -> &Latch<W> {
        &self.latch
    }

    #[inline]
    fn take_for(&self, to: Phase) -> Option<V> {
        // ORDER(REVOKE): Relaxed - it decides, and publishes nothing.
        let decided =
            self.phase.compare_exchange(WAITS, to as u32, Ordering::Relaxed, Ordering::Relaxed);
        if decided.is_err() {
            return None;
        }
        // SAFETY: this thread left `waits`, so it alone has the value.
        Some(self.value.with_mut(|value| unsafe { ManuallyDrop::take(&mut *value) }))
    }
}

debug! { impl[V, W] Revocable[V, W] { phase = |this| this.phase() } }
