//! Virtual time for tests of asynchronous code: when nothing is left to do, time jumps to the next
//! timer.
//!
//! [`block_on_paused`] runs a future on an engine with a clock of its own. Whatever the future
//! awaits with [`sleep`](crate::sleep), [`timeout`](crate::timeout) and
//! [`interval`](crate::interval) takes no time, and shows the right times by
//! [`now`](crate::now()):
//!
//! ```
//! use std::time::Duration;
//! use tickless::future::Elapsed;
//!
//! /// What is tested. It knows nothing of virtual time.
//! async fn ask_with_patience(answer_takes: Duration) -> Result<(), Elapsed> {
//!     let ask = || tickless::timeout(Duration::from_secs(30), tickless::sleep(answer_takes));
//!     if ask().await.is_ok() {
//!         return Ok(());
//!     }
//!     tickless::sleep(Duration::from_secs(5)).await;
//!     ask().await
//! }
//!
//! tickless::test::block_on_paused(async {
//!     let begin = tickless::now();
//!     assert!(ask_with_patience(Duration::from_secs(60)).await.is_err());
//!     assert_eq!(tickless::now() - begin, Duration::from_secs(30 + 5 + 30));
//! });
//! ```
//!
//! A sleep belongs to the engine that was ambient when it was *made*. So make it inside an `async`
//! block: in `block_on_paused(tickless::sleep(hour))`, the sleep is made before the
//! engine is, and takes an hour.
//!
//! Time stands still while the future has something to do. It moves when the future waits, or when
//! the test moves it with [`advance`]. [`std::time::Instant::now`] shows the system's time, as
//! ever: code that is tested this way asks [`tickless::now`](crate::now()).
//!
//! Other threads may use the engine as well ([`Paused::engine`]). While the future waits, time
//! jumps to the next timer, whichever thread has scheduled it, and whatever others are doing.
//!
//! With smol, or any executor that is a future, run that future:
//! `paused.block_on(executor.run(..))`.
//!
//! # With tokio
//!
//! Only a runtime knows when its tasks have nothing to do, and its sockets nothing to tell. So on
//! tokio it is the runtime that pauses time, and the engine follows: build the engine inside of the
//! runtime by `Builder::build_on_tokio` (feature `tokio`), in a
//! `#[tokio::test(start_paused = true)]`. [`block_on_paused`] blocks its thread, and with that the
//! tasks of a runtime that is on this thread. So it panics inside of a runtime of tokio's.
//!
//! | | on tokio, `start_paused` | here |
//! |---|---|---|
//! | which timers | those of the engine and of tokio | those of the engine |
//! | resolution | 1 ms | 1 us, or what [`Paused::with`] is given |
//! | pausing and resuming later | yes | no: an engine has one clock |
//! | where | a current-thread runtime | any executor in [`Paused::block_on`] |
//! | while the thread waits for a socket | time jumps, if no data is there | time jumps at once |
//! | while it waits for another thread | time jumps, except beside `spawn_blocking` | time jumps |
//! | several tests at once | one runtime each | one [`Paused`] each |

use std::future::{Future, IntoFuture};
use std::pin::pin;
use std::task::{Context, Poll, Wake, Waker};
use std::time::{Duration, Instant};

use tokio::runtime::Handle;

use crate::engine::{Builder, Driver, Engine, EngineRef};
use crate::error::{BuildError, TurnError};
use crate::sync::{Arc, AtomicBool, Condvar, Mutex, Ordering, wait};
use crate::time::ManualClock;

/// Ticks of an engine with virtual time: short, so that deadlines are what they say.
const TICK: Duration = Duration::from_micros(1);

const WHOLE: &str = "nothing panics under this lock";

/// An engine whose time jumps to the next timer when nothing else is left to do: see the
/// [module](crate::test).
///
/// Clones share the engine.
///
/// ```
/// use std::time::Duration;
/// use tickless::test::Paused;
///
/// let paused = Paused::new();
/// let hour = Duration::from_secs(3600);
/// paused.block_on(async { tickless::sleep(hour).await });
/// assert_eq!(paused.elapsed(), hour);
/// paused.advance(hour);
/// assert_eq!(paused.elapsed(), 2 * hour);
/// ```
#[derive(Clone, Debug)]
pub struct Paused {
    engine: Engine,
    clock: ManualClock,
    events: Arc<Events>,
}

/// What threads in [`Paused::block_on`] sleep for: a future was woken, or a timer scheduled. Each
/// thread looks whether that concerns it.
#[derive(Default)]
struct Events {
    /// How many there were.
    // LOCK(PAUSED): engine: note; stopper: note; caller: so_far, note, sleep.
    count: Mutex<u64>,
    changed: Condvar,
}

/// Wakes the future of a [`Paused::block_on`].
struct PausedWaker {
    rings: AtomicBool,
    events: Arc<Events>,
}

/// Runs `future` to its end on a new engine with virtual time, as [`Paused::block_on`] does. The
/// [module](crate::test) has an example.
///
/// # Panics
/// As [`Paused::block_on`].
#[track_caller]
pub fn block_on_paused<F: IntoFuture>(future: F) -> F::Output {
    Paused::new().block_on(future)
}

