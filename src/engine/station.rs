//! How a thread of the crew reaches the group that it serves.
//!
//! *Owner*: the thread.

use crate::dispatch::InHand;
use crate::reaper::{Group, Serve, TurnContext, Watch};
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
    /// The number of its first shard.
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
        let first = crew.groups[group].shards.start;
        Station { engine, crew, group, first, number }
    }
}

impl<'a, T: Send + 'static> Serve for Station<'a, T> {
    type Payload = T;
    type Role = Role<'a, T>;

    fn group(&self) -> &Group {
        &self.crew.groups[self.group].group
    }

    fn clock(&self) -> &Clock {
        &self.engine.clock
    }

    fn scale(&self) -> Scale {
        self.engine.scale
    }

    fn number(&self) -> usize {
        self.number
    }

    fn watch(&self) -> Option<&Watch> {
        self.engine.watch.as_deref()
    }

    fn is_stopping(&self) -> bool {
        self.engine.is_stopping()
    }

    fn take(&self, index: usize) -> Option<Role<'a, T>> {
        self.engine.ending.try_take(self.first + index)
    }

    fn run<R>(
        &self,
        index: usize,
        role: &mut Role<'a, T>,
        f: impl FnOnce(&TurnContext<'_, T>, &mut InHand<T>) -> R,
    ) -> R {
        let (context, in_hand) = self.engine.turn_context(self.first + index, role);
        let result = f(&context, in_hand);
        self.crew.waits_no_more();
        result
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
