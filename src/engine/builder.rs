//! How an engine is put together.

use std::fmt;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use crate::dispatch::{Handler, Inline, Task};
use crate::doorbell::{Bell, Doorbell};
use crate::error::BuildError;
use crate::reaper;
use crate::shard::{Pool, Shard};
use crate::sync::{Arc, JoinHandle, OnceLock, mpsc, thread};
use crate::time::{Clock, Geometry, MAX_SHARDS, ManualClock, Scale};

use super::core::Core;
use super::driving::inside;
use super::leftover::Leftover;
use super::{Engine, TypedEngine, local, registry};

/// Sets up an [`Engine`] or a [`TypedEngine`].
///
/// ```
/// use std::time::Duration;
/// use tickless::Engine;
///
/// let engine = Engine::builder()
///     .tick(Duration::from_micros(100))
///     .shards(2)
///     .max_pending(1_000_000)
///     .thread_name("timers")
///     .build()?;
/// # drop(engine);
/// # Ok::<(), tickless::BuildError>(())
/// ```
#[must_use = "a builder does nothing until it builds"]
pub struct Builder {
    tick: Duration,
    slots: u32,
    reach: Option<u32>,
    shards: Option<usize>,
    max_pending: Option<u64>,
    thread_name: String,
    pinned: bool,
    clock: Option<Clock>,
    driver: Option<Driver>,
    hook: Option<Hook>,
}

type Hook = Arc<dyn Fn(usize) + Send + Sync>;

/// Who runs an engine's turns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Driver {
    /// A thread of its own for each shard.
    Threads,
    /// Whoever calls [`TypedEngine::turn`] or [`TypedEngine::advance`].
    Caller,
}

// === impl Builder ===

impl Builder {
    /// The most shards that an engine may have.
    pub const MAX_SHARDS: usize = MAX_SHARDS;

    /// Defaults: 1 ms ticks, 64 slots of which 32 are reached, a shard per core with a thread
    /// each, no limit, the system's clock.
    pub fn new() -> Builder {
        Builder {
            tick: Duration::from_millis(1),
            slots: Geometry::DEFAULT_SLOTS,
            reach: None,
            shards: None,
            max_pending: None,
            thread_name: "tickless".to_owned(),
            pinned: false,
            clock: None,
            driver: None,
            hook: None,
        }
    }

    /// The tick: timers that are due within one are fired together. Default 1 ms; anything from
    /// 1 ns to 584 years.
    ///
    /// A shorter tick fires closer to the deadline and wakes up more often while timers fire; it
    /// costs nothing while none do. Deadlines reach 2^54 ticks: 570 years at 1 us, 208 days at
    /// 1 ns; what lies beyond never fires.
    pub fn tick(mut self, tick: Duration) -> Builder {
        self.tick = tick;
        self
    }

    /// Buckets per level of the wheel. Default 64; from 2 to 1,048,576. Powers of two are filed
    /// with shifts and masks instead of divisions.
    ///
    /// Unless `reach` says otherwise, half of them are reached. A bucket is 256 bytes, and a level
    /// is made, in each shard, when a timer first needs it: with a million slots, 256 MiB at once.
    pub fn slots(mut self, slots: u32) -> Builder {
        self.slots = slots;
        self
    }

    /// How many buckets ahead a timer may be filed; what is due later goes a level up, to buckets
    /// `reach` times as wide. Default half the slots; from 2 to `slots`.
    ///
    /// A larger reach cascades less and, under many cancelled timers, wakes up more. With
    /// `reach` below `slots` the rounds of the ring do not collide.
    pub fn reach(mut self, reach: u32) -> Builder {
        self.reach = Some(reach);
        self
    }

    /// How many shards: wheels that work independently, each with a reaper. Default one per
    /// core; from 1 to 1024. Each thread schedules on one of them.
    pub fn shards(mut self, shards: usize) -> Builder {
        self.shards = Some(shards);
        self
    }

