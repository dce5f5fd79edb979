//! What waits, and what became of all that did: one measurement in a process.

use std::hint::black_box;
use std::sync::atomic::{AtomicU64, Ordering};

use tickless_purgatory::Operation;

use crate::sink;

/// What a request carries.
const PAYLOAD_BYTES: usize = 100;

static COMPLETED: AtomicU64 = AtomicU64::new(0);
static EXPIRED: AtomicU64 = AtomicU64::new(0);

/// A request that somebody else answers, or nobody.
#[derive(Debug)]
pub(crate) struct Request {
    number: u64,
    payload: [u8; PAYLOAD_BYTES],
}

// === impl Request ===

impl Request {
    /// The request of that number, from 0 on.
    pub(crate) fn new(number: u64) -> Request {
        Request { number, payload: [number as u8; PAYLOAD_BYTES] }
    }
}

impl Operation for Request {
    fn try_complete(&self) -> bool {
        black_box(false)
    }

    fn on_complete(&self) {
        black_box(&self.payload);
        COMPLETED.fetch_add(1, Ordering::Relaxed);
    }

    fn on_expire(&self) {
        sink::fire(self.number);
        EXPIRED.fetch_add(1, Ordering::Release);
    }
}

/// How many requests were told that they are complete, those that timed out among them.
pub(crate) fn completed() -> u64 {
    COMPLETED.load(Ordering::Relaxed)
}

/// How many timed out. When each did is in the [sink](sink::stamped_ns).
pub(crate) fn expired() -> u64 {
    EXPIRED.load(Ordering::Acquire)
}
