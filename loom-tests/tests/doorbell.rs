//! DOORBELL: the reaper publishes when it wakes, looks at the notices, and parks; a producer
//! posts a notice, reads when the reaper wakes, and rings.
//!
//! Who races: one or two producers and the reaper, which runs the loop of the engine's threads
//! and sleeps for ever unless it is rung. Asserted: no wake-up is lost; one that were would leave
//! all threads blocked, which the checker reports as a deadlock.

use std::sync::Arc;

use loom_tests::{Hand, World, check, wheel};
use tickless_core::doorbell::{Bell, Hook, Parker};
use tickless_core::time::Tick;
use tickless_sync::{AtomicBool, Mutex, Ordering, UnsafeCell, park, thread};

/// Schedules one timer for each of `deadlines`, each on a thread of its own, while the clock
/// stands at zero; `before` is there already. What is due must fire.
fn schedule_while_serving<const N: usize>(bound: usize, before: Option<u64>, deadlines: [u64; N]) {
    check(bound, move || {
        let world = World::served(wheel(2, 2));
        let mut hands = [(); N].map(|()| Hand::new(&world));
        if let Some(deadline) = before {
            hands[0].schedule_detached(deadline, 0);
        }
        let due: Vec<u64> = deadlines.iter().copied().filter(|deadline| *deadline == 0).collect();
        let reaper = world.serve_in_thread(due);
        let mut deadlines = deadlines.into_iter();
        let producers = hands.map(|mut hand| {
            let deadline = deadlines.next().expect("there are as many");
            thread::spawn(move || (hand.schedule_detached(deadline, 0), hand))
        });
        reaper.join().unwrap();
        drop(producers.map(|producer| producer.join().unwrap()));
    });
}

#[test]
fn a_reaper_with_nothing_to_wait_for_is_woken() {
    schedule_while_serving(3, None, [0]);
}

#[test]
fn a_reaper_that_would_sleep_too_long_is_woken() {
    schedule_while_serving(3, Some(3), [0]);
}

/// The far timer is not due while the model lasts: it may ring, and that must not hide the near
/// one.
#[test]
fn a_far_timer_does_not_hide_a_near_one() {
    schedule_while_serving(1, None, [0, 1]);
}

#[test]
fn both_of_two_producers_are_heard() {
    schedule_while_serving(1, None, [0, 0]);
}

/// Lateness that deadlocks do not show: a producer that returned has rung, or somebody has in
/// its place, wherever the others stand.
#[test]
fn a_producer_that_has_returned_needs_no_other_ring() {
    check(1, || {
        let rung = Arc::new(AtomicBool::new(false));
        let bell = {
            let rung = rung.clone();
            // ORDER: Release - pairs with the Acquire below.
            Bell::Hook(Hook::new(move || rung.store(true, Ordering::Release)))
        };
        let world = World::with(wheel(2, 1), bell, 1);
        world.make_levels();
        world.shard.doorbell().publish(Tick::NEVER);
        let [mut one, mut two] = [Hand::new(&world), Hand::new(&world)];
        let one = thread::spawn(move || (one.schedule_detached(1, 0), one));
        let two = thread::spawn(move || (two.schedule_detached(1, 0), two));
        let _two = two.join().unwrap();
        assert!(rung.load(Ordering::Acquire));
        let _one = one.join().unwrap();
    });
}

/// Where a thread sleeps, and what another one writes before it rings.
struct Bedroom {
    parker: Parker,
    note: UnsafeCell<bool>,
}

// SAFETY: that the ring orders the accesses is what the model shows.
unsafe impl Sync for Bedroom {}

#[test]
fn who_is_rung_sees_what_came_before_the_ring() {
    check(3, || {
        let (parker, note) = (Parker::new(), UnsafeCell::new(false));
        let here = Arc::new(Bedroom { parker, note });
        let sleeper = here.clone();
        let sleeper = thread::spawn(move || {
            // Nothing else ends it here.
            sleeper.parker.sleep(None);
            // SAFETY: as above; the checker reports accesses that nothing orders.
            assert!(sleeper.note.with(|note| unsafe { *note }));
        });
        // SAFETY: as above.
        here.note.with_mut(|note| unsafe { *note = true });
        here.parker.ring();
        sleeper.join().unwrap();
    });
}

