//! The whole way of a timer through a shard: schedule, inbox, turn, fire, with cancels, resets,
//! seats, sweeps and a stop in flight.
//!
//! Who races: two threads that each do several things, and the reaper's whole turns. Asserted:
//! what the promises say. Each payload meets one fate, no timer fires early (the ledger's
//! account), none is late once its own thread has returned, and the shard's own check finds
//! every invariant in place.

use loom_tests::{Fate, Hand, World, check, fate, has_run, wheel};
use tickless_core::doorbell::Bell;
use tickless_sync::thread;

#[test]
fn one_schedules_and_cancels_while_another_schedules() {
    check(1, || {
        let world = World::new(wheel(2, 2));
        let [mut one, mut two] = [Hand::new(&world), Hand::new(&world)];
        let one = thread::spawn(move || {
            let timer = one.schedule(1, 0).unwrap();
            (timer.id(), one.cancel(timer), one)
        });
        let two = thread::spawn(move || (two.schedule_detached(1, 0).unwrap(), two));
        world.turn(1);
        let (id, _two) = two.join().unwrap();
        world.turn(1);
        assert!(has_run(id));
        let (id, cancelled, _one) = one.join().unwrap();
        world.pass(1, 1);
        assert_eq!(has_run(id), !cancelled);
    });
}

/// The bucket of level 2 from 20 on is cascaded ahead of time, and what is left of it is in a hand,
/// when a producer with a stale clock has filed in the same slot for the round before. That is due.
#[test]
fn a_cascade_that_another_round_overtakes_fires_nothing_early() {
    check(2, || {
        let world = World::new(wheel(4, 2));
        let [mut hand, mut stale] = [Hand::new(&world), Hand::new(&world)];
        let stale = thread::spawn(move || (stale.schedule_detached(5, 0).unwrap(), stale));
        world.turn(15);
        let timers = [(); 2].map(|()| hand.schedule_detached(20, 15).unwrap());
        world.turn(19);
        let (id, _stale) = stale.join().unwrap();
        world.turn(19);
        assert!(has_run(id) && !timers.into_iter().any(has_run));
        world.pass(19, 20);
        assert!(timers.into_iter().all(has_run));
    });
}

/// A sweep has come so far, in one turn after the other, when the round opens that it may be in.
/// (One thread does all, and a random scheduler refuses what it has nothing to choose in.)
#[test]
#[cfg(not(shuttle))]
fn a_round_opens_under_a_sweep() {
    for turns in 0..10 {
        check(0, move || {
            let world = World::with(wheel(2, 1), Bell::None, 0);
            world.make_levels();
            let [mut one, mut two] = [Hand::new(&world), Hand::new(&world)];
            let timers = [(); 3].map(|()| one.schedule_detached(3, 2).unwrap());
            two.schedule_detached(1, 0).unwrap();
            world.turn(1);
            world.shard.ask_for_sweep();
            (0..turns).for_each(|_| _ = world.turn(1));
            world.turn(3);
            assert!(timers.into_iter().all(has_run));
            world.turn_until_idle(3);
            world.check(3);
        });
    }
}

#[test]
fn one_moves_its_timer_while_another_schedules() {
    check(0, || {
        let world = World::new(wheel(2, 2));
        let [mut one, mut two] = [(); 2].map(|()| Hand::provided(&world));
        let mut timer = one.schedule(3, 0);
        let one = thread::spawn(move || (one.reset(&mut timer, 2, 1), timer, one));
        let two = thread::spawn(move || (two.schedule_detached(3, 2).unwrap(), two));
        world.turn(2);
        let (moved, timer, mut one) = one.join().unwrap();
        world.turn(2);
        assert!(moved && has_run(0));
        let (id, _two) = two.join().unwrap();
        world.pass(3, 3);
        assert!(has_run(id));
        one.detach(timer.unwrap());
    });
}

#[test]
fn one_schedules_and_another_cancels() {
    check(2, || {
        let world = World::new(wheel(2, 2));
        let [mut one, mut two] = [Hand::new(&world), Hand::new(&world)];
        let timers = [one.schedule(1, 0).unwrap(), one.schedule(3, 0).unwrap()];
        let one = thread::spawn(move || (one.schedule_detached(1, 0).unwrap(), one));
        let two = thread::spawn(move || (timers.map(|timer| two.cancel(timer)), two));
        world.turn(1);
        let (id, _one) = one.join().unwrap();
        world.turn(1);
        assert!(has_run(id));
        let (cancelled, _two) = two.join().unwrap();
        world.pass(1, 3);
        assert_eq!([0, 1].map(|id| !has_run(id)), cancelled);
    });
}

#[test]
fn a_bucket_cascades_eagerly_while_timers_come_and_go() {
    check(2, || {
        let world = World::new(wheel(4, 2));
        let [mut one, mut two] = [(); 2].map(|()| Hand::provided(&world));
        let timer = one.schedule(5, 0).unwrap();
        let one = thread::spawn(move || {
            one.cancel(timer);
            (one.schedule_detached(4, 0).unwrap(), one)
        });
        let two = thread::spawn(move || (two.schedule_detached(5, 0).unwrap(), two));
        world.turn(3);
        let (near, _one) = one.join().unwrap();
        world.turn_until_idle(4);
        assert!(has_run(near));
        let (far, _two) = two.join().unwrap();
        world.pass(4, 5);
        assert!(has_run(far));
    });
}

