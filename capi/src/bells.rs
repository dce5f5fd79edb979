//! How a caller that drives an engine is woken: for each shard a file descriptor, and when the next
//! turn is needed.
//!
//! The engine's hook *rings* when a timer was scheduled that is due before the time that the last
//! turn returned: it writes to the descriptor, then sets a flag. A turn *clears* the bell first: if
//! the flag is set, it unsets it and reads the descriptor empty. Since the flag is set after the
//! write, a descriptor that is readable has the flag set or is about to, and the turn after that
//! clears it; and what was rung for before the read is found by the turn after the read.
//!
//! A turn that begins leaves a mark in place of the time of the last turn, and then clears the
//! bell. At its end it replaces its mark by the time that it returns. While there is a mark, the
//! next turn is needed now: nobody rings during a turn, so the time before it says nothing. Turns
//! that overlap leave a mark, since the order in which they end is not that in which they had the
//! shard. So a time that can be read is that of a turn which was alone, and what came after it has
//! rung.
//!
//! *Owner*: any thread rings; the thread that runs a turn begins, clears and notes.
//!
//! *Tested by*: `tests/c/driven.c`.

use std::fs::File;
use std::io::{self, Read, Write};
use std::mem::ManuallyDrop;
use std::os::fd::{AsRawFd, FromRawFd, RawFd};
use std::process;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::failure::{Failure, TICKLESS_E_NO_SHARD, TICKLESS_E_SYSTEM};
use crate::time::TICKLESS_NEVER;

/// The bells of an engine, by shard.
pub(crate) type SharedBells = Arc<[Bell]>;

/// The bell of a shard.
#[derive(Debug)]
pub(crate) struct Bell {
    /// Not closed by its own drop, which may abort if a program has closed it.
    eventfd: ManuallyDrop<File>,
    is_rung: AtomicBool,
    /// When the last turn wanted the next, or a mark.
    next_ns: AtomicU64,
    /// How many marks there were.
    marks: AtomicU64,
    /// How many turns are under way.
    turns: AtomicU64,
    /// A child process has the same descriptor, and must leave it alone.
    process: u32,
}

/// A turn that is under way.
#[derive(Debug)]
pub(crate) struct Begun<'a> {
    bell: &'a Bell,
    mark: u64,
}

/// Marks are from here on. Of the times only [`TICKLESS_NEVER`] is: 2^63 ns are 292 years.
const MARKS: u64 = 1 << 63;

/// Makes bells for so many shards.
pub(crate) fn bells(shards: usize) -> Result<SharedBells, Failure> {
    let bells: io::Result<_> = (0..shards).map(|_| Bell::new()).collect();
    bells.map_err(|error| Failure::new(TICKLESS_E_SYSTEM, format_args!("no eventfd: {error}")))
}

/// The bell of that shard.
pub(crate) fn of_shard(bells: &SharedBells, shard: u32) -> Result<&Bell, Failure> {
    bells.get(shard as usize).ok_or_else(|| {
        let why = format_args!("there is no shard {shard}: the engine has {}", bells.len());
        Failure::new(TICKLESS_E_NO_SHARD, why)
    })
}

// === impl Bell ===

impl Bell {
    fn new() -> io::Result<Bell> {
        // SAFETY: it takes numbers, and the flags are valid.
        let fd = unsafe { libc::eventfd(0, libc::EFD_NONBLOCK | libc::EFD_CLOEXEC) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: it was just made, and is this value's alone.
        let eventfd = unsafe { File::from_raw_fd(fd) };
        Ok(Bell {
            eventfd: ManuallyDrop::new(eventfd),
            is_rung: AtomicBool::new(false),
            next_ns: AtomicU64::new(0),
            marks: AtomicU64::new(0),
            turns: AtomicU64::new(0),
            process: process::id(),
        })
    }

    pub(crate) fn fd(&self) -> RawFd {
        self.eventfd.as_raw_fd()
    }

    /// Makes the descriptor readable.
    pub(crate) fn ring(&self) {
        // It fails if the count is at its end, and then the descriptor is readable already.
        let _ = (&*self.eventfd).write(&1_u64.to_ne_bytes());
        // ORDER: Release - pairs with the Acquire in `clear`: the write comes before the read.
        self.is_rung.store(true, Ordering::Release);
    }

    /// Reads the descriptor empty, if it was rung: before a turn. Returns whether it was.
    pub(crate) fn clear(&self) -> bool {
        // ORDER: Relaxed - usually nobody rang; a ring that this misses stays for the next turn.
        if !self.is_rung.load(Ordering::Relaxed) || process::id() != self.process {
            return false;
        }
        // ORDER: AcqRel - pairs with the Release in `ring`, and with the Acquire in `next_ns`: the
        // mark of this turn is there.
        let was_rung = self.is_rung.swap(false, Ordering::AcqRel);
        if was_rung {
            // It fails if another turn was quicker.
            let _ = (&*self.eventfd).read(&mut [0; 8]);
        }
        was_rung
    }

    /// Notes that a turn begins: before `clear`.
    pub(crate) fn begin(&self) -> Begun<'_> {
        // ORDER: Relaxed - the Release of the mark below publishes it.
        self.turns.fetch_add(1, Ordering::Relaxed);
        Begun { bell: self, mark: self.mark() }
    }

    /// Leaves a new mark.
    fn mark(&self) -> u64 {
        // ORDER: Relaxed - the numbers differ, which is all.
        let mark = MARKS | self.marks.fetch_add(1, Ordering::Relaxed);
        // ORDER: AcqRel - pairs with itself: the turns whose marks came before are counted.
        self.next_ns.swap(mark, Ordering::AcqRel);
        mark
    }

    /// When the next turn is needed: zero if it is now.
    pub(crate) fn next_ns(&self) -> u64 {
        // ORDER: Acquire - pairs with the Release in `clear`: the mark of the turn that cleared it.
        let is_rung = self.is_rung.load(Ordering::Acquire);
        // ORDER: Relaxed - a number.
        let next_ns = self.next_ns.load(Ordering::Relaxed);
        let is_mark = next_ns >= MARKS && next_ns != TICKLESS_NEVER;
        if is_rung || is_mark { 0 } else { next_ns }
    }
}

impl Drop for Bell {
    fn drop(&mut self) {
        // SAFETY: it takes a number. The descriptor is this value's, which is being dropped; if a
        // program has closed it against the rules, this fails.
        unsafe { libc::close(self.fd()) };
    }
}

// === impl Begun ===

impl Begun<'_> {
    /// Notes when the next turn is needed: after the turn.
    pub(crate) fn note(self, next_ns: u64) {
        let (bell, mark) = (self.bell, self.mark);
        // A turn that this does not count yet leaves its mark after this one's.
        // ORDER: Acquire - pairs with the Release in `drop`: the mark that a turn left at its end.
        let is_alone = bell.turns.load(Ordering::Acquire) == 1;
        // ORDER: Release - a number, in the chain of marks. Relaxed - another turn left a mark.
        let (to, failed) = (Ordering::Release, Ordering::Relaxed);
        let note = || bell.next_ns.compare_exchange(mark, next_ns, to, failed);
        if !is_alone || note().is_err() {
            bell.mark();
        }
    }
}

impl Drop for Begun<'_> {
    /// A turn that failed leaves its mark.
    fn drop(&mut self) {
        // ORDER: Release - pairs with the Acquire in `note`: the mark that it may have left.
        self.bell.turns.fetch_sub(1, Ordering::Release);
    }
}
