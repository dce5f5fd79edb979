//! The entry: one scheduled timer in one cache line, a part of a block.
//!
//! *Owner*: the state word tells who may do what (see `word`). The payload belongs to the thread
//! that put the entry into its present phase: the winner of the CAS that leaves `Pending` may read
//! it, and the sole holder of free memory or the producer of a vacancy may write it.
//!
//! *Tested by*: `loom-tests/tests/{cancel_fire,reset_fire,seat,release}.rs`.

use std::mem::MaybeUninit;
use std::ptr;

use crate::sync::{AtomicPtr, AtomicU16, AtomicU64, Life, Ordering, UnsafeCell};
use crate::time::{MAX_LEVELS, MAX_SHARDS, Place, Tick};

use super::{Phase, Word};

/// A node of an intrusive list: it contains the pointer to the next node.
///
/// # Safety
/// `next` returns the same link of a node each time, and nobody writes it but as told there.
pub unsafe trait Linked: Sized {
    /// The link. The thread that pushes the node writes it, and the thread that took the list reads
    /// it. Readers under a guard also read the links of entries and must expect them to change.
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
    shard: AtomicU16,
    /// Where it lies in its block. It never changes.
    position: Position,
    /// The engine that it belongs to. It never changes.
    engine: u32,
    payload: UnsafeCell<MaybeUninit<T>>,
    life: Life,
}

/// Where an entry lies in its block: its number there, and that of the entry after the header.
#[derive(Clone, Copy, Debug)]
pub(super) struct Position {
    pub(super) number: u8,
    pub(super) header: u8,
}

/// A bucket as an entry remembers it: level and expiration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Filed {
    /// The level, from 1.
    pub level: u8,
    /// The start of the bucket's span.
    pub expiration: Tick,
}

/// Bits of a packed level.
pub const LEVEL_BITS: u32 = 6;
const _: () = assert!(MAX_LEVELS < 1 << LEVEL_BITS, "a level fits its bits");
const _: () = assert!(MAX_SHARDS <= 1 << u16::BITS, "a shard fits its field");
#[cfg(not(any(loom, shuttle)))]
const _: () = assert!(size_of::<Entry<[u64; 4]>>() == 64, "four words ride along in one line");

// SAFETY: the payload is only touched by the thread that the state word makes its owner, and
// moves between threads with a release/acquire pair on that word or on the list; every other
// field is atomic or never changes. `T: Send` permits the move.
unsafe impl<T: Send> Send for Entry<T> {}
// SAFETY: shared access to an entry reaches the payload through the word alone.
unsafe impl<T: Send> Sync for Entry<T> {}

// SAFETY: an entry has one link, which nothing else in here writes.
unsafe impl<T> Linked for Entry<T> {
    #[inline]
    fn next(&self) -> &AtomicPtr<Entry<T>> {
        self.life.look();
        &self.next
    }
}

// === impl Entry ===

impl<T> Entry<T> {
    /// Fresh memory for a timer of `engine`, at its place in a block.
    pub(super) fn new(engine: u32, position: Position) -> Entry<T> {
        Entry {
            word: AtomicU64::new(Word::FREE.0),
            next: AtomicPtr::new(ptr::null_mut()),
            filed: AtomicU64::new(0),
            shard: AtomicU16::new(0),
            position,
            engine,
            payload: UnsafeCell::new(MaybeUninit::uninit()),
            life: Life::begin(),
        }
    }

    /// Notes that the memory is about to be freed.
    pub(super) fn end_life(&self) {
        self.life.end();
    }

    /// Where it lies in its block.
    #[inline]
    pub(super) fn position(&self) -> Position {
        self.position
    }

    /// The state word as it is now.
    #[inline]
    pub fn word(&self) -> Word {
        self.life.look();
        // ORDER(CANCEL-FIRE, RESET-FIRE, SEAT, RELEASE): Acquire - pairs with the release half of
        // every CAS or `fetch_and` of the word: what the last winner wrote (payload, place) is
        // visible.
        Word(self.word.load(Ordering::Acquire))
    }

    /// The bucket that the entry is filed in. Only official together with an unchanged word.
    #[inline]
    pub fn filed(&self) -> Filed {
        // ORDER(RESET-FIRE, SEAT): Relaxed - read between a load of the word and a CAS from the
        // same value, which fails if the entry was re-filed in between.
        Filed::unpack(self.filed.load(Ordering::Relaxed))
    }

    /// The same for a reader, which also sees what the writer of the place did before. So a reader
    /// that finds an entry filed elsewhere finds the entries beside it in the owner's trays.
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
        u32::from(self.shard.load(Ordering::Relaxed))
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
    /// The payload was put. The caller owns it (it won the CAS that left `Pending`, or it put the
    /// payload and the entry never became `Pending`), and moves it out once.
    #[inline]
    pub unsafe fn take_payload(&self) -> T {
        self.payload.with_mut(|cell| {
            // SAFETY: the caller is its only owner and it is initialised.
            unsafe { (*cell).assume_init_read() }
        })
    }

