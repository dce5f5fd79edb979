//! Thread caches: what a thread keeps of each engine that it uses.
//!
//! - Here is a thread's cache of one engine, and how it is found.
//! - `kept` is the table of a thread's caches, by engine number, and which it used last.
//!
//! The engine that the thread used last is found with one comparison, any other in a table. A
//! thread drops its cache of a stopped engine when it next uses another engine, or ends. The thread
//! that drops the last `Engine` drops its own at once. That cache is small: the large parts of an
//! engine are freed with its last clone (see `shard/close.rs`), and its files are closed then.
//! Stops are counted, so that a thread looks for stopped engines only if there may be some.
//!
//! *Invariants*: a `ThreadCache` is only seen by its thread, and is never lent twice: no foreign
//! code runs while one is lent (a [`Section`]), and no code of ours lends a second one. `give_back`
//! makes the calls that may run foreign code (a hook).
//!
//! *Tested by*: `tests/races/engine/hooks.rs`, `tests/races/engine/threads_end.rs`,
//! `tests/alone/freed_early.rs`, `tests/alone/boottime.rs`.

mod kept;

use std::cell::RefCell;
use std::mem::{self, ManuallyDrop};
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;

use crate::dispatch::{ForkHandler, contained};
use crate::engine::core::Core;
use crate::engine::registry::{self, ENGINES};
use crate::entry::Entry;
use crate::error::ScheduleError;
use crate::memory::Shared;
use crate::producer::{Deferred, Producer, WithProducer};
use crate::sync::{Arc, Section};
use crate::time::{ThreadClock, Tick};

use kept::{AnyCache, Caches, Kept, current, forget_current, set_current};

/// One thread's cache of one engine.
pub(super) struct ThreadCache<T> {
    pub(super) core: Arc<Core<T>>,
    pub(super) producer: Producer<T>,
    pub(super) thread_clock: ThreadClock,
    /// The shard on which the thread schedules.
    pub(super) shard: u32,
}

/// A `ThreadCache`, lent for one call.
pub(super) struct Lent<T> {
    cache: NonNull<ThreadCache<T>>,
    /// Dropped before `spare`, whose drop may call hooks.
    _section: Section,
    /// Set if the thread does not keep the cache, which is then freed with this.
    spare: Option<Spare<T>>,
}

/// A boxed `ThreadCache`, by its address: while a box is moved, nobody else may have that.
struct Spare<T>(NonNull<ThreadCache<T>>);

/// The thread's producers, for code that ends a handle.
pub(super) struct Producers;

thread_local! {
    static CACHES: RefCell<Caches> = const { RefCell::new(Caches::new()) };
}

/// Lends the calling thread's cache of engine `number`. `None`: the engine is gone, or is another
/// process's.
#[inline(always)]
pub(super) fn of<T: Send + 'static>(number: u32) -> Option<Lent<T>> {
    match current(number) {
        Some(cache) => Some(Lent::kept(cache.cast())),
        None => find(number),
    }
}

/// Returns a number for an engine that is about to be built: see [`registry::next_number`].
pub(super) fn new_number(is_of_runtime: bool) -> Option<u32> {
    static INHERIT: ForkHandler = ForkHandler::new(inherit);
    INHERIT.register();
    registry::next_number(is_of_runtime)
}

/// Runs in a child before `fork` returns.
extern "C" fn inherit() {
    registry::inherit();
    forget_current();
}

/// Drops the calling thread's cache of an engine that is gone.
pub(super) fn leave(number: u32) {
    // When the table is no longer borrowed, as in `find`.
    drop(CACHES.try_with(|caches| caches.borrow_mut().take(number)));
}

/// Finds or makes the thread's `ThreadCache` of engine `number`. If the thread cannot keep it, it
/// serves a single call.
#[cold]
fn find<T: Send + 'static>(number: u32) -> Option<Lent<T>> {
    if registry::is_inherited(number) {
        return None;
    }
    let new_cache = || Some(ThreadCache::<T>::new(ENGINES.find(number)?));
    loop {
        match CACHES.try_with(|caches| caches.borrow().get(number)) {
            Ok(Some(cache)) => set_current(number, cache),
            Ok(None) => {
                let kept = Kept::new(Box::new(new_cache()?));
                set_current(number, kept.as_ptr());
                CACHES.with_borrow_mut(|caches| caches.keep(number, kept));
            }
            // The thread is ending and keeps nothing any more.
            Err(_) => return Some(Lent::spare(new_cache()?)),
        }
        // Dropped when the table is no longer borrowed: this may run foreign code, which may call
        // into this file again.
        let stops = registry::STOPS.so_far();
        drop(CACHES.with_borrow_mut(|caches| caches.take_stopped(number, stops)));
        // If that code used another engine, this one is no longer current: look again.
        if let Some(cache) = current(number) {
            return Some(Lent::kept(cache.cast()));
        }
    }
}

// === impl Lent ===

impl<T> Lent<T> {
    #[inline(always)]
    fn kept(cache: NonNull<ThreadCache<T>>) -> Lent<T> {
        Lent { cache, _section: Section::enter(), spare: None }
    }

    fn spare(cache: ThreadCache<T>) -> Lent<T> {
        let cache = NonNull::from(Box::leak(Box::new(cache)));
        Lent { cache, _section: Section::enter(), spare: Some(Spare(cache)) }
    }

    /// Whether the thread is ending and forgets the cache after this call.
    pub(super) fn is_spare(&self) -> bool {
        self.spare.is_some()
    }

