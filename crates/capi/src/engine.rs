//! Engines: how they are made, stopped and freed, and the version.

use std::ffi::{c_char, c_int, c_void};
use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tickless::{BuildError, StopError};

use crate::bells::bells;
use crate::failure::{
    Failure, TICKLESS_E_ARGUMENT, TICKLESS_E_FORKED, TICKLESS_E_INSIDE_TASK, TICKLESS_E_SYSTEM,
    TICKLESS_E_TIMED_OUT, TICKLESS_OK, discard, enter,
};
use crate::memory;
use crate::options::{Settings, TicklessOptions};
use crate::process;
use crate::shell::{self, Inner, TicklessEngine};
use crate::task::{Payload, TicklessFn};
use crate::time::{TICKLESS_NEVER, duration, ns_of};

/// Is called with a timer that will not run. It may call run(user_data), and releases nothing.
pub type TicklessReturned = Option<
    unsafe extern "C-unwind" fn(context: *mut c_void, run: TicklessFn, user_data: *mut c_void),
>;

/// The version of this interface. If tickless_abi_version() differs, rebuild the program.
pub const TICKLESS_ABI_VERSION: u32 = 1;

const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), "\0");

/// TICKLESS_ABI_VERSION of the library that was loaded.
#[unsafe(no_mangle)]
pub extern "C" fn tickless_abi_version() -> u32 {
    TICKLESS_ABI_VERSION
}

/// Its version: "0.1.0".
#[unsafe(no_mangle)]
pub extern "C" fn tickless_version() -> *const c_char {
    VERSION.as_ptr().cast()
}

/// Makes an engine; `options` is NULL for the defaults. Stores NULL if it fails.
///
/// Errors: TICKLESS_E_SYSTEM, TICKLESS_E_NOMEM.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tickless_engine_new(
    options: *const TicklessOptions,
    engine: *mut *mut TicklessEngine,
) -> c_int {
    enter(|| {
        if engine.is_null() {
            return Err(Failure::null("engine"));
        }
        // SAFETY: it points to a pointer, as the header asks.
        unsafe { engine.write(std::ptr::null_mut()) };
        process::remember()?;
        memory::keep()?;
        // SAFETY: they are options, as the header asks.
        let Settings { mut builder, clock, driven_shards, system_clock, on_batch, reach } =
            unsafe { Settings::read(options) }?;
        let bells = driven_shards.map(|shards| bells(shards, system_clock)).transpose()?;
        if let Some(bells) = bells.as_ref().map(Arc::downgrade) {
            // Threads that have used an engine keep its hook for a while after it was freed. The
            // descriptors have to be closed then, so the hook does not keep them.
            builder = builder.on_earlier(move |shard| {
                if let Some(bells) = bells.upgrade() {
                    bells[shard].ring();
                }
            });
        }
        let built = match on_batch {
            None => builder.build_each(Payload::fire),
            Some(hook) => builder.build_typed(move |batch| hook.pass(batch)),
        };
        let built = built.map_err(build_failure)?;
        let gave_up = AtomicBool::new(false);
        let inner = Inner { engine: built, bells, clock, gave_up, reach };
        // SAFETY: as above.
        unsafe { engine.write(shell::fill(inner)) };
        Ok(TICKLESS_OK)
    })
}

/// Stops an engine: no callback begins any more. Waits for those that run, but no longer than
/// `limit_ns`. Passes what was pending to `returned`, unless that is NULL or it repeats, and
/// releases the user data. (A timer that another thread is moving may be left to
/// tickless_timer_cancel, which returns 1 then.) A second stop waits again. The engine has to be
/// freed.
///
/// Errors: TICKLESS_E_TIMED_OUT, it is stopped but something still runs; TICKLESS_E_INSIDE_TASK.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tickless_engine_stop(
    engine: *mut TicklessEngine,
    limit_ns: u64,
    returned: TicklessReturned,
    context: *mut c_void,
) -> c_int {
    enter(|| {
        // SAFETY: it is an engine, as the header asks.
        let inner = unsafe { shell::inner(engine) }?;
        let (payloads, running) = match limit_ns {
            TICKLESS_NEVER => (inner.engine.stop().map_err(stop_failure)?, 0),
            ns => {
                let stopped = inner.engine.stop_within(duration(ns)).map_err(stop_failure)?;
                (stopped.returned, stopped.running)
            }
        };
        // ORDER: Relaxed - a flag; the caller frees the engine after this.
        inner.gave_up.store(running > 0, Ordering::Relaxed);
        hand_back(payloads, returned, context);
        match running {
            0 => Ok(TICKLESS_OK),
            n => Err(Failure::new(TICKLESS_E_TIMED_OUT, format_args!("{n} shards are in use"))),
        }
    })
}

