//! The scan: a reader finds the pending timers while everything runs.
//!
//! *Owner*: any thread, under a [`Reader`]: no entry that it may see is given back to the
//! allocator while it looks. Entries may be *recycled* under it, so it trusts only the current
//! state of an entry, stops following a chain that left its bucket, and bounds its steps.
//!
//! It visits the buckets and then the owner's trays, in the order in which entries move (`trays`):
//! an entry that is missing from its bucket because that was opened is found in a tray. A re-filed
//! entry moves the other way, from a tray into a bucket, and may be missed. So the scan makes
//! another pass until nothing left a tray during a pass. The number of passes is bounded, because a
//! timer is re-filed at most once on each level (`passes`). Further passes read only what was
//! pushed since, and the trays that were filled since. Duplicates are found by their
//! address.
//!
//! A sweep may cut an entry out of a list at any time, and its memory may then serve another timer,
//! or announce a bucket. So a reader of a list looks at an entry, at its place and at the link
//! behind it, and only then whether the way that led it there is as before: the entry before it is
//! still in the list, by its list bit and its version, and leads to this one; or the head does. If
//! what was read belongs to a later use of the entry, its pusher's Release brings along the cut.
//! That has changed the link of the entry before, or that entry was cut out earlier itself, and
//! its list bit was cleared then, before the next cut. (If a flush opened the list meanwhile, what
//! comes behind is in a tray, and is found there.) The version has 6 bits: where a reader stands
//! still while an entry is used 64 times, it may miss what comes after that in the list.
//!
//! A reader that finds the way changed goes on from the last entry of the list that no sweep could
//! cut out, because it had a timer or was kept. If that is gone too, it begins with the list again.
//! Each such step counts: a cut costs a reader one, and so does a push on the list between its two
//! looks at the head. A producer would have to push between all of them to use up its steps. In a
//! round that is put aside a reader is led away unnoticed; so a sweep that cuts there makes it go
//! on to another pass.
//!
//! *Orderings*: BUCKET-READ.
//!
//! *Tested by*: `tests/{suite,races}/engine/scan.rs`, `loom-tests/tests/bucket_read.rs`,
//! `shard/scan/tests.rs`.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::ptr;

use crate::entry::{Entry, Guard, Phase, Reader, Word};
use crate::inbox::behind;
use crate::time::Tick;

use super::{Bucket, Shard, bucket_number};

/// A timer that was pending when the scan visited it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Pending {
    /// When it is due, in ticks since the engine's start.
    pub deadline: Tick,
    /// The level on which it is filed, from 1.
    pub level: u8,
    /// The shard that serves it.
    pub shard: u32,
}

/// What a scan has found so far.
struct Scan<'g, T> {
    found: Vec<FoundTimer<'g, T>>,
    /// The first entry of each list when it was read last, by bucket and list.
    firsts: HashMap<(u64, usize), Mark<'g, T>>,
    /// How often each tray was filled when it was read last, by its address: trays are added.
    filled: HashMap<*const (), u64>,
    /// The number of the pass.
    pass: u8,
    /// Whether a timer may have been found twice.
    may_repeat: bool,
}

// === impl Scan ===

impl<T> Scan<'_, T> {
    fn begin() -> Self {
        let (firsts, filled) = (HashMap::new(), HashMap::new());
        Scan { found: Vec::new(), firsts, filled, pass: 0, may_repeat: false }
    }
}

/// A timer, and where it was found.
struct FoundTimer<'g, T> {
    entry: &'g Entry<T>,
    deadline: Tick,
    level: u8,
    pass: u8,
}

// === impl FoundTimer ===

impl<'g, T> FoundTimer<'g, T> {
    fn new(entry: &'g Entry<T>, at: Pending, pass: u8) -> FoundTimer<'g, T> {
        FoundTimer { entry, deadline: at.deadline, level: at.level, pass }
    }
}

/// An entry in a list, as the reader saw it.
type Mark<'g, T> = (&'g Entry<T>, Word);

