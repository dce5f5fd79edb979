//! What an engine's users, reapers and handles share.
//!
//! *Owner*: everybody, by reference count: the engine's clones, its reapers' threads, and each
//! thread that uses it (one count per thread, not per handle).

use std::fmt;
use std::time::{Duration, Instant};

use crate::dispatch::{Handler, contained};
use crate::reaper::{Observation, Observer, Reaper};
use crate::shard::{Pool, Shard};
use crate::sync::{Arc, AtomicBool, AtomicUsize, Ordering};
use crate::time::{Clock, Scale, Tick, saturating_ns};

use super::leftover::Leftover;
use super::local;
use super::registry::ENGINES;
use super::slot::Slot;

/// Shards and what surrounds them.
pub(super) struct Core<T> {
    // The shards go first: what they give up in their end goes to the pool.
    pub(super) shards: Box<[Shard<T>]>,
    pub(super) pool: Pool<T>,
    pub(super) observers: Box<[Observer]>,
    pub(super) clock: Clock,
    pub(super) scale: Scale,
    pub(super) handler: Slot<T>,
    pub(super) stopping: AtomicBool,
    /// Nobody is left who could stop the engine: its reapers do all that is to be done.
    abandoned: AtomicBool,
    /// Threads of reapers.
    reapers: AtomicUsize,
    routed: AtomicUsize,
    /// What only those needed who had the engine is gone.
    dismantled: AtomicBool,
}

// === impl Core ===

impl<T: Send + 'static> Core<T> {
    pub(super) fn new(
        shards: Box<[Shard<T>]>,
        pool: Pool<T>,
        clock: Clock,
        scale: Scale,
        handler: Box<dyn Handler<T>>,
        observation: &Observation,
    ) -> Arc<Core<T>> {
        let observers = (0..shards.len()).map(|i| Observer::new(i, observation)).collect();
        let core = Arc::new(Core {
            shards,
            pool,
            observers,
            clock,
            scale,
            handler: Slot::new(handler),
            stopping: AtomicBool::new(false),
            abandoned: AtomicBool::new(false),
            reapers: AtomicUsize::new(0),
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
        // ORDER(STOP): Acquire - pairs with the Release in `stop_all`.
        self.stopping.load(Ordering::Acquire)
    }

    /// Tells all reapers to end, once.
    pub(super) fn stop_all(&self) {
        // ORDER(STOP): Release - pairs with the Acquire loads of the reapers; the ring after it
        // ends their sleep. The swap makes one stopper ring, also where a hook stops again.
        if !self.stopping.swap(true, Ordering::Release) {
            local::count_stop();
            self.shards.iter().for_each(|shard| shard.doorbell().ring());
        }
    }

    /// Closes one shard and returns what was pending there.
    pub(super) fn close(&self, shard: &Shard<T>) -> Vec<T> {
        let mut owner = shard.owner().lock().expect("a turn does not panic");
        // Whatever is still due never will be handed over.
        self.observers[shard.index() as usize].caught_up(self.clock.now_ns());
        shard.close(&mut owner, &self.pool)
    }

    /// The last clone went inside a task: the reapers close their shards, and the last of them
    /// lets the handler go.
    pub(super) fn abandon(&self) {
        // ORDER(STOP): Relaxed - published by the Release in `stop_all`.
        self.abandoned.store(true, Ordering::Relaxed);
        self.stop_all();
    }

    /// A reaper's thread is about to be started.
    pub(super) fn reaper_begins(&self) {
        // ORDER: Relaxed - the builder counts, before there is any thread.
        self.reapers.fetch_add(1, Ordering::Relaxed);
    }

    /// A reaper's thread has closed its shard.
    pub(super) fn reaper_ends(&self) {
        // ORDER(STOP): AcqRel - the last one sees that all others have closed theirs.
        let is_last = self.reapers.fetch_sub(1, Ordering::AcqRel) == 1;
        // ORDER(STOP): Relaxed - the Acquire that saw the engine stopping came before.
        if is_last && self.abandoned.load(Ordering::Relaxed) {
            // SAFETY: all shards are closed. Nobody stops the engine (it is abandoned), so nobody
            // else takes the handler.
            let handler = unsafe { self.handler.take() };
            contained(|| drop(handler));
            // SAFETY: an abandoned engine is nobody's, and its last reaper is here.
            unsafe { self.dismantle() };
        }
    }

    /// Lets go of all that threads which have used the engine need no more. Handles find the engine
    /// gone from here on, unless their thread keeps a part of it.
    ///
    /// # Safety
    /// Nobody has the engine, and no reaper serves it any more.
    pub(super) unsafe fn dismantle(&self) {
        // ORDER: Relaxed - so that it leaves the registry once; the callers come one after another.
        if self.dismantled.swap(true, Ordering::Relaxed) {
            return;
        }
        ENGINES.leave(self.id());
        for shard in &self.shards {
            let mut owner = shard.owner().lock().expect("a turn does not panic");
            // SAFETY: who has no engine files by its number, as a reader, or not at all.
            unsafe { shard.dismantle(&mut owner) };
        }
        self.pool.dismantle();
    }

    /// The reaper of shard number `index`.
    ///
    /// # Safety
    /// The shard is not closed as long as the reaper is used.
    pub(super) unsafe fn reaper(&self, index: usize) -> Reaper<'_, T> {
        Reaper {
            shard: &self.shards[index],
            pool: &self.pool,
            // SAFETY: the caller says that a shard is open.
            handler: unsafe { self.handler.get() },
            clock: &self.clock,
            scale: self.scale,
            observer: &self.observers[index],
        }
    }
}

impl<T> Drop for Core<T> {
    fn drop(&mut self) {
        // ORDER: Relaxed - nobody else is left.
        if !self.dismantled.load(Ordering::Relaxed) {
            ENGINES.leave(self.id());
        }
        for shard in &self.shards {
            // Closed already, unless the engine was never finished.
            drop(Leftover::new(self.close(shard)));
        }
    }
}

impl<T> fmt::Debug for Core<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Core").field("id", &self.id()).finish_non_exhaustive()
    }
}
