//! The threads of an engine: as many as it needs, and a watcher.
//!
//! The shards form groups (`reaper/group.rs`), mostly one. A thread *leads* each group; others
//! serve shards beside it while there is much to do, or while it is stuck in a task. A thread that
//! is not needed waits here for its next duty, and a thread is made when there is a duty and nobody
//! waits.
//!
//! One thread is the *watcher* (`watching.rs`): it sleeps until a reaper might be stuck in a task.
//! If one is, the watcher takes the shard over, and the lead if the stuck thread had it, and
//! another thread watches. That thread is there before the watcher takes anything over: a watcher
//! that cannot get a thread goes on watching, tells of the task, and tries again. A thread that
//! comes back from its task and finds that it has lost its shard is not needed any more.
//!
//! *Owner*: each thread of the crew; reapers call the watcher.
//!
//! *Invariants*: one thread at a time is the watcher, and there is always one if the engine has a
//! watch; one leads a group. A duty that is given is taken by a thread that waits, or by one that
//! was made for it. What the lock guards is not touched by threads that schedule, cancel or reset.
//!
//! *Orderings*: TAKEOVER, LEAD; everything else is behind the lock.
//!
//! *Tested by*: `tests/races/engine/takeover.rs`, `tests/races/engine/groups.rs`.

use std::cell::Cell;
use std::collections::VecDeque;
use std::io;
use std::mem;
use std::ops::Range;

use crate::dispatch::{Progress, contained, work_to_the_end_for};
use crate::doorbell::Threads;
use crate::os::{Cpus, block_signals};
use crate::reaper::{self, Begin, Group, Spin, StuckTask, StuckThreads};
use crate::sync::{
    Arc, AtomicUsize, Condvar, JoinHandle, Mutex, MutexGuard, Ordering, mpsc, thread, wait,
};

use super::core::{Core, Role};
use super::station::Station;

/// The threads of an engine, and what they agree on.
pub(super) struct Crew {
    settings: Settings,
    /// Whom doorbells wake.
    threads: Threads,
    /// The groups of the engine's shards.
    pub(super) groups: Box<[Home]>,
    /// The threads that have lost their shard, and have not come back.
    stuck: Arc<StuckThreads>,
    /// Threads whose task awaits a timer of the engine: no more than there are spares.
    waiting: AtomicUsize,
    state: Mutex<State>,
    changed: Condvar,
}

/// What a crew keeps to.
pub(super) struct Settings {
    /// The threads' names begin with this.
    pub(super) name: String,
    /// The threads' stacks, unless they have the standard library's size.
    pub(super) stack_size: Option<usize>,
    /// Each thread calls it first.
    pub(super) on_start: Option<Arc<dyn Fn() + Send + Sync>>,
    /// How many threads serve at a time, besides those that are stuck.
    pub(super) reapers: usize,
    /// The CPUs for the leaders, if they are pinned.
    pub(super) cpus: Option<Cpus>,
    /// How leaders wait.
    pub(super) spin: Spin,
    /// From how many tasks that are stuck shards are taken over. Others are only told of.
    pub(super) spares: usize,
}

/// A group, and where its shards are.
pub(super) struct Home {
    pub(super) group: Group,
    /// The numbers of its shards in the engine.
    pub(super) shards: Range<usize>,
}

#[derive(Default)]
pub(super) struct State {
    /// Threads that were made.
    made: usize,
    /// Threads that wait for a duty, or were made to do so.
    idle: usize,
    /// Threads that serve a group, also those that are stuck: they have lost their shard.
    pub(super) serving: usize,
    /// Duties that were given, and that no thread has taken yet.
    duties: VecDeque<Duty>,
    /// Tasks that are stuck, and of which nobody was told yet.
    pub(super) untold: Vec<StuckTask>,
    /// For each shard, the payload at which its reaper is stuck, if somebody was told of that.
    pub(super) told: Vec<Option<Progress>>,
    is_over: bool,
    handles: Vec<JoinHandle<()>>,
}

/// What a thread of the crew has to do.
#[derive(Clone, Copy)]
pub(super) enum Duty {
    Lead(usize),
    Watch,
}

thread_local! {
    /// Whether this thread of a crew is among those whose task awaits a timer of their engine.
    static WAITS: Cell<bool> = const { Cell::new(false) };
}

// === impl Crew ===

