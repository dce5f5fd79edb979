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
//! The crew knows the engine's core, and the core does not know the crew.
//!
//! *Owner*: each thread of the crew; reapers call the watcher.
//!
//! *Invariants*: one thread at a time is the watcher, and there is always one if the engine has a
//! watch (which may still begin, or tell of a task); one leads a group. A duty that is given is
//! taken by a thread that waits, or by one that was made for it. What the lock guards is not
//! touched by threads that schedule, cancel or reset.
//!
//! *Orderings*: TAKEOVER, LEAD; everything else is behind the lock.
//!
//! *Tested by*: `tests/races/engine/takeover.rs`, `tests/races/engine/groups.rs`.

use std::collections::VecDeque;
use std::io;
use std::mem;

use crate::dispatch::{InHand, Progress, contained, work_to_the_end_for};
use crate::os::{Cpus, block_signals};
use crate::reaper::{Serve, Server, Spin, StuckTask, TurnContext};
use crate::sync::{Arc, Condvar, JoinHandle, Mutex, MutexGuard, mpsc, thread, wait};

use super::core::{Core, Role};

/// The threads of an engine, and what they agree on.
pub(super) struct Crew<T> {
    /// What they serve.
    pub(super) core: Arc<Core<T>>,
    settings: Settings,
    // LOCK(CREW): engine: is_over, wait_for_duty, work, serve_group, find_leader,
    // watching.rs::succeed, watching.rs::report_stuck; stopper: end, take_handles; caller: start;
    // through: lock.
    state: Mutex<State>,
    changed: Condvar,
}

/// One of the threads.
pub(super) struct Member<T> {
    pub(super) crew: Arc<Crew<T>>,
    /// The thread's number.
    pub(super) number: usize,
}

/// What a crew keeps to.
pub(super) struct Settings {
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
    /// Tasks that are stuck, and were not reported yet.
    pub(super) unreported: Vec<StuckTask>,
    /// For each shard, the payload at which its reaper is stuck, if that was reported.
    pub(super) reported: Vec<Option<Progress>>,
    handles: Vec<JoinHandle<()>>,
}

/// What a thread of the crew has to do.
#[derive(Clone, Copy)]
pub(super) enum Duty {
    /// Leads this group, which has no leader.
    Lead(usize),
    Watch,
}

// === impl Crew ===

impl<T: Send + 'static> Crew<T> {
    /// The crew of an engine. It has no thread yet.
    pub(super) fn new(core: Arc<Core<T>>, settings: Settings) -> Arc<Crew<T>> {
        debug_assert!(core.threads >= core.groups.len(), "each group has a leader");
        let state = State { reported: vec![None; core.shards.len()], ..State::default() };
        Arc::new(Crew { core, settings, state: Mutex::new(state), changed: Condvar::new() })
    }

    /// Starts the leaders of all groups and, if there is a watch, the watcher. Waits until the
    /// leaders are pinned, if they have to be.
    pub(super) fn start(self: &Arc<Crew<T>>) -> io::Result<()> {
        for group in 0..self.core.groups.len() {
            let (report, pinned) = mpsc::sync_channel(1);
            let mut state = self.lock();
            state.serving += 1;
            self.make(&mut state, Some(Duty::Lead(group)), Some(report))?;
            drop(state);
            pinned.recv().unwrap_or_else(|_| Err(io::Error::other("the thread ended early")))?;
        }
        match &self.core.watch {
            Some(_) => self.make(&mut self.lock(), Some(Duty::Watch), None),
            None => Ok(()),
        }
    }

    /// Ends it, once the engine is stopping: threads that have nothing to do return, and so does
    /// the watcher.
    pub(super) fn end(&self) {
        debug_assert!(self.core.is_stopping(), "threads look whether it is");
        // Who has the lock before this waits by then, or has begun to watch; who has it later sees
        // that the engine is stopping.
        drop(self.lock());
        self.changed.notify_all();
        self.core.watch.iter().for_each(|watch| watch.call());
    }

    /// Whether it has ended, or is about to.
    pub(super) fn is_over(&self) -> bool {
        let _after_or_before_end = self.lock();
        self.core.is_stopping()
    }

    /// The threads that were started. The caller joins them.
    pub(super) fn take_handles(&self) -> Vec<JoinHandle<()>> {
        mem::take(&mut self.lock().handles)
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("nothing panics under this lock")
    }

    /// Gives a duty to a thread that waits, or to a new one. `false`: there are as many threads as
    /// there may be, the system has no memory for one, or the engine is stopping.
    fn give(self: &Arc<Crew<T>>, state: &mut State, duty: Duty) -> bool {
        if self.core.is_stopping() {
            return false;
        }
        if state.idle > state.duties.len() {
            self.give_to_idle(state, duty);
            return true;
        }
        self.may_make(state) && self.make(state, Some(duty), None).is_ok()
    }

    /// Gives a duty to a thread that waits.
    pub(super) fn give_to_idle(&self, state: &mut State, duty: Duty) {
        debug_assert!(state.idle > state.duties.len(), "nobody waits");
        state.duties.push_back(duty);
        self.changed.notify_one();
    }

    /// Sees to it that a thread waits for a duty. `false`: as for `give`.
    pub(super) fn have_idle(self: &Arc<Crew<T>>, state: &mut State) -> bool {
        if self.core.is_stopping() || state.idle > state.duties.len() {
            return !self.core.is_stopping();
        }
        self.may_make(state) && self.make(state, None, None).is_ok()
    }

    fn may_make(&self, state: &State) -> bool {
        state.made < self.core.threads
    }

    /// Makes a thread for a duty, or one that waits for duties: see [`Member::begin`].
    fn make(
        self: &Arc<Crew<T>>,
        state: &mut State,
        duty: Option<Duty>,
        report: Option<mpsc::SyncSender<io::Result<()>>>,
    ) -> io::Result<()> {
        let (crew, number) = (self.clone(), state.made);
        let mut builder = thread::Builder::new().name(self.core.name_of(number));
        if let Some(size) = self.settings.stack_size {
            builder = builder.stack_size(size);
        }
        let _blocked = block_signals();
        let thread = builder.spawn(move || {
            work_to_the_end_for(crew.core.party(), || Member { crew, number }.begin(duty, report));
        })?;
        state.made += 1;
        state.idle += usize::from(duty.is_none());
        state.handles.push(thread);
        Ok(())
    }

    /// Waits for a duty. `None`: the engine stops.
    fn wait_for_duty(&self) -> Option<Duty> {
        let mut state = self.lock();
        while !self.core.is_stopping() && state.duties.is_empty() {
            state.idle += 1;
            state = wait(&self.changed, &self.state, state);
            state.idle -= 1;
        }
        if self.core.is_stopping() { None } else { state.duties.pop_front() }
    }

    /// Pins the calling thread, the leader of this group, if leaders are pinned.
    fn pin(&self, group: usize) -> io::Result<()> {
        self.settings.cpus.as_ref().map_or(Ok(()), |cpus| cpus.pin_to(group))
    }
}

