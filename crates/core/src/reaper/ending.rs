//! The end of an engine: which thread may run turns, which drops the handler, and what comes back.
//!
//! A stopper raises the flag, closes the shards, and ends the *roles*: the README here has the
//! steps in order. Each shard has one role: the thread that holds it runs the shard's turns. The
//! stopper ends a role that is free. A role that is taken is ended by its holder, which leaves the
//! payloads in hand to the stoppers: to those that wait at once, since a running task may wait for
//! the end of such a payload. The thread that ends the last role drops the handler and wakes all
//! stoppers. So no stopper waits for a lock that is held while a task runs, and a stopper may give
//! up waiting at any time. From then on, a holder drops what is the engine's *own* by itself.
//!
//! A holder that is busy with a task may lose its role to another thread (TAKEOVER). It is then
//! *left over*: it may still look at the handler, and counts as a role that has not ended until it
//! has returned from its task.
//!
//! *Owner*: any thread stops and waits; one thread at a time holds a role.
//!
//! *Invariants*: the handler exists until the last role has ended and nobody is left over. The
//! payloads left of a batch are claimed once.
//!
//! *Orderings*: STOP. The flag is an atomic, because a batch reads it before each payload: once its
//! holder has seen the flag, no further payload is taken. A role is a word (`role.rs`). All other
//! state is behind the lock of `end`, which is not held while foreign code runs.
//!
//! *Tested by*: `loom-tests/tests/{ending,takeover}.rs`, `tests/races/stop/payloads.rs`,
//! `tests/races/stop/backlog.rs`.

use std::mem;
use std::time::Instant;

use crate::dispatch::{InHand, Payloads, Progress, contained, drop_each};
use crate::memory::{Count, Shared};
use crate::os::asymmetric;
use crate::shard::Shard;
use crate::sync::{
    AtomicBool, CachePadded, Condvar, Mutex, MutexGuard, Ordering, UnsafeCell, wait_until,
};
use crate::time::Clock;

use super::Found;
use super::role::RoleWord;

/// The state that decides how an engine with payloads `T` and a handler `H` ends.
pub struct Ending<T, H> {
    stopping: AtomicBool,
    /// On lines of their own: each turn takes a role and gives it back.
    roles: Box<[CachePadded<RoleWord<T>>]>,
    /// `Some` until the last role has ended.
    handler: UnsafeCell<Option<H>>,
    // LOCK(END): engine: take_role_over, role_ended; stopper: stop, take_role_over, wait, gave_up,
    // roles_left, claim, leave, abandon, role_ended; caller: take_role_over, role_ended; through:
    // lock.
    end: Mutex<End<T>>,
    /// Something is left, or all is over.
    changed: Condvar,
    /// Whether a payload is the engine's own: no caller gets it back, and others may await its end.
    is_own: fn(&T) -> bool,
}

/// What the stoppers wait for.
struct End<T> {
    /// Roles that have not ended, threads that lost theirs and have not returned, and stoppers that
    /// close the shards or end what is the engine's own.
    roles: usize,
    /// Payloads that were in hand when their role ended, until they are claimed.
    left: Vec<T>,
    /// Nobody will claim `left` any more.
    is_abandoned: bool,
    /// A stopper did not wait to the end.
    gave_up: bool,
    /// All roles have ended, and the handler was dropped.
    is_over: bool,
}

/// What a stopper that waits learns.
#[derive(Debug)]
pub enum Waited<T> {
    /// These were in hand when their roles ended. The wait goes on.
    Left(Vec<T>),
    /// Every role has ended, and the handler was dropped.
    Over,
    /// That did not happen in time.
    GaveUp,
}

/// A held role. Dropping it frees the role for the next thread. If the engine is stopping, dropping
/// it ends the role. If another thread has taken the role over, dropping it does neither.
pub struct Role<'a, T, H> {
    ending: &'a Ending<T, H>,
    word: &'a RoleWord<T>,
    /// `None` while it is dropped.
    in_hand: Option<InHand<T>>,
}

// SAFETY: the handler may be shared and sent if its type may. Only holders of a role look at it,
// and it is taken out when no role is left, which the lock of `end` orders. Everything else may be
// shared.
unsafe impl<T: Send, H: Send + Sync> Sync for Ending<T, H> {}

// === impl Ending ===

impl<T, H> Ending<T, H> {
    /// The state of an engine with `shards` shards that is not stopping. `is_own`: whether a
    /// payload is the engine's own.
    pub fn new(shards: usize, handler: H, is_own: fn(&T) -> bool) -> Ending<T, H> {
        let end = End {
            roles: shards,
            left: Vec::new(),
            is_abandoned: false,
            gave_up: false,
            is_over: false,
        };
        Ending {
            stopping: AtomicBool::new(false),
            roles: (0..shards).map(|_| CachePadded::new(RoleWord::new())).collect(),
            handler: UnsafeCell::new(Some(handler)),
            end: Mutex::new(end),
            changed: Condvar::new(),
            is_own,
        }
    }