impl<T> Shard<T> {
    /// Calls `f` for each pending timer. Makes at most `passes` passes. Each pass follows at most
    /// `steps` links through the buckets, and as many through the trays.
    ///
    /// Weakly consistent: a timer is seen exactly once if it is pending from before the scan until
    /// after it, is not reset, and is not re-filed in every pass. A timer that comes, goes or is
    /// reset meanwhile may be seen once, twice or not at all.
    pub fn scan(&self, reader: &Reader, steps: u64, passes: u32, mut f: impl FnMut(Pending)) {
        let (guard, mut scan) = (reader.guard(), Scan::begin());
        let mut before = (passes > 1).then(|| self.progress()).flatten();
        for left in (0..passes).rev() {
            self.look(guard, steps, left > 0, &mut scan);
            if left == 0 {
                break;
            }
            let after = self.progress();
            if before.is_some() && before == after {
                break;
            }
            before = after;
            scan.pass += 1;
            scan.may_repeat = true;
        }
        let mut found = scan.found;
        if scan.may_repeat {
            // The last pass has its current place.
            let address = |found: &FoundTimer<'_, T>| ptr::from_ref(found.entry);
            found.sort_unstable_by_key(|found| (address(found), Reverse(found.pass)));
            found.dedup_by_key(|found| address(found));
        }
        let shard = self.index;
        found
            .into_iter()
            .for_each(|FoundTimer { deadline, level, .. }| f(Pending { deadline, level, shard }));
    }

    /// How many passes show every timer that is pending throughout: it is re-filed at most once on
    /// each level, and once more if it began on a seat.
    pub fn passes(&self) -> u32 {
        u32::from(self.wheel.geometry().levels()) + 2
    }

    /// The owner's progress through its trays, and that of sweeps in them. `None`: an entry is
    /// moving.
    pub(super) fn progress(&self) -> Option<Vec<usize>> {
        let mut progress = vec![self.trays.cuts()];
        self.trays.iter().all(|tray| tray.note(&mut progress)).then_some(progress)
    }