/// Moves the virtual time of the ambient engine forward by `by`, and fires all timers that become
/// due on the way, in order: [`Engine::advance`] for code that runs inside
/// [`block_on_paused`]. Returns how many fired. Tasks that they have woken run when this task
/// waits or yields.
///
/// ```
/// use std::time::Duration;
/// use tickless::future::FutureExt;
///
/// tickless::test::block_on_paused(async {
///     let mut nap = tickless::sleep(Duration::from_secs(60));
///     let poll = tickless::timeout(Duration::ZERO, &mut nap).await;
///     assert!(poll.is_err() && !nap.is_elapsed(), "it has begun");
///     assert_eq!(tickless::test::advance(Duration::from_secs(60)), 1);
///     assert!(nap.is_elapsed());
/// });
/// ```
///
/// # Panics
/// The ambient engine has another clock than a manual one, has stopped or is gone, or belongs to
/// the parent process; or this is called by one of its tasks. And as [`Engine::global`], if that
/// is used first here.
#[track_caller]
pub fn advance(by: Duration) -> usize {
    moved(EngineRef::ambient().advance(by))
}

#[track_caller]
fn moved<R>(result: Result<R, TurnError>) -> R {
    result.unwrap_or_else(|error| panic!("virtual time cannot move: {error}"))
}

// === impl Paused ===

impl Paused {
    /// Builds an engine with one shard and ticks of 1 us, whose clock stands at zero.
    ///
    /// # Panics
    /// All engine numbers of the process were given out.
    #[track_caller]
    pub fn new() -> Paused {
        Paused::with(Engine::builder().tick(TICK).shards(1)).expect("these settings are valid")
    }

    /// Builds an engine with these settings, for tests that are about them. Its clock and its
    /// driver are replaced.
    ///
    /// # Errors
    /// The settings are not valid.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tickless::Engine;
    /// use tickless::test::Paused;
    ///
    /// let paused = Paused::with(Engine::builder().tick(Duration::from_millis(10)))?;
    /// paused.block_on(async { tickless::sleep(Duration::from_millis(1)).await });
    /// assert_eq!(paused.elapsed(), Duration::from_millis(10), "the next tick");
    /// # Ok::<(), tickless::BuildError>(())
    /// ```
    pub fn with(builder: Builder) -> Result<Paused, BuildError> {
        let (clock, events) = (ManualClock::new(), Arc::<Events>::default());
        let builder = builder.driver(Driver::Caller).manual_clock(&clock);
        let noted = events.clone();
        let engine = builder.on_timer(move || noted.note()).build()?;
        Ok(Paused { engine, clock, events })
    }

    /// Returns the engine.
    pub fn engine(&self) -> &Engine {
        &self.engine
    }

    /// Returns the virtual time that has passed since this was made.
    pub fn elapsed(&self) -> Duration {
        self.clock.elapsed()
    }

    /// Moves time forward by `by` and fires all timers that become due on the way, as
    /// [`Engine::advance`] does. Returns how many fired.
    ///
    /// # Panics
    /// The engine has stopped or belongs to the parent process, or this is called by one of its
    /// tasks.
    #[track_caller]
    pub fn advance(&self, by: Duration) -> usize {
        moved(self.engine.advance(by))
    }

    /// Runs `future` to its end, with the engine as the ambient one. Whenever the future waits,
    /// time jumps to the next timer. If no timer is pending, or the engine has stopped, this waits
    /// until another thread wakes the future or schedules a timer: a test in which nobody does
    /// hangs.
    ///
    /// # Panics
    /// Called by one of the engine's tasks, in a child process of the one that built the engine, or
    /// [inside of a runtime](crate::test#with-tokio) of tokio's.
    #[track_caller]
    pub fn block_on<F: IntoFuture>(&self, future: F) -> F::Output {
        assert!(
            Handle::try_current().is_err(),
            "this blocks the thread of a tokio runtime, whose tasks virtual time does not see: \
             build the engine by `build_on_tokio`, with `#[tokio::test(start_paused = true)]`"
        );
        let alarm =
            Arc::new(PausedWaker { rings: AtomicBool::new(false), events: self.events.clone() });
        let waker = Waker::from(alarm.clone());
        let mut cx = Context::from_waker(&waker);
        let mut future = pin!(self.engine.entered(future));
        loop {
            if let Poll::Ready(output) = future.as_mut().poll(&mut cx) {
                return output;
            }
            while !alarm.has_rung() {
                // What comes after this ends the sleep; what came before is found.
                let so_far = self.events.so_far();
                if moved(self.jump()).is_none() && !alarm.rings() {
                    self.events.sleep(so_far);
                }
            }
        }
    }

    /// Moves time to the next timer. Returns `None` if there is none.
    fn jump(&self) -> Result<Option<Instant>, TurnError> {
        match self.engine.advance_to_next() {
            Err(TurnError::Stopped) => Ok(None),
            jumped => jumped,
        }
    }
}

impl Default for Paused {
    fn default() -> Paused {
        Paused::new()
    }
}

// === impl Events ===

impl Events {
    fn so_far(&self) -> u64 {
        *self.count.lock().expect(WHOLE)
    }

    /// Sleeps while there were no more than `so_far`.
    fn sleep(&self, so_far: u64) {
        let mut count = self.count.lock().expect(WHOLE);
        while *count == so_far {
            count = wait(&self.changed, &self.count, count);
        }
    }

    fn note(&self) {
        *self.count.lock().expect(WHOLE) += 1;
        self.changed.notify_all();
    }
}

debug! { impl[] Events[] {} }

// === impl PausedWaker ===

impl PausedWaker {
    fn rings(&self) -> bool {
        // ORDER: Acquire - pairs with the Release in `wake_by_ref`: what was done before the wake
        // is visible to the poll.
        self.rings.load(Ordering::Acquire)
    }

    /// Whether it has rung since the last call.
    fn has_rung(&self) -> bool {
        // ORDER: Acquire - pairs with the store in `wake_by_ref`.
        self.rings.swap(false, Ordering::Acquire)
    }
}

impl Wake for PausedWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        // ORDER: Release - pairs with the Acquire in `rings`. The thread that sleeps looks at this
        // when it has seen the event.
        self.rings.store(true, Ordering::Release);
        self.events.note();
    }
}
