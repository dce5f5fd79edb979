//! A view of an engine that does not keep it alive, for those who look at it from outside.
//!
//! *Owner*: any thread.
//!
//! *Tested by*: `tests/suite/observe/view.rs`, `tests/races/engine/view.rs`,
//! `tests/alone/fork/main.rs`.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::dispatch::{Task, contained};
use crate::engine::Engine;
use crate::engine::core::Core;
use crate::engine::facade::Inner;
use crate::entry;
use crate::sync::{Arc, Weak};

use super::{Overdue, Snapshot, Stats, latenesses};

/// A view of an engine that does not keep it alive: [`Engine::view`].
///
/// Each method returns what the [`Engine`]'s method of this name does. `None`: the engine is gone,
/// or belongs to the parent process. An engine that was stopped can be seen as long as somebody has
/// it.
///
/// ```
/// use std::time::Duration;
/// use tickless::{Engine, View};
///
/// let engine = Engine::new()?;
/// engine.schedule_detached(Duration::from_secs(60), || ())?;
/// let view: View = engine.view();
/// assert_eq!(view.stats().map(|stats| stats.pending), Some(1));
/// drop(engine);
/// assert!(view.stats().is_none());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
// What of an engine may be dropped while it is looked at: its core, but never its end, for which a
// thread may wait.
pub struct View<T: Send + 'static = Task> {
    engine: Weak<Inner<T>>,
    core: Weak<Core<T>>,
}

// === impl Engine ===

impl<T: Send + 'static> Engine<T> {
    /// Returns a view of the engine that does not keep it alive, for what watches it from outside.
    pub fn view(&self) -> View<T> {
        View { engine: Arc::downgrade(&self.inner), core: Arc::downgrade(self.core()) }
    }
}

// === impl View ===

impl<T: Send + 'static> View<T> {
    /// [`Engine::stats`].
    pub fn stats(&self) -> Option<Stats> {
        self.look(Stats::of)
    }

    /// [`Engine::overdue`].
    pub fn overdue(&self) -> Option<Overdue> {
        self.look(Overdue::of)
    }

    /// [`Engine::snapshot`].
    pub fn snapshot(&self) -> Option<Snapshot> {
        self.look(|core| Snapshot::of(core, &entry::read()))
    }

    /// [`Engine::latenesses`].
    pub fn latenesses(&self) -> Option<BTreeMap<Duration, u64>> {
        self.look(latenesses)
    }

    fn look<R>(&self, look: impl FnOnce(&Core<T>) -> R) -> Option<R> {
        // Threads that have used the engine keep its core for a while.
        if self.engine.strong_count() == 0 {
            return None;
        }
        let core = self.core.upgrade()?;
        let seen = if core.is_inherited() { None } else { Some(look(&core)) };
        // The engine may have ended meanwhile, and this drops the callbacks that it was given.
        contained(|| drop(core));
        seen
    }
}

impl<T: Send + 'static> Clone for View<T> {
    fn clone(&self) -> View<T> {
        View { engine: self.engine.clone(), core: self.core.clone() }
    }
}

unwind_safe! { impl[T: Send + 'static] View[T] }

debug! { impl[T: Send + 'static] View[T] { stats = |view| view.stats() } }
