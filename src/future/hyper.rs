//! The timer for hyper.

use std::pin::Pin;
use std::time::{Duration, Instant};

use hyper::rt::{Sleep as HyperSleep, Timer};

use crate::engine::{Engine, EngineRef};

use super::{OnRefusal, PolicySleep, Sleep};

/// An engine as the [timer](hyper::rt::Timer) of hyper's servers and clients, for header timeouts,
/// keep-alives and their other time limits.
///
/// Clones are cheap and share the engine, which lives as long as one of them. When hyper moves a
/// deadline, the engine moves the timer and allocates nothing.
///
/// If the engine has stopped, hyper cannot be told. By default a deadline that it then
/// waits for counts as passed, so the connection ends: see [`OnRefusal`], and
/// [`on_refusal`](HyperTimer::on_refusal) for other ways. Let the engine outlive the connections.
///
/// ```
/// use std::time::Duration;
/// use hyper::server::conn::http1;
/// use tickless::future::HyperTimer;
///
/// let mut server = http1::Builder::new();
/// server.timer(HyperTimer::global()).header_read_timeout(Duration::from_secs(10));
/// ```
#[derive(Clone, Debug)]
pub struct HyperTimer {
    engine: Engine,
    policy: OnRefusal,
}

// === impl HyperTimer ===

impl HyperTimer {
    /// Returns a timer on the [global engine](Engine::global) or, inside a tokio runtime, on what
    /// code that names no engine uses there in its place.
    ///
    /// # Panics
    /// As [`Engine::global`] does, if this is its first use.
    #[track_caller]
    pub fn global() -> HyperTimer {
        HyperTimer::new(&Engine::of_place())
    }

    /// Returns a timer on `engine`.
    ///
    /// ```
    /// use hyper::rt::Timer;
    /// use std::time::Duration;
    /// use tickless::Engine;
    /// use tickless::future::HyperTimer;
    ///
    /// let timer = HyperTimer::new(&Engine::builder().shards(1).build()?);
    /// pollster::block_on(timer.sleep(Duration::from_millis(2)));
    /// # Ok::<(), tickless::BuildError>(())
    /// ```
    pub fn new(engine: &Engine) -> HyperTimer {
        HyperTimer { engine: engine.clone(), policy: OnRefusal::default() }
    }

    /// What hyper's sleeps do if the engine refuses them. Default: [`OnRefusal::Elapse`], so a
    /// connection whose limits cannot be timed ends as if it had passed one. It applies to the
    /// sleeps that are made from then on.
    ///
    /// ```
    /// use tickless::Engine;
    /// use tickless::future::{HyperTimer, OnRefusal};
    ///
    /// let engine = Engine::new()?;
    /// // Rather serve without limits than not at all.
    /// let timer = HyperTimer::new(&engine).on_refusal(OnRefusal::Never);
    /// # Ok::<(), tickless::BuildError>(())
    /// ```
    pub fn on_refusal(mut self, policy: OnRefusal) -> HyperTimer {
        self.policy = policy;
        self
    }
}

impl Timer for HyperTimer {
    fn sleep(&self, duration: Duration) -> Pin<Box<dyn HyperSleep>> {
        Box::pin(self.engine.sleep(duration).on_refusal(self.policy))
    }

    fn sleep_until(&self, deadline: Instant) -> Pin<Box<dyn HyperSleep>> {
        Box::pin(self.engine.sleep_until(deadline).on_refusal(self.policy))
    }

    /// By the thread's clock, which is cheaper to read than the engine's, and ahead of it by some
    /// microseconds at most: the deadlines that hyper computes from it are no earlier than they
    /// should be.
    fn now(&self) -> Instant {
        EngineRef::new(&self.engine).thread_now().unwrap_or_else(|| self.engine.now())
    }

    fn reset(&self, sleep: &mut Pin<Box<dyn HyperSleep>>, new_deadline: Instant) {
        match sleep.as_mut().downcast_mut_pin::<PolicySleep>() {
            Some(mut sleep) => sleep.reset(new_deadline),
            None => *sleep = self.sleep_until(new_deadline),
        }
    }
}

impl HyperSleep for PolicySleep {}

impl HyperSleep for Sleep {}
