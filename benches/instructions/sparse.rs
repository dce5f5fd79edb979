//! What goes through a whole engine, where much could exist and little does: many shards, levels of
//! a million slots, and one timer, perhaps after many that have fired.
//!
//! *Invariant*: the timer is found, or returned.

use std::hint::black_box;
use std::time::Duration;

use tickless::{Engine, ManualClock};

use crate::OPERATIONS;

/// An engine with one timer; `None`: it has ended.
pub(crate) struct Sparse {
    engine: Option<Engine>,
    found: usize,
}

const SHARDS: usize = 64;
const SLOTS: u32 = 1 << 20;
/// The fewest make the most levels.
const REACH: u32 = 2;

/// Between timers that have fired, which were on the lowest level.
const GAP: Duration = Duration::from_millis(49);
const TICK: Duration = Duration::from_millis(1);

/// The timer's delay, and a limit that no stop reaches.
const HOUR: Duration = Duration::from_secs(3600);

// === impl Sparse ===

impl Sparse {
    pub(crate) fn with_one() -> Sparse {
        let builder = Engine::builder().shards(SHARDS).slots(SLOTS).reach(REACH);
        let engine = builder.manual_clock(&ManualClock::new()).build().expect("it is valid");
        engine.schedule_detached(HOUR, || ()).expect("the engine runs");
        Sparse { engine: Some(engine), found: 0 }
    }

    /// As `with_one`; a timer has fired for each operation, far from the others.
    pub(crate) fn with_fired() -> Sparse {
        let sparse = Sparse::with_one();
        let engine = sparse.engine.as_ref().expect("it has not ended");
        for _ in 0..OPERATIONS {
            engine.advance(GAP).expect("it is driven by hand");
            engine.schedule_detached(TICK, || ()).expect("the engine runs");
            assert_eq!(engine.advance(TICK).expect("it is driven by hand"), 1);
        }
        sparse
    }

    /// Looks at all that is pending.
    #[inline]
    pub(crate) fn snapshot(&mut self) {
        let engine = self.engine.as_ref().expect("it has not ended");
        self.found = black_box(engine.snapshot()).len();
    }

    /// Stops the engine.
    #[inline]
    pub(crate) fn stop(&mut self) {
        let engine = self.engine.as_ref().expect("it has not ended");
        self.found = black_box(engine.stop_within(HOUR)).expect("nobody is inside").returned.len();
    }

    /// Drops the engine, which drops its timer.
    #[inline]
    pub(crate) fn end(&mut self) {
        drop(black_box(self.engine.take()));
        self.found = 1;
    }

    pub(crate) fn one_found(self) {
        assert_eq!(self.found, 1, "there is one timer");
    }
}
