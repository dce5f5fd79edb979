//! STOP: a stop against schedule, cancel, reset, seats, turns and the making of buckets.
//!
//! Who races: one or two threads that use the shard and the one that stops it. Asserted: each
//! payload is returned by the stop, run, cancelled or refused, exactly once (the ledger's
//! account); after the stop nothing gets in; nothing leaks.

use loom_tests::{Fate, Hand, Timer, World, check, drops_are_returns, fate, has_run, wheel};
use tickless_core::doorbell::Bell;
use tickless_sync::thread;

#[test]
fn a_timer_is_returned_or_refused() {
    check(2, || {
        let world = World::new(wheel(2, 1));
        let hands = [Hand::new(&world), Hand::new(&world)];
        let producers =
            hands.map(|mut hand| thread::spawn(move || (hand.schedule_detached(1, 0), hand)));
        let returned = world.stop();
        let done = producers.map(|producer| producer.join().unwrap());
        assert_eq!(returned, done.iter().filter(|(id, _)| id.is_some()).count());
        assert_eq!(world.stop(), 0);
        for (_, mut hand) in done {
            assert!(hand.schedule_detached(1, 0).is_none());
        }
    });
}

#[test]
fn a_level_is_made_in_time_or_never() {
    check(2, || {
        let world = World::with(wheel(2, 2), Bell::None, 1);
        let hands = [Hand::new(&world), Hand::new(&world)];
        let producers =
            hands.map(|mut hand| thread::spawn(move || (hand.schedule_detached(3, 0), hand)));
        let returned = world.stop();
        let done = producers.map(|producer| producer.join().unwrap());
        assert_eq!(returned, done.iter().filter(|(id, _)| id.is_some()).count());
    });
}

#[test]
fn each_segment_of_a_level_is_made_in_time_or_never() {
    check(3, || {
        // Two segments of two buckets.
        let world = World::with(wheel(4, 1), Bell::None, 1);
        let producers = [1, 3].map(|deadline| {
            let mut hand = Hand::new(&world);
            thread::spawn(move || (hand.schedule_detached(deadline, 0), hand))
        });
        let returned = world.stop();
        let done = producers.map(|producer| producer.join().unwrap());
        assert_eq!(returned, done.iter().filter(|(id, _)| id.is_some()).count());
        for (deadline, (_, mut hand)) in [2, 1].into_iter().zip(done) {
            assert!(hand.schedule_detached(deadline, 0).is_none());
        }
    });
}

#[test]
fn a_seat_is_taken_before_the_stop_or_not_at_all() {
    check(3, || {
        let world = World::new(wheel(2, 1));
        let mut hand = Hand::new(&world);
        let timer = hand.schedule(1, 0).unwrap();
        let thread = thread::spawn(move || {
            let cancelled = hand.cancel(timer);
            (cancelled, hand.schedule(1, 0), hand)
        });
        world.stop();
        let (cancelled, timer, mut hand) = thread.join().unwrap();
        assert_eq!(fate(0), Some(if cancelled { Fate::Cancelled } else { Fate::Returned }));
        assert_eq!(fate(1), Some(if timer.is_some() { Fate::Returned } else { Fate::Refused }));
        if let Some(timer) = timer {
            hand.detach(timer);
        }
    });
}

/// Stops the world while a thread cancels a timer. Returns whether it was cancelled, and how many
/// payloads the stop returned.
fn cancel_beside_a_stop(world: &World, mut hand: Hand, timer: Option<Timer>) -> (bool, usize) {
    let thread = thread::spawn(move || (hand.cancel(timer), hand));
    let returned = world.stop();
    let (cancelled, _hand) = thread.join().unwrap();
    (cancelled, returned)
}

#[test]
fn what_is_being_cascaded_eagerly_is_returned() {
    check(2, || {
        let world = World::new(wheel(4, 2));
        let mut hand = Hand::new(&world);
        hand.schedule_detached(5, 0).unwrap();
        hand.schedule_detached(5, 0).unwrap();
        let timer = hand.schedule(5, 0);
        // A tick ahead of its time the bucket is in hand, and one entry is out of it.
        world.turn(3);
        let (cancelled, returned) = cancel_beside_a_stop(&world, hand, timer);
        assert_eq!(returned, 3 - usize::from(cancelled));
    });
}

#[test]
fn what_waits_for_a_later_round_of_its_slot_is_returned() {
    check(2, || {
        let world = World::new(wheel(2, 1));
        let mut hand = Hand::new(&world);
        hand.schedule_detached(1, 0).unwrap();
        // In the same slot, by a clock that is ahead of the shard's: the turn has to put them
        // aside. A stop that forgot them would lose the one that nobody cancels.
        hand.schedule_detached(3, 2).unwrap();
        let timer = hand.schedule(3, 2);
        world.turn(1);
        let (cancelled, returned) = cancel_beside_a_stop(&world, hand, timer);
        assert_eq!((has_run(0), returned), (true, 2 - usize::from(cancelled)));
    });
}

