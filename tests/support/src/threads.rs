//! Threads that are joined where ThreadSanitizer sees it, as it does not at the end of a scope.

use std::thread;

/// Runs `body` on `N` threads at once, to their end.
pub fn on_threads<const N: usize>(body: impl Fn() + Sync) {
    thread::scope(|scope| {
        let threads = [(); N].map(|()| scope.spawn(&body));
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    });
}
