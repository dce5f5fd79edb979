//! The watcher: a thread of the crew that sleeps until a reaper might be stuck, and then takes its
//! place. The next watcher reports the task, unless it was reported before. If the shard is not
//! taken over, the watcher reports it itself: takeovers were ruled out, no thread is to spare, or
//! the system makes no thread or refuses to fence. Then it looks again after the time that a task
//! may take, for the next task of the same batch may be stuck as well, and when another thread has
//! come back.
//!
//! *Owner*: one thread at a time; any thread calls it (`reaper/watch.rs`).
//!
//! *Orderings*: TAKEOVER, LEAD.
//!
//! *Tested by*: `tests/races/engine/takeover.rs`, `tests/races/engine/groups.rs`.

use std::mem;
use std::time::Duration;

use crate::dispatch::Progress;
use crate::reaper::{Found, Group, NEVER_NS};
use crate::time::Tick;

use super::core::{Core, Role};
use super::crew::{Duty, Member};

/// A thread that watches, and what it keeps in mind from look to look.
struct Watcher<'a, T> {
    thread: &'a Member<T>,
    /// A shard was busy when it looked.
    saw_busy: bool,
    /// It looks again after the next wake-up of reapers that are idle. Otherwise they call it.
    stays: bool,
}

/// What a watcher has taken from a thread that is stuck: the role of a shard, of this index in its
/// group, and the lead, if that thread had lent it.
struct TakenShard<'a, T> {
    group: usize,
    index: usize,
    role: Role<'a, T>,
    leads: bool,
}

impl<T: Send + 'static> Member<T> {
    /// Watches until a reaper is stuck, and takes its place. Returns when the thread is not needed
    /// any more.
    pub(super) fn watch_and_succeed(&self) {
        let watcher = Watcher { thread: self, saw_busy: false, stays: false };
        if let Some(TakenShard { group, index, role, leads }) = watcher.watch() {
            self.serve_group(group, |server| server.succeed(index, role, leads));
        }
    }
}

// === impl Watcher ===

impl<'a, T: Send + 'static> Watcher<'a, T> {
    /// Watches until a reaper is stuck, and takes its shard over. `None`: the engine stops.
    fn watch(mut self) -> Option<TakenShard<'a, T>> {
        let core = &self.thread.crew.core;
        let watch = core.watch.as_ref().expect("there is a watcher only with a watch");
        self.report_stuck();
        loop {
            // A hand-over that was under way when it looked before was noted then.
            let goes_on = mem::take(&mut self.saw_busy) && self.stays;
            self.stays = watch.was_wanted() || goes_on;
            // Only the second look, after the publication, may be followed by a sleep.
            let until_ns = self.look().and_then(|until_ns| {
                watch.publish(until_ns);
                Ok(until_ns.min(self.look()?))
            });
            match until_ns {
                Err(taken) => return Some(taken),
                Ok(_) if self.thread.crew.is_over() => return None,
                Ok(NEVER_NS) => watch.sleep(None),
                Ok(until_ns) => {
                    let left_ns = until_ns.saturating_sub(core.clock.now_ns());
                    watch.sleep(Some(Duration::from_nanos(left_ns)));
                }
            }
        }
    }

    /// Looks at all shards. Returns when to look again; `Err`: this thread has taken one over.
    fn look(&mut self) -> Result<u64, TakenShard<'a, T>> {
        let core = &self.thread.crew.core;
        let after_ns = core.stuck_after_ns;
        let mut until_ns = NEVER_NS;
        for group in &core.groups {
            for (index, shard) in group.shards.clone().enumerate() {
                let again_ns = match core.ending.look(shard, &core.clock, after_ns).0 {
                    Found::Busy(again_ns) => {
                        self.saw_busy = true;
                        again_ns
                    }
                    Found::Idle if !self.stays => NEVER_NS,
                    Found::Idle => {
                        let soon_ns = core.clock.now_ns().saturating_add(after_ns);
                        core.wakes_ns(shard).saturating_add(after_ns).max(soon_ns)
                    }
                    Found::Stuck(seen, since_ns) => {
                        if let Some(taken) = self.succeed(group, index, seen, since_ns) {
                            return Err(taken);
                        }
                        core.clock.now_ns().saturating_add(after_ns)
                    }
                };
                until_ns = until_ns.min(again_ns);
            }
        }
        Ok(until_ns)
    }

    /// Takes shard `index` of a group over, if the task there is still the one that was `seen`,
    /// which has run since `since_ns`; another thread watches from then on. If that cannot be done,
    /// tells of the task.
    fn succeed(
        &self,
        group: &Group,
        index: usize,
        seen: Progress,
        since_ns: u64,
    ) -> Option<TakenShard<'a, T>> {
        let (crew, core) = (&self.thread.crew, &self.thread.crew.core);
        let shard = group.shards.start + index;
        let task = || core.stuck_task(shard, group.server(index), since_ns);
        let mut state = crew.lock();
        // Under the lock, so that the thread that watches from then on is still there.
        let may_take = core.may_take_over() && crew.have_idle(&mut state);
        let mut leads = false;
        // A thread that knows of its loss may lead again, and lend that for another turn.
        let lost = || {
            group.begin_stuck(index, since_ns);
            leads = group.take_lead_from(index, self.thread.number);
        };
        let role = may_take.then(|| core.ending.take_over(shard, seen, lost));
        if let Some(role) = role.flatten() {
            // (The new holder begins to count anew.)
            if state.reported[shard].take() != Some(seen.payload()) {
                state.unreported.push(task());
            }
            core.watch.iter().for_each(|watch| watch.end());
            crew.give_to_idle(&mut state, Duty::Watch);
            state.serving += 1;
            drop(state);
            return Some(TakenShard { group: group.number, index, role, leads });
        }
        let is_there = core.ending.progress(shard).map(Progress::payload) == Some(seen.payload());
        if is_there && state.reported[shard].replace(seen.payload()) != Some(seen.payload()) {
            drop(state);
            core.observers[shard].stuck(&task());
        }
        None
    }

    /// Reports the tasks that are stuck. The watcher does this, since a slow callback delays no
    /// timer there.
    fn report_stuck(&self) {
        let unreported = mem::take(&mut self.thread.crew.lock().unreported);
        for task in unreported {
            self.thread.crew.core.observers[task.shard].stuck(&task);
        }
    }
}

impl<T> Core<T> {
    /// When the reaper of a shard wakes up by itself, if it sleeps.
    fn wakes_ns(&self, index: usize) -> u64 {
        let wakes_at = self.shards[index].doorbell().wakes_at();
        self.scale.start_ns(wakes_at).filter(|_| wakes_at != Tick::NEVER).unwrap_or(NEVER_NS)
    }
}
