//! What is overdue: since when timers of a shard have been due that still wait in it.
//!
//! *Owner*: any thread. It tries to get the shard's lock for a moment, and changes nothing.
//!
//! *Tested by*: `tests/overdue.rs`.

use std::iter;
use std::ptr::NonNull;

use crate::entry::{Entry, Linked, Phase};
use crate::inbox::Hand;
use crate::sync::{MutexGuard, Ordering, thread};
use crate::time::{Place, Tick};

use super::owner::Open;
use super::{Owner, Shard};

/// How often it tries to get the lock, with a pause after each time. A reaper that fires a backlog
/// releases it for each batch.
const TRIES: usize = 16;

/// How many entries it looks at: it delays the reaper meanwhile.
const LOOKS: usize = 4096;

/// Where entries lie that may be due.
enum Among<'a, T> {
    Bucket(Place),
    Hand(&'a Hand<Entry<T>>),
}

impl<T> Shard<T> {
    /// The deadline of the timer that has been due for longest at `now` and still waits in the
    /// shard. If very many entries are where something is due, it may be one that has been due for
    /// less long, or `now` itself if none of those that were looked at is due. `None` as well if
    /// the reaper is busy in its shard throughout, or the shard is closed.
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
        let mut places = self.may_be_due(&owner, now);
        places.sort_by_key(|&(opens, _)| opens);
        let (mut oldest, mut looks, mut is_cut) = (None, LOOKS, false);
        for (_, among) in places {
            let is_due = |entry: NonNull<Entry<T>>| {
                // SAFETY: it is filed, and the owner's lock is held: only the owner unlinks.
                let word = unsafe { entry.as_ref() }.word();
                Some(word.deadline()).filter(|&due| word.phase() == Phase::Pending && due <= now)
            };
            // Half of the looks that are left, so that each place has some.
            let (most, mut looked) = (looks.div_ceil(2), 0);
            let mut oldest_in = |entries: &mut dyn Iterator<Item = NonNull<Entry<T>>>| {
                entries.take(most).inspect(|_| looked += 1).filter_map(is_due).min()
            };
            let due = match among {
                Among::Bucket(place) => oldest_in(&mut self.filed_at(place)),
                Among::Hand(hand) => oldest_in(&mut hand.rest()),
            };
            looks -= looked;
            is_cut |= looked == most;
            oldest = oldest.into_iter().chain(due).min();
        }
        oldest.or(is_cut.then_some(now))
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

    /// The buckets and hands that open, or have opened, by `now`; and when.
    fn may_be_due<'a>(&'a self, owner: &'a Owner<T>, now: Tick) -> Vec<(Tick, Among<'a, T>)> {
        let armed = self.unread().chain(owner.heap.iter());
        let armed = armed.map(|place| (place.expiration, Among::Bucket(place)));
        let rounds = owner.rounds.places().filter_map(|place| {
            let hand = owner.rounds.at(place)?;
            Some((place.expiration, Among::Hand(&**hand)))
        });
        let open = owner.due.iter().chain(owner.parked.iter()).map(|open: &Open<T>| {
            (open.began.unwrap_or(open.place.expiration), Among::Hand(&*open.hand))
        });
        // It may hold entries that are filed for an earlier opening than the one it was taken for.
        let eager = owner.eager.iter().map(|open| (Tick::ZERO, Among::Hand(&*open.hand)));
        armed.chain(rounds).chain(open).chain(eager).filter(|&(opens, _)| opens <= now).collect()
    }

    /// The places of the notices that were not read yet. For a caller that has the owner's lock.
    fn unread(&self) -> impl Iterator<Item = Place> + '_ {
        let first = NonNull::new(self.notices.first());
        let notices = iter::successors(first, |notice| {
            // ORDER(BUCKET-ARM): Acquire - pairs with the push that linked them.
            // SAFETY: only the owner takes notices out, and its lock is held.
            NonNull::new(unsafe { notice.as_ref() }.next().load(Ordering::Acquire))
        });
        // SAFETY: as above.
        notices.map(|notice| unsafe { notice.as_ref() }.place())
    }

    /// The entries in a bucket. For a caller that has the owner's lock.
    fn filed_at(&self, place: Place) -> impl Iterator<Item = NonNull<Entry<T>>> + '_ {
        let firsts = self.wheel.bucket(place).ok().into_iter().flat_map(|bucket| bucket.firsts());
        firsts.filter_map(NonNull::new).flat_map(|first| {
            iter::successors(Some(first), |entry| {
                // ORDER(BUCKET-READ): Acquire - pairs with the push that linked them.
                // SAFETY: only the owner takes entries out of a bucket, and its lock is held.
                NonNull::new(unsafe { entry.as_ref() }.next().load(Ordering::Acquire))
            })
        })
    }
}
