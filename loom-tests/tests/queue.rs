//! The queue of a pool: what is pushed is taken, and nobody waits for ever.
//!
//! Who races: producers (reapers), workers, workers that step aside because they wait for a
//! producer, one that closes the queue. Asserted: each payload is taken once, or its producer still
//! has it and knows why; a producer that waits is woken by room, by the end, or when no worker is
//! left to make room; a worker that sleeps is woken by a payload or by the end. A wake-up that is
//! lost shows as a deadlock.
//!
//! The queue is one lock and two conditions, without an atomic access of its own: so it is no
//! handshake of orderings, and what is modelled is who waits for whom.

use std::sync::Arc;
use std::vec;

use loom_tests::{Event, check};
use tickless_sync::queue::{Done, Patience, Pushed, Queue, Source};
use tickless_sync::{Counter, Ordering::Relaxed, UnsafeCell, thread};

/// A payload that is not atomic: the checker reports who looks at it unordered.
struct Payload(UnsafeCell<u32>);

/// Payloads that a producer hands over.
struct Deal(vec::IntoIter<Payload>);

/// A queue, and how many payloads were run: by workers, and by producers that were left with them.
struct Rig {
    queue: Queue<Payload>,
    taken: Counter,
    kept: Counter,
}

// SAFETY: it has one owner at a time; the checker reports if it has not.
unsafe impl Send for Payload {}

impl Payload {
    fn run(self) {
        // SAFETY: it is ours alone.
        self.0.with_mut(|cell| unsafe { *cell += 1 });
    }
}

impl Source for Deal {
    type Item = Payload;

    fn left(&self) -> usize {
        self.0.len()
    }

    fn pull(&mut self) -> Option<Payload> {
        self.0.next()
    }
}

impl Rig {
    fn new(bound: usize, workers: usize) -> Arc<Rig> {
        let (taken, kept) = (Counter::new(0), Counter::new(0));
        Arc::new(Rig { queue: Queue::new(bound, workers), taken, kept })
    }

    /// Pushes payloads with patience; what it is left with, because nobody makes room, it runs.
    fn produce(&self, payloads: usize) -> Pushed {
        let payloads: Vec<_> = (0..payloads).map(|_| Payload(UnsafeCell::new(0))).collect();
        let mut deal = Deal(payloads.into_iter());
        loop {
            let pushed = self.queue.push(&mut deal, Patience::Waits);
            match (pushed, deal.pull()) {
                (Pushed::Full, Some(payload)) => {
                    payload.run();
                    self.kept.fetch_add(1, Relaxed);
                    self.queue.count_inline(Done::Ran);
                }
                (_, rest) => {
                    self.queue.count_dropped(usize::from(rest.is_some()) + deal.left());
                    return pushed;
                }
            }
        }
    }

    /// A worker's life.
    fn work(&self) {
        let mut before = None;
        while self.work_once(before) {
            before = Some(Done::Ran);
        }
    }

    fn work_once(&self, before: Option<Done>) -> bool {
        let payload = self.queue.take(before);
        let is_there = payload.is_some();
        if let Some(payload) = payload {
            payload.run();
            self.taken.fetch_add(1, Relaxed);
        }
        is_there
    }

    /// What was counted, once all have returned: taken, kept and dropped.
    fn sums(&self) -> (u64, u64, u64) {
        let stats = self.queue.stats();
        assert_eq!((stats.queued, stats.running, stats.panicked), (0, 0, 0));
        assert_eq!(stats.ran, self.taken.load(Relaxed));
        assert_eq!(stats.ran_inline, self.kept.load(Relaxed));
        (stats.ran, stats.ran_inline, stats.dropped)
    }
}

/// Runs `f` on a thread of its own.
fn on_thread<R: Send + 'static>(
    rig: &Arc<Rig>,
    f: impl FnOnce(&Rig) -> R + Send + 'static,
) -> thread::JoinHandle<R> {
    let rig = rig.clone();
    thread::spawn(move || f(&rig))
}

#[test]
fn two_workers_empty_the_queue_and_leave() {
    check(3, || {
        let rig = Rig::new(4, 2);
        let workers = [on_thread(&rig, Rig::work), on_thread(&rig, Rig::work)];
        assert_eq!(rig.produce(2), Pushed::All);
        rig.queue.close();
        for worker in workers {
            worker.join().unwrap();
        }
        assert_eq!(rig.sums(), (2, 0, 0));
    });
}

