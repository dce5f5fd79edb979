//! One operation in the purgatory: its word, the state that its holder keeps beside the word, and
//! the task of its timer.
//!
//! *Owner*: shared by reference count: the lists of its keys, its timer, its tickets, and calls
//! under way. When the operation ends, the lists and the timer drop their references, so that only
//! tickets keep it.
//!
//! *Invariant*: only a [`Hold`] touches the state beside the word, and there is at most one (HOLD).
//!
//! *Tested by*: `tests/suite/purgatory/answers.rs`, `tests/races/purgatory.rs`; the word by
//! `loom-tests/tests/hold.rs`; the timer's task by `tests/suite/dispatch/dropped.rs`.

use std::mem;

use tickless::Handle;
use tickless::internal::protocol::hold::{Came, Decided, HoldWord, Released};
use tickless::internal::sync::{Arc, CountShard, Nesting, UnsafeCell};
use tickless::internal::{EngineRef, debug};

use super::lists::{Places, WatchLists};
use super::{Decision, Operation};

/// The lists of nodes.
pub(super) type Lists<K, O> = WatchLists<K, Arc<Node<K, O>>>;

/// An operation and its state in the purgatory.
pub(super) struct Node<K, O> {
    word: HoldWord<Decision>,
    kept: UnsafeCell<HolderState>,
    pub(super) operation: Arc<O>,
    count: CountShard<Arc<Lists<K, O>>>,
}

/// State that only the holder touches.
#[derive(Default)]
struct HolderState {
    places: Places,
    timer: Option<Handle>,
}

/// The holder's own try completed the operation.
pub(super) const COMPLETED: Released<Decision> =
    Released::Finish { how: Decision::Completed, by_holder: true };

/// The hold of a node. Dropping it gives the operation up: a key or its hash panicked during the
/// registration.
pub(super) struct Hold<'a, K, O: Operation> {
    pub(super) node: &'a Arc<Node<K, O>>,
}

/// The task that expires an operation: the engine's reference to it.
///
/// If a task is dropped at its time or later, it expires its operation as if it were run: a
/// dispatcher that drops a task for lack of room must not leave an operation waiting for ever. If a
/// task is dropped before its time, its engine has stopped. Its operation then waits on, without a
/// timeout: checks, tickets and [`Purgatory::stop`](super::Purgatory::stop) still find it.
pub(super) struct Expiry<K, O: Operation> {
    /// `None`: it has run.
    pub(super) node: Option<Arc<Node<K, O>>>,
    pub(super) due_ns: u64,
    pub(super) engine: EngineRef,
}

thread_local! {
    /// The nodes that this thread is trying at the moment.
    static TRIES: Nesting<*const ()> = const { Nesting::new() };
}

// SAFETY: the word, the reference counts and the lists' locks may be shared. Only the holder
// touches the kept state, and the hold passes from thread to thread by CASes that release and
// acquire (HOLD); a `Handle` may be sent. The operation is `Send + Sync`.
unsafe impl<K: Send, O: Send + Sync> Sync for Node<K, O> {}

// === impl Node ===

impl<K, O: Operation> Node<K, O> {
    /// A node that is [held](Hold) by its creator.
    pub(super) fn new_held(
        operation: Arc<O>,
        count: CountShard<Arc<Lists<K, O>>>,
    ) -> Arc<Node<K, O>> {
        let kept = UnsafeCell::new(HolderState::default());
        Arc::new(Node { word: HoldWord::new_held(), kept, operation, count })
    }

    pub(super) fn decision(&self) -> Option<Decision> {
        self.word.end()
    }

    /// Makes sure that the operation is tried once more. Returns `true` if it was tried here and
    /// completed.
    pub(super) fn check(self: &Arc<Self>) -> bool {
        match self.word.come(|| self.is_tried_here()) {
            Came::Hold => Hold { node: self }.work() == COMPLETED,
            Came::Noted | Came::Over => false,
        }
    }

    /// Decides how the operation ends. `false`: that was decided already.
    pub(super) fn decide(self: &Arc<Self>, decision: Decision) -> bool {
        match self.word.decide(decision, || self.is_tried_here()) {
            Decided::Finish => {
                let mut hold = Hold { node: self };
                hold.finish(decision);
                mem::forget(hold);
                true
            }
            Decided::Noted => true,
            Decided::Late => false,
        }
    }

