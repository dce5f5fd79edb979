//! How to test code that uses timers: a clock that moves when told to, no threads, no sleeping.
//!
//! The code under test is a login lock: three failures lock an account for ten minutes.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tickless::{CancelOnDrop, Engine, ManualClock};

/// Locks after three failures; forgets failures after a minute of peace.
struct Login {
    engine: Engine,
    state: Arc<State>,
    forget: Mutex<Option<CancelOnDrop>>,
}

#[derive(Default)]
struct State {
    failures: AtomicU32,
    locked: AtomicBool,
}

impl Login {
    fn new(engine: Engine) -> Login {
        Login { engine, state: Arc::default(), forget: Mutex::new(None) }
    }

    fn fail(&self) -> Result<(), Box<dyn std::error::Error>> {
        let failures = self.state.failures.fetch_add(1, Ordering::Relaxed) + 1;
        let state = self.state.clone();
        if failures == 3 {
            self.state.locked.store(true, Ordering::Relaxed);
            self.engine.schedule_detached(Duration::from_secs(600), move || {
                state.locked.store(false, Ordering::Relaxed);
            })?;
        }
        let state = self.state.clone();
        let forget = self.engine.schedule(Duration::from_secs(60), move || {
            state.failures.store(0, Ordering::Relaxed);
        })?;
        // The timer of the failure before goes here, and with it its closure.
        *self.forget.lock().expect("nobody panics") = Some(forget.cancel_on_drop());
        Ok(())
    }

    fn is_locked(&self) -> bool {
        self.state.locked.load(Ordering::Relaxed)
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let clock = ManualClock::new();
    let engine = Engine::builder().manual_clock(&clock).build()?;
    let login = Login::new(engine.clone());

    // Two failures, a minute of peace, two more: not locked.
    for _ in 0..2 {
        login.fail()?;
        login.fail()?;
        assert_eq!(engine.advance(Duration::from_secs(60))?, 1);
    }
    assert!(!login.is_locked());

    // Three in a row: locked, for ten minutes to the tick.
    for _ in 0..3 {
        login.fail()?;
        engine.advance(Duration::from_secs(1))?;
    }
    assert!(login.is_locked());
    engine.advance(Duration::from_secs(600) - Duration::from_secs(1) - Duration::from_millis(1))?;
    assert!(login.is_locked());
    engine.advance(Duration::from_millis(1))?;
    assert!(!login.is_locked());

    println!("{:?} of login history tested without waiting", clock.elapsed());
    Ok(())
}
