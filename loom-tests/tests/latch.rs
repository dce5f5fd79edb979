//! LATCH: one thread opens it, others wait for that, or give up.
//!
//! Who races: the opener, which runs the body, and one or two that watch: they sleep until they are
//! woken, leave before that, come back, or take a place that another has left.
//! Asserted: nobody sleeps on; each waiter is woken or taken back, once; a thread that finds the
//! latch open sees what the opener did before; a place belongs to one thread at a time (the
//! checker's cells see to the last two).

use std::sync::Arc;

use loom_tests::{check, on_thread};
use tickless_sync::protocol::latch::Latch;
use tickless_sync::{Counter, Ordering::Relaxed, Thread, UnsafeCell, park, thread};

/// What the opener does before it opens, and a latch.
struct Door<W> {
    latch: Latch<W>,
    done: UnsafeCell<u32>,
}

// SAFETY: the opener writes before it opens, others read after that: the checker looks.
unsafe impl<W: Send> Sync for Door<W> {}

/// A waiter that counts how often it was woken, and that only one thread may touch at a time.
struct Waiter {
    touched: UnsafeCell<u32>,
    woken: Arc<Counter>,
}

// SAFETY: the checker reports two threads at one waiter.
unsafe impl Send for Waiter {}

impl<W: Send + 'static> Door<W> {
    fn new() -> Arc<Door<W>> {
        Arc::new(Door { latch: Latch::default(), done: UnsafeCell::new(0) })
    }

    fn open(&self, wake: impl FnMut(W)) {
        // SAFETY: the latch is not open.
        self.done.with_mut(|done| unsafe { *done = 7 });
        self.latch.open(wake);
    }

    /// For a thread that finds the latch open.
    fn look(&self) {
        // SAFETY: the latch is open.
        self.done.with(|done| assert_eq!(unsafe { *done }, 7));
    }
}

impl Door<Thread> {
    /// Sleeps until the latch is open.
    fn sleep(&self) {
        if self.latch.watch(thread::current()).is_some() {
            while !self.latch.is_open() {
                park(None);
            }
        }
        self.look();
    }
}

impl Waiter {
    fn new() -> (Waiter, Arc<Counter>) {
        let woken = Arc::new(Counter::new(0));
        (Waiter { touched: UnsafeCell::new(0), woken: woken.clone() }, woken)
    }

    fn touch(&self) {
        // SAFETY: one thread has the waiter.
        self.touched.with_mut(|touched| unsafe { *touched += 1 });
    }

    fn wake(self) {
        self.touch();
        self.woken.fetch_add(1, Relaxed);
    }
}

/// Starts a thread that sleeps until the latch is open.
fn sleeper(door: &Arc<Door<Thread>>) -> thread::JoinHandle<()> {
    on_thread(door, Door::sleep)
}

#[test]
fn who_sleeps_is_woken_and_sees_what_was_done() {
    check(3, || {
        let door = Door::new();
        let sleeper = sleeper(&door);
        door.open(|thread: Thread| thread.unpark());
        sleeper.join().unwrap();
    });
}

#[test]
fn two_that_sleep_are_woken() {
    check(3, || {
        let door = Door::new();
        let sleepers = [sleeper(&door), sleeper(&door)];
        door.open(|thread: Thread| thread.unpark());
        sleepers.into_iter().for_each(|sleeper| sleeper.join().unwrap());
    });
}

#[test]
fn a_waiter_is_woken_or_taken_back() {
    check(3, || {
        let door = Door::new();
        let leaver = on_thread(&door, |door| {
            let (waiter, woken) = Waiter::new();
            waiter.touch();
            let Some(place) = door.latch.watch(waiter) else {
                door.look();
                return woken;
            };
            match door.latch.leave(place) {
                Some(waiter) => waiter.wake(),
                None => {
                    assert!(door.latch.is_open());
                    door.look();
                }
            }
            woken
        });
        door.open(Waiter::wake);
        assert!(leaver.join().unwrap().load(Relaxed) <= 1);
    });
}

#[test]
fn who_leaves_and_comes_back_is_woken_or_told() {
    check(3, || {
        let door = Door::new();
        let comer = on_thread(&door, |door| {
            let (first, woken_first) = Waiter::new();
            let place = door.latch.watch(first);
            let is_back = place.and_then(|place| door.latch.leave(place)).is_some();
            let (second, woken) = Waiter::new();
            let waits = door.latch.watch(second).is_some();
            if !waits {
                door.look();
                assert_eq!(Arc::strong_count(&woken), 1, "a waiter that nobody takes is dropped");
            }
            (is_back, woken_first, waits, woken)
        });
        door.open(Waiter::wake);
        let (is_back, woken_first, waits, woken) = comer.join().unwrap();
        assert!(!is_back || woken_first.load(Relaxed) == 0, "it was taken back");
        assert_eq!(woken.load(Relaxed), u64::from(waits));
    });
}

#[test]
fn a_place_that_one_leaves_is_anothers() {
    check(3, || {
        let door = Door::new();
        let (first, woken_first) = Waiter::new();
        let place = door.latch.watch(first).expect("it is not open");
        let other = on_thread(&door, |door| {
            let (second, woken) = Waiter::new();
            (door.latch.watch(second), woken)
        });
        door.latch.leave(place).expect("it is not open").touch();
        let (taken, woken) = other.join().unwrap();
        door.open(Waiter::wake);
        assert!(taken.is_some_and(|place| place <= 1));
        assert_eq!((woken_first.load(Relaxed), woken.load(Relaxed)), (0, 1));
    });
}

#[test]
fn a_place_changes_hands_while_the_latch_opens() {
    check(2, || {
        let door = Door::new();
        let (first, woken_first) = Waiter::new();
        let place = door.latch.watch(first).expect("it is not open");
        let leaver =
            on_thread(&door, move |door| door.latch.leave(place).inspect(Waiter::touch).is_some());
        let comer = on_thread(&door, |door| {
            let (second, woken) = Waiter::new();
            (door.latch.watch(second).is_some(), woken)
        });
        door.open(Waiter::wake);
        assert_eq!(woken_first.load(Relaxed), u64::from(!leaver.join().unwrap()));
        let (waits, woken) = comer.join().unwrap();
        assert_eq!(woken.load(Relaxed), u64::from(waits));
    });
}

/// Nothing but the place orders the two: the call is a safe one, and the number a small one.
#[test]
fn whoever_takes_a_waiter_back_has_it_as_it_was_left() {
    check(3, || {
        let door = Door::new();
        let place = door.latch.watch(Waiter::new().0).expect("it is not open");
        assert!(door.latch.leave(place).is_some());
        let comer = on_thread(&door, |door| {
            let (waiter, woken) = Waiter::new();
            waiter.touch();
            assert!(door.latch.watch(waiter).is_some(), "it is not open");
            woken
        });
        let taken = door.latch.leave(place);
        taken.iter().for_each(Waiter::touch);
        let woken = comer.join().unwrap();
        door.open(Waiter::wake);
        assert_eq!(woken.load(Relaxed), u64::from(taken.is_none()));
    });
}
