//! Who schedules an engine's timers: the places in the source, by samples.
//!
//! While that is switched on, each thread notes the caller of one in [`Callers::EVERY`] of its
//! timers, at random, so that callers who come in turns are all seen. The notes are under a lock
//! that a thread which schedules only tries. While it is off, a thread counts down to a sample that
//! it does not take.
//!
//! *Owner*: a thread has its sampler. The notes belong to the core; any thread notes and reads.
//!
//! *Invariant*: noting allocates nothing, since the thread's cache is lent meanwhile.
//!
//! *Tested by*: `tests/suite/observe/callers.rs`.

use std::collections::BTreeMap;
use std::hash::{BuildHasher, RandomState};
use std::mem;
use std::panic::Location;
use std::ptr;

use crate::sync::{AtomicBool, Counter, Mutex, Ordering, add_one};

/// How many places there is room for.
const PLACES: usize = 512;

/// A thread's countdown to its next sample.
pub(super) struct Sampler {
    left: u32,
    /// The state of a small generator: random enough to be out of step with callers.
    random: u32,
}

/// What an engine has noted of its callers.
#[derive(Default)]
pub(super) struct CallerNotes {
    is_on: AtomicBool,
    /// The samples of each place, in the order of the addresses.
    // LOCK(CALLERS): engine: note; caller: note, switch; observer: noted.
    places: Mutex<Vec<(&'static Location<'static>, u64)>>,
    /// Samples whose places were not noted: there was no room, or another thread had the lock.
    others: Counter,
}

/// Who schedules an engine's timers, by samples: [`Engine::callers`](crate::Engine::callers).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Callers {
    /// Whether samples are taken now.
    pub is_sampled: bool,
    /// How many samples each place in the source has.
    pub samples: BTreeMap<&'static Location<'static>, u64>,
    /// Samples whose places were not noted: there is room for some 500, and two threads do not note
    /// at the same moment.
    pub others: u64,
}

// === impl Callers ===

impl Callers {
    /// One sample stands for so many timers.
    pub const EVERY: u64 = 64;
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
        // A new thread has not the whole of a countdown before it, but the rest of one: the first
        // sample of many threads comes as often as any other.
        let [one, other] = [(); 2].map(|()| {
            sampler.start();
            sampler.left
        });
        sampler.left = one.min(other);
        sampler
    }

    /// Starts the countdown, from 1 to 127.
    fn start(&mut self) {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 17;
        self.random ^= self.random << 5;
        self.left = 1 + (self.random >> 8) % (2 * Callers::EVERY as u32 - 1);
    }

    /// Counts a timer, and notes its caller if it is a sample.
    #[inline(always)]
    pub(super) fn count(&mut self, notes: &CallerNotes, caller: &'static Location<'static>) {
        self.left -= 1;
        if self.left == 0 {
            self.sample(notes, caller);
        }
    }

    #[cold]
    #[inline(never)]
    fn sample(&mut self, notes: &CallerNotes, caller: &'static Location<'static>) {
        self.start();
        // ORDER: Relaxed - a flag that orders nothing.
        if notes.is_on.load(Ordering::Relaxed) {
            notes.note(caller);
        }
    }
}

// === impl CallerNotes ===

impl CallerNotes {
    /// From now on samples are noted, or not.
    pub(super) fn switch(&self, is_on: bool) {
        let mut room = Vec::with_capacity(if is_on { PLACES } else { 0 });
        let mut places = self.places.lock().expect("nothing panics under this lock");
        if places.capacity() == 0 {
            mem::swap(&mut *places, &mut room);
        }
        // ORDER: Relaxed - a flag; the lock publishes the room.
        self.is_on.store(is_on, Ordering::Relaxed);
        // The lock is released first, then the room is freed that was not needed.
    }

    fn note(&self, caller: &'static Location<'static>) {
        let Ok(mut places) = self.places.try_lock() else { return add_one(&self.others) };
        let address = ptr::from_ref(caller);
        match places.binary_search_by_key(&address, |(place, _)| ptr::from_ref(*place)) {
            Ok(at) => places[at].1 += 1,
            Err(at) if places.len() < PLACES => places.insert(at, (caller, 1)),
            Err(_) => add_one(&self.others),
        }
    }

    /// What was noted so far.
    pub(super) fn noted(&self) -> Callers {
        // ORDER: Relaxed - a flag, and a number.
        let (is_sampled, others) =
            (self.is_on.load(Ordering::Relaxed), self.others.load(Ordering::Relaxed));
        let mut places = Vec::with_capacity(PLACES);
        places.extend_from_slice(&self.places.lock().expect("nothing panics under this lock"));
        let mut samples = BTreeMap::new();
        for (place, count) in places {
            // (One place in the source may have several addresses: they are equal.)
            *samples.entry(place).or_default() += count;
        }
        Callers { is_sampled, samples, others }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sync::OnceLock;

    #[track_caller]
    fn here() -> &'static Location<'static> {
        Location::caller()
    }

    #[test]
    fn one_of_sixty_four_is_noted_on_average_and_each_of_two_in_turns() {
        let (callers, mut sampler) = (CallerNotes::default(), Sampler::new(7));
        let places = [here(), here()];
        let mut count = |timers: usize| {
            (0..timers).for_each(|n| sampler.count(&callers, places[n % 2]));
            callers.noted().samples.into_values().collect::<Vec<_>>()
        };
        assert!(count(1_000).is_empty(), "it is off");
        callers.switch(true);
        let samples = count(64_000);
        assert_eq!(samples.len(), 2);
        assert!(samples.iter().all(|samples| (400..600).contains(samples)), "{samples:?}");
        callers.switch(false);
        assert_eq!(count(1_000), samples);
    }

    #[test]
    fn threads_that_schedule_once_are_noted_as_often_as_others() {
        let callers = CallerNotes::default();
        callers.switch(true);
        let threads = 64_000_u32;
        for thread in 0..threads {
            Sampler::new(thread.wrapping_mul(0x9e37_79b9)).count(&callers, here());
        }
        let samples: u64 = callers.noted().samples.into_values().sum();
        assert!((900..1100).contains(&samples), "{samples}");
    }

    #[test]
    fn what_finds_no_room_or_a_busy_lock_is_counted_as_others_and_allocates_nothing() {
        let callers = CallerNotes::default();
        callers.switch(true);
        // As callers are, each at an address of its own that is there for good.
        static ALL: OnceLock<Vec<Location<'static>>> = OnceLock::new();
        let all = ALL.get_or_init(|| vec![*here(); 4 * PLACES]);
        let room = callers.places.lock().unwrap().capacity();
        all.iter().chain(all).for_each(|place| callers.note(place));
        let busy = callers.places.lock().unwrap();
        assert_eq!(busy.capacity(), room);
        callers.note(&all[0]);
        drop(busy);
        let noted = callers.noted();
        assert_eq!(noted.samples.len(), 1, "they are one place in the source");
        let known: u64 = noted.samples.into_values().sum();
        assert_eq!((known, noted.others), (2 * PLACES as u64, 6 * PLACES as u64 + 1));
    }
}
