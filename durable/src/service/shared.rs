//! What only a service needs whose store others share: it is told what they did.
//!
//! *Tested by*: `durable/tests/postgres/`.

use crate::error::StoreError;
use crate::position::Position;

use super::Durable;
use super::worker::is_served;

impl<P> Durable<P> {
    /// Somebody else has taken these timers out of the store.
    pub(crate) fn are_gone(&self, positions: &[Position]) {
        let mut state = self.core.state();
        for position in positions {
            state.window.cancel_at(*position);
        }
    }

    /// The clock that the instances share was read: it may have been set.
    pub(crate) fn clock_was_read(&self) {
        self.core.ring();
    }

    /// The same service, which this clone does not keep open.
    pub(crate) fn unowned(&self) -> Durable<P> {
        Durable::borrowed(&self.core)
    }

    /// Whether this thread runs a handler of this service.
    pub(crate) fn is_in_handler(&self) -> bool {
        is_served(&self.core)
    }

    /// Nothing fires any more, from now on and for this reason.
    pub(crate) fn fail(&self, error: &StoreError) {
        self.core.fail(error);
    }
}