    /// Whether the engine is stopping or has stopped.
    #[inline]
    pub fn is_stopping(&self) -> bool {
        // ORDER(STOP): Acquire - pairs with the swap in `begin_stop`.
        self.stopping.load(Ordering::Acquire)
    }

    /// The stop flag, for batches.
    pub fn flag(&self) -> &AtomicBool {
        &self.stopping
    }

    /// Raises the flag. Returns `true` if it was not raised before.
    pub fn begin_stop(&self) -> bool {
        // ORDER(STOP): AcqRel - Release pairs with `is_stopping`; Acquire: a second stopper comes
        // after the first.
        !self.stopping.swap(true, Ordering::AcqRel)
    }

    /// Takes the role of `shard`; waits while another thread holds it. Returns `None` if the engine
    /// is stopping.
    pub fn take_role(&self, shard: usize) -> Option<Role<'_, T, H>> {
        self.take_by(shard, RoleWord::take)
    }

    /// As [`Ending::take_role`], but does not wait: `None` as well if another thread holds it.
    pub fn try_take_role(&self, shard: usize) -> Option<Role<'_, T, H>> {
        self.take_by(shard, RoleWord::try_take)
    }

    #[inline]
    fn take_by(
        &self,
        shard: usize,
        take: impl FnOnce(&RoleWord<T>) -> Option<InHand<T>>,
    ) -> Option<Role<'_, T, H>> {
        let word = &self.roles[shard];
        let role = Role { ending: self, word, in_hand: Some(take(word)?) };
        // Asked when this has the role: the turn before may have seen that the engine is stopping,
        // and has counted what it left in hand.
        (!self.is_stopping()).then_some(role)
    }

    /// How far the hand-over under way in `shard` has come. `None`: none is under way.
    pub fn progress(&self, shard: usize) -> Option<Progress> {
        self.roles[shard].progress()
    }

    /// Looks at the hand-over under way in `shard`. A task may take as long as `after_ns`, by the
    /// engine's clock. Also returns since when payloads wait in hand at least, if any do. For any
    /// thread, which waits for no other one, and for which nobody waits.
    pub fn look(&self, shard: usize, clock: &Clock, after_ns: u64) -> (Found, Option<u64>) {
        self.roles[shard].look(clock, after_ns)
    }

    /// Takes the role of `shard` from a holder whose hand-over has not come any further than
    /// `seen`, with the payloads that were not claimed, and calls `lost` before the holder can
    /// learn that. Returns `None` if it has come further, or if the engine is stopping. The next
    /// turn has to begin with [`TurnContext::succeed`](super::TurnContext::succeed).
    pub fn take_over(
        &self,
        shard: usize,
        seen: Progress,
        lost: impl FnOnce(),
    ) -> Option<Role<'_, T, H>> {
        let word = &self.roles[shard];
        if self.is_stopping() {
            return None;
        }
        self.take_role_over(word, seen, lost)
    }

    /// Takes the role from its holder: see [`Ending::take_over`].
    fn take_role_over<'a>(
        &'a self,
        word: &'a RoleWord<T>,
        seen: Progress,
        lost: impl FnOnce(),
    ) -> Option<Role<'a, T, H>> {
        // Under the lock, so that the old holder does not count itself out before it is counted.
        let mut end = self.lock();
        let in_hand = word.take_over(seen, lost)?;
        end.roles += 1;
        drop(end);
        Some(Role { ending: self, word, in_hand: Some(in_hand) })
    }

    /// Stops: from this call on, no payload is taken out of a batch, nothing enters a shard, and no
    /// role is given out. Calls `sort` with the pending payloads, except those in the hands of a
    /// role that is just given back: [`Ending::claim`].
    ///
    /// The stopper counts as a role meanwhile, so that the handler outlives what `sort` drops,
    /// which the drop of the handler may wait for. The holders of roles end them soon;
    /// [`Ending::wait`] waits for that.
    pub fn stop<R>(
        &self,
        shards: &[Shard<T>],
        shared: &Shared<T>,
        sort: impl FnOnce(Vec<T>) -> R,
    ) -> R {
        let is_first = self.begin_stop();
        let mut end = self.lock();
        let counts = end.roles > 0;
        end.roles += usize::from(counts);
        drop(end);
        let mut pending = Vec::new();
        for shard in shards {
            let mut owner = shard.owner().lock().expect("nothing panics under this lock");
            pending.append(&mut shard.close(&mut owner, shared));
        }
        for word in &self.roles {
            if let Some(in_hand) = word.end() {
                self.role_ended(in_hand);
            }
        }
        // ORDER(STOP): SeqCst fence - pairs with the one in `open`. (If it is refused for the first
        // time, what a task has behind it comes back when that has returned.)
        let _ = asymmetric::heavy();
        for (shard, word) in shards.iter().zip(&self.roles) {
            self.take_rest_of_batch(shard, word);
        }
        pending.append(&mut self.claim());
        if is_first {
            // Only now: a thread that this wakes finds the shard closed, and its role ended or
            // ending.
            shards.iter().for_each(|shard| shard.doorbell().ring());
        }
        let sorted = sort(pending);
        if counts {
            self.role_ended(Payloads::new());
        }
        sorted
    }

    /// Takes what a running task has behind it in its batch, as a takeover does: the task may wait
    /// for the end of that. Since the flag was raised, a holder claims one more payload at most.
    fn take_rest_of_batch(&self, shard: &Shard<T>, word: &RoleWord<T>) {
        let mut attempts = (0..3).map_while(|_| word.progress());
        let taken = attempts.find_map(|seen| self.take_role_over(word, seen, || ()));
        let Some(mut role) = taken else { return };
        let left = role.parts().1.payloads().len() as u64;
        let owner = shard.owner().lock().expect("nothing panics under this lock");
        // They are not those of the thread before, since the shard was closed.
        owner.count(Count::Returned, left);
        drop(owner);
        drop(role);
    }

    /// Waits until every role has ended and the handler was dropped, until something is left to
    /// claim, or until `deadline`.
    pub fn wait(&self, deadline: Option<Instant>) -> Waited<T> {
        let mut end = self.lock();
        loop {
            if !end.left.is_empty() {
                return Waited::Left(mem::take(&mut end.left));
            }
            if end.is_over {
                return Waited::Over;
            }
            if deadline.is_some_and(|deadline| Instant::now() >= deadline) {
                end.gave_up = true;
                return Waited::GaveUp;
            }
            end = wait_until(&self.changed, &self.end, end, deadline);
        }
    }

    /// Whether a stopper did not wait to the end.
    pub fn gave_up(&self) -> bool {
        self.lock().gave_up
    }

    /// The number of shards whose role has not ended, of threads that lost theirs and have not
    /// returned, and of other stoppers that are still at it.
    pub fn roles_left(&self) -> usize {
        self.lock().roles
    }

    /// Takes the payloads that were in hand when their roles ended.
    pub fn claim(&self) -> Vec<T> {
        mem::take(&mut self.lock().left)
    }

    /// Leaves payloads that a stop has returned to the next one. Returns them if nobody will claim
    /// them any more.
    pub fn leave(&self, mut payloads: Vec<T>) -> Vec<T> {
        let mut end = self.lock();
        if !end.is_abandoned {
            end.left.append(&mut payloads);
        }
        payloads
    }

    /// Declares that nobody will claim payloads any more. The caller drops those that are returned;
    /// a thread that ends a role later drops its own.
    pub fn abandon(&self) -> Vec<T> {
        let mut end = self.lock();
        end.is_abandoned = true;
        mem::take(&mut end.left)
    }

    /// Records that a role has ended with `in_hand`, that a thread that lost its role returned, or
    /// that a stopper has done its part.
    fn role_ended(&self, in_hand: Payloads<T>) {
        let in_hand = in_hand.into_iter().map(|(_, payload)| payload);
        let mut end = self.lock();
        let (is_abandoned, gave_up) = (end.is_abandoned, end.gave_up);
        let ends_here = |payload: &T| is_abandoned || (gave_up && (self.is_own)(payload));
        let (ended, mut left): (Vec<T>, Vec<T>) = in_hand.partition(ends_here);
        end.left.append(&mut left);
        end.roles -= 1;
        let (is_left, is_last) = (!end.left.is_empty(), end.roles == 0);
        drop(end);
        if is_left {
            self.changed.notify_all();
        }
        if is_last {
            // SAFETY: all roles have ended and none is given out any more, so nobody looks at the
            // handler; the lock of `end` orders this after the last look. Exactly one role was the
            // last.
            let handler = self.handler.with_mut(|slot| unsafe { (*slot).take() });
            contained(|| drop(handler));
            self.lock().is_over = true;
            self.changed.notify_all();
        }
        // Last, since what this runs may stop the engine once more, and wait.
        drop_each(ended);
    }

    fn lock(&self) -> MutexGuard<'_, End<T>> {
        self.end.lock().expect("nothing panics under this lock")
    }
}

debug! { impl[T, H] Ending[T, H] { is_stopping = |this| this.is_stopping() } }

// === impl Role ===

impl<T, H> Role<'_, T, H> {
    /// The handler, and the payloads to hand over.
    #[inline]
    pub fn parts(&mut self) -> (&H, &mut InHand<T>) {
        // SAFETY: the handler is taken when no role is left and nobody is left over, and this
        // borrows a role, or is left over.
        let handler = self.ending.handler.with(|slot| unsafe { (*slot).as_ref() });
        let in_hand = self.in_hand.as_mut().expect("it is there until the drop");
        (handler.expect("it is taken after the last role has ended"), in_hand)
    }
}

impl<T, H> Drop for Role<'_, T, H> {
    #[inline]
    fn drop(&mut self) {
        let Some(in_hand) = self.in_hand.take() else { return };
        if in_hand.is_taken_over() {
            return self.ending.role_ended(Payloads::new());
        }
        // SAFETY: `self` holds the role, and ends here.
        if let Some(in_hand) = unsafe { self.word.give_back(in_hand) } {
            self.ending.role_ended(in_hand);
        }
    }
}

debug! { impl[T, H] Role['_, T, H] {} }
