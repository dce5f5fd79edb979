//! How an engine is put together.

use std::fmt;
use std::time::Duration;

use crate::reaper::Observation;
use crate::sync::Arc;
use crate::time::{Clock, Geometry, MAX_SHARDS, ManualClock};

/// Sets up an [`Engine`](super::Engine). A clone sets up another with the same settings.
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
    pub(super) thread_name: String,
    pub(super) pinned: bool,
    pub(super) clock: Option<Clock>,
    pub(super) driver: Option<Driver>,
    pub(super) hook: Option<Hook>,
    /// See `observing`. The name is the threads' unless it was set.
    pub(super) observation: Observation,
    pub(super) is_named: bool,
}

type Hook = Arc<dyn Fn(usize) + Send + Sync>;

/// Who runs an engine's turns.
///
/// ```
/// let engine = tickless::Builder::new().driver(tickless::Driver::Caller).shards(1).build()?;
/// assert_eq!(engine.turn(0)?.next, None, "nothing is scheduled, and no thread waits for it");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Driver {
    /// A thread of its own for each shard.
    Threads,
    /// Whoever calls [`Engine::turn`](super::Engine::turn) or
    /// [`Engine::advance`](super::Engine::advance).
    Caller,
}

// === impl Builder ===

impl Builder {
    /// The most shards that an engine may have.
    ///
    /// ```
    /// assert_eq!(tickless::Builder::MAX_SHARDS, 1024);
    /// ```
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
            observation: Observation::of(""),
            is_named: false,
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
    /// Unless `reach` says otherwise, half of them are reached. A bucket is 256 bytes. In each
    /// shard, buckets are made 64 at a time, when a timer first needs one of them: the first of a
    /// million slots takes 16 KiB, and all of a level 256 MiB. A table with 8 bytes for each 64
    /// slots of a level is made at once.
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
    ///
    /// ```
    /// assert!(tickless::Builder::new().shards(2).build().is_ok_and(|it| it.shards() == 2));
    /// ```
    pub fn shards(mut self, shards: usize) -> Builder {
        self.shards = Some(shards);
        self
    }

    /// The most timers that may be pending at a time, over all shards: scheduling is refused
    /// beyond that. Default: no limit, which costs nothing; a limit costs two atomic updates of
    /// a shared counter per timer.
    ///
    /// ```
    /// let engine = tickless::Builder::new().max_pending(1).build()?;
    /// let minute = std::time::Duration::from_secs(60);
    /// assert!(engine.schedule_detached(minute, || println!("due")).is_ok());
    /// assert!(engine.schedule_detached(minute, || println!("one too many")).is_err());
    /// # Ok::<(), tickless::BuildError>(())
    /// ```
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

    /// The clock. Default the system's monotonic one. With one that counts suspended time
    /// ([`Clock::boottime`]), each shard's thread sleeps by that and takes two file descriptors.
    pub fn clock(mut self, clock: Clock) -> Builder {
        self.clock = Some(clock);
        self
    }

    /// A clock that is moved by hand, and no threads: everything happens when the caller says
    /// so. This is how to test code that uses timers.
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
    /// it for sure; one that is due together with an earlier one may not. Before a shard's first
    /// turn nothing calls it: that turn is to come before the first sleep.
    ///
    /// It is also called when a shard has much to tidy up after cancelled timers, and when the
    /// engine stops, so that a caller that sleeps finds out. Where several threads take a shard's
    /// turns it is called, on the thread that has ended a turn, if that turn wants the next one
    /// earlier than the turn before did: the others sleep until what they were told.
    ///
    /// The hook may use the engine in every way, and others too: schedule, cancel and reset, bind
    /// its thread, stop it. For what it schedules on the same shard it is not called again inside
    /// of itself: the caller that it wakes finds that. If the shard had a turn meanwhile, which may
    /// have missed it, the hook is called once more when it has returned.
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
            .field("observation", &self.observation)
            .finish_non_exhaustive()
    }
}