    fn lists(&self) -> &Lists<K, O> {
        &self.count
    }

    fn try_complete(&self) -> bool {
        let mut answer = false;
        let call = || self.lists().contained(|| answer = self.operation.try_complete());
        TRIES.with(|tries| tries.inside(self.address(), call));
        answer
    }

    fn is_tried_here(&self) -> bool {
        TRIES.with(|tries| tries.is_inside(&self.address()))
    }

    fn address(&self) -> *const () {
        (&raw const *self).cast()
    }
}

debug! { impl[K, O] Node[K, O] { word = |this| this.word } }

// === impl Lists: their end ===

impl<K, O: Operation> Lists<K, O> {
    /// Cancels operations, and returns those that this has ended.
    pub(super) fn cancel_all(&self, nodes: impl Iterator<Item = Arc<Node<K, O>>>) -> Vec<Arc<O>> {
        let mut cancelled = Vec::new();
        self.visit(nodes, |node| {
            if node.decide(Decision::Cancelled) {
                cancelled.push(node.operation.clone());
            }
        });
        cancelled
    }
}

// === impl Hold ===

impl<K, O: Operation> Hold<'_, K, O> {
    /// Watches the operation under one more key. `false`: the lists are closed.
    pub(super) fn watch(&mut self, key: K, hash: u64) -> bool
    where
        K: Eq,
    {
        let is_first = self.kept(|kept| kept.places.is_empty());
        let place = self.node.lists().watch(self.node.clone(), key, hash, is_first);
        place.map(|place| self.kept(|kept| kept.places.push(place))).is_some()
    }

    /// Keeps the handle of the operation's timer.
    pub(super) fn keep(&mut self, timer: Handle) {
        self.kept(|kept| kept.timer = Some(timer));
    }

    /// Tries the operation, then releases it or finishes it.
    pub(super) fn work(mut self) -> Released<Decision> {
        let try_complete = || self.node.try_complete();
        let released = self.node.word.work(Decision::Completed, try_complete);
        if let Released::Finish { how, .. } = released {
            self.finish(how);
        }
        // If the operation waits, another thread may hold it by now.
        mem::forget(self);
        released
    }

    /// Ends the operation without a callback, unless its end is decided already. Returns whether
    /// this call ended it.
    pub(super) fn give_up(mut self) -> bool {
        let is_ours = self.abandon();
        mem::forget(self);
        is_ours
    }

    fn abandon(&mut self) -> bool {
        match self.node.word.conclude(Decision::Cancelled) {
            Released::Finish { how, by_holder: false } => {
                self.finish(how);
                false
            }
            _ => {
                self.let_go(None);
                true
            }
        }
    }

    /// Cancels the timer and removes the operation from its keys, then calls its callbacks.
    fn finish(&mut self, decision: Decision) {
        self.let_go(Some(decision));
        let (lists, operation) = (self.node.lists(), &self.node.operation);
        if decision != Decision::Cancelled {
            lists.contained(|| operation.on_complete());
        }
        if decision == Decision::Expired {
            lists.contained(|| operation.on_expire());
        }
    }

    /// Cancels the timer, and removes the operation from each of its keys.
    fn let_go(&mut self, counted: Option<Decision>) {
        let HolderState { places, timer } = self.kept(mem::take);
        if let Some(timer) = timer {
            timer.cancel();
        }
        self.node.lists().leave(&places, counted);
    }

    fn kept<R>(&mut self, f: impl FnOnce(&mut HolderState) -> R) -> R {
        // SAFETY: this is the only hold of the node, and it is borrowed exclusively.
        self.node.kept.with_mut(|kept| f(unsafe { &mut *kept }))
    }
}

impl<K, O: Operation> Drop for Hold<'_, K, O> {
    fn drop(&mut self) {
        self.abandon();
    }
}

// === impl Expiry ===

impl<K, O: Operation> Expiry<K, O> {
    /// The timeout has come.
    pub(super) fn come(mut self) {
        if let Some(node) = self.node.take() {
            node.decide(Decision::Expired);
        }
    }
}

impl<K, O: Operation> Drop for Expiry<K, O> {
    fn drop(&mut self) {
        let Some(node) = self.node.take() else { return };
        // In the usual case of a dropped task, its operation has ended already.
        if node.decision().is_none() && self.engine.has_reached(self.due_ns) {
            node.decide(Decision::Expired);
        }
    }
}
