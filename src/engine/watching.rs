//! The watcher: a thread of the crew that sleeps until a reaper might be stuck, and then takes its
//! place; or tells that it is, if the shard is not taken over. It is not if that was ruled out, if
//! no thread is to spare, or if the system makes no thread or does not fence. The watcher then
//! looks again when the task has been stuck for twice as long, but a second later at most, and when
//! another thread has come back.
//!
//! *Owner*: one thread at a time; any thread calls it (`reaper/watch.rs`).
//!
//! *Orderings*: TAKEOVER, LEAD.
//!
//! *Tested by*: `tests/races/engine/takeover.rs`, `tests/races/engine/groups.rs`.

use std::mem;
use std::time::Duration;

use crate::dispatch::Progress;
use crate::reaper::{Begin, Found, NEVER_NS, StuckTask, again_after_ns};
use crate::sync::Arc;
use crate::time::Tick;

use super::core::{Core, Role};
use super::crew::{Crew, Duty, Home};

/// What a watcher keeps in mind from look to look.
struct Mind {
    /// A shard was busy when it looked.
    saw_busy: bool,
    /// It looks again after the next wake-up of reapers that are idle. Otherwise they call it.
    stays: bool,
}

/// What a watcher finds in the end.
struct Taken<'a, T> {
    /// The group that it serves from now on.
    group: usize,
    begin: Begin<Role<'a, T>>,
}

impl<T: Send + 'static> Core<T> {
    /// Watches until a reaper is stuck, and takes its place. Returns when the thread is not needed
    /// any more.
    pub(super) fn watch_and_succeed(self: &Arc<Core<T>>, crew: &Crew, number: usize) {
        if let Some(Taken { group, begin }) = self.watch(crew, number) {
            self.serve(crew, number, group, begin);
        }
    }

    /// Watches until a reaper is stuck, and takes its shard over. Returns the group that the thread
    /// serves now; `None`: the engine stops.
    fn watch<'a>(self: &'a Arc<Core<T>>, crew: &Crew, number: usize) -> Option<Taken<'a, T>> {
        let watch = self.watch.as_ref().expect("there is a watcher only with a watch");
        let mut mind = Mind { saw_busy: false, stays: false };
        self.tell(crew);
        watch.begin(number);
        loop {
            // A callback may have awaited a timer.
            crew.waits_no_more();
            // A hand-over that was under way when it looked before was noted then.
            let goes_on = mem::take(&mut mind.saw_busy) && mind.stays;
            mind.stays = watch.was_wanted() || goes_on;
            // Only the second look, after the publication, may be followed by a sleep.
            let until_ns = self.look(crew, number, &mut mind);
            let until_ns = until_ns.and_then(|until_ns| {
                watch.publish(until_ns);
                Ok(until_ns.min(self.look(crew, number, &mut mind)?))
            });
            match until_ns {
                Err(taken_over) => return Some(taken_over),
                Ok(_) if crew.is_over() => return None,
                Ok(until_ns) => {
                    let left_ns = until_ns.saturating_sub(self.clock.now_ns());
                    watch.sleep(
                        Some(Duration::from_nanos(left_ns)).filter(|_| until_ns != NEVER_NS),
                    );
                }
            }
        }
    }

    /// Looks at all shards. Returns when to look again; `Err`: this thread has taken one over.
    fn look<'a>(
        self: &'a Arc<Core<T>>,
        crew: &Crew,
        number: usize,
        mind: &mut Mind,
    ) -> Result<u64, Taken<'a, T>> {
        let mut until_ns = NEVER_NS;
        for (group, home) in crew.groups.iter().enumerate() {
            for (index, shard) in home.shards.clone().enumerate() {
                let soon_ns = || self.clock.now_ns().saturating_add(self.stuck_after_ns);
                let again_ns = match self.ending.look(shard, &self.clock, self.stuck_after_ns) {
                    Found::Busy(again_ns) => {
                        mind.saw_busy = true;
                        again_ns
                    }
                    Found::Idle if !mind.stays => NEVER_NS,
                    Found::Idle => {
                        self.wakes_ns(shard).saturating_add(self.stuck_after_ns).max(soon_ns())
                    }
                    Found::Stuck(seen, since_ns) => {
                        let seen = (seen, since_ns);
                        if let Some(begin) = self.succeed(crew, home, index, number, seen) {
                            return Err(Taken { group, begin });
                        }
                        let now_ns = self.clock.now_ns();
                        let stuck_ns = now_ns.saturating_sub(since_ns);
                        now_ns.saturating_add(again_after_ns(stuck_ns, self.stuck_after_ns))
                    }
                };
                until_ns = until_ns.min(again_ns);
            }
        }
        Ok(until_ns)
    }

    /// Takes shard `index` of a group over for thread `number`, the watcher, if the task there is
    /// still the one that was seen, which has run since then; another thread watches from then on.
    /// If that cannot be done, tells of the task.
    fn succeed<'a>(
        self: &'a Arc<Core<T>>,
        crew: &Crew,
        home: &Home,
        index: usize,
        number: usize,
        (seen, since_ns): (Progress, u64),
    ) -> Option<Begin<Role<'a, T>>> {
        let shard = home.shards.start + index;
        let server = home.group.server(index);
        let task = || self.stuck_task(shard, Some(server), since_ns);
        let mut state = crew.lock();
        let lost = || home.group.begin_stuck(index, shard, since_ns);
        // Under the lock, so that the thread that watches from then on is still there.
        let may_take = crew.may_take_over() && self.have_idle(crew, &mut state);
        let role = may_take.then(|| self.ending.take_over(shard, seen, lost));
        if let Some(role) = role.flatten() {
            // (The new holder begins to count anew.)
            if state.told[shard].take() != Some(seen.payload()) {
                state.untold.push(task());
            }
            self.watch.iter().for_each(|watch| watch.end());
            crew.give_to_idle(&mut state, Duty::Watch);
            state.serving += 1;
            drop(state);
            let leads = home.group.take_lead_from(index, number);
            return Some(Begin::Succeed { index, role, leads });
        }
        let is_there = self.ending.progress(shard).map(Progress::payload) == Some(seen.payload());
        if is_there && state.told[shard].replace(seen.payload()) != Some(seen.payload()) {
            drop(state);
            self.observers[shard].stuck(&task());
        }
        None
    }

    /// Tells of the tasks that are stuck. A watcher does this, which keeps no timer.
    fn tell(&self, crew: &Crew) {
        let untold = mem::take(&mut crew.lock().untold);
        for task in untold {
            self.observers[task.shard].stuck(&task);
        }
    }
}

impl<T> Core<T> {
    /// The task that has run in a shard of the engine since `since_ns`, on this thread of it.
    pub(super) fn stuck_task(
        &self,
        shard: usize,
        server: Option<usize>,
        since_ns: u64,
    ) -> StuckTask {
        let since = self.clock.instant_at(since_ns).unwrap_or_else(|| self.instant_now());
        let name = self.crew.as_ref().zip(server).map(|(crew, server)| crew.name_of(server));
        let age = Duration::from_nanos(self.clock.now_ns().saturating_sub(since_ns));
        StuckTask::new(shard, name.unwrap_or_default(), since, age)
    }

    /// When the reaper of a shard wakes up by itself, if it sleeps.
    fn wakes_ns(&self, index: usize) -> u64 {
        let wakes_at = self.shards[index].doorbell().wakes_at();
        self.scale.start_ns(wakes_at).filter(|_| wakes_at != Tick::NEVER).unwrap_or(NEVER_NS)
    }
}
