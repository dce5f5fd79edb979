//! The threads of a service, and how they end.
//!
//! *Owner*: any thread stops; one at a time does it, and the others wait for that.
//!
//! The order of an end: nothing new is taken, the engine and the alarm end, the workers end after
//! the handlers that run, and then the writer writes what is left and ends with the store.
//!
//! *Tested by*: `tests/durable/service.rs`.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crate::error::StopError;
use crate::record::Record;
use crate::store::{Op, Store};

use super::core::{Core, State};
use super::pending::Then;
use super::worker::Run;
use super::writer::Writer;

/// As good as for ever.
const FAR: Duration = Duration::from_secs(1 << 30);

pub(super) struct Owner {
    core: Arc<Core>,
    threads: Arc<Mutex<Threads>>,
}

#[derive(Default)]
struct Threads {
    workers: Vec<JoinHandle<()>>,
    writer: Option<JoinHandle<()>>,
}

// === impl Owner ===

impl Owner {
    pub(super) fn start<S: Store>(
        core: &Arc<Core>,
        store: S,
        run: &Arc<Run>,
    ) -> io::Result<Arc<Owner>> {
        let name = &core.config.thread_name;
        let owner = Owner { core: core.clone(), threads: Arc::default() };
        {
            // If a thread cannot be started, dropping the owner ends the others.
            let mut threads = owner.threads.lock().unwrap_or_else(PoisonError::into_inner);
            let writer = Writer::new(core.clone(), store);
            let builder = thread::Builder::new().name(format!("{name}-writer"));
            threads.writer = Some(builder.spawn(move || writer.run())?);
            // Tasks need one that starts them.
            let workers = if core.config.tasks.is_some() { 1 } else { core.config.workers };
            for _ in 0..workers {
                let (core, run) = (core.clone(), run.clone());
                let builder = thread::Builder::new().name(format!("{name}-worker"));
                // It counts as one before it runs, so that an end waits for it.
                core.state().workers += 1;
                let counted = core.clone();
                let worker = builder.spawn(move || core.work(&*run));
                threads.workers.push(worker.inspect_err(|_| counted.state().workers -= 1)?);
            }
        }
        Ok(Arc::new(owner))
    }

    /// Returns how many handlers were still running when the limit was over.
    pub(super) fn stop(&self, limit: Option<Duration>) -> Result<usize, StopError> {
        if self.core.is_served() {
            return Err(StopError::InHandler);
        }
        if let Some(limit) = limit {
            let now = Instant::now();
            self.core.end_by(now.checked_add(limit).unwrap_or(now + FAR));
        }
        let running = end(&self.core, &self.threads);
        let failure = self.core.state().failure.clone();
        failure.map_or(Ok(running), |error| Err(StopError::Store(error)))
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        if !self.core.is_served() {
            end(&self.core, &self.threads);
            return;
        }
        // A handler had the last one, or a waker that the writer has called. It cannot wait for
        // itself, so another thread does.
        let (core, threads) = (self.core.clone(), self.threads.clone());
        let ending = thread::Builder::new().name("durable-end".to_owned());
        if ending.spawn(move || end(&core, &threads)).is_err() {
            // Without one, what is pending is lost, as in a crash: it was not durable yet.
            self.core.close();
        }
    }
}

fn end(core: &Core, threads: &Mutex<Threads>) -> usize {
    core.close();
    let mut threads = threads.lock().unwrap_or_else(PoisonError::into_inner);
    // What the engine returns is in the store as well. It refuses to stop only inside a task of its
    // own, and its tasks are this crate's.
    let _ = core.engine.stop();
    core.wall.stop();
    let running = core.wait_for_workers();
    for worker in threads.workers.drain(..) {
        // One that is still busy ends when its handler returns: nobody waits for it, and its timer
        // comes again.
        if running == 0 || core.config.tasks.is_some() {
            // Panics of handlers are caught where they are called.
            join(worker);
        }
    }
    core.let_the_writer_end();
    core.abort_tasks();
    core.writer_bell.notify_one();
    threads.writer.take().into_iter().for_each(join);
    running
}

/// Waits for a thread, which is not this one.
fn join(thread: JoinHandle<()>) {
    debug_assert!(thread.thread().id() != thread::current().id());
    let _ = thread.join();
}

impl Core {
    fn let_the_writer_end(&self) {
        let mut state = self.state();
        // The handlers that are left behind have not ended the process: it was to end.
        for record in state.window.noted_and_running() {
            let from = record.position;
            let to = Arc::new(Record { tried: true, ..(*record).clone() });
            state.pending.outcome(Op::Move { from, to }, Then::Begin(from));
        }
        state.is_ending = true;
    }

    fn wait_for_workers(&self) -> usize {
        let mut state = self.state();
        while state.workers > 0 || !state.running.is_empty() {
            let until = self.waits_until(&state);
            let left = until.map(|until| until.saturating_duration_since(Instant::now()));
            state = match left {
                None => self.end_bell.wait(state).unwrap_or_else(PoisonError::into_inner),
                Some(Duration::ZERO) => break,
                Some(left) => {
                    let woken = self.end_bell.wait_timeout(state, left);
                    woken.unwrap_or_else(PoisonError::into_inner).0
                }
            };
        }
        // Others may not have noticed yet that there is no more work.
        state.running.len()
    }

    /// Until when an end waits: it may be limited, and so may each handler.
    fn waits_until(&self, state: &State) -> Option<Instant> {
        let last = state.running.values().map(|running| running.since).max();
        // What becomes of its timers cannot be written any more, and another instance has them.
        if self.config.share.is_some() && state.failure.is_some() {
            return Some(Instant::now());
        }
        let limit = self.config.handler_limit;
        let over = last.zip(limit).and_then(|(last, limit)| last.checked_add(limit));
        state.end_by.into_iter().chain(over).min()
    }
}