impl Crew {
    /// The crew of an engine whose shards form these groups. It has no thread yet.
    pub(super) fn new(
        settings: Settings,
        threads: Threads,
        groups: Box<[Home]>,
        stuck: Arc<StuckThreads>,
    ) -> Crew {
        debug_assert!(threads.len() >= groups.len(), "each group has a leader");
        let shards = groups.last().map_or(0, |home| home.shards.end);
        let state = Mutex::new(State { told: vec![None; shards], ..State::default() });
        let (waiting, changed) = (AtomicUsize::new(0), Condvar::new());
        Crew { settings, threads, groups, stuck, waiting, state, changed }
    }

    /// Whether another shard may be taken over from a task that is stuck.
    pub(super) fn may_take_over(&self) -> bool {
        self.stuck.iter().count() < self.settings.spares
    }

    /// Whether the task that the calling thread runs, one of the engine's, may await a timer of the
    /// engine: of the threads that do, each needs a spare that takes its shard over. Counts the
    /// thread among them until [`waits_no_more`](Crew::waits_no_more).
    pub(super) fn may_wait(&self) -> bool {
        let one_more = |waiting| Some(waiting + 1).filter(|&all| all <= self.settings.spares);
        // ORDER: Relaxed - a count; that it is bounded takes no order with anything else.
        let add = || self.waiting.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_more);
        WAITS.get() || self.may_take_over() && add().inspect(|_| WAITS.set(true)).is_ok()
    }

    /// The calling thread has returned from the tasks that it ran.
    #[inline]
    pub(super) fn waits_no_more(&self) {
        if WAITS.take() {
            // ORDER: Relaxed - as in `may_wait`.
            self.waiting.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// Ends it: from now on threads that have nothing to do return, and so does the watcher when it
    /// is called.
    pub(super) fn end(&self) {
        self.lock().is_over = true;
        self.changed.notify_all();
    }

    /// The threads that were started. The caller joins them.
    pub(super) fn take_handles(&self) -> Vec<JoinHandle<()>> {
        mem::take(&mut self.lock().handles)
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("nothing panics under this lock")
    }

    /// Pins the calling thread, the leader of this group, if leaders are pinned.
    fn pin(&self, group: usize) -> io::Result<()> {
        self.settings.cpus.as_ref().map_or(Ok(()), |cpus| cpus.pin_to(group))
    }

    /// Waits for a duty. `None`: the engine stops.
    fn wait_for_duty(&self) -> Option<Duty> {
        let mut state = self.lock();
        while !state.is_over && state.duties.is_empty() {
            state.idle += 1;
            state = wait(&self.changed, &self.state, state);
            state.idle -= 1;
        }
        if state.is_over { None } else { state.duties.pop_front() }
    }

    /// Gives a duty to a thread that waits.
    pub(super) fn give_to_idle(&self, state: &mut State, duty: Duty) {
        debug_assert!(state.idle > state.duties.len(), "nobody waits");
        state.duties.push_back(duty);
        self.changed.notify_one();
    }

    /// Whether another thread may serve beside those that do.
    pub(super) fn has_room(&self, state: &State) -> bool {
        state.serving < self.settings.reapers + self.stuck.iter().count()
    }

    /// The threads that have lost their shard, and have not come back.
    pub(super) fn stuck(&self) -> &StuckThreads {
        &self.stuck
    }

    /// The number of the thread that serves a shard of the engine, or that served it last.
    pub(super) fn server(&self, shard: usize) -> usize {
        let group = self.groups.partition_point(|home| home.shards.end <= shard);
        let home = &self.groups[group];
        home.group.server(shard - home.shards.start)
    }

    /// The name of a thread.
    pub(super) fn name_of(&self, number: usize) -> String {
        let thread = self.threads[number].get();
        thread.and_then(|thread| thread.name()).unwrap_or_default().to_owned()
    }

    /// Whether the engine stops.
    pub(super) fn is_over(&self) -> bool {
        self.lock().is_over
    }
}

debug! { impl[] Crew[] { name = |this| this.settings.name, groups = |this| this.groups.len() } }

// === impl Core: the threads ===

impl<T: Send + 'static> Core<T> {
    /// Starts the leader of a group, and waits until it is pinned, if it has to be.
    pub(super) fn start_leader(self: &Arc<Core<T>>, crew: &Crew, group: usize) -> io::Result<()> {
        let (report, pinning) = mpsc::sync_channel(1);
        let mut state = crew.lock();
        state.serving += 1;
        let number = self.start(crew, &mut state, Some(Duty::Lead(group)), move |outcome| {
            // The builder waits for this message, so there is a receiver.
            let _ = report.send(outcome);
        })?;
        debug_assert_eq!(number, group, "its doorbell rings for this thread to begin with");
        drop(state);
        pinning.recv().unwrap_or_else(|_| Err(io::Error::other("the thread ended early")))
    }

    /// Starts the watcher.
    pub(super) fn start_watcher(self: &Arc<Core<T>>, crew: &Crew) -> io::Result<()> {
        self.start(crew, &mut crew.lock(), Some(Duty::Watch), |_| ()).map(drop)
    }

    /// Makes a thread for a duty, or one that waits for duties, and returns its number. It tells
    /// `tell` whether it could be pinned, if it has to be, and does nothing if not.
    fn start(
        self: &Arc<Core<T>>,
        crew: &Crew,
        state: &mut State,
        duty: Option<Duty>,
        tell: impl FnOnce(io::Result<()>) + Send + 'static,
    ) -> io::Result<usize> {
        let (core, number) = (self.clone(), state.made);
        let name = format!("{}-{number}", crew.settings.name);
        let mut builder = thread::Builder::new().name(name);
        if let Some(size) = crew.settings.stack_size {
            builder = builder.stack_size(size);
        }
        let _blocked = block_signals();
        let thread = builder.spawn(move || {
            let crew = core.crew.as_ref().expect("an engine with threads has a crew");
            if let Some(on_start) = &crew.settings.on_start {
                contained(|| on_start());
            }
            // Before a doorbell or a call may need it: the thread answers neither yet.
            crew.threads[number].set(thread::current()).expect("a thread is made once");
            let outcome = match duty {
                Some(Duty::Lead(group)) => crew.pin(group),
                Some(Duty::Watch) | None => Ok(()),
            };
            let may_run = outcome.is_ok();
            tell(outcome);
            if may_run {
                core.work(crew, number, duty);
            }
        })?;
        state.made += 1;
        state.idle += usize::from(duty.is_none());
        state.handles.push(thread);
        Ok(number)
    }

    /// Gives a duty to a thread that waits, or to a new one. `false`: there are as many threads as
    /// there may be, or the system has no memory for one.
    pub(super) fn give(self: &Arc<Core<T>>, crew: &Crew, state: &mut State, duty: Duty) -> bool {
        if state.is_over {
            return false;
        }
        if state.idle > state.duties.len() {
            crew.give_to_idle(state, duty);
            return true;
        }
        let may_make = state.made < crew.threads.len();
        may_make && self.start(crew, state, Some(duty), |_| ()).is_ok()
    }

    /// Sees to it that a thread waits for a duty. `false`: as for `give`.
    pub(super) fn have_idle(self: &Arc<Core<T>>, crew: &Crew, state: &mut State) -> bool {
        if state.is_over || state.idle > state.duties.len() {
            return !state.is_over;
        }
        let may_make = state.made < crew.threads.len();
        may_make && self.start(crew, state, None, |_| ()).is_ok()
    }

    /// What a thread of the crew does: its first duty, and then whatever comes.
    fn work(self: &Arc<Core<T>>, crew: &Crew, number: usize, first: Option<Duty>) {
        work_to_the_end_for(self.party(), || {
            let mut duty = first.or_else(|| {
                crew.lock().idle -= 1;
                crew.wait_for_duty()
            });
            while let Some(now) = duty {
                match now {
                    Duty::Lead(group) => self.lead(crew, number, group),
                    Duty::Watch => self.watch_and_succeed(crew, number),
                }
                duty = crew.wait_for_duty();
            }
        });
    }

    /// Leads a group that has no leader, for as long as the thread is needed there.
    fn lead(self: &Arc<Core<T>>, crew: &Crew, number: usize, group: usize) {
        let is_first = crew.groups[group].group.lead().take(number);
        debug_assert!(is_first, "two threads are to lead");
        self.serve(crew, number, group, Begin::Lead);
    }

    pub(super) fn serve(
        self: &Arc<Core<T>>,
        crew: &Crew,
        number: usize,
        group: usize,
        begin: Begin<Role<'_, T>>,
    ) {
        // As good as it was before: the system may refuse.
        let _ = crew.pin(group);
        let station = Station::new(self, crew, group, number);
        reaper::serve(&station, begin, crew.settings.spin.clone());
        crew.lock().serving -= 1;
    }
}