/// Stops an engine and frees it; NULL is none. If the last stop has returned TICKLESS_E_TIMED_OUT,
/// this does not wait, and what still runs must not use the engine. In a child, lets go of the
/// copy.
///
/// Errors: TICKLESS_E_INSIDE_TASK.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tickless_engine_free(engine: *mut TicklessEngine) -> c_int {
    enter(|| {
        if engine.is_null() {
            return Ok(TICKLESS_OK);
        }
        // SAFETY: it is an engine, as the header asks.
        let freeing = unsafe { shell::begin_to_free(engine) }?;
        if process::check().is_err() {
            // The end of the copy would wait for threads. It is left in memory.
            // SAFETY: nobody uses the engine any more, as the header asks.
            mem::forget(unsafe { freeing.empty() });
            return Ok(TICKLESS_OK);
        }
        let inner = freeing.inner();
        // ORDER: Relaxed - as above.
        let gave_up = inner.gave_up.load(Ordering::Relaxed);
        let limit = duration(if gave_up { 0 } else { TICKLESS_NEVER });
        let payloads = match inner.engine.stop_within(limit) {
            Ok(stopped) => stopped.returned,
            // A child has a copy of the engine, which it lets go of.
            Err(StopError::Forked) => Vec::new(),
            Err(error) => return Err(stop_failure(error)),
        };
        hand_back(payloads, None, std::ptr::null_mut());
        // SAFETY: nobody uses the engine any more, as the header asks.
        drop(unsafe { freeing.empty() });
        Ok(TICKLESS_OK)
    })
}

/// Stores the engine's time, of CLOCK_MONOTONIC. A manual clock begins when its engine is made.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tickless_now_ns(engine: *const TicklessEngine, now_ns: *mut u64) -> c_int {
    enter(|| {
        // SAFETY: it is an engine, as the header asks.
        let inner = unsafe { shell::inner(engine) }?;
        if now_ns.is_null() {
            return Err(Failure::null("now_ns"));
        }
        // SAFETY: it points to a number, as the header asks.
        unsafe { now_ns.write(ns_of(inner.engine.now())) };
        Ok(TICKLESS_OK)
    })
}

/// Passes on what a stop has returned, and releases it.
fn hand_back(payloads: Vec<Payload>, returned: TicklessReturned, context: *mut c_void) {
    for payload in payloads {
        let pass = |payload: Payload| match returned {
            None => drop(payload),
            Some(returned) => payload.pass_to(|task| {
                let (run, user_data) = task.parts();
                // SAFETY: the caller has promised that it may be called so.
                unsafe { returned(context, Some(run), user_data) };
            }),
        };
        // If one panics, the others are released all the same.
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| pass(payload))) {
            discard(panic);
        }
    }
}

fn build_failure(error: BuildError) -> Failure {
    let code = match error {
        BuildError::Thread(_) | BuildError::Alarm(_) | BuildError::TooManyEngines => {
            TICKLESS_E_SYSTEM
        }
        _ => TICKLESS_E_ARGUMENT,
    };
    Failure::new(code, format_args!("{error}"))
}

fn stop_failure(error: StopError) -> Failure {
    let code = match error {
        StopError::InsideTask => TICKLESS_E_INSIDE_TASK,
        _ => TICKLESS_E_FORKED,
    };
    Failure::new(code, format_args!("{error}"))
}
