//! The engine that a whole process shares.

use crate::error::BuildError;
use crate::sync::OnceLock;

use super::Engine;

static GLOBAL: OnceLock<Engine> = OnceLock::new();

// === impl Engine: the process's own ===

impl Engine {
    /// The process's own engine, which [`sleep`](crate::sleep), [`timeout`](crate::timeout) and
    /// [`interval`](crate::interval) run on: default settings (1 ms ticks, a shard per core with a
    /// thread each, no limit), started on first use. It is never dropped. It can be stopped like
    /// any other, which is for good.
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
    /// [`try_global`](Engine::try_global) answers the error instead.
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
        match GLOBAL.get() {
            Some(engine) => Ok(engine),
            None => {
                let engine = Engine::new()?;
                Ok(GLOBAL.get_or_init(|| engine))
            }
        }
    }
}
