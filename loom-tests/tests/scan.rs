//! BUCKET-READ: a reader that looks again while timers move from hands to buckets.
//!
//! Who races: a reader and the reaper, who re-files a timer as its bucket opens, or ahead of time.
//! Asserted: the reader sees a timer that is pending throughout, and once.

use loom_tests::{Hand, World, check, wheel};
use tickless::Tick;
use tickless::sync::thread;

/// What leaves a hand for a bucket where the reader has been is found when that looks again.
fn refile_under_a_reader(bound: usize, turn: fn(&World)) {
    check(bound, move || {
        let world = World::new(wheel(4, 2));
        let mut hand = Hand::new(&world);
        hand.schedule_detached(5, 0);
        let reader = {
            let world = world.clone();
            thread::spawn(move || world.scan_in(world.shard.looks(), 9))
        };
        turn(&world);
        assert_eq!(reader.join().unwrap(), [Tick::new(5)]);
        world.check(4);
    });
}

#[test]
fn a_reader_finds_what_is_re_filed_as_its_bucket_opens() {
    refile_under_a_reader(1, |world| _ = world.turn(4));
}

#[test]
fn a_reader_finds_what_is_re_filed_ahead_of_time() {
    refile_under_a_reader(1, |world| {
        world.turn_until_idle(3);
        world.turn(4);
    });
}
