//! The watcher: a thread of the crew that sleeps until a reaper might be stuck, and then takes its
//! place.
//!
//! *Owner*: one thread at a time; any thread calls it (`reaper/watch.rs`).
//!
//! *Orderings*: TAKEOVER, LEAD.
//!
//! *Tested by*: `tests/takeover.rs`, `tests/groups.rs`.

use std::mem;
use std::time::Duration;

use crate::reaper::{Begin, Found, Look, NEVER_NS, StuckTask};
use crate::sync::{Arc, park};
use crate::time::Tick;

use super::core::{Core, Role};
use super::crew::{Crew, Home};

/// What a watcher finds in the end.
struct Taken<'a, T> {
    /// The group that it serves from now on.
    group: usize,
    begin: Begin<Role<'a, T>>,
    /// The task in whose place it is.
    task: StuckTask,
}

impl<T: Send + 'static> Core<T> {
    /// Watches until a reaper is stuck, and takes its place. Returns when the thread is not needed
    /// any more.
    pub(super) fn watch_and_succeed(self: &Arc<Core<T>>, crew: &Crew, number: usize) {
        let Some(Taken { group, begin, task }) = self.watch(crew, number) else { return };
        let mut state = crew.lock();
        state.untold.push(task);
        state.has_watcher = false;
        state.serving += 1;
        self.ensure_watcher(crew, &mut state);
        drop(state);
        self.serve(crew, number, group, begin);
    }

    /// Watches until a reaper is stuck, and takes its shard over. Returns the group that the thread
    /// serves now; `None`: the engine stops.
    fn watch<'a>(&'a self, crew: &Crew, number: usize) -> Option<Taken<'a, T>> {
        let watch = self.watch.as_ref().expect("there is a watcher only with a watch");
        let mut looks = vec![Look::default(); self.all_shards()];
        self.tell(crew);
        watch.begin(number);
        loop {
            // Only the second look, after the publication, may be followed by a sleep.
            let until_ns = self.look(crew, number, &mut looks);
            let until_ns = until_ns.and_then(|until_ns| {
                watch.publish(until_ns);
                Ok(until_ns.min(self.look(crew, number, &mut looks)?))
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
    fn look<'a>(
        &'a self,
        crew: &Crew,
        number: usize,
        looks: &mut [Look],
    ) -> Result<u64, Taken<'a, T>> {
        let now_ns = self.clock.now_ns();
        let mut until_ns = NEVER_NS;
        for (group, home) in crew.groups.iter().enumerate() {
            for (index, shard) in home.shards.clone().enumerate() {
                match self.look_at(home, index, now_ns, number, &mut looks[shard]) {
                    Ok(again_ns) => until_ns = until_ns.min(again_ns),
                    Err((begin, since_ns)) => {
                        let server = crew.name_of(home.group.server(index));
                        let task = self.stuck_task(shard, server, since_ns);
                        return Err(Taken { group, begin, task });
                    }
                }
            }
        }
        Ok(until_ns)
    }

    /// Looks at shard `index` of a group.
    fn look_at<'a>(
        &'a self,
        home: &Home,
        index: usize,
        now_ns: u64,
        number: usize,
        look: &mut Look,
    ) -> Result<u64, (Begin<Role<'a, T>>, u64)> {
        let (part, shard) = self.part(home.shards.start + index);
        let after_ns = self.watch.as_ref().map_or(NEVER_NS, |watch| watch.after_ns());
        let soon_ns = now_ns.saturating_add(after_ns);
        match look.at(part.ending.progress(shard), now_ns, after_ns) {
            Found::Busy(again_ns) => Ok(again_ns),
            Found::Idle => Ok(part.wakes_ns(shard).max(now_ns).saturating_add(after_ns)),
            Found::Stuck(seen, since_ns) => match part.ending.take_over(shard, seen) {
                Some(role) => {
                    let leads = home.group.take_lead_from(index, number);
                    Err((Begin::Succeed { index, role, leads }, since_ns))
                }
                None => Ok(soon_ns),
            },
        }
    }

    fn stuck_task(&self, shard: usize, thread: String, since_ns: u64) -> StuckTask {
        let since = self.clock.instant_at(since_ns).unwrap_or_else(|| self.instant_now());
        StuckTask { shard, thread, since }
    }

    /// Tells of the tasks that are stuck. A watcher does this, which keeps no timer.
    fn tell(&self, crew: &Crew) {
        let untold = mem::take(&mut crew.lock().untold);
        for task in untold {
            let (part, index) = self.part(task.shard);
            part.observers[index].stuck(&task);
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