    /// The most timers that may be pending at a time, over all shards: scheduling is refused
    /// beyond that. Default: no limit, which costs nothing; a limit costs two atomic updates of
    /// a shared counter per timer.
    pub fn max_pending(mut self, max_pending: u64) -> Builder {
        self.max_pending = Some(max_pending);
        self
    }

    /// The name of the reapers' threads; a dash and the shard's number are added. Default
    /// `tickless`. Anything without a NUL; systems may show its beginning only (Linux: 15 bytes).
    pub fn thread_name(mut self, name: impl Into<String>) -> Builder {
        self.thread_name = name.into();
        self
    }

    /// Whether the thread of the *n*th shard keeps to the *n*th CPU that the process may use.
    /// Default no. Linux only: elsewhere the build fails.
    pub fn pinned(mut self, pinned: bool) -> Builder {
        self.pinned = pinned;
        self
    }

    /// The clock. Default the system's monotonic one.
    pub fn clock(mut self, clock: Clock) -> Builder {
        self.clock = Some(clock);
        self
    }

    /// A clock that is moved by hand, and no threads: everything happens when the caller says
    /// so. This is how to test code that uses timers.
    pub fn manual_clock(self, clock: &ManualClock) -> Builder {
        self.clock(Clock::manual(clock))
    }

    /// Who runs the turns. Default threads of the engine's own, or the caller if the clock is
    /// moved by hand.
    pub fn driver(mut self, driver: Driver) -> Builder {
        self.driver = Some(driver);
        self
    }

    /// Calls `hook` with a shard's number when a timer was scheduled there that is due before
    /// the time that the shard's last turn gave: for callers that sleep until then (and can be
    /// woken, through an eventfd for example). It runs on the scheduling thread, and what it
    /// panics with is ignored. Until the shard's next turn, the first of several such timers calls
    /// it for sure; one that is due together with an earlier one may not.
    ///
    /// It is also called when a shard has much to tidy up after cancelled timers, and when the
    /// engine stops, so that a caller that sleeps finds out. It may use the engine.
    pub fn on_earlier(mut self, hook: impl Fn(usize) + Send + Sync + 'static) -> Builder {
        self.hook = Some(Arc::new(hook));
        self
    }

    /// Builds an engine for closures, which run where the reaper is.
    ///
    /// # Errors
    /// A setting is out of bounds, or a thread could not be started.
    pub fn build(self) -> Result<Engine, BuildError> {
        self.build_with(Inline)
    }

