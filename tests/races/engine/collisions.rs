//! Collisions: one thread runs the turn in which timers are due while another cancels, moves and
//! drops the very same timers, entry by entry, or takes their seats. So with a turn that
//! cascades.
//!
//! In some rounds both start at once. Where the system runs one thread after the other, one of them
//! would always be over then before the other begins. So in the other rounds one of them leads by
//! some operations, and they meet there whatever the scheduler does.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::Duration;

use support::threads::spawn;
use support::token::{Fates, Token};
use tickless::{Batch, Builder, Engine, Handle, ManualClock, ResetError, State};
use tickless_core::shard::BATCH;

/// Rounds in which one leads and others.
const KINDS: u64 = 6;

/// As in other tests, and at least each kind of round.
fn scaled(n: u64) -> u64 {
    support::scaled(n).max(KINDS)
}

/// A batch and a half: when the turn hands the first payload over, it has not seen the last timers.
const TIMERS: usize = BATCH + BATCH / 2;

const MS: Duration = Duration::from_millis(1);

const DUE: Duration = Duration::from_millis(20);

/// In which order the other thread goes through the timers: the lists are walked from the one
/// that was filed last.
const ORDERS: [fn(&mut Vec<Handle<Token>>); 2] = [|_| (), |handles| handles.reverse()];

/// Who begins a round.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Lead {
    /// Both at once.
    Nobody,
    /// The turn begins when the other thread has done so many operations.
    Other(usize),
    /// The other thread begins when the turn has handed a payload over, and the turn goes on when
    /// that thread has done so many operations.
    Turn(usize),
}

/// How far both have come. It orders nothing, so as to hide no race from ThreadSanitizer.
#[derive(Default)]
struct Progress {
    has_handed_over: AtomicBool,
    done: AtomicUsize,
}

/// What the other thread of a round works with.
struct Other {
    engine: Engine<Token>,
    fates: Fates,
    progress: Arc<Progress>,
}

/// A round of its own engine, in which timers number 0 to `TIMERS` are due.
struct Round {
    engine: Engine<Token>,
    clock: ManualClock,
    fates: Fates,
    handles: Vec<Handle<Token>>,
    lead: Lead,
    progress: Arc<Progress>,
}

// === impl Lead ===

impl Lead {
    /// Each order of the handles meets each way to begin.
    fn of_round(number: u64) -> Lead {
        // Another place in each round, over all of them.
        let place = 1 + (number * 37) as usize % (TIMERS - 1);
        match number / 2 % 3 {
            0 => Lead::Other(place),
            1 => Lead::Turn(place),
            _ => Lead::Nobody,
        }
    }
}

// === impl Progress ===

impl Progress {
    /// Waits until the other thread has done so many operations.
    fn wait_for(&self, operations: usize) {
        while self.done.load(Relaxed) < operations {
            thread::yield_now();
        }
    }
}

// === impl Other ===

impl Other {
    /// What was done with one handle is done.
    fn step(&self) {
        self.progress.done.fetch_add(1, Relaxed);
    }
}

impl Drop for Other {
    /// Nobody waits for a thread that is over, or has panicked.
    fn drop(&mut self) {
        self.progress.done.store(usize::MAX, Relaxed);
    }
}

// === impl Round ===

impl Round {
    fn new(number: u64) -> Round {
        Round::due_after(DUE, number, Lead::of_round(number))
    }

    /// A round whose turn hands nothing over, so that the other thread cannot wait for that.
    fn of_cascade(number: u64) -> Round {
        let lead = match Lead::of_round(number) {
            Lead::Turn(_) => Lead::Nobody,
            lead => lead,
        };
        Round::due_after(FAR, number, lead)
    }

