//! The fences of TAKEOVER and STOP: of a thread that stores, fences lightly and loads, and one that
//! stores, fences heavily and loads, at least one sees the other's store.
//!
//! Who races: two such threads, or three. Asserted: at least one sees; and, by the model checker,
//! that no other two fences promise this, so that a model in which a heavy fence is missing can
//! fail.

use std::sync::Arc;

use loom_tests::{check, on_thread};
use tickless_core::os::asymmetric;
use tickless_sync::{AtomicBool, Ordering, fence};

/// What two threads tell each other.
struct Told([AtomicBool; 2]);

impl Told {
    fn nothing() -> Arc<Told> {
        Arc::new(Told([(); 2].map(|()| AtomicBool::new(false))))
    }

    /// One of the threads tells, fences, and looks what the other one has told.
    fn tell(&self, this: usize, fence: fn()) -> bool {
        // ORDER: Relaxed, both - the fences are what the model is about.
        self.0[this].store(true, Ordering::Relaxed);
        fence();
        self.0[1 - this].load(Ordering::Relaxed)
    }
}

fn light() {
    if asymmetric::is_light() {
        asymmetric::light();
    } else {
        full();
    }
}

fn heavy() {
    assert!(asymmetric::heavy() || !asymmetric::is_light(), "a refusal is for ever");
}

fn full() {
    fence(Ordering::SeqCst);
}

#[test]
fn of_a_light_and_a_heavy_side_one_sees_the_other() {
    check(3, || {
        let told = Told::nothing();
        let other = on_thread(&told, |told| told.tell(1, light));
        let this = told.tell(0, heavy);
        assert!(this | other.join().unwrap());
    });
}

#[test]
fn the_side_that_fences_heavily_may_be_the_later_one() {
    check(3, || {
        let told = Told::nothing();
        let other = on_thread(&told, |told| told.tell(1, heavy));
        let this = told.tell(0, light);
        assert!(this | other.join().unwrap());
    });
}

/// The heavy side looks at two others.
#[test]
fn a_heavy_fence_pairs_with_those_of_two_threads() {
    check(2, || {
        let told = [(); 2].map(|()| Told::nothing());
        let others = [&told[0], &told[1]].map(|told| on_thread(told, |told| told.tell(1, light)));
        // ORDER: Relaxed, all - as in `tell`.
        told.iter().for_each(|told| told.0[0].store(true, Ordering::Relaxed));
        heavy();
        let these = [&told[0], &told[1]].map(|told| told.0[1].load(Ordering::Relaxed));
        for (this, other) in these.into_iter().zip(others) {
            assert!(this | other.join().unwrap());
        }
    });
}

/// The model checker finds two threads that do not see each other.
#[cfg(loom)]
fn may_both_miss(fences: [fn(); 2]) -> bool {
    use tickless_sync::Counter;

    let missed = Arc::new(Counter::new(0));
    let count = missed.clone();
    check(3, move || {
        let told = Told::nothing();
        let other = on_thread(&told, move |told| told.tell(1, fences[1]));
        if !(told.tell(0, fences[0]) | other.join().unwrap()) {
            // ORDER: Relaxed - it is read when all is over.
            count.fetch_add(1, Ordering::Relaxed);
        }
    });
    missed.load(Ordering::Relaxed) > 0
}

#[cfg(loom)]
#[test]
fn a_light_fence_pairs_with_a_heavy_one_and_with_no_other() {
    assert!(may_both_miss([light, light]));
    assert!(may_both_miss([light, full]) && may_both_miss([full, light]));
    assert!(!may_both_miss([full, full]) && !may_both_miss([heavy, full]));
    assert!(!may_both_miss([heavy, light]) && !may_both_miss([heavy, heavy]));
}
