//! The settings of an engine.

use std::time::Duration;

use crate::memory::SHARE;
use crate::reaper::{Observation, TaskPanic};
use crate::sync::Arc;
use crate::time::{Clock, Geometry, MAX_SHARDS, ManualClock};

/// The defaults of [`Builder::takeover`], [`Builder::spares`] and [`Builder::spin_share`].
pub(super) const TAKEOVER: Duration = Duration::from_millis(5);
const SPARES: usize = 16;
const SPIN_SHARE: f64 = 0.25;

/// Configures and builds an [`Engine`](super::Engine). A clone builds another engine with the same
/// settings.
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
#[derive(Clone)]
#[must_use = "a builder does nothing until it builds"]
pub struct Builder {
    pub(super) tick: Duration,
    pub(super) slots: u32,
    pub(super) reach: Option<u32>,
    pub(super) shards: Option<usize>,
    pub(super) max_pending: Option<u64>,
    pub(super) exact_below: u64,
    pub(super) thread_name: String,
    pub(super) stack_size: Option<usize>,
    pub(super) on_thread_start: Option<Arc<dyn Fn() + Send + Sync>>,
    pub(super) pinned: bool,
    /// The least and the greatest number of threads that serve the shards.
    pub(super) reapers: Option<(usize, usize)>,
    pub(super) clock: Option<Clock>,
    pub(super) driver: Option<Driver>,
    /// What a task of a runtime waits for, for one engine.
    #[cfg(feature = "tokio")]
    pub(super) timer: Option<Arc<dyn crate::doorbell::Rung>>,
    /// The runtime of that task.
    #[cfg(feature = "tokio")]
    pub(super) runtime: Option<tokio::runtime::Id>,
    pub(super) hook: Option<Hook>,
    #[cfg(feature = "test-util")]
    pub(super) on_timer: Option<OnTimer>,
    /// `None`: as [`precise`](Builder::precise) has it.
    pub(super) spin_before: Option<Duration>,
    pub(super) spin_share: f64,
    pub(super) takeover: Option<Duration>,
    pub(super) spares: usize,
    pub(super) share: usize,
    /// Without a name, the engine is named as its threads are.
    name: Option<Arc<str>>,
    pub(super) observation: Observation,
}

type Hook = Arc<dyn Fn(usize) + Send + Sync>;

/// What is called when a timer was scheduled or moved: see [`Builder::on_timer`].
#[cfg(feature = "test-util")]
pub(super) type OnTimer = Arc<dyn Fn() + Send + Sync>;

/// Who runs an engine's turns.
///
/// ```
/// let engine = tickless::Builder::new().driver(tickless::Driver::Caller).shards(1).build()?;
/// assert_eq!(engine.turn(0)?.next, None, "nothing is scheduled, and no thread waits for it");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Driver {
    /// Threads of the engine's own.
    Threads,
    /// The caller, through [`Engine::turn`](super::Engine::turn),
    /// [`Engine::advance`](super::Engine::advance) or, in an asynchronous runtime,
    /// [`Engine::drive`](super::Engine::drive).
    Caller,
}

// === impl Builder ===

impl Builder {
    /// The maximum number of shards of an engine.
    pub const MAX_SHARDS: usize = MAX_SHARDS;

    /// Creates a builder with the default settings: ticks of 1 ms, 64 slots per level with a reach
    /// of 32, one shard per core, one thread that serves them and more when there is more to do,
    /// no limit on pending timers, and the system's
    /// monotonic clock.
    pub fn new() -> Builder {
        Builder {
            tick: Duration::from_millis(1),
            slots: Geometry::DEFAULT_SLOTS,
            reach: None,
            shards: None,
            max_pending: None,
            exact_below: 64,
            thread_name: "tickless".to_owned(),
            stack_size: None,
            on_thread_start: None,
            pinned: false,
            reapers: None,
            clock: None,
            driver: None,
            #[cfg(feature = "tokio")]
            timer: None,
            #[cfg(feature = "tokio")]
            runtime: None,
            hook: None,
            #[cfg(feature = "test-util")]
            on_timer: None,
            spin_before: Some(Duration::ZERO),
            spin_share: SPIN_SHARE,
            takeover: Some(TAKEOVER),
            spares: SPARES,
            share: SHARE,
            name: None,
            observation: Observation::of(""),
        }
    }

