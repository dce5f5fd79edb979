//! Where the entries of a shard lie, for who has its lock and changes nothing.
//!
//! *Owner*: any thread, while it has the owner lock: only the owner unlinks entries, so what is
//! found here stays where it is. Producers may push more meanwhile.
//!
//! *Tested by*: `tests/suite/engine/virtual_time.rs`.

use std::iter;
use std::ptr::NonNull;

use crate::entry::{Entry, Linked, Phase};
use crate::inbox::Tray;
use crate::sync::Ordering;
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
        let mut places: Vec<_> = self.places(owner).collect();
        places.sort_by_key(|&(opens, _)| opens);
        let mut earliest = Tick::NEVER;
        for (opens, among) in places {
            // Each entry is in a place that opens when it is due, or before.
            if opens > earliest {
                break;
            }
            for entry in self.entries(owner, &among) {
                // SAFETY: it is filed, and the owner lock is held: only the owner unlinks.
                let word = unsafe { entry.as_ref() }.word();
                if word.phase() == Phase::Pending {
                    earliest = earliest.min(word.deadline());
                }
            }
        }
        earliest
    }

    /// The buckets and trays that may have entries; and when they open, or have opened.
    fn places<'a>(&'a self, owner: &'a Owner<T>) -> impl Iterator<Item = (Tick, Among<'a, T>)> {
        let armed = self.unread().chain(owner.heap.iter());
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
    fn entries<'a>(
        &'a self,
        _owner: &'a Owner<T>,
        among: &Among<'a, T>,
    ) -> Box<dyn Iterator<Item = NonNull<Entry<T>>> + 'a> {
        match *among {
            Among::Bucket(place) => Box::new(self.filed_at(place)),
            Among::Tray(tray) => Box::new(tray.rest()),
        }
    }

    /// The places of the notices that were not read yet.
    fn unread(&self) -> impl Iterator<Item = Place> + '_ {
        let first = NonNull::new(self.notices.first());
        let notices = iter::successors(first, |notice| {
            // ORDER(BUCKET-ARM): Acquire - pairs with the push that linked them.
            // SAFETY: only the owner takes notices out, and its lock is held.
            NonNull::new(unsafe { notice.as_ref() }.next().load(Ordering::Acquire))
        });
        // SAFETY: as above.
        notices.map(|notice| self.announced_by(unsafe { notice.as_ref() }))
    }

    /// The entries in a bucket.
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
