//! RELEASE: list, handle and producer let go of an entry, and the last of them releases it.
//!
//! Who races: threads that drop handles or give seats up, and the reaper that fires, unlinks,
//! buries and sweeps. Asserted: each entry is freed once (the checker reports leaks, double
//! frees, and uses after or beside a free), and never reused while another still uses it.

use std::ptr::NonNull;

use loom_tests::{Hand, World, check, collect, has_run, wheel};
use tickless_core::doorbell::Bell;
use tickless_core::entry::{self, Entry, Linked, Phase};
use tickless_core::memory::Shared;
use tickless_core::producer::{self, Deferred, Producer, WithProducer};
use tickless_core::time::Tick;
use tickless_sync::{Arc, AtomicUsize, Ordering, thread};

/// One of an entry's two holders.
struct Holder(NonNull<Entry<()>>);

// SAFETY: the two decide by the entry's word who does what.
unsafe impl Send for Holder {}

impl Holder {
    fn entry(&self) -> &Entry<()> {
        // SAFETY: it is freed by the thread that lets go last.
        unsafe { self.0.as_ref() }
    }

    /// Frees the entry if its other holder has let go.
    fn free_if(self, is_last: bool) {
        if is_last {
            // SAFETY: nobody else holds it.
            unsafe { Entry::free(self.0) };
        }
    }
}

/// The timer of an engine that is about to stop, as its handle and its list hold it.
fn pending() -> [Holder; 2] {
    let entry = Entry::allocate(0);
    // SAFETY: it is new, so it is held here alone.
    unsafe { entry.as_ref().put_payload(()) };
    let place = wheel(4, 1).place(Tick::new(1), Tick::ZERO);
    // SAFETY: as above; the payload is put.
    unsafe { entry.as_ref().make_pending(Tick::new(1), place, 0, true) };
    [Holder(entry), Holder(entry)]
}

/// A stop takes the timer out of its list. Returns whether it got the payload, and frees the entry
/// if its handle has let go.
fn stop(list: Holder) -> bool {
    loop {
        let word = list.entry().word();
        let (is_mine, has_payload) = if word.phase() == Phase::Vacant {
            // SAFETY: the list holds the entry, which is vacant.
            (unsafe { Entry::unlink(list.0, word) }, false)
        } else {
            // SAFETY: the list holds the entry, which is pending.
            (unsafe { Entry::end(list.0, word, Phase::Stopped, || (), drop) }, true)
        };
        if let Some(is_mine) = is_mine {
            list.free_if(is_mine);
            return has_payload;
        }
    }
}

#[test]
fn a_handle_is_dropped_while_its_timer_fires_and_the_memory_is_reused() {
    check(3, || {
        let world = World::new(wheel(4, 1));
        let mut hand = Hand::new(&world);
        let timer = hand.schedule(1, 0).unwrap();
        let thread = thread::spawn(move || {
            hand.detach(timer);
            (hand.schedule_detached(2, 0).unwrap(), hand)
        });
        world.turn(1);
        let (next, _hand) = thread.join().unwrap();
        world.check(1);
        world.turn_until_idle(1);
        assert!(has_run(0) && !has_run(next));
        world.turn_until_idle(2);
        assert!(has_run(next));
    });
}

#[test]
fn a_handle_is_dropped_while_its_timer_is_refiled() {
    check(3, || {
        let world = World::new(wheel(2, 2));
        let mut hand = Hand::new(&world);
        let timer = hand.schedule(3, 0).unwrap();
        let thread = thread::spawn(move || {
            hand.detach(timer);
            hand
        });
        world.turn(2);
        world.turn(3);
        let _hand = thread.join().unwrap();
        assert!(has_run(0));
        world.check(3);
    });
}

#[test]
fn a_fired_timers_handle_is_used_while_the_reaper_lets_go() {
    check(3, || {
        let world = World::new(wheel(4, 1));
        let mut hand = Hand::new(&world);
        let timer = hand.schedule(1, 0).unwrap();
        let thread = thread::spawn(move || {
            let cancelled = hand.cancel(timer);
            (cancelled, hand.schedule_detached(3, 0), hand.schedule_detached(3, 0), hand)
        });
        world.turn(1);
        world.turn(2);
        let (cancelled, .., _hand) = thread.join().unwrap();
        assert_eq!(has_run(0), !cancelled);
        world.check(2);
    });
}

/// Without depots seats are given up and memory goes straight back to the allocator.
#[test]
fn a_seat_is_given_up_while_its_bucket_opens() {
    check(3, || {
        let world = World::with(wheel(4, 1), Bell::None, 0);
        let mut hand = Hand::new(&world);
        let timer = hand.schedule(1, 0).unwrap();
        assert!(hand.cancel(timer));
        let thread = thread::spawn(move || {
            hand.clear();
            hand
        });
        world.turn(1);
        let _hand = thread.join().unwrap();
        world.check(1);
    });
}

