//! RESET-FIRE: a reset against the reaper that fires or re-files the timer.
//!
//! Who races: one or two resetting threads and the reaper. Asserted: after a reset that said
//! yes the timer fires at the new time, neither earlier (the ledger's account) nor later (the
//! turn at that time).

use loom_tests::{Fate, Hand, World, check, fate, has_run, wheel};
use tickless_core::doorbell::Bell;
use tickless_sync::thread;

/// Resets a timer of `deadline` to `to` on a thread whose clock shows `now`, while turns run at
/// `turns`, of which none reaches the later of both.
fn reset_while_turning(bound: usize, deadline: u64, to: u64, now: u64, turns: &'static [u64]) {
    check(bound, move || {
        let world = World::new(wheel(4, 2));
        let mut hand = Hand::new(&world);
        let mut timer = hand.schedule(deadline, 0);
        let thread = thread::spawn(move || (hand.reset(&mut timer, to, now), timer, hand));
        for &turn in turns {
            world.turn(turn);
        }
        let (moved, timer, mut hand) = thread.join().unwrap();
        let due = if moved { to } else { deadline };
        let last = turns[turns.len() - 1];
        world.check(last);
        if due > last {
            world.turn_until_idle(due - 1);
            assert!(!has_run(0), "too early");
        }
        world.turn_until_idle(due.max(last));
        assert!(has_run(0), "too late");
        hand.detach(timer.unwrap());
    });
}

#[test]
fn to_a_later_time_while_it_fires() {
    reset_while_turning(3, 1, 3, 0, &[1]);
}

#[test]
fn to_a_later_time_while_it_fires_and_the_slot_comes_round() {
    reset_while_turning(3, 1, 5, 1, &[1, 2]);
}

/// Level 2 opens at 4 and the timer moves to the bucket of 7. A reset to 5 that read the old
/// place must not succeed once it has moved.
#[test]
fn to_an_earlier_time_of_the_same_bucket_while_it_cascades() {
    reset_while_turning(3, 7, 5, 4, &[4]);
}

#[test]
fn to_an_earlier_time_of_the_same_bucket_while_it_cascades_eagerly() {
    reset_while_turning(3, 5, 4, 3, &[3]);
}

#[test]
fn to_before_its_bucket_opens_which_takes_a_fresh_entry() {
    reset_while_turning(3, 6, 2, 0, &[4]);
}

#[test]
fn to_and_fro() {
    check(3, || {
        let world = World::new(wheel(4, 2));
        let mut hand = Hand::new(&world);
        let mut timer = hand.schedule(2, 0);
        let thread = thread::spawn(move || {
            let there = hand.reset(&mut timer, 3, 1);
            let back = there && hand.reset(&mut timer, 2, 1);
            (there, back, timer, hand)
        });
        world.turn(2);
        let (there, back, timer, mut hand) = thread.join().unwrap();
        world.check(2);
        world.turn(2);
        assert_eq!(has_run(0), !there || back);
        world.turn(3);
        assert!(has_run(0));
        hand.detach(timer.unwrap());
    });
}

#[test]
fn two_timers_of_one_bucket() {
    check(0, || {
        // With room in the depots, the model is not about what exceeds it.
        let world = World::with(wheel(4, 2), Bell::None, 4);
        world.make_levels();
        let hands = [Hand::new(&world), Hand::new(&world)];
        let threads = hands.map(|mut hand| {
            let mut timer = hand.schedule(7, 0);
            thread::spawn(move || (hand.reset(&mut timer, 5, 4), timer, hand))
        });
        world.turn(4);
        let done = threads.map(|thread| thread.join().unwrap());
        world.check(4);
        world.turn_until_idle(5);
        for (moved, timer, mut hand) in done {
            assert!(moved);
            assert_eq!(fate(timer.as_ref().unwrap().id()), Some(Fate::Ran(5)));
            hand.detach(timer.unwrap());
        }
    });
}

#[test]
fn one_timer_moves_and_another_is_cancelled_while_two_producers_file_there() {
    check(0, || {
        let world = World::new(wheel(4, 1));
        let [mut one, mut two, mut three] = [(); 3].map(|()| Hand::new(&world));
        let (mut moving, going) = (one.schedule(1, 0), three.schedule(1, 0));
        let one = thread::spawn(move || {
            let moved = one.reset(&mut moving, 3, 0);
            (moved, moving, one.schedule_detached(1, 0), one)
        });
        let two = thread::spawn(move || (two.schedule_detached(1, 0), two));
        let canceller = thread::spawn(move || (three.cancel(going), three));
        world.turn(1);
        let (moved, timer, _, mut one) = one.join().unwrap();
        let (cancelled, _three) = canceller.join().unwrap();
        let _two = two.join().unwrap();
        world.turn_until_idle(1);
        assert_eq!(has_run(0), !moved);
        assert_eq!(has_run(1), !cancelled);
        world.pass(1, 3);
        one.detach(timer);
    });
}
