//! The queue by which one worker hands timers to another. It is the program's and not the timers':
//! what it costs is counted apart.

use tickless_sync::{AtomicUsize, CachePadded, Ordering, UnsafeCell};

/// Room for so many.
const ROOM: usize = 64;

/// A queue with one thread that pushes and one that pops.
pub(crate) struct Queue<H> {
    places: Box<[UnsafeCell<Option<H>>]>,
    pushed: CachePadded<AtomicUsize>,
    popped: CachePadded<AtomicUsize>,
}

// SAFETY: a place belongs to the thread that the two numbers name.
unsafe impl<H: Send> Sync for Queue<H> {}

impl<H> Queue<H> {
    pub(crate) fn new() -> Queue<H> {
        Queue {
            places: (0..ROOM).map(|_| UnsafeCell::new(None)).collect(),
            pushed: CachePadded::new(AtomicUsize::new(0)),
            popped: CachePadded::new(AtomicUsize::new(0)),
        }
    }

    /// Pushes; calls `wait` while there is no room.
    pub(crate) fn push(&self, handle: H, wait: impl Fn()) {
        let at = self.pushed.load(Ordering::Relaxed);
        while at - self.popped.load(Ordering::Acquire) == ROOM {
            wait();
        }
        // SAFETY: the place is empty, and this thread alone pushes.
        self.places[at % ROOM].with_mut(|place| unsafe { *place = Some(handle) });
        self.pushed.store(at + 1, Ordering::Release);
    }

    /// Pops; calls `wait` while there is nothing.
    pub(crate) fn pop(&self, wait: impl Fn()) -> H {
        let at = self.popped.load(Ordering::Relaxed);
        while self.pushed.load(Ordering::Acquire) == at {
            wait();
        }
        // SAFETY: the place is full, and this thread alone pops.
        let handle = self.places[at % ROOM].with_mut(|place| unsafe { (*place).take() });
        self.popped.store(at + 1, Ordering::Release);
        handle.expect("a place that was pushed is full")
    }
}
