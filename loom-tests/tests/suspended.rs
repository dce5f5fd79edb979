//! A thread that is stopped in the middle of a call, for as long as it likes, delays nobody else.
//!
//! Who races: the victim, whose one call the random scheduler stops at each of its steps; two
//! threads that schedule, cancel, move and drop meanwhile, in the same buckets; and the reaper.
//! Asserted: the two finish, and each of their timers fires on its tick, wherever the victim
//! stands; so do a stop and a sleeping reaper's wake-up. When it goes on, its own timers are as
//! good as any (the ledger's account).
//!
//! Too big for the model checker, which stops nobody: of one preemption one of them has 55,000
//! interleavings, and several are not done after minutes.
#![cfg(not(loom))]

use std::sync::Arc;

use loom_tests::{
    Event, Fate, Hand, TOO_BIG, Timer, World, check, fate, has_run, on_thread, resume, suspendable,
    wheel,
};
use tickless_core::doorbell::{Bell, Parker};
use tickless_sync::{AtomicBool, JoinHandle, Ordering, thread};

/// The ticks in which the two others' timers are due.
const END: u64 = 7;

/// Timers that are to fire, by number, each with its deadline.
type Expected = Vec<(usize, u64)>;

fn world() -> Arc<World> {
    World::new(wheel(4, 2))
}

/// Seats that are given up are dead there.
fn without_depot() -> Arc<World> {
    let world = World::with(wheel(4, 2), Bell::None, 0);
    world.make_levels();
    world
}

/// Lets the victim begin its `call`, in which it may be stopped.
fn suspend<P: Send + 'static, R: Send + 'static>(
    mut victim: Hand,
    prepared: P,
    call: fn(&mut Hand, P) -> R,
) -> JoinHandle<(R, Hand)> {
    thread::spawn(move || (suspendable(|| call(&mut victim, prepared)), victim))
}

/// Schedules, cancels, and schedules into the seat, where the victim files too.
fn come_and_go(hand: &mut Hand) -> Expected {
    let timer = hand.schedule(1, 0).unwrap();
    assert!(hand.cancel(timer));
    let seated = hand.schedule_detached(2, 0).unwrap();
    let filed = hand.schedule_detached(1, 0).unwrap();
    vec![(seated, 2), (filed, 1)]
}

/// Schedules and moves, to before its bucket opens.
fn move_about(hand: &mut Hand) -> Expected {
    let mut timer = hand.schedule(END, 0);
    let near = hand.schedule_detached(1, 0).unwrap();
    assert!(hand.reset(&mut timer, 3, 0));
    let moved = timer.as_ref().expect("it was not refused").id();
    hand.detach(timer);
    hand.clear();
    vec![(moved, 3), (near, 1)]
}

/// Leaves more seats than a thread keeps: what is too much is passed on or dead.
fn fill_caches(hand: &mut Hand) {
    let timers = [(); 4].map(|()| hand.schedule(1, 0));
    assert!(timers.into_iter().all(|timer| hand.cancel(timer)));
}

/// Gives up all that the hand keeps.
fn clear_caches(hand: &mut Hand, (): ()) -> Option<Timer> {
    hand.clear();
    None
}

/// Stops the victim in `call`; the others' timers fire on their ticks.
fn delays_nobody<P: Send + 'static>(
    world: fn() -> Arc<World>,
    prepare: fn(&mut Hand) -> P,
    call: fn(&mut Hand, P) -> Option<Timer>,
) {
    check(TOO_BIG, move || {
        let world = world();
        let [mut victim, mut one, mut two] = [(); 3].map(|()| Hand::new(&world));
        let prepared = prepare(&mut victim);
        let victim = suspend(victim, prepared, call);
        let one = thread::spawn(move || (come_and_go(&mut one), one));
        let two = thread::spawn(move || (move_about(&mut two), two));
        world.turn(0);
        let (mut expected, _one) = one.join().unwrap();
        let (more, _two) = two.join().unwrap();
        expected.extend(more);
        (1..=END).for_each(|now| world.turn_until_idle(now));
        for (id, deadline) in expected {
            assert_eq!(fate(id), Some(Fate::Ran(deadline)), "payload {id}");
        }
        resume();
        let (timer, mut victim) = victim.join().unwrap();
        victim.detach(timer);
        world.pass(END, 2 * END);
    });
}

