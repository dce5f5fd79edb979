//! The entry: one scheduled timer in one allocation of one cache line.
//!
//! *Owner*: the state word tells who may do what (see `word`). The payload belongs to whoever
//! put the entry into its present phase: readable by the winner of the exchange that leaves
//! `Pending`, writable by the sole holder of free memory and by the producer of a vacancy.
//!
//! *Tested by*: `loom-tests/tests/{cancel_fire,reset_fire,seat,release}.rs`.

use std::fmt;
use std::mem::MaybeUninit;
use std::ptr::{self, NonNull};

use crate::sync::{self, AtomicPtr, AtomicU32, AtomicU64, Life, Ordering, UnsafeCell};
use crate::time::{MAX_LEVELS, Place, Tick};

use super::{Phase, Word};

/// A node of an intrusive list: it carries the pointer to the next one itself.
pub trait Linked: Sized {
    /// The link. Written by the thread that pushes the node, read by the one that took the list
    /// (and, for entries, by readers under a guard, who must expect it to change).
    fn next(&self) -> &AtomicPtr<Self>;
}

/// One scheduled timer, or the seat of a cancelled one, or memory for the next.
#[repr(C, align(64))]
pub struct Entry<T> {
    pub(super) word: AtomicU64,
    next: AtomicPtr<Entry<T>>,
    /// Where it is filed: expiration and level of its bucket. Written by the thread that files
    /// it, made official by the state word's version.
    filed: AtomicU64,
    /// The shard in whose wheel it is filed.
    shard: AtomicU32,
    /// The engine that it belongs to, for life.
    engine: u32,
    payload: UnsafeCell<MaybeUninit<T>>,
    life: Life,
}

/// A bucket as an entry remembers it: level and expiration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Filed {
    /// The level, from 1.
    pub level: u8,
    /// The start of the bucket's span.
    pub expiration: Tick,
}

const LEVEL_BITS: u32 = 6;
const _: () = assert!(MAX_LEVELS < 1 << LEVEL_BITS, "a level fits its bits");
#[cfg(not(any(loom, shuttle)))]
const _: () = assert!(size_of::<Entry<[usize; 4]>>() == 64, "four words ride along in one line");

// SAFETY: the payload is only touched by the thread that the state word makes its owner, and
// moves between threads with a release/acquire pair on that word or on the list; every other
// field is atomic or never changes. `T: Send` is what moving it asks for.
unsafe impl<T: Send> Send for Entry<T> {}
// SAFETY: as for `Send`: shared access to an entry reaches the payload through the word alone.
unsafe impl<T: Send> Sync for Entry<T> {}

impl<T> Linked for Entry<T> {
    #[inline]
    fn next(&self) -> &AtomicPtr<Entry<T>> {
        self.life.look();
        &self.next
    }
}

// === impl Entry ===

impl<T> Entry<T> {
    /// Fresh memory for a timer of `engine`.
    pub fn allocate(engine: u32) -> NonNull<Entry<T>> {
        let entry = Box::new(Entry {
            word: AtomicU64::new(Word::FREE.0),
            next: AtomicPtr::new(ptr::null_mut()),
            filed: AtomicU64::new(0),
            shard: AtomicU32::new(0),
            engine,
            payload: UnsafeCell::new(MaybeUninit::uninit()),
            life: Life::begin(),
        });
        // SAFETY: a box is never null.
        unsafe { NonNull::new_unchecked(Box::into_raw(entry)) }
    }

    /// Gives the memory back to the allocator. The payload is not dropped.
    ///
    /// # Safety
    /// `entry` came from [`Entry::allocate`], nobody holds it, and no reader can still see it.
    pub unsafe fn free(entry: NonNull<Entry<T>>) {
        // SAFETY: the caller holds it alone.
        unsafe { entry.as_ref() }.life.end();
        // SAFETY: as above, and it came from a box.
        sync::free(unsafe { Box::from_raw(entry.as_ptr()) });
    }

    /// The state word as it is now.
    #[inline]
    pub fn word(&self) -> Word {
        self.life.look();
        // ORDER(CANCEL-FIRE, RESET-FIRE, SEAT, RELEASE): Acquire - pairs with the release half of
        // every exchange of the word: what the last winner wrote (payload, place) is visible.
        Word(self.word.load(Ordering::Acquire))
    }

    /// The bucket that the entry is filed in. Only official together with an unchanged word.
    #[inline]
    pub fn filed(&self) -> Filed {
        // ORDER(RESET-FIRE, SEAT): Relaxed - read between a load of the word and an exchange
        // from the same value, which fails if the entry was re-filed in between.
        Filed::unpack(self.filed.load(Ordering::Relaxed))
    }

    /// The same for a reader, who sees as well what its writer did before: a reader that finds an
    /// entry elsewhere finds what was beside it in the hands of the owner.
    pub fn filed_and_before(&self) -> Filed {
        // ORDER(BUCKET-READ): Acquire - pairs with the Release in `set_filed`.
        Filed::unpack(self.filed.load(Ordering::Acquire))
    }

