//! STOP: who runs turns and who stops, by the protocol of the end.
//!
//! Who races: turns (in a thread of the model's or the reaper's loop), and one or two stoppers.
//! Asserted: each payload of a batch in hand runs or comes back, exactly once (the ledger's
//! account); no turn is without its handler, which is dropped once, after the last of them; every
//! stopper gets to the end.

use loom_tests::{
    Fate, Hand, Payload, World, check, drops_are_returns, fate, has_run, on_thread, wheel,
};
use tickless_core::doorbell::{Bell, Hook};
use tickless_core::memory::Count;
use tickless_core::reaper::{Ending, Waited};
use tickless_sync::protocol::stops::Stops;
use tickless_sync::{Arc, Counter, OnceLock, Ordering::Relaxed, UnsafeCell, park, thread};

#[test]
fn of_a_batch_in_hand_each_runs_or_comes_back() {
    check(3, || {
        let world = World::with_due(2);
        let turner = on_thread(&world, |world| world.turn(1));
        let returned = world.stop();
        turner.join().unwrap();
        assert_eq!([0, 1].into_iter().filter(|&id| !has_run(id)).count(), returned);
        assert!(world.turn(1).is_none() && world.stop() == 0);
    });
}

#[test]
fn two_stoppers_share_what_comes_back() {
    check(2, || {
        let world = World::with_due(2);
        let turner = on_thread(&world, |world| world.turn(1));
        let stopper = on_thread(&world, World::stop);
        let returned = world.stop() + stopper.join().unwrap();
        turner.join().unwrap();
        assert_eq!([0, 1].into_iter().filter(|&id| !has_run(id)).count(), returned);
    });
}

#[test]
fn a_second_turn_waits_for_the_first_and_both_end_when_it_stops() {
    check(2, || {
        let world = World::with_due(1);
        let turners = [1, 1].map(|now| on_thread(&world, move |world| world.turn(now)));
        let returned = world.stop();
        turners.into_iter().for_each(|turner| _ = turner.join().unwrap());
        assert_eq!(returned, usize::from(!has_run(0)));
        let counted = world.shared.all_counters.sums().get(Count::Returned);
        assert_eq!(counted, returned as u64, "by one of the turns, or by the stop");
    });
}

/// Nobody stops them: who gives the role back wakes the other.
#[test]
fn a_second_turn_begins_when_the_first_is_over() {
    check(2, || {
        let world = World::with_due(1);
        let other = on_thread(&world, |world| world.turn(1));
        assert!(world.turn(1).is_some());
        assert!(other.join().unwrap().is_some());
        assert!(has_run(0));
    });
}

/// It may wait for the end of what is behind it.
#[test]
fn what_is_behind_a_task_comes_back_while_the_task_runs() {
    check(3, || {
        let world = World::with_due(3);
        let stopper = on_thread(&world, |world| {
            park(None);
            world.stop_at_once()
        });
        let begun = stopper.thread().clone();
        let turner = on_thread(&world, |world| {
            world.turn_with(1, move || {
                begun.unpark();
                park(None);
            })
        });
        assert_eq!(stopper.join().unwrap(), 2);
        turner.thread().unpark();
        assert!(turner.join().unwrap().is_some_and(|report| report.fired == 1));
        assert_eq!(world.stop(), 0);
    });
}

/// The task waits for the end of what a thread that has taken over leaves.
#[test]
fn what_a_taker_leaves_comes_back_while_the_task_before_it_runs() {
    check(1, || {
        let world = World::with_due(3);
        let taker = on_thread(&world, |world| world.take_over(1));
        let stopper = on_thread(&world, World::stop);
        world.turn_with(1, || {
            while fate(2).is_none() {
                thread::yield_now();
            }
        });
        taker.join().unwrap();
        let returned = stopper.join().unwrap();
        assert_eq!((0..3).filter(|&id| !has_run(id)).count(), returned);
    });
}

#[test]
fn a_stopper_that_does_not_wait_finds_the_rest_later() {
    check(3, || {
        let world = World::with_due(2);
        let turner = on_thread(&world, |world| world.turn(1));
        let at_once = world.stop_at_once();
        turner.join().unwrap();
        let later = world.stop();
        assert_eq!([0, 1].into_iter().filter(|&id| !has_run(id)).count(), at_once + later);
    });
}

#[test]
fn what_nobody_will_claim_is_dropped_by_who_leaves_it() {
    check(3, || {
        drops_are_returns();
        let world = World::with_due(2);
        let turner = on_thread(&world, |world| world.turn(1));
        world.stop_at_once();
        drop(world.ending.abandon());
        turner.join().unwrap();
        assert!(world.ending.claim().is_empty());
    });
}

