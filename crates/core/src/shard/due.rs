//! When timers are due: which has been due for longest and still waits, and which is due next.
//!
//! *Owner*: any thread calls `oldest_due`, under a guard. It reads as the scan does, and what the
//! owner publishes: so nobody waits for a thread that looks. `earliest` is for a thread that has
//! the owner lock: only the owner takes entries out, so what it finds stays where it is. Producers
//! may push more meanwhile.
//!
//! *Orderings*: BUCKET-READ.
//!
//! *Tested by*: `tests/races/engine/overdue.rs`, `tests/suite/engine/virtual_time.rs`,
//! `shard/tests.rs`.

use crate::entry::{Entry, Guard, Phase, Reader, Word};
use crate::inbox::{Tray, Walk};
use crate::sync::Ordering;
use crate::time::{Place, Tick};

use super::{Bucket, Owner, Pending, Shard, bucket_number};

/// How many entries it looks at in the buckets, and how many in the trays: at first at half of
/// them, then at half of what is left, and so on.
const PROBES: u64 = 8192;

// === impl Shard: what has been due for longest ===

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
        let mut left = PROBES;
        for (place, bucket) in self.unopened(now, guard) {
            let of = bucket_number(place.level, place.slot);
            let note = |found: Pending| oldest = oldest.min(found.deadline);
            with_half(&mut left, |some| self.read_bucket(guard, bucket, of, some, note));
        }
        left = PROBES;
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
        // ORDER: Relaxed - with a stale value it looks into too many buckets, or is early.
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

/// A bucket or a tray.
enum Among<'a, T> {
    Bucket(Place),
    Tray(&'a Tray<Entry<T>>),
}

// === impl Shard: what is due next ===

impl<T> Shard<T> {
    /// The deadline of the timer that is due next; [`Tick::NEVER`] if none is.
    ///
    /// O(armed buckets), and the entries in those that open before it is due: all those of a coarse
    /// bucket, if none opens earlier.
    pub fn earliest(&self, owner: &Owner<T>) -> Tick {
        let guard = self.guard(owner);
        let mut places: Vec<_> = self.places(owner, guard).collect();
        places.sort_by_key(|&(opens, _)| opens);
        let mut earliest = Tick::NEVER;
        for (opens, among) in places {
            // Each entry is in a place that opens when it is due, or before.
            if opens > earliest {
                break;
            }
            let words = self.entries(&among, guard).map(Entry::word);
            let pending = words.filter(|word| word.phase() == Phase::Pending);
            earliest = pending.map(Word::deadline).fold(earliest, Tick::min);
        }
        earliest
    }

    /// The buckets and trays that may have entries; and when they open, or have opened.
    fn places<'g>(
        &'g self,
        owner: &'g Owner<T>,
        guard: Guard<'g>,
    ) -> impl Iterator<Item = (Tick, Among<'g, T>)> {
        // With the notices that were not read yet.
        let unread = Walk::from(self.notices.first(guard), guard);
        let unread = unread.map(|notice| self.announced_by(notice));
        let armed = unread.chain(owner.agenda.armed());
        let armed = armed.map(|place| (place.expiration, Among::Bucket(place)));
        let aside = owner.agenda.all_aside();
        let aside = aside.map(|(place, tray)| (place.expiration, Among::Tray(&**tray)));
        let open = owner.agenda.all_due();
        let open = open.map(|open| (open.opened(), Among::Tray(&*open.tray)));
        // A cascade may hold entries that are filed for an earlier opening than its own.
        let eager = owner.agenda.eager.iter().map(|open| (Tick::ZERO, Among::Tray(&*open.tray)));
        armed.chain(aside).chain(open).chain(eager)
    }

    /// The entries of a place.
    fn entries<'g>(
        &'g self,
        among: &Among<'g, T>,
        guard: Guard<'g>,
    ) -> impl Iterator<Item = &'g Entry<T>> {
        let (bucket, tray) = match *among {
            Among::Bucket(place) => (self.wheel.get(place), None),
            Among::Tray(tray) => (None, Some(tray)),
        };
        let in_bucket = bucket.into_iter().flat_map(move |bucket| bucket.entries(guard));
        in_bucket.chain(tray.into_iter().flat_map(move |tray| tray.rest(guard)))
    }
}
