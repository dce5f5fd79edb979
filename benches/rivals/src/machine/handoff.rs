//! How long a cache line takes from one CPU to the other: where the threads sit just now.
//!
//! Virtual CPUs move between core complexes under their guest, and what two threads share then
//! costs several times as much. A run during which this time changed says little.

use std::hint::spin_loop;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::sample::Sample;

/// A value on a line of its own.
#[repr(align(128))]
struct Ball(AtomicU64);

const STOP: u64 = u64::MAX;

const ROUNDS_PER_GAME: u32 = 64;

/// How long to play at full scale.
pub(crate) const PLAY: Duration = Duration::from_millis(200);

/// The time of one hand-off between two threads, in nanoseconds, played for about `play`: the
/// median of many short games, of which others on the machine spoil a few.
pub(crate) fn one_way_ns(play: Duration) -> f64 {
    let ball = &Ball(AtomicU64::new(0));
    thread::scope(|scope| {
        scope.spawn(|| answer(ball));
        let mut games = Vec::new();
        // The first round waits for the other thread to start.
        let mut round = hit(ball, 0);
        let begun = Instant::now();
        while begun.elapsed() < play || games.is_empty() {
            let game = Instant::now();
            for _ in 0..ROUNDS_PER_GAME {
                round = hit(ball, round);
            }
            games.push(game.elapsed().as_nanos() as f64 / f64::from(2 * ROUNDS_PER_GAME));
        }
        while !exchange(ball, round, STOP) {
            spin_loop();
        }
        Sample::new(games).median()
    })
}

/// Waits for the answer to the last hit, and hits again.
fn hit(ball: &Ball, even: u64) -> u64 {
    while !exchange(ball, even, even + 1) {
        spin_loop();
    }
    even + 2
}

/// Answers each odd number with the next even one.
fn answer(ball: &Ball) {
    let mut odd = 1;
    while ball.0.load(Ordering::Relaxed) != STOP {
        match exchange(ball, odd, odd + 1) {
            true => odd += 2,
            false => spin_loop(),
        }
    }
}

/// Whether the placement seems to have changed between two measurements.
pub(crate) fn has_changed(before_ns: f64, after_ns: f64) -> bool {
    let (least, most) = (before_ns.min(after_ns), before_ns.max(after_ns));
    most > 1.5 * least
}

#[inline]
fn exchange(ball: &Ball, from: u64, to: u64) -> bool {
    ball.0.compare_exchange_weak(from, to, Ordering::AcqRel, Ordering::Relaxed).is_ok()
}

#[test]
fn a_change_by_more_than_half_is_one() {
    assert!(!has_changed(100.0, 149.0));
    assert!(!has_changed(149.0, 100.0));
    assert!(has_changed(25.0, 120.0));
    assert!(has_changed(120.0, 25.0));
}

#[test]
fn a_game_comes_to_an_end_and_counts_its_hits() {
    assert!(one_way_ns(Duration::from_millis(1)).is_finite());
}
