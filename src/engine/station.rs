//! How a thread of the crew reaches the group that it serves.
//!
//! *Owner*: the thread.

use crate::dispatch::InHand;
use crate::reaper::{Group, Part, Reaper, Serve};
use crate::sync::{Arc, Ordering, fence};
use crate::time::{Clock, Scale};

use super::core::{Core, Role};
use super::crew::{Crew, Duty};

/// A group, as one of the threads reaches it.
pub(super) struct Station<'a, T> {
    engine: &'a Arc<Core<T>>,
    crew: &'a Crew,
    /// The group's number.
    group: usize,
    /// The core of its shards.
    core: &'a Core<T>,
    /// The number of its first shard there.
    first: usize,
    number: usize,
}

// === impl Station ===

impl<'a, T> Station<'a, T> {
    /// How thread `number` reaches group `group`.
    pub(super) fn new(
        engine: &'a Arc<Core<T>>,
        crew: &'a Crew,
        group: usize,
        number: usize,
    ) -> Station<'a, T> {
        let (core, first) = engine.part(crew.groups[group].shards.start);
        Station { engine, crew, group, core, first, number }
    }
}

impl<'a, T: Send + 'static> Serve for Station<'a, T> {
    type Payload = T;
    type Role = Role<'a, T>;

    fn group(&self) -> &Group {
        &self.crew.groups[self.group].group
    }

    fn clock(&self) -> &Clock {
        &self.core.clock
    }

    fn scale(&self) -> Scale {
        self.core.scale
    }

    fn number(&self) -> usize {
        self.number
    }

    fn is_stopping(&self) -> bool {
        self.core.is_stopping()
    }

    fn take(&self, index: usize) -> Option<Role<'a, T>> {
        self.core.ending.try_take(self.first + index)
    }

    fn run<R>(
        &self,
        index: usize,
        role: &mut Role<'a, T>,
        f: impl FnOnce(&Reaper<'_, T>, &mut InHand<T>) -> R,
    ) -> R {
        let part = Part::new(self.group(), index, self.number);
        let (reaper, in_hand) = self.core.reaper(self.first + index, role);
        f(&Reaper { part: Some(part), ..reaper }, in_hand)
    }

    fn came_back(&self) {
        // ORDER(TAKEOVER): SeqCst fence - pairs with that of `Watch::publish`: a watcher that does
        // not see that this thread is back is called.
        fence(Ordering::SeqCst);
        self.engine.watch.iter().for_each(|watch| _ = watch.call());
    }

    fn find_leader(&self) -> bool {
        let mut state = self.crew.lock();
        let is_found = self.crew.has_room(&state)
            && self.engine.give(self.crew, &mut state, Duty::Lead(self.group));
        state.serving += usize::from(is_found);
        is_found
    }
}
