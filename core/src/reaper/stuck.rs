//! Tasks that are stuck: what is told of them, and which threads of an engine have one.
//!
//! *Owner*: the thread that takes a shard over says which thread has lost it, before that thread
//! can learn it; that thread says when it is back. Anyone reads.

use std::time::{Duration, Instant};

use crate::sync::{Arc, Counter, Ordering};

/// A task that has kept its shard for longer than [`Builder::takeover`][takeover]
/// allows, and still has it, or lost it to another thread. It was running when it was noticed.
///
/// ```
/// use std::sync::mpsc;
/// use std::time::Duration;
/// use tickless::{Engine, StuckTask};
///
/// let (sender, told) = mpsc::channel();
/// let engine = Engine::builder()
///     .on_stuck(move |task: &StuckTask| sender.send(task.clone()).unwrap())
///     .build()?;
/// let (release, released) = mpsc::channel::<()>();
/// engine.schedule_detached(Duration::ZERO, move || _ = released.recv())?;
/// engine.schedule_detached(Duration::from_millis(1), || println!("it holds nobody up"))?;
/// assert_eq!(told.recv()?.thread, "tickless-0");
/// drop(release);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// [takeover]: https://docs.rs/tickless/latest/tickless/struct.Builder.html#method.takeover
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct StuckTask {
    /// The shard of its timer.
    pub shard: usize,
    /// The name of the thread that runs it. Empty if that has none, or is not one of the engine's.
    pub thread: String,
    /// A time at which it was already running; it may have begun earlier.
    pub since: Instant,
    /// How long after that it was still running: until this was made.
    pub age: Duration,
}

/// A callback for tasks that are stuck.
pub type OnStuck = Arc<dyn Fn(&StuckTask) + Send + Sync>;

/// The threads of an engine that are stuck: they have lost their shard, and have not come back.
pub struct StuckThreads {
    /// For each thread zero, or the shard's number plus one, and in the higher bits since when, in
    /// units of [`UNIT_NS`] by the engine's clock.
    places: Box<[Counter]>,
}

/// Bits of a shard's number, plus one.
pub const SHARD_BITS: u32 = 11;

/// In these units, every time fits the other bits.
const UNIT_NS: u64 = 1 << SHARD_BITS;

const _: () = assert!(crate::time::MAX_SHARDS + 1 < 1 << SHARD_BITS, "it has room there");

// === impl StuckTask ===

impl StuckTask {
    #[doc(hidden)]
    pub fn new(shard: usize, thread: String, since: Instant, age: Duration) -> StuckTask {
        StuckTask { shard, thread, since, age }
    }
}

// === impl StuckThreads ===

impl StuckThreads {
    /// None of so many threads is stuck.
    pub fn of(threads: usize) -> StuckThreads {
        StuckThreads { places: (0..threads).map(|_| Counter::new(0)).collect() }
    }

    /// Thread `number` has lost `shard`, in a task that has run since `since_ns` at the latest.
    pub fn begin(&self, number: usize, shard: usize, since_ns: u64) {
        // (The last unit of all, 584 years after the start, begins where it should end.)
        let since = since_ns.div_ceil(UNIT_NS).min(u64::MAX / UNIT_NS);
        let place = (since << SHARD_BITS) | (shard as u64 + 1);
        // ORDER: Relaxed - a number for those who look on.
        self.places[number].store(place, Ordering::Relaxed);
    }

    /// Thread `number` is back.
    pub fn end(&self, number: usize) {
        // ORDER: Relaxed - as in `begin`, which comes before this.
        self.places[number].store(0, Ordering::Relaxed);
    }

    /// The stuck threads: the number of each, the shard that it has lost, and since when its task
    /// has run, in nanoseconds.
    pub fn iter(&self) -> impl Iterator<Item = (usize, usize, u64)> + '_ {
        self.places.iter().enumerate().filter_map(|(number, place)| {
            // ORDER: Relaxed - as in `begin`.
            let place = place.load(Ordering::Relaxed);
            let shard = (place & ((1 << SHARD_BITS) - 1)).checked_sub(1)?;
            Some((number, shard as usize, (place >> SHARD_BITS) * UNIT_NS))
        })
    }
}

debug! { impl[] StuckThreads[] { stuck = |this| this.iter().count() } }

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;

    #[test]
    fn who_is_stuck_stands_there_until_it_is_back() {
        let threads = StuckThreads::of(3);
        let all = || threads.iter().collect::<Vec<_>>();
        assert_eq!(all(), []);
        threads.begin(2, 0, 0);
        threads.begin(0, crate::time::MAX_SHARDS, u64::from(u32::MAX) << 20);
        // Rounded up: not earlier than it was seen.
        threads.begin(1, 7, UNIT_NS + 1);
        let first = (0, crate::time::MAX_SHARDS, u64::from(u32::MAX) << 20);
        assert_eq!(all(), [first, (1, 7, 2 * UNIT_NS), (2, 0, 0)]);
        // For as long as a clock runs, which is longer than 2^48 microseconds.
        threads.begin(1, 3, 1 << 60);
        assert_eq!(all()[1], (1, 3, 1 << 60));
        threads.end(1);
        threads.end(0);
        assert_eq!(all(), [(2, 0, 0)]);
    }
}
