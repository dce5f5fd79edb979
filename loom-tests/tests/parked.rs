//! A bucket that is parked while another opens: its entries are in a tray, and the owner comes back
//! to it. (BUCKET-READ, CANCEL-FIRE, RESET-FIRE, SEAT and STOP, where two due buckets are open at a
//! time. Under the checkers, one entry is a share.)
//!
//! Who races: the reaper, who parks a bucket and goes on with it, and a thread that cancels, moves,
//! takes a seat, files, reads or stops there, or takes the shard over. Asserted: each payload meets
//! one fate, none is early or lost, what is parked fires in the next turns, and a reader sees it
//! throughout.

use std::sync::Arc;

use loom_tests::{Fate, Hand, Timer, World, check, fate, has_run, on_thread, wheel};
use tickless_core::time::Tick;
use tickless_sync::thread;

/// Two timers of tick 1, of which the second is in the open bucket's tray, and one of tick 2, which
/// parks it in the next turn at 2. Both are the timers of the hand that comes with them.
fn crowded() -> (Arc<World>, Hand, [Timer; 2]) {
    let world = World::of_crowds(wheel(4, 1));
    // On one lane: what was filed last is first.
    let [mut one, mut two] = [Hand::new(&world), Hand::new(&world)];
    let second = one.schedule(1, 0).unwrap();
    two.schedule_detached(1, 0).unwrap();
    let other = one.schedule(2, 0).unwrap();
    world.turn_at_most(1, 1);
    assert!(has_run(1) && !has_run(second.id()), "one of two");
    (world, one, [second, other])
}

/// The reaper lets the bucket of tick 2 pass the rest of that of tick 1, and comes back.
fn pass(world: &World) {
    world.turn_at_most(2, 1);
    world.turn_at_most(2, 1);
}

#[test]
fn what_is_parked_is_passed_and_fires_with_its_handle_or_without() {
    check(3, || {
        let (world, mut hand, timers) = crowded();
        let [second, other] = [timers[0].id(), timers[1].id()];
        let holder = thread::spawn(move || timers.into_iter().for_each(|timer| hand.detach(timer)));
        let report = world.turn_at_most(2, 1).unwrap();
        assert!(has_run(other) && !has_run(second), "it was passed");
        assert!(report.busy, "what is parked is due");
        world.turn_at_most(2, 1);
        assert!(has_run(second));
        holder.join().unwrap();
        world.check(2);
    });
}

#[test]
fn what_is_parked_is_cancelled_or_fires() {
    check(3, || {
        let (world, mut hand, [second, other]) = crowded();
        let id = second.id();
        let canceller = thread::spawn(move || (hand.cancel(second), hand));
        pass(&world);
        let (cancelled, mut hand) = canceller.join().unwrap();
        world.pass(2, 2);
        assert_eq!(fate(id) == Some(Fate::Cancelled), cancelled);
        assert!(cancelled || has_run(id));
        hand.detach(other);
    });
}

#[test]
fn what_is_parked_is_moved_or_fires() {
    check(3, || {
        let (world, mut hand, [second, other]) = crowded();
        let id = second.id();
        let mut timer = Some(second);
        let mover = thread::spawn(move || (hand.reset(&mut timer, 4, 1), timer, hand));
        pass(&world);
        let (moved, timer, mut hand) = mover.join().unwrap();
        assert!(!moved || !has_run(id), "too early");
        world.pass(2, 4);
        assert!(has_run(id));
        hand.detach(timer);
        hand.detach(other);
    });
}

/// The bucket of tick 1 is open, and the timer that was filed first is its last. A thread makes
/// that one due at 3, by a seat or by a reset, while the owner turns: if that ends before a turn at
/// 3 begins, it fires in this turn, which looks at one entry.
fn passes(leave: fn(&mut Hand, Timer) -> Timer) {
    check(3, move || {
        let world = World::of_crowds(wheel(4, 1));
        let [mut one, mut two] = [Hand::new(&world), Hand::new(&world)];
        let last = one.schedule(1, 0).unwrap();
        (0..2).for_each(|_| _ = two.schedule_detached(1, 0).unwrap());
        world.turn_at_most(1, 1);
        let mover = thread::spawn(move || (leave(&mut one, last), one));
        world.turn_at_most(1, 0);
        let (timer, mut one) = mover.join().unwrap();
        world.turn_at_most(3, 1);
        assert!(has_run(timer.id()), "it waits for the crowd");
        world.pass(3, 3);
        one.detach(timer);
    });
}

#[test]
fn what_is_scheduled_beside_a_crowd_does_not_wait_for_it() {
    passes(|hand, last| {
        assert!(hand.cancel(last));
        hand.schedule(3, 1).unwrap()
    });
}

#[test]
fn what_is_moved_out_of_a_crowd_does_not_wait_for_it() {
    passes(|hand, last| {
        let mut timer = Some(last);
        assert!(hand.reset(&mut timer, 3, 1));
        timer.unwrap()
    });
}

#[test]
fn a_seat_in_a_parked_bucket_is_taken_or_unlinked() {
    check(3, || {
        let (world, mut hand, [second, other]) = crowded();
        let (id, cancelled) = (second.id(), fate);
        let producer = thread::spawn(move || {
            let cancelled = hand.cancel(second);
            (cancelled, hand.schedule(3, 1).unwrap(), hand)
        });
        pass(&world);
        let (was_cancelled, timer, mut hand) = producer.join().unwrap();
        assert_eq!(cancelled(id) == Some(Fate::Cancelled), was_cancelled);
        world.turn_until_idle(2);
        assert!(!has_run(timer.id()), "too early");
        world.pass(2, 3);
        assert!(has_run(timer.id()));
        [timer, other].into_iter().for_each(|timer| hand.detach(timer));
    });
}

