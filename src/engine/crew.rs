//! The threads of an engine: one for each shard to begin with, and spare ones.
//!
//! A spare thread is made when it is first needed. One of them is the *watcher*
//! (`reaper/watch.rs`): it sleeps until a reaper might be stuck in a task. If one is, the
//! watcher takes the shard over and is its reaper from then on, and another spare thread
//! watches. A thread that comes back from its task and finds that it has lost its shard is
//! spare itself.
//!
//! *Owner*: each thread of the crew; reapers call the watcher.
//!
//! *Invariants*: one thread at a time is the watcher. What the lock guards is not touched by
//! threads that schedule, cancel or reset.
//!
//! *Orderings*: TAKEOVER; everything else is behind the lock.
//!
//! *Tested by*: `tests/takeover.rs`.

use std::io;
use std::time::Duration;

use crate::dispatch::work_for;
use crate::doorbell::Threads;
use crate::os::Cpus;
use crate::reaper::{self, Found, Look, NEVER_NS, Spin};
use crate::sync::{
    Arc, Condvar, JoinHandle, Mutex, MutexGuard, OnceLock, mpsc, park, thread, wait,
};
use crate::time::Tick;

use super::Builder;
use super::core::{Core, Role};

/// The defaults of [`Builder::takeover`] and [`Builder::spares`], and the most of those.
pub(super) const TAKEOVER: Duration = Duration::from_millis(5);
pub(super) const SPARES: usize = 16;
const MAX_SPARES: usize = 1024;

/// The threads of an engine, and what they agree on.
pub(super) struct Crew {
    /// Whom doorbells wake: the reapers of all shards, then the spare threads.
    threads: Threads,
    shards: usize,
    name: String,
    /// The CPUs for the reapers, if they are pinned.
    cpus: Option<Cpus>,
    /// How reapers wait: those of all shards, and that of precise timers.
    spins: [Spin; 2],
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// Spare threads that were made.
    spares: usize,
    /// Threads that wait until a watcher is needed.
    idle: usize,
    /// A thread watches, or begins to.
    has_watcher: bool,
    is_over: bool,
    handles: Vec<JoinHandle<()>>,
}

/// What a thread of the crew is started for.
enum Duty {
    Reap(usize),
    Watch,
}

// === impl Crew ===

impl Crew {
    /// The crew of an engine with so many shards, of which the last may be that of precise timers,
    /// and at most so many spare threads.
    pub(super) fn new(
        name: String,
        shards: usize,
        spares: usize,
        cpus: Option<Cpus>,
        spins: [Spin; 2],
    ) -> Crew {
        let threads = (0..shards + spares).map(|_| OnceLock::new()).collect();
        let (state, changed) = (Mutex::default(), Condvar::new());
        Crew { threads, shards, name, cpus, spins, state, changed }
    }

    /// Whom doorbells wake.
    pub(super) fn threads(&self) -> &Threads {
        &self.threads
    }

    /// Ends it: from now on threads that come back from a task return, and so does the watcher when
    /// it is called.
    pub(super) fn end(&self) {
        self.lock().is_over = true;
        self.changed.notify_all();
    }

    /// The threads that were started. The caller joins them.
    pub(super) fn take_handles(&self) -> Vec<JoinHandle<()>> {
        std::mem::take(&mut self.lock().handles)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("nothing panics under this lock")
    }

    /// Pins the calling thread, the reaper of `shard`, if reapers are pinned. That of precise
    /// timers is not.
    fn pin<T>(&self, core: &Core<T>, shard: usize) -> io::Result<()> {
        match &self.cpus {
            Some(cpus) if shard < core.shards.len() => cpus.pin_to(shard),
            _ => Ok(()),
        }
    }

    /// Waits until a watcher is needed. Returns `false` if the engine stops: a reaper returns only
    /// then, or if another thread has taken its shard over.
    fn wait_for_watch<T>(&self, core: &Core<T>) -> bool {
        if core.is_stopping() {
            return false;
        }
        let mut state = self.lock();
        while !state.is_over && state.has_watcher {
            state.idle += 1;
            state = wait(&self.changed, &self.state, state);
            state.idle -= 1;
        }
        state.has_watcher = !state.is_over;
        state.has_watcher
    }

    /// Whether the engine stops.
    fn is_over(&self) -> bool {
        self.lock().is_over
    }
}

