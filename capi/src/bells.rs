//! How a caller that drives an engine is woken: for each shard a file descriptor, and when the next
//! turn is needed.
//!
//! The engine's hook *rings* when a timer was scheduled that is due before the time that the last
//! turn returned: it writes to the descriptor, then sets a flag. A turn *clears* the bell first: if
//! the flag is set, it unsets it and reads the descriptor empty. Since the flag is set after the
//! write, a descriptor that is readable has the flag set or is about to, and the turn after that
//! clears it; and what was rung for before the read is found by the turn after the read.
//!
//! *Owner*: any thread rings; the thread that runs a turn clears and notes.
//!
//! *Tested by*: `tests/c/driven.c`.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, FromRawFd, RawFd};
use std::process;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::failure::{Failure, TICKLESS_E_NO_SHARD, TICKLESS_E_SYSTEM};

/// The bells of an engine, by shard.
pub(crate) type SharedBells = Arc<[Bell]>;

/// The bell of a shard.
#[derive(Debug)]
pub(crate) struct Bell {
    eventfd: File,
    is_rung: AtomicBool,
    /// When the last turn wanted the next.
    next_ns: AtomicU64,
    /// A child process has the same descriptor, and must leave it alone.
    process: u32,
}

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
        let (is_rung, next_ns) = (AtomicBool::new(false), AtomicU64::new(0));
        Ok(Bell { eventfd, is_rung, next_ns, process: process::id() })
    }

    pub(crate) fn fd(&self) -> RawFd {
        self.eventfd.as_raw_fd()
    }

    /// Makes the descriptor readable.
    pub(crate) fn ring(&self) {
        // It fails if the count is at its end, and then the descriptor is readable already.
        let _ = (&self.eventfd).write(&1_u64.to_ne_bytes());
        // ORDER: Release - pairs with the Acquire in `clear`: the write comes before the read.
        self.is_rung.store(true, Ordering::Release);
    }

    /// Reads the descriptor empty, if it was rung: before a turn. Returns whether it was.
    pub(crate) fn clear(&self) -> bool {
        // ORDER: Relaxed - usually nobody rang; a ring that this misses stays for the next turn.
        if !self.is_rung.load(Ordering::Relaxed) || process::id() != self.process {
            return false;
        }
        // ORDER: Acquire - pairs with the Release in `ring`.
        let was_rung = self.is_rung.swap(false, Ordering::Acquire);
        if was_rung {
            // It fails if another turn was quicker.
            let _ = (&self.eventfd).read(&mut [0; 8]);
        }
        was_rung
    }

    /// Notes when the next turn is needed: after a turn.
    pub(crate) fn note(&self, next_ns: u64) {
        // ORDER: Relaxed - a number.
        self.next_ns.store(next_ns, Ordering::Relaxed);
    }

    /// When the next turn is needed: zero if it is now.
    pub(crate) fn next_ns(&self) -> u64 {
        // ORDER: Acquire - what was rung for comes before.
        let is_rung = self.is_rung.load(Ordering::Acquire);
        // ORDER: Relaxed - a number.
        if is_rung { 0 } else { self.next_ns.load(Ordering::Relaxed) }
    }
}