/// Memory that a stop lets go of in one bucket is filed in a bucket that is still open: the stop
/// has read its link before.
#[test]
fn what_a_stop_lets_go_of_is_filed_elsewhere_at_once() {
    check(2, || {
        let world = World::new(wheel(4, 1));
        world.make_levels();
        let mut hand = Hand::new(&world);
        // Two lanes: the third is pushed before the first.
        hand.schedule_detached(1, 0).unwrap();
        hand.schedule_detached(1, 0).unwrap();
        let timer = hand.schedule(1, 0).unwrap();
        let thread =
            thread::spawn(move || (hand.cancel(timer), hand.schedule_detached(3, 0), hand));
        let returned = world.stop();
        let (cancelled, moved, _hand) = thread.join().unwrap();
        assert_eq!(returned, 3 - usize::from(cancelled) + usize::from(moved.is_some()));
    });
}

/// Resets a timer to before its bucket opens, which takes a fresh entry, while the engine stops;
/// then to other times. Returns its handle, whether the stop has returned its payload, and a hand
/// of another thread than the one that reset it.
fn reset_while_it_stops() -> (Option<Timer>, bool, Hand) {
    let world = World::new(wheel(4, 2));
    let mut hand = Hand::new(&world);
    let mut timer = hand.schedule(6, 0);
    let thread = thread::spawn(move || {
        let moved = hand.reset(&mut timer, 1, 0);
        // What could not be moved cannot be moved later, wherever to.
        let again = !moved && (hand.reset(&mut timer, 9, 0) || hand.reset(&mut timer, 0, 0));
        (moved, again, timer)
    });
    let returned = world.stop();
    let (moved, again, timer) = thread.join().unwrap();
    assert!(!again && (!moved || returned == 1));
    assert_eq!(fate(0), (returned == 1).then_some(Fate::Returned));
    assert_eq!(
        world.shared.all_counters.pending(),
        0,
        "it is not counted as pending, wherever it is"
    );
    (timer, returned == 1, Hand::new(&world))
}

#[test]
fn a_reset_is_in_time_or_leaves_the_payload_in_the_handle() {
    check(3, || {
        let (timer, is_returned, mut hand) = reset_while_it_stops();
        assert_eq!(hand.cancel(timer), !is_returned);
        // Nor is it counted, or found in what the hand keeps.
        assert!(hand.schedule(6, 0).is_none());
    });
}

#[test]
fn a_payload_that_a_reset_left_in_the_handle_goes_with_it() {
    check(3, || {
        drops_are_returns();
        let (timer, _, mut hand) = reset_while_it_stops();
        hand.detach(timer);
        assert_eq!(fate(0), Some(Fate::Returned));
    });
}

#[test]
fn a_turn_is_over_before_the_stop_or_does_not_begin() {
    check(2, || {
        let world = World::new(wheel(2, 1));
        let mut hand = Hand::new(&world);
        let timer = hand.schedule(1, 0).unwrap();
        // Reads the notice.
        world.turn(0);
        let user = thread::spawn(move || {
            hand.detach(timer);
            (hand.schedule_detached(1, 0), hand)
        });
        let turner = {
            let world = world.clone();
            thread::spawn(move || world.turn(1))
        };
        world.stop();
        turner.join().unwrap();
        drop(user.join().unwrap());
    });
}

#[test]
fn what_a_turn_put_aside_is_returned() {
    check(3, || {
        let world = World::new(wheel(2, 1));
        let mut hand = Hand::new(&world);
        let timers = [(); 2].map(|()| hand.schedule(1, 0).unwrap());
        world.turn_at_most(1, 1);
        let thread = thread::spawn(move || {
            let [first, second] = timers;
            hand.detach(first);
            (hand.cancel(second), hand)
        });
        let returned = world.stop();
        let (cancelled, _hand) = thread.join().unwrap();
        let ran = [0, 1].map(has_run).into_iter().filter(|ran| *ran).count();
        assert_eq!(ran, 1);
        assert_eq!(usize::from(cancelled) + returned, 1);
    });
}

#[test]
fn a_reaper_that_is_stopped_ends_and_what_it_left_is_returned() {
    check(2, || {
        let world = World::served(wheel(2, 1));
        let reaper = world.serve_in_thread(vec![]);
        let mut hand = Hand::new(&world);
        let producer = thread::spawn(move || (hand.schedule_detached(0, 0), hand));
        let returned = world.stop();
        reaper.join().unwrap();
        let (id, _hand) = producer.join().unwrap();
        let expected = match (id, returned) {
            (None, 0) => Fate::Refused,
            (Some(_), 1) => Fate::Returned,
            _ => return,
        };
        assert_eq!(fate(0), Some(expected));
    });
}

#[test]
fn two_producers_and_a_canceller_are_in_time_or_too_late() {
    check(2, || {
        let world = World::new(wheel(2, 1));
        let [mut one, mut two, mut three] = [(); 3].map(|()| Hand::new(&world));
        let timer = three.schedule(1, 0);
        let one = thread::spawn(move || (one.schedule_detached(1, 0), one));
        let two = thread::spawn(move || (two.schedule_detached(1, 0), two));
        let canceller = thread::spawn(move || (three.cancel(timer), three));
        let returned = world.stop();
        let (cancelled, _three) = canceller.join().unwrap();
        let done = [one.join().unwrap(), two.join().unwrap()];
        let accepted = 1 + done.iter().filter(|(id, _)| id.is_some()).count();
        assert_eq!(returned + usize::from(cancelled), accepted);
    });
}
