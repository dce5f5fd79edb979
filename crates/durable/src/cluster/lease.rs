//! A lease: until when an instance may have a shard's timers fire.
//!
//! The hub decides who has a shard. The instance only has to be sure that its lease is over no
//! later than the hub finds it over. So it counts from a moment before it has sent the request, by
//! a monotonic clock, and a hundredth less, because two clocks do not run at exactly the same rate.
//!
//! *Invariant*: a lease that was over once stays so. Its service stops with it, and the instance
//! takes the shard again under a new fence.
//!
//! *Tested by*: here, and `tests/durable/postgres/`.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use crate::error::{StoreError, StoreErrorKind};
use crate::service::Share;

use super::clock::{SharedClock, since_start};
use super::hub::Taken;

#[derive(Debug)]
pub(super) struct Lease {
    pub(super) taken: Taken,
    /// Until when another instance had the shard before.
    served_ms: u64,
    clock: Arc<SharedClock>,
    state: Mutex<State>,
    /// For tests which show that they would notice.
    is_ignored: bool,
}

#[derive(Debug)]
struct State {
    /// By [`since_start`].
    until: Duration,
    is_over: bool,
}

/// How long a lease that was asked for at `sent` holds for its instance.
pub(super) fn until(sent: Duration, lease: Duration) -> Duration {
    sent + lease - lease / 100
}

// === impl Lease ===

impl Lease {
    pub(super) fn new(
        taken: Taken,
        served_ms: u64,
        until: Duration,
        clock: &Arc<SharedClock>,
        is_ignored: bool,
    ) -> Lease {
        let state = Mutex::new(State { until, is_over: false });
        Lease { taken, served_ms, clock: clock.clone(), state, is_ignored }
    }

    /// The hub has renewed it.
    pub(super) fn renew(&self, until: Duration) {
        let mut state = self.state();
        state.until = state.until.max(until);
    }

    /// Another instance has the shard, or can have it.
    pub(super) fn end(&self) {
        self.state().is_over = true;
    }

    /// Whether it holds at this moment.
    fn holds_at(&self, now: Duration) -> bool {
        let mut state = self.state();
        state.is_over |= now >= state.until;
        !state.is_over
    }

    /// What is told to those who wait for something that the shard's service can no longer do.
    pub(super) fn over(&self) -> StoreError {
        let message = format!("the lease of shard {} has run out", self.taken.shard);
        StoreError::new(StoreErrorKind::Fenced, message)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Share for Lease {
    fn now(&self) -> SystemTime {
        self.clock.now()
    }

    fn served_ms(&self) -> u64 {
        self.served_ms
    }

    fn may_fire(&self) -> Result<(), StoreError> {
        if self.is_ignored || self.holds_at(since_start()) { Ok(()) } else { Err(self.over()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::hub::Reading;

    #[test]
    fn a_lease_that_was_over_is_not_renewed() {
        let s = Duration::from_secs;
        let clock =
            Arc::new(SharedClock::new(Reading { sent: s(0), received: s(0), shows_us: 0 }, false));
        let lease =
            Lease::new(Taken { shard: 1, fence: 7 }, 0, until(s(100), s(10)), &clock, false);
        assert!(lease.holds_at(s(109)));
        lease.renew(until(s(105), s(10)));
        // An earlier reply that comes later shortens nothing.
        lease.renew(until(s(103), s(10)));
        assert!(lease.holds_at(Duration::from_millis(114_899)));
        assert!(!lease.holds_at(Duration::from_millis(114_900)));
        lease.renew(until(s(120), s(10)));
        assert!(!lease.holds_at(s(121)), "somebody else can have had the shard");
    }
}
