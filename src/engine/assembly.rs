//! Builds an engine from a builder's settings: checks them, makes the parts, starts the threads.

use crate::dispatch::{Batch, Handler, Inline, Party, contained};
use crate::doorbell::{Answering, Bell, Call, Doorbell, Hook, SystemAlarm, Threads};
use crate::error::BuildError;
use crate::memory::Shared;
use crate::os::{Alarm, Cpus};
use crate::protocol::asymmetric;
use crate::reaper::{Ending, Observer, Spin, Watch};
use crate::shard::Shard;
use crate::sync::{Arc, AtomicUsize, OnceLock, Weak, thread};
use crate::time::{Clock, Geometry, MAX_SHARDS, Scale};

use super::core::{Core, Owned};
use super::crew::Crew;
use super::precise::{self, Both};
use super::stopping::Inner;
use super::thread_cache::{self, ENGINES};
use super::{Builder, Driver, Engine};

/// An engine of more shards than this takes no file descriptors for its reapers' sleeps: programs
/// may have few.
const ALARMS: usize = 64;

/// What a core is made of: that of an engine, or that of its precise timers.
struct Part {
    /// The engine's number.
    party: u32,
    /// The number of its first shard.
    first: usize,
    shards: usize,
    geometry: Geometry,
    scale: Scale,
    clock: Clock,
    /// Whom the doorbells wake, unless the caller drives the engine.
    threads: Option<Threads>,
    watch: Option<Arc<Watch>>,
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
        let number = thread_cache::new_number().ok_or(BuildError::TooManyEngines)?;
        let clock = self.clock.clone().unwrap_or_else(Clock::system);
        // SAFETY: only the core that gets this `Shared` uses it, and closes its shards before it is
        // dropped.
        let shared = unsafe { Shared::new(number, shards, self.max_pending) };
        let shared = shared.with_few(self.exact_below).with_share(self.share);
        asymmetric::prepare();
        let crew = has_threads.then(|| self.crew(shards));
        let threads = crew.as_ref().map(|crew| crew.threads().clone());
        // The watch is part of the core, and reaches it when it needs a thread.
        let home = Arc::new(OnceLock::<Weak<Core<T>>>::new());
        let watch = threads.clone().zip(self.takeover).map(|(threads, after)| {
            let home = home.clone();
            let make =
                move || home.get().and_then(Weak::upgrade).iter().for_each(Core::make_watcher);
            Arc::new(Watch::new(after, threads, make))
        });
        let part = Part { party: number, first: 0, shards, geometry, scale, clock, threads, watch };
        let core = match self.precise {
            None => self.core(part, shared, handler, None, crew)?,
            Some(_) => {
                let [handler, other] = Both::share(handler);
                let precise = self.precise_core(&part, &shared, other)?;
                self.core(part, shared, handler, Some(Arc::new(precise)), crew)?
            }
        };
        let core = Arc::new(core);
        home.get_or_init(|| Arc::downgrade(&core));
        ENGINES.enter(number, &core);
        core.precise.iter().for_each(|precise| ENGINES.enter(precise.id(), precise));
        let engine = Engine { inner: Arc::new(Inner::new(core)) };
        if let Some(crew) = &engine.core().crew {
            for shard in 0..engine.shards() {
                engine.core().start_reaper(crew, shard).map_err(BuildError::Thread)?;
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

    /// The core of an engine, or that of its precise timers.
    fn core<T: Send + 'static>(
        &self,
        part: Part,
        shared: Shared<T>,
        handler: impl Handler<T> + 'static,
        precise: Option<Arc<Core<T>>>,
        crew: Option<Crew>,
    ) -> Result<Core<T>, BuildError> {
        let Part { party, first, shards, geometry, scale, clock, threads, watch } = part;
        let now = scale.floor(clock.now_ns());
        let takes_files = threads.is_some() && shards <= ALARMS && party == shared.engine;
        let zero = if takes_files { clock.monotonic_start() } else { None };
        let call = watch.clone().map(|watch| Arc::new(move || _ = watch.call()) as Arc<Call>);
        let alarm = || SystemAlarm::new(zero?, scale, self.spin().margin());
        let shards = (0..shards)
            .map(|i| {
                let answering = threads.as_ref().map(|threads| Answering::new(threads, first + i));
                let doorbell = self.doorbell(first + i, answering, alarm)?;
                let doorbell = doorbell.watched_by(call.clone());
                Ok(Shard::new(i as u32, geometry, doorbell, now, &shared))
            })
            .collect::<Result<Box<[_]>, BuildError>>()?;
        let observation = self.observation_named();
        let observers = (0..shards.len()).map(|i| Observer::new(first + i, &observation)).collect();
        let handler: Option<Box<dyn Handler<T>>> = Some(Box::new(handler));
        let handler = Owned { party: Party::Engine(party), handler };
        let ending = Ending::new(shards.len(), handler);
        let routed = AtomicUsize::new(0);
        Ok(Core {
            shards,
            shared,
            observers,
            clock,
            scale,
            ending,
            routed,
            party,
            precise,
            watch,
            crew,
        })
    }

    /// The threads of an engine with so many shards, besides that of precise timers. None is
    /// started.
    fn crew(&self, shards: usize) -> Crew {
        let shards = shards + usize::from(self.precise.is_some());
        let spares = self.takeover.map_or(0, |_| self.spares);
        let cpus = self.pinned.then(Cpus::allowed);
        let spins = [self.spin(), self.precise.map_or(Spin::NEVER, Spin::adapting)];
        Crew::new(self.thread_name.clone(), shards, spares, cpus, spins)
    }

    /// The core of an engine's precise timers, beside the part that has all others.
    fn precise_core<T: Send + 'static>(
        &self,
        beside: &Part,
        others: &Shared<T>,
        handler: impl Handler<T> + 'static,
    ) -> Result<Core<T>, BuildError> {
        let number = thread_cache::new_number().ok_or(BuildError::TooManyEngines)?;
        // SAFETY: as for the engine's own core.
        let shared = unsafe { Shared::new(number, 1, None) };
        let shared = shared.with_few(precise::FEW).with_limit_of(others);
        let tick = self.precise_tick();
        let part = Part {
            first: beside.shards,
            shards: 1,
            geometry: precise::geometry(),
            scale: Scale::new(tick).ok_or(BuildError::Tick { tick })?,
            clock: beside.clock.without_cycles(),
            threads: beside.threads.clone(),
            watch: beside.watch.clone(),
            ..*beside
        };
        self.core(part, shared, handler, None, None)
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

    fn doorbell(
        &self,
        shard: usize,
        answering: Option<Answering>,
        alarm: impl Fn() -> Option<SystemAlarm>,
    ) -> Result<Doorbell, BuildError> {
        let counts_suspension = self.clock.as_ref().is_some_and(Clock::counts_suspension);
        Ok(Doorbell::new(match (answering, &self.hook) {
            (Some(_), _) if counts_suspension => {
                Bell::Alarm(Alarm::boottime().map_err(BuildError::Alarm)?)
            }
            (Some(answering), _) => match alarm() {
                Some(alarm) => Bell::Movable(answering, Box::new(alarm)),
                None => Bell::Thread(answering),
            },
            (None, Some(hook)) => {
                let hook = hook.clone();
                // The thread that rings has scheduled a timer and must get its handle, so a panic
                // ends here.
                Bell::Hook(Hook::new(move || _ = contained(|| hook(shard))))
            }
            (None, None) => Bell::None,
        }))
    }
}
