//! `check`: walks every invariant of a shard. For tests and fuzzing.
//!
//! *Owner*: the shard's owner, while no other thread schedules, cancels or resets.

use std::collections::HashSet;
use std::fmt;
use std::ptr::NonNull;

use crate::entry::{Entry, Linked, Phase};
use crate::sync::Ordering;
use crate::time::{Place, Tick};

use super::{Owner, Shard};

macro_rules! ensure {
    ($holds:expr, $($what:tt)+) => {
        if !$holds {
            return Err(Violation(format!($($what)+)));
        }
    };
}

/// An invariant that does not hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation(String);

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Violation {}

impl Violation {
    /// Two ways of counting must agree.
    ///
    /// # Errors
    /// They do not.
    pub fn unless_equal(what: &str, found: u64, counted: u64) -> Result<(), Violation> {
        ensure!(found == counted, "{found} {what} were found, {counted} were counted");
        Ok(())
    }
}

/// What a check counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counted {
    /// Entries whose timer is pending.
    pub pending: u64,
    /// Vacancies that somebody keeps.
    pub kept: u64,
    /// Vacancies that nobody keeps.
    pub dead: u64,
}

impl<T> Shard<T> {
    /// Checks structure and coverage at time `now`, and counts.
    ///
    /// # Errors
    /// The first invariant that does not hold.
    pub fn check(&self, owner: &mut Owner<T>, now: Tick) -> Result<Counted, Violation> {
        let now = now.max(self.clock());
        self.read_notices(owner);
        let agenda: HashSet<(u8, u32, Tick)> =
            owner.agenda.iter().map(|p| (p.level, p.slot, p.expiration)).collect();
        for place in owner.agenda.iter() {
            ensure!(self.wheel.level(place.level).is_some(), "{place:?}: no such level");
            let aligned = self.wheel.geometry().place_on(place.expiration, place.level);
            ensure!(aligned == place, "{place:?} on the agenda is not a bucket: {aligned:?}");
        }
        let mut counted = Counted::default();
        let mut seen = HashSet::new();
        for entry in owner.in_hand() {
            ensure!(seen.insert(entry.as_ptr()), "an entry is taken out twice");
            // SAFETY: what the owner has taken out and not decided about is there.
            self.check_entry(unsafe { entry.as_ref() }, now, &mut counted)?;
        }
        for (level, buckets) in self.wheel.existing() {
            for (slot, bucket) in buckets.iter().enumerate() {
                for first in bucket.firsts() {
                    let mut next = first;
                    while !next.is_null() {
                        ensure!(seen.insert(next), "an entry is in two lists, or in one twice");
                        // SAFETY: the caller keeps everybody else away, so what is in a list
                        // stays in it.
                        let entry = unsafe { &*next };
                        let place = self.check_entry(entry, now, &mut counted)?;
                        let here = place.level == level && place.slot as usize == slot;
                        ensure!(here, "{entry:?} is in level {level} slot {slot}");
                        let covered = agenda.contains(&(place.level, place.slot, place.expiration));
                        ensure!(covered, "{entry:?} is not covered by the agenda");
                        // ORDER: Relaxed - nobody else is there.
                        next = entry.next().load(Ordering::Relaxed);
                    }
                }
            }
        }
        Ok(counted)
    }

    fn check_entry(
        &self,
        entry: &Entry<T>,
        now: Tick,
        counted: &mut Counted,
    ) -> Result<Place, Violation> {
        let (word, filed) = (entry.word(), entry.filed());
        ensure!(word.in_list(), "{entry:?} is in a list and does not know");
        ensure!(entry.shard() == self.index, "{entry:?} is in shard {}", self.index);
        match (word.phase(), word.owned()) {
            (Phase::Pending, _) => counted.pending += 1,
            (Phase::Vacant, true) => counted.kept += 1,
            (Phase::Vacant, false) => counted.dead += 1,
            _ => ensure!(false, "{entry:?} ended and is still in a list"),
        }
        let place = self.wheel.geometry().place_on(filed.expiration, filed.level);
        ensure!(place.expiration == filed.expiration, "{entry:?} is filed between buckets");
        // What was due when it was filed sits in the bucket of that moment, which is past.
        let late = word.phase() == Phase::Pending
            && word.deadline() < filed.expiration
            && filed.expiration > now;
        ensure!(!late, "{entry:?} is filed after it is due");
        Ok(place)
    }
}

impl<T> Owner<T> {
    /// What was taken out of its bucket and waits for a later turn.
    fn in_hand(&self) -> impl Iterator<Item = NonNull<Entry<T>>> + '_ {
        let due = self.due.iter().flat_map(|flush| flush.rest());
        due.chain(self.late.rest()).chain(self.errand.iter().flat_map(|errand| errand.walk.rest()))
    }
}
