//! Futures on tokio, each in a box: tokio's code for a future is compiled once for all tests, and
//! not for each block of theirs.

use std::pin::Pin;

use tokio::runtime::Runtime;
use tokio::task::JoinHandle;

pub(crate) trait Runs {
    /// As [`Runtime::block_on`].
    fn run<T>(&self, future: impl Future<Output = T>) -> T;

    /// As [`Runtime::spawn`].
    fn start<T: Send + 'static>(
        &self,
        future: impl Future<Output = T> + Send + 'static,
    ) -> JoinHandle<T>;
}

impl Runs for Runtime {
    fn run<T>(&self, future: impl Future<Output = T>) -> T {
        let mut output = None;
        let future: Pin<Box<dyn Future<Output = ()> + '_>> =
            Box::pin(async { output = Some(future.await) });
        self.block_on(future);
        output.expect("it has ended")
    }

    fn start<T: Send + 'static>(
        &self,
        future: impl Future<Output = T> + Send + 'static,
    ) -> JoinHandle<T> {
        let _entered = self.enter();
        spawn(future)
    }
}

/// As [`tokio::spawn`].
pub(crate) fn spawn<T: Send + 'static>(
    future: impl Future<Output = T> + Send + 'static,
) -> JoinHandle<T> {
    let future: Pin<Box<dyn Future<Output = T> + Send>> = Box::pin(future);
    tokio::spawn(future)
}
