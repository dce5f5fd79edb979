//! A timer that waits under its key, and how it ends.
//!
//! *Owner*: the table, behind the lock of the key; or the thread that took the timer out, which
//! ends it: by `expire`, `call_off` or `discard`.
//!
//! *Tested by*: `tests/suite/keyed/answers.rs`, `tests/suite/keyed/panics.rs`,
//! `tests/suite/ttl/steps.rs`.

use std::mem::{self, needs_drop};

use tickless::internal::Panics;
use tickless::internal::protocol::gate::Armed;
use tickless::internal::protocol::twin::Twin;

use super::node::{KeyHash, MainNode, SharedNode, Timer, Waits};

/// A timer that waits under its key. It is changed only under the lock of the key, so none of it is
/// atomic. It is two words, so that the tables are small: all else lies in the node.
pub(super) struct Waiting<K, T> {
    pub(super) node: MainNode<K, T>,
    pub(super) timer: Timer<K, T>,
}

// === impl Waiting ===

impl<K, T: Waits<K>> Waiting<K, T> {
    /// Whether its key has this hash, so that it is nearly certainly the timer that is looked for.
    #[inline]
    pub(super) fn has(&self, hash: KeyHash) -> bool {
        // The entry is fetched while the node is, which has the hash and the key.
        self.timer.prefetch();
        self.node.prefetch();
        self.node.hash == hash
    }

    /// Lets ticket `generation` count from now on, with its timer, unless it comes too late or too
    /// early for that. Leaves the timer that is not needed in `timer`.
    pub(super) fn rearm(&mut self, generation: u64, timer: &mut Timer<K, T>) -> Armed {
        let armed = self.node.own().generations.arm(generation);
        if armed == Armed::Counts {
            mem::swap(&mut self.timer, timer);
        }
        armed
    }

    /// The timer is due: returns its task.
    pub(super) fn expire(self) -> (T, SharedNode<K, T>) {
        self.node.gate.end();
        let (kept, node) = self.node.split();
        (kept.task, node)
    }

    /// Cancels the timer and returns its task. The caller drops the two ends of the node, which
    /// may drop the key and so is code of the user.
    #[inline]
    pub(super) fn call_off(self) -> (T, SharedNode<K, T>, Option<SharedNode<K, T>>) {
        self.node.gate.end();
        // If it is too late for this, the thread that runs the ticket finds that it does not count.
        let other = self.timer.take();
        let (kept, node) = self.node.split();
        (kept.task, node, other)
    }

    /// Cancels the timer, drops its key, and returns its task.
    ///
    /// # Panics
    /// Propagates a panic of the key's drop. The task was dropped then.
    #[inline]
    pub(super) fn into_task(self) -> T {
        let (task, node, other) = self.call_off();
        if !needs_drop::<K>() {
            drop_ends(node, other);
            return task;
        }
        after(|| drop_ends(node, other), task)
    }

    /// Cancels the timer, and drops its task and its key.
    pub(super) fn discard(self, panics: &mut Panics) {
        let (task, node, other) = self.call_off();
        panics.drop(task);
        panics.run(|| drop_ends(node, other));
    }
}

/// Returns `task` after a drop of other things. If that panics, drops `task` as well before the
/// panic goes on.
pub(super) fn after<T>(drop: impl FnOnce(), task: T) -> T {
    let (mut task, mut panics) = (Some(task), Panics::none());
    if panics.run(drop).is_none() {
        panics.drop(task.take());
    }
    panics.go_on();
    task.expect("nothing has panicked")
}

/// Drops ends of a node, with the key if they are the last.
#[inline]
fn drop_ends<K, T>(node: SharedNode<K, T>, other: Option<SharedNode<K, T>>) {
    match other {
        Some(other) => Twin::drop_both(node, other),
        None => drop(node),
    }
}
