//! What is overdue: since when timers of a shard have been due that still wait in it.
//!
//! It reads as the scan does, and what the owner publishes: so nobody waits for a thread that
//! looks.
//!
//! *Owner*: any thread, under a guard.
//!
//! *Orderings*: BUCKET-READ.
//!
//! *Tested by*: `tests/races/engine/overdue.rs`, `shard/tests.rs`.

use crate::entry::{Entry, Guard, Reader};
use crate::sync::Ordering;
use crate::time::{Place, Tick};

use super::rounds::bucket_number;
use super::{Bucket, Pending, Shard};

/// How many entries it looks at in the buckets, and how many in the trays: at first at half of
/// them, then at half of what is left, and so on.
const LOOKS: u64 = 8192;

impl<T> Shard<T> {
    /// The deadline of the timer that has been due for longest at `now` and still waits in the
    /// shard. If more than 4096 entries are where something may be due, it may be one that has been
    /// due for less long, or `None`. `None` as well if the shard is closed. While the shard's owner
    /// turns, it may miss what the owner is about to fire.
    ///
    /// O(buckets that should have opened), and twice 8192 entries. Nobody waits for the caller.
    pub fn oldest_due(&self, reader: &Reader, now: Tick) -> Option<Tick> {
        let (guard, mut oldest) = (reader.guard(), Tick::NEVER);
        // Buckets first, then trays: in the order in which entries move.
        let mut left = LOOKS;
        for (place, bucket) in self.unopened(now, guard) {
            let of = bucket_number(place.level, place.slot);
            let note = |found: Pending| oldest = oldest.min(found.deadline);
            with_half(&mut left, |some| self.read_bucket(guard, bucket, of, some, note));
        }
        left = LOOKS;
        for tray in self.trays.iter() {
            let see = |of, entry: &Entry<T>| {
                let note = |found: Pending| oldest = oldest.min(found.deadline);
                let opens = entry.filed().expiration;
                // What is put aside together opens together.
                let may_be_due = tray.is_wide() || opens <= now;
                self.see(of, entry, note).is_some() && may_be_due
            };
            with_half(&mut left, |some| tray.read(guard, some, see));
        }
        (oldest <= now).then_some(oldest)
    }

    /// Publishes when the first bucket opens that the owner has not opened: its `next_opening`.
    #[inline]
    pub fn publish_first(&self, opens: Tick) {
        // ORDER: Relaxed - a reader of a stale value looks into too many buckets, or is early.
        self.first.store(opens.get(), Ordering::Relaxed);
    }

    /// The buckets that should have opened by `now`, have not, and are not empty, in that order.
    fn unopened<'g>(&'g self, now: Tick, guard: Guard<'g>) -> Vec<(Place, &'g Bucket<T>)> {
        // ORDER: Relaxed - as in `publish_first`.
        let known = Tick::new(self.first.load(Ordering::Relaxed));
        // What the owner does not know of yet opens after its last turn, or then.
        let from = if self.has_notices() { known.min(self.clock()) } else { known };
        let geometry = self.wheel.geometry();
        let places = (1..=geometry.levels()).flat_map(|level| {
            let width = geometry.width(level);
            let numbers = from.get().div_ceil(width)..=now.get() / width;
            let place = move |number| geometry.place_on(Tick::new(number * width), level);
            numbers.take(geometry.slots() as usize).map(place)
        });
        let filled = places.filter_map(|place| Some((place, self.wheel.get(place)?)));
        let mut filled: Vec<_> =
            filled.filter(|(_, bucket)| bucket.firsts(guard).next().is_some()).collect();
        filled.sort_by_key(|(place, _)| place.expiration);
        filled
    }
}

/// Lets `f` use half of what is left.
fn with_half(left: &mut u64, f: impl FnOnce(&mut u64)) {
    let mut half = left.div_ceil(2);
    *left -= half;
    f(&mut half);
    *left += half;
}
