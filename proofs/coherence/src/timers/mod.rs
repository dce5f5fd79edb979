//! The contenders: ours, a heap under a lock, and a wheel under a lock for each thread.
//!
//! All share memory through `tickless_sync`, so that an access to it is counted, or is what it is
//! in production, depending on how the program was built.

mod by_key;
mod heap;
mod node;
mod ours;
mod wheel;

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use coherence_machine::aside;

pub(crate) use by_key::ByKey;
pub(crate) use heap::Heap;
pub(crate) use ours::{Keyed, Ours};
pub(crate) use wheel::Wheels;

/// Who is counted and measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Contender {
    Ours,
    Heap,
    Wheels,
}

impl Contender {
    pub(crate) const ALL: [Contender; 3] = [Contender::Ours, Contender::Heap, Contender::Wheels];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Contender::Ours => "tickless",
            Contender::Heap => "mutex heap",
            Contender::Wheels => "sharded wheel",
        }
    }
}

/// How timers are to be set up.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Setup {
    /// Threads that schedule.
    pub(crate) workers: usize,
    /// Threads that fire timers and do nothing else.
    pub(crate) reapers: usize,
    /// Whether each worker fires its own timers, and no others.
    pub(crate) own_turns: bool,
    /// Whether time is that of the machine, or moved by hand.
    pub(crate) real_time: bool,
}

/// What a workload needs of a contender.
pub(crate) trait Timers: Sync + Sized {
    type Handle: Send;

    fn new(setup: Setup) -> Self;

    /// Worker `worker` begins, on the calling thread.
    fn begin(&self, worker: usize);

    fn schedule(&self, worker: usize, delay: Duration) -> Self::Handle;

    fn schedule_detached(&self, worker: usize, delay: Duration);

    /// Cancels a timer, which has not fired.
    fn cancel(&self, handle: Self::Handle);

    fn reset(&self, handle: &mut Self::Handle, delay: Duration);

    /// Fires what is due of the part that belongs to reaper `part`, or to that worker if they fire
    /// their own.
    fn turn(&self, part: usize) -> usize;

    /// Moves the time by hand.
    fn advance(&self, by: Duration);
}

/// What the keyed workload needs.
pub(crate) trait KeyedTimers: Sync + Sized {
    fn new(setup: Setup) -> Self;

    fn begin(&self, worker: usize);

    fn schedule(&self, worker: usize, key: u64, delay: Duration);

    /// Cancels the timer of this key, which waits.
    fn cancel(&self, key: u64);
}

/// The time for the other contenders. (It is no part of what is counted.)
#[derive(Debug)]
pub(crate) struct Time {
    begun: Option<Instant>,
    by_hand_ns: AtomicU64,
}

/// When something is due at the earliest, as far as a thread knows that sleeps until then. (How it
/// is woken is no part of what is counted.)
#[derive(Debug)]
#[repr(align(128))]
pub(crate) struct Wanted {
    at: AtomicU64,
    is_asked: bool,
}

impl Wanted {
    /// Nothing is due, as yet or, without anybody who fires timers, ever.
    pub(crate) fn new(setup: Setup) -> Wanted {
        let is_asked = setup.reapers > 0 || setup.own_turns;
        Wanted { at: AtomicU64::new(u64::MAX), is_asked }
    }

    /// Something is due at this tick.
    pub(crate) fn at(&self, tick: u64) {
        if self.is_asked {
            aside(|| self.at.fetch_min(tick, Ordering::Relaxed));
        }
    }

    /// Whether something is due. If so, the thread says anew when it wants to be woken.
    pub(crate) fn is_due(&self, now: u64) -> bool {
        aside(|| {
            let is_due = self.at.load(Ordering::Relaxed) <= now;
            if is_due {
                self.at.store(u64::MAX, Ordering::Relaxed);
            }
            is_due
        })
    }
}

impl Time {
    pub(crate) fn new(setup: Setup) -> Time {
        Time { begun: setup.real_time.then(Instant::now), by_hand_ns: AtomicU64::new(0) }
    }

    fn now_ns(&self) -> u64 {
        match self.begun {
            Some(begun) => begun.elapsed().as_nanos() as u64,
            None => aside(|| self.by_hand_ns.load(Ordering::Relaxed)),
        }
    }

    /// The tick of a deadline: rounded up to 1 ms.
    pub(crate) fn deadline(&self, delay: Duration) -> u64 {
        (self.now_ns() + delay.as_nanos() as u64).div_ceil(TICK_NS)
    }

    /// The tick that has begun.
    pub(crate) fn now(&self) -> u64 {
        self.now_ns() / TICK_NS
    }

    pub(crate) fn advance(&self, by: Duration) {
        aside(|| self.by_hand_ns.fetch_add(by.as_nanos() as u64, Ordering::Relaxed));
    }
}

const TICK_NS: u64 = 1_000_000;
