//! How late the shards are, held or not, as the keeper has read it from the hub.
//!
//! *Tested by*: here, and `tests/durable/postgres/looking.rs`.

use std::time::Duration;

use super::clock::since_start;
use super::hub::First;

/// How late the first timer of each shard was at a moment.
#[derive(Debug, Default)]
pub(super) struct Overdue {
    lags: Vec<(u32, Duration)>,
    /// By [`since_start`].
    at: Duration,
}

// === impl Overdue ===

impl Overdue {
    pub(super) fn new(firsts: Vec<First>) -> Overdue {
        let lag = |First { shard, due_ms, at_ms }| {
            let lag_ms = due_ms.map_or(0, |due_ms| at_ms.saturating_sub(due_ms));
            (shard, Duration::from_millis(lag_ms))
        };
        Overdue { lags: firsts.into_iter().map(lag).collect(), at: since_start() }
    }

    /// What was late then is later by now, if nobody could look for a lease.
    pub(super) fn lags(&self, now: Duration, lease: Duration) -> Vec<(u32, Duration)> {
        let age = now.saturating_sub(self.at);
        let more = if age > lease { age } else { Duration::ZERO };
        let lag = |lag: Duration| if lag.is_zero() { lag } else { lag + more };
        self.lags.iter().map(|(shard, late)| (*shard, lag(*late))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_nobody_looks_at_gets_later() {
        let first = |shard, due_ms| First { shard, due_ms, at_ms: 8000 };
        let firsts = vec![first(0, Some(5000)), first(1, None), first(2, Some(9000))];
        let (s, overdue) = (Duration::from_secs, Overdue::new(firsts));
        let at = overdue.at;
        let lags = |age| overdue.lags(at + age, s(10)).into_iter().map(|(_, lag)| lag);
        assert!(lags(s(9)).eq([s(3), s(0), s(0)]));
        assert!(lags(s(60)).eq([s(63), s(0), s(0)]));
    }
}
