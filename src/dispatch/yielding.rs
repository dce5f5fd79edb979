//! Threads that reapers may be waiting for, and what they do before they wait for a reaper.
//!
//! A reaper may wait for a pool's workers (`Full::Block`). A task on such a worker that stops an
//! engine, or runs its turns, waits for a reaper. Neither could go on. So whatever in the engine
//! waits for a reaper does it inside [`yield_while`]: there a worker tells its pool that nobody can
//! count on it, and the reapers that it was the last hope of go on without.
//!
//! *Owner*: each thread has a post of its own, or none.

use std::cell::RefCell;

use crate::sync::Arc;

/// Where a thread serves reapers.
pub(crate) trait Post: Send + Sync {
    /// The thread leaves it, for a while.
    fn leave(&self);
    /// The thread is back.
    fn resume(&self);
}

thread_local! {
    static POST: RefCell<Option<Arc<dyn Post>>> = const { RefCell::new(None) };
}

/// Runs `f` with the calling thread at `post`.
pub(crate) fn serve<R>(post: Arc<dyn Post>, f: impl FnOnce() -> R) -> R {
    POST.set(Some(post));
    let result = f();
    POST.take();
    result
}

/// Runs `f`, which may wait for a reaper. Whoever has no post runs it just so.
pub(crate) fn yield_while<R>(f: impl FnOnce() -> R) -> R {
    struct Back(Option<Arc<dyn Post>>);
    impl Drop for Back {
        fn drop(&mut self) {
            if let Some(post) = self.0.take() {
                post.resume();
                POST.set(Some(post));
            }
        }
    }
    // Taken out, so that one who has stepped aside does not do it again. A thread that is ending
    // has left its post.
    let post = POST.try_with(RefCell::take).unwrap_or_default();
    if let Some(post) = &post {
        post.leave();
    }
    let _back = Back(post);
    f()
}
