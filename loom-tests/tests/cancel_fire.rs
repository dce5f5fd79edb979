//! CANCEL-FIRE: a cancel and the reaper want the same payload.
//!
//! Who races: one or two cancelling threads and the reaper, also while it re-files the timer.
//! Asserted: each payload is cancelled or run, exactly once (the ledger's account), and a cancel
//! that said yes got it.

use loom_tests::{Fate, Hand, World, check, fate, has_run, wheel};
use tickless_sync::thread;

#[test]
fn a_cancel_or_the_reaper_gets_the_payload() {
    check(3, || {
        let world = World::new(wheel(2, 2));
        let mut hand = Hand::new(&world);
        let timer = hand.schedule(1, 0).unwrap();
        let canceller = thread::spawn(move || (hand.cancel(timer), hand));
        world.turn(1);
        let (cancelled, _hand) = canceller.join().unwrap();
        let expected = if cancelled { Fate::Cancelled } else { Fate::Ran(1) };
        assert_eq!(fate(0), Some(expected));
        world.check(1);
    });
}

#[test]
fn a_timer_may_be_cancelled_while_it_is_refiled() {
    check(3, || {
        let world = World::new(wheel(2, 2));
        let mut hand = Hand::new(&world);
        let timer = hand.schedule(3, 0).unwrap();
        let canceller = thread::spawn(move || (hand.cancel(timer), hand));
        world.turn(2);
        world.turn(3);
        let (cancelled, _hand) = canceller.join().unwrap();
        let expected = if cancelled { Fate::Cancelled } else { Fate::Ran(3) };
        assert_eq!(fate(0), Some(expected));
        world.check(3);
    });
}

#[test]
fn two_cancellers_in_one_bucket() {
    check(3, || {
        let world = World::new(wheel(2, 2));
        let hands = [Hand::new(&world), Hand::new(&world)];
        let cancellers = hands.map(|mut hand| {
            let timer = hand.schedule(1, 0).unwrap();
            thread::spawn(move || (timer.id(), hand.cancel(timer), hand))
        });
        world.turn(1);
        for (id, cancelled, _hand) in cancellers.map(|canceller| canceller.join().unwrap()) {
            let expected = if cancelled { Fate::Cancelled } else { Fate::Ran(1) };
            assert_eq!(fate(id), Some(expected));
        }
        world.check(1);
    });
}

#[test]
fn a_timer_is_cancelled_while_its_bucket_cascades_and_two_producers_file_there() {
    check(0, || {
        let world = World::new(wheel(2, 2));
        let [mut one, mut two, mut three] = [(); 3].map(|()| Hand::new(&world));
        let timer = three.schedule(3, 0).unwrap();
        let one = thread::spawn(move || (one.schedule_detached(3, 0), one));
        let two = thread::spawn(move || (two.schedule_detached(3, 2), two));
        let canceller = thread::spawn(move || (three.cancel(timer), three));
        world.turn(2);
        let _producers = [one.join().unwrap(), two.join().unwrap()];
        let (cancelled, _three) = canceller.join().unwrap();
        world.pass(2, 3);
        let expected = if cancelled { Fate::Cancelled } else { Fate::Ran(3) };
        assert_eq!(fate(0), Some(expected));
        assert!(has_run(1) && has_run(2));
    });
}