    fn due_after(delay: Duration, number: u64, lead: Lead) -> Round {
        let (clock, progress) = (ManualClock::new(), Arc::new(Progress::default()));
        let builder = Builder::new().shards(1).tick(MS).manual_clock(&clock);
        let of_handler = progress.clone();
        let run_all = move |batch: Batch<'_, Token>| {
            for token in batch {
                token.run();
                let is_first = !of_handler.has_handed_over.swap(true, Relaxed);
                if let (true, Lead::Turn(place)) = (is_first, lead) {
                    of_handler.wait_for(place);
                }
            }
        };
        let engine = builder.build_with_handler(run_all).unwrap();
        let fates = Fates::new(2 * TIMERS);
        let schedule = |n| engine.schedule(delay, fates.token(n)).unwrap();
        let mut handles: Vec<_> = (0..TIMERS).map(schedule).collect();
        // The other order also meets the handles with the latest first.
        ORDERS[number as usize % 2](&mut handles);
        Round { engine, clock, fates, handles, lead, progress }
    }

    /// Runs a turn after `wait`, while another thread does `collide`, which says after each handle
    /// that it has come a step further.
    fn meet<R: Send + 'static>(
        &mut self,
        wait: Duration,
        collide: impl FnOnce(&Other, Vec<Handle<Token>>) -> R + Send + 'static,
    ) -> R {
        let (lead, progress) = (self.lead, self.progress.clone());
        let (engine, fates) = (self.engine.clone(), self.fates.clone());
        let handles = std::mem::take(&mut self.handles);
        let begin = Arc::new(Barrier::new(2));
        let others_begin = begin.clone();
        let other = spawn(move || {
            let other = Other { engine, fates, progress };
            others_begin.wait();
            while matches!(lead, Lead::Turn(_)) && !other.progress.has_handed_over.load(Relaxed) {
                thread::yield_now();
            }
            collide(&other, handles)
        });
        self.clock.advance(wait);
        begin.wait();
        if let Lead::Other(place) = lead {
            self.progress.wait_for(place);
        }
        self.engine.turn(0).unwrap();
        other.join().unwrap()
    }

    /// The order in which timers stand in `handles`.
    fn numbers(number: u64) -> Vec<usize> {
        match number % 2 {
            0 => (0..TIMERS).collect(),
            _ => (0..TIMERS).rev().collect(),
        }
    }
}

/// Does the same with each handle, one after the other.
fn each<R>(
    operation: impl Fn(Handle<Token>) -> R + Send,
) -> impl FnOnce(&Other, Vec<Handle<Token>>) -> Vec<R> + Send {
    move |other, handles| {
        let operation = |handle| {
            let outcome = operation(handle);
            other.step();
            outcome
        };
        handles.into_iter().map(operation).collect()
    }
}

#[test]
fn cancel_against_fire() {
    let mut won = 0;
    for number in 0..scaled(400) {
        let mut round = Round::new(number);
        let cancelled = round.meet(DUE, each(Handle::cancel));
        for (n, cancelled) in Round::numbers(number).into_iter().zip(cancelled) {
            assert_eq!(round.fates.of(n), (u32::from(!cancelled), 1), "round {number}");
            won += u64::from(cancelled);
        }
        round.engine.check().unwrap();
        assert!(round.engine.is_empty());
    }
    assert!(won > 0 && won < scaled(400) * TIMERS as u64, "each wins sometimes: {won}");
}

#[test]
fn reset_against_fire() {
    let mut moved_in_all = 0;
    for number in 0..scaled(250) {
        let mut round = Round::new(number);
        let later = DUE * (1 + number as u32 % 5);
        let reset = move |mut handle: Handle<Token>| {
            let moved = handle.reset(later).is_ok();
            (handle, moved)
        };
        let outcomes = round.meet(DUE, each(reset));
        for (n, (handle, moved)) in Round::numbers(number).into_iter().zip(&outcomes) {
            assert_eq!(round.fates.of(n).0, u32::from(!moved), "round {number}");
            assert_eq!(handle.state() == State::Pending, *moved);
            moved_in_all += u64::from(*moved);
        }
        round.engine.check().unwrap();
        assert_eq!(round.engine.advance(later - MS), Ok(0), "round {number}: early");
        let count = outcomes.iter().filter(|(_, moved)| *moved).count();
        assert_eq!(round.engine.advance(MS), Ok(count), "round {number}");
        assert!((0..TIMERS).all(|n| round.fates.of(n) == (1, 1)));
    }
    assert!(moved_in_all > 0 && moved_in_all < scaled(250) * TIMERS as u64, "{moved_in_all}");
}

