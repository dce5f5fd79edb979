//! Engines: how they are made, stopped and freed, and the version.

use std::ffi::{c_char, c_int, c_void};
use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tickless::{BuildError, StopError};

use crate::bells::bells;
use crate::failure::{
    Failure, TICKLESS_E_ARGUMENT, TICKLESS_E_CIRCULAR, TICKLESS_E_FORKED, TICKLESS_E_INSIDE_TASK,
    TICKLESS_E_SYSTEM, TICKLESS_E_TIMED_OUT, TICKLESS_OK, discard, enter,
};
use crate::options::{Settings, TicklessOptions};
use crate::process;
use crate::shell::{self, Inner, TicklessEngine};
use crate::task::{Payload, TicklessFn};
use crate::time::{TICKLESS_NEVER, duration, ns_of};

/// Is called with a timer that will not run: with the context that was given, and the callback and
/// user data of the timer. It may call run(user_data), and must not release the user data: that is
/// done right after it, if the timer has a `drop_fn`.
pub type TicklessReturned = Option<
    unsafe extern "C-unwind" fn(context: *mut c_void, run: TicklessFn, user_data: *mut c_void),
>;

/// The version of the interface that the header describes. A program that was built with another
/// one than tickless_abi_version() returns must be rebuilt.
pub const TICKLESS_ABI_VERSION: u32 = 1;

const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), "\0");

/// The version of the interface of the library that was loaded: compare it with
/// TICKLESS_ABI_VERSION.
///
/// Threads: any. In callbacks: yes.
#[unsafe(no_mangle)]
pub extern "C" fn tickless_abi_version() -> u32 {
    TICKLESS_ABI_VERSION
}

/// The version of the library that was loaded: "0.1.0".
///
/// Threads: any. In callbacks: yes.
#[unsafe(no_mangle)]
pub extern "C" fn tickless_version() -> *const c_char {
    VERSION.as_ptr().cast()
}

/// Makes an engine. `options` is NULL for the defaults. Stores the engine in `*engine`, or NULL if
/// it fails.
///
/// Errors: TICKLESS_E_NULL; TICKLESS_E_ARGUMENT, an option is out of its range; TICKLESS_E_SYSTEM,
/// a thread or an eventfd could not be made; TICKLESS_E_NOMEM; TICKLESS_E_FORKED, see FORK.
///
/// Threads: any. In callbacks: yes.
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

/// Stops an engine: from the call on, no callback begins, and scheduling is refused (while the call
/// is under way, some may still succeed: those timers do not run either). Waits until the callbacks
/// that run have returned, but no longer than `limit_ns` (TICKLESS_NEVER: no limit). Each timer
/// that was pending is passed to `returned`, if that is not NULL, on the calling thread, and then
/// its user data is released. (Those that repeat are not passed, only released. One that another
/// thread is moving to an earlier time may be left to whoever ends it: tickless_timer_cancel
/// returns 1 then.) The engine still has to be freed.
///
/// Stopping an engine again waits again, and passes what has come back since.
///
/// Errors: TICKLESS_E_NULL, TICKLESS_E_HANDLE; TICKLESS_E_TIMED_OUT, the engine is stopped but a
/// callback still runs, or a thread of the engine has not ended yet; TICKLESS_E_INSIDE_TASK, the
/// call comes from a callback of the engine, which goes on as before; TICKLESS_E_CIRCULAR, the same
/// with callbacks that wait for each other; TICKLESS_E_FORKED.
///
/// Threads: any, also several. In callbacks: of other engines only.
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
        process::check()?;
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

/// Frees an engine, and stops it first. Timers that were pending do not run; their user data is
/// released. When this returns 0, no callback of the engine runs any more, unless the last
/// tickless_engine_stop has returned TICKLESS_E_TIMED_OUT: then this does not wait, and a callback
/// that still runs must not use the engine. Timers may be ended later. NULL is no engine: returns
/// 0. In a child process, this lets go of the copy of its parent's engine, and releases no user
/// data.
///
/// No other call may use the engine at the same time, except callbacks of the engine that this
/// waits for.
///
/// Errors: TICKLESS_E_HANDLE, it was freed before or another call frees it; TICKLESS_E_INSIDE_TASK
/// and TICKLESS_E_CIRCULAR as for tickless_engine_stop, and the engine is as before.
///
/// Threads: any, while no other uses the engine. In callbacks: of other engines only.
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

/// Stores the engine's time in `*now_ns`: nanoseconds of CLOCK_MONOTONIC, by the engine's clock. A
/// clock that is moved by hand begins at the time at which its engine was made.
///
/// Errors: TICKLESS_E_NULL, TICKLESS_E_HANDLE.
///
/// Threads: any. In callbacks: yes.
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
        StopError::Circular => TICKLESS_E_CIRCULAR,
        _ => TICKLESS_E_FORKED,
    };
    Failure::new(code, format_args!("{error}"))
}