    /// Sets the tick: timers that are due within one tick fire together. Default: 1 ms; from 1 ns
    /// to 584 years.
    ///
    /// A shorter tick fires timers closer to their deadlines and wakes up more often while timers
    /// fire. It costs nothing while none fire. Deadlines reach 2^54 ticks after the clock was made:
    /// 570 years at 1 us, 208 days at 1 ns. A timer with a later deadline never fires: with ticks
    /// of 1 ns, no timer that is scheduled after 208 days does.
    pub fn tick(mut self, tick: Duration) -> Builder {
        self.tick = tick;
        self
    }

    /// Sets the number of slots: the buckets per level of the wheel. Default: 64; from 2 to
    /// 1,048,576. With a power of two, timers are filed with shifts and masks instead of divisions.
    ///
    /// Unless it is set, the [`reach`](Builder::reach) is half of this. A bucket takes 256 bytes.
    /// Each shard allocates buckets in groups of 64, when a timer first needs one of the group:
    /// with a million slots, the first group takes 16 KiB and a whole level 256 MiB. Each level
    /// also has a table of 8 bytes per group, which is allocated with its first group.
    pub fn slots(mut self, slots: u32) -> Builder {
        self.slots = slots;
        self
    }

    /// Sets the reach: how many buckets ahead a timer may be filed. A timer that is due later is
    /// filed a level up, where buckets are `reach` times as wide. Default: half the slots; from 2
    /// to `slots`.
    ///
    /// A larger reach cascades less but, with many cancelled timers, wakes up more. If `reach` is
    /// below `slots`, the rounds of the ring collide only where a reaper is late, or where few
    /// timers are [filed exactly](Builder::exact_below).
    pub fn reach(mut self, reach: u32) -> Builder {
        self.reach = Some(reach);
        self
    }

    /// Sets the number of shards: wheels that work independently. Default: one per core; from 1 to
    /// 1024. Each thread schedules on one of them, and [`reapers`](Builder::reapers) says how many
    /// threads serve them.
    pub fn shards(mut self, shards: usize) -> Builder {
        self.shards = Some(shards);
        self
    }

    /// Sets below how many pending timers, approximately and over all shards, a timer is filed for
    /// its own deadline alone. Default: 64; 0: never. Timers further away than three levels reach
    /// (33 s with the default settings) pass the levels above those first, and a timer is filed
    /// among others where another far one has its bucket.
    ///
    /// Such a timer wakes a reaper once, when it is due. Among many, it shares a bucket with others
    /// that are due at about the same time: they pass the levels of the wheel together, and few
    /// wake-ups serve them all. A timer that is reset wakes the reaper at the deadline for which it
    /// was filed, so an engine that keeps a few dozen heartbeats and nothing else wakes up less
    /// with a lower limit.
    pub fn exact_below(mut self, timers: u64) -> Builder {
        self.exact_below = timers;
        self
    }

    /// Sets the clock. Default: the system's monotonic clock. With a clock that counts suspended
    /// time ([`Clock::boottime`]), the reapers sleep by that clock, which takes three file
    /// descriptors for each [group](Builder::reapers).
    pub fn clock(mut self, clock: Clock) -> Builder {
        self.clock = Some(clock);
        self
    }

