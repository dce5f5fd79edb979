//! DISMANTLE: a closed shard gives its wheel back, while handles and doors that know the engine by
//! its number still come.
//!
//! Who races: one that files, moves a timer or ends an announcement, as a reader, and the one that
//! stops the shard and gives its memory back. Asserted: no bucket is used after it was freed, and
//! all of them are freed (the checker looks); each payload meets one fate; what comes too late is
//! refused, as after any stop.

use std::sync::Arc;

use loom_tests::{Fate, Hand, World, check, collect, fate, has_run, wheel};
use tickless_core::doorbell::{Bell, Hook};
use tickless_core::entry;
use tickless_core::time::Place;
use tickless_core::time::Tick;
use tickless_core::wheel::Wheel;
use tickless_sync::{AtomicBool, Life, Ordering, thread};

/// Stops the world and gives back what only those need who have the engine.
fn end(world: &World) -> usize {
    let returned = world.stop();
    // SAFETY: all others file as readers.
    unsafe { world.dismantle() };
    returned
}

/// What is in the rings of a wheel: it notices when it is looked at too late. (It takes room in
/// every world, as a bucket does.)
struct Room(Life, u64);

impl Drop for Room {
    fn drop(&mut self) {
        self.0.end();
    }
}

#[test]
fn a_ring_is_freed_when_nobody_reads_it_any_more() {
    check(1, || {
        let rings = Arc::new(Wheel::new(wheel(2, 1), |_, slot| Room(Life::begin(), slot.into())));
        let place = Place { level: 1, slot: 1, expiration: Tick::ZERO };
        assert!(rings.bucket(place).is_ok());
        let reader = {
            let rings = rings.clone();
            thread::spawn(move || {
                let _reader = entry::read();
                let room = rings.get(place);
                // A step, before which others may come.
                let again = rings.get(place);
                room.inspect(|room| room.0.look());
                assert!(room.is_none_or(|room| room.1 == 1));
                again.is_none_or(|_| room.is_some())
            })
        };
        rings.close();
        // SAFETY: the other thread is a reader.
        unsafe { rings.dismantle() };
        collect();
        assert!(rings.bucket(place).is_err());
        assert!(reader.join().unwrap(), "what is gone does not come back");
    });
}

#[test]
fn who_files_by_number_is_in_time_or_refused() {
    check(0, || {
        let world = World::new(wheel(2, 1));
        let mut hand = Hand::new(&world);
        let producer = thread::spawn(move || (hand.schedule_by_number(1, 0), hand));
        let returned = end(&world);
        let (timer, mut hand) = producer.join().unwrap();
        assert_eq!(returned, usize::from(timer.is_some()));
        hand.detach(timer);
        assert!(hand.schedule_by_number(1, 0).is_none());
    });
}

#[test]
fn a_level_that_is_made_in_time_goes_with_the_others() {
    check(1, || {
        let world = World::with(wheel(2, 2), Bell::None, 1);
        let mut hand = Hand::new(&world);
        let producer = thread::spawn(move || (hand.schedule_by_number(3, 0), hand));
        let returned = end(&world);
        let (timer, mut hand) = producer.join().unwrap();
        assert_eq!(returned, usize::from(timer.is_some()));
        hand.detach(timer);
    });
}

#[test]
fn a_reset_to_an_earlier_time_is_in_time_or_leaves_the_payload_in_the_handle() {
    check(1, || {
        let world = World::new(wheel(4, 2));
        let mut hand = Hand::new(&world);
        let mut timer = hand.schedule(6, 0);
        let thread = thread::spawn(move || (hand.reset(&mut timer, 1, 0), timer, hand));
        end(&world);
        let (moved, timer, mut hand) = thread.join().unwrap();
        match fate(0) {
            Some(Fate::Returned) => hand.detach(timer),
            // The engine's memory is gone, and the handle has its entry still.
            None => assert!(!moved && hand.cancel(timer)),
            other => panic!("{other:?}"),
        }
    });
}

#[test]
fn an_announcement_ends_before_the_wheel_is_gone_or_finds_it_gone() {
    check(1, || {
        let rung = Arc::new(AtomicBool::new(false));
        let hook = {
            let rung = rung.clone();
            Hook::new(move || rung.store(true, Ordering::Release))
        };
        let world = World::with(wheel(2, 1), Bell::Hook(hook), 1);
        world.make_levels();
        world.shard.doorbell().publish(Tick::NEVER);
        let mut hand = Hand::new(&world);
        // The producer is the first thread: to stop it anywhere takes one preemption.
        let ender = {
            let world = world.clone();
            thread::spawn(move || {
                let returned = end(&world);
                collect();
                returned
            })
        };
        let timer = hand.schedule_by_number(1, 0);
        let returned = ender.join().unwrap();
        assert_eq!(returned, usize::from(timer.is_some()));
        assert!(!has_run(0));
        hand.detach(timer);
    });
}

#[test]
fn seats_that_are_given_up_while_the_depots_go_are_freed() {
    check(1, || {
        let world = World::new(wheel(2, 1));
        let mut hand = Hand::new(&world);
        let timers = [(); 2].map(|()| hand.schedule(1, 0).unwrap());
        let thread = thread::spawn(move || {
            let cancelled = timers.map(|timer| hand.cancel(timer));
            hand.clear();
            (cancelled, hand)
        });
        let returned = end(&world);
        let (cancelled, _hand) = thread.join().unwrap();
        assert_eq!(returned, cancelled.iter().filter(|&&cancelled| !cancelled).count());
    });
}
