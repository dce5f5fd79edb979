//! A timer by hand: a [heap](crate::heap) and its thread.
//!
//! Cancelling sets a flag; the heap keeps the timer until it would have been due.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use super::{Contender, Producer, Setup};
use crate::error::BenchError;
use crate::heap::Heap;
use crate::sink;

const PENDING: u8 = 0;
const FIRED: u8 = 1;
const CANCELLED: u8 = 2;

/// The heap and its thread.
#[derive(Debug)]
pub(crate) struct MutexHeap(Arc<Heap<Timer>>);

/// The heap.
#[derive(Debug)]
pub(crate) struct HeapProducer(Arc<Heap<Timer>>);

#[derive(Debug)]
struct Timer {
    token: u64,
    state: Arc<AtomicU8>,
}

impl Contender for MutexHeap {
    const NAME: &'static str = "mutex-heap";
    const ABOUT: &'static str = "by hand: BinaryHeap, parking_lot mutex and condvar; lazy cancel";

    type Timer = Option<Arc<AtomicU8>>;
    type Producer = HeapProducer;

    fn start(_: Setup) -> Result<MutexHeap, BenchError> {
        let heap = Arc::new(Heap::default());
        let of_thread = heap.clone();
        let run = move || of_thread.run(Timer::fire);
        thread::Builder::new()
            .name(Self::NAME.to_owned())
            .spawn(run)
            .map_err(BenchError::setup(Self::NAME))?;
        Ok(MutexHeap(heap))
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
        self.0.push(deadline, Timer { token, state });
    }

    #[inline]
    fn cancel(&mut self, timer: Pin<&mut Self::Timer>) -> bool {
        timer.get_mut().take().is_some_and(|state| settle(&state, CANCELLED))
    }
}

// === impl Timer ===

impl Timer {
    fn fire(self) {
        if settle(&self.state, FIRED) {
            sink::fire(self.token);
        }
    }
}

/// Decides what becomes of a pending timer, if nothing has become of it yet.
fn settle(state: &AtomicU8, fate: u8) -> bool {
    state.compare_exchange(PENDING, fate, Ordering::AcqRel, Ordering::Relaxed).is_ok()
}
