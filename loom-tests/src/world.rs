//! A shard with everything around it.

use std::slice;
use std::sync::Arc;
use std::time::Duration;

use tickless_core::bench::Around;
use tickless_core::dispatch::{Batch, InHand};
use tickless_core::doorbell::{Bell, Doorbell, Parker};
use tickless_core::entry;
use tickless_core::memory::Shared;
use tickless_core::reaper::{
    Ending, Found, Group, Report, Role, StuckThreads, TurnContext, Waited,
};
use tickless_core::shard::Shard;
use tickless_core::time::{Geometry, ManualClock, Place, Tick};
use tickless_sync::{Counter, Ordering};

use crate::ledger::{Book, Fate, Payload};

/// A wheel small enough for a model: `slots` buckets on each of `levels` levels.
pub fn wheel(slots: u32, levels: u8) -> Geometry {
    Geometry::new(slots, slots).expect("a shape that wheels can have").lowest(levels)
}

/// The width of a tick.
pub const TICK: Duration = Duration::from_millis(1);

/// A shard and what surrounds it. In its end it is stopped, if it was not before.
#[derive(Debug)]
pub struct World {
    // The shard goes before the shared: what it gives up in its end goes there.
    /// The shard.
    pub shard: Shard<Payload>,
    /// What threads share besides, also with the shards beside this one.
    pub shared: Arc<Shared<Payload>>,
    /// Who may run turns, and how that ends.
    pub ending: Ending<Payload, Handler>,
    /// The group that the shard belongs to.
    pub group: Arc<Group>,
    /// Moves the reapers' clock.
    hand: ManualClock,
    pub(crate) around: Around,
    pub(crate) book: Arc<Book>,
    /// The time of the turn under way.
    pub(crate) now: Counter,
    /// How often the handler was dropped.
    dropped: Arc<Counter>,
}

/// In place of a handler: it tells when it is dropped.
#[derive(Debug)]
pub struct Handler {
    dropped: Arc<Counter>,
}

// === impl World ===

impl World {
    /// A world whose reaper is driven by the model, and whose levels are there already.
    pub fn new(geometry: Geometry) -> Arc<World> {
        // SAFETY: as in `with`.
        World::of(geometry, unsafe { Shared::new(1, 1, None) })
    }

    /// A world with a bell, and a shared for so many shards: one for none gives every magazine
    /// back to the allocator.
    pub fn with(geometry: Geometry, bell: Bell, pool_for: usize) -> Arc<World> {
        // SAFETY: hands and shards keep to it, and a world closes its shard in its end.
        let shared = unsafe { Shared::new(1, pool_for, None) };
        World::build(geometry, Doorbell::new(bell), Arc::new(shared))
    }

    /// Two shards of a group, whose doorbell has this bell, and whose levels are there already.
    /// Their reapers' clock is `hand`.
    pub fn pair(geometry: Geometry, bell: Bell, hand: &ManualClock) -> [Arc<World>; 2] {
        // SAFETY: as in `with`.
        let shared = Arc::new(unsafe { Shared::new(1, 1, None) });
        let doorbell = Arc::new(Doorbell::for_shards(2, bell));
        let group = Arc::new(Group::new(0, 0..2, doorbell, Arc::new(StuckThreads::of(3))));
        [0, 1].map(|index| {
            let world = World::in_group(geometry, shared.clone(), &group, index, hand.clone());
            world.make_levels();
            world
        })
    }

    /// Another shard of the same engine, driven by the model as well.
    pub fn beside(other: &World) -> Arc<World> {
        let geometry = *other.shard.wheel().geometry();
        World::made(geometry, Doorbell::new(Bell::None), other.shared.clone())
    }

    /// As `new`, for at most `max_pending` timers at a time.
    pub fn limited(geometry: Geometry, max_pending: u64) -> Arc<World> {
        // SAFETY: as in `with`.
        World::of(geometry, unsafe { Shared::new(1, 1, Some(max_pending)) })
    }

    /// As `new`; each timer is filed for its own deadline, as few timers are.
    pub fn of_few(geometry: Geometry) -> Arc<World> {
        // SAFETY: as in `with`.
        World::of(geometry, unsafe { Shared::new(1, 1, None) }.with_few(u64::MAX))
    }

    /// As `new`; each bucket that a turn does not finish is a crowd.
    pub fn of_crowds(geometry: Geometry) -> Arc<World> {
        // SAFETY: as in `with`.
        World::of(geometry, unsafe { Shared::new(1, 1, None) }.with_share(0))
    }

    /// As `new`, without depots, and with so many entries in a block.
    pub fn of_blocks(geometry: Geometry, entries: usize) -> Arc<World> {
        // SAFETY: as in `with`.
        World::of(geometry, unsafe { Shared::new(1, 0, None) }.with_blocks_of(entries))
    }

