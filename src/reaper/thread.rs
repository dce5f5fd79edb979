//! The reaper's thread: turns, and exact sleeps between them.
//!
//! *Orderings*: DOORBELL. The thread publishes its wake-up time, then looks at the notices once
//! more, and only then sleeps. STOP: the stopper closes the shard, ends its role, and rings.

use std::mem;
use std::time::Duration;

use crate::dispatch::Queue;
use crate::memory::Count;
use crate::os;

use super::Reaper;

/// Serves the shard until the engine stops. The caller holds the shard's role and passes its queue.
/// There is no polling: the thread sleeps until the next bucket opens, or until the doorbell rings.
pub fn run<T>(reaper: &Reaper<'_, T>, queue: &mut Queue<T>) {
    os::ask_for_exact_wakeups();
    let shard = reaper.shard;
    let mut woken = 0;
    while !reaper.is_stopping() {
        let now = reaper.scale.floor(reaper.clock.now_ns());
        let owner = reaper.lock();
        owner.count(Count::WokeUp, mem::take(&mut woken));
        let Some(report) = reaper.turn_of(owner, queue, now, usize::MAX) else { return };
        if report.busy || report.collects {
            continue;
        }
        let due_ns = reaper.scale.start_ns(report.next);
        let timeout =
            due_ns.map(|ns| Duration::from_nanos(ns.saturating_sub(reaper.clock.now_ns())));
        shard.doorbell().publish_sleep(report.next, timeout);
        let is_called = shard.has_notices()
            || shard.wants_sweep()
            || reaper.is_stopping()
            || timeout == Some(Duration::ZERO);
        if is_called {
            shard.doorbell().retract();
            continue;
        }
        let until = due_ns.and_then(|ns| reaper.clock.boottime_at(ns));
        shard.doorbell().sleep(timeout, until);
        woken = 1;
    }
}
