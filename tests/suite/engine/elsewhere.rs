//! On systems that lack what only Linux has, an engine does without or says so, and fires as it
//! does on Linux. On Linux, these run with `--cfg elsewhere` (`ci/targets.sh`), and so does the
//! rest of the tests.

#![cfg(not(all(target_os = "linux", not(elsewhere))))]

use std::io::ErrorKind;
use std::time::{Duration, Instant};

use support::mpsc;
use tickless::{BuildError, Builder, Clock, Engine, When};

const MS: Duration = Duration::from_millis(1);

const HOUR: Duration = Duration::from_secs(3600);

const PATIENCE: Duration = Duration::from_secs(60);

/// Asserts that a reaper that sleeps for long is woken for a timer that is due before, which is not
/// early.
fn fires(engine: &Engine, when: impl Fn(Duration) -> When) {
    let far = engine.schedule(when(HOUR), || ()).unwrap();
    for delay in [40 * MS, MS, 8 * MS, Duration::ZERO] {
        let (sender, fired) = mpsc::channel();
        let begun = Instant::now();
        engine
            .schedule_detached(when(delay), move || sender.send(Instant::now()).unwrap())
            .unwrap();
        let at = fired.recv_timeout(PATIENCE).unwrap();
        assert!(at >= begun + delay, "{:?} after {delay:?}", at - begun);
    }
    assert!(far.cancel());
}

#[test]
fn a_reaper_is_woken_for_what_is_due_before_it_would_wake() {
    fires(&Engine::builder().shards(1).build().unwrap(), When::after);
    fires(&Engine::builder().shards(3).takeover(None).build().unwrap(), When::after);
}

#[test]
fn precise_timers_fire_with_and_without_a_wait_in_user_space() {
    for share in [0.0, 0.5] {
        let engine = Engine::builder().shards(1).precise(share).build().unwrap();
        fires(&engine, When::after);
    }
    let spinning = Engine::builder().shards(1).spin_before(2 * MS).spin_share(1.0);
    fires(&spinning.build().unwrap(), When::after);
}

#[test]
fn there_is_no_clock_that_counts_suspended_time_and_another_takes_its_place() {
    let refused = Clock::boottime().unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Unsupported);
    let clock = Clock::boottime().unwrap_or_else(|_| Clock::system());
    assert!(!clock.counts_suspension());
    fires(&Engine::builder().shards(1).clock(clock).build().unwrap(), When::after);
}

/// Where the system pins threads it fires; elsewhere the builder says so and can be used without.
#[test]
fn an_engine_whose_threads_cannot_be_pinned_is_not_built() {
    let pinned = Builder::new().shards(2).pinned(true);
    match pinned.clone().build() {
        Err(BuildError::Thread(refused)) => assert_eq!(refused.kind(), ErrorKind::Unsupported),
        Err(other) => panic!("{other}"),
        Ok(_) if cfg!(any(elsewhere, target_vendor = "apple")) => panic!("these pin no threads"),
        Ok(engine) => fires(&engine, When::after),
    }
    fires(&pinned.pinned(false).build().unwrap(), When::after);
}
