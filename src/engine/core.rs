//! The state that an engine's users, reapers and handles share.
//!
//! *Owner*: shared by reference count: the engine's clones, its reapers' threads, and each thread
//! that uses it (one count per thread, not per handle).

use std::cell::Cell;
use std::time::{Duration, Instant};

use crate::dispatch::{Handler, InHand, Own, Party, contained, drop_each, work_for};
use crate::doorbell::Listener;
use crate::memory::Shared;
use crate::reaper::{self, Ending, Group, Observer, StuckTask, StuckThreads, TurnContext, Watch};
use crate::shard::Shard;
#[cfg(feature = "tokio")]
use crate::sync::AtomicBool;
use crate::sync::{Arc, AtomicUsize, CachePadded, Mutex, Ordering};
use crate::time::{Clock, Scale, Tick, saturating_ns};

use super::registry::{self, ENGINES, STOPS};

/// An engine's handler. The thread that drops it works for the engine meanwhile, because the
/// handler may wait for threads of its own, whose tasks may wait for the engine.
pub(super) struct Owned<T> {
    pub(super) party: Party,
    /// `None` once it is being dropped.
    pub(super) handler: Option<Box<dyn Handler<T>>>,
}

/// A shard's role, held by the thread that runs turns of the shard.
pub(super) type Role<'a, T> = reaper::Role<'a, T, Owned<T>>;

/// The shards of an engine, and the state around them.
pub(super) struct Core<T> {
    // The shards are dropped first: they give entries up to the shared state when they end.
    pub(super) shards: Box<[Shard<T>]>,
    pub(super) shared: Shared<T>,
    pub(super) observers: Arc<[Observer]>,
    pub(super) clock: Clock,
    /// See `deadline`.
    pub(super) start_after_origin_ns: Option<u64>,
    pub(super) scale: Scale,
    /// What the handler does not get. `None`: it runs all of it where it is due.
    pub(super) own: Option<Own<T>>,
    pub(super) ending: Ending<T, Owned<T>>,
    /// How many threads began to use the engine.
    pub(super) routed: AtomicUsize,
    /// How long a task may take before it counts as stuck.
    pub(super) stuck_after_ns: u64,
    /// The watch over reapers that are busy, unless nobody would do anything about them.
    pub(super) watch: Option<CachePadded<Watch>>,
    /// The task that serves the shards, if there are no threads.
    pub(super) listener: Option<Arc<Listener>>,
    /// The runtime that it was built on.
    #[cfg(feature = "tokio")]
    pub(super) runtime: Option<tokio::runtime::Id>,
    /// Whether it has stopped because the runtime that served it has ended.
    #[cfg(feature = "tokio")]
    pub(super) runtime_ended: AtomicBool,
    /// The groups of the shards.
    pub(super) groups: Box<[Group]>,
    /// How many threads the engine may have (`crew`): none, if its caller drives it.
    pub(super) threads: usize,
    /// The threads' names begin with this.
    pub(super) thread_name: String,
    /// Those that have lost their shard, and have not come back.
    pub(super) stuck: Arc<StuckThreads>,
    /// How many there may be. Shards are taken over as long as there are fewer.
    pub(super) spares: usize,
    /// The threads whose task awaits a timer of the engine: with those that are stuck, no more than
    /// there are spares when one is added. There is room for them.
    // LOCK(AWAITING): engine: begins_to_wait, in_turns.
    pub(super) waiting: Mutex<Vec<usize>>,
    /// See [`Builder::on_timer`](super::Builder::on_timer).
    #[cfg(feature = "test-util")]
    pub(super) on_timer: Option<super::builder::OnTimer>,
}

/// Whether a thread of a crew may await a timer of its engine; the number is the thread's.
#[derive(Clone, Copy)]
enum MayWait {
    /// Never: it runs no turn that another thread could take over. It watches, or begins.
    No,
    /// It runs a turn.
    Yes(usize),
    /// It runs a turn in which a task waits, and is counted.
    Counted,
}

thread_local! {
    static WAITS: Cell<MayWait> = const { Cell::new(MayWait::No) };
}

/// No thread waits yet; there is room for so many.
pub(super) fn nobody_waits(threads: usize) -> Mutex<Vec<usize>> {
    Mutex::new(Vec::with_capacity(threads))
}

// === impl Owned ===

impl<T> Drop for Owned<T> {
    fn drop(&mut self) {
        let handler = self.handler.take();
        work_for(self.party, || contained(|| drop(handler)));
    }
}

// === impl Core ===

impl<T> Core<T> {
    /// The engine's number, by which its entries and thread caches know it.
    #[inline]
    pub(super) fn id(&self) -> u32 {
        self.shared.engine
    }

    /// The engine, as a party whose end waits for threads.
    pub(super) fn party(&self) -> Party {
        Party::Engine(self.id())
    }

    /// Whether the engine belongs to a process that this one was forked from.
    pub(super) fn is_inherited(&self) -> bool {
        registry::is_inherited(self.id())
    }

    /// Returns the shard for a thread that begins to use the engine: round robin.
    pub(super) fn route(&self) -> u32 {
        // ORDER: Relaxed - any number does.
        (self.routed.fetch_add(1, Ordering::Relaxed) % self.shards.len()) as u32
    }

    /// Returns the tick that the clock shows.
    #[inline]
    pub(super) fn now(&self) -> Tick {
        self.scale.floor(self.clock.now_ns())
    }

    /// Returns the time that the clock shows, as an instant.
    pub(super) fn instant_now(&self) -> Instant {
        self.clock.instant_at(self.clock.now_ns()).unwrap_or_else(Instant::now)
    }

