//! How a pool's worker announces that it is about to wait for a reaper.
//!
//! A reaper may wait for a pool's workers (`Full::Block`). A task on such a worker that stops an
//! engine, or runs its turns, waits for a reaper. That would be a deadlock. So all code of the
//! engine that waits for a reaper waits inside [`yield_while`]: there a worker tells its pool that
//! it will not take payloads, and if it was the last one, reapers stop waiting for room.
//!
//! *Owner*: each thread has its own post, or none.

use std::cell::RefCell;

use crate::sync::Arc;

/// A thread's post: work that reapers may be waiting for. A worker's post is its pool.
pub(crate) trait Post: Send + Sync {
    /// The thread leaves the post for a while.
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

/// Runs `f`, which may wait for a reaper. The thread leaves its post meanwhile, if it has one.
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
    // The post is taken out, so that a nested call does not leave it twice. A thread that is
    // ending has left its post.
    let post = POST.try_with(RefCell::take).unwrap_or_default();
    if let Some(post) = &post {
        post.leave();
    }
    let _back = Back(post);
    f()
}
