//! A deadline that beats postpone, and that fires once when they stop.
//!
//! A beat touches no timer: it writes its time with one CAS. The timer fires when the timeout after
//! some earlier beat has passed, finds the later beats, and is armed again for the end of the
//! timeout after the last of them. So it comes at most once per timeout, however many beats there
//! were, and on the exact tick when there was none. Such a look counts neither as scheduled nor as
//! fired (`Count::Rearmed`).
//!
//! *Invariant*: the CAS that ends the beats (`crates/sync/src/protocol/pulse.rs`) decides what
//! users are told; the word of the thing (`crates/sync/src/protocol/hold.rs`) decides which thread
//! has the closure.
//!
//! *Tested by*: `tests/races/periodic/heartbeat.rs`, `tests/realtime/beats.rs`,
//! `loom-tests/tests/heartbeat.rs`.

use std::time::Duration;

use crate::dispatch::{Kind, Panics, Runs, Task};
use crate::engine::{Engine, EngineRef};
use crate::error::Refused;
use crate::protocol::pulse::{Pulse, Verdict};
use crate::sync::{Arc, prefetch};
use crate::time::saturating_ns;
use crate::wait::{Cancelled, WaitError, deadline_in, wait_for_end};

use super::armed::{Arms, Body, DueRun, Next, Repeater};
use super::{End, StartError, StartReason};

/// A deadline that [`beat`](Heartbeat::beat) postpones. When no beat comes for the length of the
/// timeout, a closure is called, once.
///
/// A heartbeat may be shared, and any number of threads may beat. Dropping it stops it. It does not
/// keep its engine alive. In the engine's [`Stats`](crate::Stats) it is one timer, which fires when
/// the closure is called.
///
/// ```
/// use std::sync::mpsc;
/// use std::time::Duration;
/// use tickless::Engine;
/// use tickless::periodic::Heartbeat;
///
/// let engine = Engine::new()?;
/// let (sender, receiver) = mpsc::channel();
/// let on_silence = move || drop(sender.send("gone"));
/// let peer = Heartbeat::new(&engine, Duration::from_millis(20), on_silence)?;
/// peer.beat();
/// // Nothing is heard of the peer any more.
/// assert_eq!(receiver.recv(), Ok("gone"));
/// assert!(!peer.beat(), "it comes too late");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "a heartbeat that is dropped at once is stopped at once"]
pub struct Heartbeat {
    armed: Arc<dyn Arms<Beats>>,
    /// A second copy, so that a beat reads the time while `armed` is being loaded.
    engine: EngineRef,
}

/// State shared by all threads that beat.
struct Beats {
    pulse: Pulse,
    timeout_ns: u64,
}

/// The closure that is called when the beats stop.
struct HeartbeatBody<F> {
    on_silence: Option<F>,
    /// A look has found that they have. What comes next is the call.
    is_silent: bool,
}

/// A look for beats.
struct BeatCheck(DueRun);

// === impl Heartbeat ===

