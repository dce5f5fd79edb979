//! Cancelling: how a handle ends, and what becomes of its payload, its seat and its memory.
//!
//! The payload is dropped first, while nothing is lent: its destructor is foreign code and may use
//! the engine. Only then the thread's producer is lent, to keep the seat. If the destructor panics,
//! the seat is still kept. The payload of a stranded timer is dropped last, after its entry is
//! released.
//!
//! *Owner*: the thread that has the handle.
//!
//! *Orderings*: CANCEL-FIRE, SEAT, RELEASE.
//!
//! *Tested by*: `loom-tests/tests/{cancel_fire,seat,release}.rs`, `tests/races/engine/faults.rs`.

use std::ptr::NonNull;

use crate::entry::{Entry, LetGo};
use crate::memory::{Shared, release_one};
use crate::shard::Shard;
use crate::sync::{assert_outside, prefetch_to_write};
use crate::time::Tick;

use super::{Deferred, Producer};

/// Access to the calling thread's producers.
pub trait WithProducer<T> {
    /// Calls `f` with the thread's producer of engine number `engine`, and runs the work that `f`
    /// deferred after the producer was given back. Returns `false` if the engine is gone: `f` was
    /// then not called.
    fn with_producer(
        &mut self,
        engine: u32,
        f: impl FnOnce(&mut Producer<T>, &Shared<T>) -> Deferred,
    ) -> bool;
}

/// The entry of a timer that was just cancelled. When this is dropped, the thread keeps the seat.
struct Vacated<T, W: WithProducer<T>, const EXEMPT: bool> {
    entry: NonNull<Entry<T>>,
    opens: Tick,
    producers: W,
}

/// Cancels the timer of a handle and drops its payload, which is not exempt from the limit, even if
/// it is stranded. Returns `false` if the timer fired or its engine returned it.
///
/// # Safety
/// The caller has the handle of `entry` and gives it up, and `producers` leads to producers of the
/// entry's engine.
#[inline]
pub unsafe fn cancel<T>(entry: NonNull<Entry<T>>, producers: impl WithProducer<T>) -> bool {
    assert_outside();
    // SAFETY: passed on to the caller.
    let vacated = match unsafe { vacate::<_, _, false>(entry, producers) } {
        Ok(vacated) => vacated,
        Err(stranded) => return stranded.is_some(),
    };
    // Dropped in place, and before the seat is kept: see the header.
    // SAFETY: vacating made the payload ours, and it is dropped once.
    unsafe { vacated.entry.as_ref().drop_payload() };
    true
}

/// Cancels the timer of a handle and takes its payload, even if it is stranded. Returns `None` if
/// the timer fired or its engine returned it. `EXEMPT`: the limit does not count the payload.
///
/// # Safety
/// As [`cancel`].
#[inline]
pub unsafe fn cancel_and_take<T, W: WithProducer<T>, const EXEMPT: bool>(
    entry: NonNull<Entry<T>>,
    producers: W,
) -> Option<T> {
    // SAFETY: passed on to the caller.
    match unsafe { vacate::<T, W, EXEMPT>(entry, producers) } {
        // SAFETY: vacating made the payload ours, and it is taken once.
        Ok(vacated) => Some(unsafe { vacated.entry.as_ref().take_payload() }),
        Err(stranded) => stranded,
    }
}

/// Lets go of a handle. If that frees its entry, the memory goes to the thread or the allocator.
/// Returns a stranded payload.
///
/// # Safety
/// As [`cancel`].
#[inline]
pub unsafe fn let_go<T>(
    entry: NonNull<Entry<T>>,
    mut producers: impl WithProducer<T>,
) -> Option<T> {
    // SAFETY: the handle keeps the entry allocated, and the caller gives it up.
    match unsafe { Entry::let_go_of_handle(entry) } {
        LetGo::Listed => None,
        LetGo::Mine(has_fired) => {
            // SAFETY: the list had already let go, so it is held here alone, and its payload is
            // out.
            unsafe { release(entry, &mut producers, has_fired) };
            None
        }
        // SAFETY: this was its handle.
        LetGo::Stranded => Some(unsafe { take_stranded(entry, &mut producers) }),
    }
}

