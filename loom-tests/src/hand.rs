//! The hands of the threads that use a world: each has a producer, and handles.

use std::ptr::NonNull;
use std::slice;
use std::sync::Arc;

use tickless_core::entry::{Entry, Exchange};
use tickless_core::memory::Shared;
use tickless_core::producer::{self, Deferred, Moved, Producer};
use tickless_core::shard::Shard;
use tickless_core::time::Tick;

use crate::ledger::{Fate, Payload};
use crate::world::{World, wheel};

/// A thread's end of a world: its producer.
#[derive(Debug)]
pub struct Hand {
    world: Arc<World>,
    producer: Producer<Payload>,
}

/// The handle of a timer.
#[derive(Debug)]
pub struct Timer {
    entry: NonNull<Entry<Payload>>,
    id: usize,
}

// SAFETY: as the engine's handle: what it reaches is atomic, and the payload moves to the thread
// that wins it.
unsafe impl Send for Timer {}

// === impl Hand ===

impl Hand {
    /// A hand for a thread that begins to use the world.
    pub fn new(world: &Arc<World>) -> Hand {
        Hand { world: world.clone(), producer: Producer::new(&world.shared, 0) }
    }

    /// A hand for a thread that has scheduled before: it has memory for a timer and a notice, so
    /// that a model is not about where that comes from.
    pub fn provided(world: &Arc<World>) -> Hand {
        let mut hand = Hand::new(world);
        hand.producer.provide(&world.shared);
        hand
    }

    /// The world that it reaches into.
    pub fn world(&self) -> &Arc<World> {
        &self.world
    }

    /// From now on the hand files in another shard of the same engine.
    pub fn turn_to(&mut self, world: &Arc<World>) {
        assert!(Arc::ptr_eq(&self.world.shared, &world.shared), "both are of one engine");
        self.world = world.clone();
    }

    /// Schedules a new payload for `deadline`, by a clock that shows `now`. `None`: refused.
    pub fn schedule(&mut self, deadline: u64, now: u64) -> Option<Timer> {
        self.file::<false>(deadline, now, true, || ())
    }

    /// The same without a handle. `None`: refused; else the payload's number.
    pub fn schedule_detached(&mut self, deadline: u64, now: u64) -> Option<usize> {
        self.file::<false>(deadline, now, false, || ()).map(|timer| timer.id)
    }

    /// Cancels, if there is a timer. `true`: the payload came back.
    pub fn cancel(&mut self, timer: impl Into<Option<Timer>>) -> bool {
        let Some(timer) = timer.into() else { return false };
        // SAFETY: a `Timer` is the handle, and it is consumed.
        let Some(payload) =
            (unsafe { producer::cancel_and_take::<_, _, false>(timer.entry, self.lend()) })
        else {
            return false;
        };
        assert_eq!(payload.id(), timer.id, "a cancel returns its own payload");
        payload.meets(Fate::Cancelled);
        true
    }

    /// Moves the timer. `true`: it is due at `deadline` and at no other time.
    pub fn reset(&mut self, timer: &mut Option<Timer>, deadline: u64, now: u64) -> bool {
        let Some(Timer { entry, id }) = timer.as_mut() else { return false };
        let (World { shared, shard, book, .. }, to) = (&*self.world, Tick::new(deadline));
        // Before it is, so that a thread that sees it run knows; a reset that fails is undone.
        let from = book.moved(*id, to);
        // SAFETY: a `Timer` is the handle; what becomes of it is done below.
        let moved = unsafe {
            let (before, keep) = (*entry, |moved| *entry = moved);
            let now = Tick::new(now);
            self.producer.reset(shared, shard, before, to, || now, || now, keep)
        };
        match moved {
            Moved::Here => {}
            Moved::Elsewhere(deferred) => self.finish(deferred),
            Moved::Gone => _ = book.moved(*id, from),
            Moved::Stranded => {}
        }
        !matches!(moved, Moved::Gone | Moved::Stranded)
    }

    /// Gives the timer another payload, due at the same time. `true`: that one waits now, in place
    /// of the old one.
    pub fn exchange(&mut self, timer: &mut Timer, now: u64) -> bool {
        let World { shared, shard, book, .. } = &*self.world;
        let deadline = timer.entry().word().deadline();
        let payload = Payload::new(book, deadline);
        let id = payload.id();
        // SAFETY: a `Timer` is the handle; what becomes of it is done below.
        let (old, deferred) = match unsafe { timer.entry().exchange(payload) } {
            Exchange::Done(old) => (old, Some(Deferred::NOTHING)),
            Exchange::Gone(payload) => {
                payload.meets(Fate::Refused);
                return false;
            }
            Exchange::Unlinked(old, deadline) => {
                let (producer, now) = (&mut self.producer, Tick::new(now));
                // SAFETY: as above, and the entry was unlinked.
                (old, unsafe { producer.file_exchanged(shared, shard, timer.entry, deadline, now) })
            }
        };
        assert_eq!(old.id(), timer.id, "an exchange returns the payload that was there");
        old.meets(Fate::Cancelled);
        timer.id = id;
        let Some(deferred) = deferred else { return false };
        self.finish(deferred);
        true
    }