#[test]
fn a_reset_to_an_earlier_time_against_fire() {
    for number in 0..scaled(150) {
        let mut round = Round::new(number);
        // Before the bucket of the deadline: at once, in a new entry.
        let reset = |mut handle: Handle<Token>| {
            assert_ne!(handle.reset(Duration::ZERO), Err(ResetError::Stopped));
            handle
        };
        drop(round.meet(DUE, each(reset)));
        round.engine.check().unwrap();
        round.engine.advance(DUE).unwrap();
        assert!((0..TIMERS).all(|n| round.fates.of(n) == (1, 1)), "round {number}");
    }
}

#[test]
fn seats_taken_against_their_buckets_opening() {
    for number in 0..scaled(250) {
        let mut round = Round::new(number);
        // As many seats as the thread keeps; the rest fires in between.
        let cancel_and_schedule = move |other: &Other, handles: Vec<Handle<Token>>| {
            let mut kept = 0;
            for handle in handles {
                if handle.cancel() {
                    let delay = DUE * (number as u32 % 3);
                    other
                        .engine
                        .schedule_detached(delay, other.fates.token(TIMERS + kept))
                        .unwrap();
                    kept += 1;
                }
                other.step();
            }
            kept
        };
        let kept = round.meet(DUE, cancel_and_schedule);
        round.engine.check().unwrap();
        round.engine.advance(DUE * 3).unwrap();
        let ran = (0..TIMERS).filter(|&n| round.fates.of(n) == (1, 1)).count();
        let cancelled = (0..TIMERS).filter(|&n| round.fates.of(n) == (0, 1)).count();
        assert_eq!((ran, cancelled), (TIMERS - kept, kept), "round {number}");
        assert!((TIMERS..TIMERS + kept).all(|n| round.fates.of(n) == (1, 1)), "round {number}");
    }
}

#[test]
fn handles_dropped_against_fire() {
    for number in 0..scaled(250) {
        let mut round = Round::new(number);
        round.meet(DUE, each(drop));
        assert!((0..TIMERS).all(|n| round.fates.of(n) == (1, 1)), "round {number}");
        round.engine.check().unwrap();
        // An entry that was released twice would serve two of these at once.
        let schedule = |n| round.engine.schedule(DUE, round.fates.token(n)).unwrap();
        let handles: Vec<_> = (TIMERS..2 * TIMERS).map(schedule).collect();
        round.engine.check().unwrap();
        assert_eq!(round.engine.advance(DUE), Ok(TIMERS));
        assert!((TIMERS..2 * TIMERS).all(|n| round.fates.of(n) == (1, 1)), "round {number}");
        drop(handles);
    }
}

/// When the bucket opens, on level 3, that a timer of `FAR` is filed in.
const COARSE: Duration = Duration::from_millis(1024);

const FAR: Duration = Duration::from_millis(2000);

#[test]
fn reset_against_cascade() {
    for number in 0..scaled(250) {
        let mut round = Round::of_cascade(number);
        // After the old bucket opens, and before the one opens that the cascade has in mind.
        let sooner = MS * 76;
        let reset = move |mut handle: Handle<Token>| {
            assert!(handle.reset(sooner).is_ok());
            handle
        };
        drop(round.meet(COARSE, each(reset)));
        round.engine.check().unwrap();
        assert_eq!(round.engine.advance(sooner - MS), Ok(0), "round {number}: early");
        assert_eq!(round.engine.advance(MS), Ok(TIMERS), "round {number}: late");
        assert!((0..TIMERS).all(|n| round.fates.of(n) == (1, 1)));
    }
}

#[test]
fn cancel_and_seats_against_cascade() {
    for number in 0..scaled(250) {
        let mut round = Round::of_cascade(number);
        let sooner = MS * 76;
        let reseat = move |other: &Other, handles: Vec<Handle<Token>>| {
            for (n, handle) in handles.into_iter().enumerate() {
                assert!(handle.cancel());
                // In the seat, if that still serves so early a time.
                other.engine.schedule_detached(sooner, other.fates.token(TIMERS + n)).unwrap();
                other.step();
            }
        };
        round.meet(COARSE, reseat);
        round.engine.check().unwrap();
        assert!((0..TIMERS).all(|n| round.fates.of(n) == (0, 1)));
        assert_eq!(round.engine.advance(sooner - MS), Ok(0), "round {number}: early");
        assert_eq!(round.engine.advance(MS), Ok(TIMERS), "round {number}: late");
        assert!((TIMERS..2 * TIMERS).all(|n| round.fates.of(n) == (1, 1)));
    }
}
