//! BUCKET-ARM: a producer pushes, then relies on the bucket or posts a notice and publishes;
//! the reaper stores its clock, then takes the lists; notices are read at any time.
//!
//! Who races: up to three producers and the reaper. Asserted: *coverage*. Once a producer has
//! returned, a turn at its timer's deadline fires it, wherever other producers stand; at the end
//! the agenda covers what is left.

use loom_tests::{Hand, World, check, has_run, wheel};
use tickless_sync::thread::{self, JoinHandle};

/// A producer on a thread of its own: its timer's number, and its hand, which lives on.
type Producer = JoinHandle<(usize, Hand)>;

/// Schedules a timer for `deadline` on a thread of its own, by a clock that shows `now`.
fn produce(mut hand: Hand, deadline: u64, now: u64) -> Producer {
    thread::spawn(move || (hand.schedule_detached(deadline, now).unwrap(), hand))
}

/// The producer has returned: the turn at `now` covers its timer, which is due by then.
#[track_caller]
fn assert_covered(world: &World, producer: Producer, now: u64) -> Hand {
    let (id, hand) = producer.join().unwrap();
    world.turn(now);
    assert!(has_run(id));
    hand
}

#[test]
fn a_push_that_a_flush_missed_is_announced_anew() {
    check(3, || {
        let world = World::new(wheel(2, 2));
        let mut hand = Hand::new(&world);
        // Armed by the first timer, on one lane; the second timer goes to the other lane.
        let first = hand.schedule_detached(1, 0).unwrap();
        let producer = produce(hand, 1, 0);
        world.turn(1);
        let _hand = assert_covered(&world, producer, 1);
        assert!(has_run(first));
        world.check(1);
    });
}

#[test]
fn a_producer_that_relies_on_anothers_arming_is_covered_by_it() {
    check(3, || {
        let world = World::new(wheel(2, 1));
        let [one, two] = [Hand::new(&world), Hand::new(&world)];
        let one = produce(one, 1, 0);
        let two = produce(two, 1, 0);
        // The first producer may stand anywhere.
        let _two = assert_covered(&world, two, 1);
        let _one = assert_covered(&world, one, 1);
        world.check(1);
    });
}

#[test]
fn two_producers_and_a_flush_lose_no_timer() {
    check(2, || {
        let world = World::new(wheel(2, 1));
        let [one, two] = [(); 2].map(|()| Hand::provided(&world));
        let one = produce(one, 1, 0);
        let two = produce(two, 1, 0);
        world.turn(1);
        let _two = assert_covered(&world, two, 1);
        let _one = assert_covered(&world, one, 1);
        world.check(1);
    });
}

#[test]
fn a_slot_may_hold_two_rounds() {
    check(2, || {
        let world = World::new(wheel(2, 1));
        let [one, two] = [(); 2].map(|()| Hand::provided(&world));
        // Ticks 1 and 3 share a slot; the second producer's clock is ahead of the shard's.
        let one = produce(one, 1, 0);
        let two = produce(two, 3, 2);
        world.turn(1);
        let _one = assert_covered(&world, one, 1);
        let (late, _two) = two.join().unwrap();
        world.turn(2);
        assert!(!has_run(late));
        world.check(2);
        world.turn(3);
        assert!(has_run(late));
    });
}

#[test]
fn a_late_publication_makes_nobody_rely_on_nothing() {
    check(3, || {
        let world = World::new(wheel(2, 1));
        let [one, mut two] = [Hand::new(&world), Hand::new(&world)];
        let one = produce(one, 1, 0);
        world.turn(1);
        // The first producer may be about to publish what was flushed already.
        let id = two.schedule_detached(1, 0).unwrap();
        world.turn(1);
        assert!(has_run(id));
        let _one = assert_covered(&world, one, 1);
        world.check(1);
    });
}

#[test]
fn three_producers_in_two_rounds() {
    check(0, || {
        let world = World::new(wheel(2, 1));
        let [one, two, mut three] = [(); 3].map(|()| Hand::provided(&world));
        let one = produce(one, 1, 0);
        let two = produce(two, 3, 2);
        world.turn(1);
        let id = three.schedule_detached(3, 2).unwrap();
        world.turn(3);
        assert!(has_run(id));
        let _two = assert_covered(&world, two, 3);
        let _one = assert_covered(&world, one, 3);
        world.check(3);
    });
}

#[test]
fn producers_may_rely_on_what_a_cascade_armed() {
    check(3, || {
        let world = World::new(wheel(2, 2));
        let mut hand = Hand::new(&world);
        // Filed on level 2; the turn at 2 files it on level 1 and arms that bucket.
        let first = hand.schedule_detached(3, 0).unwrap();
        let producer = produce(hand, 3, 2);
        world.turn(2);
        assert!(!has_run(first));
        world.turn(3);
        assert!(has_run(first));
        let _hand = assert_covered(&world, producer, 3);
        world.check(3);
    });
}

/// Each of the two would pass level 2. Both may find the bucket of level 1 free, which then has two
/// rounds.
#[test]
fn few_timers_that_are_filed_for_their_own_deadlines_fire_there() {
    check(1, || {
        let world = World::of_few(wheel(2, 3));
        let [one, two] = [(); 2].map(|()| Hand::provided(&world));
        let one = produce(one, 3, 0);
        let two = produce(two, 5, 0);
        world.turn(3);
        let _one = assert_covered(&world, one, 3);
        let (late, _two) = two.join().unwrap();
        assert!(!has_run(late));
        world.pass(3, 5);
        assert!(has_run(late));
    });
}

#[test]
fn two_producers_file_where_a_timer_is_cancelled_and_the_bucket_opens() {
    check(0, || {
        let world = World::new(wheel(2, 1));
        let [one, two, mut three] = [(); 3].map(|()| Hand::provided(&world));
        let timer = three.schedule(1, 0).unwrap();
        let one = produce(one, 1, 0);
        let two = produce(two, 3, 2);
        let canceller = thread::spawn(move || (three.cancel(timer), three));
        world.turn(1);
        let _one = assert_covered(&world, one, 1);
        let (cancelled, _three) = canceller.join().unwrap();
        assert_eq!(has_run(0), !cancelled);
        let (late, _two) = two.join().unwrap();
        world.pass(1, 3);
        assert!(has_run(late));
    });
}