#[test]
fn a_shard_is_swept_while_timers_come_and_go() {
    check(0, || {
        // Without depots, seats that are given up are dead.
        let world = World::with(wheel(2, 1), Bell::None, 0);
        world.make_levels();
        let [mut one, mut two] = [Hand::new(&world), Hand::new(&world)];
        let timer = one.schedule(1, 0).unwrap();
        world.shard.ask_for_sweep();
        let one = thread::spawn(move || {
            one.cancel(timer);
            one.clear();
            one
        });
        let two = thread::spawn(move || (two.schedule_detached(1, 0).unwrap(), two));
        world.turn_until_idle(0);
        let (id, _two) = two.join().unwrap();
        world.turn(1);
        assert!(has_run(id));
        drop(one.join().unwrap());
        world.pass(1, 1);
    });
}

/// Begins a sweep of a bucket with three timers, of which one is cancelled meanwhile, and then
/// ends it before the sweep is through.
fn interrupt_a_sweep(bound: usize, end: fn(&World)) {
    check(bound, move || {
        let world = World::new(wheel(2, 1));
        let mut hand = Hand::new(&world);
        let timer = hand.schedule(1, 0).unwrap();
        hand.schedule_detached(1, 0).unwrap();
        hand.schedule_detached(1, 0).unwrap();
        world.shard.ask_for_sweep();
        let thread = thread::spawn(move || (hand.cancel(timer), hand));
        // A chunk is one entry.
        world.turn(0);
        end(&world);
        let (cancelled, _hand) = thread.join().unwrap();
        world.check(1);
        assert!((1..3).all(|id| fate(id).is_some()) && fate(0).is_some());
        assert_eq!(fate(0) == Some(Fate::Cancelled), cancelled);
    });
}

#[test]
fn a_bucket_opens_while_it_is_swept() {
    interrupt_a_sweep(3, |world| {
        world.turn(1);
        world.turn_until_idle(1);
    });
}

#[test]
fn a_shard_is_stopped_while_it_is_swept() {
    interrupt_a_sweep(3, |world| {
        world.stop();
    });
}

#[test]
fn a_shard_is_stopped_while_timers_come_go_and_fire() {
    check(1, || {
        let world = World::new(wheel(2, 2));
        let [mut one, mut two] = [(); 2].map(|()| Hand::provided(&world));
        let timer = one.schedule(1, 0).unwrap();
        let one = thread::spawn(move || {
            one.cancel(timer);
            (one.schedule(1, 0), one)
        });
        let two = thread::spawn(move || (two.schedule_detached(3, 0), two));
        world.turn(1);
        world.stop();
        assert!(world.turn(1).is_none());
        let (timer, mut one) = one.join().unwrap();
        if let Some(timer) = timer {
            one.detach(timer);
        }
        drop(two.join().unwrap());
        assert!((0..3).all(|id| fate(id).is_some()));
    });
}

/// The whole way with the reaper's own thread, its doorbell and its sleep: one timer is cancelled
/// and its seat taken, another is moved to the present, and the reaper is stopped.
#[test]
fn a_reaper_serves_while_timers_come_go_and_move_and_is_stopped() {
    check(1, || {
        let world = World::served(wheel(2, 1));
        let [mut one, mut two] = [Hand::new(&world), Hand::new(&world)];
        let (going, mut moving) = (one.schedule(1, 0), two.schedule(1, 0));
        let reaper = world.serve_in_thread(vec![]);
        let one = thread::spawn(move || (one.cancel(going), one.schedule_detached(1, 0), one));
        let two = thread::spawn(move || (two.reset(&mut moving, 0, 0), moving, two));
        let returned = world.stop();
        reaper.join().unwrap();
        let (cancelled, seated, _one) = one.join().unwrap();
        let (moved, timer, mut two) = two.join().unwrap();
        let stranded = two.detach_or_cancel(timer);
        assert!(!(moved && stranded));
        let fates = [0, 1, 2].map(|id| fate(id).expect("all have ended"));
        assert_eq!(returned, fates.iter().filter(|&&fate| fate == Fate::Returned).count());
        let of_cancels = fates.iter().filter(|&&fate| fate == Fate::Cancelled).count();
        assert_eq!(of_cancels, usize::from(cancelled) + usize::from(stranded));
        assert!(seated.is_some() || fates.contains(&Fate::Refused));
    });
}

/// As above, but nobody stops the reaper before it has run what is due: the moved timer and the
/// one that was scheduled for the present. A wake-up that is lost leaves all others waiting.
#[test]
fn a_reaper_serves_until_it_has_run_what_is_moved_and_what_is_scheduled() {
    check(1, || {
        // With room in the depots, the model is not about what exceeds it.
        let world = World::served_with(wheel(2, 1), 4);
        let [mut one, mut two] = [Hand::new(&world), Hand::new(&world)];
        let (going, mut moving) = (one.schedule(1, 0), two.schedule(1, 0));
        let reaper = world.serve_in_thread(vec![0, 0]);
        let one = thread::spawn(move || (one.cancel(going), one.schedule_detached(0, 0), one));
        let two = thread::spawn(move || (two.reset(&mut moving, 0, 0), moving, two));
        reaper.join().unwrap();
        let (cancelled, scheduled, _one) = one.join().unwrap();
        let (moved, timer, mut two) = two.join().unwrap();
        assert!(cancelled && moved && scheduled.is_some_and(has_run) && has_run(1));
        two.detach(timer);
    });
}
