//! What an engine's users, reapers and handles share.
//!
//! *Owner*: everybody, by reference count: the engine's clones, its reapers' threads, and each
//! thread that uses it (one count per thread, not per handle).

use std::fmt;
use std::time::{Duration, Instant};

use crate::dispatch::{Handler, Party, Queue, contained, drop_each, work_for};
use crate::memory::Shared;
use crate::reaper::{Ending, Observation, Observer, Reaper, Turns};
use crate::shard::Shard;
use crate::sync::{Arc, AtomicBool, AtomicUsize, Ordering};
use crate::time::{Clock, Scale, Tick, saturating_ns};

use super::thread_cache::{self, ENGINES};

/// An engine's handler. Whoever drops it works for the engine meanwhile: the handler may wait for
/// threads of its own, whose tasks may wait for the engine.
pub(super) struct Owned<T> {
    engine: u32,
    /// There until it is dropped.
    handler: Option<Box<dyn Handler<T>>>,
}

/// A role in the hands of who runs turns of an engine.
pub(super) type Role<'a, T> = Turns<'a, T, Owned<T>>;

/// Shards and what surrounds them.
pub(super) struct Core<T> {
    // The shards go first: what they give up in their end goes to the pool.
    pub(super) shards: Box<[Shard<T>]>,
    pub(super) pool: Shared<T>,
    pub(super) observers: Box<[Observer]>,
    pub(super) clock: Clock,
    pub(super) scale: Scale,
    pub(super) ending: Ending<T, Owned<T>>,
    routed: AtomicUsize,
    /// What only those needed who had the engine is gone.
    dismantled: AtomicBool,
}

// === impl Owned ===

impl<T> Drop for Owned<T> {
    fn drop(&mut self) {
        let handler = self.handler.take();
        work_for(Party::Engine(self.engine), || contained(|| drop(handler)));
    }
}

// === impl Core ===

impl<T: Send + 'static> Core<T> {
    pub(super) fn new(
        shards: Box<[Shard<T>]>,
        pool: Shared<T>,
        clock: Clock,
        scale: Scale,
        handler: Box<dyn Handler<T>>,
        observation: &Observation,
    ) -> Arc<Core<T>> {
        let observers = (0..shards.len()).map(|i| Observer::new(i, observation)).collect();
        let handler = Owned { engine: pool.engine, handler: Some(handler) };
        let ending = Ending::new(shards.len(), handler);
        let core = Arc::new(Core {
            shards,
            pool,
            observers,
            clock,
            scale,
            ending,
            routed: AtomicUsize::new(0),
            dismantled: AtomicBool::new(false),
        });
        ENGINES.enter(core.id(), &core);
        core
    }
}

impl<T> Core<T> {
    /// The engine's number.
    #[inline]
    pub(super) fn id(&self) -> u32 {
        self.pool.engine
    }

    /// The shard for a thread that begins to use the engine: each in turn.
    pub(super) fn route(&self) -> u32 {
        // ORDER: Relaxed - any number does.
        (self.routed.fetch_add(1, Ordering::Relaxed) % self.shards.len()) as u32
    }

    /// The tick that the clock shows.
    #[inline]
    pub(super) fn now(&self) -> Tick {
        self.scale.floor(self.clock.now_ns())
    }

    /// The time that the clock shows, as an instant.
    pub(super) fn instant_now(&self) -> Instant {
        self.clock.instant_at(self.clock.now_ns()).unwrap_or_else(Instant::now)
    }

    /// When `tick` begins; `None`: never.
    pub(super) fn instant_of(&self, tick: Tick) -> Option<Instant> {
        self.clock.instant_at(self.scale.start_ns(tick)?)
    }

    /// The tick at which a timer is due that may fire from `deadline_ns` to `slack` after it: the
    /// one that costs least. `u64::MAX` is never.
    pub(super) fn due_within(&self, deadline_ns: u64, slack: Duration, now_ns: u64) -> Tick {
        let first = self.scale.ceil(deadline_ns);
        let last = self.scale.floor(deadline_ns.saturating_add(saturating_ns(slack)));
        let geometry = self.shards[0].wheel().geometry();
        geometry.best_within(first, last, self.scale.floor(now_ns))
    }

    /// Whether the engine is stopping or has stopped.
    pub(super) fn is_stopping(&self) -> bool {
        self.ending.is_stopping()
    }

    /// Stops without waiting, and returns what was pending: see [`Ending::stop`].
    pub(super) fn stop(&self) -> Vec<T> {
        let pending = self.ending.stop(&self.shards, &self.pool);
        thread_cache::count_stop();
        for observer in &self.observers {
            // What is still due never will be handed over.
            observer.caught_up(self.clock.now_ns());
        }
        pending
    }

    /// Lets go of all that threads which have used the engine need no more. Handles find the engine
    /// gone from here on, unless their thread keeps a part of it.
    ///
    /// # Safety
    /// Nobody has the engine, and it was stopped.
    pub(super) unsafe fn dismantle(&self) {
        // ORDER: Relaxed - so that it leaves the registry once; the callers come one after another.
        if self.dismantled.swap(true, Ordering::Relaxed) {
            return;
        }
        ENGINES.leave(self.id());
        for shard in &self.shards {
            let mut owner = shard.owner().lock().expect("nothing panics under this lock");
            // SAFETY: who has no engine files by its number, as a reader, or not at all. Whoever
            // still has a role finds the shard closed, under this lock, and looks no further.
            unsafe { shard.dismantle(&mut owner) };
        }
        self.pool.dismantle();
    }

    /// The reaper of shard number `index`, for whoever has its role; and the role's queue.
    pub(super) fn reaper<'a>(
        &'a self,
        index: usize,
        role: &'a mut Role<'_, T>,
    ) -> (Reaper<'a, T>, &'a mut Queue<T>) {
        let (handler, queue) = role.parts();
        let reaper = Reaper {
            shard: &self.shards[index],
            shared: &self.pool,
            handler: handler.handler.as_deref().expect("it is there until it is dropped"),
            clock: &self.clock,
            scale: self.scale,
            observer: &self.observers[index],
            stopping: self.ending.flag(),
        };
        (reaper, queue)
    }
}

impl<T> Drop for Core<T> {
    fn drop(&mut self) {
        // ORDER: Relaxed - nobody else is left.
        if !self.dismantled.load(Ordering::Relaxed) {
            ENGINES.leave(self.id());
        }
        // Stopped already, unless the engine was never finished.
        drop_each(self.stop());
        drop_each(self.ending.abandon());
    }
}

impl<T> fmt::Debug for Core<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Core").field("id", &self.id()).finish_non_exhaustive()
    }
}
