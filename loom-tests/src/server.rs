//! A thread of a model that serves a group of shards, as the engine's threads do.

use std::sync::Arc;

use tickless_core::dispatch::{Batch, InHand};
use tickless_core::reaper::{self, Group, Report, Role, Serve, Spin, TurnContext, Watch};
use tickless_sync::{AtomicBool, Counter, JoinHandle, Ordering, thread};

use crate::event::Event;
use crate::ledger::Payload;
use crate::world::{Handler, TICK, World};

/// What those who serve wait for.
#[derive(Debug)]
pub struct Wanted {
    /// Deadlines; without any, they wait for a stop.
    deadlines: Vec<u64>,
    /// For each of them a bit, until a payload of that deadline has run.
    missing: Counter,
    done: AtomicBool,
}

/// A thread that serves the shards of a group.
#[derive(Debug)]
pub struct Server<'a> {
    worlds: &'a [&'a World],
    number: usize,
    wanted: &'a Wanted,
    /// Who watches its tasks, and what each of these waits for.
    watch: Option<(&'a Watch, &'a Event)>,
    /// It comes back from its first turn, and does nothing more.
    is_stuck_then: bool,
}

// === impl Wanted ===

impl Wanted {
    /// For each of these deadlines a payload is to run.
    pub fn new(deadlines: &[u64]) -> Wanted {
        let missing = Counter::new((1 << deadlines.len()) - 1);
        Wanted { deadlines: deadlines.to_vec(), missing, done: AtomicBool::new(false) }
    }

    /// A payload of that deadline runs. Returns whether it is the last that was missing.
    fn has_run(&self, deadline: u64) -> bool {
        // ORDER: Relaxed - which one is found does not matter.
        let before = self.missing.load(Ordering::Relaxed);
        let is_it = |i: &usize| before >> i & 1 == 1 && self.deadlines[*i] == deadline;
        let found = (0..self.deadlines.len()).find(is_it).map_or(0, |i| 1 << i);
        found != 0 && self.missing.fetch_and(!found, Ordering::Relaxed) == found
    }
}

// === impl Server ===

impl<'a> Server<'a> {
    /// Thread number `number` of those that the doorbell of these worlds' group may wake.
    pub fn new(worlds: &'a [&'a World], number: usize, wanted: &'a Wanted) -> Server<'a> {
        Server { worlds, number, wanted, watch: None, is_stuck_then: false }
    }

    /// The same; after a turn it is stuck with another shard, so that it serves no more.
    pub fn stuck_after_a_turn(self) -> Server<'a> {
        Server { is_stuck_then: true, ..self }
    }

    /// The same, watched; each of its tasks waits for `event`.
    pub fn watched(self, watch: &'a Watch, event: &'a Event) -> Server<'a> {
        Server { watch: Some((watch, event)), ..self }
    }

    /// Takes the lead that nobody has, and serves.
    pub fn lead(&self, spin: Spin) {
        self.begin(spin).lead();
    }

    /// Serves in the role of shard `index`, which the thread has got from another one.
    pub fn succeed(&self, index: usize, role: Role<'a, Payload, Handler>, leads: bool) {
        self.begin(Spin::NEVER).succeed(index, role, leads);
    }

    fn begin(&self, spin: Spin) -> reaper::Server<'_, Self> {
        let (clock, scale) = (&self.worlds[0].around.clock, self.worlds[0].around.scale);
        let (time, watch) = ((clock, scale), self.watch.map(|(watch, _)| watch));
        reaper::Server::new(self, self.group(), self.number, time, watch, spin)
    }

    fn group(&self) -> &'a Group {
        &self.worlds[0].group
    }

    fn fire(&self, world: &World, batch: Batch<'_, Payload>) {
        // ORDER: Relaxed - written and read by the holder of the role.
        world.now.store(world.shard.clock().get(), Ordering::Relaxed);
        for payload in batch {
            let deadline = payload.deadline();
            world.fire(payload);
            self.watch.iter().for_each(|(_, event)| event.wait());
            if self.wanted.has_run(deadline) {
                // ORDER: Relaxed - it only ends the model; others are woken below.
                self.wanted.done.store(true, Ordering::Relaxed);
                if self.worlds.len() > 1 {
                    self.group().doorbell.ring();
                }
            }
        }
    }
}

