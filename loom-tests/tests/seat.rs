//! SEAT: the producer of a vacancy puts the next timer into it, while the reaper unlinks it or
//! moves its neighbours.
//!
//! Who races: one thread that cancels and schedules (or two, which pass the seat through the
//! depot) and the reaper, which flushes, cascades or sweeps. Asserted: the new timer fires at
//! its own time, wherever it landed; each payload meets one fate; each entry is freed once.

use std::sync::Arc;

use loom_tests::{Fate, Hand, Timer, World, check, fate, has_run, wheel};
use tickless_sync::{AtomicUsize, Ordering, thread};

/// Cancels a timer of `first` and schedules one of `second`, while turns run at `turns`; then
/// lets time pass tick by tick, and sees that each timer fired at its time.
fn reuse_while_turning(bound: usize, first: u64, second: u64, turns: &'static [u64]) {
    check(bound, move || {
        let world = World::new(wheel(4, 2));
        let mut hand = Hand::new(&world);
        let timer = hand.schedule(first, 0).unwrap();
        let thread = thread::spawn(move || {
            let cancelled = hand.cancel(timer);
            (cancelled, hand.schedule(second, 0).unwrap(), hand)
        });
        for &turn in turns {
            world.turn(turn);
        }
        let (cancelled, timer, mut hand) = thread.join().unwrap();
        assert_eq!(fate(0) == Some(Fate::Cancelled), cancelled);
        fires_in_time(&world, &timer, second, turns[turns.len() - 1]);
        hand.detach(timer);
    });
}

/// Lets time pass from `last` on, and sees that the timer fires at `deadline`.
fn fires_in_time(world: &World, timer: &Timer, deadline: u64, last: u64) {
    world.check(last);
    for now in last..deadline {
        world.turn_until_idle(now);
        assert!(!has_run(timer.id()), "too early");
    }
    world.turn_until_idle(deadline.max(last));
    match fate(timer.id()) {
        Some(Fate::Ran(at)) => assert!(at >= deadline, "too early"),
        other => panic!("too late: {other:?}"),
    }
}

fn turn_in_thread(world: &Arc<World>, now: u64) -> thread::JoinHandle<()> {
    let world = world.clone();
    thread::spawn(move || world.turn_until_idle(now))
}

#[test]
fn a_seat_is_taken_or_unlinked_when_its_bucket_opens() {
    reuse_while_turning(3, 1, 2, &[1]);
}

#[test]
fn a_seat_is_taken_for_the_same_deadline_again() {
    reuse_while_turning(3, 1, 1, &[1]);
}

#[test]
fn a_seat_is_taken_while_its_bucket_cascades() {
    reuse_while_turning(3, 7, 5, &[4, 5]);
}

#[test]
fn a_seat_is_taken_for_the_same_deadline_while_its_bucket_cascades() {
    reuse_while_turning(3, 7, 7, &[4]);
}

#[test]
fn a_seat_is_taken_while_its_bucket_cascades_eagerly() {
    reuse_while_turning(3, 6, 5, &[3, 4]);
}

#[test]
fn a_seat_is_taken_while_its_bucket_is_swept() {
    check(3, || {
        let world = World::new(wheel(4, 1));
        let mut hand = Hand::new(&world);
        let timer = hand.schedule(1, 0).unwrap();
        let other = hand.schedule_detached(1, 0).unwrap();
        world.shard.ask_for_sweep();
        // The writer goes first: see "Who goes first" in the README.
        let reaper = turn_in_thread(&world, 0);
        assert!(hand.cancel(timer));
        let timer = hand.schedule(2, 0).unwrap();
        reaper.join().unwrap();
        world.check(0);
        world.turn_until_idle(1);
        assert!(has_run(other));
        fires_in_time(&world, &timer, 2, 1);
        hand.detach(timer);
    });
}