#[test]
fn a_timer_for_a_parked_bucket_is_filed_and_fires() {
    check(2, || {
        let (world, mut hand, [second, other]) = crowded();
        let producer = thread::spawn(move || (hand.schedule_detached(1, 0).unwrap(), hand));
        pass(&world);
        let (id, mut hand) = producer.join().unwrap();
        world.pass(2, 2);
        assert!(has_run(id) && has_run(second.id()));
        [second, other].into_iter().for_each(|timer| hand.detach(timer));
    });
}

#[test]
fn what_is_parked_is_returned_by_a_stop() {
    check(3, || {
        let (world, mut hand, [second, other]) = crowded();
        world.turn_at_most(2, 1);
        let (id, is_passed) = (second.id(), has_run(other.id()));
        let canceller = thread::spawn(move || (hand.cancel(second), hand));
        let returned = world.stop();
        let (cancelled, mut hand) = canceller.join().unwrap();
        assert!(is_passed && returned + usize::from(cancelled) == 1);
        assert_eq!(fate(id), Some(if cancelled { Fate::Cancelled } else { Fate::Returned }));
        hand.detach(other);
    });
}

#[test]
fn a_stop_meets_a_bucket_that_is_being_parked() {
    check(1, || {
        let (world, mut hand, [second, other]) = crowded();
        let stopper = {
            let world = world.clone();
            thread::spawn(move || world.stop())
        };
        pass(&world);
        let returned = stopper.join().unwrap();
        let ran = [&second, &other].into_iter().filter(|timer| has_run(timer.id())).count();
        assert_eq!(ran + returned, 2);
        [second, other].into_iter().for_each(|timer| hand.detach(timer));
    });
}

#[test]
fn who_takes_the_shard_over_goes_on_with_what_is_parked() {
    check(2, || {
        let (world, mut hand, [second, other]) = crowded();
        let taker = on_thread(&world, |world| world.take_over(2));
        world.turn_at_most(2, 1);
        let taken_over = taker.join().unwrap();
        assert!(taken_over.is_none_or(|_| has_run(second.id())), "its turn has no bound");
        world.pass(2, 2);
        assert!([&second, &other].into_iter().all(|timer| has_run(timer.id())));
        [second, other].into_iter().for_each(|timer| hand.detach(timer));
    });
}

/// The reader looks once, and the timer stays in its tray: it sees it, whichever tray that is.
#[test]
fn a_reader_finds_what_is_parked_while_another_bucket_opens() {
    check(1, || {
        let (world, mut hand, [second, other]) = crowded();
        let served = world.clone();
        let reader = thread::spawn(move || served.scan(9));
        world.turn_at_most(2, 1);
        let found = reader.join().unwrap();
        assert_eq!(found.iter().filter(|&&due| due == Tick::new(1)).count(), 1, "{found:?}");
        assert!(has_run(other.id()) && !has_run(second.id()));
        [second, other].into_iter().for_each(|timer| hand.detach(timer));
    });
}

/// The other bucket has three timers: two of them are left, in a tray that was made when the first
/// bucket was parked, perhaps after the reader came.
#[test]
fn a_reader_finds_what_is_taken_into_a_tray_that_is_new() {
    check(0, || {
        let (world, mut hand, [second, other]) = crowded();
        let [third, fourth] = [hand.schedule(2, 1).unwrap(), hand.schedule(2, 1).unwrap()];
        let served = world.clone();
        let reader = thread::spawn(move || served.scan(9));
        world.turn_at_most(2, 1);
        let found = reader.join().unwrap();
        let lasting = [&other, &third, &fourth].into_iter();
        let lasting = lasting.filter(|timer| !has_run(timer.id())).count();
        let found_of_two = found.iter().filter(|&&due| due == Tick::new(2)).count();
        assert!((lasting..=3).contains(&found_of_two), "{found:?} of {lasting}");
        assert_eq!(found.iter().filter(|&&due| due == Tick::new(1)).count(), 1, "{found:?}");
        world.check(2);
        [second, other, third, fourth].into_iter().for_each(|timer| hand.detach(timer));
    });
}

/// The bucket of level 2 from 4 on is parked with one timer left, and goes on before that is due.
#[test]
fn what_is_left_of_a_parked_cascade_is_seen_from_the_present() {
    check(2, || {
        let world = World::of_crowds(wheel(4, 2));
        // On one lane: what was filed last is first.
        let [mut one, mut two] = [Hand::new(&world), Hand::new(&world)];
        let last = one.schedule(7, 0).unwrap();
        let first = two.schedule(4, 0).unwrap();
        world.turn_at_most(4, 1);
        assert!(has_run(first.id()) && !has_run(last.id()), "one of two");
        let other = two.schedule(5, 4).unwrap();
        let id = last.id();
        let canceller = thread::spawn(move || (one.cancel(last), one));
        (0..2).for_each(|_| _ = world.turn_at_most(5, 1));
        assert!(has_run(other.id()), "it was passed");
        let (cancelled, _one) = canceller.join().unwrap();
        world.pass(5, 7);
        assert_eq!(fate(id) == Some(Fate::Cancelled), cancelled);
        [first, other].into_iter().for_each(|timer| two.detach(timer));
    });
}