impl Serve for Server<'_> {
    type Payload = Payload;
    type Role<'r>
        = Role<'r, Payload, Handler>
    where
        Self: 'r;

    fn is_stopping(&self) -> bool {
        // ORDER: Relaxed - as where it is set.
        let is_done = !self.wanted.deadlines.is_empty() && self.wanted.done.load(Ordering::Relaxed);
        is_done || self.is_stuck_then || self.worlds[0].ending.is_stopping()
    }

    fn take_role(&self, shard: usize) -> Option<Role<'_, Payload, Handler>> {
        self.worlds[shard].ending.try_take_role(0)
    }

    fn run<R>(
        &self,
        shard: usize,
        role: &mut Role<'_, Payload, Handler>,
        f: impl FnOnce(&TurnContext<'_, Payload>, &mut InHand<Payload>) -> R,
    ) -> R {
        let world = self.worlds[shard];
        let handler = |batch: Batch<'_, Payload>| self.fire(world, batch);
        let context = TurnContext {
            watch: self.watch.map(|(watch, _)| watch),
            ..world.turn_context(&handler)
        };
        f(&context, world.in_hand(role))
    }

    fn find_leader(&self, _: usize) -> bool {
        false
    }
}

// === impl World ===

impl World {
    /// Serves the shard as the engine's threads do: until the world is stopped, or, if any deadline
    /// is `wanted`, until for each of those a payload of that deadline has run.
    pub fn serve(&self, wanted: &[u64]) {
        self.serve_with(wanted, Spin::NEVER);
    }

    /// The same, by a reaper that waits in user space as `spin` says.
    fn serve_with(&self, wanted: &[u64], spin: Spin) {
        Server::new(&[self], 0, &Wanted::new(wanted)).lead(spin);
    }

    /// Takes the shard over from a hand-over under way, and serves it as [`World::serve`] does, in
    /// a thread that is number `number` of those that the bell knows.
    pub fn succeed_in_thread(self: &Arc<World>, number: usize, wanted: Vec<u64>) -> JoinHandle<()> {
        let world = self.clone();
        thread::spawn(move || {
            // Unless a stop came first, and took it over itself.
            let Some(seen) = world.ending.progress(0) else { return };
            let Some(role) = world.ending.take_over(0, seen, || ()) else { return };
            assert!(world.group.lead.take(number));
            Server::new(&[&world], number, &Wanted::new(&wanted)).succeed(0, role, true);
        })
    }

    /// A thread that serves, and that the bell wakes.
    pub fn serve_in_thread(self: &Arc<World>, wanted: Vec<u64>) -> JoinHandle<()> {
        self.serve_in_thread_with(wanted, Spin::NEVER)
    }

    /// A thread that serves, and waits in user space for whatever is due at all.
    pub fn spin_in_thread(self: &Arc<World>, wanted: Vec<u64>) -> JoinHandle<()> {
        // Less than the credit to begin with.
        self.serve_in_thread_with(wanted, Spin::before(TICK * 50, 1.0))
    }

    fn serve_in_thread_with(self: &Arc<World>, wanted: Vec<u64>, spin: Spin) -> JoinHandle<()> {
        let world = self.clone();
        thread::spawn(move || world.serve_with(&wanted, spin))
    }

    /// For a task of a runtime: looks when the shard needs its next turn, and publishes that.
    /// `None`: it needs one now, or another thread has the role.
    pub fn look_ahead(&self) -> Option<Report> {
        let mut role = self.ending.try_take_role(0)?;
        let handler = |_: Batch<'_, Payload>| unreachable!("nothing is handed over");
        self.turn_context(&handler).look_ahead(self.in_hand(&mut role))
    }
}
