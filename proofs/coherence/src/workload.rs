//! What the cores do. The same code runs on simulated cores, where each access is counted, and on
//! real threads, where time is measured.

use std::collections::VecDeque;
use std::mem;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use coherence_machine::{Random, aside};
use tickless_sync::AtomicU64;

use crate::queue::Queue;
use crate::timers::{Contender, KeyedTimers, Setup, Timers};

/// Timers that a core has at a time.
const WINDOW: usize = 64;

/// The same where they come in bursts, and the longest burst.
const CROWDED: usize = 4_096;
const BURST: u64 = 1_024;
const TIMEOUT: Duration = Duration::from_secs(5);

/// A kind of work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Workload {
    /// W1: schedule a timer and cancel the oldest of one's own.
    Own,
    /// The same at a thousand pairs per second and core, with reapers that turn meanwhile.
    OwnInTime,
    /// The same in bursts: cancel up to a thousand timers, then schedule as many.
    Bursts,
    /// One core schedules, another cancels.
    Handoff,
    /// Move a timer of one's own to a later time.
    Reset,
    /// Schedule a timer that a reaper fires; one reaper for 16 cores.
    Fire,
    /// The same where each core fires its own.
    FireOwn,
    /// Schedule under a key, and cancel by the key.
    Keyed,
}

/// How often things are done.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Amount {
    /// Operations of each worker that do not count.
    pub(crate) warm_up: usize,
    /// Operations of each worker that count.
    pub(crate) ops: usize,
}

/// What the workers need of whatever they run on.
pub(crate) trait Ground: Sync {
    /// From here on it counts. Every worker calls this once.
    fn count_from_here(&self);
    /// Waits for another thread.
    fn wait(&self);
    /// Waits until a reaper has fired something.
    fn wait_for_reapers(&self);
    /// A reaper has fired something.
    fn reaped(&self);
}

impl Workload {
    pub(crate) const ALL: [Workload; 8] = [
        Workload::Own,
        Workload::OwnInTime,
        Workload::Bursts,
        Workload::Handoff,
        Workload::Reset,
        Workload::Fire,
        Workload::FireOwn,
        Workload::Keyed,
    ];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Workload::Own => "W1",
            Workload::OwnInTime => "W1 in time",
            Workload::Bursts => "bursts",
            Workload::Handoff => "handoff",
            Workload::Reset => "reset",
            Workload::Fire => "fire",
            Workload::FireOwn => "fire own",
            Workload::Keyed => "keyed",
        }
    }

    /// Whether a contender has it: a heap has no part that is a core's own.
    pub(crate) fn suits(self, contender: Contender) -> bool {
        (self, contender) != (Workload::FireOwn, Contender::Heap)
    }

    /// How many of so many cores schedule, and how many fire.
    pub(crate) fn setup(self, cores: usize, real_time: bool) -> Setup {
        let reapers = match self {
            Workload::Fire | Workload::OwnInTime => cores.div_ceil(16),
            _ => 0,
        };
        Setup { workers: cores, reapers, own_turns: self == Workload::FireOwn, real_time }
    }

    /// The time that passes by an operation of each worker.
    fn step(self) -> Duration {
        match self {
            Workload::OwnInTime => Duration::from_millis(1),
            Workload::Fire | Workload::FireOwn => Duration::from_micros(20),
            _ => Duration::ZERO,
        }
    }

    /// Where a worker counts in: a handoff takes two for an operation.
    pub(crate) fn ops(self, setup: Setup, amount: Amount) -> usize {
        let pairs = match self {
            Workload::Handoff => setup.workers.div_ceil(2),
            _ => setup.workers,
        };
        pairs * amount.ops
    }
}

/// A run of a contender.
pub(crate) struct Job<'a, T: Timers, G: Ground> {
    pub(crate) workload: Workload,
    pub(crate) timers: &'a T,
    pub(crate) setup: Setup,
    pub(crate) amount: Amount,
    pub(crate) is_planted: bool,
    pub(crate) ground: &'a G,
    pub(crate) queues: &'a [Queue<T::Handle>],
    pub(crate) progress: &'a Progress,
}

/// How far the threads are. (This is no part of what is counted.)
#[derive(Debug, Default)]
pub(crate) struct Progress {
    workers_done: AtomicUsize,
    scheduled: AtomicUsize,
    fired: AtomicUsize,
}

/// Timers for each worker that may be pending: as many as are in time, 125 on average, and as many
/// again that are due and wait for their reaper.
const BACKLOG: usize = 250;

/// The counters of neighbours on one line: false sharing, for those who want to see it found.
pub(crate) static PLANTED: [AtomicU64; 256] = [const { AtomicU64::new(0) }; 256];

/// Some seconds, as of a timeout.
fn seconds(random: &mut Random) -> Duration {
    Duration::from_millis(1_000 + random.below(29_000))
}

/// Some ticks, in which many timers are due.
fn soon(random: &mut Random) -> Duration {
    Duration::from_micros(500 + random.below(4_000))
}

