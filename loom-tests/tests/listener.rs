//! DOORBELL, where the shard is served by a task of a runtime: the task leaves its waker, takes the
//! notes of the rings, runs a turn, publishes when it needs the next, and waits; a producer posts
//! a notice, reads when the task will come, notes its ring and wakes the task.
//!
//! Who races: one or two producers and the task, or two tasks of which one comes after the other.
//! Asserted: no wake-up is lost; one that were would leave all threads blocked, which the checker
//! reports as a deadlock.

use std::sync::Arc;
use std::task::{Wake, Waker};

use loom_tests::{Hand, World, check, wheel};
use tickless::doorbell::{Bell, Hook, Listener, Listening};
use tickless::sync::{park, thread};

/// The waker of a task: its thread sleeps until it is woken.
struct Unparks(thread::Thread);

impl Wake for Unparks {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// A world without threads, and what a task listens to.
fn listened_to() -> (Arc<World>, Arc<Listener>) {
    let listener = Arc::new(Listener::new(1));
    let hook = {
        let listener = listener.clone();
        Hook::new(move || listener.ring(0))
    };
    let world = World::with(wheel(2, 1), Bell::Hook(hook), 1);
    world.make_levels();
    (world, listener)
}

/// Serves the shard, as the task that an engine has for that, until `wanted` timers have fired.
fn listen(world: &World, listening: &mut Listening, fired: &mut usize, wanted: usize) {
    let waker = Waker::from(Arc::new(Unparks(thread::current())));
    let mut more = true;
    while *fired < wanted {
        let rings = listening.hear(&waker);
        if rings.take(0) || more {
            world.shard.doorbell().retract();
            let report = world.turn(0).unwrap();
            *fired += report.fired;
            world.shard.doorbell().publish(report.next);
            more = report.busy || world.shard.has_notices();
        } else {
            park(None);
        }
    }
}

fn schedule_while_listening<const N: usize>(bound: usize) {
    check(bound, || {
        let (world, listener) = listened_to();
        let hands = [(); N].map(|()| Hand::new(&world));
        let task = {
            let world = world.clone();
            thread::spawn(move || listen(&world, &mut listener.listen().unwrap(), &mut 0, N))
        };
        let producers = hands
            .map(|mut hand| thread::spawn(move || (hand.schedule_detached(0, 0).unwrap(), hand)));
        task.join().unwrap();
        drop(producers.map(|producer| producer.join().unwrap()));
    });
}

#[test]
fn a_task_that_waits_hears_of_a_timer() {
    schedule_while_listening::<1>(3);
}

#[test]
fn a_task_that_waits_hears_of_two_producers() {
    schedule_while_listening::<2>(1);
}

/// The first is there before anyone listens, and the second comes at any time.
#[test]
fn a_task_hears_of_what_came_while_nobody_listened() {
    check(2, || {
        let (world, listener) = listened_to();
        let [mut one, mut two] = [(); 2].map(|()| Hand::new(&world));
        one.schedule_detached(0, 0).unwrap();
        let task = {
            let world = world.clone();
            thread::spawn(move || {
                let mut fired = 0;
                for wanted in 1..=2 {
                    let mut listening = listener.listen().expect("the one before has ended");
                    listen(&world, &mut listening, &mut fired, wanted);
                }
            })
        };
        let producer = thread::spawn(move || (two.schedule_detached(0, 0).unwrap(), two));
        task.join().unwrap();
        drop((one, producer.join().unwrap()));
    });
}
