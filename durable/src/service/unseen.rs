//! What others did to the store since a reading began, which may not show it, or since a batch was
//! about to be written, whose timers are not in the window yet.
//!
//! *Owner*: under the service's lock, as a part of the window; then the writer.
//!
//! *Tested by*: `durable/tests/told.rs`.

use std::collections::HashSet;

use crate::position::Position;

#[derive(Debug, Default)]
pub(super) struct Unseen {
    /// Where the first timer is that they have added.
    first: Option<Position>,
    /// The timers that they have taken out.
    gone: HashSet<Position>,
}

// === impl Unseen ===

impl Unseen {
    pub(super) fn add(&mut self, position: Position) {
        self.first = self.first.into_iter().chain([position]).min();
    }

    pub(super) fn take(&mut self, position: Position) {
        self.gone.insert(position);
    }

    pub(super) fn first(&self) -> Option<Position> {
        self.first
    }

    pub(super) fn has_taken(&self, position: Position) -> bool {
        self.gone.contains(&position)
    }
}
