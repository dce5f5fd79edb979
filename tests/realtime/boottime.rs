//! Engines on the clock that counts suspended time, in real time: who has nothing to do sleeps on.
//! (`tests/alone/boottime.rs` has their promises.)

#![cfg(all(target_os = "linux", not(elsewhere)))]

use std::thread;
use std::time::{Duration, Instant};

use support::patience::PATIENCE;
use tickless::{Clock, Engine};

const HOUR: Duration = Duration::from_secs(3600);

/// This one does wait: what it shows is that something does *not* happen.
#[test]
fn who_has_nothing_to_do_sleeps_on() {
    let builder = Engine::builder().shards(2).clock(Clock::boottime().unwrap());
    let engine = builder.build().unwrap();
    (0..10).for_each(|n| engine.schedule_detached(HOUR * (n + 1), || ()).unwrap());
    let begun = Instant::now();
    loop {
        let before = engine.stats().wake_ups;
        thread::sleep(Duration::from_millis(300));
        if before == engine.stats().wake_ups {
            break;
        }
        assert!(begun.elapsed() < PATIENCE, "a reaper does not go to sleep");
    }
}
