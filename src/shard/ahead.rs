//! Errands: what the owner does while nothing is due, a chunk at a time.
//!
//! - *Cascading ahead*: a coarse bucket that opens soon is re-filed before it opens, so that the
//!   work is done when the first of its entries is due. Its item stays on the agenda for
//!   whatever is pushed into it until then.
//! - *Sweeping*: when dead entries outnumber the living, each bucket is gone through once and
//!   what is dead in it becomes memory again; the rest is pushed back where it was. Who asks for
//!   it while it is under way gets another.
//!
//! *Owner*: the shard's owner.
//!
//! *Invariant*: an errand holds entries of one bucket; when that bucket is due, the flush goes
//! through them first. So an errand never makes a timer late.

use std::ptr::NonNull;

use crate::entry::{Entry, Phase};
use crate::inbox::Walk;
use crate::sync::IS_CHECKED;
use crate::time::{Place, Tick};

use super::{Bucket, Count, Owner, Pool, Shard};

/// Entries that an errand handles before it looks for due buckets again.
const CHUNK: usize = if IS_CHECKED { 1 } else { 1024 };

/// Pending timers from which a shard wakes up for the sole purpose of cascading ahead: fewer
/// are re-filed in no time when their bucket opens.
const CROWD: u64 = 1 << 15;

/// The first level for whose buckets a shard wakes up ahead of time; those of level 2 are
/// cascaded ahead when the shard is awake anyway.
const COARSE: u8 = 3;

/// Of so many timers that a thread files, one looks whether the reaper knows of a crowd.
pub(super) const LOOK_OUT: usize = 1024;

/// Where a sweep goes on when none is under way: at the beginning.
pub(super) const NO_SWEEP: (u8, usize) = (0, 0);

/// Entries taken out of a bucket that is not due.
pub(super) struct Errand<T> {
    pub(super) place: Place,
    pub(super) walk: Walk<Entry<T>>,
    kind: Kind,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Re-files what is filed for the place's expiration.
    Cascade,
    /// Buries the dead and pushes the rest back.
    Sweep,
}

impl<T> Shard<T> {
    /// Does a chunk of what can be done ahead of time. `true`: there may be more.
    pub fn run_errand(&self, owner: &mut Owner<T>, pool: &Pool<T>, now: Tick) -> bool {
        let errand = owner.errand.take().or_else(|| self.next_cascade(owner, now));
        let Some(mut errand) = errand.or_else(|| self.next_sweep(owner, pool)) else {
            return false;
        };
        for entry in errand.walk.by_ref().take(CHUNK) {
            // SAFETY: the walk hands out entries that the owner holds by their list bit.
            unsafe { self.handle(owner, pool, entry, errand.place, errand.kind) };
        }
        if !errand.walk.is_done() {
            owner.errand = Some(errand);
        }
        true
    }

    /// When the shard wants to be woken: at the first expiration, or ahead of it for a coarse
    /// bucket where many timers are pending. [`Tick::NEVER`]: not at all.
    pub fn next_wake(&self, owner: &Owner<T>, pool: &Pool<T>) -> Tick {
        let first = owner.agenda.first().map_or(Tick::NEVER, |place| place.expiration);
        let ahead = (COARSE..=owner.agenda.levels())
            .filter_map(|level| self.cascade_on(owner, level))
            .map(|place| place.expiration.saturating_sub(self.lead(place.level)))
            .min()
            .filter(|&ahead| ahead < first);
        match ahead {
            Some(ahead) if pool.tallies.pending() >= CROWD => ahead,
            _ => first,
        }
    }

    /// Wakes a reaper that went to sleep until a coarse bucket opens, when that had few timers in
    /// it: by now they are a crowd. For producers, now and then, with a bucket that they file in.
    #[cold]
    #[inline(never)]
    pub(super) fn look_out(&self, pool: &Pool<T>, level: u8, expiration: Tick) {
        if level >= COARSE && pool.tallies.pending() >= CROWD {
            self.doorbell.ring_before(expiration.saturating_sub(self.lead(level)));
        }
    }