    fn of(geometry: Geometry, shared: Shared<Payload>) -> Arc<World> {
        World::made(geometry, Doorbell::new(Bell::None), Arc::new(shared))
    }

    fn made(geometry: Geometry, doorbell: Doorbell, shared: Arc<Shared<Payload>>) -> Arc<World> {
        let world = World::build(geometry, doorbell, shared);
        world.make_levels();
        world
    }

    /// As `new`; levels and segments are made when they are needed.
    pub fn build_bare(geometry: Geometry) -> Arc<World> {
        // SAFETY: as in `with`.
        let shared = Arc::new(unsafe { Shared::new(1, 1, None) });
        World::build(geometry, Doorbell::new(Bell::None), shared)
    }

    /// A world that [`World::serve`] serves, and whose levels are there already.
    pub fn served(geometry: Geometry) -> Arc<World> {
        World::served_with(geometry, 1)
    }

    /// The same with a shared for so many shards: see [`World::with`].
    pub fn served_with(geometry: Geometry, pool_for: usize) -> Arc<World> {
        let world = World::with(geometry, Bell::Thread(Parker::new()), pool_for);
        world.make_levels();
        world
    }

    fn build(geometry: Geometry, doorbell: Doorbell, shared: Arc<Shared<Payload>>) -> Arc<World> {
        let group =
            Arc::new(Group::new(0, 0..1, Arc::new(doorbell), Arc::new(StuckThreads::of(2))));
        World::in_group(geometry, shared, &group, 0, ManualClock::new())
    }

    fn in_group(
        geometry: Geometry,
        shared: Arc<Shared<Payload>>,
        group: &Arc<Group>,
        index: usize,
        hand: ManualClock,
    ) -> Arc<World> {
        let doorbell = group.doorbell.clone();
        let shard = Shard::new(0, geometry, doorbell, Tick::ZERO, &shared).with_group_index(index);
        let dropped = Arc::new(Counter::new(0));
        Arc::new(World {
            shard,
            shared,
            ending: Ending::new(1, Handler { dropped: dropped.clone() }, |_| false),
            dropped,
            group: group.clone(),
            around: Around::new(&hand, TICK),
            hand,
            book: Book::current(),
            now: Counter::new(0),
        })
    }

    /// Makes all buckets, so that making them is not part of the races.
    pub fn make_levels(&self) {
        let geometry = self.shard.wheel().geometry();
        for level in 1..=geometry.levels() {
            for slot in 0..geometry.slots() {
                let place = Place { level, slot, expiration: Tick::ZERO };
                self.shard.wheel().bucket(place).expect("it is not closed");
            }
        }
    }

    /// Runs one turn, if the shard is not closed.
    pub fn turn(&self, now: u64) -> Option<Report> {
        self.turn_at_most(now, usize::MAX)
    }

    /// Runs one turn that fires at most `max_fired` timers, if the shard is not closed.
    pub fn turn_at_most(&self, now: u64, max_fired: usize) -> Option<Report> {
        self.turn_of(now, max_fired, || ())
    }

    /// As `turn`; the task of each timer ends with `task`.
    pub fn turn_with(&self, now: u64, task: impl Fn() + Send + Sync) -> Option<Report> {
        self.turn_of(now, usize::MAX, task)
    }

    fn turn_of(&self, now: u64, max_fired: usize, task: impl Fn() + Send + Sync) -> Option<Report> {
        let mut role = self.ending.take_role(0)?;
        // ORDER: Relaxed - written and read by the holder of the role.
        self.now.store(now, Ordering::Relaxed);
        let fire = |payload| {
            self.fire(payload);
            task();
        };
        let handler = |batch: Batch<'_, Payload>| batch.for_each(fire);
        let context = self.turn_context(&handler);
        let (in_hand, now) = (self.in_hand(&mut role), Tick::new(now));
        context.turn(context.lock(), in_hand, now, max_fired, usize::MAX)
    }

    /// Takes the shard over from a turn that hands payloads over, if there is one, and runs a turn
    /// in its place. Returns how many payloads that one fired, if there was one.
    pub fn take_over(&self, now: u64) -> Option<usize> {
        let seen = self.ending.progress(0);
        let mut role = self.ending.take_over(0, seen?, || ())?;
        let handler = |batch: Batch<'_, Payload>| batch.for_each(|payload| self.fire(payload));
        let context = self.turn_context(&handler);
        context.succeed();
        let report = context.turn(
            context.lock(),
            self.in_hand(&mut role),
            Tick::new(now),
            usize::MAX,
            usize::MAX,
        );
        Some(report.map_or(0, |report| report.fired))
    }

