//! `check`: walks every invariant of a shard. For tests and fuzzing.
//!
//! *Owner*: the shard's owner. While other threads schedule, cancel or reset, what it finds may be
//! wrong.

use std::collections::HashSet;
use std::fmt;
use std::ptr;

use crate::entry::{Entry, Phase};
use crate::memory::Shared;
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
///
/// ```
/// use std::time::Duration;
/// use tickless::{Batch, Engine, Violation};
///
/// /// For tests: "in order", or the first invariant that does not hold.
/// fn report(verdict: Result<(), Violation>) -> String {
///     verdict.map_or_else(|violation| violation.to_string(), |()| "in order".to_owned())
/// }
///
/// let engine = Engine::typed(|batch: Batch<'_, u64>| drop(batch))?;
/// engine.schedule_detached(Duration::from_secs(60), 7)?;
/// assert_eq!(report(engine.check()), "in order");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation(String);

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Violation {}

impl Violation {
    /// Compares two ways of counting.
    ///
    /// # Errors
    /// The two numbers differ.
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
    pub fn check(
        &self,
        owner: &mut Owner<T>,
        shared: &Shared<T>,
        now: Tick,
    ) -> Result<Counted, Violation> {
        let now = now.max(self.clock());
        self.read_notices(owner, shared);
        let (owner, guard) = (&*owner, self.guard(owner));
        ensure!(owner.agenda.is_whole(), "the agenda's heaps and its index differ");
        for place in owner.agenda.armed() {
            ensure!(self.wheel.get(place).is_some(), "{place:?}: no such bucket");
            let aligned = self.wheel.geometry().place_on(place.expiration, place.level);
            ensure!(aligned == place, "{place:?} on the heap is not a bucket: {aligned:?}");
        }
        ensure!(self.knows_cascades(owner, now), "a bucket is to be cascaded before that is known");
        let mut counted = Counted::default();
        let mut seen = HashSet::new();
        let open = owner.agenda.all_due().chain(&owner.agenda.eager);
        for entry in open.flat_map(|open| open.tray.rest(guard)) {
            ensure!(seen.insert(ptr::from_ref(entry)), "an entry is taken out twice");
            self.check_entry(entry, now, &mut counted)?;
        }
        let aside = owner.agenda.all_aside();
        for (place, entry) in
            aside.flat_map(|(place, tray)| tray.rest(guard).map(move |it| (place, it)))
        {
            ensure!(seen.insert(ptr::from_ref(entry)), "an entry is taken out twice");
            let filed = self.check_entry(entry, now, &mut counted)?;
            ensure!(filed == place, "{entry:?} waits for {place:?}");
        }
        for (level, slot, bucket) in self.wheel.existing(guard) {
            ensure!(bucket.knows_own(), "level {level} slot {slot} does not know of its entries");
            for entry in bucket.entries(guard) {
                let is_new = seen.insert(ptr::from_ref(entry));
                ensure!(is_new, "an entry is in two lists, or in one twice");
                let place = self.check_entry(entry, now, &mut counted)?;
                let here = place.level == level && place.slot == slot;
                ensure!(here, "{entry:?} is in level {level} slot {slot}");
                ensure!(owner.agenda.is_armed(place), "{entry:?} is not covered by the agenda");
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
        match (word.phase(), word.is_held()) {
            (Phase::Pending, _) => counted.pending += 1,
            (Phase::Vacant, true) => counted.kept += 1,
            (Phase::Vacant, false) => counted.dead += 1,
            _ => ensure!(false, "{entry:?} ended and is still in a list"),
        }
        let place = self.wheel.geometry().place_on(filed.expiration, filed.level);
        ensure!(place.expiration == filed.expiration, "{entry:?} is filed between buckets");
        // A timer that was due when it was filed is in the bucket of that moment, which is past.
        let late = word.phase() == Phase::Pending
            && word.deadline() < filed.expiration
            && filed.expiration > now;
        ensure!(!late, "{entry:?} is filed after it is due");
        Ok(place)
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use std::ptr::NonNull;

    use super::super::Bucket;
    use super::*;
    use crate::doorbell::{Bell, Doorbell};
    use crate::entry::Guard;
    use crate::inbox::Tray;
    use crate::memory::alone;
    use crate::time::Geometry;

    const INDEX: u32 = 3;

    fn shard() -> Parts {
        let shared = alone(INDEX as usize + 1);
        let geometry = Geometry::new(4, 4).unwrap();
        (Shard::new(INDEX, geometry, Doorbell::new(Bell::None), Tick::ZERO, &shared), shared)
    }

    fn place(shard: &Shard<()>, deadline: u64) -> Place {
        shard.wheel().geometry().place(Tick::new(deadline), Tick::ZERO)
    }

    fn bucket(shard: &Shard<()>, deadline: u64) -> &Bucket<()> {
        shard.wheel().bucket(place(shard, deadline)).unwrap()
    }

    type Parts = (Shard<()>, Shared<()>);

    fn check((shard, shared): &Parts, now: u64) -> Result<Counted, Violation> {
        shard.check(&mut shard.owner().lock().unwrap(), shared, Tick::new(now))
    }

    /// Announces what was pushed to the bucket of a deadline.
    fn announce(shard: &Shard<()>, deadline: u64) {
        let place = place(shard, deadline);
        // SAFETY: the memory is new, so it is held here alone.
        unsafe { shard.announce(bucket(shard, deadline), Entry::allocate(INDEX), place) }.unwrap();
    }

    /// Files a timer as schedulers do.
    fn file(shard: &Shard<()>, deadline: u64, held: bool) -> NonNull<Entry<()>> {
        let entry = Entry::allocate(0);
        let place = place(shard, deadline);
        // SAFETY: it is new, so it is held here alone; its payload is nothing.
        unsafe { entry.as_ref().make_pending(Tick::new(deadline), place, INDEX, held) };
        // SAFETY: it was armed for this place.
        if unsafe { shard.file(entry, place, 0) }.unwrap().is_some() {
            announce(shard, deadline);
        }
        entry
    }

    /// The verdict of a check at `now` on a shard in which `plant` put an entry.
    fn verdict(now: u64, plant: impl FnOnce(&Shard<()>, NonNull<Entry<()>>)) -> String {
        let parts = shard();
        let (shard, shared) = &parts;
        let entry = Entry::allocate(0);
        plant(shard, entry);
        let verdict = check(&parts, now);
        shard.owner().lock().unwrap().outbox.clear(shared);
        // SAFETY: nothing is freed meanwhile.
        let guard = unsafe { Guard::assume() };
        for (_, _, bucket) in shard.wheel().existing(guard) {
            bucket.close_into(&Tray::wide());
        }
        // SAFETY: nothing leads to it any more.
        unsafe { Entry::free(entry) };
        verdict.map_or_else(|violation| violation.to_string(), |counted| format!("{counted:?}"))
    }

    /// Arms the entry for a deadline and for the place of another, and pushes it to a third.
    fn misplace(entry: NonNull<Entry<()>>, shard: &Shard<()>, [due, filed, pushed]: [u64; 3]) {
        // SAFETY: the caller holds it alone.
        unsafe { entry.as_ref().make_pending(Tick::new(due), place(shard, filed), INDEX, false) };
        // SAFETY: the caller holds it alone; it lives until the lists are emptied.
        unsafe { bucket(shard, pushed).lanes.push(entry, 0) }.unwrap();
    }

    #[test]
    fn what_is_in_order_is_counted_by_its_kind() {
        let parts = shard();
        let (shard, shared) = &parts;
        file(shard, 1, false);
        file(shard, 1, false);
        let (kept, dead) = (file(shard, 9, true), file(shard, 9, true));
        for entry in [kept, dead] {
            // SAFETY: this is its handle.
            assert!(unsafe { entry.as_ref().cancel() }.is_some());
        }
        // SAFETY: the seat is given up.
        assert!(!unsafe { Entry::let_go(dead) });
        assert_eq!(check(&parts, 0), Ok(Counted { pending: 2, kept: 1, dead: 1 }));
        let owner = &mut *shard.owner().lock().unwrap();
        let now = shard.begin(Tick::new(1));
        assert!(shard.open_due(owner, now) && !shard.flush(owner, shared, 1));
        let counted = shard.check(owner, shared, now);
        assert_eq!(counted, Ok(Counted { pending: 1, kept: 1, dead: 1 }), "one is in a tray");
        assert_eq!(shard.close(owner, shared).len(), 2, "one is due, one is in a tray");
        // SAFETY: the seat is given up, and the list has let go of it.
        assert!(unsafe { Entry::let_go(kept) });
        // SAFETY: so it is ours.
        unsafe { Entry::free(kept) };
    }

    #[test]
    fn an_entry_that_is_not_where_it_says_is_found() {
        for pushed in [2, 13] {
            let found = verdict(0, |shard, entry| misplace(entry, shard, [9, 9, pushed]));
            assert!(found.contains("is in level"), "{found} for one pushed beside {pushed}");
        }
        let found = verdict(0, |shard, entry| {
            // SAFETY: it is held here alone, and lives until the lists are emptied.
            unsafe { bucket(shard, 1).lanes.push(entry, 0) }.unwrap();
        });
        assert!(found.contains("is in a list and does not know"), "{found}");
        let found = verdict(0, |shard, entry| {
            misplace(entry, shard, [9, 9, 9]);
            // SAFETY: it is held here alone, and lives until the lists are emptied.
            unsafe { bucket(shard, 9).lanes.push(entry, 0) }.unwrap();
            announce(shard, 9);
        });
        assert!(found.contains("in one twice"), "{found}");
    }

    #[test]
    fn an_entry_of_which_nobody_told_the_reaper_is_found() {
        let found = verdict(0, |shard, entry| misplace(entry, shard, [9, 9, 9]));
        assert!(found.contains("is not covered by the agenda"), "{found}");
    }

    #[test]
    fn an_entry_that_opens_after_it_is_due_is_found_until_it_opens() {
        let plant = |shard: &Shard<()>, entry| {
            misplace(entry, shard, [2, 3, 3]);
            announce(shard, 3);
        };
        assert!(verdict(2, plant).contains("is filed after it is due"));
        assert!(verdict(3, plant).contains("pending: 1"));
    }

    #[test]
    fn an_item_of_the_armed_heap_that_names_no_bucket_is_found() {
        let parts = shard();
        let shard = &parts.0;
        let far = place(shard, 9);
        shard.owner().lock().unwrap().agenda.arm(far);
        assert!(check(&parts, 0).unwrap_err().to_string().contains("no such bucket"));
        bucket(shard, 9);
        assert_eq!(check(&parts, 0), Ok(Counted::default()));
        let beside = Place { expiration: Tick::new(far.expiration.get() + 1), ..far };
        shard.owner().lock().unwrap().agenda.arm(beside);
        assert!(check(&parts, 0).unwrap_err().to_string().contains("is not a bucket"));
    }

    #[test]
    fn a_cascade_that_would_be_missed_is_found() {
        let (shard, shared) = shard();
        bucket(&shard, 9);
        let owner = &mut *shard.owner().lock().unwrap();
        owner.agenda.arm(place(&shard, 9));
        assert_eq!(shard.check(owner, &shared, Tick::ZERO), Ok(Counted::default()));
        owner.agenda.cascades_from = Tick::new(8);
        let found = shard.check(owner, &shared, Tick::ZERO).unwrap_err().to_string();
        assert!(found.contains("is to be cascaded"), "{found}");
    }

    #[test]
    fn entries_that_the_owner_forgot_are_found() {
        let found = verdict(0, |shard, entry| {
            // SAFETY: it is held here alone, and lives until the lists are emptied.
            unsafe { bucket(shard, 9).own.push(entry, 0) };
        });
        assert!(found.contains("does not know of its entries"), "{found}");
    }

    #[test]
    fn counts_that_differ_are_told() {
        assert_eq!(Violation::unless_equal("mice", 2, 2), Ok(()));
        let differ = Violation::unless_equal("mice", 2, 3).unwrap_err();
        assert_eq!(differ.to_string(), "2 mice were found, 3 were counted");
    }
}
