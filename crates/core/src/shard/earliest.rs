//! Where the entries of a shard lie, for who has its lock and changes nothing.
//!
//! *Owner*: any thread that has the owner lock: only the owner takes entries out, so what is found
//! here stays where it is. Producers may push more meanwhile.
//!
//! *Tested by*: `tests/suite/engine/virtual_time.rs`.

use crate::entry::{Entry, Guard, Phase, Word};
use crate::inbox::{Tray, Walk};
use crate::time::{Place, Tick};

use super::opening::Open;
use super::{Owner, Shard};

/// A bucket or a tray.
enum Among<'a, T> {
    Bucket(Place),
    Tray(&'a Tray<Entry<T>>),
}

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
        let armed = unread.chain(owner.heap.iter());
        let armed = armed.map(|place| (place.expiration, Among::Bucket(place)));
        let rounds = &owner.rounds.opens;
        let rounds = rounds.iter().filter_map(|place| {
            let tray = rounds.at(place)?;
            Some((place.expiration, Among::Tray(&**tray)))
        });
        let open = owner.due.iter().chain(owner.parked.iter()).map(|open: &Open<T>| {
            (open.began.unwrap_or(open.place.expiration), Among::Tray(&*open.tray))
        });
        // It may hold entries that are filed for an earlier opening than the one it was taken for.
        let eager = owner.eager.iter().map(|open| (Tick::ZERO, Among::Tray(&*open.tray)));
        armed.chain(rounds).chain(open).chain(eager)
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
