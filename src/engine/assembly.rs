//! Builds an engine from a builder's settings: checks them, makes the parts, starts the threads.

use crate::dispatch::{Batch, Handler, Inline, Party, contained};
use crate::doorbell::{Answering, Bell, Call, Doorbell, Hook, Listener, SystemAlarm, Threads};
use crate::error::BuildError;
use crate::memory::Shared;
use crate::os::{Alarm, Cpus};
use crate::protocol::asymmetric;
use crate::reaper::{Ending, Group, Observer, Spin, StuckThreads, Watch};
use crate::shard::Shard;
use crate::sync::{Arc, AtomicUsize, OnceLock, Weak, thread};
use crate::time::{Clock, Geometry, MAX_SHARDS, Scale, saturating_ns};

use super::core::{Core, Owned};
use super::crew::{Crew, Home, Settings};
use super::deadline::start_after_origin_ns;
use super::precise::{self, Both};
use super::stopping::Inner;
use super::thread_cache::{self, ENGINES};
use super::{Builder, Driver, Engine};

/// An engine of more groups than this takes no file descriptors for its leaders' sleeps: programs
/// may have few.
const ALARMS: usize = 64;

/// What a core is made of: that of an engine, or that of its precise timers.
struct Part {
    numbers: Numbers,
    shards: usize,
    /// How many groups its shards form.
    groups: usize,
    geometry: Geometry,
    scale: Scale,
    clock: Clock,
    /// Whom the doorbells wake, unless the caller drives the engine.
    threads: Option<Threads>,
    /// What a task listens to that serves the engine, if the caller drives it.
    listener: Option<Arc<Listener>>,
    watch: Option<Arc<Watch>>,
    stuck: Arc<StuckThreads>,
}

