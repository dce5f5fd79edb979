//! How a thread or a task waits for a latch, and who may.
//!
//! What ends by opening a latch is *worked on* by the thread that runs it or drops it: it is a
//! party, by its address, and nobody who works for it waits for it (`dispatch/inside.rs`).
//!
//! *Owner*: any thread.
//!
//! *Orderings*: LATCH, through the latch.

use std::task::Waker;
use std::time::{Duration, Instant};

use crate::dispatch::{Party, Process, contained, work_for, works_for, yield_while};
use crate::protocol::latch::Latch;
use crate::protocol::revocable::Revocable;
use crate::protocol::twin::Twin;
use crate::sync::{Thread, park, thread};

use super::WaitError;

/// The memory that guard and waiter share.
pub(super) type Shared<V> = Twin<Revocable<V, Sleeper>>;

/// What a waiter leaves to be woken.
pub enum Sleeper {
    /// A thread that is parked, or is about to be.
    Thread(Thread),
    /// A task of an executor.
    Task(Waker),
}

/// A thing whose end can be waited for, and that ends in a way of type `E`.
pub trait Ends<E>: Sync {
    /// What opens when it has ended.
    fn latch(&self) -> &Latch<Sleeper>;

    /// The process in which it ends.
    fn process(&self) -> Process;

    /// How it ended; `None`: it has not.
    fn ended(&self) -> Option<E>;

    /// What the threads that run it or drop it work for.
    fn party(&self) -> Party {
        party(self.latch())
    }
}

/// Runs `f` as work on the thing of which `latch` is a part.
pub(crate) fn working_on<R>(latch: &Latch<Sleeper>, f: impl FnOnce() -> R) -> R {
    work_for(party(latch), f)
}

/// When a wait ends that lasts no longer than `limit`. `None`: never, since the limit is too long
/// to represent.
pub fn deadline_in(limit: Duration) -> Option<Instant> {
    Instant::now().checked_add(limit)
}

/// Waits until `thing` has ended, or until `deadline`: the calling thread sleeps.
pub fn wait_for_end<E>(thing: &dyn Ends<E>, deadline: Option<Instant>) -> Result<E, WaitError> {
    if let Some(ended) = thing.ended() {
        return Ok(ended);
    }
    may_wait(thing)?;
    let latch = thing.latch();
    if let Some(place) = latch.watch(Sleeper::Thread(thread::current())) {
        let is_over = yield_while(|| sleep_until(latch, deadline));
        if !is_over && latch.leave(place).is_some() {
            return Err(WaitError::TimedOut);
        }
    }
    Ok(thing.ended().expect("the latch is open"))
}

/// Whether the calling thread may wait for `thing`.
pub(super) fn may_wait<E>(thing: &dyn Ends<E>) -> Result<(), WaitError> {
    if !thing.process().is_current() {
        return Err(WaitError::Forked);
    }
    if works_for(thing.party()) { Err(WaitError::InsideTask) } else { Ok(()) }
}

/// Sleeps until `latch` is open or the deadline has passed. Returns whether it is open.
fn sleep_until(latch: &Latch<Sleeper>, deadline: Option<Instant>) -> bool {
    while !latch.is_open() {
        let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        if left.is_some_and(|left| left.is_zero()) {
            return false;
        }
        park(left);
    }
    true
}

fn party(latch: &Latch<Sleeper>) -> Party {
    Party::Task(std::ptr::from_ref(latch).addr())
}

// === impl Sleeper ===

impl Sleeper {
    /// Wakes. A panic of a waker is swallowed: the code that runs here is not the waiter's.
    pub fn ring(self) {
        match self {
            Sleeper::Thread(thread) => thread.unpark(),
            Sleeper::Task(waker) => _ = contained(|| waker.wake()),
        }
    }
}

debug! { impl[] Sleeper[] {} }
