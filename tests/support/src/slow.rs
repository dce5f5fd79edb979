//! A task that takes as long as the test wants it to.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

/// The test's end of a slow task.
pub struct Slow {
    begun: Receiver<()>,
    end: Sender<()>,
}

impl Slow {
    /// A task that waits, once it runs, until the test releases it.
    pub fn task() -> (Slow, impl FnOnce() + Send + 'static) {
        let ((begins, begun), (end, ends)) = (channel(), channel());
        let task = move || {
            begins.send(()).unwrap();
            ends.recv().unwrap();
        };
        (Slow { begun, end }, task)
    }

    /// Waits until the task is running.
    pub fn has_begun(&self) {
        self.begun.recv_timeout(Duration::from_secs(60)).unwrap();
    }

    pub fn release(self) {
        self.end.send(()).unwrap();
    }
}