debug! { impl[] Crew[] { name, shards } }

// === impl Core: the threads ===

impl<T: Send + 'static> Core<T> {
    /// Starts the reaper of a shard, and waits until it is pinned, if it has to be.
    pub(super) fn start_reaper(self: &Arc<Core<T>>, crew: &Crew, shard: usize) -> io::Result<()> {
        let core = self.clone();
        let (report, pinning) = mpsc::sync_channel(1);
        let name = format!("{}-{shard}", crew.name);
        let thread = thread::Builder::new().name(name).spawn(move || {
            let crew = core.crew.as_ref().expect("an engine with threads has a crew");
            let outcome = crew.pin(&core, shard);
            let may_run = outcome.is_ok();
            // The builder waits for this message, so there is a receiver.
            let _ = report.send(outcome);
            if may_run {
                core.serve(crew, shard, Duty::Reap(shard));
            }
        })?;
        // Its doorbell needs it, and so does who calls it when it watches.
        let place = &crew.threads[shard];
        place.set(thread.thread().clone()).expect("a shard has one reaper to begin with");
        crew.lock().handles.push(thread);
        pinning.recv().unwrap_or_else(|_| Err(io::Error::other("the thread ended early")))
    }

    /// Makes an idle thread the watcher, or a new one, unless there is a watcher.
    pub(super) fn make_watcher(self: &Arc<Core<T>>) {
        if let Some(crew) = &self.crew {
            self.ensure_watcher(crew, &mut crew.lock());
        }
    }

    fn ensure_watcher(self: &Arc<Core<T>>, crew: &Crew, state: &mut State) {
        if state.has_watcher {
            return;
        }
        if state.idle > 0 {
            return crew.changed.notify_all();
        }
        let (spare, number) = (state.spares, crew.shards + state.spares);
        if state.is_over || number == crew.threads.len() {
            return;
        }
        let core = self.clone();
        let name = format!("{}-spare{spare}", crew.name);
        let made = thread::Builder::new().name(name).spawn(move || {
            let crew = core.crew.as_ref().expect("an engine with threads has a crew");
            crew.threads[number].set(thread::current()).expect("a spare thread is made once");
            core.serve(crew, number, Duty::Watch);
        });
        match (made, &self.watch) {
            (Ok(thread), _) => {
                state.has_watcher = true;
                state.spares += 1;
                state.handles.push(thread);
            }
            // The system has no memory for it: the next reaper tries again.
            (Err(_), Some(watch)) => watch.publish(NEVER_NS),
            (Err(_), None) => {}
        }
    }

    /// What a thread of the crew does: its first duty, and then whatever comes.
    fn serve(self: &Arc<Core<T>>, crew: &Crew, number: usize, first: Duty) {
        work_for(self.party(), || {
            let mut watches = match first {
                Duty::Watch => true,
                Duty::Reap(shard) => {
                    let (part, index) = self.part(shard);
                    // If a stop comes before the thread has begun, the stopper ends the role.
                    if let Some(role) = part.ending.take(index) {
                        part.reap(index, role, crew.spin(self, shard));
                    }
                    crew.wait_for_watch(self)
                }
            };
            while watches {
                let Some((shard, role)) = self.watch(crew, number) else { return };
                let (part, index) = self.part(shard);
                part.shards[index].doorbell().move_to(number);
                self.ensure_watcher(crew, &mut crew.leave_watch());
                // As good as it was before: the system may refuse.
                let _ = crew.pin(self, shard);
                part.succeed(index, role, crew.spin(self, shard));
                watches = crew.wait_for_watch(self);
            }
        });
    }

    /// Watches until a reaper is stuck, and takes its shard over. `None`: the engine stops.
    fn watch<'a>(&'a self, crew: &Crew, number: usize) -> Option<(usize, Role<'a, T>)> {
        let watch = self.watch.as_ref().expect("there are spare threads only with a watch");
        let mut looks = vec![Look::default(); crew.shards];
        watch.begin(number);
        loop {
            // Only the second look, after the publication, may be followed by a sleep.
            let until_ns = self.look(&mut looks, watch.after_ns());
            let until_ns = until_ns.and_then(|until_ns| {
                watch.publish(until_ns);
                Ok(until_ns.min(self.look(&mut looks, watch.after_ns())?))
            });
            match until_ns {
                Err(taken_over) => {
                    watch.end();
                    return Some(taken_over);
                }
                Ok(_) if crew.is_over() => return None,
                Ok(until_ns) => {
                    let left_ns = until_ns.saturating_sub(self.clock.now_ns());
                    park(Some(Duration::from_nanos(left_ns)).filter(|_| until_ns != NEVER_NS));
                }
            }
        }
    }

    /// Looks at all shards. Returns when to look again; `Err`: this thread has taken one over.
    fn look<'a>(&'a self, looks: &mut [Look], after_ns: u64) -> Result<u64, (usize, Role<'a, T>)> {
        let now_ns = self.clock.now_ns();
        let mut until_ns = NEVER_NS;
        for (shard, look) in looks.iter_mut().enumerate() {
            let (part, index) = self.part(shard);
            let again_ns = match look.at(part.ending.progress(index), now_ns, after_ns) {
                Found::Busy(again_ns) => again_ns,
                Found::Idle => part.wakes_ns(index).max(now_ns).saturating_add(after_ns),
                Found::Stuck(seen, _) => match part.ending.take_over(index, seen) {
                    Some(role) => return Err((shard, role)),
                    None => now_ns.saturating_add(after_ns),
                },
            };
            until_ns = until_ns.min(again_ns);
        }
        Ok(until_ns)
    }
}

