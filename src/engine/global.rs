//! The engine that a whole process shares.
//!
//! *Tested by*: `tests/future_global.rs`, `tests/fork.rs`.

use std::ptr;

use crate::error::BuildError;
use crate::sync::{AtomicPtr, Ordering};

use super::Engine;

/// The engine of this process, or of the one that it was forked from, or null. What was ever
/// published here is never freed.
static GLOBAL: AtomicPtr<Engine> = AtomicPtr::new(ptr::null_mut());

// === impl Engine: the process's own ===

impl Engine {
    /// The process's own engine, which [`sleep`](crate::sleep), [`timeout`](crate::timeout) and
    /// [`interval`](crate::interval) run on: default settings (1 ms ticks, a shard per core with a
    /// thread each, no limit), started on first use. It is never dropped. It can be stopped like
    /// any other, which is for good. A child process has one of its own.
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
    /// This is the first use, and its threads could not be started:
    /// [`try_global`](Engine::try_global) returns the error instead.
    pub fn global() -> &'static Engine {
        match Engine::try_global() {
            Ok(engine) => engine,
            Err(error) => panic!("the process's own engine could not be started: {error}"),
        }
    }

    /// As [`global`](Engine::global), for who would rather know. The next call tries again.
    ///
    /// Where several threads are the first, each may build an engine, of which one is kept.
    ///
    /// ```
    /// use tickless::Engine;
    ///
    /// // At the beginning of a program, so that nothing later can fail by it.
    /// let engine = Engine::try_global()?;
    /// assert!(engine.is_empty());
    /// # Ok::<(), tickless::BuildError>(())
    /// ```
    ///
    /// # Errors
    /// A thread could not be started.
    pub fn try_global() -> Result<&'static Engine, BuildError> {
        // ORDER: Acquire - pairs with the exchange below: the engine is built.
        let mut known = GLOBAL.load(Ordering::Acquire);
        loop {
            // SAFETY: what was published is never freed, and shared from then on.
            match unsafe { known.as_ref() } {
                Some(engine) if !engine.is_inherited() => return Ok(engine),
                _ => {}
            }
            let built = Box::into_raw(Box::new(Engine::new()?));
            // ORDER: AcqRel - publishes the engine; Acquire - that of a thread that was faster.
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
