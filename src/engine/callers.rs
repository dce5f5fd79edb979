//! Who schedules an engine's timers: the places in the source, by samples.
//!
//! While somebody wants to know, each thread notes the caller of one in [`EVERY`] of its timers, at
//! random, so that callers who come in turns are all seen. The sum of an engine's notes is a table
//! of fixed size. While nobody does, a thread counts down to a sample that it does not take.
//!
//! *Owner*: a thread has its sampler. The table belongs to the core; any thread notes and reads.
//!
//! *Orderings*: numbers that nothing depends on, and addresses of statics.
//!
//! *Tested by*: `tests/callers.rs`.

use std::collections::BTreeMap;
use std::hash::{BuildHasher, RandomState};
use std::panic::Location;
use std::ptr;

use crate::sync::{AtomicPtr, AtomicUsize, Counter, OnceLock, Ordering, add_one};

/// On average, one of so many timers is a sample.
pub(crate) const EVERY: u64 = 64;

/// How many places the table has room for.
const PLACES: usize = 512;

/// How far from its own place an address is looked for.
const TRIES: usize = 16;

/// A thread's countdown to its next sample.
pub(super) struct Sampler {
    left: u32,
    /// The state of a small generator: random enough to be out of step with callers.
    random: u32,
}

/// The samples of an engine.
#[derive(Default)]
pub(super) struct Callers {
    /// How many want to know.
    wanted_by: AtomicUsize,
    /// Made when somebody first does.
    table: OnceLock<Table>,
}

struct Table {
    places: Box<[Place]>,
    /// Samples of places for which there was no room.
    others: Counter,
}

struct Place {
    /// Null, or the address of a `&'static Location<'static>`.
    at: AtomicPtr<Location<'static>>,
    samples: Counter,
}

/// What was noted so far.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Noted {
    /// Whether samples are taken now.
    pub(crate) goes_on: bool,
    /// By file, line and column.
    pub(crate) samples: BTreeMap<(&'static str, u32, u32), u64>,
    pub(crate) others: u64,
}

// === impl Sampler ===

impl Default for Sampler {
    fn default() -> Sampler {
        Sampler::new(RandomState::new().hash_one(0) as u32)
    }
}

impl Sampler {
    fn new(seed: u32) -> Sampler {
        let mut sampler = Sampler { left: 0, random: seed | 1 };
        sampler.start();
        sampler
    }

    /// Starts the countdown, from 1 to 127.
    fn start(&mut self) {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 17;
        self.random ^= self.random << 5;
        self.left = 1 + (self.random >> 8) % (2 * EVERY as u32 - 1);
    }

    /// Counts a timer, and notes its caller if it is a sample.
    #[inline(always)]
    pub(super) fn count(&mut self, callers: &Callers, caller: &'static Location<'static>) {
        self.left -= 1;
        if self.left == 0 {
            self.sample(callers, caller);
        }
    }

    #[cold]
    #[inline(never)]
    fn sample(&mut self, callers: &Callers, caller: &'static Location<'static>) {
        self.start();
        // ORDER: Relaxed - a flag that orders nothing.
        if callers.wanted_by.load(Ordering::Relaxed) > 0 {
            callers.table.get().into_iter().for_each(|table| table.note(caller));
        }
    }
}

// === impl Callers ===

impl Callers {
    /// From now on samples are noted, until `unwant` was called as often.
    pub(super) fn want(&self) {
        self.table.get_or_init(Table::new);
        // ORDER: Relaxed - a flag that orders nothing.
        self.wanted_by.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn unwant(&self) {
        // ORDER: Relaxed - as above.
        self.wanted_by.fetch_sub(1, Ordering::Relaxed);
    }

    /// Adds what was noted to `sum`.
    pub(super) fn add_to(&self, sum: &mut Noted) {
        let Some(table) = self.table.get() else { return };
        // ORDER: Relaxed - a flag that orders nothing.
        sum.goes_on |= self.wanted_by.load(Ordering::Relaxed) > 0;
        for place in &table.places {
            // ORDER: Relaxed - the address of a static, which was there before.
            let at = place.at.load(Ordering::Relaxed);
            if at.is_null() {
                continue;
            }
            // SAFETY: only `note` writes the place, and what it writes lives for ever.
            let at = unsafe { &*at };
            // ORDER: Relaxed - a number. (One place in the source may have several addresses.)
            let samples = place.samples.load(Ordering::Relaxed);
            *sum.samples.entry((at.file(), at.line(), at.column())).or_default() += samples;
        }
        // ORDER: Relaxed - a number.
        sum.others += table.others.load(Ordering::Relaxed);
    }
}

// === impl Table ===

impl Table {
    fn new() -> Table {
        let place = || Place { at: AtomicPtr::new(ptr::null_mut()), samples: Counter::new(0) };
        Table { places: (0..PLACES).map(|_| place()).collect(), others: Counter::new(0) }
    }

    fn note(&self, caller: &'static Location<'static>) {
        let address = ptr::from_ref(caller).cast_mut();
        let first = (address.addr() / align_of::<Location<'_>>()).wrapping_mul(0x9e37_79b1) >> 7;
        for n in 0..TRIES {
            let place = &self.places[(first + n) % PLACES];
            // ORDER: Relaxed - the address of a static, which was there before.
            let mut at = place.at.load(Ordering::Relaxed);
            if at.is_null() {
                // ORDER: Relaxed - as above.
                let claim =
                    place.at.compare_exchange(at, address, Ordering::Relaxed, Ordering::Relaxed);
                at = claim.err().unwrap_or(address);
            }
            if at == address {
                return add_one(&place.samples);
            }
        }
        add_one(&self.others);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn here() -> &'static Location<'static> {
        Location::caller()
    }

    #[test]
    fn one_of_sixty_four_is_noted_on_average_and_each_of_two_in_turns() {
        let (callers, mut sampler) = (Callers::default(), Sampler::new(7));
        let places = [here(), here()];
        let mut count = |timers: usize| {
            (0..timers).for_each(|n| sampler.count(&callers, places[n % 2]));
            let mut noted = Noted::default();
            callers.add_to(&mut noted);
            noted.samples.into_values().collect::<Vec<_>>()
        };
        assert!(count(1_000).is_empty(), "nobody wants to know");
        callers.want();
        let samples = count(64_000);
        assert_eq!(samples.len(), 2);
        assert!(samples.iter().all(|samples| (400..600).contains(samples)), "{samples:?}");
        callers.unwant();
        assert_eq!(count(1_000), samples);
    }

    #[test]
    fn what_finds_no_room_is_counted_as_others() {
        let table = Table::new();
        // As callers are, each at an address of its own that is there for good.
        static ALL: OnceLock<Vec<Location<'static>>> = OnceLock::new();
        let places = ALL.get_or_init(|| vec![*here(); 4 * PLACES]);
        places.iter().chain(places).for_each(|place| table.note(place));
        let callers = Callers::default();
        callers.table.set(table).unwrap_or_else(|_| unreachable!("it is new"));
        let mut noted = Noted::default();
        callers.add_to(&mut noted);
        assert_eq!(noted.samples.len(), 1, "they are one place in the source");
        let known: u64 = noted.samples.into_values().sum();
        assert_eq!(known + noted.others, 8 * PLACES as u64);
        assert!(known >= PLACES as u64 && noted.others >= 6 * PLACES as u64, "{known}");
    }
}
