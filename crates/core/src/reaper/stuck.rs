//! Tasks that are stuck: how one is found, what is told of it, and which threads have one.
//!
//! A look compares how far a hand-over has come with the look before it. The task is stuck once it
//! was seen at the same payload for as long as a task may take.
//!
//! *Owner*: any thread looks at a role, without a lock: a thread that stands still while it looks
//! holds nobody up. The thread that takes a shard over says which thread has lost it, before that
//! thread can learn it; that thread says when it is back. Anyone reads who is stuck.
//!
//! *Orderings*: TAKEOVER. What the looks note is two words: the word of the hand-over that was seen
//! last, and a time. Each word of a hand-over is another one, and the time only grows. A look reads
//! the note, then the hand-over, then the clock; if the hand-over has changed since it was noted,
//! the look raises the time to that of the clock, and then notes the hand-over's word, by a CAS
//! from what it has read. So a note is replaced only by a later one, and who finds the hand-over's
//! word noted reads a time at which it was there already. (The time may be that of a look that
//! noted nothing, because another one was faster.)
//!
//! *Tested by*: `loom-tests/tests/{takeover,suspended}.rs`, `tests/alone/frozen.rs`, the tests
//! below.

use std::time::{Duration, Instant};

use crate::dispatch::{HandOver, InHand, Progress};
use crate::sync::{Arc, AtomicU64, Counter, Ordering};
use crate::time::Clock;

/// A task that ran for longer than [`Builder::takeover`][takeover] allows. Another thread may serve
/// its shard by now.
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
    /// A time about at which it began, or at which it was already running.
    pub since: Instant,
    /// How long after that it was still running: until this was made.
    pub age: Duration,
}

/// A callback for tasks that are stuck.
pub type OnStuck = Arc<dyn Fn(&StuckTask) + Send + Sync>;

/// What the watcher saw at its last check of a role: how far the hand-over was, and since when.
pub(super) struct LastCheck<T> {
    /// The other end of what it has in hand.
    pub(super) hand_over: Arc<HandOver<T>>,
    /// The word of the hand-over when a look last found it changed. Zero, which no open hand-over
    /// has: never.
    seen: AtomicU64,
    /// Not before that look.
    since_ns: AtomicU64,
}

/// What a look at a shard says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// The reaper hands nothing over.
    Idle,
    /// It does, and is to be looked at again at this time.
    Busy(u64),
    /// It has been in the same place for too long, since this time by the engine's clock.
    Stuck(Progress, u64),
}

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

// === impl LastCheck ===

impl<T> LastCheck<T> {
    /// A new holder, which has this in hand.
    pub(super) fn of(in_hand: &InHand<T>) -> LastCheck<T> {
        LastCheck {
            hand_over: in_hand.hand_over().clone(),
            seen: AtomicU64::new(0),
            since_ns: AtomicU64::new(0),
        }
    }

    /// Looks at the holder. A task may take as long as `after_ns`, by `clock`. A holder that waits
    /// for others, as it was told to, is looked at again after that time: what it calls when it
    /// goes on may be stuck.
    pub(super) fn at(&self, clock: &Clock, after_ns: u64) -> Found {
        // ORDER(TAKEOVER): Acquire - pairs with the CAS in `first_seen_ns`: the time, and a word of
        // the hand-over that is no older.
        let noted = self.seen.load(Ordering::Acquire);
        let Some(seen) = self.hand_over.progress() else { return Found::Idle };
        let begun_ns = self.hand_over.since_ns();
        // The clock comes after the progress: what is seen there has begun by then.
        let now_ns = clock.now_ns();
        let Some(begun_ns) = begun_ns else {
            return Found::Busy(now_ns.saturating_add(after_ns));
        };
        let since_ns = if seen.is_at_first() {
            begun_ns
        } else {
            self.first_seen_ns(noted, seen.word(), now_ns).max(begun_ns)
        };
        let due_ns = since_ns.saturating_add(after_ns);
        if now_ns < due_ns {
            return Found::Busy(due_ns);
        }
        Found::Stuck(seen, since_ns)
    }

