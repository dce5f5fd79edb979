//! What only a service needs whose store others share: it is told what they did.
//!
//! *Tested by*: `tests/durable/told.rs`, `tests/durable/postgres/`.

use std::time::SystemTime;

#[cfg(any(feature = "postgres", feature = "nats"))]
use crate::error::{StopError, StoreError};
use crate::position::{Position, ms_at_or_after};
#[cfg(any(feature = "postgres", feature = "nats"))]
use crate::record::Record;

use super::durable::Durable;

impl<P> Durable<P> {
    /// Reads the store anew from this time on, because somebody else has added a timer that is due
    /// then. Only a store that several instances share needs this.
    pub fn look_again(&self, from: SystemTime) {
        let position = Position { due_ms: ms_at_or_after(from), number: 0 };
        self.core.state().window.look_again(position);
        self.core.writer_bell.notify_one();
    }

    /// Reads the whole store anew, because what others did to it was not told for a while. Only a
    /// store that several instances share needs this.
    pub fn read_again(&self) {
        self.core.state().window.read_again();
        self.core.writer_bell.notify_one();
    }

    /// Reads these timers, because somebody else has added them. Only a store that several
    /// instances share needs this.
    pub fn are_there(&self, positions: &[Position]) {
        let mut state = self.core.state();
        if !positions.is_empty() && state.refusal().is_none() {
            state.pending.there.extend_from_slice(positions);
            drop(state);
            self.core.writer_bell.notify_one();
        }
    }

    /// Forgets these timers, because somebody else has taken them out of the store. Only a store
    /// that several instances share needs this.
    pub fn are_gone(&self, positions: &[Position]) {
        let mut state = self.core.state();
        for position in positions {
            state.window.is_gone(*position);
        }
    }
}

#[cfg(any(feature = "postgres", feature = "nats"))]
impl<P> Durable<P> {
    /// The clock that the instances share was read: it may have been set. A suspect that waits for
    /// one of another shard may not have to any more.
    pub(crate) fn clock_was_read(&self) {
        self.core.ring();
        self.core.worker_bell.notify_all();
    }

    #[cfg(feature = "metrics")]
    pub(crate) fn name(&self) -> &str {
        &self.core.config.thread_name
    }

    /// How many timers this service may have in memory from now on.
    pub(crate) fn set_window(&self, timers: usize) {
        self.core.state().window.set_max(timers.max(1));
        self.core.writer_bell.notify_one();
    }

    /// Others write now: so does this service, if there is something that need not wait any longer.
    /// Returns whether it does. Its own writer is about to.
    pub(crate) fn write_now(&self) -> bool {
        let will =
            !self.core.is_served() && self.core.state().pending.call(self.core.config.linger);
        if will {
            self.core.writer_bell.notify_one();
        }
        will
    }

    /// The same service, which this clone does not keep open.
    pub(crate) fn unowned(&self) -> Durable<P> {
        Durable::borrowed(&self.core)
    }

    /// Whether this thread runs a handler of this service.
    pub(crate) fn is_in_handler(&self) -> bool {
        self.core.is_served()
    }

    /// An end of the service waits for handlers until then at most.
    pub(crate) fn end_by(&self, until: std::time::Instant) {
        self.core.end_by(until);
    }

    /// As [`stop`](Durable::stop). Returns how many handlers are left behind all the same.
    pub(crate) fn stop_and_count(&self) -> Result<usize, StopError> {
        self.stop_at_most(None)
    }

    /// The timers of which the store says that their handlers may have ended this process, as they
    /// are without that: the service has failed, and the process goes on.
    pub(crate) fn take_notes(&self) -> Vec<Record> {
        std::mem::take(&mut self.core.state().notes)
    }

    /// Nothing fires any more, from now on and for this reason.
    pub(crate) fn fail(&self, error: &StoreError) {
        self.core.fail(error);
    }
}