    /// Drops the handle, if there is one.
    pub fn detach(&mut self, timer: impl Into<Option<Timer>>) {
        let Some(timer) = timer.into() else { return };
        // SAFETY: a `Timer` is the handle, and it is consumed.
        unsafe { producer::let_go(timer.entry, self.lend()) };
    }

    /// Drops the handle, or cancels a timer that a stop has left in it. `true`: the payload came
    /// back.
    pub fn detach_or_cancel(&mut self, timer: Option<Timer>) -> bool {
        if timer.as_ref().is_some_and(|timer| timer.entry().word().is_stranded()) {
            return self.cancel(timer);
        }
        self.detach(timer);
        false
    }

    /// As `schedule`; `keep` is called before the timer can fire.
    pub fn schedule_keeping(&mut self, deadline: u64, now: u64, keep: impl FnOnce()) -> Timer {
        self.file::<false>(deadline, now, true, keep).expect("nobody stops it")
    }

    /// As `reset`, to a time before the bucket opens; `keep` is called before the timer can fire
    /// there.
    pub fn reset_keeping(&mut self, timer: &mut Timer, to: u64, now: u64, keep: impl FnOnce()) {
        let (World { shared, shard, book, .. }, to) = (&*self.world, Tick::new(to));
        book.moved(timer.id, to);
        let (now, before) = (Tick::new(now), timer.entry);
        let keep = |moved| {
            timer.entry = moved;
            keep();
        };
        // SAFETY: a `Timer` is the handle, and `keep` does nothing else with the entry.
        let moved = unsafe { self.producer.reset(shared, shard, before, to, || now, || now, keep) };
        let Moved::Elsewhere(deferred) = moved else { panic!("{moved:?}") };
        self.finish(deferred);
    }

    /// Gives everything that the hand keeps to others, as a thread does in its end.
    pub fn clear(&mut self) {
        let deferred = self.producer.clear(&self.world.shared);
        self.finish(deferred);
    }

    /// As `schedule`, for who does not hold the engine.
    pub fn schedule_by_number(&mut self, deadline: u64, now: u64) -> Option<Timer> {
        self.file::<true>(deadline, now, true, || ())
    }

    /// Does what the producer has left to be done.
    fn finish(&mut self, deferred: Deferred) {
        if !deferred.is_nothing() {
            self.producer.take_chores().run(slice::from_ref(&self.world.shard), &self.world.shared);
        }
    }

    fn lend(&mut self) -> (&mut Producer<Payload>, &Shared<Payload>, &[Shard<Payload>]) {
        (&mut self.producer, &self.world.shared, slice::from_ref(&self.world.shard))
    }

    fn file<const PINS: bool>(
        &mut self,
        deadline: u64,
        now: u64,
        owned: bool,
        keep: impl FnOnce(),
    ) -> Option<Timer> {
        let (World { shared, shard, .. }, due) = (&*self.world, Tick::new(deadline));
        let payload = Payload::new(&self.world.book, due);
        let id = payload.id();
        let now = Tick::new(now);
        let producer = &mut self.producer;
        // SAFETY: nothing is done with the entry.
        let filed = unsafe {
            producer.schedule::<PINS, false>(
                shared,
                shard,
                due,
                || now,
                || now,
                payload,
                owned,
                |_| keep(),
            )
        };
        match filed {
            Ok((entry, deferred)) => {
                self.finish(deferred);
                Some(Timer { entry, id })
            }
            Err(error) => {
                error.into_payload().meets(Fate::Refused);
                None
            }
        }
    }
}

impl Drop for Hand {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            self.clear();
            self.producer.hand_back(&self.world.shared);
        }
    }
}

// === impl Timer ===

impl Timer {
    /// The number of its payload.
    pub fn id(&self) -> usize {
        self.id
    }

    /// Its entry.
    pub fn entry(&self) -> &Entry<Payload> {
        // SAFETY: the handle keeps the entry allocated.
        unsafe { self.entry.as_ref() }
    }
}

// === impl World ===

impl World {
    /// A world with so many timers that are due at 1, of which the reaper knows.
    pub fn with_due(timers: usize) -> Arc<World> {
        let world = World::new(wheel(2, 1));
        let mut hand = Hand::new(&world);
        (0..timers).for_each(|_| _ = hand.schedule_detached(1, 0).expect("it is not closed"));
        world.turn(0);
        world
    }
}
