//! Batches: timers that are due together, which one function of the caller's runs.
//!
//! A callback written in Rust may panic. The panic does not unwind through the caller's function:
//! it is kept until that has returned, and then goes on to the engine, which counts it and hands
//! the rest of the batch over again.
//!
//! *Owner*: the thread that hands the batch over, inside the caller's function.
//!
//! *Tested by*: `tests/c/batch.c`, `tests/cpp/scope.cpp`, `crates/capi/tests/panics.rs`.

use std::any::Any;
use std::ffi::{c_int, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use tickless::Batch;

use crate::failure::{Failure, discard, enter};
use crate::task::{Hook, Payload};

/// Timers that are due together, while the function runs that is called with them.
#[derive(Debug)]
#[expect(dead_code, reason = "the header only names it")]
pub struct TicklessBatch(u8);

/// What it leaves of the batch is run after it.
pub type TicklessBatchFn =
    Option<unsafe extern "C-unwind" fn(context: *mut c_void, batch: *mut TicklessBatch)>;

pub(crate) type RunBatch =
    unsafe extern "C-unwind" fn(context: *mut c_void, batch: *mut TicklessBatch);

/// A batch that was passed to the caller's function.
struct Passed<'a> {
    batch: Batch<'a, Payload>,
    /// From a callback of the batch.
    panic: Option<Box<dyn Any + Send>>,
}

// === impl Hook ===

impl Hook<RunBatch> {
    /// Passes a batch to the caller's function, and runs what is left in it.
    pub(crate) fn pass(&self, batch: Batch<'_, Payload>) {
        let mut passed = Passed { batch, panic: None };
        // SAFETY: the caller of `tickless_engine_new` has promised that it may be called so.
        unsafe { (self.call)(self.data, (&raw mut passed).cast()) };
        if let Some(panic) = passed.panic {
            resume_unwind(panic);
        }
        passed.batch.for_each(Payload::fire);
    }
}

// === impl Passed ===

impl Passed<'_> {
    /// The next timer. After a panic there is none: the rest is for the next call of the function.
    fn next(&mut self) -> Option<Payload> {
        if self.panic.is_some() { None } else { self.batch.next() }
    }

    /// Keeps a panic of a callback. A callback that has run others of its batch may panic as well.
    fn keep(&mut self, panic: Box<dyn Any + Send>) {
        if let Some(earlier) = self.panic.replace(panic) {
            discard(earlier);
        }
    }
}

/// Runs the next timer of a batch, and returns 1; 0 if none is left to it, or after a panic of a
/// callback in Rust.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tickless_batch_run(batch: *mut TicklessBatch) -> c_int {
    enter(|| {
        if batch.is_null() {
            return Err(Failure::null("batch"));
        }
        let passed = batch.cast::<Passed<'_>>();
        // SAFETY: it is the batch that the function on this thread is called with. It is borrowed
        // for the next payload, not for the callback, which may come back here.
        let next = unsafe { (&mut *passed).next() };
        let Some(payload) = next else { return Ok(0) };
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| payload.fire())) {
            // SAFETY: as above.
            unsafe { (&mut *passed).keep(panic) };
        }
        Ok(1)
    })
}
