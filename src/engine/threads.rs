//! The settings for an engine's threads: how many there are, what they are called, where they run,
//! and what they do about a task that is stuck.

use std::time::Duration;

use crate::error::BuildError;
use crate::reaper::{StuckTask, Watch};
use crate::sync::Arc;

use super::Builder;
use super::builder::TAKEOVER;

/// The most spares.
const MAX_SPARES: usize = 1024;

// === impl Builder ===

impl Builder {
    /// Sets the name of the reapers' threads, to which a dash and a number are appended, in the
    /// order in which they are made. Default: `tickless`. The name must not contain a NUL. Systems
    /// may show only its beginning (Linux: 15 bytes).
    pub fn thread_name(mut self, name: impl Into<String>) -> Builder {
        self.thread_name = name.into();
        self
    }

    /// Sets the size of the stacks of the engine's threads, in bytes, on which tasks run. Default:
    /// the standard library's, 2 MiB unless `RUST_MIN_STACK` says otherwise. A system has a least
    /// size, and may round up; it may refuse a size that is too large (`build` returns
    /// [`BuildError::Thread`]).
    pub fn stack_size(mut self, bytes: usize) -> Builder {
        self.stack_size = Some(bytes);
        self
    }

    /// Sets what each of the engine's threads calls when it begins, before it runs tasks: to set
    /// its priority or its processors, for example. Threads may also be made later, when there is
    /// more to do. A panic is caught. The hook is as a task of the engine: it cannot stop that, and
    /// [must not wait](crate::future) for a timer of it.
    ///
    /// Unless this unblocks them, signals of the process go to the program's other threads: an
    /// engine's threads begin with all signals blocked, except those that tell of a fault, and
    /// SIGPROF.
    pub fn on_thread_start(mut self, hook: impl Fn() + Send + Sync + 'static) -> Builder {
        self.on_thread_start = Some(Arc::new(hook));
        self
    }

    /// Sets whether each shard has a thread of its own, of which the *n*th is pinned to the *n*th
    /// CPU on which the thread that calls `build` may run; with more shards than CPUs, the count
    /// begins again. Default: no. If the system does not pin threads, `build`
    /// returns [`BuildError::Thread`] ([which systems do](crate::docs::systems)).
    pub fn pinned(mut self, pinned: bool) -> Builder {
        self.pinned = pinned;
        self
    }

