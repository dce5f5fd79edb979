//! BUCKET-READ: a reader that looks again while timers move from trays to buckets.
//!
//! Who races: a reader and the reaper, who re-files a timer as its bucket opens, or ahead of time.
//! Asserted: the reader sees a timer that is pending throughout, and once.

use loom_tests::{Hand, World, check, wheel};
use tickless_core::sync::thread;
use tickless_core::time::Tick;

/// What leaves a tray for a bucket where the reader has been is found when that looks again: a
/// turn at `now` re-files a timer while it is read, in a wheel of two levels.
fn refile_under_a_reader(bound: usize, slots: u32, deadline: u64, now: u64) {
    check(bound, move || {
        let world = World::new(wheel(slots, 2));
        let mut hand = Hand::new(&world);
        hand.schedule_detached(deadline, 0);
        let reader = {
            let world = world.clone();
            thread::spawn(move || world.scan_in(world.shard.looks(), 9))
        };
        world.turn(now);
        assert_eq!(reader.join().unwrap(), [Tick::new(deadline)]);
        world.check(now);
    });
}

#[test]
fn a_reader_finds_what_is_re_filed_as_its_bucket_opens() {
    refile_under_a_reader(1, 2, 3, 2);
}

#[test]
fn a_reader_finds_what_is_re_filed_ahead_of_time() {
    // The bucket opens at tick 4.
    refile_under_a_reader(1, 4, 5, 3);
}
