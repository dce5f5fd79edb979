//! What others did to the store since a reading began, which may not show it, or since a batch was
//! about to be written, whose timers are not in the window yet.
//!
//! *Owner*: under the service's lock, as a part of the window; then the writer.
//!
//! *Tested by*: `tests/durable/told.rs`.

use std::collections::HashSet;

use crate::position::Position;

/// What is told in the middle of a reading, and in the middle of a writing.
#[derive(Debug, Default)]
pub(super) struct Told {
    /// While a page is read.
    reading: Option<Unseen>,
    /// While a batch is written, until what it has made is in the window.
    writing: Option<Unseen>,
}

#[derive(Debug, Default)]
pub(super) struct Unseen {
    /// Where the first timer is that they have added.
    first: Option<Position>,
    /// The timers that they have taken out.
    gone: HashSet<Position>,
    /// What they have done is not known: all has to be read again.
    is_all: bool,
}

// === impl Told ===

impl Told {
    pub(super) fn add(&mut self, position: Position) {
        self.each().for_each(|unseen| unseen.add(position));
    }

    pub(super) fn take(&mut self, position: Position) {
        self.each().for_each(|unseen| unseen.take(position));
    }

    /// They may have added and taken out anything.
    pub(super) fn all(&mut self) {
        self.add(Position::FIRST);
        self.each().for_each(|unseen| unseen.is_all = true);
    }

    fn each(&mut self) -> impl Iterator<Item = &mut Unseen> {
        self.reading.iter_mut().chain(&mut self.writing)
    }

    /// A page is read from now on.
    pub(super) fn begin_reading(&mut self) {
        self.reading = Some(Unseen::default());
    }

    pub(super) fn end_reading(&mut self) -> Unseen {
        self.reading.take().unwrap_or_default()
    }

    /// A batch is written from now on. As soon as it is durable, others can take out what it has
    /// made, and tell this service before it knows.
    pub(super) fn begin_writing(&mut self) {
        self.writing = Some(Unseen::default());
    }

    /// It was written. What it has made comes to the window now, unless others have taken it out.
    pub(super) fn end_writing(&mut self) -> Unseen {
        self.writing.take().unwrap_or_default()
    }
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
        self.is_all || self.gone.contains(&position)
    }
}
