//! Builds an engine from a builder's settings: checks them, makes the parts, starts the threads.
//!
//! *Owner*: the thread that builds. Others find the engine once it has entered the registry. When
//! the `Engine` value is made, its drop ends what was begun.

use std::any::TypeId;
use std::ops::Range;

use crate::dispatch::{Batch, Handler, Inline, Own, Party, contained};
use crate::doorbell::{Alarm, Bell, Doorbell, Hook, Listener, Parker, SystemAlarm};
use crate::error::BuildError;
use crate::memory::Shared;
use crate::os::Cpus;
use crate::os::asymmetric;
use crate::reaper::{Ending, Group, Observer, StuckThreads, Watch};
use crate::shard::Shard;
#[cfg(feature = "tokio")]
use crate::sync::AtomicBool;
use crate::sync::{Arc, AtomicUsize, CachePadded, thread};
use crate::time::{Clock, Geometry, MAX_SHARDS, Scale, Tick, saturating_ns};

use super::core::{Core, Owned, nobody_waits};
use super::crew::{Crew, Settings};
use super::deadline::start_after_origin_ns;
use super::facade::Inner;
use super::limits::is_exempt;
use super::registry::ENGINES;
use super::stopping::ends_with_engine;
use super::thread_cache::new_number;
use super::{Builder, Driver, Engine};

/// The numbers that a core is built by, from settings that were checked.
struct Plan {
    scale: Scale,
    geometry: Geometry,
    clock: Clock,
    /// Which shards form each group.
    groups: Vec<Range<usize>>,
    /// How many threads may serve them at a time. Zero: the caller drives the engine.
    reapers: usize,
}

// === impl Builder: building ===

impl Builder {
    /// Builds an engine for closures. They run on the thread that runs the shard's turns.
    ///
    /// # Errors
    /// A setting is out of bounds, or a thread could not be started.
    pub fn build(self) -> Result<Engine, BuildError> {
        self.build_with_handler(Inline)
    }

    /// Builds an engine that hands its payloads to `handler`, in batches. A plain closure needs no
    /// type annotations here; for a type that implements [`Handler`] use
    /// [`build_with_handler`](Builder::build_with_handler). [`Engine::typed`] has an example.
    ///
    /// # Errors
    /// As [`build`](Builder::build).
    pub fn build_typed<T: Send + 'static>(
        self,
        handler: impl Fn(Batch<'_, T>) + Send + Sync + 'static,
    ) -> Result<Engine<T>, BuildError> {
        self.build_with_handler(handler)
    }