    /// Builds an engine for closures, which `handler` runs, or has run elsewhere: a
    /// [`Pool`](crate::dispatch::Pool), say. See [`dispatch`](crate::dispatch) for what there is.
    ///
    /// The engine drops the handler when it has stopped.
    ///
    /// # Errors
    /// A setting is out of bounds, or a thread could not be started.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tickless::dispatch::{Full, Pool};
    /// use tickless::{Batch, Engine, Task};
    ///
    /// let pool = Pool::builder(Full::RunInline).threads(2).build()?;
    /// let engine = Engine::builder().build_with(pool)?;
    /// engine.schedule_detached(Duration::from_secs(1), || println!("on the pool"))?;
    ///
    /// // Any closure that takes batches does as well.
    /// let logging = |batch: Batch<'_, Task>| {
    ///     println!("{} tasks are due", batch.len());
    ///     batch.for_each(Task::run);
    /// };
    /// let engine = Engine::builder().build_with(logging)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn build_with(self, handler: impl Handler<Task> + 'static) -> Result<Engine, BuildError> {
        self.build_typed(handler).map(Engine::from_typed)
    }

    /// Builds an engine for payloads of type `T`, which `handler` takes in batches. The engine
    /// drops the handler when it has stopped.
    ///
    /// # Errors
    /// A setting is out of bounds, or a thread could not be started.
    pub fn build_typed<T, H>(self, handler: H) -> Result<TypedEngine<T>, BuildError>
    where
        T: Send + 'static,
        H: Handler<T> + 'static,
    {
        let scale = Scale::new(self.tick).ok_or(BuildError::Tick { tick: self.tick })?;
        let reach = self.reach.unwrap_or_else(|| (self.slots / 2).max(2));
        let geometry = Geometry::new(self.slots, reach)?;
        let shards = self.shard_count()?;
        let has_threads = self.has_threads()?;
        if self.max_pending == Some(0) {
            return Err(BuildError::MaxPending);
        }
        if self.thread_name.contains('\0') {
            return Err(BuildError::ThreadName { name: self.thread_name });
        }
        let number = registry::new_number().ok_or(BuildError::TooManyEngines)?;
        let clock = self.clock.clone().unwrap_or_else(Clock::system);
        let now = scale.floor(clock.now_ns());
        let pool = Pool::new(number, shards, self.max_pending);
        let shards = (0..shards)
            .map(|i| Shard::new(i as u32, geometry, self.doorbell(i, has_threads), now, &pool))
            .collect();
        let core = Core::new(shards, pool, clock, scale, Box::new(handler));
        if !has_threads {
            return Ok(TypedEngine::from_parts(core, false, Vec::new()));
        }
        self.start(core)
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

    fn doorbell(&self, shard: usize, has_threads: bool) -> Doorbell {
        Doorbell::new(match &self.hook {
            _ if has_threads => Bell::Thread(OnceLock::new()),
            Some(hook) => {
                let hook = hook.clone();
                let call = move || local::set_aside(|| hook(shard));
                // A hook that panics must not leave a half-scheduled timer behind.
                Bell::Hook(Box::new(move || drop(catch_unwind(AssertUnwindSafe(&call)))))
            }
            None => Bell::None,
        })
    }

    /// Starts a reaper for each shard. If one fails, those that started are stopped.
    fn start<T: Send + 'static>(&self, core: Arc<Core<T>>) -> Result<TypedEngine<T>, BuildError> {
        let mut threads = Vec::with_capacity(core.shards.len());
        let mut failure = None;
        for index in 0..core.shards.len() {
            match self.start_one(&core, index) {
                Ok(thread) => threads.push(thread),
                Err(error) => {
                    failure = Some(error);
                    break;
                }
            }
        }
        // From here on, dropping the engine stops what was started.
        let engine = TypedEngine::from_parts(core, true, threads);
        match failure {
            None => Ok(engine),
            Some(error) => Err(BuildError::Thread(error)),
        }
    }

    fn start_one<T: Send + 'static>(
        &self,
        core: &Arc<Core<T>>,
        index: usize,
    ) -> io::Result<JoinHandle<Leftover<T>>> {
        let name = format!("{}-{index}", self.thread_name);
        let (pinned, core_of_thread) = (self.pinned, core.clone());
        let (report, pinning) = mpsc::sync_channel(1);
        core.reaper_begins();
        let thread = thread::Builder::new().name(name).spawn(move || {
            let core = core_of_thread;
            let outcome = if pinned { reaper::pin_to(index) } else { Ok(()) };
            let may_run = outcome.is_ok();
            // The builder waits for the answer, so somebody receives it.
            let _ = report.send(outcome);
            let leftover = inside(core.id(), || {
                if may_run {
                    // SAFETY: this thread closes the shard, later, or whoever has joined it.
                    reaper::run(&unsafe { core.reaper(index) }, &core.stopping);
                }
                Leftover::new(core.close(&core.shards[index]))
            });
            core.reaper_ends();
            leftover
        })?;
        core.shards[index].doorbell().answered_by(thread.thread().clone());
        pinning.recv().unwrap_or_else(|_| Err(io::Error::other("the thread ended early")))?;
        Ok(thread)
    }
}

impl Default for Builder {
    fn default() -> Builder {
        Builder::new()
    }
}

impl fmt::Debug for Builder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Builder")
            .field("tick", &self.tick)
            .field("slots", &self.slots)
            .field("reach", &self.reach)
            .field("shards", &self.shards)
            .field("max_pending", &self.max_pending)
            .field("thread_name", &self.thread_name)
            .field("pinned", &self.pinned)
            .field("clock", &self.clock)
            .field("driver", &self.driver)
            .finish_non_exhaustive()
    }
}
