//! The time of one history: stamps that order operations, and the clock that deadlines go by.
//!
//! A stamp is the system's monotonic time in nanoseconds. It is taken before a call and, after a
//! full fence, when the call has returned. So the recorded interval contains the call, and the
//! effects of a call are visible to all threads by its second stamp. Equal stamps count as an
//! overlap. Therefore an interval can be too long, which only permits more orders, but never too
//! short: an overlap is never hidden. Unlike a shared counter, the clock does not make the threads
//! wait for a cache line, which would keep their calls apart.
//!
//! Deadlines go by the engine's clock. With the system's clock it is the same as the stamps. With
//! a manual clock, [`Timeline::advance`] publishes the new time before it moves the clock, so that
//! [`Stamp::clock_ns`] of a return is never behind a time that the engine has seen.
//!
//! *Owner*: any thread.

use std::cell::Cell;
use std::hint;
use std::sync::atomic::{AtomicU64, Ordering, fence};
use std::time::{Duration, Instant};

use tickless::ManualClock;

use crate::random::Random;

thread_local! {
    /// When the turn began that this thread runs.
    static TURN: Cell<Option<u64>> = const { Cell::new(None) };
}

/// The time of one history.
#[derive(Debug)]
pub struct Timeline {
    start: Instant,
    manual: Option<Manual>,
}

#[derive(Debug)]
struct Manual {
    clock: ManualClock,
    /// A time that the clock has not passed.
    published_ns: AtomicU64,
}

/// A moment of a history.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    /// The system's time since the history began, in nanoseconds.
    pub at: u64,
    /// The time of the engine's clock, in nanoseconds: before a call at most what the engine will
    /// read, after a call at least what it has read.
    pub clock_ns: u64,
}

impl Timeline {
    /// A history by the system's clock or, if there is one, by a manual clock.
    pub fn new(manual: Option<ManualClock>) -> Timeline {
        let manual = manual.map(|clock| Manual { clock, published_ns: AtomicU64::new(0) });
        Timeline { start: Instant::now(), manual }
    }

    /// Whether the engine's clock is moved by hand.
    pub fn is_manual(&self) -> bool {
        self.manual.is_some()
    }

    /// The system's time since the history began.
    pub fn at(&self) -> u64 {
        self.start.elapsed().as_nanos() as u64
    }

    /// The stamp before a call.
    pub fn before(&self) -> Stamp {
        // The order of the two does not matter: nothing has begun yet.
        let manual_ns = self.manual.as_ref().map(|it| it.clock.elapsed().as_nanos() as u64);
        let at = self.at();
        Stamp { at, clock_ns: manual_ns.unwrap_or(at) }
    }

    /// The stamp after a call.
    pub fn after(&self) -> Stamp {
        // The stores of the call leave the processor's store buffer before the clock is read.
        fence(Ordering::SeqCst);
        let at = self.at();
        // ORDER: SeqCst - what the engine has read of the clock was published before.
        let manual_ns = self.manual.as_ref().map(|it| it.published_ns.load(Ordering::SeqCst));
        Stamp { at, clock_ns: manual_ns.unwrap_or(at) }
    }

    /// Moves the manual clock, if there is one.
    pub fn advance(&self, by: Duration) {
        let Some(manual) = &self.manual else { return };
        // ORDER: SeqCst - before the clock moves. Threads that move it at the same time add up.
        manual.published_ns.fetch_add(by.as_nanos() as u64, Ordering::SeqCst);
        manual.clock.advance(by);
    }

    /// Waits until about `due_at` by the stamps, if that is soon and time moves by itself: that is
    /// where a call meets the reaper.
    pub fn wait_near(&self, due_at: u64, random: &mut Random) {
        let target = due_at.saturating_add(random.below(150_000)).saturating_sub(20_000);
        if self.manual.is_none() && target < self.at() + 500_000 {
            while self.at() < target {
                hint::spin_loop();
            }
        }
    }

    /// Runs `turn` as a turn of this thread: what it hands over was handed over during the turn.
    pub fn turning<R>(&self, turn: impl FnOnce() -> R) -> R {
        let outer = TURN.replace(Some(self.at()));
        let result = turn();
        TURN.set(outer);
        result
    }

    /// When the turn began that this thread runs.
    pub fn turn_began(&self) -> Option<u64> {
        TURN.get()
    }
}