    /// How long before its expiration a bucket of `level` may be cascaded.
    fn lead(&self, level: u8) -> u64 {
        self.wheel.geometry().width(level) / 4
    }

    /// The next bucket of `level` that has not been cascaded ahead.
    fn cascade_on(&self, owner: &Owner<T>, level: u8) -> Option<Place> {
        let place = owner.agenda.first_of(level)?;
        (owner.cascaded[usize::from(level) - 1] != place.expiration).then_some(place)
    }

    fn next_cascade(&self, owner: &mut Owner<T>, now: Tick) -> Option<Errand<T>> {
        let place = (2..=owner.agenda.levels())
            .filter_map(|level| self.cascade_on(owner, level))
            .filter(|place| place.expiration.saturating_sub(self.lead(place.level)) <= now)
            .filter(|place| now < place.expiration)
            .min_by_key(|place| place.expiration)?;
        owner.cascaded[usize::from(place.level) - 1] = place.expiration;
        let bucket = self.wheel.bucket(place).expect("what is on the agenda exists");
        // SAFETY: the owner takes, and holds what it takes by the list bit of each entry.
        let walk = unsafe { Walk::new(bucket.take()) };
        Some(Errand { place, walk, kind: Kind::Cascade })
    }

    /// The next bucket to sweep, if a sweep is under way or asked for.
    fn next_sweep(&self, owner: &mut Owner<T>, pool: &Pool<T>) -> Option<Errand<T>> {
        while owner.swept != NO_SWEEP || self.begin_sweep(pool) {
            if let Some((place, bucket)) = self.next_unswept(owner.swept) {
                owner.swept = (place.level, place.slot as usize + 1);
                // SAFETY: as in `next_cascade`.
                let walk = unsafe { Walk::new(bucket.take()) };
                return Some(Errand { place, walk, kind: Kind::Sweep });
            }
            owner.swept = NO_SWEEP;
        }
        None
    }

    /// The first bucket with something in it, from `level` and `slot` on.
    fn next_unswept(&self, (level, slot): (u8, usize)) -> Option<(Place, &Bucket<T>)> {
        self.wheel.existing().skip_while(|&(l, _)| l < level).find_map(|(l, buckets)| {
            let first = if l == level { slot } else { 0 };
            let holds = |bucket: &Bucket<T>| bucket.firsts().any(|entry| !entry.is_null());
            let at = buckets.iter().skip(first).position(holds)? + first;
            let place = Place { level: l, slot: at as u32, expiration: Tick::ZERO };
            Some((place, &buckets[at]))
        })
    }

    /// Decides about one entry of a bucket that is not due.
    ///
    /// # Safety
    /// The owner holds the entry by its list bit.
    unsafe fn handle(
        &self,
        owner: &mut Owner<T>,
        pool: &Pool<T>,
        entry: NonNull<Entry<T>>,
        place: Place,
        kind: Kind,
    ) {
        // SAFETY: the owner holds it.
        let this = unsafe { entry.as_ref() };
        // Read once: a re-filing that fails leaves the place behind that it was after.
        let filed = this.filed();
        let moves = kind == Kind::Cascade && filed.expiration == place.expiration;
        loop {
            let word = this.word();
            let vacant = word.phase() == Phase::Vacant;
            if vacant && (moves || !word.owned()) {
                // SAFETY: the owner holds it; `word` is vacant.
                match unsafe { this.unlink(word) } {
                    // SAFETY: nobody kept it, so it is held here alone.
                    Some(true) => return unsafe { owner.bury(pool, entry) },
                    Some(false) => return,
                    None => continue,
                }
            }
            if !moves {
                // SAFETY: the owner holds it and took it from there.
                return unsafe { self.push_back(owner, entry, filed) };
            }
            debug_assert!(word.deadline() >= place.expiration, "filed after it is due");
            let next = self.wheel.geometry().place(word.deadline(), place.expiration);
            // SAFETY: the owner holds it; `word` is pending.
            if unsafe { this.refile(word, next) } {
                owner.tally.add(Count::Cascaded, 1);
                // SAFETY: it was just re-filed there.
                return unsafe { self.push(owner, entry, next) };
            }
        }
    }
}
