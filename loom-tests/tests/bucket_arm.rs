//! BUCKET-ARM: push, then rely on the bucket or post a notice and publish, against the clock,
//! the take, and the reading of notices.
#![cfg(loom)]

use loom::thread;
use loom_tests::{Hand, World, check, has_run, wheel};

#[test]
fn a_timer_is_covered_once_its_own_producer_returned() {
    check(3, || {
        let world = World::new(wheel(2, 2));
        let hands = [Hand::new(&world), Hand::new(&world)];
        let [mut one, mut two] = hands;
        let one = thread::spawn(move || (one.schedule_detached(1, 0), one));
        let two = thread::spawn(move || (two.schedule_detached(1, 0), two));
        world.turn(1);
        let (id, _two) = two.join().unwrap();
        world.turn(1);
        assert!(has_run(id.unwrap()));
        let (id, _one) = one.join().unwrap();
        world.turn(1);
        assert!(has_run(id.unwrap()));
        world.check(1);
    });
}
