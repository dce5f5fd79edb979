//! How long a cache line takes from one CPU to the other: where the threads sit just now.
//!
//! Virtual CPUs move between core complexes under their guest, and what two threads share then
//! costs several times as much. A run during which this time changed says little.

use std::hint::spin_loop;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// A value on a line of its own.
#[repr(align(128))]
struct Ball(AtomicU64);

/// How long to play at full scale.
pub(crate) const PLAY: Duration = Duration::from_millis(200);

/// The time of one hand-off between two threads, in nanoseconds, played for about `play`.
pub(crate) fn one_way_ns(play: Duration) -> f64 {
    const STOP: u64 = u64::MAX;
    let ball = Ball(AtomicU64::new(0));
    let mut hits = 0_u64;
    let mut elapsed = Duration::ZERO;
    thread::scope(|scope| {
        scope.spawn(|| {
            // Answers odd numbers with the next even one.
            let mut expected = 1;
            while ball.0.load(Ordering::Relaxed) != STOP {
                match exchange(&ball, expected, expected + 1) {
                    true => expected += 2,
                    false => spin_loop(),
                }
            }
        });
        // The first rounds wait for the other thread to start.
        let mut begun = Instant::now();
        let mut round = 0;
        loop {
            if exchange(&ball, 2 * round, 2 * round + 1) {
                round += 1;
                if round == 1_000 {
                    begun = Instant::now();
                }
                if round > 1_000 && round % 256 == 0 && begun.elapsed() >= play {
                    break;
                }
            } else {
                spin_loop();
            }
        }
        elapsed = begun.elapsed();
        hits = 2 * (round - 1_000);
        // The answer to the last hit comes first.
        while !exchange(&ball, 2 * round, STOP) {
            spin_loop();
        }
    });
    elapsed.as_nanos() as f64 / hits as f64
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