#[test]
fn who_schedules_the_first_timer_of_a_bucket() {
    delays_nobody(world, |_| (), |hand, ()| hand.schedule(1, 0));
}

#[test]
fn who_schedules_the_first_timer_of_a_level() {
    let bare = || World::with(wheel(4, 2), Bell::None, 1);
    delays_nobody(bare, |_| (), |hand, ()| hand.schedule(END, 0));
}

#[test]
fn who_schedules_where_others_have_announced_the_bucket() {
    let announced = |hand: &mut Hand| assert!(hand.schedule_detached(1, 0).is_some());
    delays_nobody(world, announced, |hand, ()| hand.schedule(1, 0));
}

#[test]
fn who_schedules_for_a_time_that_has_come() {
    delays_nobody(world, |_| (), |hand, ()| hand.schedule(0, 0));
}

#[test]
fn who_takes_a_seat() {
    let vacate = |hand: &mut Hand| {
        let timer = hand.schedule(1, 0);
        assert!(hand.cancel(timer));
    };
    delays_nobody(world, vacate, |hand, ()| hand.schedule(2, 0));
}

#[test]
fn who_fetches_seats_from_the_depot() {
    let leave = |hand: &mut Hand| {
        fill_caches(&mut Hand::new(hand.world()));
    };
    delays_nobody(world, leave, |hand, ()| hand.schedule(3, 0));
}

#[test]
fn who_cancels() {
    delays_nobody(
        world,
        |hand| hand.schedule(1, 0),
        |hand, timer| {
            hand.cancel(timer);
            None
        },
    );
}

#[test]
fn who_moves_a_timer_to_a_later_time() {
    delays_nobody(
        world,
        |hand| hand.schedule(1, 0),
        |hand, mut timer| {
            hand.reset(&mut timer, 3, 0);
            timer
        },
    );
}

#[test]
fn who_moves_a_timer_to_before_its_bucket_opens() {
    delays_nobody(
        world,
        |hand| hand.schedule(END, 0),
        |hand, mut timer| {
            hand.reset(&mut timer, 1, 0);
            timer
        },
    );
}

#[test]
fn who_drops_a_handle() {
    delays_nobody(
        world,
        |hand| hand.schedule(1, 0),
        |hand, timer| {
            hand.detach(timer);
            None
        },
    );
}

/// With all the seats and the memory that a thread keeps, and the dead of which are swept: there is
/// no depot.
#[test]
fn who_gives_its_caches_away_in_its_end() {
    delays_nobody(without_depot, fill_caches, clear_caches);
}

#[test]
fn who_leaves_its_caches_in_the_depot() {
    delays_nobody(world, fill_caches, clear_caches);
}

#[test]
fn who_reads_the_pending_timers() {
    let schedule = |hand: &mut Hand| assert!(hand.schedule_detached(1, 0).is_some());
    delays_nobody(world, schedule, |hand, ()| {
        let found = hand.world().scan(8);
        assert!(found.iter().all(|deadline| deadline.get() <= END));
        None
    });
}

/// The others' timers are returned by a stop at once, and the victim's with them or to itself.
#[test]
fn who_schedules_while_the_shard_is_stopped() {
    check(TOO_BIG, || {
        let world = World::with(wheel(4, 2), Bell::None, 1);
        let [victim, mut other] = [(); 2].map(|()| Hand::new(&world));
        let victim = suspend(victim, (), |hand, ()| hand.schedule(1, 0));
        let other = thread::spawn(move || (other.schedule_detached(1, 0).unwrap(), other));
        let (id, _other) = other.join().unwrap();
        world.stop();
        assert_eq!(fate(id), Some(Fate::Returned));
        resume();
        let (timer, mut victim) = victim.join().unwrap();
        victim.detach(timer);
    });
}

