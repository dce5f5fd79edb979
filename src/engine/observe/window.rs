//! A view of an engine that does not keep it alive, for those who look at it from outside.
//!
//! *Owner*: any thread.
//!
//! *Tested by*: `tests/suite/observe/inspector_ends.rs`, `tests/races/inspector.rs`.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::dispatch::contained;
use crate::engine::Engine;
use crate::engine::callers::Noted;
use crate::engine::core::Core;
use crate::engine::stopping::Inner;
use crate::entry;
use crate::reaper::{Observer, Seen};
use crate::sync::{Arc, Weak};

use super::{Overdue, Snapshot, Stats};

/// What can be seen of an engine of any type, unless it is gone (`None`).
pub(crate) trait Window: Send + Sync {
    fn stats(&self) -> Option<Stats>;
    fn overdue(&self) -> Option<Overdue>;
    fn snapshot(&self) -> Option<Snapshot>;
    /// Upper bounds of latenesses, and how many timers were so late and not less.
    fn latenesses(&self) -> Option<BTreeMap<Duration, u64>>;
    /// Who schedules, as far as somebody wanted to know.
    fn callers(&self) -> Option<Noted>;
    /// Wants to know who schedules, or no longer does.
    fn want_callers(&self, wants: bool);
}

/// What of an engine may be dropped while it is looked at: its core, but never its end, for which a
/// thread may wait.
struct Glass<T: Send + 'static> {
    engine: Weak<Inner<T>>,
    core: Weak<Core<T>>,
}

// === impl Engine ===

impl<T: Send + 'static> Engine<T> {
    /// A view of the engine.
    pub(crate) fn window(&self) -> Arc<dyn Window> {
        Arc::new(Glass { engine: Arc::downgrade(&self.inner), core: Arc::downgrade(self.core()) })
    }

    /// The engine's name in events and metrics.
    pub(crate) fn name(&self) -> &str {
        self.core().observers[0].name()
    }
}

// === impl Glass ===

impl<T: Send + 'static> Glass<T> {
    fn look<R>(&self, look: impl FnOnce(&Core<T>) -> R) -> Option<R> {
        // Threads that have used the engine keep its core for a while.
        if self.engine.strong_count() == 0 {
            return None;
        }
        let core = self.core.upgrade()?;
        let seen = look(&core);
        // The engine may have ended meanwhile, and this drops the callbacks that it was given.
        contained(|| drop(core));
        Some(seen)
    }
}

impl<T: Send + 'static> Window for Glass<T> {
    fn stats(&self) -> Option<Stats> {
        self.look(Stats::of)
    }

    fn overdue(&self) -> Option<Overdue> {
        self.look(Overdue::of)
    }

    fn snapshot(&self) -> Option<Snapshot> {
        self.look(|core| Snapshot::of(core, &entry::read()))
    }

    fn latenesses(&self) -> Option<BTreeMap<Duration, u64>> {
        self.look(|core| {
            let mut latenesses = BTreeMap::new();
            for lateness in core.observers.iter().map(Observer::lateness) {
                let count = |late, timers| *latenesses.entry(late).or_default() += timers;
                lateness.tell_new(&mut Seen::nothing(), count);
            }
            latenesses
        })
    }

    fn callers(&self) -> Option<Noted> {
        self.look(|core| core.callers.noted())
    }

    fn want_callers(&self, wants: bool) {
        let want = |core: &Core<T>| if wants { core.callers.want() } else { core.callers.unwant() };
        // If the engine is gone, there is nothing to know.
        let _ = self.look(want);
    }
}