impl<T: Timers, G: Ground> Job<'_, T, G> {
    /// What thread `number` does; the workers come first, then the reapers.
    pub(crate) fn run(&self, number: usize) {
        if number >= self.setup.workers {
            return self.reap(number - self.setup.workers);
        }
        self.timers.begin(number);
        match self.workload {
            Workload::Bursts => self.burst(number),
            Workload::Handoff => self.hand_over(number),
            Workload::Reset => self.reset(number),
            Workload::Fire | Workload::FireOwn => self.fire(number),
            _ => self.schedule_and_cancel(number),
        }
        aside(|| self.progress.workers_done.fetch_add(1, Ordering::Relaxed));
    }

    /// Calls `op` as often as it is to be done, and lets time pass.
    fn repeat(&self, number: usize, mut op: impl FnMut()) {
        let step = self.workload.step() / self.setup.workers as u32;
        for done in 0..self.amount.warm_up + self.amount.ops {
            if done == self.amount.warm_up {
                self.ground.count_from_here();
            }
            op();
            if self.is_planted {
                PLANTED[number].fetch_add(1, Ordering::Relaxed);
            }
            if !step.is_zero() {
                self.timers.advance(step);
            }
            if self.setup.own_turns {
                self.timers.turn(number);
            }
        }
    }

    fn schedule_and_cancel(&self, number: usize) {
        let mut random = Random::new(number as u64);
        let mut pending = VecDeque::with_capacity(WINDOW + 1);
        self.repeat(number, || {
            pending.push_back(self.timers.schedule(number, seconds(&mut random)));
            if pending.len() > WINDOW {
                self.timers.cancel(pending.pop_front().expect("there are some"));
            }
        });
        // What follows would be counted, too.
        mem::forget(pending);
    }

    /// A server's event loop: it takes all answers that came, and then all requests. They have the
    /// same timeout. A burst happens when the first of its operations is counted.
    fn burst(&self, number: usize) {
        let mut random = Random::new(number as u64);
        let schedule = |_| self.timers.schedule(number, TIMEOUT);
        let mut pending: VecDeque<_> = (0..CROWDED).map(schedule).collect();
        let mut left = 0;
        self.repeat(number, || {
            if left == 0 {
                // As often from 512 to 1024 as from 1 to 2.
                let scale = random.below(1 + u64::from(BURST.ilog2()));
                left = 1 + random.below(1 << scale) as usize;
                for _ in 0..left {
                    self.timers.cancel(pending.pop_front().expect("a burst is shorter"));
                }
                pending.extend((0..left).map(schedule));
            }
            left -= 1;
        });
        mem::forget(pending);
    }

    /// Even numbers schedule and odd ones cancel; the last one does both if it is alone.
    fn hand_over(&self, number: usize) {
        let queue = &self.queues[number / 2];
        let wait = || self.ground.wait();
        let mut random = Random::new(number as u64);
        let is_alone = number % 2 == 0 && number + 1 == self.setup.workers;
        self.repeat(number, || {
            if number % 2 == 0 {
                queue.push(self.timers.schedule(number, seconds(&mut random)), wait);
            }
            if number % 2 == 1 || is_alone {
                self.timers.cancel(queue.pop(wait));
            }
        });
    }

    fn reset(&self, number: usize) {
        let mut random = Random::new(number as u64);
        let schedule = |_| self.timers.schedule(number, seconds(&mut random));
        let mut pending: Vec<_> = (0..WINDOW).map(schedule).collect();
        let mut random = Random::new(number as u64);
        // A request came: its connection is idle in 30 s from now, and now is ever later.
        let mut delay = Duration::from_secs(30);
        self.repeat(number, || {
            delay += Duration::from_millis(1);
            let timer = &mut pending[random.below(WINDOW as u64) as usize];
            self.timers.reset(timer, delay);
        });
        mem::forget(pending);
    }

    fn fire(&self, number: usize) {
        let mut random = Random::new(number as u64);
        let Progress { scheduled, fired, .. } = self.progress;
        let backlog = BACKLOG * self.setup.workers;
        self.repeat(number, || {
            self.timers.schedule_detached(number, soon(&mut random));
            // (A worker that fires its own is never behind.)
            let scheduled = aside(|| scheduled.fetch_add(1, Ordering::Relaxed)) + 1;
            let is_ahead = || scheduled > aside(|| fired.load(Ordering::Relaxed)) + backlog;
            while !self.setup.own_turns && is_ahead() {
                self.ground.wait_for_reapers();
            }
        });
    }

    fn reap(&self, part: usize) {
        let Progress { workers_done, fired, .. } = self.progress;
        while aside(|| workers_done.load(Ordering::Relaxed)) < self.setup.workers {
            match self.timers.turn(part) {
                0 => self.ground.wait(),
                n => {
                    aside(|| fired.fetch_add(n, Ordering::Relaxed));
                    self.ground.reaped();
                }
            }
        }
    }
}

/// A run of a contender with keys.
pub(crate) struct KeyedJob<'a, T: KeyedTimers, G: Ground> {
    pub(crate) timers: &'a T,
    pub(crate) amount: Amount,
    pub(crate) ground: &'a G,
}

impl<T: KeyedTimers, G: Ground> KeyedJob<'_, T, G> {
    pub(crate) fn run(&self, number: usize) {
        self.timers.begin(number);
        let mut random = Random::new(number as u64);
        let key = |n: usize| (number as u64) << 32 | n as u64;
        for done in 0..self.amount.warm_up + self.amount.ops {
            if done == self.amount.warm_up {
                self.ground.count_from_here();
            }
            self.timers.schedule(number, key(done), seconds(&mut random));
            if let Some(oldest) = done.checked_sub(WINDOW) {
                self.timers.cancel(key(oldest));
            }
        }
    }
}
