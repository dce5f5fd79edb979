//! Many threads at once: bodies that are too big for the model checker, for the random scheduler
//! and for threads of the system.
//!
//! Who races: four to eight threads that each do many things, and the reaper's whole turns or its
//! thread. Asserted: what the promises say. Each payload meets one fate and no timer fires early
//! (the ledger's account); once all threads have returned, what is due ends and what is not yet
//! due fires on its tick; the shard's own check finds every invariant in place.
#![cfg(not(loom))]

use std::sync::Arc;

use loom_tests::{Hand, TOO_BIG, Timer, World, check, fate, wheel};
use tickless_core::doorbell::Bell;
use tickless_sync::{JoinHandle, Mutex, thread};

/// One of a crowd: comes, goes, moves, takes its own seats, and leaves timers behind. Its clock
/// stands still, as that of a thread that is slow.
fn bustle(hand: &mut Hand, number: u64) {
    let (near, far) = (1 + number % 3, 6 + number % 5);
    let first = hand.schedule(near, 0);
    hand.schedule_detached(near, 0);
    let mut second = hand.schedule(far, 0);
    hand.cancel(first);
    let third = hand.schedule(near + 1, 0);
    hand.reset(&mut second, far + 2, 0);
    hand.reset(&mut second, near, 0);
    if number % 2 == 0 {
        hand.detach(third);
    } else {
        hand.cancel(third);
    }
    hand.detach_or_cancel(second);
}

/// Lets `users` threads do `what`, each with a hand of its own and its number.
fn crowd(
    world: &Arc<World>,
    users: u64,
    what: impl Fn(&mut Hand, u64) + Clone + Send + 'static,
) -> Vec<JoinHandle<()>> {
    let user = |number| {
        let (mut hand, what) = (Hand::new(world), what.clone());
        thread::spawn(move || what(&mut hand, number))
    };
    (0..users).map(user).collect()
}

fn join(threads: Vec<JoinHandle<()>>) {
    threads.into_iter().for_each(|thread| thread.join().unwrap());
}

#[test]
fn many_come_and_go_while_the_reaper_turns() {
    check(TOO_BIG, || {
        let world = World::new(wheel(4, 2));
        let users = crowd(&world, 8, bustle);
        world.turn_at(0..=4);
        join(users);
        world.pass(4, 16);
    });
}

/// Filed four levels up, moved between them, and met by turns that are late by some ticks.
#[test]
fn timers_cascade_over_four_levels_while_they_are_moved_and_cancelled() {
    check(TOO_BIG, || {
        let world = World::new(wheel(2, 4));
        let users = crowd(&world, 4, |hand, number| {
            let far = 9 + number;
            let [mut one, mut two] = [far, far + 1].map(|deadline| hand.schedule(deadline, 0));
            hand.schedule_detached(far, 0);
            hand.reset(&mut one, 5, 0);
            hand.reset(&mut two, 14, 0);
            hand.cancel(one);
            hand.schedule_detached(far + 1, 0);
            hand.detach(two);
        });
        world.turn_at([1, 4, 6, 9]);
        join(users);
        world.pass(9, 16);
    });
}

/// Without depots, seats that are given up are dead, and memory goes back to the allocator.
#[test]
fn shards_are_swept_while_a_crowd_leaves_dead_entries() {
    check(TOO_BIG, || {
        let world = World::with(wheel(4, 2), Bell::None, 0);
        let users = crowd(&world, 5, |hand, number| {
            let timers = [2, 3, 7].map(|deadline| hand.schedule(deadline + number % 2, 0).unwrap());
            assert!(timers.into_iter().all(|timer| hand.cancel(timer)), "none is due");
            hand.clear();
            hand.schedule_detached(4, 0);
        });
        for now in [0, 0, 0, 1] {
            world.shard.ask_for_sweep();
            world.turn_until_idle(now);
        }
        join(users);
        world.pass(1, 8);
    });
}

#[test]
fn a_crowd_is_stopped_in_the_middle_of_a_turn() {
    check(TOO_BIG, || {
        let world = World::with(wheel(4, 3), Bell::None, 1);
        let users = crowd(&world, 6, bustle);
        let reaper = {
            let world = world.clone();
            thread::spawn(move || world.turn_at(1..=3))
        };
        world.stop();
        assert_eq!(world.stop(), 0);
        reaper.join().unwrap();
        join(users);
        assert!(Hand::new(&world).schedule(1, 0).is_none());
    });
}

/// The reaper sleeps for ever unless it is rung: a wake-up that is lost leaves all others waiting.
#[test]
fn a_reaper_that_sleeps_hears_each_of_a_crowd() {
    check(TOO_BIG, || {
        let world = World::served(wheel(4, 2));
        world.advance(1);
        let reaper = world.serve_in_thread(vec![1; 5]);
        let users = crowd(&world, 5, |hand, number| {
            let far = hand.schedule(9 + number, 1).unwrap();
            hand.cancel(far);
            // Its seat opens too late for this one.
            hand.schedule_detached(1, 1);
        });
        reaper.join().unwrap();
        join(users);
        world.pass(1, 1);
    });
}