/// The numbers of an engine, and of the first shard and the first group of a part.
#[derive(Clone, Copy)]
struct Numbers {
    party: u32,
    shard: usize,
    group: usize,
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
        self.build_boxed(Box::new(handler))
    }

    /// The same, compiled once for each type of payload.
    fn build_boxed<T: Send + 'static>(
        self,
        handler: Box<dyn Handler<T>>,
    ) -> Result<Engine<T>, BuildError> {
        let scale = Scale::new(self.tick).ok_or(BuildError::Tick { tick: self.tick })?;
        let reach = self.reach.unwrap_or_else(|| (self.slots / 2).max(2));
        let geometry = Geometry::new(self.slots, reach).map_err(BuildError::Geometry)?;
        let shards = self.shard_count()?;
        let has_threads = self.has_threads()?;
        if self.max_pending == Some(0) {
            return Err(BuildError::MaxPending);
        }
        if self.thread_name.contains('\0') {
            return Err(BuildError::ThreadName { name: self.thread_name });
        }
        self.check_shares()?;
        let (groups, reapers) = self.reapers_for(shards)?;
        let number = thread_cache::new_number().ok_or(BuildError::TooManyEngines)?;
        let clock = self.clock.clone().unwrap_or_else(Clock::system);
        // SAFETY: only the core that gets this `Shared` uses it, and closes its shards before it is
        // dropped.
        let shared = unsafe { Shared::new(number, shards, self.max_pending) };
        let shared = self.limit(shared.with_few(self.exact_below).with_share(self.share));
        asymmetric::prepare();
        let threads = has_threads.then(|| self.threads(reapers));
        // The watch is part of the core, and reaches it when it needs a thread.
        let home = Arc::new(OnceLock::<Weak<Core<T>>>::new());
        let watch = threads.clone().filter(|_| self.has_watcher()).map(|threads| {
            let home = home.clone();
            let make =
                move || home.get().and_then(Weak::upgrade).iter().for_each(Core::make_watcher);
            Arc::new(Watch::new(self.stuck_after(), threads, make))
        });
        let numbers = Numbers { party: number, shard: 0, group: 0 };
        let stuck = Arc::new(StuckThreads::of(threads.as_ref().map_or(0, |threads| threads.len())));
        let all_shards = shards + usize::from(self.precise.is_some());
        let listener = (!has_threads).then(|| Arc::new(Listener::new(all_shards)));
        let part = Part {
            numbers,
            shards,
            groups,
            geometry,
            scale,
            clock,
            threads: threads.clone(),
            listener: listener.clone(),
            watch,
            stuck: stuck.clone(),
        };
        let (mut core, groups) = self.both_cores(part, shared, handler)?;
        core.listener = listener;
        core.crew = threads
            .map(|threads| Crew::new(self.crew_settings(reapers), threads, groups.into(), stuck));
        let core = Arc::new(core);
        home.get_or_init(|| Arc::downgrade(&core));
        ENGINES.enter(number, &core);
        core.precise.iter().for_each(|precise| ENGINES.enter(precise.id(), precise));
        let engine = Engine { inner: Arc::new(Inner::new(core)) };
        if let Some(crew) = &engine.core().crew {
            for group in 0..crew.groups.len() {
                engine.core().start_leader(crew, group).map_err(BuildError::Thread)?;
            }
        }
        Ok(engine)
    }

    /// Sets how many timers of a crowd go before others, for tests in which few are a crowd; with
    /// zero, each bucket that a turn does not finish is one.
    #[doc(hidden)]
    pub fn share(mut self, timers: usize) -> Builder {
        self.share = timers;
        self
    }

    /// The core of an engine, with that of its precise timers if it has one, and the groups of the
    /// shards of both.
    fn both_cores<T: Send + 'static>(
        &self,
        part: Part,
        shared: Shared<T>,
        handler: Box<dyn Handler<T>>,
    ) -> Result<(Core<T>, Vec<Home>), BuildError> {
        if self.precise.is_none() {
            return self.core(part, shared, handler, None);
        }
        let [handler, other] = Both::share(handler);
        let (precise, its) = self.precise_core(&part, &shared, other)?;
        let (core, mut groups) = self.core(part, shared, handler, Some(Arc::new(precise)))?;
        groups.extend(its);
        Ok((core, groups))
    }

    /// The core of an engine, or that of its precise timers, and the groups of its shards.
    fn core<T: Send + 'static>(
        &self,
        part: Part,
        shared: Shared<T>,
        handler: Box<dyn Handler<T>>,
        precise: Option<Arc<Core<T>>>,
    ) -> Result<(Core<T>, Vec<Home>), BuildError> {
        let Part { numbers, geometry, scale, ref clock, ref watch, .. } = part;
        let Numbers { party, shard: first, .. } = numbers;
        let now = scale.floor(clock.now_ns());
        let mut homes = Vec::new();
        let mut shards = Vec::with_capacity(part.shards);
        let groups = if part.threads.is_some() { part.groups } else { part.shards };
        let call = watch.clone().map(|watch| Arc::new(move || _ = watch.call()) as Arc<Call>);
        for group in 0..groups {
            let range = part.shards * group / groups..part.shards * (group + 1) / groups;
            let bell = self.bell(&part, &shared, group)?;
            let doorbell = Doorbell::for_shards(range.len(), bell).watched_by(call.clone());
            let doorbell = Arc::new(doorbell);
            let its = (first + range.start)..(first + range.end);
            let group = Group::new(doorbell.clone(), range.len(), part.stuck.clone());
            homes.push(Home { group, shards: its });
            shards.extend(range.enumerate().map(|(place, i)| {
                let shard = Shard::new(i as u32, geometry, doorbell.clone(), now, &shared);
                shard.in_place(place)
            }));
        }
        let observation = self.observation_named();
        let observers = (0..shards.len()).map(|i| Observer::new(first + i, &observation)).collect();
        let handler = Owned { party: Party::Engine(party), handler: Some(handler) };
        let core = Core {
            ending: Ending::new(shards.len(), handler),
            shards: shards.into(),
            shared,
            observers,
            clock: clock.clone(),
            start_after_origin_ns: start_after_origin_ns(clock),
            scale,
            routed: AtomicUsize::new(0),
            party,
            precise,
            stuck_after_ns: saturating_ns(self.stuck_after()),
            watch: watch.clone(),
            listener: None,
            #[cfg(feature = "inspect")]
            callers: Default::default(),
            crew: None,
        };
        Ok((core, homes))
    }

    /// Places for the threads of an engine that so many serve, besides that of precise timers.
    fn threads(&self, reapers: usize) -> Threads {
        // One that watches and tells when all spare threads serve.
        let tells = usize::from(self.observation.on_stuck.is_some());
        let most = reapers + usize::from(self.precise.is_some()) + self.spares_used() + tells;
        (0..most).map(|_| OnceLock::new()).collect()
    }

    /// What the crew of an engine keeps to that so many threads serve, besides that of precise
    /// timers.
    fn crew_settings(&self, reapers: usize) -> Settings {
        Settings {
            name: self.thread_name.clone(),
            stack_size: self.stack_size,
            on_start: self.on_thread_start.clone(),
            reapers: reapers + usize::from(self.precise.is_some()),
            cpus: self.pinned.then(Cpus::allowed),
            spins: [self.spin(), self.precise.map_or(Spin::NEVER, Spin::adapting)],
            spares: self.spares_used(),
        }
    }

    /// The core of an engine's precise timers, beside the part that has all others.
    fn precise_core<T: Send + 'static>(
        &self,
        beside: &Part,
        others: &Shared<T>,
        handler: Box<dyn Handler<T>>,
    ) -> Result<(Core<T>, Vec<Home>), BuildError> {
        let number = thread_cache::new_number().ok_or(BuildError::TooManyEngines)?;
        // SAFETY: as for the engine's own core.
        let shared = unsafe { Shared::new(number, 1, None) };
        let shared = shared.with_few(precise::FEW).with_limit_of(others);
        let tick = self.precise_tick();
        let part = Part {
            numbers: Numbers { shard: beside.shards, group: beside.groups, ..beside.numbers },
            shards: 1,
            groups: 1,
            geometry: precise::geometry(),
            scale: Scale::new(tick).ok_or(BuildError::Tick { tick })?,
            clock: beside.clock.without_cycles(),
            threads: beside.threads.clone(),
            listener: beside.listener.clone(),
            watch: beside.watch.clone(),
            stuck: beside.stuck.clone(),
        };
        self.core(part, shared, handler, None)
    }

    fn shard_count(&self) -> Result<usize, BuildError> {
        let per_core = || thread::available_parallelism().map_or(1, usize::from).min(MAX_SHARDS);
        match self.shards.unwrap_or_else(per_core) {
            shards @ 1..=MAX_SHARDS => Ok(shards),
            shards => Err(BuildError::Shards { shards }),
        }
    }

    fn has_threads(&self) -> Result<bool, BuildError> {
        let is_manual = self.clock.as_ref().is_some_and(|clock| clock.as_manual().is_some());
        let default = if is_manual { Driver::Caller } else { Driver::Threads };
        match self.driver.unwrap_or(default) {
            Driver::Threads if is_manual => Err(BuildError::ManualClockWithThreads),
            Driver::Threads if self.hook.is_some() => Err(BuildError::HookWithThreads),
            driver => Ok(driver == Driver::Threads),
        }
    }

    /// The bell of a group of the part's shards.
    fn bell<T>(&self, part: &Part, shared: &Shared<T>, group: usize) -> Result<Bell, BuildError> {
        let answering = |threads| Answering::new(threads, part.numbers.group + group);
        Ok(match (&part.threads, &self.hook) {
            (Some(_), _) if part.clock.counts_suspension() => {
                Bell::Alarm(Alarm::boottime().map_err(BuildError::Alarm)?)
            }
            (Some(threads), _) => match self.alarm(part, shared) {
                Some(alarm) => Bell::Movable(answering(threads), Box::new(alarm)),
                None => Bell::Thread(answering(threads)),
            },
            (None, hook) => {
                let (listener, hook) = (part.listener.clone(), hook.clone());
                let shard = part.numbers.shard + group;
                // The thread that rings has scheduled a timer and must get its handle, so a panic
                // ends here.
                Bell::Hook(Hook::new(move || {
                    contained(|| listener.iter().for_each(|listener| listener.ring(shard)));
                    contained(|| hook.iter().for_each(|hook| hook(shard)));
                }))
            }
        })
    }

    /// An alarm for the leader of a group, unless there are too many of them, or the system has
    /// none. That of precise timers sleeps for short times only.
    fn alarm<T>(&self, part: &Part, shared: &Shared<T>) -> Option<SystemAlarm> {
        let may_take = part.groups <= ALARMS && part.numbers.party == shared.engine;
        let zero = part.clock.monotonic_start().filter(|_| may_take)?;
        SystemAlarm::new(zero, part.scale, self.spin().margin())
    }
}