    /// Schedules `payload` on the thread's shard for `deadline`, at the time `now_ns`, gives the
    /// cache back, and does the deferred work. `PINS` is for callers that do not hold the engine,
    /// `EXEMPT` for sleeps: see [`Producer::schedule`]. `store` gets the entry before the timer can
    /// fire.
    ///
    /// # Safety
    /// As for [`Producer::schedule`].
    #[inline(always)]
    pub(super) unsafe fn schedule<const PINS: bool, const EXEMPT: bool>(
        mut self,
        deadline: Tick,
        now_ns: u64,
        payload: ManuallyDrop<T>,
        held: bool,
        store: impl FnOnce(NonNull<Entry<T>>),
    ) -> Result<NonNull<Entry<T>>, ScheduleError<T>>
    where
        T: 'static,
    {
        let ThreadCache { core, producer, thread_clock, shard, .. } = &mut *self;
        let shard = &core.shards[*shard as usize];
        let due = || thread_clock.tick();
        let now = || core.scale.floor(now_ns);
        let payload = ManuallyDrop::into_inner(payload);
        // SAFETY: passed on to the caller.
        let (entry, deferred) = unsafe {
            producer.schedule::<PINS, EXEMPT>(
                &core.shared,
                shard,
                deadline,
                now,
                due,
                payload,
                held,
                store,
            )
        }?;
        self.give_back_with_timer(deferred);
        Ok(entry)
    }

    /// Calls `f` with the producer, gives the cache back, and does the work that `f` deferred.
    #[inline(always)]
    fn with_producer(mut self, f: impl FnOnce(&mut Producer<T>, &Shared<T>) -> Deferred) {
        let ThreadCache { core, producer, .. } = &mut *self;
        let deferred = f(producer, &core.shared);
        self.give_back(deferred);
    }

    /// Gives the cache back, and then does the deferred work.
    #[inline(always)]
    pub(super) fn give_back(self, deferred: Deferred) {
        if deferred.is_nothing() {
            drop(self);
        } else {
            self.give_back_and_run();
        }
    }

    /// The same after a timer was scheduled, or moved to another entry.
    #[inline(always)]
    pub(super) fn give_back_with_timer(self, deferred: Deferred) {
        #[cfg(feature = "test-util")]
        let on_timer = self.core.on_timer.clone();
        self.give_back(deferred);
        #[cfg(feature = "test-util")]
        on_timer.iter().for_each(|on_timer| on_timer());
    }

    #[cold]
    #[inline(never)]
    fn give_back_and_run(mut self) {
        let chores = self.producer.take_chores();
        // A hook may drop the engine, and the thread's cache of it with that.
        let core = self.core.clone();
        drop(self);
        chores.run(&core.shards, &core.shared);
        contained(|| drop(core));
    }
}

impl<T: Send + 'static> WithProducer<T> for Producers {
    #[inline(always)]
    fn with_producer(
        &mut self,
        engine: u32,
        f: impl FnOnce(&mut Producer<T>, &Shared<T>) -> Deferred,
    ) -> bool {
        match current(engine) {
            Some(cache) => {
                Lent::kept(cache.cast()).with_producer(f);
                true
            }
            None => with_found(engine, f),
        }
    }
}

/// As [`Producers::with_producer`], for an engine that the thread did not use last.
#[cold]
#[inline(never)]
fn with_found<T: Send + 'static>(
    engine: u32,
    f: impl FnOnce(&mut Producer<T>, &Shared<T>) -> Deferred,
) -> bool {
    find(engine).map(|cache| cache.with_producer(f)).is_some()
}

impl<T> Deref for Lent<T> {
    type Target = ThreadCache<T>;

    #[inline(always)]
    fn deref(&self) -> &ThreadCache<T> {
        // SAFETY: the box is this thread's, and stays while it is lent: see `deref_mut`.
        unsafe { self.cache.as_ref() }
    }
}

impl<T> DerefMut for Lent<T> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut ThreadCache<T> {
        // SAFETY: the pointer is to a boxed `ThreadCache` of this thread, whose payload type is `T`
        // because a number belongs to one engine. The box is our own spare, or the thread keeps it
        // and clears the pointer before it drops the box. No foreign code runs while one is lent
        // (see the file's invariants), so it is lent once.
        unsafe { self.cache.as_mut() }
    }
}

impl<T> Drop for Spare<T> {
    fn drop(&mut self) {
        // SAFETY: it came from a box, and is dropped with the `Lent`, which alone has the address.
        drop(unsafe { Box::from_raw(self.0.as_ptr()) });
    }
}

// === impl ThreadCache ===

impl<T> ThreadCache<T> {
    fn new(core: Arc<Core<T>>) -> ThreadCache<T> {
        let shard = core.route();
        ThreadCache {
            producer: Producer::new(&core.shared, shard),
            thread_clock: ThreadClock::new(core.scale),
            shard,
            core,
        }
    }

    /// Binds the thread to a shard. Returns the deferred work.
    pub(super) fn bind(&mut self, shard: u32) -> Deferred {
        self.shard = shard;
        self.producer.bind(&self.core.shared, shard)
    }

    /// Returns the time by the thread's clock, which is never behind the engine's clock and cheaper
    /// to read.
    #[inline(always)]
    pub(super) fn now_ns(&mut self) -> u64 {
        self.thread_clock.now_ns(&self.core.clock)
    }
}

impl<T: Send + 'static> AnyCache for ThreadCache<T> {
    fn is_stopped(&self) -> bool {
        self.core.is_stopping() || self.core.is_inherited()
    }
}

impl<T> Drop for ThreadCache<T> {
    fn drop(&mut self) {
        if self.core.is_inherited() {
            // As in `stopping`: the parent's engine stays as it was at the fork.
            return mem::forget(self.core.clone());
        }
        let deferred = self.producer.clear(&self.core.shared);
        self.producer.hand_back(&self.core.shared);
        if !deferred.is_nothing() {
            self.producer.take_chores().run(&self.core.shards, &self.core.shared);
        }
    }
}
