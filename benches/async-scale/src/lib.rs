//! Whose timers the tasks of a runtime have, and the runtime that belongs to them: for the programs
//! that measure such tasks.

use std::error::Error;
use std::future::{Future, Pending, pending};
use std::mem::MaybeUninit;
use std::pin::Pin;
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use clap::ValueEnum;
use tickless::Engine;
use tokio::runtime::{Builder, Runtime};
use tokio::time::Instant;

/// Whose timers, by the names of the command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Choice {
    /// None: the floor.
    None,
    /// This crate's, on threads of the engine.
    Tickless,
    /// This crate's, on an engine that a task of the runtime serves.
    TicklessDrive,
    /// The same with ticks of 100 us.
    TicklessFine,
    /// The runtime's.
    Tokio,
    /// The runtime's alternative ones.
    TokioAlt,
}

/// The timers of tasks.
pub trait Timers: Copy + Send + Sync + 'static {
    /// Waits for a time.
    type Sleep: Future<Output: Send> + Send + 'static;

    /// Whether a nap lasts as long as it is meant to.
    const NAPS: bool = true;

    /// Starts to wait.
    fn sleep(self, delay: Duration) -> Self::Sleep;

    /// Starts again.
    fn reset(self, sleep: Pin<&mut Self::Sleep>, delay: Duration);

    /// What the future returns, if it does in time.
    fn timeout<F: Future<Output: Send> + Send>(
        self,
        delay: Duration,
        future: F,
    ) -> impl Future<Output = Option<F::Output>> + Send;

    /// Waits for that time or, without timers, for the other tasks alone.
    fn nap(self, delay: Duration) -> impl Future<Output = ()> + Send;

    /// How often a timer was started or moved, if it is known.
    fn calls(self) -> Option<u64>;
}

/// The engine of this crate's timers.
static ENGINE: Mutex<Option<Engine>> = Mutex::new(None);

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().expect("nothing panics under it")
}

/// This crate's, on the engine of code that names none.
#[derive(Clone, Copy, Debug)]
pub struct Tickless;

/// Those of the runtime.
#[derive(Clone, Copy, Debug)]
pub struct Tokio;

/// None.
#[derive(Clone, Copy, Debug)]
pub struct NoTimers;

// === impl Choice ===

impl Choice {
    /// Its name on the command line and in records.
    pub fn name(self) -> String {
        self.to_possible_value().expect("none is skipped").get_name().to_owned()
    }

    /// A runtime with so many workers and these timers. Where those are this crate's, the process's
    /// engine is up.
    ///
    /// # Errors
    /// The runtime or the engine does not start, or this build has no such timers.
    pub fn runtime(self, workers: usize) -> Result<Runtime, Box<dyn Error>> {
        let mut builder = Builder::new_multi_thread();
        builder.worker_threads(workers).enable_all();
        if self == Choice::TokioAlt {
            choose_alternative(&mut builder)?;
        }
        let runtime = builder.build()?;
        match self {
            Choice::Tickless => {
                // Set, it goes before the runtime's own. (It may be set already.)
                let _refused = Engine::set_global(Engine::new()?);
                *lock(&ENGINE) = Some(Engine::global().clone());
            }
            Choice::TicklessDrive => {
                let _entered = runtime.enter();
                *lock(&ENGINE) = Some(Engine::of_runtime()?);
            }
            Choice::TicklessFine => {
                let _entered = runtime.enter();
                let engine = Engine::builder().tick(Duration::from_micros(100)).build_on_tokio()?;
                engine.enter_runtime()?;
                *lock(&ENGINE) = Some(engine);
            }
            Choice::None | Choice::Tokio | Choice::TokioAlt => {}
        }
        Ok(runtime)
    }
}

#[cfg(tokio_unstable)]
fn choose_alternative(builder: &mut Builder) -> Result<(), Box<dyn Error>> {
    builder.enable_alt_timer();
    Ok(())
}

#[cfg(not(tokio_unstable))]
fn choose_alternative(_: &mut Builder) -> Result<(), Box<dyn Error>> {
    Err("tokio-alt is not in this build; benches/measure.sh has it".into())
}

// === impl Timers ===

impl Timers for Tickless {
    type Sleep = tickless::future::Sleep;

    fn sleep(self, delay: Duration) -> Self::Sleep {
        tickless::sleep(delay)
    }

    fn reset(self, mut sleep: Pin<&mut Self::Sleep>, delay: Duration) {
        sleep.reset(delay);
    }

    async fn timeout<F: Future<Output: Send> + Send>(
        self,
        delay: Duration,
        future: F,
    ) -> Option<F::Output> {
        tickless::timeout(delay, future).await.ok()
    }

    fn nap(self, delay: Duration) -> impl Future<Output = ()> + Send {
        tickless::sleep(delay)
    }

    fn calls(self) -> Option<u64> {
        let stats = lock(&ENGINE).as_ref()?.stats();
        Some(stats.scheduled + stats.reset)
    }
}

impl Timers for Tokio {
    type Sleep = tokio::time::Sleep;

    fn sleep(self, delay: Duration) -> Self::Sleep {
        tokio::time::sleep(delay)
    }

    fn reset(self, sleep: Pin<&mut Self::Sleep>, delay: Duration) {
        sleep.reset(Instant::now() + delay);
    }

    async fn timeout<F: Future<Output: Send> + Send>(
        self,
        delay: Duration,
        future: F,
    ) -> Option<F::Output> {
        tokio::time::timeout(delay, future).await.ok()
    }

    fn nap(self, delay: Duration) -> impl Future<Output = ()> + Send {
        tokio::time::sleep(delay)
    }

    fn calls(self) -> Option<u64> {
        None
    }
}

impl Timers for NoTimers {
    type Sleep = Pending<()>;

    const NAPS: bool = false;

    fn sleep(self, _: Duration) -> Self::Sleep {
        pending()
    }

    fn reset(self, _: Pin<&mut Self::Sleep>, _: Duration) {}

    async fn timeout<F: Future<Output: Send> + Send>(
        self,
        _: Duration,
        future: F,
    ) -> Option<F::Output> {
        Some(future.await)
    }

    fn nap(self, _: Duration) -> impl Future<Output = ()> + Send {
        tokio::task::yield_now()
    }

    fn calls(self) -> Option<u64> {
        None
    }
}

/// User and system time of the process.
pub fn cpu_ns() -> u64 {
    let mut usage = MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: the pointer is to a `rusage` that may be written.
    let status = unsafe { libc::getrusage(libc::RUSAGE_SELF, usage.as_mut_ptr()) };
    assert_eq!(status, 0, "getrusage knows its own process");
    // SAFETY: it was zeroed, which is a valid `rusage`, and then filled in.
    let usage = unsafe { usage.assume_init() };
    let ns = |time: libc::timeval| time.tv_sec as u64 * 1_000_000_000 + time.tv_usec as u64 * 1000;
    ns(usage.ru_utime) + ns(usage.ru_stime)
}
