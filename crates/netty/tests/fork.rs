//! A fork: a child drops its parent's timer in silence, and makes one of its own, whatever the
//! parent's threads were doing. A program of its own, since it forks. (ThreadSanitizer permits no
//! threads in a child.)

#![cfg(all(unix, not(tsan)))]

use std::sync::mpsc::channel;
use std::time::Duration;

use support::child::in_a_child;
use support::patience::PATIENCE;
use tickless_netty::{HashedWheelTimer, Timeout};

const MS: Duration = Duration::from_millis(1);

/// That the timer fires, and that a timeout finds it.
#[track_caller]
fn assert_works(timer: &HashedWheelTimer) {
    let (sender, receiver) = channel();
    let task = move |timeout: &Timeout| _ = sender.send(timeout.timer());
    timer.new_timeout(task, MS).unwrap();
    assert!(receiver.recv_timeout(PATIENCE).unwrap().as_ref() == Some(timer));
}

#[test]
fn a_child_drops_the_timer_of_its_parent_and_makes_its_own() {
    let timer = HashedWheelTimer::new().unwrap();
    let mut all = Some(timer.clone());
    // Its thread looks its timer up meanwhile, again and again.
    let again = |timeout: &Timeout| {
        if let Some(timer) = timeout.timer() {
            let _ = timer.new_timeout(timeout.task().clone(), Duration::ZERO);
        }
    };
    let busy = timer.new_timeout(again, Duration::ZERO).unwrap();
    for _ in 0..20 {
        in_a_child("dropping", || {
            drop(all.take());
            assert_works(&HashedWheelTimer::new().unwrap());
        });
    }
    assert_works(&timer);
    assert!(busy.timer() == Some(timer));
}