#[test]
fn a_seat_is_given_up_while_its_bucket_is_swept() {
    check(3, || {
        let world = World::with(wheel(4, 1), Bell::None, 0);
        let mut hand = Hand::new(&world);
        let timer = hand.schedule(1, 0).unwrap();
        assert!(hand.cancel(timer));
        world.shard.ask_for_sweep();
        // The writer goes first: see "Who goes first" in the README.
        let reaper = {
            let world = world.clone();
            thread::spawn(move || world.turn_until_idle(0))
        };
        hand.clear();
        reaper.join().unwrap();
        world.check(0);
        world.turn(1);
    });
}

#[test]
fn memory_goes_back_to_the_allocator_beside_a_handle_that_is_dropped() {
    check(3, || {
        let world = World::with(wheel(2, 1), Bell::None, 0);
        let mut hand = Hand::new(&world);
        let timer = hand.schedule(1, 0).unwrap();
        let thread = thread::spawn(move || {
            hand.detach(timer);
            hand
        });
        world.turn(1);
        world.stop();
        // Gives back what the stop gave up: there is no reader to wait for.
        collect();
        let _hand = thread.join().unwrap();
    });
}

#[test]
fn two_handles_of_one_bucket_are_dropped_while_it_opens() {
    check(3, || {
        let world = World::new(wheel(4, 1));
        let hands = [Hand::new(&world), Hand::new(&world)];
        let threads = hands.map(|mut hand| {
            let timer = hand.schedule(1, 0).unwrap();
            thread::spawn(move || {
                hand.detach(timer);
                hand
            })
        });
        world.turn(1);
        let _hands = threads.map(|thread| thread.join().unwrap());
        assert!(has_run(0) && has_run(1));
        world.check(1);
    });
}

#[test]
fn a_handle_is_dropped_while_two_producers_file_there_and_another_cancels() {
    check(1, || {
        let world = World::new(wheel(4, 1));
        let [mut one, mut two, mut three] = [(); 3].map(|()| Hand::new(&world));
        let [dropped, cancelled] = [one.schedule(1, 0), three.schedule(1, 0)];
        let one = thread::spawn(move || {
            one.detach(dropped);
            (one.schedule_detached(2, 0), one)
        });
        let two = thread::spawn(move || (two.schedule_detached(1, 0), two));
        let canceller = thread::spawn(move || (three.cancel(cancelled), three));
        world.turn(1);
        let _producers = [one.join().unwrap(), two.join().unwrap()];
        let (cancelled, _three) = canceller.join().unwrap();
        assert_eq!(has_run(1), !cancelled);
        world.pass(1, 2);
    });
}

/// Nothing but the exchange of the two bits orders the other's last look before the end: here, no
/// epoch stands in between.
#[test]
fn the_last_to_let_go_may_free_at_once() {
    check(3, || {
        let [handle, list] = pending();
        let thread = thread::spawn(move || {
            // SAFETY: this thread has the handle.
            let is_last = unsafe { Entry::let_go(handle.0) };
            handle.free_if(is_last);
        });
        assert!(stop(list));
        thread.join().unwrap();
    });
}

/// To threads that have handles still, the engine is gone.
struct Gone;

impl<T> WithProducer<T> for Gone {
    fn with_producer(
        &mut self,
        _engine: u32,
        _f: impl FnOnce(&mut Producer<T>, &Shared<T>) -> Deferred,
    ) -> bool {
        false
    }
}

/// A reader keeps the engine. A thread that finds that nobody does has not acquired what the reader
/// did before: only the epoch orders its end.
#[test]
fn the_handle_of_an_engine_that_is_gone_frees_after_the_last_reader() {
    check(3, || {
        let keepers = Arc::new(AtomicUsize::new(1));
        let [Holder(handle), list] = pending();
        assert!(stop(list));
        let (shown, kept) = (Holder(handle), keepers.clone());
        let reader = thread::spawn(move || {
            let reader = entry::read();
            // ORDER: Relaxed - where it leads does not matter.
            shown.entry().next().load(Ordering::Relaxed);
            drop(reader);
            // ORDER: Release - as of a reference count.
            kept.fetch_sub(1, Ordering::Release);
        });
        // ORDER: Relaxed - as of a weak reference that finds nothing.
        let is_gone = keepers.load(Ordering::Relaxed) == 0;
        let end = || {
            // SAFETY: this is its handle, and no list reaches the entry.
            assert_eq!(unsafe { producer::let_go(handle, Gone) }, None);
            collect();
        };
        if is_gone {
            end();
        }
        reader.join().unwrap();
        if !is_gone {
            end();
        }
    });
}

#[test]
fn a_timer_is_cancelled_while_its_engine_goes() {
    check(3, || {
        let [handle, list] = pending();
        let thread = thread::spawn(move || {
            let Holder(handle) = { handle };
            // SAFETY: this is its handle.
            unsafe { producer::cancel(handle, Gone) }
        });
        let is_returned = stop(list);
        assert_ne!(thread.join().unwrap(), is_returned, "one of the two gets the payload");
        collect();
    });
}