    /// Returns a time at which the hand-over had the word that was `seen` at `now_ns`, when `noted`
    /// had been noted before: the earliest that is known.
    fn first_seen_ns(&self, noted: u64, seen: u64, now_ns: u64) -> u64 {
        if noted != seen {
            // ORDER(TAKEOVER): Relaxed - published by the CAS.
            self.since_ns.fetch_max(now_ns, Ordering::Relaxed);
            // ORDER(TAKEOVER): Release - pairs with the Acquire in `at`; Acquire: the same, if
            // another look was faster.
            let changed =
                self.seen.compare_exchange(noted, seen, Ordering::Release, Ordering::Acquire);
            if changed.is_err_and(|other| other != seen) {
                return now_ns;
            }
        }
        // ORDER(TAKEOVER): Relaxed - what is read comes with the word, or is later.
        self.since_ns.load(Ordering::Relaxed)
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
        // (At most the last unit of all, 584 years after the start.)
        let since = since_ns.div_ceil(UNIT_NS).min(u64::MAX / UNIT_NS);
        let place = (since << SHARD_BITS) | (shard as u64 + 1);
        // ORDER: Relaxed - a number for those who look on.
        self.places[number].store(place, Ordering::Relaxed);
    }

    /// Thread `number` is back. Returns whether it was noted as stuck.
    pub fn end(&self, number: usize) -> bool {
        // ORDER: Relaxed - a number for those who look on; the takeover orders it behind `begin`.
        self.places[number].swap(0, Ordering::Relaxed) != 0
    }

    /// The stuck threads: the number of each, the shard that it has lost, and since when its task
    /// has run, in nanoseconds.
    pub fn iter(&self) -> impl Iterator<Item = (usize, usize, u64)> + '_ {
        self.places.iter().enumerate().filter_map(|(number, place)| {
            // ORDER: Relaxed - a number for those who look on.
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
    use crate::time::{ManualClock, Tick};

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

    /// A look at what a hand has that its holder is about to hand over, by a clock that is moved.
    struct Case {
        hand: ManualClock,
        in_hand: InHand<u64>,
        look: LastCheck<u64>,
    }

    impl Case {
        fn new() -> Case {
            let in_hand = InHand::default();
            let look = LastCheck::of(&in_hand);
            Case { hand: ManualClock::new(), in_hand, look }
        }

        fn open(&mut self, payloads: u64, now_ns: u64) -> Arc<HandOver<u64>> {
            self.in_hand.fill(&mut (0..payloads).map(|n| (Tick::ZERO, n)).collect(), 0);
            self.in_hand.open(payloads as usize, now_ns);
            self.in_hand.hand_over().clone()
        }

        /// A look at this time; a task may take 10 ns.
        fn at(&mut self, now_ns: u64) -> Found {
            self.hand.advance(Duration::from_nanos(now_ns) - self.hand.elapsed());
            self.look.at(&Clock::manual(&self.hand), 10)
        }
    }

    #[test]
    fn a_reaper_is_stuck_once_it_was_seen_in_one_place_for_as_long_as_a_task_may_take() {
        let mut case = Case::new();
        assert_eq!(case.at(0), Found::Idle);
        let hand_over = case.open(3, 100);
        // The first payload has run since the beginning; how long a later one has, nobody knows.
        assert_eq!(case.at(104), Found::Busy(110));
        let unclaimed = hand_over.progress().unwrap();
        hand_over.claim();
        assert_eq!(case.at(106), Found::Busy(110));
        let first = hand_over.progress().unwrap();
        assert!(first != unclaimed && first.payload() == unclaimed.payload());
        hand_over.claim();
        assert_ne!(hand_over.progress().unwrap().payload(), first.payload());
        assert_eq!(case.at(109), Found::Busy(119));
        let Found::Stuck(seen, 109) = case.at(119) else { panic!("it is stuck") };
        assert_eq!(hand_over.take_over(seen, || ()).unwrap().take_payloads(), [(Tick::ZERO, 2)]);
        assert!(hand_over.take_over(seen, || ()).is_none(), "nobody takes it twice");
        assert_eq!(hand_over.claim(), None);
        assert_eq!((hand_over.left(), hand_over.claimed()), (0, 2));
        assert!(case.in_hand.close().is_err() && case.in_hand.is_taken_over());
    }

    #[test]
    fn a_handler_that_waits_as_it_was_told_to_is_not_stuck() {
        let mut case = Case::new();
        let hand_over = case.open(1, 200);
        hand_over.set_patient(None);
        assert_eq!(case.at(300), Found::Busy(310));
        let late_ns = 9_000_000_000;
        assert_eq!(case.at(late_ns), Found::Busy(late_ns + 10), "however long it has waited");
        hand_over.set_patient(Some(late_ns + 5));
        assert_eq!(case.at(late_ns + 10), Found::Busy(late_ns + 15));
        let found = case.at(late_ns + 15);
        assert!(matches!(found, Found::Stuck(_, since_ns) if since_ns == late_ns + 5));
        hand_over.set_patient(None);
        assert_eq!(case.at(late_ns + 20), Found::Busy(late_ns + 30), "counted anew");
        case.in_hand.close().unwrap();
    }
}
