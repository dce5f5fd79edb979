//! Collisions: one thread runs the turn in which timers are due while another cancels, moves and
//! drops the very same timers, entry by entry, or takes their seats. So with a turn that
//! cascades. Each round both start at once, so that they meet in the midst of an operation, and
//! often.

use std::sync::{Arc, Barrier};
use std::thread;
use std::time::Duration;

use crate::common::scaled;
use crate::token::{Fates, Token};
use tickless::{Batch, Builder, Engine, Handle, ManualClock, ResetError, State};

const TIMERS: usize = 256;

const MS: Duration = Duration::from_millis(1);

const DUE: Duration = Duration::from_millis(20);

fn run_all(batch: Batch<'_, Token>) {
    batch.for_each(|token| token.run());
}

/// In which order the other thread goes through the timers: the lists are walked from the one
/// that was filed last.
const ORDERS: [fn(&mut Vec<Handle<Token>>); 2] = [|_| (), |handles| handles.reverse()];

/// A round of its own engine, in which timers number 0 to `TIMERS` are due.
struct Round {
    engine: Engine<Token>,
    clock: ManualClock,
    fates: Fates,
    handles: Vec<Handle<Token>>,
}

impl Round {
    fn new(number: u64) -> Round {
        Round::due_after(DUE, number)
    }

    fn due_after(delay: Duration, number: u64) -> Round {
        let clock = ManualClock::new();
        let builder = Builder::new().shards(1).tick(MS).manual_clock(&clock);
        let engine = builder.build_with_handler(run_all).unwrap();
        let fates = Fates::new(2 * TIMERS);
        let schedule = |n| engine.schedule(delay, fates.token(n)).unwrap();
        let mut handles: Vec<_> = (0..TIMERS).map(schedule).collect();
        // The other order also meets the handles with the latest first.
        ORDERS[number as usize % 2](&mut handles);
        Round { engine, clock, fates, handles }
    }

    /// Runs a turn after `wait`, while another thread does `collide`.
    fn meet<R: Send + 'static>(
        &mut self,
        wait: Duration,
        collide: impl FnOnce(&Engine<Token>, &Fates, Vec<Handle<Token>>) -> R + Send + 'static,
    ) -> R {
        let (engine, fates) = (self.engine.clone(), self.fates.clone());
        let handles = std::mem::take(&mut self.handles);
        let begin = Arc::new(Barrier::new(2));
        let others_begin = begin.clone();
        let other = thread::spawn(move || {
            others_begin.wait();
            collide(&engine, &fates, handles)
        });
        self.clock.advance(wait);
        begin.wait();
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

#[test]
fn cancel_against_fire() {
    let mut won = 0;
    for number in 0..scaled(400) {
        let mut round = Round::new(number);
        let cancel = |_: &_, _: &_, handles: Vec<_>| {
            handles.into_iter().map(Handle::cancel).collect::<Vec<bool>>()
        };
        let cancelled = round.meet(DUE, cancel);
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
        let reset = move |_: &_, _: &_, mut handles: Vec<Handle<Token>>| {
            let moved = handles.iter_mut().map(|handle| handle.reset(later).is_ok());
            let moved: Vec<bool> = moved.collect();
            (handles, moved)
        };
        let (handles, moved) = round.meet(DUE, reset);
        let timers = || Round::numbers(number).into_iter().zip(&moved);
        for ((n, &moved), handle) in timers().zip(&handles) {
            assert_eq!(round.fates.of(n).0, u32::from(!moved), "round {number}");
            assert_eq!(handle.state() == State::Pending, moved);
            moved_in_all += u64::from(moved);
        }
        round.engine.check().unwrap();
        assert_eq!(round.engine.advance(later - MS), Ok(0), "round {number}: early");
        let count = moved.iter().filter(|&&moved| moved).count();
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
        let reset = |_: &_, _: &_, mut handles: Vec<Handle<Token>>| {
            for handle in &mut handles {
                assert_ne!(handle.reset(Duration::ZERO), Err(ResetError::Stopped));
            }
        };
        round.meet(DUE, reset);
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
        let cancel_and_schedule = move |engine: &Engine<Token>, fates: &Fates, handles: Vec<_>| {
            let mut kept = 0;
            for handle in handles {
                if Handle::cancel(handle) {
                    let delay = DUE * (number as u32 % 3);
                    engine.schedule_detached(delay, fates.token(TIMERS + kept)).unwrap();
                    kept += 1;
                }
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
        round.meet(DUE, |_: &_, _: &_, handles: Vec<_>| drop::<Vec<Handle<Token>>>(handles));
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
        let mut round = Round::due_after(FAR, number);
        // After the old bucket opens, and before the one opens that the cascade has in mind.
        let sooner = MS * 76;
        let reset = move |_: &_, _: &_, mut handles: Vec<Handle<Token>>| {
            assert!(handles.iter_mut().all(|handle| handle.reset(sooner).is_ok()));
        };
        round.meet(COARSE, reset);
        round.engine.check().unwrap();
        assert_eq!(round.engine.advance(sooner - MS), Ok(0), "round {number}: early");
        assert_eq!(round.engine.advance(MS), Ok(TIMERS), "round {number}: late");
        assert!((0..TIMERS).all(|n| round.fates.of(n) == (1, 1)));
    }
}

#[test]
fn cancel_and_seats_against_cascade() {
    for number in 0..scaled(250) {
        let mut round = Round::due_after(FAR, number);
        let sooner = MS * 76;
        let reseat = move |engine: &Engine<Token>, fates: &Fates, handles: Vec<_>| {
            for (n, handle) in handles.into_iter().enumerate() {
                assert!(Handle::cancel(handle));
                // In the seat, if that still serves so early a time.
                engine.schedule_detached(sooner, fates.token(TIMERS + n)).unwrap();
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