    /// Returns when `tick` begins. `None`: never.
    pub(super) fn instant_of(&self, tick: Tick) -> Option<Instant> {
        self.clock.instant_at(self.scale.start_ns(tick)?)
    }

    /// Returns the tick for a timer that may fire from `deadline_ns` to `slack` after it: the one
    /// that costs least. `u64::MAX` is never.
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

    /// Whether it has stopped because the runtime that served it has ended.
    #[cfg(feature = "tokio")]
    pub(super) fn has_ended_with_runtime(&self) -> bool {
        // ORDER(STOP): Relaxed - the caller has found the engine stopped.
        self.runtime_ended.load(Ordering::Relaxed)
    }

    /// Whether the engine has threads. Otherwise its caller drives it.
    pub(super) fn has_threads(&self) -> bool {
        self.threads > 0
    }

    /// Whether another shard may be taken over from a task that is stuck.
    pub(super) fn may_take_over(&self) -> bool {
        self.stuck.iter().count() < self.spares
    }

    /// Whether the calling thread, which works for the engine, may await a timer of it: each thread
    /// that does, or that is stuck, needs a spare that takes its shard over. Counts the thread
    /// among them until its turn is over. A task that serves the engine has no spare; and nobody
    /// knows who serves one that its callers drive.
    pub(super) fn may_wait(&self) -> bool {
        if let Some(listener) = &self.listener {
            return !listener.is_heard();
        }
        match WAITS.get() {
            MayWait::No => false,
            MayWait::Yes(number) => self.begins_to_wait(number),
            MayWait::Counted => true,
        }
    }

    fn begins_to_wait(&self, number: usize) -> bool {
        let mut waiting = self.waiting.lock().expect("nothing panics under this lock");
        let is_other = |stuck: &usize| *stuck != number && !waiting.contains(stuck);
        let others = self.stuck.iter().map(|(stuck, ..)| stuck).filter(is_other).count();
        let may_wait = waiting.len() + others < self.spares;
        if may_wait {
            waiting.push(number);
            WAITS.set(MayWait::Counted);
        }
        may_wait
    }

    /// Runs `f`, in which thread `number` of the crew runs turns of a shard.
    #[inline]
    pub(super) fn in_turns<R>(&self, number: usize, f: impl FnOnce() -> R) -> R {
        WAITS.set(MayWait::Yes(number));
        let result = f();
        if let MayWait::Counted = WAITS.replace(MayWait::No) {
            let mut waiting = self.waiting.lock().expect("nothing panics under this lock");
            waiting.retain(|other| *other != number);
        }
        result
    }

    /// The number of the thread that serves a shard, or that served it last.
    pub(super) fn server(&self, shard: usize) -> usize {
        let group = self.groups.partition_point(|group| group.shards.end <= shard);
        let group = &self.groups[group];
        group.server(shard - group.shards.start)
    }

    /// The task that has run in a shard since `since_ns`, on thread number `server`.
    pub(super) fn stuck_task(&self, shard: usize, server: usize, since_ns: u64) -> StuckTask {
        let since = self.clock.instant_at(since_ns).unwrap_or_else(|| self.instant_now());
        let name = if server < self.threads { self.name_of(server) } else { String::new() };
        let age = Duration::from_nanos(self.clock.now_ns().saturating_sub(since_ns));
        StuckTask::new(shard, name, since, age)
    }

    /// The name of thread number `number`.
    pub(super) fn name_of(&self, number: usize) -> String {
        format!("{}-{number}", self.thread_name)
    }

    /// Stops without waiting, and calls `sort` with the payloads that were pending: see
    /// [`Ending::stop`].
    pub(super) fn stop<R>(&self, sort: impl FnOnce(Vec<T>) -> R) -> R {
        let sorted = self.ending.stop(&self.shards, &self.shared, sort);
        STOPS.count();
        sorted
    }

    /// Frees what threads that have used the engine no longer need. From here on, a handle finds no
    /// engine, unless its thread's cache keeps it.
    ///
    /// # Safety
    /// The last `Engine` is gone, and the engine was stopped.
    pub(super) unsafe fn dismantle(&self) {
        ENGINES.leave(self.id());
        for shard in &self.shards {
            let mut owner = shard.owner().lock().expect("nothing panics under this lock");
            // SAFETY: a thread without an `Engine` files by the core's number, as a reader, or not
            // at all. A thread that still has a role finds the shard closed, under this lock, and
            // looks no further.
            unsafe { shard.dismantle(&mut owner) };
            drop(owner);
            shard.doorbell().close();
        }
        self.watch.iter().for_each(|watch| watch.close());
        self.shared.dismantle();
    }

    /// Returns the context for turns of shard `index`, for the holder of its role, and what that
    /// one has in hand.
    #[inline]
    pub(super) fn turn_context<'a>(
        &'a self,
        index: usize,
        role: &'a mut Role<'_, T>,
    ) -> (TurnContext<'a, T>, &'a mut InHand<T>) {
        let (handler, in_hand) = role.parts();
        let context = TurnContext {
            shard: &self.shards[index],
            shared: &self.shared,
            handler: handler.handler.as_deref().expect("it is there until it is dropped"),
            own: self.own,
            clock: &self.clock,
            scale: self.scale,
            observer: &self.observers[index],
            stopping: self.ending.flag(),
            watch: self.watch.as_deref(),
            leads: false,
        };
        (context, in_hand)
    }
}

impl<T> Drop for Core<T> {
    fn drop(&mut self) {
        // Stopped already, unless no `Engine` was ever made of this core.
        self.stop(drop_each);
        drop_each(self.ending.abandon());
    }
}
