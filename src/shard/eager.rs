//! Errands: what the owner does while nothing is due, a chunk at a time. (Of sweeping, a turn that
//! hands over does a chunk for each batch, so that it goes on while something is always due.)
//!
//! - *Eager cascading*: a coarse bucket that opens soon is re-filed before it opens, so that the
//!   work is done when the first of its entries is due. Its item stays on the armed heap for
//!   whatever is pushed into it until then.
//! - *Sweeping* (`sweep`): when there are more dead entries than half of the living, each bucket is
//!   gone through once and what is dead in it becomes memory again. Who asks for it while it is
//!   under way gets another.
//!
//! *Owner*: the shard's owner.
//!
//! *Invariant*: what is cascaded eagerly is in a hand; when its bucket is due, the flush goes through
//! it first. So background work never makes a timer late.

use std::ptr::NonNull;

use crate::entry::{Entry, Phase};
use crate::memory::{Count, Shared};
use crate::sync::IS_CHECKED;
use crate::time::{Place, Tick};

use super::owner::Open;
use super::sweep::Swept;
use super::{Owner, Shard};

/// Entries that background work handles before it looks for due buckets again.
const CHUNK: usize = if IS_CHECKED { 1 } else { 1024 };

/// Pending timers from which a shard wakes up for the sole purpose of eager cascading: fewer
/// are re-filed in no time when their bucket opens.
const CROWD: u64 = 1 << 15;

/// The first level for whose buckets a shard wakes up ahead of time; those of level 2 are
/// cascaded eagerly when the shard is awake anyway.
const COARSE: u8 = 3;

/// Of so many timers that a thread files, one looks whether the reaper knows of a crowd.
pub(crate) const LOOK_OUT: usize = 1024;

impl<T> Shard<T> {
    /// Does a chunk of what can be done ahead of time. `true`: there may be more.
    pub fn run_background(&self, owner: &mut Owner<T>, shared: &Shared<T>, now: Tick) -> bool {
        let open = owner.eager.take().or_else(|| self.next_cascade(owner, now));
        let Some(mut open) = open else {
            return self.sweep_some(owner, shared, CHUNK) != Swept::Nothing;
        };
        for _ in 0..CHUNK {
            let Some(entry) = open.hand.peek(&open.at) else { break };
            // SAFETY: what is in a hand is held by the owner, by its list bit.
            unsafe { self.cascade(owner, shared, &mut open, entry) };
        }
        if open.at.is_done() {
            owner.put_away(open);
        } else {
            owner.eager = Some(open);
        }
        true
    }

    /// What a busy turn does of the background work: a share for each batch that it hands over, so
    /// that what is dead stays within its bound while something is always due.
    pub fn work_a_share(&self, owner: &mut Owner<T>, shared: &Shared<T>) {
        self.sweep_some(owner, shared, CHUNK);
    }

    /// When the shard wants to be woken: at the first expiration, or ahead of it for a coarse
    /// bucket where many timers are pending. [`Tick::NEVER`]: not at all.
    pub fn next_wake(&self, owner: &Owner<T>, shared: &Shared<T>) -> Tick {
        let first = owner.next_opening();
        let ahead = (COARSE..=owner.levels())
            .filter_map(|level| self.cascade_on(owner, level))
            .map(|place| place.expiration.saturating_sub(self.lead(place.level)))
            .min()
            .filter(|&ahead| ahead < first);
        match ahead {
            Some(ahead) if shared.living() >= CROWD => ahead,
            _ => first,
        }
    }

    /// Wakes a reaper that went to sleep until a coarse bucket opens, when that had few timers in
    /// it: by now they are a crowd. For producers, now and then, with a bucket that they file in.
    /// `true`: the shard's hook is to be called, which is left to the caller.
    #[cold]
    #[inline(never)]
    pub(crate) fn look_out(&self, shared: &Shared<T>, level: u8, expiration: Tick) -> bool {
        level >= COARSE
            && shared.living() >= CROWD
            && self.doorbell.ring_before(expiration.saturating_sub(self.lead(level)))
    }

    /// How long before its expiration a bucket of `level` may be cascaded.
    fn lead(&self, level: u8) -> u64 {
        self.wheel.geometry().width(level) / 4
    }

    /// The next bucket or round of `level` that has not been cascaded eagerly.
    fn cascade_on(&self, owner: &Owner<T>, level: u8) -> Option<Place> {
        let cascaded = owner.cascaded[usize::from(level) - 1];
        let armed = owner.heap.first_of(level).filter(|place| place.expiration != cascaded);
        if owner.rounds.is_empty() {
            return armed;
        }
        let firsts = [owner.rounds.first_of(level), armed].into_iter().flatten();
        firsts.min_by_key(|place| place.expiration)
    }

    fn next_cascade(&self, owner: &mut Owner<T>, now: Tick) -> Option<Open<T>> {
        let place = (2..=owner.levels())
            .filter_map(|level| self.cascade_on(owner, level))
            .filter(|place| place.expiration.saturating_sub(self.lead(place.level)) <= now)
            .filter(|place| now < place.expiration)
            .min_by_key(|place| place.expiration)?;
        if let Some(round) = owner.open_round(place) {
            return Some(round);
        }
        owner.cascaded[usize::from(place.level) - 1] = place.expiration;
        let bucket = self.wheel.bucket(place).expect("what is on the heap exists");
        Some(Self::open_bucket(owner, bucket, place))
    }

    /// Decides about one entry of a bucket that is not due: re-files what is filed for it.
    ///
    /// # Safety
    /// The hand showed the entry, and the owner holds it by its list bit.
    unsafe fn cascade(
        &self,
        owner: &mut Owner<T>,
        shared: &Shared<T>,
        open: &mut Open<T>,
        entry: NonNull<Entry<T>>,
    ) {
        owner.visited();
        // SAFETY: the owner holds it.
        let this = unsafe { entry.as_ref() };
        let filed = this.filed();
        if filed.expiration != open.place.expiration {
            // SAFETY: passed on to the caller.
            let hand = (&*open.hand, open.at);
            // SAFETY: passed on to the caller.
            open.at = unsafe { self.put_aside(owner, shared, hand, entry, filed, None) };
            return;
        }
        let hand = &*open.hand;
        hand.set_moving(entry.as_ptr());
        // SAFETY: the hand showed it.
        unsafe { hand.pass(&mut open.at, entry) };
        loop {
            let word = this.word();
            if word.phase() == Phase::Vacant {
                hand.set_moved();
                // SAFETY: the owner holds it; `word` is vacant.
                match unsafe { this.unlink(word) } {
                    // SAFETY: nobody kept it, so it is held here alone.
                    Some(true) => return unsafe { owner.bury(shared, entry) },
                    Some(false) => return,
                    None => continue,
                }
            }
            debug_assert!(word.deadline() >= open.place.expiration, "filed after it is due");
            let next = self.wheel.geometry().place(word.deadline(), open.place.expiration);
            // SAFETY: the owner holds it; `word` is pending.
            if unsafe { this.refile(word, next) } {
                owner.counters.add(Count::Cascaded, 1);
                // SAFETY: it was just re-filed there.
                unsafe { self.push(owner, entry, next) };
                return hand.set_moved();
            }
        }
    }
}

impl<T> Owner<T> {
    /// How many levels may have something that opens: those from 1 to this.
    fn levels(&self) -> u8 {
        self.heap.levels().max(self.rounds.levels())
    }
}
