//! DOORBELL, where the reaper waits in user space: it counts as awake, so nobody rings it, and it
//! looks for itself whether there is something to do.
//!
//! Who races: one or two producers, a thread that asks for a sweep and stops, and the reaper, which
//! runs the loop of the engine's threads. It waits for a far timer, whose time does not come while
//! the model lasts. Asserted: it finds what is posted meanwhile. A reaper that did not would wait
//! for ever, which the checker reports.

use loom_tests::{Hand, World, check, wheel};
use tickless_sync::thread;

#[test]
fn a_reaper_that_waits_in_user_space_finds_what_it_is_not_rung_for() {
    check(3, || {
        let world = World::served(wheel(2, 2));
        let mut hand = Hand::new(&world);
        hand.schedule_detached(3, 0);
        let reaper = world.spin_in_thread(vec![0]);
        let producer = thread::spawn(move || (hand.schedule_detached(0, 0), hand));
        reaper.join().unwrap();
        drop(producer.join().unwrap());
    });
}

#[test]
fn a_reaper_that_waits_in_user_space_finds_both_of_two_producers() {
    check(1, || {
        let world = World::served(wheel(2, 2));
        let [mut one, mut two] = [(); 2].map(|()| Hand::new(&world));
        one.schedule_detached(3, 0);
        let reaper = world.spin_in_thread(vec![0, 0]);
        let one = thread::spawn(move || (one.schedule_detached(0, 0), one));
        let two = thread::spawn(move || (two.schedule_detached(0, 0), two));
        reaper.join().unwrap();
        drop((one.join().unwrap(), two.join().unwrap()));
    });
}

#[test]
fn a_reaper_that_waits_in_user_space_sweeps_and_ends() {
    check(2, || {
        let world = World::served(wheel(2, 2));
        Hand::new(&world).schedule_detached(3, 0);
        let reaper = world.spin_in_thread(vec![]);
        world.shard.ask_for_sweep();
        while world.shard.wants_sweep() {
            thread::yield_now();
        }
        world.stop();
        reaper.join().unwrap();
    });
}