#[test]
fn every_worker_that_has_something_to_take_is_woken() {
    // Each of the two payloads needs the other to be under way, as two that meet do.
    check(3, || {
        let (rig, here, there) = (Rig::new(2, 2), Event::new(), Event::new());
        let meet = |mine: &Arc<Event>, other: &Arc<Event>| {
            let (mine, other) = (mine.clone(), other.clone());
            move |rig: &Rig| {
                assert!(rig.work_once(None));
                mine.comes();
                other.wait();
                rig.work_once(Some(Done::Ran))
            }
        };
        let one = on_thread(&rig, meet(&here, &there));
        let other = on_thread(&rig, meet(&there, &here));
        assert_eq!(rig.produce(2), Pushed::All);
        // Not before they have met: a close wakes everybody.
        here.wait();
        there.wait();
        rig.queue.close();
        assert!(!one.join().unwrap() && !other.join().unwrap());
        assert_eq!(rig.sums(), (2, 0, 0));
    });
}

#[test]
fn a_producer_that_waits_for_room_gets_it() {
    check(3, || {
        let rig = Rig::new(2, 1);
        let worker = on_thread(&rig, Rig::work);
        assert_eq!(rig.produce(5), Pushed::All);
        rig.queue.close();
        worker.join().unwrap();
        assert_eq!(rig.sums(), (5, 0, 0));
    });
}

#[test]
fn a_producer_that_waits_goes_on_as_soon_as_there_is_room_for_one() {
    check(3, || {
        let rig = Rig::new(4, 1);
        let producer = on_thread(&rig, |rig| rig.produce(5));
        // The worker takes one, and no second one before the producer is done.
        assert!(rig.work_once(None));
        assert_eq!(producer.join().unwrap(), Pushed::All);
        rig.queue.close();
        while rig.work_once(Some(Done::Ran)) {}
        assert_eq!(rig.sums(), (5, 0, 0));
    });
}

/// Each of two producers has one, and there is room for both, one after the other.
#[test]
fn the_first_of_two_that_wait_lets_the_second_have_the_rest_of_the_room() {
    check(3, || {
        let rig = Rig::new(2, 1);
        assert_eq!(rig.produce(2), Pushed::All);
        let producers = [(); 2].map(|()| on_thread(&rig, |rig| rig.produce(1)));
        assert!(rig.work_once(None));
        assert!(rig.work_once(Some(Done::Ran)));
        for producer in producers {
            assert_eq!(producer.join().unwrap(), Pushed::All);
        }
        rig.queue.close();
        while rig.work_once(Some(Done::Ran)) {}
        assert_eq!(rig.sums(), (4, 0, 0));
    });
}

#[test]
fn two_producers_that_wait_for_room_get_it() {
    check(2, || {
        let rig = Rig::new(2, 1);
        let worker = on_thread(&rig, Rig::work);
        let other = on_thread(&rig, |rig| rig.produce(3));
        assert_eq!(rig.produce(3), Pushed::All);
        assert_eq!(other.join().unwrap(), Pushed::All);
        rig.queue.close();
        worker.join().unwrap();
        assert_eq!(rig.sums(), (6, 0, 0));
    });
}

#[test]
fn three_producers_share_the_room_for_one() {
    check(2, || {
        let rig = Rig::new(1, 1);
        let worker = on_thread(&rig, Rig::work);
        let others = [on_thread(&rig, |rig| rig.produce(1)), on_thread(&rig, |rig| rig.produce(2))];
        assert_eq!(rig.produce(1), Pushed::All);
        for other in others {
            assert_eq!(other.join().unwrap(), Pushed::All);
        }
        rig.queue.close();
        worker.join().unwrap();
        assert_eq!(rig.sums(), (4, 0, 0));
    });
}