    /// Sets the least and the greatest number of threads that serve the shards. Default: 1, and
    /// one per shard; without [takeovers](Builder::takeover), one per shard, always.
    ///
    /// The shards form as many groups as the first number. Each group has a thread that sleeps
    /// until the first of its shards is due, and serves all that are. When that thread falls
    /// behind by half a tick (but at least 50 us and at most 1 ms), or a shard whose turns take so
    /// long comes before others that are due, another thread goes on with the others; and so
    /// on, up to the second number. Threads beyond the first number are made when they are first
    /// needed, and wait when they are not.
    ///
    /// So an engine with many shards, which keep threads that schedule apart, wakes up as seldom
    /// as one with a single shard. The price: tasks of different shards run at the same time only
    /// when there is much to do, and a slow task that nobody expects delays all shards of its
    /// group, until it has returned or a [takeover](Builder::takeover) ends that. With a first
    /// number as large as that of the shards, tasks of different shards never wait for each other.
    ///
    /// More threads than shards are of no use, and the numbers are lowered to that of the shards.
    /// [Pinned](Builder::pinned) threads are one per shard.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tickless::Engine;
    ///
    /// let engine = Engine::builder().shards(64).reapers(1, 4).build()?;
    /// let (sender, receiver) = std::sync::mpsc::channel();
    /// engine.schedule_detached(Duration::from_millis(1), move || sender.send(()).unwrap())?;
    /// receiver.recv()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn reapers(mut self, min: usize, max: usize) -> Builder {
        self.reapers = Some((min, max));
        self
    }

    /// How many groups so many shards form, and how many threads may serve them at a time.
    pub(super) fn reapers_for(&self, shards: usize) -> Result<(usize, usize), BuildError> {
        let (min, max) = match self.reapers {
            Some((min, max)) => (min, max),
            None if self.spares_used() == 0 => (shards, shards),
            None => (1, shards),
        };
        if min == 0 || min > max {
            return Err(BuildError::Reapers { min, max });
        }
        Ok(if self.pinned { (shards, shards) } else { (min.min(shards), max.min(shards)) })
    }

    /// How long a task may take before it counts as stuck.
    pub(super) fn stuck_after(&self) -> Duration {
        self.takeover.unwrap_or(TAKEOVER).min(Watch::LONGEST)
    }

    /// The greatest number of shards that are taken over.
    pub(super) fn spares_used(&self) -> usize {
        self.takeover.map_or(0, |_| self.spares)
    }

    /// Whether somebody does something about tasks that are stuck.
    pub(super) fn has_watcher(&self) -> bool {
        self.spares_used() > 0 || self.observation.on_stuck.is_some()
    }

    /// Sets how long a task may keep its shard. After that, a spare thread takes the shard over, so
    /// that no other timer waits for the task. `None`: a shard is never taken over, and a slow task
    /// delays all timers of its shard, which then has a thread of its own unless
    /// [`reapers`](Builder::reapers) says otherwise. Default: 5 ms. Zero is `None`.
    ///
    /// The spare thread goes on where the reaper was: it hands over the rest of the batch, each
    /// payload once and in order, and then runs the shard's turns. The task itself is not touched.
    /// When it returns, its thread is spare, and may take over another shard. (A handler of your
    /// own that takes several payloads out of its batch before it begins keeps those.)
    ///
    /// So after a takeover *two tasks of one shard can run at the same time*. Tasks still begin in
    /// the order of their deadlines' ticks, but a task that takes longer than this may end after a
    /// later one. One whose thread the system does not let run for so long may also begin after it.
    /// Without takeovers, the tasks of one shard never overlap.
    ///
    /// A stuck task is noticed after this time to one and a half times this time, or two and a half
    /// if it is not the first of its batch.
    ///
    /// One thread, which [`build`](Builder::build) makes, looks for such tasks. It wakes up once
    /// per this time, at most, while timers fire or a task is stuck, and at most once more when
    /// none do any more. On Linux it takes three file descriptors, if the engine has one
    /// [group](Builder::reapers) and descriptors are free: then timers that are few and quick do
    /// not wake it. It makes other threads when they are first needed; they end with the engine. If
    /// all [`spares`](Builder::spares) are busy, further shards are not taken over until one
    /// returns. If the system refuses a thread, the shard is taken over once it does not: the
    /// engine tries again each time this has passed. If the system begins to refuse `membarrier`
    /// after the engine was built, a task that began before the first refusal keeps its shard until
    /// it returns. From then on each payload costs a memory fence, and shards are taken over as
    /// before.
    ///
    /// An engine that its caller drives has no threads: see
    /// [`Engine::take_over`](crate::Engine::take_over).
    ///
    /// Tasks that are often slow are still better off in a
    /// [pool](crate::dispatch::Pool): it bounds how many run at a time, and costs no takeover for
    /// each.
    ///
    /// ```
    /// use std::sync::mpsc;
    /// use std::time::Duration;
    /// use tickless::Engine;
    ///
    /// let engine = Engine::builder().shards(1).takeover(Duration::from_millis(1)).build()?;
    /// let (sender, receiver) = mpsc::channel();
    /// // The first task waits for the second, which is due later on the same shard.
    /// engine.schedule_detached(Duration::ZERO, move || assert!(receiver.recv().is_ok()))?;
    /// engine.schedule_detached(Duration::from_millis(2), move || sender.send(()).unwrap())?;
    /// # while engine.stats().fired < 2 {}
    /// assert!(engine.stats().takeovers >= 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn takeover(mut self, after: impl Into<Option<Duration>>) -> Builder {
        self.takeover = after.into().filter(|after| !after.is_zero());
        self
    }

    /// Sets a callback for tasks that are stuck: it is called once for such a task, usually while
    /// that still runs. Default: none. A task is stuck when it keeps its shard for longer than
    /// [`takeover`](Builder::takeover) allows; if that is `None`, for longer than 5 ms.
    /// [`Engine::overdue`](crate::Engine::overdue) shows which ones are stuck at the moment.
    ///
    /// With takeovers, another thread has the shard by then, if there is a [spare
    /// one](Builder::spares) and the system does not refuse it. The thread that looks for stuck
    /// tasks makes the call, and looks for no others until it returns; so the callback must return
    /// soon, and its [waits for timers](crate::future) of the engine are refused. Its panics are
    /// caught. An engine that its caller drives never makes the call.
    pub fn on_stuck(mut self, callback: impl Fn(&StuckTask) + Send + Sync + 'static) -> Builder {
        self.observation.on_stuck = Some(Arc::new(callback));
        self
    }

    /// Sets the greatest number of spare threads for [takeovers](Builder::takeover): so many tasks
    /// can be stuck while all other timers fire in time. Default: 16; at most 1024; with
    /// zero, no shard is taken over.
    pub fn spares(mut self, spares: usize) -> Builder {
        self.spares = spares.min(MAX_SPARES);
        self
    }
}