debug! { impl[T] Crew[T] { name = |this| this.core.thread_name } }

// === impl Member ===

impl<T: Send + 'static> Member<T> {
    /// What the thread does from its beginning on. With `report`, it says there whether it could
    /// be pinned, if it has to be, and returns if not.
    fn begin(&self, first: Option<Duty>, report: Option<mpsc::SyncSender<io::Result<()>>>) {
        let crew = &self.crew;
        if let Some(on_start) = &crew.settings.on_start {
            contained(|| on_start());
        }
        if let Some((report, Duty::Lead(group))) = report.zip(first) {
            let outcome = crew.pin(group);
            let is_pinned = outcome.is_ok();
            // The builder waits for this message, so there is a receiver.
            let _ = report.send(outcome);
            if !is_pinned {
                return;
            }
        }
        self.work(first);
    }

    /// Its first duty, and then whatever comes.
    fn work(&self, first: Option<Duty>) {
        let crew = &self.crew;
        let mut duty = first.or_else(|| {
            crew.lock().idle -= 1;
            crew.wait_for_duty()
        });
        while let Some(now) = duty {
            match now {
                Duty::Lead(group) => self.serve_group(group, Server::lead),
                Duty::Watch => self.watch_and_succeed(),
            }
            duty = crew.wait_for_duty();
        }
    }

    /// Serves a group, as `begin` does. The thread was counted as one that serves.
    pub(super) fn serve_group<'a>(
        &'a self,
        group: usize,
        begin: impl FnOnce(Server<'a, Member<T>>),
    ) {
        let crew = &self.crew;
        // As good as it was before: the system may refuse.
        let _ = crew.pin(group);
        let Core { groups, clock, scale, watch, .. } = &*crew.core;
        let (time, spin) = ((clock, *scale), crew.settings.spin.clone());
        begin(Server::new(self, &groups[group], self.number, time, watch.as_deref(), spin));
        crew.lock().serving -= 1;
    }
}

impl<T: Send + 'static> Serve for Member<T> {
    type Payload = T;
    type Role<'a> = Role<'a, T>;

    fn is_stopping(&self) -> bool {
        self.crew.core.is_stopping()
    }

    fn take_role(&self, shard: usize) -> Option<Role<'_, T>> {
        self.crew.core.ending.try_take_role(shard)
    }

    fn run<R>(
        &self,
        shard: usize,
        role: &mut Role<'_, T>,
        f: impl FnOnce(&TurnContext<'_, T>, &mut InHand<T>) -> R,
    ) -> R {
        let (context, in_hand) = self.crew.core.turn_context(shard, role);
        self.crew.core.in_turns(self.number, || f(&context, in_hand))
    }

    fn find_leader(&self, group: usize) -> bool {
        let crew = &self.crew;
        // A leader waits for no other thread: it keeps the lead, and asks again.
        let Ok(mut state) = crew.state.try_lock() else { return false };
        let has_room = state.serving < crew.settings.reapers + crew.core.stuck.iter().count();
        let is_found = has_room && crew.give(&mut state, Duty::Lead(group));
        state.serving += usize::from(is_found);
        is_found
    }
}