    /// The engine that it belongs to.
    #[inline]
    pub fn engine(&self) -> u32 {
        self.engine
    }

    /// The shard in whose wheel it is filed.
    #[inline]
    pub fn shard(&self) -> u32 {
        // ORDER: Relaxed - a hint for counting; it changes only while nobody else holds it.
        self.shard.load(Ordering::Relaxed)
    }

    /// Puts a payload into free memory or into a vacancy.
    ///
    /// # Safety
    /// The caller is the sole holder of the free memory, or the producer of the vacancy.
    #[inline]
    pub unsafe fn put_payload(&self, payload: T) {
        self.payload.with_mut(|cell| {
            // SAFETY: the holder of free memory and the producer of a vacancy are the only ones
            // who may touch the payload in those phases.
            unsafe { (*cell).write(payload) };
        });
    }

    /// Moves the payload out.
    ///
    /// # Safety
    /// The payload was put, the caller owns it (it won the exchange that left `Pending`, or it
    /// put the payload and the entry never became `Pending`), and moves it out once.
    #[inline]
    pub unsafe fn take_payload(&self) -> T {
        self.payload.with_mut(|cell| {
            // SAFETY: the caller is its only owner and it is initialised.
            unsafe { (*cell).assume_init_read() }
        })
    }

    /// Drops the payload where it is.
    ///
    /// # Safety
    /// As [`Entry::take_payload`].
    #[inline]
    pub unsafe fn drop_payload(&self) {
        self.payload.with_mut(|cell| {
            // SAFETY: the caller is its only owner and it is initialised.
            unsafe { (*cell).assume_init_drop() };
        });
    }

    /// Turns memory that holds a payload into a pending timer, about to be pushed.
    ///
    /// # Safety
    /// The caller is the sole holder, has put a payload, and pushes the entry next (or takes
    /// the payload back).
    #[inline]
    pub unsafe fn arm(&self, deadline: Tick, place: Place, shard: u32, held: bool) {
        self.set_filed(place);
        // ORDER(BUCKET-PUSH): Relaxed, also for the word below - published by the push.
        self.shard.store(shard, Ordering::Relaxed);
        let before = Word(self.word.load(Ordering::Relaxed));
        debug_assert!(!before.in_list() && before.phase() != Phase::Pending, "{before:?}");
        self.word.store(before.pending(deadline, held).0, Ordering::Relaxed);
    }

    /// Undoes [`Entry::arm`] after the push was refused: the payload comes back.
    ///
    /// # Safety
    /// The caller armed the entry, or has the handle of the timer that is stranded in it; and it is
    /// in no list.
    pub unsafe fn disarm(&self) -> T {
        // SAFETY: no list ever reached the entry, so that the payload is the caller's.
        let payload = unsafe { self.take_payload() };
        self.set_free();
        payload
    }

    /// Leaves the payload with the handle after the push was refused: the timer is stranded.
    ///
    /// # Safety
    /// As [`Entry::disarm`], and it was armed with an owner.
    pub unsafe fn strand(&self) {
        // ORDER: Relaxed - the caller alone reaches the entry; who is given the handle has it from
        // the caller.
        let word = Word(self.word.load(Ordering::Relaxed));
        debug_assert!(word.is_waiting() && word.is_held(), "{word:?}");
        self.word.store(word.unlisted().0, Ordering::Relaxed);
    }

    /// Writes down where the entry is about to sit.
    #[inline]
    pub(super) fn set_filed(&self, place: Place) {
        // ORDER(RESET-FIRE, SEAT, BUCKET-READ): Release - for readers, who leave the chain here: it
        // pairs with the Acquire in `filed_and_before`. For all others it is made official by the
        // exchange or push that follows.
        self.filed.store(Filed::of(place).pack(), Ordering::Release);
    }

    /// Marks memory whose payload is gone and that nobody holds as free.
    #[inline]
    pub(super) fn set_free(&self) {
        // ORDER: Relaxed - the sole holder writes it; a reader on the way sees an old phase at
        // worst, and readers promise nothing about entries that change under them.
        let word = Word(self.word.load(Ordering::Relaxed));
        let free = word.with_phase(Phase::Vacant).unlisted().unheld();
        self.word.store(free.0, Ordering::Relaxed);
    }
}

impl<T> fmt::Debug for Entry<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Entry")
            .field("word", &self.word())
            .field("filed", &self.filed())
            .finish_non_exhaustive()
    }
}

// === impl Filed ===

impl Filed {
    /// The bucket of `place`.
    #[inline]
    pub fn of(place: Place) -> Filed {
        Filed { level: place.level, expiration: place.expiration }
    }

    #[inline]
    fn pack(self) -> u64 {
        self.expiration.get() << LEVEL_BITS | u64::from(self.level)
    }

    #[inline]
    fn unpack(bits: u64) -> Filed {
        Filed {
            level: (bits & ((1 << LEVEL_BITS) - 1)) as u8,
            expiration: Tick::new(bits >> LEVEL_BITS),
        }
    }
}