/// The reaper sleeps until it is rung. The victim's timer is due just as the other's; wherever
/// it stands, before its ring or after, the other's thread wakes the reaper for its own.
fn wakes_the_reaper(call: fn(&mut Hand, Option<Timer>) -> Option<Timer>) {
    check(TOO_BIG, move || {
        let world = World::served(wheel(4, 2));
        world.advance(2);
        let [mut victim, mut other] = [(); 2].map(|()| Hand::new(&world));
        let prepared = victim.schedule(9, 2);
        let reaper = world.serve_in_thread(vec![2]);
        let victim = suspend(victim, prepared, call);
        let other = thread::spawn(move || (other.schedule_detached(2, 2), other));
        let _other = other.join().unwrap();
        reaper.join().unwrap();
        resume();
        let (timer, mut victim) = victim.join().unwrap();
        victim.detach(timer);
        world.pass(2, 10);
    });
}

#[test]
fn who_was_about_to_ring() {
    wakes_the_reaper(|hand, far| {
        hand.detach(far);
        hand.schedule(1, 2)
    });
}

#[test]
fn who_was_about_to_ring_for_a_timer_that_it_moves() {
    wakes_the_reaper(|hand, mut timer| {
        hand.reset(&mut timer, 1, 2);
        timer
    });
}

/// The other thread's ring wakes the sleeper, wherever the victim's stands: also before the call
/// that wakes.
#[test]
fn who_was_about_to_wake_a_thread_that_it_has_rung() {
    check(TOO_BIG, || {
        let room = Arc::new((Parker::new(), AtomicBool::new(false)));
        let sleeper = on_thread(&room, |(parker, is_over)| {
            // ORDER: Relaxed, both - the ring orders them.
            while !is_over.load(Ordering::Relaxed) {
                parker.sleep(None);
            }
        });
        let victim = on_thread(&room, |(parker, _)| suspendable(|| parker.ring()));
        let other = on_thread(&room, |(parker, is_over)| {
            is_over.store(true, Ordering::Relaxed);
            parker.ring();
        });
        other.join().unwrap();
        sleeper.join().unwrap();
        resume();
        victim.join().unwrap();
    });
}

/// Others take the shard over from a task, run its turns and stop it, wherever the one stands that
/// looks whether the task is stuck.
#[test]
fn who_looks_whether_a_task_is_stuck() {
    check(TOO_BIG, || {
        let world = World::with_due(3);
        let looker = on_thread(&world, |world| suspendable(|| world.look()));
        let taker = on_thread(&world, |world| world.take_over(1));
        let waiting = on_thread(&world, |world| world.turn(1));
        world.turn(1);
        taker.join().unwrap();
        waiting.join().unwrap();
        assert!((0..3).all(has_run));
        world.stop();
        resume();
        looker.join().unwrap();
    });
}

/// A thread that waits for the role comes in, wherever the one stands that has given it back: if
/// not by that one's call, by that of the next who gives it back.
#[test]
fn who_was_about_to_wake_those_who_wait_for_its_role() {
    check(TOO_BIG, || {
        let world = World::new(wheel(4, 2));
        let role = Event::new();
        let victim = {
            let is_taken = role.clone();
            on_thread(&world, move |world| {
                let role = world.ending.take_role(0);
                is_taken.comes();
                suspendable(|| drop(role));
            })
        };
        role.wait();
        let waits = on_thread(&world, |world| drop(world.ending.take_role(0)));
        match world.ending.try_take_role(0) {
            Some(role) => drop(role),
            None => resume(),
        }
        waits.join().unwrap();
        resume();
        victim.join().unwrap();
    });
}
