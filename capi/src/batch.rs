//! Batches: timers that are due together, which one function of the caller's runs.
//!
//! *Owner*: the thread that hands the batch over, inside the caller's function.
//!
//! *Tested by*: `tests/c/batch.c`, `tests/cpp/scope.cpp`.

use std::ffi::{c_int, c_void};

use tickless::Batch;

use crate::failure::{Failure, enter};
use crate::task::{Hook, Payload};

/// Timers of a shard that are due together, in the order of their deadlines' ticks. It is there
/// while the function runs that is called with it.
#[derive(Debug)]
#[expect(dead_code, reason = "the header only names it")]
pub struct TicklessBatch(u8);

/// Is called with the context that was given, and timers that are due together. Those that it does
/// not run are run when it has returned.
pub type TicklessBatchFn =
    Option<unsafe extern "C-unwind" fn(context: *mut c_void, batch: *mut TicklessBatch)>;

pub(crate) type RunBatch =
    unsafe extern "C-unwind" fn(context: *mut c_void, batch: *mut TicklessBatch);

// === impl Hook ===

impl Hook<RunBatch> {
    /// Passes a batch to the caller's function, and runs what is left in it.
    pub(crate) fn pass(&self, mut batch: Batch<'_, Payload>) {
        // SAFETY: the caller of `tickless_engine_new` has promised that it may be called so.
        unsafe { (self.call)(self.data, (&raw mut batch).cast()) };
        batch.for_each(Payload::fire);
    }
}

/// Runs the next timer of a batch: calls its callback, and releases its user data. Returns 1, also
/// if the timer was cancelled at the last moment. Returns 0 if none is left: all have run, the
/// engine stops, or the function has taken so long that another thread runs the rest.
///
/// Errors: TICKLESS_E_NULL.
///
/// Threads: the one that is called with the batch. In callbacks: those of the batch.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tickless_batch_run(batch: *mut TicklessBatch) -> c_int {
    enter(|| {
        if batch.is_null() {
            return Err(Failure::null("batch"));
        }
        // SAFETY: it is the batch that the function on this thread is called with. It is borrowed
        // for the next payload, not for the callback, which may come back here.
        let next = unsafe { (*batch.cast::<Batch<'_, Payload>>()).next() };
        let Some(payload) = next else { return Ok(0) };
        payload.fire();
        Ok(1)
    })
}