#[test]
fn time_moves_on_while_a_reaper_serves_a_crowd_and_is_stopped() {
    check(TOO_BIG, || {
        let world = World::served(wheel(4, 2));
        let reaper = world.serve_in_thread(vec![]);
        let users = crowd(&world, 4, bustle);
        (0..3).for_each(|_| world.advance(2));
        world.stop();
        reaper.join().unwrap();
        join(users);
    });
}

/// Half of the threads cancel and leave, and the others schedule: seats and memory pass through
/// the depot, to threads that begin while others end.
#[test]
fn seats_and_memory_pass_from_threads_that_end_to_threads_that_begin() {
    check(TOO_BIG, || {
        let world = World::new(wheel(4, 2));
        let givers = crowd(&world, 3, |hand, number| {
            let timers = [1, 2, 3, 5, 6].map(|deadline| hand.schedule(deadline, 0).unwrap());
            timers.into_iter().for_each(|timer| _ = hand.cancel(timer));
            if number == 0 {
                hand.clear();
                hand.schedule_detached(6, 0);
            }
        });
        let takers = {
            let world = world.clone();
            move || {
                let mut hand = Hand::new(&world);
                for deadline in 4..8 {
                    hand.schedule_detached(deadline, 0).unwrap();
                }
            }
        };
        let takers = [(); 3].map(|()| thread::spawn(takers.clone()));
        world.turn_at(0..=2);
        join(givers);
        join(takers.into());
        world.pass(2, 8);
    });
}

/// Handles go from hand to hand: who cancels, moves or drops one need not have made it.
#[test]
fn handles_are_used_on_other_threads() {
    check(TOO_BIG, || {
        let world = World::new(wheel(4, 2));
        let fair: Arc<Mutex<Vec<Timer>>> = Arc::default();
        let stall = fair.clone();
        let users = crowd(&world, 6, move |hand, number| {
            let brought = [2 + number % 3, 7].map(|deadline| hand.schedule(deadline, 0).unwrap());
            stall.lock().unwrap().extend(brought);
            for step in 0..2 {
                // In a statement of its own: nobody holds the lock while others are let go on.
                let bought = stall.lock().unwrap().pop();
                let Some(timer) = bought else { return };
                let (mut timer, to) = (Some(timer), [8, 3][step]);
                hand.reset(&mut timer, to, 0);
                match (number as usize + step) % 3 {
                    0 => stall.lock().unwrap().extend(timer),
                    1 => _ = hand.cancel(timer),
                    _ => hand.detach(timer),
                }
            }
        });
        world.turn_at(0..=3);
        join(users);
        world.pass(3, 8);
        let mut hand = Hand::new(&world);
        fair.lock().unwrap().drain(..).for_each(|timer| hand.detach(timer));
    });
}

/// The limit holds at any time, and in the end all room is back.
#[test]
fn no_more_timers_than_the_limit_are_pending() {
    const MAX: usize = 1;
    check(TOO_BIG, || {
        let world = World::limited(wheel(4, 2), MAX as u64);
        let held = Arc::new(Mutex::new(0));
        let users = {
            let held = held.clone();
            crowd(&world, 5, move |hand, number| {
                for deadline in [5, 6, 7, 7 + number] {
                    let Some(timer) = hand.schedule(deadline, 0) else { continue };
                    // Counted from after it was scheduled until before it is cancelled.
                    *held.lock().unwrap() += 1;
                    thread::yield_now();
                    assert!(*held.lock().unwrap() <= MAX, "more than the limit");
                    *held.lock().unwrap() -= 1;
                    assert!(hand.cancel(timer));
                }
            })
        };
        world.turn_at(1..=2);
        join(users);
        all_room_is_back(&world, 2, MAX);
        world.pass(2, 12);
    });
}

#[test]
fn all_room_comes_back_whatever_ends_a_timer() {
    const MAX: usize = 4;
    check(TOO_BIG, || {
        let world = World::limited(wheel(4, 2), MAX as u64);
        let users = crowd(&world, 5, bustle);
        world.turn_at(0..=4);
        join(users);
        world.pass(4, 16);
        all_room_is_back(&world, 16, MAX);
        world.pass(16, 20);
    });
}

/// So many timers may be scheduled now, and not one more.
fn all_room_is_back(world: &Arc<World>, now: u64, max: usize) {
    let mut hand = Hand::new(world);
    for _ in 0..max {
        let id = hand.schedule_detached(now + 4, now).expect("there is room");
        assert_eq!(fate(id), None);
    }
    assert_eq!(hand.schedule_detached(now + 4, now), None, "more than the limit");
}
