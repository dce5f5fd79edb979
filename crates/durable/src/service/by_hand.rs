//! A service without threads, for tests: each step is a call, and the clocks are moved by hand.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use crate::error::StoreError;
use crate::store::Store;

use super::core::Core;
use super::durable::Durable;
use super::worker::Run;
use super::writer::Writer;

/// See [`Builder::open_by_hand`](crate::Builder::open_by_hand).
pub struct ByHand<P, S> {
    durable: Durable<P>,
    writer: Writer<S>,
    run: Arc<Run>,
}

// === impl ByHand ===

impl<P, S: Store> ByHand<P, S> {
    pub(super) fn new(core: Arc<Core>, store: S, run: Arc<Run>) -> ByHand<P, S> {
        let durable = Durable::borrowed(&core);
        ByHand { durable, writer: Writer::new(core, store), run }
    }

    /// The service, for calls.
    pub fn timers(&self) -> &Durable<P> {
        &self.durable
    }

    /// A step of the writer: it writes what is pending and reads a page.
    ///
    /// # Errors
    /// The store has failed, and the service with it.
    pub fn step(&mut self) -> Result<(), StoreError> {
        let result = self.writer.step();
        if let Err(error) = &result {
            self.core().fail(error);
        }
        result
    }

    /// Calls the handler with the next timer that is due, if there is one: at any time, also during
    /// a step.
    pub fn worker(&self) -> impl Fn() -> bool + Send + use<P, S> {
        let (core, run) = (self.core().clone(), self.run.clone());
        move || core.work_once(&*run)
    }

    /// Lets time pass by both clocks, in steps of 10 ms, by the wall clock first.
    pub fn advance(&self, by: Duration) {
        let (now, step) = (self.core().now(), Duration::from_millis(10));
        let mut passed = Duration::ZERO;
        while passed < by {
            let step = step.min(by - passed);
            passed += step;
            self.core().wall.set_now(now + passed);
            self.advance_engine(step);
        }
    }

    /// Lets time pass by the engine's clock alone: the wall clock is slower or stands still.
    pub fn advance_engine(&self, by: Duration) {
        self.core().engine.advance(by).expect("the engine is driven here alone");
    }

    /// Sets the wall clock, forward or back.
    pub fn set_wall(&self, now: SystemTime) {
        self.core().wall.set_now(now);
        self.core().engine.advance(Duration::ZERO).expect("the engine is driven here alone");
    }

    /// What the wall clock shows.
    pub fn now(&self) -> SystemTime {
        self.core().now()
    }

    /// What a stop does: what is pending is written, and the store comes back.
    ///
    /// # Errors
    /// The store has failed.
    pub fn stop(mut self) -> Result<S, StoreError> {
        self.core().close();
        while !self.core().state().pending.is_empty() {
            self.step()?;
        }
        Ok(self.writer.store)
    }

    fn core(&self) -> &Arc<Core> {
        &self.writer.core
    }
}

impl<P, S> std::fmt::Debug for ByHand<P, S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ByHand").finish_non_exhaustive()
    }
}
