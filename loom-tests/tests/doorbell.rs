//! DOORBELL: the reaper publishes when it wakes, looks at the notices, and parks; a producer
//! posts a notice, reads when the reaper wakes, and rings.
//!
//! Who races: one or two producers and the reaper, which is the model's first thread and sleeps
//! for ever unless it is rung. Asserted: no wake-up is lost; one that were would leave all
//! threads blocked, which the checker reports as a deadlock.
#![cfg(loom)]

use std::sync::Arc;

use loom::thread;
use loom_tests::{Hand, World, check, wheel};
use tickless::doorbell::Bell;
use tickless::sync::{AtomicBool, Ordering};

/// A world whose bell wakes the calling thread.
fn world() -> Arc<World> {
    let world = World::with(wheel(2, 2), Bell::Thread(Default::default()), 1);
    world.shard.doorbell().answered_by(thread::current());
    world.make_levels();
    world
}

#[test]
fn a_reaper_with_nothing_to_wait_for_is_woken() {
    check(3, || {
        let world = world();
        let mut hand = Hand::new(&world);
        let producer = thread::spawn(move || (hand.schedule_detached(0, 0), hand));
        world.serve(1, &AtomicBool::new(false));
        drop(producer.join().unwrap());
    });
}

#[test]
fn a_reaper_that_would_sleep_too_long_is_woken() {
    check(3, || {
        let world = world();
        let mut hand = Hand::new(&world);
        hand.schedule_detached(3, 0);
        let producer = thread::spawn(move || (hand.schedule_detached(0, 0), hand));
        world.serve(1, &AtomicBool::new(false));
        drop(producer.join().unwrap());
    });
}

#[test]
fn of_two_producers_at_least_the_earlier_one_rings() {
    check(3, || {
        let world = world();
        let [mut near, mut far] = [Hand::new(&world), Hand::new(&world)];
        let near = thread::spawn(move || (near.schedule_detached(0, 0), near));
        // Not due while the model lasts: it may ring, and that must not hide the other.
        let far = thread::spawn(move || (far.schedule_detached(1, 0), far));
        world.serve(1, &AtomicBool::new(false));
        drop((near.join().unwrap(), far.join().unwrap()));
    });
}

#[test]
fn both_of_two_producers_are_heard() {
    check(2, || {
        let world = world();
        let hands = [Hand::new(&world), Hand::new(&world)];
        let producers =
            hands.map(|mut hand| thread::spawn(move || (hand.schedule_detached(0, 0), hand)));
        world.serve(2, &AtomicBool::new(false));
        drop(producers.map(|producer| producer.join().unwrap()));
    });
}

#[test]
fn a_reaper_that_sleeps_is_woken_for_a_sweep_and_for_the_end() {
    check(3, || {
        let world = world();
        let stopping = Arc::new(AtomicBool::new(false));
        let other = {
            let (world, stopping) = (world.clone(), stopping.clone());
            thread::spawn(move || {
                world.shard.ask_for_sweep();
                stopping.store(true, Ordering::Release);
                world.shard.doorbell().ring();
            })
        };
        world.serve(usize::MAX, &stopping);
        other.join().unwrap();
    });
}