/// As [`let_go`], out of line, so that a cancel that is in time does not pay for it.
///
/// # Safety
/// As [`cancel`].
#[cold]
#[inline(never)]
unsafe fn let_go_late<T>(entry: NonNull<Entry<T>>, producers: impl WithProducer<T>) -> Option<T> {
    // SAFETY: passed on to the caller.
    unsafe { let_go(entry, producers) }
}

/// Takes the payload of a stranded timer, and releases its entry.
///
/// # Safety
/// The caller had the handle, whose timer is stranded.
#[cold]
#[inline(never)]
unsafe fn take_stranded<T>(entry: NonNull<Entry<T>>, producers: &mut impl WithProducer<T>) -> T {
    // SAFETY: no list reaches it, and the caller had its handle.
    let payload = unsafe { entry.as_ref().take_back() };
    // SAFETY: no list reaches it, the caller had its handle, and the payload is out.
    unsafe { release(entry, producers, false) };
    payload
}

/// Gives memory to the thread or, if the engine is gone, to the allocator. `has_fired`: its timer
/// had fired before the handle let go.
///
/// # Safety
/// The caller alone holds the entry, whose payload is out, and gives it up.
#[cold]
#[inline(never)]
unsafe fn release<T>(
    entry: NonNull<Entry<T>>,
    producers: &mut impl WithProducer<T>,
    has_fired: bool,
) {
    // SAFETY: the caller holds it.
    let number = unsafe { entry.as_ref() }.engine();
    let is_kept = producers.with_producer(number, |producer, shared| {
        // SAFETY: passed on to the caller.
        unsafe { producer.take_in(shared, entry, has_fired) };
        Deferred::NOTHING
    });
    if !is_kept {
        // The engine is gone, and with it every list that could reach the entry.
        // SAFETY: passed on to the caller.
        unsafe { release_one(entry) };
    }
}

/// Ends the handle: cancels the timer or, if it is too late for that, lets go and returns a
/// stranded payload.
///
/// # Safety
/// As [`cancel`].
#[inline]
unsafe fn vacate<T, W: WithProducer<T>, const EXEMPT: bool>(
    entry: NonNull<Entry<T>>,
    producers: W,
) -> Result<Vacated<T, W, EXEMPT>, Option<T>> {
    // The CAS follows the load at once; if another thread scheduled the timer, this saves a message
    // to its core.
    prefetch_to_write(entry.addr().get());
    // SAFETY: the caller has the handle.
    match unsafe { entry.as_ref().vacate() } {
        Some(opens) => Ok(Vacated { entry, opens, producers }),
        // SAFETY: passed on to the caller.
        None => Err(unsafe { let_go_late(entry, producers) }),
    }
}

/// For models and tests, which have all parts of an engine.
impl<T> WithProducer<T> for (&mut Producer<T>, &Shared<T>, &[Shard<T>]) {
    fn with_producer(
        &mut self,
        _engine: u32,
        f: impl FnOnce(&mut Producer<T>, &Shared<T>) -> Deferred,
    ) -> bool {
        let (producer, shared, shards) = self;
        if !f(producer, shared).is_nothing() {
            producer.take_chores().run(shards, shared);
        }
        true
    }
}

impl<T, W: WithProducer<T>, const EXEMPT: bool> Drop for Vacated<T, W, EXEMPT> {
    #[inline]
    fn drop(&mut self) {
        let Vacated { entry, opens, .. } = *self;
        // SAFETY: this thread vacated the entry and holds it.
        let number = unsafe { entry.as_ref() }.engine();
        let is_kept = self.producers.with_producer(number, |producer, shared| {
            // SAFETY: it was vacated, its payload is gone, and this is the end of it.
            unsafe { producer.keep_vacated::<EXEMPT>(shared, entry, opens) }
        });
        if !is_kept {
            // The engine is gone; an entry that outlives it does not need it.
            // SAFETY: this thread vacated the entry and gives it up here.
            if unsafe { Entry::let_go(entry) } {
                // SAFETY: the list had already let go, so it is held here alone; it is vacant.
                unsafe { release(entry, &mut self.producers, false) };
            }
        }
    }
}
