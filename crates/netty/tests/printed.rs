//! What users hold: which threads may have it, how large it is, and what it prints.

use std::error::Error;
use std::fmt::Debug;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use tickless::{ManualClock, ScheduleReason};
use tickless_netty::{Expired, HashedWheelTimer, Rejected, StartError, Timeout, TimerTask};

const HOUR: Duration = Duration::from_secs(3600);

fn is_send_and_sync<T: Send + Sync + ?Sized>() {}

fn assert_prints(value: &dyn Debug, name: &str) {
    let printed = format!("{value:?}");
    assert!(printed.starts_with(name), "{printed} for {name}");
}

#[test]
fn any_thread_may_have_what_users_hold_and_it_is_a_word() {
    is_send_and_sync::<HashedWheelTimer>();
    is_send_and_sync::<Timeout>();
    is_send_and_sync::<Expired>();
    is_send_and_sync::<Rejected>();
    is_send_and_sync::<dyn TimerTask>();
    assert_eq!(size_of::<Option<Timeout>>(), size_of::<usize>());
    assert_eq!(size_of::<HashedWheelTimer>(), size_of::<usize>());
}

#[test]
fn what_users_hold_can_be_told_apart_in_a_log() {
    let builder = HashedWheelTimer::builder().max_pending_timeouts(1);
    assert_prints(&builder, "Builder { ");
    let look = |expired: Expired| assert_prints(&expired, "Expired");
    let clock = ManualClock::new();
    let timer = builder.manual_clock(&clock).dispatcher(look).build().unwrap();
    assert_prints(&timer, "HashedWheelTimer { worker_state: Init, pending_timeouts: 0");
    let nothing = |_: &Timeout| ();
    let timeout = timer.new_timeout(nothing, Duration::ZERO).unwrap();
    assert_prints(&timeout, "Timeout(Waiting)");
    let refused = |timer: &HashedWheelTimer| timer.new_timeout(nothing, Duration::ZERO);
    assert_prints(&refused(&timer).unwrap_err(), "Refused { reason: Full");
    assert_eq!((timer.advance(Duration::ZERO), timer.stats().panicked), (Ok(1), 0));
    timer.stop().unwrap();
    assert_prints(&refused(&timer).unwrap_err(), "Refused { reason: Stopped");
    assert_prints(&timer, "HashedWheelTimer { worker_state: Shutdown, pending_timeouts: 0");
}

#[test]
fn a_timeout_that_was_rejected_comes_back_through_a_boxed_error() {
    let (old, clock) = (HashedWheelTimer::new().unwrap(), ManualClock::new());
    let new = HashedWheelTimer::builder().manual_clock(&clock).build().unwrap();
    old.stop().unwrap();
    let runs = Arc::new(AtomicU32::new(0));
    let count = runs.clone();
    let late = || -> Result<Timeout, Box<dyn Error + Send + Sync>> {
        let run = move |_: &Timeout| _ = count.fetch_add(1, Ordering::Relaxed);
        Ok(old.new_timeout(run, HOUR)?)
    };
    let error: Rejected = *late().unwrap_err().downcast().unwrap();
    assert_eq!(error.reason(), ScheduleReason::Stopped);
    new.new_timeout(error.into_payload(), HOUR).unwrap();
    assert_eq!(new.advance(2 * HOUR), Ok(1));
    assert_eq!(runs.load(Ordering::Relaxed), 1);
    let error: Box<dyn Error> = old.start().unwrap_err().into();
    assert_eq!(error.to_string(), "a timer that has stopped cannot be started");
    assert_eq!(error.downcast_ref(), Some(&StartError::Stopped));
}

#[test]
fn a_timeout_is_expired_where_its_dispatcher_drops_it() {
    let clock = ManualClock::new();
    let builder = HashedWheelTimer::builder().manual_clock(&clock);
    let timer = builder.dispatcher(|expired: Expired| drop(expired)).build().unwrap();
    let timeout = timer.new_timeout(|_: &Timeout| panic!("it was dropped"), HOUR).unwrap();
    timer.advance(HOUR).unwrap();
    assert!(timeout.is_expired() && !timeout.cancel());
}