    /// The payload where it is.
    ///
    /// # Safety
    /// The payload was put, and the caller owns it. It does not move it while this is used.
    pub unsafe fn payload(&self) -> &T {
        // SAFETY: the caller is its only owner and it is initialised.
        self.payload.with(|cell| unsafe { (*cell).assume_init_ref() })
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
    pub unsafe fn make_pending(&self, deadline: Tick, place: Place, shard: u32, held: bool) {
        self.set_filed(place);
        // ORDER(BUCKET-PUSH): Relaxed, also for the load below - published by the push.
        self.shard.store(shard as u16, Ordering::Relaxed);
        let before = Word(self.word.load(Ordering::Relaxed));
        debug_assert!(!before.in_list() && before.phase() != Phase::Pending, "{before:?}");
        // ORDER(BUCKET-READ): Release - a reader that finds the new version finds the lists from
        // which the entry was taken without it.
        self.word.store(before.pending(deadline, held).0, Ordering::Release);
    }

    /// Turns free memory into a notice of `place`, about to be posted: it has no timer. Its list
    /// bit is clear, so a reader that stands on the memory finds that it was led away.
    ///
    /// # Safety
    /// The caller is the sole holder.
    pub unsafe fn announce(&self, place: Place) {
        // ORDER(BUCKET-ARM): Relaxed - the caller alone has it.
        let word = Word(self.word.load(Ordering::Relaxed));
        debug_assert!(!word.in_list() && word.phase() != Phase::Pending, "{word:?}");
        self.set_filed(place);
    }

    /// Undoes [`Entry::make_pending`] after the push was refused, and returns the payload.
    ///
    /// # Safety
    /// The entry is in no list. The caller made it pending, or has the handle of the timer that is
    /// stranded in it.
    pub unsafe fn take_back(&self) -> T {
        // SAFETY: no list ever reached the entry, so the payload is the caller's.
        let payload = unsafe { self.take_payload() };
        self.set_free();
        payload
    }

    /// Leaves the payload with the handle after the push was refused: the timer is stranded.
    ///
    /// # Safety
    /// As [`Entry::take_back`], and it is held.
    pub unsafe fn strand(&self) {
        // ORDER: Relaxed - the caller alone reaches the entry, and another thread can only get the
        // handle from the caller.
        let word = Word(self.word.load(Ordering::Relaxed));
        debug_assert!(word.is_waiting() && word.is_held(), "{word:?}");
        self.word.store(word.unlisted().0, Ordering::Relaxed);
    }

    /// Leaves the payload with the handle of an entry that was unlinked while it was vacant: the
    /// timer is stranded.
    ///
    /// # Safety
    /// The entry is in no list, the caller has put the payload, and it has the handle.
    pub unsafe fn strand_unlinked(&self, deadline: Tick) {
        // ORDER: Relaxed - the caller alone reaches the entry.
        let word = Word(self.word.load(Ordering::Relaxed));
        debug_assert!(word.phase() == Phase::Vacant && !word.in_list(), "{word:?}");
        self.word.store(word.pending(deadline, true).unlisted().0, Ordering::Relaxed);
    }

    /// Records where the entry is about to be filed.
    #[inline]
    pub(super) fn set_filed(&self, place: Place) {
        // ORDER(RESET-FIRE, SEAT, BUCKET-READ): Release - pairs with the Acquire in
        // `filed_and_before`, for readers, who leave the chain here. For all others, the CAS or
        // push that follows makes the place official.
        self.filed.store(Filed::of(place).pack(), Ordering::Release);
    }

    /// Marks an entry as free memory. Its payload is gone, and nobody else holds it.
    #[inline]
    pub(super) fn set_free(&self) {
        // ORDER(BUCKET-READ): Relaxed - the sole holder writes it. Release - a reader that finds it
        // in no list finds the list from which it was taken without it.
        let word = Word(self.word.load(Ordering::Relaxed));
        let free = word.with_phase(Phase::Vacant).unlisted().unheld();
        self.word.store(free.0, Ordering::Release);
    }
}

debug! { impl[T] Entry[T] { word = |this| this.word(), filed = |this| this.filed() } }

// === impl Filed ===

impl Filed {
    /// The bucket of `place`.
    #[inline]
    pub fn of(place: Place) -> Filed {
        Filed { level: place.level, expiration: place.expiration }
    }

    /// Both in one number.
    #[inline]
    pub fn pack(self) -> u64 {
        self.expiration.get() << LEVEL_BITS | u64::from(self.level)
    }

    /// The reverse of [`Filed::pack`].
    #[inline]
    pub fn unpack(bits: u64) -> Filed {
        Filed {
            level: (bits & ((1 << LEVEL_BITS) - 1)) as u8,
            expiration: Tick::new(bits >> LEVEL_BITS),
        }
    }
}
