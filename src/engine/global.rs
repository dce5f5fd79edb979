//! The engine that a whole process shares.
//!
//! *Tested by*: `tests/future_global.rs`, `tests/fork.rs`.

use std::ptr;

use crate::error::BuildError;
use crate::sync::{AtomicPtr, Ordering};

use super::Engine;

/// The engine of this process or of the one that it was forked from, or null. An engine that was
/// published here is never freed.
static GLOBAL: AtomicPtr<Engine> = AtomicPtr::new(ptr::null_mut());

// === impl Engine: the process's own ===

impl Engine {
    /// Returns the process's own engine, on which [`sleep`](crate::sleep),
    /// [`timeout`](crate::timeout) and [`interval`](crate::interval) run. It has the default
    /// settings (1 ms ticks, a shard per core with a thread each, no limit) and is started on first
    /// use. It is never dropped. It can be stopped like any other engine, and does not start again.
    /// A child process has a global engine of its own.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tickless::Engine;
    ///
    /// let engine = Engine::global();
    /// assert!(engine.schedule(Duration::from_secs(5), || println!("five seconds"))?.cancel());
    /// assert!(std::ptr::eq(engine, Engine::global()), "there is one");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Panics
    /// The engine is not running yet, and its threads could not be started.
    /// [`try_global`](Engine::try_global) returns the error instead.
    pub fn global() -> &'static Engine {
        match Engine::try_global() {
            Ok(engine) => engine,
            Err(error) => panic!("the process's own engine could not be started: {error}"),
        }
    }

    /// As [`global`](Engine::global), but returns the error instead of panicking. The next call
    /// tries again.
    ///
    /// If several threads call this first, each may build an engine, and one of these engines is
    /// kept.
    ///
    /// # Errors
    /// A thread could not be started.
    pub fn try_global() -> Result<&'static Engine, BuildError> {
        // ORDER: Acquire - pairs with the CAS below: the engine is built.
        let mut known = GLOBAL.load(Ordering::Acquire);
        loop {
            // SAFETY: an engine that was published is never freed, and is only shared from then on.
            match unsafe { known.as_ref() } {
                Some(engine) if !engine.is_inherited() => return Ok(engine),
                _ => {}
            }
            let built = Box::into_raw(Box::new(Engine::new()?));
            // ORDER: AcqRel - publishes the engine; Acquire - sees the engine of a thread that was
            // faster.
            match GLOBAL.compare_exchange(known, built, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => known = built,
                Err(other) => {
                    known = other;
                    // SAFETY: it came from `into_raw`, and nobody else has seen it.
                    drop(unsafe { Box::from_raw(built) });
                }
            }
        }
    }
}
