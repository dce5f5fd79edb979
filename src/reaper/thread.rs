//! The reaper's thread: turns, and exact sleeps between them.
//!
//! *Orderings*: DOORBELL. The wake-up time is published, then the notices are looked at once
//! more, and only then does the thread sleep.

use std::mem;
use std::time::Duration;

use crate::os;
use crate::shard::Count;
use crate::sync::{AtomicBool, Ordering};
use crate::time::Tick;

use super::Reaper;

/// Serves the shard until `stopping`. There is no polling: it sleeps until the next bucket
/// opens, or until the doorbell rings.
pub fn run<T>(reaper: &Reaper<'_, T>, stopping: &AtomicBool) {
    os::ask_for_exact_wakeups();
    let shard = reaper.shard;
    let mut woken = 0;
    loop {
        // ORDER(STOP): Acquire - pairs with the Release store by the stopper, who rings after it.
        if stopping.load(Ordering::Acquire) {
            return;
        }
        let now = reaper.scale.floor(reaper.clock.now_ns());
        let mut owner = shard.owner().lock().expect("a turn does not panic");
        owner.count(Count::WokeUp, mem::take(&mut woken));
        let report = reaper.turn(&mut owner, now, usize::MAX);
        if report.busy || report.collects {
            continue;
        }
        shard.doorbell().publish(report.next);
        let timeout = time_until(reaper, report.next);
        // ORDER(STOP): Acquire - as above.
        let is_called = shard.has_notices()
            || shard.wants_sweep()
            || stopping.load(Ordering::Acquire)
            || timeout == Some(Duration::ZERO);
        if is_called {
            shard.doorbell().retract();
            continue;
        }
        drop(owner);
        let until = reaper.scale.start_ns(report.next).and_then(|ns| reaper.clock.boottime_at(ns));
        shard.doorbell().sleep(timeout, until);
        woken = 1;
    }
}

/// How long it is until `tick`; `None`: for ever.
fn time_until<T>(reaper: &Reaper<'_, T>, tick: Tick) -> Option<Duration> {
    let due_ns = reaper.scale.start_ns(tick)?;
    Some(Duration::from_nanos(due_ns.saturating_sub(reaper.clock.now_ns())))
}
