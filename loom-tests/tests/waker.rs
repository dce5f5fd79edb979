//! WAKER: how the end of a timer reaches the task that waits for it. The payload carries the waker
//! of the task that polled last; a poll by another task exchanges it in the timer's entry.
//!
//! Who races: polls of a sleep, each by another task; the reaper, which fires the timer, moves its
//! entry, unlinks it while it is vacant, or stops; the sleep that is dropped (it cancels, or comes
//! too late), or moved.
//! Asserted: if a poll has to wait, its own payload rings, at its time or when the engine stops,
//! and no payload that was exchanged does; a poll that finds an end finds the one that was; each
//! payload meets one fate; the limit and the counts stay as they were.

use std::sync::Arc;

use loom_tests::{Hand, Timer, World, check, drops_are_returns, has_run, wheel};
use tickless_core::entry::Phase;
use tickless_sync::thread::{self, JoinHandle};

/// A sleep: its timer, and the number of the payload that waits there.
struct Sleep {
    timer: Timer,
    waits: usize,
}

impl Sleep {
    /// Polled for the first time.
    fn new(hand: &mut Hand, deadline: u64) -> Sleep {
        let timer = hand.schedule(deadline, 0).unwrap();
        let waits = timer.id();
        Sleep { timer, waits }
    }

    /// A poll by another task; whether it has to wait.
    fn poll(&mut self, hand: &mut Hand, now: u64) -> bool {
        if hand.exchange(&mut self.timer, now) {
            self.waits = self.timer.id();
            return true;
        }
        assert_ne!(self.timer.entry().word().phase(), Phase::Vacant);
        false
    }
}

fn turn_in_thread(world: &Arc<World>, now: u64) -> JoinHandle<()> {
    let world = world.clone();
    thread::spawn(move || world.turn_until_idle(now))
}

/// Polls by so many other tasks while turns run at `turns`; then lets time pass tick by tick.
fn poll_while_turning(bound: usize, deadline: u64, polls: usize, turns: &'static [u64]) {
    check(bound, move || {
        let world = World::new(wheel(4, 2));
        let mut hand = Hand::new(&world);
        let mut sleep = Sleep::new(&mut hand, deadline);
        let poller = thread::spawn(move || {
            let waits = (0..polls).all(|_| sleep.poll(&mut hand, 0));
            (sleep, waits, hand)
        });
        for &turn in turns {
            world.turn(turn);
        }
        let (sleep, waits, mut hand) = poller.join().unwrap();
        let last = turns[turns.len() - 1];
        world.check(last);
        assert!(waits || has_run(sleep.waits), "it has fired");
        for now in last..deadline {
            world.turn_until_idle(now);
            assert!(!has_run(sleep.waits), "too early");
        }
        world.turn_until_idle(deadline.max(last));
        assert!(has_run(sleep.waits), "a lost wake-up");
        hand.detach(sleep.timer);
    });
}

#[test]
fn the_task_that_polled_last_is_woken() {
    poll_while_turning(3, 1, 1, &[1]);
}

#[test]
fn the_last_of_two_tasks_that_polled_is_woken() {
    poll_while_turning(2, 1, 2, &[1]);
}

#[test]
fn a_task_polls_while_the_timer_is_moved_a_level_down() {
    poll_while_turning(3, 7, 1, &[4]);
}

#[test]
fn a_task_polls_while_the_timer_is_moved_ahead_of_its_time() {
    poll_while_turning(3, 6, 1, &[3, 4]);
}

#[test]
fn a_task_polls_while_the_bucket_is_swept() {
    check(3, || {
        let world = World::new(wheel(4, 1));
        let mut hand = Hand::new(&world);
        let mut sleep = Sleep::new(&mut hand, 2);
        world.shard.ask_for_sweep();
        let reaper = turn_in_thread(&world, 0);
        assert!(sleep.poll(&mut hand, 0));
        reaper.join().unwrap();
        world.check(0);
        world.turn_until_idle(1);
        assert!(!has_run(sleep.waits), "too early");
        world.turn_until_idle(2);
        assert!(has_run(sleep.waits), "a lost wake-up");
        hand.detach(sleep.timer);
    });
}

#[test]
fn a_sleep_is_polled_and_dropped_while_it_fires() {
    check(3, || {
        let world = World::new(wheel(4, 1));
        let mut hand = Hand::new(&world);
        let mut sleep = Sleep::new(&mut hand, 1);
        let reaper = turn_in_thread(&world, 1);
        let waits = sleep.poll(&mut hand, 0);
        let last = sleep.waits;
        let is_cancelled = hand.cancel(sleep.timer);
        reaper.join().unwrap();
        assert!(waits || !is_cancelled, "it has fired");
        assert_ne!(is_cancelled, has_run(last));
    });
}

#[test]
fn a_sleep_is_moved_and_polled_while_its_old_time_comes() {
    check(3, || {
        let world = World::new(wheel(4, 1));
        let mut hand = Hand::new(&world);
        let Sleep { timer, .. } = Sleep::new(&mut hand, 1);
        let reaper = turn_in_thread(&world, 1);
        let mut timer = Some(timer);
        let is_moved = hand.reset(&mut timer, 2, 0);
        let timer = timer.unwrap();
        let mut sleep = Sleep { waits: timer.id(), timer };
        let waits = sleep.poll(&mut hand, 0);
        reaper.join().unwrap();
        assert_eq!(is_moved, waits, "what was moved waits");
        world.turn_until_idle(1);
        assert_eq!(has_run(sleep.waits), !waits, "too early");
        world.turn_until_idle(2);
        assert!(has_run(sleep.waits), "a lost wake-up");
        hand.detach(sleep.timer);
    });
}

#[test]
fn a_task_polls_while_the_engine_stops() {
    check(3, || {
        drops_are_returns();
        let world = World::limited(wheel(4, 1), 1);
        let mut hand = Hand::new(&world);
        let mut sleep = Sleep::new(&mut hand, 1);
        let stopper = world.clone();
        let stopper = thread::spawn(move || stopper.stop());
        let waits = sleep.poll(&mut hand, 0);
        let returned = stopper.join().unwrap();
        let is_stranded = hand.detach_or_cancel(Some(sleep.timer));
        assert!(waits || returned == 1 || is_stranded);
        assert_eq!(returned + usize::from(is_stranded), 1, "one of them has the waker");
    });
}
