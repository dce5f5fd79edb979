//! SWEEP: a thread lets go of seats and asks for a sweep; the reaper sees the request and sweeps.
//!
//! Who races: one or two threads that ask, and the reaper, asleep or in its turns. Asserted: no
//! request is slept over, and a sweep that took a request finds dead what was let go of before it.

use loom_tests::{Hand, World, check, wheel};
use tickless_core::doorbell::Bell;
use tickless_sync::thread;

#[test]
fn a_reaper_that_sleeps_is_woken_for_a_sweep() {
    check(3, || {
        let world = World::served(wheel(2, 1));
        let reaper = world.serve_in_thread(vec![]);
        world.shard.ask_for_sweep();
        // A request that the reaper sleeps over keeps this waiting for ever, which the checker
        // reports.
        while world.shard.wants_sweep() {
            thread::yield_now();
        }
        world.stop();
        reaper.join().unwrap();
    });
}

#[test]
fn a_sweep_finds_dead_what_was_let_go_of_before_it_was_asked_for() {
    check(3, || {
        // Without a depot, a seat that is given up is dead.
        let world = World::with(wheel(2, 1), Bell::None, 0);
        world.make_levels();
        let mut hand = Hand::new(&world);
        let timer = hand.schedule(1, 0).unwrap();
        assert!(hand.cancel(timer));
        let asker = thread::spawn(move || {
            hand.clear();
            hand.world().shard.ask_for_sweep();
            hand
        });
        world.turn_until_idle(0);
        let was_swept = asker.join().map(|_hand| !world.shard.wants_sweep()).unwrap();
        assert!(!was_swept || world.shared.all_counters.dead() == 0, "dead, and passed over");
        world.turn_until_idle(0);
        assert_eq!(world.shared.all_counters.dead(), 0);
    });
}

#[test]
fn of_two_who_ask_nobody_is_passed_over() {
    check(2, || {
        let world = World::with(wheel(2, 1), Bell::None, 0);
        world.make_levels();
        let askers = [(); 2].map(|()| {
            let mut hand = Hand::new(&world);
            let timer = hand.schedule(1, 0).unwrap();
            assert!(hand.cancel(timer));
            thread::spawn(move || {
                hand.clear();
                hand.world().shard.ask_for_sweep();
                hand
            })
        });
        world.turn_until_idle(0);
        let _hands = askers.map(|asker| asker.join().unwrap());
        world.turn_until_idle(0);
        assert_eq!(world.shared.all_counters.dead(), 0);
    });
}