    /// Builds an engine that calls `each` with each payload. A panic in one call is caught and
    /// counted, and the remaining payloads are still passed on.
    ///
    /// # Errors
    /// As [`build`](Builder::build).
    pub fn build_each<T: Send + 'static>(
        self,
        each: impl Fn(T) + Send + Sync + 'static,
    ) -> Result<Engine<T>, BuildError> {
        self.build_typed(move |batch| batch.for_each(&each))
    }

    /// Builds an engine that hands its payloads to `handler`: a [`Pool`](crate::dispatch::Pool),
    /// for example, which runs an engine's closures on threads of its own.
    /// [`dispatch`](crate::dispatch) has all handlers of this crate.
    ///
    /// The engine drops the handler once it has stopped.
    ///
    /// # Errors
    /// As [`build`](Builder::build).
    pub fn build_with_handler<T: Send + 'static, H: Handler<T> + 'static>(
        self,
        handler: H,
    ) -> Result<Engine<T>, BuildError> {
        // `Inline` runs everything where it is due, and keeps the order of tasks and wakes.
        let is_inline = TypeId::of::<H>() == TypeId::of::<Inline>();
        let own = if is_inline { None } else { Own::tasks() };
        self.build_boxed(Box::new(handler), own)
    }

    /// The same, compiled once for each type of payload.
    fn build_boxed<T: Send + 'static>(
        self,
        handler: Box<dyn Handler<T>>,
        own: Option<Own<T>>,
    ) -> Result<Engine<T>, BuildError> {
        let plan = self.plan()?;
        #[cfg(feature = "tokio")]
        let is_of_runtime = self.runtime.is_some();
        #[cfg(not(feature = "tokio"))]
        let is_of_runtime = false;
        let number = new_number(is_of_runtime).ok_or(BuildError::TooManyEngines)?;
        asymmetric::prepare();
        let core = Arc::new(self.core(&plan, number, handler, own)?);
        ENGINES.enter(number, &core);
        let crew = core.has_threads().then(|| Crew::new(core.clone(), self.crew_settings(&plan)));
        // From here on, its drop ends what was begun.
        let engine = Engine { inner: Arc::new(Inner { core, crew }) };
        engine.inner.crew.iter().try_for_each(Crew::start).map_err(BuildError::Thread)?;
        Ok(engine)
    }

    /// Checks the settings.
    fn plan(&self) -> Result<Plan, BuildError> {
        let scale = Scale::new(self.tick).ok_or(BuildError::Tick { tick: self.tick })?;
        let reach = self.reach.unwrap_or_else(|| (self.slots / 2).max(2));
        let geometry = Geometry::new(self.slots, reach).map_err(BuildError::Geometry)?;
        let shards = self.shard_count()?;
        let has_threads = self.has_threads()?;
        if self.max_pending == Some(0) {
            return Err(BuildError::MaxPending);
        }
        if self.thread_name.contains('\0') {
            return Err(BuildError::ThreadName { name: self.thread_name.clone() });
        }
        self.check_share()?;
        let (groups, reapers) = self.reapers_for(shards)?;
        let (groups, reapers) = if has_threads { (groups, reapers) } else { (shards, 0) };
        let clock = self.clock.clone().unwrap_or_else(Clock::system);
        let clock = if self.spin_before.is_some() { clock } else { clock.without_cycles() };
        let first = |group| shards * group / groups;
        let groups = (0..groups).map(|group| first(group)..first(group + 1)).collect();
        Ok(Plan { scale, geometry, clock, groups, reapers })
    }

    /// Sets how many timers of a crowd go before others, for tests in which few are a crowd; with
    /// zero, each bucket that a turn does not finish is one.
    #[doc(hidden)]
    pub fn share(mut self, timers: usize) -> Builder {
        self.share = timers;
        self
    }

    /// The core of engine `number`.
    fn core<T: Send + 'static>(
        &self,
        plan: &Plan,
        number: u32,
        handler: Box<dyn Handler<T>>,
        own: Option<Own<T>>,
    ) -> Result<Core<T>, BuildError> {
        let Plan { scale, geometry, ref clock, .. } = *plan;
        let count = plan.groups.iter().map(ExactSizeIterator::len).sum();
        // SAFETY: only the core that gets this `Shared` uses it, and closes its shards before it is
        // dropped.
        let shared = unsafe { Shared::new(number, count, self.max_pending) };
        let shared =
            shared.with_few(self.exact_below).with_share(self.share).with_exempt(is_exempt);
        let threads = self.threads(plan);
        let watch = self.watch(plan, threads).map(CachePadded::new);
        let stuck = Arc::new(StuckThreads::of(threads));
        let listener = (threads == 0).then(|| self.listener(count));
        let now = scale.floor(clock.now_ns());
        let (mut groups, mut shards) = (Vec::new(), Vec::with_capacity(count));
        for (number, range) in plan.groups.iter().cloned().enumerate() {
            let bell = self.bell((clock, &scale), &listener, number)?;
            let doorbell = Arc::new(Doorbell::for_shards(range.len(), bell));
            shards.extend(range.clone().enumerate().map(|(index, i)| {
                let shard = Shard::new(i as u32, geometry, doorbell.clone(), now, &shared);
                shard.with_group_index(index)
            }));
            groups.push(Group::new(number, range, doorbell, stuck.clone()));
        }
        let observation = self.observation_named();
        let handler = Owned { party: Party::Engine(number), handler: Some(handler) };
        Ok(Core {
            ending: Ending::new(count, handler, ends_with_engine),
            shards: shards.into(),
            shared,
            observers: (0..count).map(|i| Observer::new(i, &observation)).collect(),
            clock: clock.clone(),
            start_after_origin_ns: start_after_origin_ns(clock),
            scale,
            own,
            routed: AtomicUsize::new(0),
            stuck_after_ns: saturating_ns(self.stuck_after()),
            watch,
            listener,
            #[cfg(feature = "tokio")]
            runtime: self.runtime,
            #[cfg(feature = "tokio")]
            runtime_ended: AtomicBool::new(false),
            groups: groups.into(),
            waiting: nobody_waits(threads),
            threads,
            thread_name: self.thread_name.clone(),
            stuck,
            spares: self.spares_used(),
            #[cfg(feature = "test-util")]
            on_timer: self.on_timer.clone(),
        })
    }

    /// What a task listens to that serves an engine of so many shards.
    fn listener(&self, shards: usize) -> Arc<Listener> {
        let listener = Listener::new(shards);
        #[cfg(feature = "tokio")]
        let listener = listener.with_timer(self.timer.clone());
        Arc::new(listener)
    }

    /// How many threads an engine may have.
    fn threads(&self, plan: &Plan) -> usize {
        // One watches while all spare threads serve.
        match plan.reapers {
            0 => 0,
            reapers => reapers + self.spares_used() + usize::from(self.has_watcher()),
        }
    }

    /// The watch over the tasks of an engine that has these threads.
    fn watch(&self, plan: &Plan, threads: usize) -> Option<Watch> {
        if threads == 0 || !self.has_watcher() {
            return None;
        }
        // The leaders of several groups would have to agree on the alarm.
        let has_alarm = plan.groups.len() == 1;
        let alarm = has_alarm.then(|| SystemAlarm::new(&plan.clock).ok()).flatten();
        let alarm = alarm.map(|alarm| Box::new(alarm) as Box<dyn Alarm>);
        Some(Watch::new(self.stuck_after()).with_alarm(alarm))
    }

    /// What the crew of an engine keeps to.
    fn crew_settings(&self, plan: &Plan) -> Settings {
        Settings {
            stack_size: self.stack_size,
            on_start: self.on_thread_start.clone(),
            reapers: plan.reapers,
            cpus: self.pinned.then(Cpus::allowed),
            spin: self.spin(),
        }
    }

    fn shard_count(&self) -> Result<usize, BuildError> {
        let per_core = || thread::available_parallelism().map_or(1, usize::from).min(MAX_SHARDS);
        match self.shards.unwrap_or_else(per_core) {
            shards @ 1..=MAX_SHARDS => Ok(shards),
            shards => Err(BuildError::Shards { shards }),
        }
    }

    fn has_threads(&self) -> Result<bool, BuildError> {
        let is_manual = self.is_by_hand();
        let default = if is_manual { Driver::Caller } else { Driver::Threads };
        match self.driver.unwrap_or(default) {
            Driver::Threads if is_manual => Err(BuildError::ManualClockWithThreads),
            Driver::Threads if self.hook.is_some() => Err(BuildError::HookWithThreads),
            driver => Ok(driver == Driver::Threads),
        }
    }

    /// Whether the clock is moved by hand.
    pub(super) fn is_by_hand(&self) -> bool {
        self.clock.as_ref().is_some_and(|clock| clock.as_manual().is_some())
    }

    /// The bell of a group of shards: of the thread that leads it, or of who listens.
    fn bell(
        &self,
        (clock, scale): (&Clock, &Scale),
        listener: &Option<Arc<Listener>>,
        group: usize,
    ) -> Result<Bell, BuildError> {
        if let Some(listener) = listener.clone() {
            let hook = self.hook.clone();
            // The thread that rings has scheduled a timer and must get its handle, so a panic ends
            // here.
            let (has_timer, scale) = (listener.has_timer(), *scale);
            let ring = move |due| {
                let at_ns = scale.start_ns(due).unwrap_or(u64::MAX);
                contained(|| listener.ring(group, at_ns));
                contained(|| hook.iter().for_each(|hook| hook(group)));
            };
            return Ok(Bell::Hook(match has_timer {
                true => Hook::for_due(ring),
                false => Hook::new(move || ring(Tick::ZERO)),
            }));
        }
        if clock.counts_suspension() {
            let alarm = SystemAlarm::new(clock).map_err(BuildError::Alarm)?;
            return Ok(Bell::Alarm(Box::new(alarm)));
        }
        Ok(Bell::Thread(Parker::new()))
    }
}
