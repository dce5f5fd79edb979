//! How late the shards are, held or not, as the keeper has read it from the hub.
//!
//! *Tested by*: here, and `tests/durable/postgres/looking.rs`.

use std::time::Duration;

use super::clock::since_start;

/// How late the first timer of each shard was at a moment.
#[derive(Debug, Default)]
pub(super) struct Overdue {
    lags: Vec<(u32, Duration)>,
    /// By [`since_start`].
    at: Duration,
}

// === impl Overdue ===

impl Overdue {
    pub(super) fn new(first_dues: Vec<(u32, Option<u64>)>, now_ms: u64) -> Overdue {
        let lag_ms = |due_ms: Option<u64>| due_ms.map_or(0, |due_ms| now_ms.saturating_sub(due_ms));
        let lag = |(shard, due_ms)| (shard, Duration::from_millis(lag_ms(due_ms)));
        Overdue { lags: first_dues.into_iter().map(lag).collect(), at: since_start() }
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
        let (s, overdue) = (
            Duration::from_secs,
            Overdue::new(vec![(0, Some(5000)), (1, None), (2, Some(9000))], 8000),
        );
        let at = overdue.at;
        let lags = |age| overdue.lags(at + age, s(10)).into_iter().map(|(_, lag)| lag);
        assert!(lags(s(9)).eq([s(3), s(0), s(0)]));
        assert!(lags(s(60)).eq([s(63), s(0), s(0)]));
    }
}
