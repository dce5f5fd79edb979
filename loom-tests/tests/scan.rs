//! BUCKET-READ: a reader that looks again while timers move from trays to buckets.
//!
//! Who races: a reader and the reaper, who re-files a timer as its bucket opens, or ahead of time.
//! Asserted: the reader sees a timer that is pending throughout, and once.

use loom_tests::{Hand, World, check, wheel};
use tickless_core::time::{Geometry, Tick};
use tickless_sync::thread;

/// What one of the threads does.
type Part = Box<dyn FnOnce(&World) + Send>;

/// What leaves a tray for a bucket where the reader has been is found when that looks again: a
/// turn at `now` re-files a timer once while it is read, after a turn at `before`. Who runs the
/// body goes on without a preemption, and has fenced as it began.
fn refile_under_a_reader(geometry: Geometry, [deadline, before, now]: [u64; 3], by_body: bool) {
    check(1, move || {
        let world = World::new(geometry);
        let mut hand = Hand::new(&world);
        hand.schedule_detached(deadline, 0);
        world.turn(before);
        let read = move |world: &World| assert_eq!(world.scan_in(2, 9), [Tick::new(deadline)]);
        let turn = move |world: &World| _ = world.turn(now);
        let [body, other]: [Part; 2] = [Box::new(read), Box::new(turn)];
        let (body, other) = if by_body { (body, other) } else { (other, body) };
        let there = world.clone();
        let other = thread::spawn(move || other(&there));
        body(&world);
        other.join().unwrap();
        world.check(now);
    });
}

#[test]
fn a_reader_finds_what_is_re_filed_as_its_bucket_opens() {
    refile_under_a_reader(wheel(2, 2), [3, 0, 2], true);
}

#[test]
fn a_reader_finds_what_is_re_filed_ahead_of_time() {
    // The bucket opens at tick 4.
    refile_under_a_reader(wheel(4, 2), [5, 0, 3], true);
}

#[test]
fn a_reader_finds_what_the_owner_had_filed_as_that_bucket_opens() {
    // From level 3 to level 2, where only the owner files, and from there to level 1.
    refile_under_a_reader(wheel(2, 3), [7, 4, 6], true);
}

#[test]
fn a_reader_that_comes_in_the_midst_of_it_finds_what_is_re_filed() {
    refile_under_a_reader(wheel(2, 2), [3, 0, 2], false);
}
