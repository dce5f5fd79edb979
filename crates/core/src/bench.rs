//! One shard with all that its turns need, put together by hand: for unit tests, models, fuzz
//! targets, and tests of `tickless`. `tickless` itself makes engines, and has no use for this.
//!
//! *Owner*: the thread of the test. Another one may file on the shard with a producer of its own.
//!
//! *Invariant*: the shard is closed before the bench goes, which [`Shared::new`] asks for. What
//! else it asks for is the test's to keep.

use std::ptr::NonNull;
use std::time::Duration;

use crate::dispatch::{Batch, Handler, InHand};
use crate::doorbell::{Bell, Doorbell};
use crate::entry::Entry;
use crate::memory::Shared;
use crate::producer::Producer;
use crate::reaper::{Observer, Report, TurnContext};
use crate::shard::Shard;
use crate::sync::{AtomicBool, Mutex, PoisonError};
use crate::time::{Clock, Geometry, ManualClock, Scale, Tick};

/// What the turns of a shard need besides the shard: a clock that stands, ticks of a width, and
/// nobody who watches.
#[derive(Debug)]
pub struct Around {
    /// The engine's clock.
    pub clock: Clock,
    /// The engine's tick.
    pub scale: Scale,
    observer: Observer,
}

/// A shard, a producer that files in it, and what they share.
#[derive(Debug)]
pub struct Bench<T> {
    // The shard goes before the shared: what it gives up in its end goes there.
    /// The shard.
    pub shard: Shard<T>,
    /// The producer.
    pub producer: Producer<T>,
    /// What the shard shares with the producer.
    pub shared: Shared<T>,
    /// What its turns need.
    pub around: Around,
}

// === impl Around ===

impl Around {
    /// With this clock, and ticks of this width.
    ///
    /// # Panics
    /// The tick is zero, or too long.
    pub fn new(hand: &ManualClock, tick: Duration) -> Around {
        Around {
            clock: Clock::manual(hand),
            scale: Scale::new(tick).expect("a tick has a width"),
            observer: Observer::default(),
        }
    }

    /// The reaper of a shard. `stopping` is raised when a stop intervenes.
    pub fn turn_context<'a, T>(
        &'a self,
        shard: &'a Shard<T>,
        shared: &'a Shared<T>,
        handler: &'a dyn Handler<T>,
        stopping: &'a AtomicBool,
    ) -> TurnContext<'a, T> {
        let Around { clock, scale, observer } = self;
        let (watch, leads) = (None, false);
        TurnContext {
            shard,
            shared,
            handler,
            own: None,
            clock,
            scale: *scale,
            observer,
            stopping,
            watch,
            leads,
        }
    }
}

impl Default for Around {
    /// With ticks of a millisecond.
    fn default() -> Around {
        Around::new(&ManualClock::new(), Duration::from_millis(1))
    }
}

// === impl Bench ===

impl<T> Bench<T> {
    /// A shard whose clock stands at `start`. The parts of the bench are for what was made with
    /// `shared`, as [`Shared::new`] says; it closes the shard when it goes.
    pub fn new(shared: Shared<T>, geometry: Geometry, bell: Bell, start: Tick) -> Bench<T> {
        let shard = Shard::new(0, geometry, Doorbell::new(bell), start, &shared);
        let producer = Producer::new(&shared, 0);
        Bench { shard, producer, shared, around: Around::default() }
    }

    /// Schedules a timer by a clock that shows `now`. If it is `held`, there is a handle.
    pub fn schedule(
        &mut self,
        [deadline, now]: [u64; 2],
        payload: T,
        held: bool,
    ) -> NonNull<Entry<T>> {
        let Bench { shared, shard, producer, .. } = self;
        let [due, now] = [deadline, now].map(Tick::new);
        // SAFETY: nothing is kept.
        let filed = unsafe {
            producer.schedule::<false, false>(
                shared,
                shard,
                due,
                || now,
                || now,
                payload,
                held,
                |_| (),
            )
        };
        let (entry, deferred) = filed.expect("the shard is open");
        assert!(deferred.is_nothing(), "there is no hook");
        entry
    }

    /// Runs a turn at `now` that fires at most `at_most` timers. Returns what fired, in order.
    pub fn turn(&self, now: Tick, at_most: usize) -> (Report, Vec<T>)
    where
        T: Send,
    {
        self.fired(|context| {
            context.turn(context.lock(), &mut InHand::default(), now, at_most, usize::MAX)
        })
    }

    /// Runs a turn at `now` as an engine's threads do, which visits `budget` entries. Returns what
    /// fired, in order.
    pub fn turn_of(&self, in_hand: &mut InHand<T>, now: Tick, budget: usize) -> (Report, Vec<T>)
    where
        T: Send,
    {
        self.fired(|context| context.turn(context.lock(), in_hand, now, budget, budget))
    }

    fn fired(&self, turn: impl FnOnce(&TurnContext<'_, T>) -> Option<Report>) -> (Report, Vec<T>)
    where
        T: Send,
    {
        let fired = Mutex::new(Vec::new());
        let handler = |batch: Batch<'_, T>| {
            fired.lock().unwrap_or_else(PoisonError::into_inner).extend(batch);
        };
        let stopping = AtomicBool::new(false);
        let context = self.around.turn_context(&self.shard, &self.shared, &handler, &stopping);
        let report = turn(&context).expect("the shard is open");
        (report, fired.into_inner().unwrap_or_else(PoisonError::into_inner))
    }

    /// Checks the shard's structure, and that all is covered, at `now`.
    ///
    /// # Panics
    /// Something is wrong.
    pub fn check(&self, now: Tick) {
        let mut owner = self.shard.owner().lock().expect("a turn does not panic");
        if let Err(violation) = self.shard.check(&mut owner, &self.shared, now) {
            panic!("{violation}");
        }
    }
}

impl<T> Drop for Bench<T> {
    fn drop(&mut self) {
        // It is poisoned after a panic, which is what a test tells of then.
        if let Ok(mut owner) = self.shard.owner().lock() {
            self.shard.close(&mut owner, &self.shared);
        }
        let _ = self.producer.clear(&self.shared);
    }
}
