//! What timeouts and timers allocate, and that it goes with them.

use std::time::Duration;

use support::alone::alone;
use support::counting::{Counting, free_what_waits_for_readers, live, made_here};
use support::scaled;
use tickless::ManualClock;
use tickless_netty::{HashedWheelTimer, IntoTask, Timeout};

#[global_allocator]
static COUNTING: Counting = Counting;

const HOUR: Duration = Duration::from_secs(3600);

const MS: Duration = Duration::from_millis(1);

#[test]
fn a_timeout_of_a_shared_task_costs_one_allocation_and_leaves_nothing() {
    let _alone = alone();
    let timer = HashedWheelTimer::builder().manual_clock(&ManualClock::new()).build().unwrap();
    let task = (|_: &Timeout| ()).into_task();
    let step = || {
        let timeout = timer.new_timeout(task.clone(), HOUR).unwrap();
        assert!(timeout.cancel());
        drop(timer.new_timeout(task.clone(), MS).unwrap());
        assert_eq!(timer.advance(MS * 100), Ok(1));
    };
    (0..1000).for_each(|_| step());
    let steps = scaled(1000);
    let (made, before) = (made_here(), live());
    (0..steps).for_each(|_| step());
    assert_eq!(made_here() - made, 2 * steps);
    let left = live().blocks - before.blocks;
    // The harness begins threads meanwhile, which takes a few blocks.
    assert!(left < (steps as i64 / 4).max(100), "{left} blocks of {steps} steps");
}

#[test]
fn hashed_timers_that_end_leave_nothing_behind() {
    let _alone = alone();
    let build_and_drop = || {
        let builder = HashedWheelTimer::builder().ticks_per_wheel(8);
        let timer = builder.manual_clock(&ManualClock::new()).build().unwrap();
        timer.new_timeout(|_: &Timeout| (), HOUR).unwrap();
    };
    build_and_drop();
    free_what_waits_for_readers();
    let before = live();
    let timers = 200;
    (0..timers).for_each(|_| build_and_drop());
    // What the thread keeps of the last of them goes when it turns to another.
    free_what_waits_for_readers();
    let left = live().blocks - before.blocks;
    assert!(left < timers / 2, "{left} blocks of {timers} timers");
}
