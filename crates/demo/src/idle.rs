//! Idle timers: they fill the engine beside the load, as the sessions of a large service would.
//!
//! They are due hours after the end of the run, and are cancelled at its end. One whose task runs
//! is early.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::audit::Books;
use crate::engine::TimerEngine;
use crate::gauges::Gauges;
use crate::interrupt::Interrupt;

/// The first of them are due so long after the end of the run; the rest within as long again.
const HOUR: Duration = Duration::from_secs(3_600);

/// So many are armed between two looks at the interrupt.
const CHUNK: u64 = 4_096;

/// The idle timers of one engine.
pub(crate) struct Idle<E: TimerEngine> {
    engine: E,
    handles: Vec<E::Handle>,
    ran: Arc<AtomicU64>,
}

// === impl Idle ===

impl<E: TimerEngine> Idle<E> {
    /// Arms `count` timers, or fewer if the user wants an end.
    pub(crate) fn fill(
        engine: E,
        count: u64,
        run: Duration,
        gauges: &Gauges,
        interrupt: &Interrupt,
    ) -> io::Result<Idle<E>> {
        let mut handles = Vec::with_capacity(count as usize);
        let ran = Arc::new(AtomicU64::new(0));
        for index in 0..count {
            if index % CHUNK == 0 && interrupt.is_asked() {
                break;
            }
            let spread = Duration::from_secs_f64(HOUR.as_secs_f64() * index as f64 / count as f64);
            let ran = Arc::clone(&ran);
            // Relaxed: read after the engine has stopped, which orders it.
            let task = move || {
                ran.fetch_add(1, Ordering::Relaxed);
            };
            handles.push(engine.schedule(run + HOUR + spread, task)?);
        }
        gauges.armed(handles.len() as u64);
        Ok(Idle { engine, handles, ran })
    }

    pub(crate) fn len(&self) -> u64 {
        self.handles.len() as u64
    }

    /// Cancels them all, and lets go of the engine.
    pub(crate) fn cancel(self) -> Cancelled {
        let Idle { engine, handles, ran } = self;
        let armed = handles.len() as u64;
        let cancelled = handles.into_iter().map(|handle| engine.cancel(handle));
        Cancelled { armed, cancelled: cancelled.filter(|&done| done).count() as u64, ran }
    }
}

/// What became of the idle timers, except those whose task may still run.
pub(crate) struct Cancelled {
    armed: u64,
    cancelled: u64,
    ran: Arc<AtomicU64>,
}

// === impl Cancelled ===

impl Cancelled {
    /// Their books. The engine must have been stopped.
    pub(crate) fn close(self) -> Books {
        let ran = self.ran.load(Ordering::Relaxed);
        let over = self.cancelled + ran;
        let mut books = Books::new();
        books.scheduled = self.armed;
        books.cancelled = self.cancelled;
        books.fired = ran;
        books.early = ran;
        books.lost = self.armed.saturating_sub(over);
        books.contradicted = over.saturating_sub(self.armed);
        if books.violations() > 0 {
            books.notes.push(format!(
                "{} idle timers: {} cancelled, {ran} ran hours early",
                self.armed, self.cancelled
            ));
        }
        books
    }
}
