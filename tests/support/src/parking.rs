//! Waiting for a future with nothing but the thread: no lock, so that ThreadSanitizer sees what
//! orders a wake-up before the poll that follows it.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake};
use std::thread::{self, Thread};

/// A thread that waits.
struct Parked {
    thread: Thread,
    is_woken: AtomicBool,
}

/// Runs a future to its end on this thread.
pub fn block_on<F: Future>(future: F) -> F::Output {
    let mut future = pin!(future);
    let parked = Parked { thread: thread::current(), is_woken: AtomicBool::new(false) };
    let parked = Arc::new(parked);
    let waker = parked.clone().into();
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
            return output;
        }
        while !parked.is_woken.swap(false, Ordering::SeqCst) {
            thread::park();
        }
    }
}

impl Wake for Parked {
    fn wake(self: Arc<Parked>) {
        self.is_woken.store(true, Ordering::SeqCst);
        self.thread.unpark();
    }
}
