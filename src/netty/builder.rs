//! How a hashed wheel timer is put together.

use std::fmt;
use std::time::Duration;

use crate::dispatch::Batch;
use crate::engine;
use crate::error::BuildError;
use crate::time::{Clock, MAX_SLOTS, ManualClock};

use super::timeout::Pending;
use super::{Expired, HashedWheelTimer};

/// Sets up a [`HashedWheelTimer`].
///
/// ```
/// use std::time::Duration;
/// use tickless::netty::HashedWheelTimer;
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
    engine: engine::Builder,
    max_pending: Option<u64>,
    dispatcher: Option<Dispatcher>,
}

type Dispatcher = Box<dyn Fn(Expired) + Send + Sync>;

const TICK: Duration = Duration::from_millis(100);

const TICKS_PER_WHEEL: u32 = 512;

// === impl Builder ===

impl Builder {
    /// Defaults: ticks of 100 ms and 512 of them, as in Netty; one shard, no limit, the system's
    /// clock, and tasks that run on the timer's thread.
    ///
    /// ```
    /// # use tickless::netty::{Builder, WorkerState};
    /// let timer = Builder::new().build()?;
    /// assert_eq!(timer.worker_state(), WorkerState::Init);
    /// # Ok::<(), tickless::BuildError>(())
    /// ```
    pub fn new() -> Builder {
        let builder = Builder {
            engine: engine::Builder::new().shards(1).thread_name("hashed-wheel"),
            max_pending: None,
            dispatcher: None,
        };
        builder.tick_duration(TICK).ticks_per_wheel(TICKS_PER_WHEEL)
    }

    /// The tick: what is due within one expires together, at its end. Default 100 ms; anything from
    /// 1 ns to 584 years.
    ///
    /// A shorter tick expires closer to the delay. It costs nothing while nothing is due: nothing
    /// wakes up per tick. A timer reaches 2^54 ticks from when it was built: 570 years at 1 us, 208
    /// days at 1 ns. A timeout beyond that never expires.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tickless::ManualClock;
    /// # use tickless::netty::{HashedWheelTimer, Timeout};
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

    /// How many buckets the wheel has, rounded up to a power of two, at least two. Default 512; up
    /// to 1,048,576.
    ///
    /// What is due later lies on a second wheel with broader buckets, and so on, and not in further
    /// rounds of this one: the number need not grow with the delays or with how many timeouts wait.
    /// A bucket takes 256 bytes.
    ///
    /// ```
    /// # use tickless::netty::HashedWheelTimer;
    /// let timer = HashedWheelTimer::builder().ticks_per_wheel(1_000).build()?;
    /// assert!(HashedWheelTimer::builder().ticks_per_wheel(0).build().is_err());
    /// # Ok::<(), tickless::BuildError>(())
    /// ```
    pub fn ticks_per_wheel(mut self, ticks: u32) -> Builder {
        // What is out of bounds stays what was asked for, so that the error names it.
        let is_possible = (1..=MAX_SLOTS).contains(&ticks);
        let slots = if is_possible { ticks.next_power_of_two().max(2) } else { ticks };
        self.engine = self.engine.slots(slots);
        self
    }

    /// The most timeouts that may wait at a time; more are [rejected](super::RejectReason::Full).
    /// Default no limit; zero is refused by `build`.
    ///
    /// The limit is never exceeded, and a timeout that expires or is cancelled makes room at once.
    /// It costs two atomic updates of a shared counter per timeout. (Where Netty takes zero or less
    /// for no limit, leave this out.)
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tickless::netty::{HashedWheelTimer, Timeout};
    /// let timer = HashedWheelTimer::builder().max_pending_timeouts(1).build()?;
    /// let minute = Duration::from_secs(60);
    /// timer.new_timeout(|_: &Timeout| println!("due"), minute)?;
    /// let rejected = timer.new_timeout(|_: &Timeout| println!("due"), minute).unwrap_err();
    /// assert!(rejected.is_full());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn max_pending_timeouts(mut self, max: u64) -> Builder {
        self.engine = self.engine.max_pending(max);
        self.max_pending = Some(max);
        self
    }

    /// Has `dispatcher` run what expires, instead of the timer's thread, on which it is called: to
    /// hand tasks that take long to a pool.
    ///
    /// What it is given is expired whatever becomes of it: the timeout is counted off before. A
    /// dispatcher that drops it, because its pool is full or gone, ends it without a run. If the
    /// dispatcher panics, that is counted like a task's panic, and the others are dispatched.
    /// Panics of tasks elsewhere are the business of whoever runs them.
    ///
    /// The dispatcher lives as long as the timer: if it owns a [`HashedWheelTimer`] of that timer,
    /// neither ever goes.
    ///
    /// ```
    /// use std::sync::mpsc;
    /// use std::thread;
    /// use std::time::Duration;
    /// use tickless::netty::{Expired, HashedWheelTimer, Timeout};
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

    /// The name of the timer's thread; a dash and the shard's number are added. Default
    /// `hashed-wheel`. Anything without a NUL; systems may show its beginning only.
    ///
    /// ```
    /// # use std::sync::mpsc;
    /// # use std::thread;
    /// # use std::time::Duration;
    /// # use tickless::netty::{HashedWheelTimer, Timeout};
    /// let timer = HashedWheelTimer::builder().thread_name("requests").build()?;
    /// let (sender, receiver) = mpsc::channel();
    /// let task = move |_: &Timeout| drop(sender.send(thread::current()));
    /// timer.new_timeout(task, Duration::ZERO)?;
    /// assert_eq!(receiver.recv()?.name(), Some("requests-0"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn thread_name(mut self, name: impl Into<String>) -> Builder {
        self.engine = self.engine.thread_name(name);
        self
    }

    /// How many wheels, each with a thread. Default one, so that tasks run one after another as in
    /// Netty; up to 1024. Each thread that makes timeouts uses one of them; with more than one,
    /// tasks run at the same time and in no common order.
    ///
    /// ```
    /// # use tickless::netty::HashedWheelTimer;
    /// let timer = HashedWheelTimer::builder().shards(4).build()?;
    /// assert!(HashedWheelTimer::builder().shards(0).build().is_err());
    /// # Ok::<(), tickless::BuildError>(())
    /// ```
    pub fn shards(mut self, shards: usize) -> Builder {
        self.engine = self.engine.shards(shards);
        self
    }

    /// The clock. Default the system's monotonic one.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tickless::{Clock, ManualClock};
    /// # use tickless::netty::{HashedWheelTimer, Timeout};
    /// // Two timers, one time.
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

    /// A clock that is moved by hand, and no thread: time moves and tasks run inside
    /// [`HashedWheelTimer::advance`], which is how to test code that uses timeouts.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tickless::ManualClock;
    /// # use tickless::netty::{HashedWheelTimer, Timeout};
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
    /// use tickless::netty::HashedWheelTimer;
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
        Ok(HashedWheelTimer::on(engine, self.max_pending))
    }
}

/// Decides on one after the other: what a task does may cancel those behind it.
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
        f.debug_struct("Builder")
            .field("engine", &self.engine)
            .field("has_dispatcher", &self.dispatcher.is_some())
            .finish_non_exhaustive()
    }
}
