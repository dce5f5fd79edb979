//! What is overdue: since when timers of a shard have been due that still wait in it.
//!
//! *Owner*: any thread. It tries to get the shard's lock for a moment, and changes nothing.
//!
//! *Tested by*: `tests/races/overdue.rs`.

use crate::sync::{MutexGuard, thread};
use crate::time::Tick;

use super::{Owner, Shard};

/// How often it tries to get the lock, with a pause after each time. A reaper that fires a backlog
/// releases it for each batch.
const TRIES: usize = 16;

/// How many entries it looks at: it delays the reaper meanwhile.
const LOOKS: usize = 4096;

impl<T> Shard<T> {
    /// The deadline of the timer that has been due for longest at `now` and still waits in the
    /// shard. If more than 4096 entries are where something may be due, it may be one that has been
    /// due for less long, or `None`. `None` as well if the reaper is busy in its shard throughout,
    /// or the shard is closed.
    ///
    /// O(armed buckets), and 4096 entries if some are due. The caller takes care that it does not
    /// look again and again: meanwhile the reaper waits.
    pub fn oldest_due(&self, now: Tick) -> Option<Tick> {
        let owner = self.try_owner()?;
        if owner.closed || !self.has_notices() && !self.is_due(&owner, now) {
            return None;
        }
        // Mostly, what opens first has the oldest. (A timer that was scheduled for a time in the
        // past is older than its bucket.)
        let mut places: Vec<_> = self.places(&owner).filter(|&(opens, _)| opens <= now).collect();
        places.sort_by_key(|&(opens, _)| opens);
        let places = places.iter().map(|(_, among)| self.deadlines(&owner, among));
        let mut places: Vec<_> = places.collect();
        let (mut oldest, mut looks) = (Tick::NEVER, LOOKS);
        // At first half of the looks that are left, so that each place has some.
        for share in [2, 1] {
            for deadlines in &mut places {
                for deadline in deadlines.take(looks.div_ceil(share)) {
                    looks -= 1;
                    oldest = oldest.min(deadline.unwrap_or(Tick::NEVER));
                }
            }
        }
        (oldest <= now).then_some(oldest)
    }

    /// The shard's lock, unless another thread keeps it.
    fn try_owner(&self) -> Option<MutexGuard<'_, Owner<T>>> {
        for _ in 0..TRIES {
            match self.owner.try_lock() {
                Ok(owner) => return Some(owner),
                Err(_) => thread::yield_now(),
            }
        }
        None
    }
}
