//! Running the threads of a workload: they prepare, start together, and are measured until the
//! last one is done.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::machine::memory;
use crate::machine::usage::Usage;

/// Steps between two chances for a cooperative scheduler to do something else.
pub(crate) const BURST: u64 = 512;

/// What one thread does.
pub(crate) trait Lane: Send + 'static {
    /// What comes before the measurement.
    fn prepare(&mut self);

    /// About [`BURST`] steps; `false` when all are done.
    fn burst(&mut self) -> bool;

    /// How long to wait before the next burst.
    fn pause(&self) -> Duration {
        Duration::ZERO
    }
}

/// The measured part of a run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Section {
    /// When the first lane started.
    pub(crate) begun: Instant,
    /// What the process had used up then.
    pub(crate) usage_before: Usage,
    /// What was in memory then.
    pub(crate) resident_before: u64,
    /// From the start of the first to the end of the last.
    pub(crate) wall: Duration,
    /// What the process used meanwhile.
    pub(crate) used: Usage,
}

/// Where lanes wait for each other, and where time is taken.
pub(crate) struct Gate {
    lanes: usize,
    arrived: AtomicUsize,
    left: AtomicUsize,
    begun: Mutex<Option<Taken>>,
    ended: Mutex<Option<Taken>>,
}

/// What is known of a moment.
#[derive(Clone, Copy, Debug)]
struct Taken {
    at: Instant,
    usage: Usage,
    resident: u64,
}

/// Runs each lane on a thread, by `inside`, which is to call [`run`].
pub(crate) fn on_threads<L: Lane>(
    lanes: Vec<L>,
    inside: impl Fn(&Gate, L) -> L + Sync,
) -> (Vec<L>, Section) {
    let (gate, inside) = (&Gate::new(lanes.len()), &inside);
    let lanes = thread::scope(|scope| {
        let run = |lane| scope.spawn(move || inside(gate, lane));
        let threads: Vec<_> = lanes.into_iter().map(run).collect();
        threads.into_iter().map(|thread| thread.join().expect("a lane does not panic")).collect()
    });
    (lanes, gate.section())
}

/// Runs a lane on this thread, together with the others of its gate.
pub(crate) fn run<L: Lane>(gate: &Gate, mut lane: L) -> L {
    lane.prepare();
    gate.arrive();
    while !gate.is_open() {
        thread::yield_now();
    }
    while lane.burst() {
        let pause = lane.pause();
        if !pause.is_zero() {
            thread::sleep(pause);
        }
    }
    gate.leave();
    lane
}

// === impl Gate ===

impl Gate {
    /// For that many lanes.
    pub(crate) fn new(lanes: usize) -> Gate {
        Gate {
            lanes,
            arrived: AtomicUsize::new(0),
            left: AtomicUsize::new(0),
            begun: Mutex::new(None),
            ended: Mutex::new(None),
        }
    }

    /// A lane is ready. The last one takes the time.
    pub(crate) fn arrive(&self) {
        let nth = self.arrived.fetch_add(1, Ordering::AcqRel) + 1;
        if nth == self.lanes {
            let (resident, usage) = (memory::resident_bytes(), Usage::of_process());
            let taken = Taken { at: Instant::now(), usage, resident };
            *self.begun.lock().expect("nothing panics here") = Some(taken);
            // One beyond the lanes: the gate is open.
            self.arrived.fetch_add(1, Ordering::AcqRel);
        }
    }

    /// Whether all are ready.
    pub(crate) fn is_open(&self) -> bool {
        self.arrived.load(Ordering::Acquire) > self.lanes
    }

    /// A lane is done. The last one takes the time.
    pub(crate) fn leave(&self) {
        if self.left.fetch_add(1, Ordering::AcqRel) + 1 == self.lanes {
            let (at, usage) = (Instant::now(), Usage::of_process());
            let taken = Taken { at, usage, resident: memory::resident_bytes() };
            *self.ended.lock().expect("nothing panics here") = Some(taken);
        }
    }

    /// What lies between, once all lanes have left.
    pub(crate) fn section(&self) -> Section {
        let taken = |slot: &Mutex<Option<Taken>>| {
            slot.lock().expect("nothing panics here").expect("all lanes came through")
        };
        let (begun, ended) = (taken(&self.begun), taken(&self.ended));
        Section {
            begun: begun.at,
            usage_before: begun.usage,
            resident_before: begun.resident,
            wall: ended.at - begun.at,
            used: ended.usage - begun.usage,
        }
    }
}

#[test]
fn the_gate_opens_when_all_have_come_and_measures_until_all_have_gone() {
    let gate = Gate::new(2);
    gate.arrive();
    assert!(!gate.is_open());
    gate.arrive();
    assert!(gate.is_open());
    gate.leave();
    assert!(gate.ended.lock().unwrap().is_none());
    gate.leave();
    assert!(gate.section().wall <= gate.section().begun.elapsed());
}
