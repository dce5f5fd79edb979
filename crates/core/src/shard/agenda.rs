//! The agenda of a shard's owner: what it opens, and when; and what it has opened and not finished.
//!
//! | of a bucket | where |
//! |---|---|
//! | it is armed for a time, and nobody has opened it for that | in the heap |
//! | entries of that time were found when it opened for another | in the heap, *put aside* |
//! | it is open, and the owner goes through its entries | `due` |
//! | it is open though it is not due: it is cascaded eagerly | `eager` |
//! | it is open, and lets others pass: a crowd | `parked` |
//!
//! What is put aside or open is in trays, where readers find it.
//!
//! *The heap.* One min-heap per level, because an eager cascade needs the next bucket *of a
//! level*. A bucket may be on it for several times at once (rounds of its ring), and each of these
//! is there once: so its size is bounded by the rounds for which buckets are armed. An owner that
//! is behind its producers finds many rounds in one bucket. If they were pushed back into it, each
//! entry would be visited once for every round before its own. Put aside, it is visited once when
//! its bucket opens and once when its round does, for each time that it was filed.
//!
//! A turn asks several times what opens first, and mostly nothing has changed since the last turn.
//! So the first place is remembered, and so is from when on a bucket may be cascaded eagerly.
//!
//! *Crowds.* A bucket may hold a million entries. When the owner has gone through its *first share*
//! and something else is due at the beginning of a turn, the bucket is parked: the rest stays in
//! its tray, and the others open. It goes on when nothing else is due, or when the owner has
//! visited a *share* of the others. Parked buckets take turns, a share each. So what is due beside
//! them waits for two shares at most: that of the turn under way, and one of a parked bucket.
//!
//! *Owner*: the shard's owner. What is open belongs to the shard: the next holder of the role goes
//! on with it, and a stop takes the payloads out.
//!
//! *Invariants*: `first` is the first place of the heaps. A place is on them while its bucket is
//! armed, or entries are put aside for it. Nothing is judged by what a bucket publishes. Each entry
//! that is put aside is filed for the opening that it is kept under. Each entry in a tray is held
//! by its list bit, and covered by being there. Timers leave the order of ticks only behind a
//! bucket whose first share did not suffice.
//!
//! *Tested by*: `loom-tests/tests/{bucket_arm,shard,parked}.rs`, `shard/agenda/tests.rs`,
//! `tests/suite/engine/{crowds,late_turns,rounds}.rs`, `tests/oracles/{engine,shard_clocks}.rs`.

use std::cmp::Reverse;
use std::collections::hash_map::Entry as Slot;
use std::collections::{BinaryHeap, HashMap, VecDeque};
use std::hash::{BuildHasherDefault, Hasher};
use std::mem;

use crate::entry::{Entry, Filed};
use crate::inbox::{At, Tray};
use crate::sync::{Arc, IS_CHECKED, spread};
use crate::time::{Place, Tick};

/// Shares that a bucket of level 1 has before it may be parked: as many timers are due at one tick.
const FIRST: usize = if IS_CHECKED { 1 } else { 4 };

/// The same for a coarse bucket, whose entries are due at different ticks.
const FIRST_OF_COARSE: usize = if IS_CHECKED { 1 } else { 16 };

/// A bucket that the owner goes through, or the entries that were put aside until it opens.
pub(super) struct Open<T> {
    /// Where its entries were filed.
    pub(super) place: Place,
    /// Timers that are due by this tick fire: the place's expiration; the present, if the bucket
    /// was parked; an earlier opening of the bucket, if its entries were taken out too early.
    pub(super) fires_up_to: Tick,
    /// Has its entries.
    pub(super) tray: Arc<Tray<Entry<T>>>,
    /// How far the owner has come in there.
    pub(super) at: At,
    /// How many entries were visited since it opened, or since it went on when it was its turn.
    pub(super) visited: usize,
    pub(super) was_parked: bool,
}

