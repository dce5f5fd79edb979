//! What people write by hand: a binary heap of deadlines in a mutex, a condition variable, and a
//! thread that waits for the first.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;
use std::time::Instant;

use parking_lot::{Condvar, Mutex};

/// How many items the thread takes before it lets others at the heap.
const BATCH: usize = 64;

/// Items with deadlines.
#[derive(Debug)]
pub(crate) struct Heap<T> {
    entries: Mutex<BinaryHeap<Reverse<Entry<T>>>>,
    earlier: Condvar,
}

/// An item that is ordered by its deadline alone.
#[derive(Debug)]
pub(crate) struct Entry<T> {
    pub(crate) deadline: Instant,
    pub(crate) item: T,
}

// === impl Heap ===

impl<T> Heap<T> {
    /// Adds an item.
    #[inline]
    pub(crate) fn push(&self, deadline: Instant, item: T) {
        let mut entries = self.entries.lock();
        let is_earliest = entries.peek().is_none_or(|Reverse(first)| deadline < first.deadline);
        entries.push(Reverse(Entry { deadline, item }));
        drop(entries);
        if is_earliest {
            self.earlier.notify_one();
        }
    }

    /// Throws out what is not to be kept. O(n).
    pub(crate) fn retain(&self, mut keep: impl FnMut(&T) -> bool) {
        self.entries.lock().retain(|Reverse(entry)| keep(&entry.item));
    }

    /// Fires what is due, for ever. Items leave the lock before they fire.
    pub(crate) fn run(&self, mut fire: impl FnMut(T)) {
        let mut due = Vec::with_capacity(BATCH);
        loop {
            let mut entries = self.entries.lock();
            let now = Instant::now();
            while due.len() < BATCH && entries.peek().is_some_and(|Reverse(e)| e.deadline <= now) {
                due.extend(entries.pop());
            }
            if due.is_empty() {
                match entries.peek().map(|Reverse(first)| first.deadline) {
                    Some(deadline) => drop(self.earlier.wait_until(&mut entries, deadline)),
                    None => self.earlier.wait(&mut entries),
                }
                continue;
            }
            drop(entries);
            due.drain(..).for_each(|Reverse(entry)| fire(entry.item));
        }
    }
}

impl<T> Default for Heap<T> {
    fn default() -> Heap<T> {
        Heap { entries: Mutex::new(BinaryHeap::new()), earlier: Condvar::new() }
    }
}

// === impl Entry ===

impl<T> Ord for Entry<T> {
    fn cmp(&self, other: &Entry<T>) -> Ordering {
        self.deadline.cmp(&other.deadline)
    }
}

impl<T> PartialOrd for Entry<T> {
    fn partial_cmp(&self, other: &Entry<T>) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<T> PartialEq for Entry<T> {
    fn eq(&self, other: &Entry<T>) -> bool {
        self.deadline == other.deadline
    }
}

impl<T> Eq for Entry<T> {}
