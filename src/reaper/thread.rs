//! The reaper's thread: turns, and exact sleeps between them. With a [`Spin`], it does not sleep
//! through the last stretch before a wake-up.
//!
//! *Orderings*: DOORBELL. The thread publishes its wake-up time, then looks at the notices once
//! more, and only then sleeps. STOP: the stopper closes the shard, ends its role, and rings.

use std::mem;
use std::time::Duration;

use crate::dispatch::InHand;
use crate::memory::{Count, SHARE};
use crate::os;

use super::spin::Wait;
use super::{Reaper, Spin};

/// Serves the shard until the engine stops, or until another thread has taken the shard over. The
/// caller holds the shard's role and passes what it has in hand.
/// There is no polling: the thread sleeps until the next bucket opens, or until the doorbell rings.
/// `spin` says how long before that it waits in user space instead.
pub fn run<T>(reaper: &Reaper<'_, T>, in_hand: &mut InHand<T>, mut spin: Spin) {
    os::ask_for_exact_wakeups();
    let shard = reaper.shard;
    let (mut woken, mut slept_until) = (0, None);
    let mut is_first = true;
    // The first turn has what a takeover left in hand, whatever happens meanwhile.
    while mem::take(&mut is_first) || !reaper.is_stopping() {
        let now_ns = reaper.clock.now_ns();
        if let Some(ends_ns) = slept_until.take() {
            spin.woke(ends_ns, now_ns);
        }
        let now = reaper.scale.floor(now_ns);
        let owner = reaper.lock();
        owner.count(Count::WokeUp, mem::take(&mut woken));
        let Some(report) = reaper.turn_of(owner, in_hand, now, SHARE) else { return };
        if report.taken_over {
            return;
        }
        if report.busy || report.collects {
            continue;
        }
        let due_ns = reaper.scale.start_ns(report.next);
        let now_ns = due_ns.map_or(0, |_| reaper.clock.now_ns());
        let ends_ns = match due_ns.map(|due_ns| spin.plan(now_ns, due_ns)) {
            Some(Wait::Spin(until_ns)) => {
                reaper.spin(&mut spin, now_ns, until_ns);
                continue;
            }
            Some(Wait::Sleep(until_ns)) => Some(until_ns),
            None => None,
        };
        let timeout = ends_ns.map(|ns| Duration::from_nanos(ns.saturating_sub(now_ns)));
        shard.doorbell().publish_sleep(report.next, timeout);
        let is_called = shard.has_notices()
            || shard.wants_sweep()
            || reaper.is_stopping()
            || timeout == Some(Duration::ZERO);
        if is_called {
            shard.doorbell().retract();
            continue;
        }
        let until = ends_ns.and_then(|ns| reaper.clock.boottime_at(ns));
        shard.doorbell().sleep(timeout, until);
        (woken, slept_until) = (1, ends_ns);
    }
}