    /// Makes one pass. `goes_on`: there may be another one.
    fn look<'g>(&self, guard: Guard<'g>, steps: u64, goes_on: bool, scan: &mut Scan<'g, T>) {
        self.look_into_buckets(guard, steps, goes_on, scan);
        let in_buckets = scan.found.len();
        self.look_into_trays(guard, steps, scan);
        // It may have been seen in its bucket before.
        scan.may_repeat |= scan.found.len() > in_buckets;
    }

    fn look_into_buckets<'g>(
        &self,
        guard: Guard<'g>,
        mut left: u64,
        goes_on: bool,
        scan: &mut Scan<'g, T>,
    ) {
        let lists = self.wheel.existing(guard).flat_map(|(level, slot, bucket)| {
            let filled = bucket.lists().filter(move |&list| bucket.first(list, guard).is_some());
            filled.map(move |list| (bucket_number(level, slot), (bucket, list)))
        });
        for (of, list) in lists {
            let key = (of, list.1);
            let (known, pass, mut first) = (scan.firsts.get(&key).copied(), scan.pass, None);
            let note = |entry, word, at: Option<Pending>| {
                first.get_or_insert((entry, word));
                scan.found.extend(at.map(|at| FoundTimer::new(entry, at, pass)));
            };
            scan.may_repeat |= self.read_list(guard, list, of, &mut left, known, note);
            if let Some(first) = first.filter(|_| goes_on) {
                scan.firsts.insert(key, first);
            }
        }
    }

    fn look_into_trays<'g>(&self, guard: Guard<'g>, mut left: u64, scan: &mut Scan<'g, T>) {
        let Scan { found, filled, pass, .. } = scan;
        for tray in self.trays.iter() {
            let mut see = |of, entry: &'g Entry<T>| {
                let note = |at| found.push(FoundTimer::new(entry, at, *pass));
                self.see(of, entry, note).is_some()
            };
            let now = tray.filled();
            // What a wide tray had at the last pass was seen, and no more comes unless it is filled
            // anew.
            let before = filled.insert(ptr::from_ref(tray).cast(), now);
            let is_known = tray.is_wide() && before == Some(now);
            match is_known {
                true => tray.read_moving(guard, &mut see),
                false => tray.read(guard, &mut left, &mut see),
            }
        }
    }

    /// Reads the lists of a bucket: calls `f` for each pending timer.
    pub(super) fn read_bucket<'g>(
        &self,
        guard: Guard<'g>,
        bucket: &Bucket<T>,
        of: u64,
        left: &mut u64,
        mut f: impl FnMut(Pending),
    ) {
        for list in bucket.lists() {
            let note = |_, _, found: Option<Pending>| found.into_iter().for_each(&mut f);
            self.read_list(guard, (bucket, list), of, left, None, note);
        }
    }

    /// Reads a list of a bucket down to the entry `known`, if that is still there, and otherwise to
    /// its end. Calls `f` for each entry, with its timer, if that is pending. Returns `true` if it
    /// has begun again: it may have seen a timer twice.
    fn read_list<'g>(
        &self,
        guard: Guard<'g>,
        (bucket, list): (&Bucket<T>, usize),
        of: u64,
        left: &mut u64,
        mut known: Option<Mark<'g, T>>,
        mut f: impl FnMut(&'g Entry<T>, Word, Option<Pending>),
    ) -> bool {
        let mut has_begun_again = false;
        // The entry that leads to the next one, and the last one that no sweep takes out. `None`:
        // the head.
        let [mut before, mut living] = [None::<Mark<'g, T>>; 2];
        let mut next = bucket.first(list, guard);
        while *left > 0 && (next.is_some() || before.is_some()) {
            let (mut found, mut is_elsewhere) = (None, false);
            let entry = next.map(|entry| {
                *left -= 1;
                let word = self.see(Some(of), entry, |at| found = Some(at));
                is_elsewhere = word.is_none();
                (entry, word, behind(entry, guard))
            });
            if !is_elsewhere && leads_to(guard, (bucket, list), before, next) {
                let Some((entry, Some(word), link)) = entry else { break };
                let is_known =
                    |(at, then): Mark<'g, T>| ptr::eq(at, entry) && then.is_as_filed(word);
                if known.is_some_and(is_known) {
                    break;
                }
                f(entry, word, found);
                (before, next) = (Some((entry, word)), link);
                if word.phase() == Phase::Pending || word.is_held() {
                    living = before;
                }
                continue;
            }
            *left -= u64::from(next.is_none());
            if is_elsewhere || !living.is_some_and(is_in_list) {
                has_begun_again |= living.is_some();
                (living, known) = (None, None);
            }
            before = living;
            next = before.map_or_else(|| bucket.first(list, guard), |(at, _)| behind(at, guard));
        }
        has_begun_again
    }

    /// Looks at an entry that was reached under a guard. Returns its word, or `None` if it was
    /// reached from the place `of` and is no longer filed there.
    pub(super) fn see(
        &self,
        of: Option<u64>,
        entry: &Entry<T>,
        f: impl FnOnce(Pending),
    ) -> Option<Word> {
        let (word, filed) = (entry.word(), entry.filed_and_before());
        let level = filed.level.max(1);
        let place = self.wheel.geometry().place_on(filed.expiration, level);
        if of.is_some_and(|of| bucket_number(place.level, place.slot) != of) {
            return None;
        }
        if word.phase() == Phase::Pending && word.in_list() && entry.shard() == self.index {
            f(Pending { deadline: word.deadline(), level, shard: self.index });
        }
        Some(word)
    }
}

/// Whether `before` is in the list that it was in when its word was read, and leads to `next`
/// there. `None`: the head of the list.
fn leads_to<'g, T>(
    guard: Guard<'g>,
    (bucket, list): (&Bucket<T>, usize),
    before: Option<Mark<'g, T>>,
    next: Option<&'g Entry<T>>,
) -> bool {
    let is_next = |now: Option<&Entry<T>>| now.map(ptr::from_ref) == next.map(ptr::from_ref);
    match before {
        None => is_next(bucket.first(list, guard)),
        Some(mark) => is_next(behind(mark.0, guard)) && is_in_list(mark),
    }
}

/// Whether a list reaches the entry as it was filed when its word was read.
fn is_in_list<T>((entry, then): Mark<'_, T>) -> bool {
    let now = entry.word();
    now.in_list() && now.is_as_filed(then)
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;
