//! TWIN: owners of one value let go of it.
//!
//! Who races: two owners, or three, each on a thread of its own; one of them makes another first,
//! or two of them go at once, or one is the main owner and has a value of its own.
//! Asserted: each value is dropped once, after all that its owners did to it, and no memory is
//! touched after that (the checker's cell and life see to these).

use std::sync::Arc;

use loom_tests::check;
use tickless_sync::protocol::twin::{Main, Twin};
use tickless_sync::{Counter, Life, Ordering::Relaxed, UnsafeCell, thread};

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
    fn new(dropped: &Arc<Counter>) -> Value {
        Value { read: UnsafeCell::new(7), dropped: dropped.clone(), life: Life::begin() }
    }

    fn pair() -> ([Twin<Value>; 2], Arc<Counter>) {
        let dropped = Arc::new(Counter::new(0));
        (Twin::pair(Value::new(&dropped)), dropped)
    }

    /// As `pair`; the first owner is the main one, whose own value counts too.
    fn main_pair() -> (Main<Value, Value>, Twin<Value, Value>, Arc<Counter>) {
        let dropped = Arc::new(Counter::new(0));
        let (main, twin) = Main::pair(Value::new(&dropped), Value::new(&dropped));
        (main, twin, dropped)
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

fn on_thread<O: 'static>(owner: Twin<Value, O>) -> thread::JoinHandle<()> {
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

#[test]
fn two_that_go_at_once_leave_the_value_to_a_third() {
    check(3, || {
        let ([one, two], dropped) = Value::pair();
        let third = two.clone();
        let other = thread::spawn(move || {
            one.look();
            Twin::drop_both(one, two);
        });
        third.look();
        drop(third);
        other.join().unwrap();
        assert_eq!(dropped.load(Relaxed), 1);
    });
}

#[test]
fn the_own_value_goes_with_the_main_owner_and_the_shared_one_with_the_last() {
    check(3, || {
        let (mut main, twin, dropped) = Value::main_pair();
        let other = on_thread(twin);
        main.own().look();
        main.look();
        drop(main);
        assert!(dropped.load(Relaxed) >= 1, "its own");
        other.join().unwrap();
        assert_eq!(dropped.load(Relaxed), 2);
    });
}

#[test]
fn what_the_main_owner_takes_out_outlives_it() {
    check(3, || {
        let (main, twin, dropped) = Value::main_pair();
        let other = on_thread(main.twin().clone());
        let (own, main) = main.split();
        Twin::drop_both(main, twin);
        own.look();
        other.join().unwrap();
        assert_eq!(dropped.load(Relaxed), 1);
        drop(own);
        assert_eq!(dropped.load(Relaxed), 2);
    });
}