    /// Looks whether a task is stuck that may take no time, as anyone may at any time.
    pub fn look(&self) {
        assert!(!matches!(self.look_at(), Found::Busy(_)), "it may take no time");
    }

    /// The same, and returns what it found.
    pub fn look_at(&self) -> Found {
        self.ending.look(0, &self.around.clock, 0).0
    }

    /// Runs one turn at each of these times.
    pub fn turn_at(&self, times: impl IntoIterator<Item = u64>) {
        times.into_iter().for_each(|now| _ = self.turn(now));
    }

    /// Runs turns at `now` until there is nothing left to do.
    pub fn turn_until_idle(&self, now: u64) {
        while self.turn(now).is_some_and(|report| report.busy) {}
    }

    /// Lets time pass from `begin` to `end`, after all other threads have returned: whatever is
    /// due by then ends, and what is due after `begin` fires at its time and not later.
    pub fn pass(&self, begin: u64, end: u64) {
        for now in begin..=end {
            self.turn_until_idle(now);
            self.check(now);
        }
        self.book.assert_punctual(Tick::new(begin), Tick::new(end));
    }

    /// Moves the clock that [`World::serve`] reads, and wakes the threads that sleep by it.
    pub fn advance(&self, ticks: u32) {
        self.hand.advance(ticks * TICK);
        self.shard.doorbell().ring();
    }

    /// The deadlines that a reader finds who looks once and follows at most so many links.
    pub fn scan(&self, links: u64) -> Vec<Tick> {
        self.scan_in(1, links)
    }

    /// As `scan`, by a reader that makes up to so many passes.
    pub fn scan_in(&self, passes: u32, links: u64) -> Vec<Tick> {
        let mut found = Vec::new();
        self.shard.scan(&entry::read(), links, passes, |pending| found.push(pending.deadline));
        found
    }

    /// Checks structure and coverage, while no other thread is there.
    pub fn check(&self, now: u64) {
        let mut owner = self.shard.owner().lock().expect("a turn does not panic");
        if let Err(violation) = self.shard.check(&mut owner, &self.shared, Tick::new(now)) {
            panic!("{violation}");
        }
    }

    /// Stops the world, and waits for the turn under way: what was pending is returned. Answers how
    /// many were.
    pub fn stop(&self) -> usize {
        let mut pending = self.stop_at_once();
        while let Waited::Left(left) = self.ending.wait(None) {
            pending += returned(left);
        }
        // ORDER: Relaxed - the end's lock orders it.
        assert_eq!(self.dropped.load(Ordering::Relaxed), 1, "the handler goes with the last role");
        pending
    }

    /// Stops the world, and leaves a turn that is under way alone.
    pub fn stop_at_once(&self) -> usize {
        returned(self.ending.stop(slice::from_ref(&self.shard), &self.shared, |pending| pending))
    }

    /// Gives back what only those need who have the engine, as its last user does.
    ///
    /// # Safety
    /// From here on nobody files or looks at the wheel but as a reader.
    pub unsafe fn dismantle(&self) {
        let mut owner = self.shard.owner().lock().expect("a turn does not panic");
        // SAFETY: passed on to the caller.
        unsafe { self.shard.dismantle(&mut owner) };
        drop(owner);
        self.shared.dismantle();
    }

    /// It asserts nothing: a panic would be taken for a task's own and end in the handing over.
    pub(crate) fn fire(&self, payload: Payload) {
        // ORDER: Relaxed - as in `turn_at_most`.
        payload.meets(Fate::Ran(self.now.load(Ordering::Relaxed)));
    }

    pub(crate) fn turn_context<'a>(
        &'a self,
        handler: &'a dyn tickless_core::dispatch::Handler<Payload>,
    ) -> TurnContext<'a, Payload> {
        self.around.turn_context(&self.shard, &self.shared, handler, self.ending.flag())
    }

    /// What the holder of a role has in hand; its handler is there as long as that.
    pub(crate) fn in_hand<'a>(
        &self,
        role: &'a mut Role<'_, Payload, Handler>,
    ) -> &'a mut InHand<Payload> {
        let (handler, in_hand) = role.parts();
        // ORDER: Relaxed - no turn is under way when it is dropped.
        assert_eq!(handler.dropped.load(Ordering::Relaxed), 0, "a turn without a handler");
        in_hand
    }
}

impl Drop for World {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            self.stop();
        }
    }
}

// === impl Handler ===

impl Drop for Handler {
    fn drop(&mut self) {
        // ORDER: Relaxed - as in `World::stop`.
        self.dropped.fetch_add(1, Ordering::Relaxed);
    }
}

/// These payloads were returned by a stop.
fn returned(payloads: Vec<Payload>) -> usize {
    let count = payloads.len();
    payloads.into_iter().for_each(|payload| payload.meets(Fate::Returned));
    count
}