    /// Sets a clock that is moved by hand. The engine then has no threads: time passes and timers
    /// fire only when the caller says so. Use this to test code that uses timers.
    ///
    /// ```
    /// let engine = tickless::Builder::new().manual_clock(&tickless::ManualClock::new()).build()?;
    /// let hour = std::time::Duration::from_secs(3600);
    /// engine.schedule_detached(hour, || println!("an hour later"))?;
    /// assert_eq!(engine.advance(hour)?, 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn manual_clock(self, clock: &ManualClock) -> Builder {
        self.clock(Clock::manual(clock))
    }

    /// Sets who runs the turns. Default: threads of the engine's own, or the caller if the clock is
    /// moved by hand.
    pub fn driver(mut self, driver: Driver) -> Builder {
        self.driver = Some(driver);
        self
    }

    /// Calls `hook` with a shard's number when a timer was scheduled or moved there for which the
    /// shard needs a turn before the time that its last turn returned. (That may be earlier than
    /// the timer is due.) This is for callers that sleep until then and can be woken, for example
    /// through an eventfd: an engine with threads of its own is not built with a hook. The hook
    /// runs on the scheduling thread, and a panic in it is ignored.
    ///
    /// Until the shard's next turn, the first of several such timers always calls the hook; a timer
    /// that is due together with an earlier one may not. Before a shard's first turn no timer calls
    /// the hook, so run a turn before the first sleep.
    ///
    /// The hook is also called when a shard has many cancelled timers to clean up, and when the
    /// engine stops, so that a sleeping caller finds out. One loop runs the turns of a shard. If
    /// another thread runs one as well, it alone is told when the next one is needed, and has to
    /// see to it.
    ///
    /// A loop that asks for its next turn ([`look_ahead`](crate::Engine::look_ahead)) before it
    /// sleeps is not called back for what its own thread schedules.
    ///
    /// The hook may use this engine and others in every way: schedule, cancel and reset, bind its
    /// thread, stop the engine. (If a task of the engine has scheduled the timer, the hook runs in
    /// that task, which can neither stop the engine nor run its turns.) It is not called again
    /// inside itself for timers that it schedules on the same shard: the caller that it wakes finds
    /// them. If the shard had a turn in the meantime, which may have missed them, the hook is
    /// called once more after it has returned.
    ///
    /// ```
    /// # use {std::sync::mpsc, std::time::Duration, tickless::{Builder, ManualClock}};
    /// let (waker, wake_ups) = mpsc::channel();
    /// let builder = Builder::new().manual_clock(&ManualClock::new()).shards(1);
    /// let engine = builder.on_earlier(move |shard| drop(waker.send(shard))).build()?;
    /// assert_eq!(engine.turn(0)?.next, None, "so the caller goes to sleep");
    /// engine.schedule_detached(Duration::from_millis(5), || println!("due"))?;
    /// assert_eq!(wake_ups.try_recv(), Ok(0), "and is woken to have another look");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn on_earlier(mut self, hook: impl Fn(usize) + Send + Sync + 'static) -> Builder {
        self.hook = Some(Arc::new(hook));
        self
    }

    /// Calls `f` after each timer that was scheduled or moved, on the thread that did so. Unlike
    /// [`on_earlier`](Builder::on_earlier), this is for callers whose time stands still while they
    /// sleep: no bucket opens then, so each timer matters, also one in a bucket that is armed. `f`
    /// does not use the engine, and does not panic.
    #[cfg(feature = "test-util")]
    pub(crate) fn on_timer(mut self, f: impl Fn() + Send + Sync + 'static) -> Builder {
        self.on_timer = Some(Arc::new(f));
        self
    }
}

// === impl Builder: observability ===

impl Builder {
    /// Sets the engine's name in events and metrics. Default: the name of its
    /// [threads](Builder::thread_name).
    ///
    /// Any text will do. Metrics of engines with the same name become one, so give each engine its
    /// own.
    pub fn name(mut self, name: impl Into<String>) -> Builder {
        self.name = Some(name.into().into());
        self
    }

    /// Calls `callback` for each payload that panics on the thread that runs the shard's turns,
    /// with the value that it panicked with. Default: no callback. In any case such a panic is
    /// counted in [`Stats::panicked`](crate::Stats::panicked), the process's panic hook has
    /// reported it, and with the feature `tracing` it is an event. Panics of tasks that a handler
    /// runs, on a pool for example, are counted by that handler: see its statistics.
    ///
    /// A second panic while the first one unwinds, from the destructor of a value that the payload
    /// owned, is not reported: Rust then aborts the process, as it does everywhere.
    ///
    /// The callback runs where the panic was caught, on the reaper's thread, and must not own a
    /// clone of the engine. A panic in the callback is ignored. Payloads that panic when they are
    /// *dropped* after being handed over are reported as well.
    ///
    /// ```
    /// use std::sync::mpsc;
    /// use std::time::Duration;
    /// use tickless::{Engine, ManualClock};
    ///
    /// let (sender, receiver) = mpsc::channel();
    /// let engine = Engine::builder()
    ///     .manual_clock(&ManualClock::new())
    ///     .on_panic(move |panic| sender.send(panic.shard).unwrap())
    ///     .build()?;
    /// engine.schedule_detached(Duration::ZERO, || panic!("out of tea"))?;
    /// engine.advance(Duration::ZERO)?;
    /// assert!(receiver.try_recv().is_ok());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn on_panic(
        mut self,
        callback: impl Fn(&TaskPanic<'_>) + Send + Sync + 'static,
    ) -> Builder {
        self.observation.on_panic = Some(Arc::new(callback));
        self
    }

    /// The settings for the shards' observers, with the engine's name.
    pub(super) fn observation_named(&self) -> Observation {
        let name = self.name.clone().unwrap_or_else(|| self.thread_name.as_str().into());
        Observation { name, ..self.observation.clone() }
    }
}

impl Default for Builder {
    fn default() -> Builder {
        Builder::new()
    }
}

debug! { impl[] Builder[] {
    tick, slots, reach, shards, max_pending, exact_below, thread_name, stack_size, pinned,
    reapers, clock, driver, spin_before, spin_share, takeover, spares, name, observation,
} }