/// A handler that is looked at in turns, and written to when it is dropped.
struct Watched(UnsafeCell<()>);

// SAFETY: that all looks come before its end is what the model shows.
unsafe impl Sync for Watched {}

impl Drop for Watched {
    fn drop(&mut self) {
        self.0.with_mut(|_| ());
    }
}

/// The drop of the handler may wait for the end of what the stopper drops.
#[test]
fn the_handler_goes_when_the_stopper_has_ended_what_is_the_engines_own() {
    /// Adds what the stopper has ended to what was ended when the handler went.
    struct Waits(Arc<[Counter; 2]>);

    impl Drop for Waits {
        fn drop(&mut self) {
            let [ended, seen] = &*self.0;
            seen.fetch_add(ended.load(Relaxed), Relaxed);
        }
    }

    check(3, || {
        let world = World::new(wheel(2, 1));
        let ended = Arc::new([0, 0].map(Counter::new));
        let ending = Arc::new(Ending::new(1, Waits(ended.clone()), |_| false));
        let turner = {
            let ending = ending.clone();
            thread::spawn(move || drop(ending.take_role(0)))
        };
        ending.stop(&[], &world.shared, |_| ended[0].fetch_add(1, Relaxed));
        assert!(matches!(ending.wait(None), Waited::Over));
        turner.join().unwrap();
        assert_eq!(ended[1].load(Relaxed), 1);
    });
}

#[test]
fn of_two_shards_the_handler_goes_after_the_last_turn_of_both() {
    check(3, || {
        let world = World::new(wheel(2, 1));
        let ending = Arc::new(Ending::new(2, Watched(UnsafeCell::new(())), |_| false));
        let turners = [0, 1].map(|shard| {
            let ending = ending.clone();
            thread::spawn(move || {
                if let Some(mut role) = ending.take_role(shard) {
                    role.parts().0.0.with(|_| ());
                }
            })
        });
        // The roles are all that counts here: the shards have nothing to close.
        ending.stop(&[], &world.shared, drop);
        assert!(matches!(ending.wait(None), Waited::Over) && ending.roles_left() == 0);
        turners.into_iter().for_each(|turner| turner.join().unwrap());
    });
}

#[test]
fn who_sees_that_it_stops_sees_what_the_stopper_did_before() {
    check(3, || {
        let shared =
            Arc::new((Ending::<u8, ()>::new(1, (), |_| false), Watched(UnsafeCell::new(()))));
        let looker = on_thread(&shared, |(ending, done)| {
            if ending.is_stopping() {
                done.0.with(|_| ());
            }
        });
        shared.1.0.with_mut(|_| ());
        shared.0.begin_stop();
        looker.join().unwrap();
    });
}

#[test]
fn a_reaper_and_two_stoppers_end_together() {
    check(1, || {
        let world = World::served(wheel(2, 1));
        let mut hand = Hand::new(&world);
        let reaper = world.serve_in_thread(vec![]);
        let producer = thread::spawn(move || (hand.schedule_detached(0, 0), hand));
        let stopper = on_thread(&world, World::stop);
        let returned = world.stop() + stopper.join().unwrap();
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

/// The caller sleeps until its hook is called. A wake-up that is lost leaves it asleep for ever.
#[test]
fn a_caller_that_sleeps_between_turns_hears_of_the_end() {
    check(3, || {
        let caller = Arc::new(OnceLock::<thread::Thread>::new());
        let sleeper = caller.clone();
        let hook = move || sleeper.get().expect("it was spawned first").unpark();
        let world = World::with(wheel(2, 1), Bell::Hook(Hook::new(hook)), 1);
        world.make_levels();
        let turner = on_thread(&world, |world| {
            while let Some(report) = world.turn(0) {
                world.shard.doorbell().publish(report.next);
                if !report.busy && !world.shard.has_notices() {
                    park(None);
                }
            }
        });
        caller.set(turner.thread().clone()).expect("once");
        world.stop();
        turner.join().unwrap();
    });
}

/// A thread that keeps a part of the engine looks whether that has stopped when a stop was counted.
#[test]
fn who_sees_that_a_stop_was_counted_sees_the_stop() {
    check(3, || {
        let engine = Arc::new((Ending::<Payload, ()>::new(1, (), |_| false), Stops::none()));
        let user =
            on_thread(&engine, |(ending, stops)| stops.so_far() == 0 || ending.is_stopping());
        let (ending, stops) = &*engine;
        assert!(ending.begin_stop());
        stops.count();
        assert!(user.join().unwrap());
    });
}
