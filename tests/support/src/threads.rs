//! Threads: those that are joined where ThreadSanitizer sees it, as it does not at the end of a
//! scope; and those that cost a program of tests little code.

use std::thread::{self, JoinHandle};

/// Runs `body` on `N` threads at once, to their end.
pub fn on_threads<const N: usize>(body: impl Fn() + Sync) {
    thread::scope(|scope| {
        let threads = [(); N].map(|()| scope.spawn(&body));
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    });
}

/// As [`thread::spawn`], of which two dozen functions are compiled for each closure: here for each
/// type of result.
pub fn spawn<T: Send + 'static>(body: impl FnOnce() -> T + Send + 'static) -> JoinHandle<T> {
    let body: Box<dyn FnOnce() -> T + Send> = Box::new(body);
    thread::spawn(body)
}
