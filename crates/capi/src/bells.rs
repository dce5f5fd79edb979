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
//! A loop that wants one descriptor and no timeout asks for the *pollable* one: an epoll that has
//! the bell's descriptor and a timer's. From then on each turn sets the timer to the time that it
//! returns, before it notes it. A turn that was not alone sets the timer to now, after all:
//! whichever of two such turns sets it last, another turn follows.
//!
//! *Owner*: any thread rings; the thread that runs a turn begins, clears and notes.
//!
//! *Tested by*: `tests/c/driven.c`.

use std::fs::File;
use std::io::{self, Read, Write};
use std::mem::{self, ManuallyDrop};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, PoisonError};
use std::{process, ptr};

use tickless_sync::{Mutex, OnceLock};

use crate::failure::{Failure, TICKLESS_E_FORKED, TICKLESS_E_NO_SHARD, TICKLESS_E_SYSTEM};
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
    /// If a loop has asked for it.
    pollable: OnceLock<Pollable>,
    /// The system's clock that goes as the engine's does; `None` if that is moved by hand.
    clock: Option<libc::clockid_t>,
    /// A child process has the same descriptor, and must leave it alone.
    process: u32,
}

/// A descriptor that is readable when the next turn is needed.
#[derive(Debug)]
struct Pollable {
    /// It has the bell's descriptor and the timer's. Neither is closed by its own drop, as above.
    epoll: ManuallyDrop<OwnedFd>,
    timer: ManuallyDrop<OwnedFd>,
    /// Whether the timer's clock is the one by which times are counted.
    is_monotonic: bool,
    /// What the timer was set to. Turns of one shard wait for each other anyway.
    set_ns: Mutex<u64>,
}

/// A turn that is under way.
#[derive(Debug)]
pub(crate) struct Begun<'a> {
    bell: &'a Bell,
    mark: u64,
}

/// Marks are from here on. Of the times only [`TICKLESS_NEVER`] is: 2^63 ns are 292 years.
const MARKS: u64 = 1 << 63;