/// What is to open, and what is open.
pub(super) struct Agenda<T> {
    /// As many levels as were ever needed.
    levels: Vec<BinaryHeap<Reverse<(Tick, u32)>>>,
    /// See [`Agenda::first`].
    first: Option<Place>,
    /// What opens at each place of the heaps. (The map keeps its capacity.)
    openings: HashMap<u64, Opening<T>, BuildHasherDefault<NumberHasher>>,
    /// No further bucket may be cascaded eagerly before this time. Zero: that is to be looked up.
    pub(super) cascades_from: Tick,
    /// The due bucket that is being flushed.
    pub(super) due: Option<Open<T>>,
    /// The bucket that is being cascaded eagerly.
    pub(super) eager: Option<Open<T>>,
    /// The first one goes on next.
    parked: VecDeque<Open<T>>,
    /// Entries that the owner visits before the first of them does; no end if there is none.
    others: usize,
    share: usize,
}

/// What opens at a place, at its time. It is armed, or has entries that were put aside.
struct Opening<T> {
    /// The bucket is armed for this time.
    is_armed: bool,
    /// It was cascaded eagerly. It opens nevertheless, for what is pushed since.
    is_cascaded: bool,
    /// Entries that were found in the bucket when it opened for another time. They come first.
    aside: Option<Arc<Tray<Entry<T>>>>,
}

/// Hashes one number, in a few instructions: a round comes and goes each time that a bucket opens.
#[derive(Default)]
struct NumberHasher(u64);

impl Hasher for NumberHasher {
    fn write(&mut self, _: &[u8]) {
        unreachable!("the keys are numbers");
    }