impl Heartbeat {
    /// Starts a heartbeat, with a first beat now. `on_silence` is called when `timeout` has passed
    /// since the last beat: never earlier, and later by less than a tick, plus the time that the
    /// system needs to wake the engine's thread and that other tasks take. It runs where the
    /// engine's tasks run.
    ///
    /// This allocates once; beats do not allocate. The timeout is at least 1 ns. A timeout too long
    /// to represent never passes.
    ///
    /// # Errors
    /// The timeout is zero, or the engine is full or has stopped. The error returns the closure.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tickless::{Engine, ManualClock};
    /// # use tickless::periodic::Heartbeat;
    /// let engine = Engine::builder().manual_clock(&ManualClock::new()).build()?;
    /// let second = Duration::from_secs(1);
    /// let peer = Heartbeat::new(&engine, 3 * second, || println!("it went silent"))?;
    /// for _ in 0..10 {
    ///     engine.advance(2 * second)?;
    ///     assert!(peer.beat());
    /// }
    /// engine.advance(3 * second)?;
    /// assert!(peer.has_fired());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn new<F>(
        engine: &Engine,
        timeout: Duration,
        on_silence: F,
    ) -> Result<Heartbeat, StartError<F>>
    where
        F: FnOnce() + Send + 'static,
    {
        let timeout_ns = saturating_ns(timeout);
        if timeout_ns == 0 {
            return Err(Refused::new(StartReason::ZeroPeriod, on_silence));
        }
        let now_ns = engine.clock().now_ns();
        let beats = Beats { pulse: Pulse::new(now_ns), timeout_ns };
        let first_ns = now_ns.saturating_add(timeout_ns);
        let body = HeartbeatBody { on_silence: Some(on_silence), is_silent: false };
        let uncalled = |body: HeartbeatBody<F>| body.on_silence.expect("it has not been called");
        let id = EngineRef::new(engine);
        let armed = Repeater::start(engine, id, first_ns, body, beats, |_| ());
        let armed = armed.map_err(|refused| refused.map(uncalled))?;
        Ok(Heartbeat { armed, engine: id })
    }

    /// Records a beat, now. `true`: it was in time, and the closure is not called before the
    /// timeout has passed from here. `false`: the timeout had passed since the last beat, or the
    /// heartbeat or its engine was stopped, or the engine's handler dropped the task that calls the
    /// closure. If it had passed, the closure has been, is being or will be called, unless the
    /// engine or a waiting stop ends the heartbeat first: also if the engine is late and has not
    /// noticed yet.
    ///
    /// The closure sees what a thread did before a beat in time.
    ///
    /// Costs one compare-and-swap and one clock reading, or two if it is late. Never waits, and
    /// moves no timer. O(1), on any thread.
    #[inline]
    pub fn beat(&self) -> bool {
        // The word may be in another core's cache: load it while the time is read.
        prefetch(Arc::as_ptr(&self.armed).addr());
        match self.engine.thread_now_ns() {
            Some(thread_ns) => {
                let Beats { pulse, timeout_ns } = self.armed.shared();
                // The thread's clock may be ahead: that a beat is late, the engine's clock says.
                let is_late = pulse.would_be_late(thread_ns, *timeout_ns);
                let now_ns = if is_late { self.armed.core().clock.now_ns() } else { thread_ns };
                pulse.beat(now_ns, *timeout_ns)
            }
            None => false,
        }
    }

    /// Stops the heartbeat. `true`: the closure will never be called, and was dropped here, on this
    /// thread. `false`: the closure has been or is being called, or will be because a beat was too
    /// late (as at [`beat`](Heartbeat::beat)), or the heartbeat was over before.
    ///
    /// If the engine's thread is looking for beats at this moment, it drops the closure instead,
    /// right after. O(1); never waits. Dropping the heartbeat does the same.
    ///
    /// # Panics
    /// Propagates a panic of the closure's drop, after everything else is done.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tickless::Engine;
    /// # use tickless::periodic::Heartbeat;
    /// let engine = Engine::new()?;
    /// let peer = Heartbeat::new(&engine, Duration::from_secs(30), || println!("it went silent"))?;
    /// assert!(peer.stop(), "it said goodbye");
    /// assert_eq!(engine.len(), 0);
    /// assert!(!peer.beat() && !peer.has_fired());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn stop(&self) -> bool {
        self.end_by(Pulse::stop)
    }

    /// Stops the heartbeat, and waits until the closure has returned if it is being called. If a
    /// beat was too late, but the call has not begun, it never does. When this returns `Ok`, the
    /// closure is not called any more, and is dropped. Returns how the heartbeat ended:
    /// [`End::Finished`] if the closure was called. See [`wait`](crate::wait).
    ///
    /// # Errors
    /// The wait would not end: see [`WaitError`]. The heartbeat is stopped all the same.
    ///
    /// # Panics
    /// As [`stop`](Heartbeat::stop).
    pub fn stop_wait(&self) -> Result<End, WaitError> {
        self.end_by(Pulse::revoke);
        wait_for_end(self.armed.core(), None)
    }

    /// As [`stop_wait`](Heartbeat::stop_wait), but waits no longer than `limit`.
    ///
    /// # Errors
    /// As [`stop_wait`](Heartbeat::stop_wait), or the closure is still being called:
    /// [`WaitError::TimedOut`].
    ///
    /// # Panics
    /// As [`stop`](Heartbeat::stop).
    pub fn stop_wait_within(&self, limit: Duration) -> Result<End, WaitError> {
        self.end_by(Pulse::revoke);
        wait_for_end(self.armed.core(), deadline_in(limit))
    }

    /// Stops the heartbeat, now. The future waits as [`stop_wait`](Heartbeat::stop_wait) does. If
    /// it is dropped, the heartbeat stays stopped.
    ///
    /// # Panics
    /// As [`stop`](Heartbeat::stop).
    pub fn stopped(&self) -> Cancelled<'_, End> {
        self.end_by(Pulse::revoke);
        Cancelled::new(self.armed.core())
    }

    fn end_by(&self, ends: fn(&Pulse) -> bool) -> bool {
        let is_mine = ends(&self.armed.shared().pulse);
        if is_mine {
            self.armed.cancel();
        }
        is_mine
    }

    /// Whether the heartbeat still waits for beats.
    pub fn is_alive(&self) -> bool {
        self.armed.shared().pulse.is_alive()
    }

    /// Whether the beats stopped, and the closure has been or is being called, or will be because a
    /// beat was too late. (If the engine or a waiting stop ends the heartbeat before the call, this
    /// is `false` from then on.)
    pub fn has_fired(&self) -> bool {
        self.armed.shared().pulse.is_silent()
    }

    /// Why the heartbeat is over; `None` if it is not. [`End::Finished`] once the closure has been
    /// called.
    pub fn end(&self) -> Option<End> {
        self.armed.core().word.end()
    }

    /// The time that may pass after a beat.
    pub fn timeout(&self) -> Duration {
        Duration::from_nanos(self.armed.shared().timeout_ns)
    }
}