/// Makes bells for so many shards, of an engine whose clock goes as that of the system.
pub(crate) fn bells(shards: usize, clock: Option<libc::clockid_t>) -> Result<SharedBells, Failure> {
    let bells: io::Result<_> = (0..shards).map(|_| Bell::new(clock)).collect();
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
    fn new(clock: Option<libc::clockid_t>) -> io::Result<Bell> {
        // SAFETY: it takes numbers, and the flags are valid.
        let eventfd = unsafe { made(libc::eventfd(0, libc::EFD_NONBLOCK | libc::EFD_CLOEXEC)) }?;
        Ok(Bell {
            eventfd: ManuallyDrop::new(File::from(eventfd)),
            is_rung: AtomicBool::new(false),
            next_ns: AtomicU64::new(0),
            marks: AtomicU64::new(0),
            turns: AtomicU64::new(0),
            pollable: OnceLock::new(),
            clock,
            process: process::id(),
        })
    }

    pub(crate) fn fd(&self) -> RawFd {
        self.eventfd.as_raw_fd()
    }

    /// The descriptor that needs no timeout beside it. It is made for the first caller.
    pub(crate) fn pollable_fd(&self) -> Result<RawFd, Failure> {
        if process::id() != self.process {
            let why = format_args!("the engine is that of the parent process");
            return Err(Failure::new(TICKLESS_E_FORKED, why));
        }
        if let Some(pollable) = self.pollable.get() {
            return Ok(pollable.epoll.as_raw_fd());
        }
        let made = Pollable::new(self.fd(), self.clock.unwrap_or(libc::CLOCK_MONOTONIC));
        let made = made.map_err(|error| {
            Failure::new(TICKLESS_E_SYSTEM, format_args!("no epoll or timerfd: {error}"))
        })?;
        // Another thread may have been quicker.
        Ok(self.pollable.get_or_init(|| made).epoll.as_raw_fd())
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

    /// Sets the timer of the pollable descriptor, if there is one: to the time of the next turn,
    /// zero for now, which is so far away.
    fn set_timer(&self, next_ns: u64, sleep_ns: u64) {
        let Some(pollable) = self.pollable.get() else { return };
        // Time that is moved by hand wakes nobody.
        let never = self.clock.is_none() && next_ns > 0;
        pollable.set(if never { TICKLESS_NEVER } else { next_ns }, sleep_ns);
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

// === impl Pollable ===

impl Pollable {
    /// It is readable from the beginning: the loop runs a turn, which sets the timer.
    fn new(bell: RawFd, clock: libc::clockid_t) -> io::Result<Pollable> {
        // SAFETY: it takes numbers, and the flags are valid.
        let epoll = unsafe { made(libc::epoll_create1(libc::EPOLL_CLOEXEC)) }?;
        let flags = libc::TFD_NONBLOCK | libc::TFD_CLOEXEC;
        // SAFETY: as above.
        let timer = unsafe { made(libc::timerfd_create(clock, flags)) }?;
        for fd in [bell, timer.as_raw_fd()] {
            let mut event = libc::epoll_event { events: libc::EPOLLIN as u32, u64: 0 };
            let (epoll, add) = (epoll.as_raw_fd(), libc::EPOLL_CTL_ADD);
            // SAFETY: the event is one.
            if unsafe { libc::epoll_ctl(epoll, add, fd, &raw mut event) } < 0 {
                return Err(io::Error::last_os_error());
            }
        }
        let (epoll, timer) = (ManuallyDrop::new(epoll), ManuallyDrop::new(timer));
        let is_monotonic = clock == libc::CLOCK_MONOTONIC;
        let pollable = Pollable { epoll, timer, is_monotonic, set_ns: Mutex::new(TICKLESS_NEVER) };
        pollable.set(0, 0);
        Ok(pollable)
    }

    /// Sets the timer to a time that is so far away; zero is now. By the clock of boot time, only
    /// the distance is known: an interruption of the thread before this makes the timer late.
    fn set(&self, next_ns: u64, sleep_ns: u64) {
        let mut set_ns = self.set_ns.lock().unwrap_or_else(PoisonError::into_inner);
        // A loop that is edge-triggered hears nothing of a time that stays as it is: what is to be
        // done at once is set again.
        if *set_ns == next_ns && next_ns > 0 && sleep_ns > 0 {
            return;
        }
        *set_ns = next_ns;
        let (flags, ns) = match self.is_monotonic {
            true => (libc::TFD_TIMER_ABSTIME, next_ns),
            false => (0, sleep_ns),
        };
        // What is now has to be set: zero would be never.
        let ns = if next_ns == TICKLESS_NEVER { 0 } else { ns.max(1) };
        let (seconds, rest) = (ns / 1_000_000_000, ns % 1_000_000_000);
        // SAFETY: zeroes are a time.
        let mut time: libc::itimerspec = unsafe { mem::zeroed() };
        time.it_value.tv_sec = seconds as libc::time_t;
        time.it_value.tv_nsec = rest as libc::c_long;
        let (timer, none) = (self.timer.as_raw_fd(), ptr::null_mut());
        // SAFETY: it reads a time. It fails only if a program has closed the descriptor against the
        // rules.
        unsafe { libc::timerfd_settime(timer, flags, &raw const time, none) };
    }
}

impl Drop for Pollable {
    fn drop(&mut self) {
        for fd in [&self.epoll, &self.timer] {
            // SAFETY: as for a bell's.
            unsafe { libc::close(fd.as_raw_fd()) };
        }
    }
}

/// A descriptor that a call has made.
///
/// # Safety
/// It is the caller's alone, or negative.
unsafe fn made(fd: RawFd) -> io::Result<OwnedFd> {
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: as the caller promises.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

// === impl Begun ===

impl Begun<'_> {
    /// Notes when the next turn is needed, zero for now, and how far away that is: after the turn.
    pub(crate) fn note(self, next_ns: u64, sleep_ns: u64) {
        let (bell, mark) = (self.bell, self.mark);
        bell.set_timer(next_ns, sleep_ns);
        // A turn that this does not count yet leaves its mark after this one's.
        // ORDER: Acquire - pairs with the Release in `drop`: the mark that a turn left at its end.
        let is_alone = bell.turns.load(Ordering::Acquire) == 1;
        // ORDER: Release - a number, in the chain of marks. Relaxed - another turn left a mark.
        let (to, failed) = (Ordering::Release, Ordering::Relaxed);
        let note = || bell.next_ns.compare_exchange(mark, next_ns, to, failed);
        if !is_alone || note().is_err() {
            bell.mark();
            bell.set_timer(0, 0);
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
