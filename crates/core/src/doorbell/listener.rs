//! How a ring reaches the task of a runtime that serves an engine's shards.
//!
//! A ring notes its shard and wakes the task. The task leaves its waker, takes the notes, and then
//! runs the turns that they ask for. So a ring that comes after the task has looked finds the
//! waker. The first of several rings takes the waker, and the others rely on it: until the
//! task is awake they wait for that one thread, unlike those who ring a thread.
//!
//! A task that waits for a timer leaves no waker: a ring makes the timer come (`earliest.rs`).
//!
//! *Owner*: one task at a time listens; any thread rings, from a hook.
//!
//! *Invariants*: the place of the waker owns what it points to, and who takes it out owns that.
//!
//! *Orderings*: DOORBELL. A thread that rings has posted its work and passed the fence of
//! `ring_before`. The waker's place is changed by RMWs alone, which order the notes: a ring that
//! finds no waker there came before the task left one, and the task sees its note.
//!
//! *Tested by*: `loom-tests/tests/listener.rs`, `tests/suite/drive/steps.rs`,
//! `tests/suite/drive/attacks.rs`.

use std::ptr;
use std::task::Waker;

use crate::sync::{Arc, AtomicBool, AtomicPtr, Ordering};

use super::{Earliest, Timer};

/// What a task listens to: the bells of an engine's shards.
pub struct Listener {
    /// Whether a task listens.
    is_heard: AtomicBool,
    /// What a task waits for that leaves no waker, if there is such a task.
    timer: Option<Arc<dyn Rung>>,
    /// What the next ring wakes, or null.
    waker: AtomicPtr<Waker>,
    /// For each shard, whether it was rung since the task took the note.
    rung: Box<[AtomicBool]>,
}

/// What a ring makes come, by a time of the engine's clock: an [`Earliest`].
pub trait Rung: Send + Sync {
    /// As [`Earliest::ring`].
    fn ring(&self, at_ns: u64);
}

/// The task that listens. Another may do so when this is dropped.
pub struct Listening {
    listener: Arc<Listener>,
    /// What was left for the rings.
    waker: Option<Arc<Waker>>,
}

/// The notes of the rings so far, for a task that has left its waker. A ring that is not among them
/// wakes it.
pub struct Rings<'a> {
    listener: &'a Listener,
}

// === impl Listener ===

impl Listener {
    /// A listener for this number of shards.
    pub fn new(shards: usize) -> Listener {
        Listener {
            is_heard: AtomicBool::new(false),
            timer: None,
            waker: AtomicPtr::new(ptr::null_mut()),
            rung: (0..shards).map(|_| AtomicBool::new(false)).collect(),
        }
    }

    /// The same for a task that waits for a timer.
    pub fn with_timer(mut self, timer: Option<Arc<dyn Rung>>) -> Listener {
        self.timer = timer;
        self
    }

    /// Whether rings are for a timer.
    pub fn has_timer(&self) -> bool {
        self.timer.is_some()
    }

    /// Whether a task listens.
    pub fn is_heard(&self) -> bool {
        // ORDER: Relaxed - what that task runs sees it; to others it is a hint.
        self.is_heard.load(Ordering::Relaxed)
    }

    /// Rings for a shard, if a task listens: it is to come at once or, if it waits for a timer, by
    /// `at_ns`.
    pub fn ring(&self, shard: usize, at_ns: u64) {
        // ORDER(DOORBELL): Relaxed - ordered by the fence in `ring_before`: a task that began to
        // listen after that looks for work when it has published its first sleep.
        if !self.is_heard.load(Ordering::Relaxed) {
            return;
        }
        // ORDER(DOORBELL): Release - pairs with the Acquire in `take`.
        self.rung[shard].fetch_or(true, Ordering::Release);
        self.timer.iter().for_each(|timer| timer.ring(at_ns));
        // (Dropped last: a foreign destructor may do anything.)
        self.exchange(None).iter().for_each(|waker| waker.wake_by_ref());
    }

    /// Begins to listen. `None`: another task listens.
    pub fn listen(self: &Arc<Self>) -> Option<Listening> {
        // ORDER(DOORBELL): Acquire - pairs with the Release of the task before. The fence of the
        // first sleep that is published shows it to those who ring.
        let is_heard = self.is_heard.swap(true, Ordering::Acquire);
        (!is_heard).then(|| Listening { listener: self.clone(), waker: None })
    }

    /// Leaves a waker, or none, for the next ring. Returns the one that was there.
    fn exchange(&self, waker: Option<Arc<Waker>>) -> Option<Arc<Waker>> {
        let waker = waker.map_or(ptr::null(), Arc::into_raw);
        // ORDER(DOORBELL): AcqRel - each comes after all before it: the one who takes a waker sees
        // it, and a task that leaves one sees the notes of those who found none.
        let before = self.waker.swap(waker.cast_mut(), Ordering::AcqRel);
        // SAFETY: it came from `into_raw`, and who takes it out of its place owns it.
        (!before.is_null()).then(|| unsafe { Arc::from_raw(before) })
    }
}

impl<T: Timer> Rung for Earliest<T> {
    fn ring(&self, at_ns: u64) {
        Earliest::ring(self, at_ns);
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        drop(self.exchange(None));
    }
}

// === impl Listening ===

impl Listening {
    /// Lets the next ring wake this waker, and returns the rings so far.
    pub fn hear(&mut self, waker: &Waker) -> Rings<'_> {
        // Dropped last: a foreign destructor may do anything, even panic.
        let mut _before = None;
        if !self.waker.as_ref().is_some_and(|left| left.will_wake(waker)) {
            _before = self.waker.replace(Arc::new(waker.clone()));
        }
        let _left_before = self.listener.exchange(self.waker.clone());
        Rings { listener: &self.listener }
    }

    /// Returns the rings so far, for a task that waits for a timer ([`Earliest::wait`]).
    pub fn rings(&self) -> Rings<'_> {
        Rings { listener: &self.listener }
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        // Dropped last: a foreign destructor may do anything, even listen.
        let _waker = self.listener.exchange(None);
        // ORDER(DOORBELL): Release - pairs with the Acquire in `listen`.
        self.listener.is_heard.store(false, Ordering::Release);
    }
}

// === impl Rings ===

impl Rings<'_> {
    /// Whether the shard was rung since this was last called. The shard's turn comes after this.
    pub fn take(&self, shard: usize) -> bool {
        let rung = &self.listener.rung[shard];
        // ORDER(DOORBELL): Relaxed - a ring that found no waker is seen, by the order of the place;
        // any other wakes the task. Acquire - pairs with the Release in `ring`.
        rung.load(Ordering::Relaxed) && rung.swap(false, Ordering::Acquire)
    }
}

debug! { impl[] Listener[] {} }
debug! { impl[] Listening[] {} }
debug! { impl[] Rings['_] {} }