    fn write_u64(&mut self, number: u64) {
        self.0 = spread(number);
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

/// Level and expiration in one number.
fn number_of(place: Place) -> u64 {
    Filed::of(place).pack()
}

// === impl Open ===

impl<T> Open<T> {
    /// It is due, and its entries are in this tray.
    #[inline]
    pub(super) fn begin(place: Place, at: At, tray: Arc<Tray<Entry<T>>>) -> Open<T> {
        Open { place, fires_up_to: place.expiration, tray, at, visited: 0, was_parked: false }
    }

    /// When it opened.
    pub(super) fn opened(&self) -> Tick {
        self.place.expiration.min(self.fires_up_to)
    }
}

// === impl Agenda: what is to open ===

impl<T> Agenda<T> {
    pub(super) fn new(share: usize) -> Agenda<T> {
        Agenda {
            levels: Vec::new(),
            first: None,
            openings: HashMap::default(),
            cascades_from: Tick::ZERO,
            due: None,
            eager: None,
            parked: VecDeque::new(),
            others: usize::MAX,
            share,
        }
    }

    /// Adds a bucket that is armed for the place's expiration. Returns `false` if it is there
    /// already. O(log n) in the level's places.
    pub(super) fn arm(&mut self, place: Place) -> bool {
        !mem::replace(&mut self.opening(place).is_armed, true)
    }

    /// The tray for entries that are put aside until `place` opens; `make` makes it. As `arm`.
    pub(super) fn aside_or(
        &mut self,
        place: Place,
        make: impl FnOnce() -> Arc<Tray<Entry<T>>>,
    ) -> &Tray<Entry<T>> {
        self.opening(place).aside.get_or_insert_with(make)
    }

    fn opening(&mut self, place: Place) -> &mut Opening<T> {
        let free = match self.openings.entry(number_of(place)) {
            Slot::Occupied(opening) => return opening.into_mut(),
            Slot::Vacant(free) => free,
        };
        let level = usize::from(place.level);
        if self.levels.len() < level {
            self.levels.resize_with(level, BinaryHeap::new);
        }
        self.levels[level - 1].push(Reverse((place.expiration, place.slot)));
        if level > 1 {
            self.cascades_from = Tick::ZERO;
        }
        let order = |place: Place| (place.expiration, Reverse(place.level));
        if self.first.is_none_or(|first| order(place) < order(first)) {
            self.first = Some(place);
        }
        free.insert(Opening { is_armed: false, is_cascaded: false, aside: None })
    }

    /// The first place of a level opens, because it `is_due` or to be cascaded eagerly. Returns the
    /// entries that were put aside for it; then the bucket opens next. `None`: the bucket opens.
    pub(super) fn begin_opening(
        &mut self,
        place: Place,
        is_due: bool,
    ) -> Option<Arc<Tray<Entry<T>>>> {
        debug_assert_eq!(self.first_of(place.level), Some(place), "places open in order");
        let Slot::Occupied(mut opening) = self.openings.entry(number_of(place)) else {
            unreachable!("what is on a heap is kept");
        };
        let Opening { is_armed, is_cascaded, aside } = opening.get_mut();
        let aside = aside.take();
        if aside.is_none() && !is_due {
            *is_cascaded = true;
        } else if aside.is_none() || !*is_armed {
            opening.remove();
            self.levels[usize::from(place.level) - 1].pop();
            self.first = self.find_first();
            if place.level > 1 {
                self.cascades_from = Tick::ZERO;
            }
        }
        aside
    }

    /// The highest level that may have a place on it.
    #[inline]
    pub(super) fn levels(&self) -> u8 {
        self.levels.len() as u8
    }

    /// The place of `level` that opens next.
    #[inline]
    pub(super) fn first_of(&self, level: u8) -> Option<Place> {
        let Reverse((expiration, slot)) = *self.levels.get(usize::from(level) - 1)?.peek()?;
        Some(Place { level, slot, expiration })
    }

    /// The same, unless it was cascaded already.
    pub(super) fn first_to_cascade(&self, level: u8) -> Option<Place> {
        self.first_of(level).filter(|&place| {
            let opening = &self.openings[&number_of(place)];
            !opening.is_cascaded || opening.aside.is_some()
        })
    }

    /// The place that opens next; of several at the same time, one of the highest level, so that
    /// its entries join those of the others.
    #[inline]
    pub(super) fn first(&self) -> Option<Place> {
        self.first
    }

    fn find_first(&self) -> Option<Place> {
        let mut first = None::<Place>;
        for (heap, level) in self.levels.iter().zip(1..) {
            let Some(&Reverse((expiration, slot))) = heap.peek() else { continue };
            if first.is_none_or(|first| expiration <= first.expiration) {
                first = Some(Place { level, slot, expiration });
            }
        }
        first
    }

    /// When the first place opens, or the bucket that is being cascaded; [`Tick::NEVER`] if
    /// there is none. (What is due and open does not count.)
    #[inline]
    pub(super) fn next_opening(&self) -> Tick {
        let next = self.first.map_or(Tick::NEVER, |place| place.expiration);
        self.eager.as_ref().map_or(next, |open| next.min(open.place.expiration))
    }

    /// All places, in no order, and the entries that were put aside for each.
    fn all(&self) -> impl Iterator<Item = (Place, &Opening<T>)> {
        let places = self.levels.iter().zip(1..).flat_map(|(heap, level)| {
            heap.iter().map(move |&Reverse((expiration, slot))| Place { level, slot, expiration })
        });
        places.map(|place| (place, &self.openings[&number_of(place)]))
    }

    /// The armed buckets, in no order.
    pub(super) fn armed(&self) -> impl Iterator<Item = Place> {
        self.all().filter(|(_, opening)| opening.is_armed).map(|(place, _)| place)
    }

    /// Whether the bucket is armed for this place's expiration.
    pub(super) fn is_armed(&self, place: Place) -> bool {
        self.openings.get(&number_of(place)).is_some_and(|opening| opening.is_armed)
    }

    /// The entries that were put aside, in no order.
    pub(super) fn all_aside(&self) -> impl Iterator<Item = (Place, &Arc<Tray<Entry<T>>>)> {
        self.all().filter_map(|(place, opening)| Some((place, opening.aside.as_ref()?)))
    }

    /// The entries that were put aside until `place` opens.
    pub(super) fn aside(&self, place: Place) -> Option<&Tray<Entry<T>>> {
        self.openings.get(&number_of(place))?.aside.as_deref()
    }

    /// For checks: whether the heaps have what is kept, once each, and `first` is the first of it.
    pub(super) fn is_whole(&self) -> bool {
        let places = || self.all().map(|(place, _)| place);
        let first = places().min_by_key(|place| (place.expiration, Reverse(place.level)));
        let has_reason = |opening: &Opening<T>| opening.is_armed || opening.aside.is_some();
        self.all().all(|(_, opening)| has_reason(opening))
            && places().count() == self.openings.len()
            && self.first == first
    }
}

// === impl Agenda: what is open ===

impl<T> Agenda<T> {
    /// Whether a due bucket is open or parked.
    #[inline]
    pub(super) fn has_open(&self) -> bool {
        self.due.is_some() || !self.parked.is_empty()
    }

    /// Takes the bucket that is being cascaded if it is due before `next` opens, which is the
    /// first place that is due at `now`; or if that opens in the same bucket: its entries may have
    /// been taken out with those of a later round.
    #[cold]
    pub(super) fn take_eager(&mut self, next: Option<Place>, now: Tick) -> Option<Open<T>> {
        let limit = next.map_or(now, |next| next.expiration);
        let is_same = |open: &Open<T>| {
            let of = |place: Place| (place.level, place.slot);
            open.tray.is_wide() && next.map(of) == Some(of(open.place))
        };
        let is_awaited = |open: &mut Open<T>| open.place.expiration <= limit || is_same(open);
        let open = self.eager.take_if(is_awaited)?;
        Some(Open { fires_up_to: open.place.expiration.min(limit), ..open })
    }

    /// Entries of an open bucket that are visited before it may be parked.
    fn share_of(&self, open: &Open<T>) -> usize {
        match (open.was_parked, open.place.level) {
            (true, _) => self.share.max(1),
            (false, 1) => self.share * FIRST,
            (false, _) => self.share * FIRST_OF_COARSE,
        }
    }

    /// Whether a parked bucket has waited long enough.
    #[inline]
    pub(super) fn is_turn_of_parked(&self) -> bool {
        self.others == 0
    }

    /// Counts entries that were visited in a bucket that was never parked.
    #[inline]
    pub(super) fn count_others(&mut self, entries: usize) {
        if !self.parked.is_empty() {
            self.others = self.others.saturating_sub(entries);
        }
    }

    /// At the beginning of a turn at `now`: parks the due bucket if it had its share and something
    /// else is due, or parked.
    pub(super) fn let_pass(&mut self, now: Tick) {
        let is_awaited = !self.parked.is_empty() || self.next_opening() <= now;
        let has_had = self.due.as_ref().is_some_and(|open| open.visited >= self.share_of(open));
        if let Some(open) = self.due.take_if(|_| is_awaited && has_had) {
            if self.parked.is_empty() {
                self.others = self.share.max(1);
            }
            self.parked.push_back(Open { was_parked: true, ..open });
        } else if let Some(open) = self.due.as_mut().filter(|open| open.was_parked) {
            open.fires_up_to = now;
        }
    }

    /// Goes on with the next parked bucket at `now`. If it is its turn, it has a share before it
    /// may be parked again. What is due by now fires, whatever its tick, and what is re-filed goes
    /// to a bucket that is not due: so a coarse crowd never fills buckets that come before those
    /// that it lets pass. Returns `false` if none is parked.
    #[cold]
    #[inline(never)]
    pub(super) fn go_on(&mut self, now: Tick) -> bool {
        let is_its_turn = self.is_turn_of_parked();
        let Some(open) = self.parked.pop_front() else { return false };
        let visited = if is_its_turn { 0 } else { usize::MAX };
        self.others = if self.parked.is_empty() { usize::MAX } else { self.share.max(1) };
        self.due = Some(Open { visited, fires_up_to: now, ..open });
        true
    }

    /// The due buckets that are open.
    pub(super) fn all_due(&self) -> impl Iterator<Item = &Open<T>> {
        self.due.iter().chain(&self.parked)
    }

    /// The end: all that is in trays. Nothing is left to open.
    pub(super) fn clear(&mut self) -> Vec<Open<T>> {
        let open = [self.due.take(), self.eager.take()].into_iter().flatten();
        let mut all: Vec<_> = open.chain(self.parked.drain(..)).collect();
        while let Some(place) = self.first {
            let aside = self.begin_opening(place, true);
            all.extend(aside.map(|tray| Open::begin(place, tray.open(), tray)));
        }
        *self = Agenda::new(self.share);
        all
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;
