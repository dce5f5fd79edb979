//! Builds an engine from a builder's settings: checks them, makes the parts, starts the threads.

use crate::dispatch::{Batch, Handler, Inline, Party, contained};
use crate::doorbell::{Alarm, Answering, Bell, Doorbell, Hook, Listener, SystemAlarm, Threads};
use crate::error::BuildError;
use crate::memory::Shared;
use crate::os::Cpus;
use crate::protocol::asymmetric;
use crate::reaper::{Ending, Group, Observer, StuckThreads, Watch};
use crate::shard::Shard;
use crate::sync::{Arc, AtomicUsize, OnceLock, thread};
use crate::time::{Clock, Geometry, MAX_SHARDS, Scale, saturating_ns};

use super::core::{Core, Owned};
use super::crew::{Crew, Home, Settings};
use super::deadline::start_after_origin_ns;
use super::limits::is_exempt;
use super::stopping::Inner;
use super::thread_cache::{self, ENGINES};
use super::{Builder, Driver, Engine};

/// What a core is made of.
struct Parts {
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
        self.check_share()?;
        let (groups, reapers) = self.reapers_for(shards)?;
        let number = thread_cache::new_number().ok_or(BuildError::TooManyEngines)?;
        let clock = self.clock.clone().unwrap_or_else(Clock::system);
        let clock = if self.spin_before.is_some() { clock } else { clock.without_cycles() };
        // SAFETY: only the core that gets this `Shared` uses it, and closes its shards before it is
        // dropped.
        let shared = unsafe { Shared::new(number, shards, self.max_pending) };
        let shared =
            shared.with_few(self.exact_below).with_share(self.share).with_exempt(is_exempt);
        asymmetric::prepare();
        let threads = has_threads.then(|| self.threads(reapers));
        let watch = threads.clone().filter(|_| self.has_watcher()).map(|threads| {
            // The leaders of several groups would have to agree on the alarm.
            let alarm = if groups == 1 { SystemAlarm::new(&clock).ok() } else { None };
            let alarm = alarm.map(|alarm| Box::new(alarm) as Box<dyn Alarm>);
            Arc::new(Watch::new(self.stuck_after(), threads).with_alarm(alarm))
        });
        let stuck = Arc::new(StuckThreads::of(threads.as_ref().map_or(0, |threads| threads.len())));
        let listener = (!has_threads).then(|| Arc::new(Listener::new(shards)));
        let parts = Parts {
            shards,
            groups,
            geometry,
            scale,
            clock,
            threads: threads.clone(),
            listener,
            watch,
            stuck: stuck.clone(),
        };
        let (mut core, groups) = self.core(parts, shared, handler)?;
        core.crew = threads
            .map(|threads| Crew::new(self.crew_settings(reapers), threads, groups.into(), stuck));
        let core = Arc::new(core);
        ENGINES.enter(number, &core);
        let engine = Engine { inner: Arc::new(Inner::new(core)) };
        if let Some(crew) = &engine.core().crew {
            for group in 0..crew.groups.len() {
                engine.core().start_leader(crew, group).map_err(BuildError::Thread)?;
            }
            if engine.core().watch.is_some() {
                engine.core().start_watcher(crew).map_err(BuildError::Thread)?;
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

    /// The core of an engine, and the groups of its shards.
    fn core<T: Send + 'static>(
        &self,
        parts: Parts,
        shared: Shared<T>,
        handler: Box<dyn Handler<T>>,
    ) -> Result<(Core<T>, Vec<Home>), BuildError> {
        let Parts { geometry, scale, ref clock, ref watch, .. } = parts;
        let now = scale.floor(clock.now_ns());
        let mut homes = Vec::new();
        let mut shards = Vec::with_capacity(parts.shards);
        let groups = if parts.threads.is_some() { parts.groups } else { parts.shards };
        for group in 0..groups {
            let range = parts.shards * group / groups..parts.shards * (group + 1) / groups;
            let bell = self.bell(&parts, group)?;
            let doorbell = Arc::new(Doorbell::for_shards(range.len(), bell));
            let group = Group::new(doorbell.clone(), range.len(), parts.stuck.clone());
            homes.push(Home { group, shards: range.clone() });
            shards.extend(range.enumerate().map(|(index, i)| {
                let shard = Shard::new(i as u32, geometry, doorbell.clone(), now, &shared);
                shard.with_group_index(index)
            }));
        }
        let observation = self.observation_named();
        let observers = (0..shards.len()).map(|i| Observer::new(i, &observation)).collect();
        let handler = Owned { party: Party::Engine(shared.engine), handler: Some(handler) };
        let core = Core {
            ending: Ending::new(shards.len(), handler),
            shards: shards.into(),
            shared,
            observers,
            clock: clock.clone(),
            start_after_origin_ns: start_after_origin_ns(clock),
            scale,
            routed: AtomicUsize::new(0),
            stuck_after_ns: saturating_ns(self.stuck_after()),
            watch: watch.clone(),
            listener: parts.listener,
            #[cfg(feature = "inspect")]
            callers: Default::default(),
            crew: None,
        };
        Ok((core, homes))
    }

    /// Places for the threads of an engine that so many serve.
    fn threads(&self, reapers: usize) -> Threads {
        // One watches while all spare threads serve.
        let watchers = usize::from(self.has_watcher());
        let most = reapers + self.spares_used() + watchers;
        (0..most).map(|_| OnceLock::new()).collect()
    }

    /// What the crew of an engine keeps to that so many threads serve.
    fn crew_settings(&self, reapers: usize) -> Settings {
        Settings {
            name: self.thread_name.clone(),
            stack_size: self.stack_size,
            on_start: self.on_thread_start.clone(),
            reapers,
            cpus: self.pinned.then(Cpus::allowed),
            spin: self.spin(),
            spares: self.spares_used(),
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

    /// The bell of a group of shards.
    fn bell(&self, parts: &Parts, group: usize) -> Result<Bell, BuildError> {
        Ok(match (&parts.threads, &self.hook) {
            (Some(_), _) if parts.clock.counts_suspension() => {
                let alarm = SystemAlarm::new(&parts.clock).map_err(BuildError::Alarm)?;
                Bell::Alarm(Box::new(alarm))
            }
            (Some(threads), _) => Bell::Thread(Answering::new(threads, group)),
            (None, hook) => {
                let (listener, hook) = (parts.listener.clone(), hook.clone());
                // The thread that rings has scheduled a timer and must get its handle, so a panic
                // ends here.
                Bell::Hook(Hook::new(move || {
                    contained(|| listener.iter().for_each(|listener| listener.ring(group)));
                    contained(|| hook.iter().for_each(|hook| hook(group)));
                }))
            }
        })
    }
}
