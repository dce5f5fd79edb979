//! The builder of a hashed wheel timer.

use std::fmt;
use std::time::Duration;

use tickless::local::MAX_SLOTS;
use tickless::{Batch, BuildError, Clock, ManualClock};

use crate::timeout::Pending;
use crate::{Expired, HashedWheelTimer};

/// Sets up a [`HashedWheelTimer`].
///
/// ```
/// use std::time::Duration;
/// use tickless_netty::HashedWheelTimer;
///
/// let timer = HashedWheelTimer::builder()
///     .tick_duration(Duration::from_millis(30))
///     .ticks_per_wheel(512)
///     .max_pending_timeouts(100_000)
///     .thread_name("requests")
///     .build()?;
/// # drop(timer);
/// # Ok::<(), tickless::BuildError>(())
/// ```
#[must_use = "a builder does nothing until it builds"]
pub struct Builder {
    engine: tickless::Builder,
    dispatcher: Option<Dispatcher>,
}

type Dispatcher = Box<dyn Fn(Expired) + Send + Sync>;

const TICK: Duration = Duration::from_millis(100);

const TICKS_PER_WHEEL: u32 = 512;

// === impl Builder ===

impl Builder {
    /// A builder with the defaults: a tick of 100 ms and 512 ticks per wheel, as in Netty; one
    /// shard, no limit, the system's clock, and tasks that run on the timer's thread, one after
    /// another.
    pub fn new() -> Builder {
        let engine = tickless::Builder::new().shards(1).takeover(None).thread_name("hashed-wheel");
        let builder = Builder { engine, dispatcher: None };
        builder.tick_duration(TICK).ticks_per_wheel(TICKS_PER_WHEEL)
    }

