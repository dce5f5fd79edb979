//! Beats that come just before their timeout has passed, by the system's clock. (What a beat
//! promises by a clock that is moved by hand is in `tests/races/periodic/heartbeat.rs`.)

use std::time::{Duration, Instant};

use support::scaled;
use tickless::Engine;
use tickless::periodic::Heartbeat;

const US: Duration = Duration::from_micros(1);

/// The clock of the thread that beats may be ahead of the engine's by some microseconds.
#[test]
fn no_beat_is_refused_before_the_timeout_has_passed() {
    let engine = Engine::new().unwrap();
    let start = |timeout| Heartbeat::new(&engine, timeout, || ()).unwrap();
    let (timeout, other) = (US * 200, start(US * 60_000_000));
    for round in 0..scaled(3_000) {
        let heartbeat = start(timeout);
        // This beat sets the thread's clock anew, so it is exact.
        wait_until(Instant::now() + US * 50);
        let before = Instant::now();
        if !heartbeat.beat() {
            continue; // The thread was suspended.
        }
        // The next beat carries on a clock that the other heartbeat has set.
        let end = before + timeout - Duration::from_nanos(round % 80 * 100);
        wait_until(end - US * 30);
        other.beat();
        wait_until(end - US / 5);
        let is_in_time = heartbeat.beat();
        let passed = before.elapsed();
        assert!(is_in_time || passed >= timeout, "refused after {passed:?} of {timeout:?}");
    }
}

fn wait_until(end: Instant) {
    while Instant::now() < end {}
}