#[test]
fn a_seat_passes_to_another_thread_through_the_depot() {
    check(2, || {
        let world = World::new(wheel(4, 1));
        let [mut giver, mut taker] = [Hand::new(&world), Hand::new(&world)];
        let timer = giver.schedule(1, 0).unwrap();
        let giver = thread::spawn(move || {
            giver.cancel(timer);
            giver.clear();
            giver
        });
        let taker = thread::spawn(move || (taker.schedule(2, 0).unwrap(), taker));
        world.turn(1);
        let _giver = giver.join().unwrap();
        let (timer, mut taker) = taker.join().unwrap();
        fires_in_time(&world, &timer, 2, 1);
        taker.detach(timer);
    });
}

#[test]
fn two_threads_reuse_seats_in_one_bucket() {
    check(1, || {
        let world = World::new(wheel(4, 1));
        let hands = [(); 2].map(|()| Hand::provided(&world));
        let threads = hands.map(|mut hand| {
            let timer = hand.schedule(1, 0).unwrap();
            thread::spawn(move || {
                hand.cancel(timer);
                (hand.schedule(2, 0).unwrap(), hand)
            })
        });
        world.turn(1);
        let done = threads.map(|thread| thread.join().unwrap());
        world.check(1);
        world.turn_until_idle(1);
        assert!(done.iter().all(|(timer, _)| !has_run(timer.id())), "too early");
        world.turn_until_idle(2);
        for (timer, mut hand) in done {
            assert!(has_run(timer.id()), "too late");
            hand.detach(timer);
        }
    });
}

#[test]
fn seats_are_taken_while_another_files_there_and_another_cancels() {
    check(1, || {
        let world = World::new(wheel(4, 1));
        let [mut one, mut two, mut three] = [(); 3].map(|()| Hand::provided(&world));
        let [seat, timer] = [one.schedule(1, 0), three.schedule(1, 0)];
        assert!(one.cancel(seat));
        let one = thread::spawn(move || (one.schedule_detached(2, 0), one));
        let two = thread::spawn(move || (two.schedule_detached(2, 0), two));
        let canceller = thread::spawn(move || (three.cancel(timer), three));
        world.turn(1);
        let _producers = [one.join().unwrap(), two.join().unwrap()];
        let (cancelled, _three) = canceller.join().unwrap();
        assert_eq!(has_run(1), !cancelled);
        world.pass(1, 2);
    });
}

/// What a schedule or a reset keeps of the handle is there when the timer fires, in a seat or not.
#[test]
fn what_is_kept_of_a_handle_is_there_when_its_timer_fires() {
    for has_seat in [false, true] {
        check(3, move || {
            let world = World::new(wheel(4, 2));
            let mut hand = Hand::new(&world);
            if has_seat {
                let timer = hand.schedule(1, 0).unwrap();
                assert!(hand.cancel(timer));
            }
            let kept = Arc::new(AtomicUsize::new(0));
            let keeps = kept.clone();
            let thread = thread::spawn(move || {
                // ORDER: Relaxed, here and below - what fires the timer comes after it.
                let keep = || keeps.store(1, Ordering::Relaxed);
                (hand.schedule_keeping(1, 0, keep), hand)
            });
            let fired = world.turn(1).map_or(0, |report| report.fired);
            assert!(fired == 0 || kept.load(Ordering::Relaxed) == 1, "it was kept too late");
            let (timer, mut hand) = thread.join().unwrap();
            fires_in_time(&world, &timer, 1, 1);
            hand.detach(timer);
        });
    }
}

#[test]
fn what_is_kept_of_a_handle_is_there_when_its_timer_fires_at_an_earlier_time() {
    check(3, || {
        let world = World::new(wheel(4, 2));
        let mut hand = Hand::new(&world);
        let mut timer = hand.schedule(3, 0).unwrap();
        let kept = Arc::new(AtomicUsize::new(0));
        let keeps = kept.clone();
        let thread = thread::spawn(move || {
            let keep = || keeps.store(1, Ordering::Relaxed);
            hand.reset_keeping(&mut timer, 1, 0, keep);
            (timer, hand)
        });
        let fired = world.turn(1).map_or(0, |report| report.fired);
        assert!(fired == 0 || kept.load(Ordering::Relaxed) == 1, "it was kept too late");
        let (timer, mut hand) = thread.join().unwrap();
        fires_in_time(&world, &timer, 1, 1);
        hand.detach(timer);
    });
}
