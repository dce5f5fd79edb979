//! The threads of an instance, and how they end.
//!
//! *Owner*: any thread stops; one at a time does it, and the others wait for that.
//!
//! *Tested by*: `tests/durable/postgres/`.

use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};

use super::clerk::Clerk;

pub(super) struct Owner {
    pub(super) instance: Arc<dyn Instance>,
    pub(super) threads: Arc<Mutex<Threads>>,
}

/// An instance, whatever its payloads are.
pub(super) trait Instance: Send + Sync {
    fn is_in_handler(&self) -> bool;

    /// Its shards are to be closed, and then the keeper ends.
    fn begin_end(&self);

    fn clerk(&self) -> &Clerk;
}

#[derive(Default)]
pub(super) struct Threads {
    pub(super) keeper: Option<JoinHandle<()>>,
    pub(super) clerk: Option<JoinHandle<()>>,
}

// === impl Owner ===

impl Owner {
    /// Ends the instance, and waits for that.
    pub(super) fn end(&self) {
        end(&*self.instance, &self.threads);
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        if !self.instance.is_in_handler() {
            end(&*self.instance, &self.threads);
            return;
        }
        // A handler had the last one. It cannot wait for itself, so another thread does. Without
        // one, the leases run out.
        let (instance, threads) = (self.instance.clone(), self.threads.clone());
        let ending = thread::Builder::new().name("durable-end".to_owned());
        let _ = ending.spawn(move || end(&*instance, &threads)).map_err(drop);
    }
}

fn end(instance: &dyn Instance, threads: &Mutex<Threads>) {
    instance.begin_end();
    let mut threads = threads.lock().unwrap_or_else(PoisonError::into_inner);
    threads.keeper.take().into_iter().for_each(join);
    instance.clerk().close();
    threads.clerk.take().into_iter().for_each(join);
}

/// Waits for a thread, unless it is this one, which may have had the last reference.
fn join(thread: JoinHandle<()>) {
    if thread.thread().id() != thread::current().id() {
        let _ = thread.join();
    }
}
