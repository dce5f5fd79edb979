//! The service on tickless: each call is one call of the engine.

use std::io;
use std::time::Duration;

use tickless::{Engine, Handle, ResetError};

use super::{Counts, THREAD_NAME, TimerEngine};

/// One engine with default settings, except the name of its threads.
#[derive(Clone)]
pub(crate) struct Tickless(Engine);

// === impl Tickless ===

impl TimerEngine for Tickless {
    const NAME: &'static str = "tickless";

    type Handle = Handle;
    type Detached = ();

    fn start() -> io::Result<Tickless> {
        let engine = Engine::builder().thread_name(THREAD_NAME).build();
        engine.map(Tickless).map_err(|error| io::Error::other(error.to_string()))
    }

    fn schedule(
        &self,
        delay: Duration,
        task: impl Fn() + Send + Sync + 'static,
    ) -> io::Result<Handle> {
        self.0.schedule(delay, task).map_err(|error| refused(&error))
    }

    fn schedule_detached(
        &self,
        delay: Duration,
        task: impl Fn() + Send + Sync + 'static,
    ) -> io::Result<()> {
        self.0.schedule_detached(delay, task).map_err(|error| refused(&error))
    }

    fn reset(&self, handle: &mut Handle, delay: Duration) -> io::Result<bool> {
        match handle.reset(delay) {
            Ok(()) => Ok(true),
            Err(ResetError::TooLate) => Ok(false),
            Err(error) => Err(io::Error::other(error)),
        }
    }

    fn cancel(&self, handle: Handle) -> bool {
        handle.cancel()
    }

    fn stop(self) -> io::Result<Option<Counts>> {
        let left = self.0.stop().map_err(|error| io::Error::other(error.to_string()))?;
        let stats = self.0.stats();
        Ok(Some(Counts {
            scheduled: stats.scheduled,
            cancelled: stats.cancelled,
            reset: stats.reset,
            fired: stats.fired,
            pending: stats.pending,
            panicked: stats.panicked,
            given_back: left.len() as u64,
        }))
    }
}

fn refused(error: &impl std::fmt::Display) -> io::Error {
    io::Error::other(format!("the engine refused a timer: {error}"))
}
