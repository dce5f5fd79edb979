//! How a ring reaches the task of a runtime that serves an engine's shards.
//!
//! A ring notes its shard and wakes the task. The task leaves its waker, takes the notes, and then
//! runs the turns that they ask for. So a ring that comes after the task has looked finds the
//! waker. The first of several rings takes the waker, and the others rely on it: until the
//! task is awake they wait for that one thread, unlike those who ring a thread.
//!
//! *Owner*: one task at a time listens; any thread rings, from a hook.
//!
//! *Orderings*: DOORBELL. A thread that rings has posted its work and passed the fence of
//! `ring_before`. The waker's cell orders the notes.
//!
//! *Tested by*: `loom-tests/tests/listener.rs`, `tests/suite/drive/steps.rs`,
//! `tests/suite/drive/attacks.rs`.

use std::task::{Wake, Waker};

use crate::sync::{Arc, AtomicBool, AtomicWaker, Ordering};

/// What a task listens to: the bells of an engine's shards.
pub struct Listener {
    /// Whether a task listens.
    is_heard: AtomicBool,
    waker: AtomicWaker,
    /// For each shard, whether it was rung since the task took the note.
    rung: Box<[AtomicBool]>,
}

/// The task that listens. Another may do so when this is dropped.
pub struct Listening {
    listener: Arc<Listener>,
    /// What was left for the rings, and the same as a waker.
    woken: Option<(Arc<Woken>, Waker)>,
}

/// The task's waker behind a count of our own: the cell clones and drops wakers where a panic would
/// close it for ever.
struct Woken(Waker);

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
            waker: AtomicWaker::new(),
            rung: (0..shards).map(|_| AtomicBool::new(false)).collect(),
        }
    }

    /// Rings for a shard, if a task listens.
    pub fn ring(&self, shard: usize) {
        // ORDER(DOORBELL): Relaxed - ordered by the fence in `ring_before`: a task that began to
        // listen after that looks for work when it has published its first sleep.
        if !self.is_heard.load(Ordering::Relaxed) {
            return;
        }
        // ORDER(DOORBELL): Release - pairs with the Acquire in `take`.
        self.rung[shard].fetch_or(true, Ordering::Release);
        self.waker.wake();
    }

    /// Begins to listen. `None`: another task listens.
    pub fn listen(self: &Arc<Self>) -> Option<Listening> {
        // ORDER(DOORBELL): Acquire - pairs with the Release of the task before. The fence of the
        // first sleep that is published shows it to those who ring.
        let is_heard = self.is_heard.swap(true, Ordering::Acquire);
        (!is_heard).then(|| Listening { listener: self.clone(), woken: None })
    }
}

// === impl Listening ===

impl Listening {
    /// Lets the next ring wake this waker, and returns the rings so far.
    pub fn hear(&mut self, waker: &Waker) -> Rings<'_> {
        let is_same = |(woken, _): &(Arc<Woken>, Waker)| woken.0.will_wake(waker);
        // Dropped last: the cell has one of these.
        let mut _before = None;
        if !self.woken.as_ref().is_some_and(is_same) {
            let woken = Arc::new(Woken(waker.clone()));
            _before = self.woken.replace((woken.clone(), woken.into()));
        }
        if let Some((_, waker)) = &self.woken {
            self.listener.waker.register(waker);
        }
        Rings { listener: &self.listener }
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        // Dropped last: a foreign destructor may do anything, even listen.
        let _waker = self.listener.waker.take();
        // ORDER(DOORBELL): Release - pairs with the Acquire in `listen`.
        self.listener.is_heard.store(false, Ordering::Release);
    }
}

// === impl Woken ===

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.wake_by_ref();
    }
}

// === impl Rings ===

impl Rings<'_> {
    /// Whether the shard was rung since this was last called. The shard's turn comes after this.
    pub fn take(&self, shard: usize) -> bool {
        let rung = &self.listener.rung[shard];
        // ORDER(DOORBELL): Relaxed - a ring whose wake came before the waker was left is seen, by
        // the order of the cell; any other wakes the task. Acquire - pairs with the Release in
        // `ring`.
        rung.load(Ordering::Relaxed) && rung.swap(false, Ordering::Acquire)
    }
}

debug! { impl[] Listener[] {} }
debug! { impl[] Listening[] {} }
debug! { impl[] Rings['_] {} }