impl Drop for Heartbeat {
    fn drop(&mut self) {
        self.stop();
    }
}

unwind_safe! { impl[] Heartbeat[] }

debug! { impl[] Heartbeat[] {
    end = |this| this.end(),
    timeout = |this| this.timeout(),
} }

// === impl HeartbeatBody ===

impl<F: FnOnce() + Send + 'static> Body for HeartbeatBody<F> {
    type Shared = Beats;
    type Payload = Task;

    fn fire(&mut self, armed: &Arc<Repeater<Self>>, panics: &mut Panics) -> Next {
        let Beats { pulse, timeout_ns } = &armed.shared;
        let is_look = !self.is_silent && armed.engine.keeps_own_tasks();
        let ask = if is_look { Pulse::look } else { Pulse::expire };
        match ask(pulse, armed.core.clock.now_ns(), *timeout_ns) {
            Verdict::Until(next_ns) => Next::Later(next_ns),
            Verdict::Silent if is_look => {
                self.is_silent = true;
                Next::Call
            }
            Verdict::Silent => {
                if let Some(on_silence) = self.on_silence.take() {
                    panics.run(on_silence);
                }
                Next::End(End::Finished)
            }
            Verdict::Over => Next::End(End::Cancelled),
        }
    }

    fn look(due: DueRun) -> Task {
        Task::of(BeatCheck(due))
    }

    fn over(self, _end: End, armed: &Repeater<Self>) {
        // If the engine ended the heartbeat, later beats must return `false`.
        armed.shared.pulse.revoke();
    }
}

// === impl BeatCheck ===

impl Runs for BeatCheck {
    const KIND: Kind = Kind::Own;

    fn run(self) {
        self.0.run();
    }
}