    /// The tick: timeouts that are due within one tick expire together, at its end. Default 100 ms;
    /// from 1 ns to 584 years.
    ///
    /// With a shorter tick, timeouts expire closer to their delays. A short tick costs nothing
    /// while nothing is due, because no thread wakes up per tick. A timer covers 2^54 ticks from
    /// its creation: 570 years at 1 us, 208 days at 1 ns. A timeout beyond that never expires.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tickless::ManualClock;
    /// # use tickless_netty::{HashedWheelTimer, Timeout};
    /// let timer = HashedWheelTimer::builder()
    ///     .tick_duration(Duration::from_millis(250))
    ///     .manual_clock(&ManualClock::new())
    ///     .build()?;
    /// timer.new_timeout(|_: &Timeout| println!("due"), Duration::from_millis(300))?;
    /// assert_eq!(timer.advance(Duration::from_millis(499))?, 0);
    /// assert_eq!(timer.advance(Duration::from_millis(1))?, 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn tick_duration(mut self, tick: Duration) -> Builder {
        self.engine = self.engine.tick(tick);
        self
    }

    /// The number of buckets of the wheel, rounded up to a power of two, at least two. Default 512;
    /// up to 1,048,576.
    ///
    /// Later timeouts lie on a second wheel with wider buckets, and so on, and not in further
    /// rounds of this one. So the number need not grow with the delays or with the number of
    /// timeouts. A bucket takes 256 bytes.
    ///
    /// ```
    /// # use tickless_netty::HashedWheelTimer;
    /// let timer = HashedWheelTimer::builder().ticks_per_wheel(1_000).build()?;
    /// assert!(HashedWheelTimer::builder().ticks_per_wheel(0).build().is_err());
    /// # Ok::<(), tickless::BuildError>(())
    /// ```
    pub fn ticks_per_wheel(mut self, ticks: u32) -> Builder {
        // A value out of bounds is passed on as it is, so that the error names it.
        let is_possible = (1..=MAX_SLOTS).contains(&ticks);
        let slots = if is_possible { ticks.next_power_of_two().max(2) } else { ticks };
        self.engine = self.engine.slots(slots);
        self
    }

    /// The maximum number of waiting timeouts; more are [rejected](crate::Rejected).
    /// Default: no limit. `build` refuses zero.
    ///
    /// A timeout that expires or is cancelled makes room at once. (So do the others of its batch,
    /// up to 255, which run next.) The limit costs two atomic updates of a shared counter per
    /// timeout. (To have no limit, for which Netty takes zero or less, do not call this.)
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tickless_netty::{HashedWheelTimer, Timeout};
    /// let timer = HashedWheelTimer::builder().max_pending_timeouts(1).build()?;
    /// let minute = Duration::from_secs(60);
    /// timer.new_timeout(|_: &Timeout| println!("due"), minute)?;
    /// let rejected = timer.new_timeout(|_: &Timeout| println!("due"), minute).unwrap_err();
    /// assert!(rejected.is_full());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn max_pending_timeouts(mut self, max: u64) -> Builder {
        self.engine = self.engine.max_pending(max);
        self
    }

    /// Calls `dispatcher` with each expired timeout, on the timer's thread, instead of running the
    /// task there. Use it to hand long tasks to a pool.
    ///
    /// A timeout that the dispatcher gets has expired, whatever the dispatcher does with it: it is
    /// no longer counted. If the dispatcher drops it, because its pool is full or gone, the task
    /// never runs. A panic of the dispatcher is counted like a task's panic, and the remaining
    /// timeouts are dispatched. Panics of tasks that run elsewhere are handled there.
    ///
    /// The dispatcher lives until the timer has stopped. If it owns a [`HashedWheelTimer`] of that
    /// timer, neither is dropped before [`stop`](HashedWheelTimer::stop).
    ///
    /// ```
    /// use std::sync::mpsc;
    /// use std::thread;
    /// use std::time::Duration;
    /// use tickless_netty::{Expired, HashedWheelTimer, Timeout};
    ///
    /// let (queue, work) = mpsc::channel::<Expired>();
    /// let worker = thread::spawn(move || work.into_iter().for_each(Expired::run));
    /// let timer = HashedWheelTimer::builder()
    ///     .tick_duration(Duration::from_millis(1))
    ///     .dispatcher(move |expired| drop(queue.send(expired)))
    ///     .build()?;
    ///
    /// let (sender, receiver) = mpsc::channel();
    /// let task = move |_: &Timeout| sender.send(thread::current().id()).expect("somebody waits");
    /// timer.new_timeout(task, Duration::from_millis(2))?;
    /// assert_eq!(receiver.recv()?, worker.thread().id());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn dispatcher(mut self, dispatcher: impl Fn(Expired) + Send + Sync + 'static) -> Builder {
        self.dispatcher = Some(Box::new(dispatcher));
        self
    }

    /// The name of the timer's threads; a dash and a number are appended. Default
    /// `hashed-wheel`. Any string without a NUL; systems may show only its beginning.
    pub fn thread_name(mut self, name: impl Into<String>) -> Builder {
        self.engine = self.engine.thread_name(name);
        self
    }

    /// The number of wheels. Without [`takeover`](Builder::takeover), each has a thread of its own.
    /// Default one, so that tasks run one
    /// after another as in Netty; up to 1024. Each thread that creates timeouts uses one of the
    /// wheels. With more than one wheel, tasks run concurrently and in no common order.
    pub fn shards(mut self, shards: usize) -> Builder {
        self.engine = self.engine.shards(shards);
        self
    }

    /// Sets how long a task may keep the timer's thread. After that, another thread goes on with
    /// the other timeouts, and *two tasks may run at the same time*: see `takeover` of the engine's
    /// [builder](tickless::Builder). Default: none, so that tasks run one after another, as in
    /// Netty, and a slow task delays all others.
    pub fn takeover(mut self, after: impl Into<Option<Duration>>) -> Builder {
        self.engine = self.engine.takeover(after);
        self
    }

    /// The clock. Default: the system's monotonic clock.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tickless::{Clock, ManualClock};
    /// # use tickless_netty::{HashedWheelTimer, Timeout};
    /// // Two timers share a clock.
    /// let clock = Clock::manual(&ManualClock::new());
    /// let requests = HashedWheelTimer::builder().clock(clock.clone()).build()?;
    /// let sessions = HashedWheelTimer::builder().clock(clock).build()?;
    /// sessions.new_timeout(|_: &Timeout| println!("expired"), Duration::from_secs(60))?;
    /// requests.advance(Duration::from_secs(60))?;
    /// assert_eq!(sessions.advance(Duration::ZERO)?, 1, "its time has come as well");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn clock(mut self, clock: Clock) -> Builder {
        self.engine = self.engine.clock(clock);
        self
    }

    /// A clock that is advanced by hand, and no thread: tasks run inside
    /// [`HashedWheelTimer::advance`]. Use it to test code with timeouts.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tickless::ManualClock;
    /// # use tickless_netty::{HashedWheelTimer, Timeout};
    /// let clock = ManualClock::new();
    /// let timer = HashedWheelTimer::builder().manual_clock(&clock).build()?;
    /// timer.new_timeout(|_: &Timeout| println!("tomorrow"), Duration::from_secs(86_400))?;
    /// assert_eq!(timer.advance(Duration::from_secs(86_400))?, 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn manual_clock(self, clock: &ManualClock) -> Builder {
        self.clock(Clock::manual(clock))
    }

    /// Builds the timer.
    ///
    /// # Errors
    /// A setting is out of bounds, or the timer's thread could not be started.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tickless::BuildError;
    /// use tickless_netty::HashedWheelTimer;
    ///
    /// let built = HashedWheelTimer::builder().tick_duration(Duration::ZERO).build();
    /// assert!(matches!(built, Err(BuildError::Tick { .. })));
    /// ```
    pub fn build(self) -> Result<HashedWheelTimer, BuildError> {
        let engine = match self.dispatcher {
            None => self.engine.build_typed(|batch: Batch<'_, _>| expire_all(batch, Expired::run)),
            Some(run) => self.engine.build_typed(move |batch: Batch<'_, _>| {
                expire_all(batch, &run);
            }),
        }?;
        Ok(HashedWheelTimer::on(engine))
    }
}

/// Expires one timeout after another: a task may cancel those behind it.
fn expire_all(batch: Batch<'_, Pending>, run: impl Fn(Expired)) {
    batch.filter_map(Pending::expire).for_each(run);
}

impl Default for Builder {
    fn default() -> Builder {
        Builder::new()
    }
}

impl fmt::Debug for Builder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let has_dispatcher = &self.dispatcher.is_some();
        f.debug_struct("Builder")
            .field("engine", &self.engine)
            .field("has_dispatcher", has_dispatcher)
            .finish()
    }
}
