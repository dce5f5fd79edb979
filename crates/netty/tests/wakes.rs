//! The fault of the hashed wheel's ancestors that shows in real time only: they wake up at each
//! tick. `faults.rs` has the others.
//!
//! It runs alone, and only when it is named: `cargo test -p tickless-netty --test wakes`.

use std::sync::mpsc;
use std::time::Duration;

use support::patience::PATIENCE;
use tickless_netty::{HashedWheelTimer, Timeout};

const HOUR: Duration = Duration::from_secs(3600);

const MS: Duration = Duration::from_millis(1);

fn nothing(_: &Timeout) {}

#[test]
fn a_timer_with_timeouts_far_away_wakes_up_when_one_is_due_and_not_at_each_tick() {
    let builder = HashedWheelTimer::builder().tick_duration(MS);
    let timer = builder.build().unwrap();
    for _ in 0..1000 {
        timer.new_timeout(nothing, HOUR).unwrap();
        timer.new_timeout(nothing, Duration::MAX).unwrap();
    }
    let (sender, receiver) = mpsc::channel();
    let due = move |_: &Timeout| sender.send(()).unwrap();
    let before = timer.stats().wake_ups;
    timer.new_timeout(due, MS * 200).unwrap();
    receiver.recv_timeout(PATIENCE).unwrap();
    // Some for what was made while the thread slept; and 200 ticks have passed.
    let woken = timer.stats().wake_ups - before;
    assert!(woken < 50, "{woken} times in 200 ticks");
}