/// A hook that first wakes the loop and then schedules: what it schedules after the loop's turn is
/// told as well. A wake-up that is lost leaves the loop waiting.
#[test]
fn what_a_hook_schedules_is_heard_wherever_the_loop_stands() {
    check(2, || {
        let inside = Arc::new(Mutex::new(None::<(thread::Thread, Option<Hand>)>));
        let is_rung = Arc::new(AtomicBool::new(false));
        let hook = {
            let (inside, is_rung) = (inside.clone(), is_rung.clone());
            Hook::new(move || {
                let inside = &mut *inside.lock().unwrap();
                let Some((sleeper, hand)) = inside else { return };
                // ORDER: Relaxed - the wake-up orders it.
                is_rung.store(true, Ordering::Relaxed);
                sleeper.unpark();
                if let Some(mut hand) = hand.take() {
                    // Rings again, from inside of this call.
                    hand.schedule_detached(0, 0);
                }
            })
        };
        let world = World::with(wheel(2, 1), Bell::Hook(hook), 1);
        world.make_levels();
        world.shard.doorbell().publish(Tick::NEVER);
        let [mut hand, other] = [Hand::new(&world), Hand::new(&world)];
        let sleeper = {
            let world = world.clone();
            thread::spawn(move || {
                // Asleep until the first ring, and later where nothing is heard.
                // ORDER: Relaxed - as above.
                while !is_rung.load(Ordering::Relaxed) {
                    park(None);
                }
                let mut fired = 0;
                while fired < 2 {
                    world.shard.doorbell().retract();
                    let report = world.turn(0).unwrap();
                    fired += report.fired;
                    world.shard.doorbell().publish(report.next);
                    if fired < 2 && !report.busy && !world.shard.has_notices() {
                        park(None);
                    }
                }
            })
        };
        *inside.lock().unwrap() = Some((sleeper.thread().clone(), Some(other)));
        hand.schedule_detached(0, 0).unwrap();
        sleeper.join().unwrap();
    });
}

/// A loop that asks before it sleeps, beside one that takes its place: neither sleeps for longer
/// than what the other's thread has scheduled, although a loop that asks rings nobody.
#[test]
fn a_loop_that_asks_is_rung_by_others_and_one_that_takes_its_place_by_it() {
    check(3, || {
        let is_rung = Arc::new(AtomicBool::new(false));
        let hook = is_rung.clone();
        // ORDER: Relaxed - the ends of the threads order it.
        let hook = Hook::new(move || hook.store(true, Ordering::Relaxed));
        let world = World::with(wheel(2, 1), Bell::Hook(hook), 1);
        world.make_levels();
        let takes_a_turn = |world: &World| {
            let report = world.turn(0).unwrap();
            world.shard.doorbell().publish(report.next);
            report.next <= Tick::new(1) || world.shard.has_notices()
        };
        // This thread is the loop, and asks.
        takes_a_turn(&world);
        world.look_ahead().unwrap();
        world.shard.doorbell().has_asked();
        let other = world.clone();
        let other = thread::spawn(move || takes_a_turn(&other));
        let mut hand = Hand::new(&world);
        hand.schedule_detached(1, 0).unwrap();
        let knows = other.join().unwrap();
        // ORDER: Relaxed - as above.
        assert!(knows || is_rung.load(Ordering::Relaxed), "it sleeps too long");
    });
}

/// A thread that schedules where a hook has scheduled, before the hook returns, rings by itself:
/// the ring inside the hook is still to be made up for.
#[test]
fn nobody_relies_on_what_a_hook_schedules_before_it_has_returned() {
    check(1, || {
        let inside = Arc::new(Mutex::new(None::<[Hand; 2]>));
        let is_rung = Arc::new(AtomicBool::new(false));
        let rang_by_itself = Arc::new(AtomicBool::new(false));
        let hook = {
            let (inside, is_rung) = (inside.clone(), is_rung.clone());
            let rang_by_itself = rang_by_itself.clone();
            Hook::new(move || {
                // ORDER: Relaxed, all - the end of the other thread orders them.
                is_rung.store(true, Ordering::Relaxed);
                let hands = inside.lock().unwrap().take();
                let Some([mut hand, mut other]) = hands else { return };
                hand.schedule_detached(1, 0);
                is_rung.store(false, Ordering::Relaxed);
                let other = thread::spawn(move || (other.schedule_detached(1, 0), other));
                let _other = other.join().unwrap();
                rang_by_itself.store(is_rung.load(Ordering::Relaxed), Ordering::Relaxed);
            })
        };
        let world = World::with(wheel(2, 1), Bell::Hook(hook), 4);
        world.make_levels();
        world.shard.doorbell().publish(Tick::NEVER);
        let [mut hand, one, two] = [(); 3].map(|()| Hand::provided(&world));
        *inside.lock().unwrap() = Some([one, two]);
        let producer = thread::spawn(move || (hand.schedule_detached(1, 0), hand));
        world.turn(0);
        let _hand = producer.join().unwrap();
        // ORDER: Relaxed - the end of the thread orders it.
        assert!(rang_by_itself.load(Ordering::Relaxed));
        world.pass(0, 1);
    });
}

#[test]
fn a_reaper_that_sleeps_is_woken_for_a_sweep_and_for_the_end() {
    check(3, || {
        let world = World::served(wheel(2, 2));
        let reaper = world.serve_in_thread(vec![]);
        world.shard.ask_for_sweep();
        while world.shard.wants_sweep() {
            thread::yield_now();
        }
        world.stop();
        reaper.join().unwrap();
    });
}

#[test]
fn two_producers_are_heard_while_another_cancels() {
    check(0, || {
        let world = World::served(wheel(2, 2));
        let [mut one, mut two, mut three] = [(); 3].map(|()| Hand::new(&world));
        let far = three.schedule(3, 0);
        let reaper = world.serve_in_thread(vec![0, 0]);
        let one = thread::spawn(move || (one.schedule_detached(0, 0), one));
        let two = thread::spawn(move || (two.schedule_detached(0, 0), two));
        assert!(three.cancel(far));
        reaper.join().unwrap();
        drop((one.join().unwrap(), two.join().unwrap()));
    });
}
