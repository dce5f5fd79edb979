//! A wait for a task that runs, wherever the engine runs its tasks.

use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

use tickless::Engine;
use tickless::wait::{Ended, Stage, WaitError};

use crate::patience::PATIENCE;
use crate::slow::Slow;
use crate::token::Fates;

const US: Duration = Duration::from_micros(1);

/// Waits for a task that runs; it ends meanwhile, or has.
pub fn wait_for_a_slow_task(what: &str, engine: &Engine) {
    let (slow, task) = Slow::task();
    let (fates, (ends, ended)) = (Fates::new(1), channel());
    let token = fates.token(0);
    let whole = move || {
        task();
        token.run();
    };
    let mut timer = engine.schedule_waitable(Duration::ZERO, whole).unwrap();
    slow.has_begun();
    assert_eq!((timer.stage(), timer.cancel()), (Stage::Running, false), "{what}");
    assert_eq!(timer.cancel_wait_within(Duration::ZERO), Err(WaitError::TimedOut), "{what}");
    assert_eq!(timer.cancel_wait_within(50 * US), Err(WaitError::TimedOut), "{what}");
    let of_waiter = fates.clone();
    let waits = thread::spawn(move || {
        let waited = timer.cancel_wait();
        ends.send((waited, of_waiter.of(0))).unwrap();
    });
    assert!(ended.try_recv().is_err(), "{what}: it still runs");
    slow.release();
    let told = ended.recv_timeout(PATIENCE).unwrap_or_else(|_| panic!("{what}: a lost wake-up"));
    assert_eq!(told, (Ok(Ended::Finished), (1, 1)), "{what}");
    waits.join().unwrap();
}