impl<T> Core<T> {
    /// Runs turns of a shard until the engine stops, or another thread has taken the shard over.
    fn reap(&self, index: usize, mut role: Role<'_, T>, spin: Spin) {
        let (reaper, in_hand) = self.reaper(index, &mut role);
        reaper::run(&reaper, in_hand, spin);
    }

    /// The same, for a thread that has taken the shard over.
    fn succeed(&self, index: usize, mut role: Role<'_, T>, spin: Spin) {
        self.reaper(index, &mut role).0.succeed();
        self.reap(index, role, spin);
    }

    /// When the reaper of a shard wakes up by itself, if it sleeps.
    fn wakes_ns(&self, index: usize) -> u64 {
        let wakes_at = self.shards[index].doorbell().wakes_at();
        self.scale.start_ns(wakes_at).filter(|_| wakes_at != Tick::NEVER).unwrap_or(NEVER_NS)
    }
}

impl Crew {
    /// How the reaper of a shard waits.
    fn spin<T>(&self, core: &Core<T>, shard: usize) -> Spin {
        self.spins[usize::from(shard >= core.shards.len())].clone()
    }

    /// The calling thread is no longer the watcher.
    fn leave_watch(&self) -> MutexGuard<'_, State> {
        let mut state = self.lock();
        state.has_watcher = false;
        state
    }
}

// === impl Builder ===

impl Builder {
    /// Sets how long a task may keep its shard. After that, a spare thread takes the shard over, so
    /// that no other timer waits for the task. `None`: a shard is never taken over, and a slow task
    /// delays all timers of its shard. Default: 5 ms. Zero is `None`.
    ///
    /// The spare thread goes on where the reaper was: it hands over the rest of the batch, each
    /// payload once and in order, and then runs the shard's turns. The task itself is not touched.
    /// When it returns, its thread is spare, and may take over another shard. (A handler of your
    /// own that takes several payloads out of its batch before it begins keeps those.)
    ///
    /// So after a takeover *two tasks of one shard can run at the same time*. Tasks still begin in
    /// the order of their deadlines' ticks, but a task that takes longer than this, or whose thread
    /// the system does not let run for so long, may end after a later one. Without takeovers, the
    /// tasks of one shard never overlap.
    ///
    /// A task that is the only timer of its shard is left alone until another one is scheduled
    /// there. Otherwise a stuck task is noticed after this time to one and a half times this
    /// time, or two and a half if it is not the first of its batch. Spare threads are made when
    /// they are first needed, and end with the engine. One of them wakes up once per this time,
    /// at most, while timers fire, and not at all while none do. If all
    /// [`spares`](Builder::spares) are busy, further shards are not taken over until one returns.
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
    /// assert_eq!(engine.stats().takeovers, 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn takeover(mut self, after: impl Into<Option<Duration>>) -> Builder {
        self.takeover = after.into().filter(|after| !after.is_zero());
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