#[test]
fn nobody_waits_for_a_worker_that_waits_for_him() {
    check(3, || {
        let rig = Rig::new(1, 1);
        let producer = on_thread(&rig, |rig| rig.produce(3));
        // The only worker waits for the producer, for whom there is no room.
        assert!(rig.work_once(None));
        rig.queue.yield_while();
        assert_eq!(producer.join().unwrap(), Pushed::All);
        rig.queue.come_back();
        rig.queue.close();
        while rig.work_once(Some(Done::Ran)) {}
        let (taken, kept, dropped) = rig.sums();
        assert_eq!((taken + kept, dropped), (3, 0));
    });
}

#[test]
fn two_workers_that_both_wait_for_a_producer_let_it_go() {
    check(3, || {
        let (rig, end) = (Rig::new(1, 2), Event::new());
        let aside = |end: &Arc<Event>| {
            let end = end.clone();
            move |rig: &Rig| {
                rig.queue.yield_while();
                end.wait();
                rig.queue.come_back();
                rig.work();
            }
        };
        let workers = [on_thread(&rig, aside(&end)), on_thread(&rig, aside(&end))];
        assert_eq!(rig.produce(2), Pushed::All);
        end.comes();
        rig.queue.close();
        for worker in workers {
            worker.join().unwrap();
        }
        let (taken, kept, dropped) = rig.sums();
        assert_eq!((taken + kept, dropped), (2, 0));
    });
}

#[test]
fn a_producer_waits_while_one_worker_is_there() {
    check(3, || {
        let (rig, end) = (Rig::new(1, 2), Event::new());
        let aside = {
            let end = end.clone();
            on_thread(&rig, move |rig| {
                rig.queue.yield_while();
                end.wait();
                rig.queue.come_back();
                rig.work();
            })
        };
        let worker = on_thread(&rig, Rig::work);
        assert_eq!(rig.produce(2), Pushed::All);
        end.comes();
        rig.queue.close();
        aside.join().unwrap();
        worker.join().unwrap();
        assert_eq!(rig.sums(), (2, 0, 0), "all of it by workers");
    });
}

#[test]
fn a_worker_that_is_back_is_waited_for_again() {
    check(3, || {
        let (rig, end) = (Rig::new(1, 1), Event::new());
        let worker = {
            let end = end.clone();
            on_thread(&rig, move |rig| {
                rig.queue.yield_while();
                rig.queue.come_back();
                end.comes();
                rig.work();
            })
        };
        end.wait();
        assert_eq!(rig.produce(2), Pushed::All);
        rig.queue.close();
        worker.join().unwrap();
        assert_eq!(rig.sums(), (2, 0, 0), "all of it by the worker");
    });
}

#[test]
fn a_close_lets_everybody_go() {
    check(3, || {
        let rig = Rig::new(1, 1);
        let worker = on_thread(&rig, Rig::work);
        let producer = on_thread(&rig, |rig| rig.produce(3));
        rig.queue.close();
        let pushed = producer.join().unwrap();
        worker.join().unwrap();
        let (taken, kept, dropped) = rig.sums();
        assert_eq!((taken + dropped, kept), (3, 0));
        assert_eq!(pushed == Pushed::All, dropped == 0);
    });
}

#[test]
fn a_close_lets_a_producer_go_that_no_worker_serves() {
    check(3, || {
        let rig = Rig::new(1, 1);
        let producer = on_thread(&rig, |rig| rig.produce(2));
        rig.queue.close();
        assert_eq!(producer.join().unwrap(), Pushed::Over);
        rig.work();
        let (taken, kept, dropped) = rig.sums();
        assert_eq!((taken + dropped, kept), (2, 0));
    });
}

/// One worker has something to do, the other waits for the caller.
#[test]
fn who_waits_for_the_workers_waits_for_all_but_those_that_wait_for_him() {
    check(3, || {
        let (rig, end) = (Rig::new(2, 2), Event::new());
        assert_eq!(rig.produce(2), Pushed::All);
        let aside = {
            let end = end.clone();
            on_thread(&rig, move |rig| {
                rig.queue.yield_while();
                end.wait();
                rig.queue.come_back();
                rig.work();
            })
        };
        let worker = on_thread(&rig, Rig::work);
        rig.queue.close();
        assert!(!rig.queue.wait_for_workers(), "one has not ended");
        assert_eq!(rig.sums(), (2, 0, 0), "the other has");
        end.comes();
        aside.join().unwrap();
        worker.join().unwrap();
        assert!(rig.queue.wait_for_workers());
    });
}
