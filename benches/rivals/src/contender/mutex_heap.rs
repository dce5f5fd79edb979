//! What people write by hand: a binary heap in a mutex, a condition variable, a thread.
//!
//! Cancelling sets a flag; the heap keeps the timer until it would have been due.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

use super::{Contender, Producer, Setup};
use crate::error::BenchError;
use crate::sink;

/// How many timers the thread takes before it lets others at the heap.
const BATCH: usize = 64;

const PENDING: u8 = 0;
const FIRED: u8 = 1;
const CANCELLED: u8 = 2;

/// The heap and its thread.
#[derive(Debug)]
pub(crate) struct MutexHeap(Arc<Shared>);

/// The heap.
#[derive(Debug)]
pub(crate) struct HeapProducer(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    heap: Mutex<BinaryHeap<Reverse<Entry>>>,
    earlier: Condvar,
}

#[derive(Debug)]
struct Entry {
    deadline: Instant,
    token: u64,
    state: Arc<AtomicU8>,
}

impl Contender for MutexHeap {
    const NAME: &'static str = "mutex-heap";
    const ABOUT: &'static str = "by hand: BinaryHeap, parking_lot mutex and condvar; lazy cancel";

    type Timer = Option<Arc<AtomicU8>>;
    type Producer = HeapProducer;

    fn start(_: Setup) -> Result<MutexHeap, BenchError> {
        let shared = Arc::new(Shared::default());
        let of_thread = shared.clone();
        thread::Builder::new().name(Self::NAME.to_owned()).spawn(move || of_thread.run()).map_err(
            |error| BenchError::Setup { contender: Self::NAME, cause: error.to_string() },
        )?;
        Ok(MutexHeap(shared))
    }

    fn producer(&self) -> HeapProducer {
        HeapProducer(self.0.clone())
    }
}

impl Producer for HeapProducer {
    type Timer = Option<Arc<AtomicU8>>;

    #[inline]
    fn schedule(&mut self, timer: Pin<&mut Self::Timer>, delay: Duration, token: u64) {
        let deadline = Instant::now() + delay;
        let state = Arc::new(AtomicU8::new(PENDING));
        *timer.get_mut() = Some(state.clone());
        let mut heap = self.0.heap.lock();
        let is_earliest = heap.peek().is_none_or(|Reverse(first)| deadline < first.deadline);
        heap.push(Reverse(Entry { deadline, token, state }));
        drop(heap);
        if is_earliest {
            self.0.earlier.notify_one();
        }
    }

    #[inline]
    fn cancel(&mut self, timer: Pin<&mut Self::Timer>) -> bool {
        timer.get_mut().take().is_some_and(|state| settle(&state, CANCELLED))
    }
}

// === impl Shared ===

impl Shared {
    /// Fires what is due, for ever. Tokens leave the lock before they fire.
    fn run(&self) {
        let mut due = Vec::with_capacity(BATCH);
        loop {
            let mut heap = self.heap.lock();
            let now = Instant::now();
            while due.len() < BATCH && heap.peek().is_some_and(|Reverse(e)| e.deadline <= now) {
                due.extend(heap.pop());
            }
            if due.is_empty() {
                match heap.peek().map(|Reverse(first)| first.deadline) {
                    Some(deadline) => drop(self.earlier.wait_until(&mut heap, deadline)),
                    None => self.earlier.wait(&mut heap),
                }
                continue;
            }
            drop(heap);
            for Reverse(entry) in due.drain(..) {
                if settle(&entry.state, FIRED) {
                    sink::fire(entry.token);
                }
            }
        }
    }
}

/// Decides what becomes of a pending timer, if nothing has become of it yet.
fn settle(state: &AtomicU8, fate: u8) -> bool {
    state.compare_exchange(PENDING, fate, Ordering::AcqRel, Ordering::Relaxed).is_ok()
}

// === impl Entry ===

impl Ord for Entry {
    fn cmp(&self, other: &Entry) -> std::cmp::Ordering {
        self.deadline.cmp(&other.deadline)
    }
}

impl PartialOrd for Entry {
    fn partial_cmp(&self, other: &Entry) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Entry {
    fn eq(&self, other: &Entry) -> bool {
        self.deadline == other.deadline
    }
}

impl Eq for Entry {}
