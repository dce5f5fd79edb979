//! BUCKET-READ: a reader that looks again while timers move from trays to buckets.
//!
//! Who races: a reader and the reaper, who re-files a timer as its bucket opens, or ahead of time.
//! Asserted: the reader sees a timer that is pending throughout, and once.

use loom_tests::{Hand, World, check, wheel};
use tickless_core::sync::thread;
use tickless_core::time::{Geometry, Tick};

/// What leaves a tray for a bucket where the reader has been is found when that looks again: a
/// turn at `now` re-files a timer once while it is read, after a turn at `before`.
fn refile_under_a_reader(geometry: Geometry, deadline: u64, before: u64, now: u64) {
    check(1, move || {
        let world = World::new(geometry);
        let mut hand = Hand::new(&world);
        hand.schedule_detached(deadline, 0);
        world.turn(before);
        // The reader runs the body: it reads old values though it has fenced as it began.
        let reaper = {
            let world = world.clone();
            thread::spawn(move || world.turn(now))
        };
        assert_eq!(world.scan_in(2, 9), [Tick::new(deadline)]);
        reaper.join().unwrap();
        world.check(now);
    });
}

#[test]
fn a_reader_finds_what_is_re_filed_as_its_bucket_opens() {
    refile_under_a_reader(wheel(2, 2), 3, 0, 2);
}

#[test]
fn a_reader_finds_what_is_re_filed_ahead_of_time() {
    // The bucket opens at tick 4.
    refile_under_a_reader(wheel(4, 2), 5, 0, 3);
}

#[test]
fn a_reader_finds_what_the_owner_had_filed_as_that_bucket_opens() {
    // From level 3 to level 2, where only the owner files, and from there to level 1.
    refile_under_a_reader(wheel(2, 3), 7, 4, 6);
}
