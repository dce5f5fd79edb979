//! Timers with handles, timers that can be waited for, and those of a scope.

use std::mem;
use std::sync::Arc;

use tickless::wait::Ended;

use super::case::Deed;
use super::stage::{Stage, picked};
use super::world::{Fate, What, lock};
use models::engine_model::case::At;

impl Stage {
    pub(super) fn schedule(self: &Arc<Stage>, at: At, slack: u16, owned: bool, deed: Deed) {
        let number = self.world.add(What::Timer);
        let (at_ns, latest, when) = self.world.within(at, slack);
        let task = self.task(number, deed);
        let outcome = match owned {
            true => self.engine.schedule(when, task).map(Some),
            false => self.engine.schedule_detached(when, task).map(|()| None),
        };
        match outcome {
            Ok(handle) => {
                self.expect_accepted();
                self.world.file_within(number, at_ns, latest);
                lock(&self.handles).extend(handle.map(|handle| (number, handle)));
            }
            Err(error) => self.expect_reason(error.reason()),
        }
    }

    pub(super) fn cancel(&self, pick: u16, takes: bool) {
        let Some((number, handle)) = take(&mut lock(&self.handles), pick) else { return };
        let done = if takes { handle.take().is_some() } else { handle.cancel() };
        self.world.ended(number, done);
    }

    pub(super) fn reset(&self, pick: u16, at: At, slack: u16) {
        let Some((number, mut handle)) = take(&mut lock(&self.handles), pick) else { return };
        let (at_ns, latest, when) = self.world.within(at, slack);
        match handle.reset(when) {
            Ok(()) => {
                let is_pending = self.world.is_pending(number);
                self.world.expect(is_pending, || format!("moved {number}, which is over"));
                self.world.file_within(number, at_ns, latest);
            }
            Err(_) => self.world.ended(number, false),
        }
        lock(&self.handles).push((number, handle));
    }

    pub(super) fn detach(&self, pick: u16) {
        drop(take(&mut lock(&self.handles), pick));
    }

    pub(super) fn wait(self: &Arc<Stage>, at: At, deed: Deed) {
        let number = self.world.add(What::Waitable);
        let (at_ns, delay) = self.world.after(at);
        match self.engine.schedule_waitable(delay, self.task(number, deed)) {
            Ok(waitable) => {
                self.world.file(number, at_ns);
                lock(&self.waitables).push((number, waitable));
            }
            Err(error) => self.expect_reason(error.reason()),
        }
    }

    pub(super) fn wait_cancel(&self, pick: u16, waits: bool) {
        let Some((number, mut waitable)) = take(&mut lock(&self.waitables), pick) else { return };
        if !waits {
            return self.world.ended(number, waitable.cancel());
        }
        // Nothing runs, so there is nothing to wait for: it never runs, or it has run.
        let ended = waitable.cancel_wait().expect("not in a task");
        assert_eq!(ended == Ended::Finished, self.world.fate(number) == Fate::Fired, "{ended:?}");
        if self.world.is_pending(number) {
            self.world.ended(number, ended == Ended::Cancelled);
        }
    }

    pub(super) fn wait_reset(&self, pick: u16, at: At) {
        let mut waitables = lock(&self.waitables);
        let Some(index) = picked(pick, waitables.len()) else { return };
        let (number, waitable) = &mut waitables[index];
        let (at_ns, delay) = self.world.after(at);
        match waitable.reset(delay) {
            Ok(()) => self.world.file(*number, at_ns),
            Err(_) => self.world.ended(*number, false),
        }
    }

    pub(super) fn scoped(self: &Arc<Stage>, at: At, deed: Deed) {
        let number = self.world.add(What::Scoped);
        let (at_ns, delay) = self.world.after(at);
        let task = self.task(number, deed);
        let outcome = if number % 2 == 0 {
            let (scope, keys) = &mut *lock(&self.scope);
            scope.schedule(delay, task).map(|key| keys.push((number, key)))
        } else {
            let (scope, keys) = &mut *lock(&self.waitable_scope);
            scope.schedule(delay, task).map(|key| keys.push((number, key)))
        };
        match outcome {
            Ok(()) => self.world.file(number, at_ns),
            Err(error) => self.expect_reason(error.reason()),
        }
    }

    pub(super) fn scoped_cancel(&self, pick: u16) {
        let (number, done) = if pick % 2 == 0 {
            let (scope, keys) = &mut *lock(&self.scope);
            let Some((number, key)) = take(keys, pick / 2) else { return };
            (number, scope.cancel(key))
        } else {
            let (scope, keys) = &mut *lock(&self.waitable_scope);
            let Some((number, key)) = take(keys, pick / 2) else { return };
            (number, scope.cancel(key))
        };
        self.world.ended(number, done);
    }

    pub(super) fn scoped_reset(&self, pick: u16, at: At) {
        let (scope, keys) = &mut *lock(&self.scope);
        let Some(index) = picked(pick, keys.len()) else { return };
        let ((number, key), (at_ns, delay)) = (keys[index], self.world.after(at));
        match scope.reset(key, delay) {
            Ok(()) => self.world.file(number, at_ns),
            Err(_) => self.world.ended(number, false),
        }
    }

    /// Ends both scopes: what is pending there is cancelled, or goes on.
    pub(super) fn scope_ends(&self, detaches: bool) {
        let (scope, keys) = &mut *lock(&self.scope);
        let scope = mem::replace(scope, self.engine.scope());
        let (other, other_keys) = &mut *lock(&self.waitable_scope);
        let other = mem::replace(other, self.engine.waitable_scope());
        let keys = mem::take(keys).into_iter().chain(mem::take(other_keys));
        if detaches {
            scope.detach();
            return other.detach();
        }
        drop((scope, other));
        let waits = keys.filter(|(number, _)| self.world.is_pending(*number));
        waits.for_each(|(number, _)| self.world.ended(number, true));
    }
}

/// Takes out what `pick` means.
fn take<T>(from: &mut Vec<T>, pick: u16) -> Option<T> {
    picked(pick, from.len()).map(|index| from.swap_remove(index))
}
