//! Who runs: one core at a time, the next one chosen at random.
//!
//! *Invariant*: between `start` and its end, a core runs only while `current` is its number. So what
//! a core does between two of its accesses is done as one step, and all of it follows from the
//! seed.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::{self, Thread};

use crate::{Plan, Random};

const NOBODY: usize = usize::MAX;

pub(crate) struct Turns {
    /// The core that runs.
    current: AtomicUsize,
    threads: Box<[OnceLock<Thread>]>,
    state: Mutex<State>,
    slice: u64,
    meeting: usize,
}

struct State {
    random: Random,
    /// Accesses left to the core that runs.
    left: u64,
    cores: Vec<Doing>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Doing {
    Runs,
    /// It sleeps until the lock at this address is released.
    Waits(usize),
    /// It waits for all to come to the same point.
    Meets,
    Ended,
}

impl Turns {
    pub(crate) fn new(plan: Plan) -> Turns {
        let mut random = Random::new(plan.seed);
        let left = 1 + random.below(plan.slice);
        Turns {
            current: AtomicUsize::new(NOBODY),
            threads: (0..plan.cores).map(|_| OnceLock::new()).collect(),
            state: Mutex::new(State { random, left, cores: vec![Doing::Runs; plan.cores] }),
            slice: plan.slice,
            meeting: plan.meeting,
        }
    }

    /// The calling thread is this core. Returns when the core is to run.
    pub(crate) fn enter(&self, core: usize) {
        self.threads[core].set(thread::current()).expect("a core is one thread");
        self.sleep(core);
    }

    /// Waits until that core has entered.
    pub(crate) fn await_entry(&self, core: usize) {
        while self.threads[core].get().is_none() {
            thread::yield_now();
        }
    }

    /// All have entered: one of them runs.
    pub(crate) fn start(&self) {
        let mut state = self.state();
        self.choose(&mut state);
    }

    /// The core is about to make an access; perhaps others run before.
    pub(crate) fn step(&self, core: usize) {
        let mut state = self.state();
        state.left -= 1;
        if state.left == 0 {
            self.hand_over(state, core);
        }
    }

    /// Others run first, if there are others.
    pub(crate) fn pass(&self, core: usize) {
        self.hand_over(self.state(), core);
    }

    pub(crate) fn wait(&self, core: usize, lock: usize) {
        let mut state = self.state();
        state.cores[core] = Doing::Waits(lock);
        self.hand_over(state, core);
    }

    /// Wakes one that waits for the lock, as the system would.
    pub(crate) fn release(&self, lock: usize) {
        let mut state = self.state();
        let waiting: Vec<usize> =
            (0..state.cores.len()).filter(|&i| state.cores[i] == Doing::Waits(lock)).collect();
        if !waiting.is_empty() {
            let lucky = waiting[state.random.below(waiting.len() as u64) as usize];
            state.cores[lucky] = Doing::Runs;
        }
    }

    /// Waits for all others that are to meet here. Returns `true` to the last.
    pub(crate) fn meet(&self, core: usize) -> bool {
        let mut state = self.state();
        state.cores[core] = Doing::Meets;
        let met = state.cores.iter().filter(|doing| **doing == Doing::Meets).count();
        if met == self.meeting {
            for doing in state.cores.iter_mut().filter(|doing| **doing == Doing::Meets) {
                *doing = Doing::Runs;
            }
            return true;
        }
        self.hand_over(state, core);
        false
    }

    /// Wakes all that wait for what has this address.
    pub(crate) fn release_all(&self, what: usize) {
        for doing in self.state().cores.iter_mut().filter(|doing| **doing == Doing::Waits(what)) {
            *doing = Doing::Runs;
        }
    }

    /// The core has ended. Returns when all have, so that what threads do at their end comes later.
    pub(crate) fn leave(&self, core: usize) {
        let mut state = self.state();
        state.cores[core] = Doing::Ended;
        if state.cores.iter().all(|doing| *doing == Doing::Ended) {
            self.current.store(NOBODY, Ordering::Release);
            drop(state);
            self.threads.iter().filter_map(OnceLock::get).for_each(Thread::unpark);
            return;
        }
        self.choose(&mut state);
        drop(state);
        while self.current.load(Ordering::Acquire) != NOBODY {
            thread::park();
        }
    }

    /// Chooses who runs, and sleeps until that is this core again.
    fn hand_over(&self, mut state: MutexGuard<'_, State>, core: usize) {
        self.choose(&mut state);
        drop(state);
        self.sleep(core);
    }

    fn choose(&self, state: &mut State) {
        let ready: Vec<usize> =
            (0..state.cores.len()).filter(|&i| state.cores[i] == Doing::Runs).collect();
        assert!(!ready.is_empty(), "all cores wait: {:?}", state.cores);
        let next = ready[state.random.below(ready.len() as u64) as usize];
        state.left = 1 + state.random.below(self.slice);
        self.current.store(next, Ordering::Release);
        self.threads[next].get().expect("all have entered").unpark();
    }

    fn sleep(&self, core: usize) {
        while self.current.load(Ordering::Acquire) != core {
            thread::park();
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
