//! Polling by hand, as a task whose wake-ups are counted.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::{Context, Poll, Wake, Waker};

/// A task that is only ever woken.
#[derive(Default)]
pub struct Bell {
    woken: AtomicU32,
}

/// A task, and a waker of it.
pub fn bell() -> (Arc<Bell>, Waker) {
    let bell = Arc::new(Bell::default());
    (bell.clone(), bell.into())
}

/// Polls once.
pub fn poll<F: Future + Unpin>(future: &mut F, waker: &Waker) -> Poll<F::Output> {
    Pin::new(future).poll(&mut Context::from_waker(waker))
}

impl Bell {
    /// How often it was woken so far.
    pub fn woken(&self) -> u32 {
        self.woken.load(Ordering::SeqCst)
    }
}

impl Wake for Bell {
    fn wake(self: Arc<Bell>) {
        self.woken.fetch_add(1, Ordering::SeqCst);
    }
}
