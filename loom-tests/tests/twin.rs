//! TWIN: owners of one value let go of it.
//!
//! Who races: two owners, or three, each on a thread of its own; one of them makes another first.
//! Asserted: the value is dropped once, after all that its owners did to it, and no memory is
//! touched after that (the checker's cell and life see to these).

use std::sync::Arc;

use loom_tests::check;
use tickless::protocol::twin::Twin;
use tickless::sync::{Counter, Life, Ordering::Relaxed, UnsafeCell, thread};

/// A value that each owner but one reads, and that its drop writes.
struct Value {
    read: UnsafeCell<u32>,
    dropped: Arc<Counter>,
    life: Life,
}

// SAFETY: owners read the cell, and the last one writes it: the checker reports if it was not.
unsafe impl Sync for Value {}
// SAFETY: as above.
unsafe impl Send for Value {}

impl Value {
    fn pair() -> ([Twin<Value>; 2], Arc<Counter>) {
        let dropped = Arc::new(Counter::new(0));
        let value =
            Value { read: UnsafeCell::new(7), dropped: dropped.clone(), life: Life::begin() };
        (Twin::pair(value), dropped)
    }

    fn look(&self) {
        self.life.look();
        // SAFETY: only the drop writes it.
        self.read.with(|cell| assert_eq!(unsafe { *cell }, 7));
    }
}

impl Drop for Value {
    fn drop(&mut self) {
        // SAFETY: nobody else owns it.
        self.read.with_mut(|cell| unsafe { *cell = 0 });
        self.dropped.fetch_add(1, Relaxed);
        self.life.end();
    }
}

fn on_thread(owner: Twin<Value>) -> thread::JoinHandle<()> {
    thread::spawn(move || owner.look())
}

#[test]
fn the_later_of_two_drops_the_value() {
    check(3, || {
        let ([one, two], dropped) = Value::pair();
        let other = on_thread(one);
        two.look();
        drop(two);
        other.join().unwrap();
        assert_eq!(dropped.load(Relaxed), 1);
    });
}

#[test]
fn the_last_of_three_drops_the_value() {
    check(3, || {
        let ([one, two], dropped) = Value::pair();
        let others = [on_thread(two.clone()), on_thread(two)];
        one.look();
        drop(one);
        others.into_iter().for_each(|other| other.join().unwrap());
        assert_eq!(dropped.load(Relaxed), 1);
    });
}

#[test]
fn an_owner_that_is_made_meanwhile_keeps_the_value() {
    check(3, || {
        let ([one, two], dropped) = Value::pair();
        let other = on_thread(one);
        let another = two.clone();
        drop(two);
        another.look();
        drop(another);
        other.join().unwrap();
        assert_eq!(dropped.load(Relaxed), 1);
    });
}
