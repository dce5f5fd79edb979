//! Random operations from several threads, over geometries, ticks and shards; beside foreign code
//! on the epoch crate's default collector; and with a producer that is frozen by a signal at
//! whatever instruction it is. Each payload is accounted for, none is early, and nothing hangs.
//!
//! Seeds are fixed and printed. `TICKLESS_TEST_SCALE` makes millions of operations of thousands.

mod acts;
#[cfg(all(target_os = "linux", not(tsan)))]
mod freezer;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use acts::Actor;
use crossbeam_epoch as epoch;
use support::account::{Book, Item, Sums, run_all};
use support::scaled;
// One that ThreadSanitizer can follow.
use support::until::wait_until;
use support::watchdog::{Pulse, watched};
use tickless::{Builder, Engine};
use tickless_sync::Mutex;

const HOUR: Duration = Duration::from_secs(3600);
const THREADS: u64 = 4;

const TICKS: [Duration; 4] = [
    Duration::from_micros(1),
    Duration::from_millis(1),
    Duration::from_millis(7),
    Duration::from_millis(100),
];

const SHARDS: [usize; 3] = [1, 2, 5];

/// What an engine is built with.
#[derive(Clone, Copy, Debug)]
struct Shape {
    slots: u32,
    reach: u32,
    tick: Duration,
    shards: usize,
}

// === impl Shape ===

impl Shape {
    /// Every reach, tick and number of shards for so many slots.
    fn all(slots: u32) -> Vec<Shape> {
        let mut reaches = vec![slots, slots / 2, 2];
        reaches.retain(|&reach| reach >= 2);
        reaches.dedup();
        let mut all = Vec::new();
        for reach in reaches {
            for tick in TICKS {
                all.extend(SHARDS.map(|shards| Shape { slots, reach, tick, shards }));
            }
        }
        all
    }

    fn build(&self) -> Engine<Item> {
        let Shape { slots, reach, tick, shards } = *self;
        let builder = Builder::new().slots(slots).reach(reach).tick(tick).shards(shards);
        builder.build_with_handler(run_all).unwrap()
    }
}

/// Operations of each thread: ten million of all four at length.
fn each() -> u64 {
    // Fewer are over before the foreign threads have done their part.
    if scaled(1) == 1 { scaled(1500).max(600) } else { scaled(12_500) }
}

/// Asserts that `check` finds nothing. It counts one shard after the other: of what fires meanwhile
/// it may find less than was counted, and that is looked at again at length.
fn assert_whole(engine: &Engine<Item>) {
    for _ in 0..scaled(1).min(5) {
        let Err(violation) = engine.check() else { return };
        assert!(violation.to_string().ends_with("were counted"), "{violation}");
    }
}

/// Ends an engine that nobody uses any more, and asserts that the books agree with it.
fn end(engine: &Engine<Item>, book: &Book) -> Sums {
    let returned = book.stop(engine);
    let sums = book.close();
    sums.agree_with(engine.stats());
    assert_eq!((sums.returned, sums.dropped), (returned, 0), "{sums:?}");
    sums
}

/// Lets threads do anything at all, for a while, with an engine of this shape.
fn live(shape: Shape, seed: u64, pulse: &Pulse, is_foreign: bool) -> Sums {
    let (engine, each) = (shape.build(), each());
    let foreigners = if is_foreign { each } else { 0 };
    let book = Book::new(THREADS * each + foreigners + 1);
    let market = Arc::new(Mutex::new(Vec::new()));
    let foreign = is_foreign.then(|| Foreign::begin(&book, &engine, foreigners));
    let live = |thread: u64| {
        let around = (shape.tick, shape.slots);
        let mut actor = Actor::new(&book, &engine, around, seed * THREADS + thread);
        let (market, pulse) = (market.clone(), pulse.clone());
        thread::spawn(move || {
            for n in 0..each {
                actor.act(Some(&market));
                if n % 1024 == 0 {
                    pulse.beat();
                }
            }
            market.lock().unwrap().append(&mut actor.give_up());
        })
    };
    let threads: Vec<_> = (0..THREADS).map(live).collect();
    if let Some(foreign) = foreign {
        // A reader of ours, beside the foreign ones: of an engine that has nothing to show.
        let idle = Shape { slots: 2, reach: 2, tick: HOUR, shards: 1 }.build();
        let (mut reads, enough) = (0, (each / 3).min(500));
        while reads < 500 || foreign.deferred.load(Ordering::SeqCst) < enough {
            assert!(idle.snapshot().is_empty());
            reads += 1;
            // It has read beside them by then, and waits for them.
            if reads > 500 {
                thread::sleep(Duration::from_micros(100));
            }
        }
        foreign.end();
    }
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    // However busy the machine is: a reaper comes by before the end, if that does not take long.
    if shape.tick <= TICKS[1] {
        book.schedule_detached(&engine, Duration::ZERO).unwrap();
        wait_until("something fires", || engine.stats().fired > 0);
    }
    // What is left is let go, or used once more after the end.
    let rest = market.lock().unwrap().split_off(1);
    drop(rest);
    pulse.beat();
    // With fifty levels of a thousand buckets it takes a while to look at each.
    if shape.slots < 100 * shape.reach || scaled(1) > 1 {
        assert_whole(&engine);
    }
    let sums = end(&engine, &book);
    let mut last = std::mem::take(&mut *market.lock().unwrap());
    assert!(!last.iter_mut().any(|timer| timer.reset(HOUR)), "the engine has stopped");
    pulse.beat();
    sums
}

fn live_in_all(slots: u32, is_foreign: bool, shapes: impl Fn(usize) -> bool + Send + 'static) {
    watched(&format!("random operations over {slots} slots"), move |pulse| {
        let mut ran = 0;
        for (number, shape) in Shape::all(slots).into_iter().enumerate() {
            let seed = u64::from(slots) << 16 | number as u64;
            if shapes(number) {
                println!("{shape:?}, seed {seed}");
                let sums = live(shape, seed, pulse, is_foreign);
                assert!(sums.cancelled > 0 && sums.returned > 0, "{sums:?}");
                ran += sums.ran;
            }
        }
        assert!(ran > 0, "some were due soon, in short ticks");
    });
}

#[test]
fn whatever_is_done_to_an_engine_of_two_slots_nothing_is_lost() {
    live_in_all(2, false, |_| true);
}

#[test]
fn whatever_is_done_to_an_engine_of_three_slots_nothing_is_lost() {
    live_in_all(3, false, |_| true);
}

#[test]
fn whatever_is_done_to_an_engine_of_sixty_four_slots_nothing_is_lost() {
    live_in_all(64, false, |_| true);
}

#[test]
fn whatever_is_done_to_an_engine_of_a_thousand_slots_nothing_is_lost() {
    live_in_all(1024, false, |_| true);
}

// === foreign code ===

/// A thread that uses the epoch crate's default collector as any other crate may: it holds pins,
/// and defers destructors that use our engine. Nobody else here uses that collector, so they run
/// on this thread, and never inside a call of ours.
struct Foreign {
    is_over: Arc<AtomicBool>,
    deferred: Arc<AtomicU64>,
    thread: thread::JoinHandle<()>,
}

impl Foreign {
    /// Begins to make up to `most` items.
    fn begin(book: &Book, engine: &Engine<Item>, most: u64) -> Foreign {
        let (is_over, deferred) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let (book, engine, over) = (book.clone(), engine.clone(), is_over.clone());
        let count = deferred.clone();
        let thread = thread::spawn(move || {
            let mut made = 0;
            let [done, strangers] = [0, 0].map(|n| Arc::new(AtomicU64::new(n)));
            let here = thread::current().id();
            while !over.load(Ordering::SeqCst) {
                // Held for a while: whatever others retire meanwhile has to wait for it.
                let guard = epoch::pin();
                for n in 0..100 {
                    if made + 2 > most {
                        break;
                    }
                    let Ok(timer) = book.schedule(&engine, HOUR * (1 + n)) else { break };
                    let (book, engine) = (book.clone(), engine.clone());
                    let (done, strangers) = (done.clone(), strangers.clone());
                    guard.defer(move || {
                        // As a destructor that drops a guard of a timer, and sets another.
                        let is_here = thread::current().id() == here;
                        strangers.fetch_add(u64::from(!is_here), Ordering::SeqCst);
                        timer.take();
                        let _ = book.schedule_detached(&engine, HOUR);
                        done.fetch_add(1, Ordering::SeqCst);
                    });
                    made += 2;
                    count.fetch_add(1, Ordering::SeqCst);
                    thread::yield_now();
                }
                if made + 2 > most {
                    thread::sleep(Duration::from_micros(100));
                }
                guard.flush();
            }
            // What was deferred runs in the end, by the next thread that comes by.
            let deferred = count.load(Ordering::SeqCst);
            while done.load(Ordering::SeqCst) < deferred {
                epoch::pin().flush();
                thread::yield_now();
            }
            let strangers = strangers.load(Ordering::SeqCst);
            assert_eq!(strangers, 0, "destructors of {deferred} that ran inside our own calls");
        });
        Foreign { is_over, deferred, thread }
    }

    fn end(self) {
        self.is_over.store(true, Ordering::SeqCst);
        self.thread.join().unwrap();
    }
}

#[test]
fn foreign_pins_and_destructors_on_the_default_collector_change_nothing() {
    // One for each reach, of different ticks.
    for slots in [2, 3, 64, 1024] {
        live_in_all(slots, true, |number| number % 15 == 4);
    }
}

// === a frozen producer ===

#[cfg(all(target_os = "linux", not(tsan)))]
mod frozen {
    use super::*;
    use freezer::{Freezer, Marking};
    use tickless::State;

    #[global_allocator]
    static MARKING: Marking = Marking;

    const AROUND: (Duration, u32) = (Duration::from_micros(50), 64);

    /// Operations of each of the others while one is frozen; more at length, within what a book has
    /// room for.
    fn others() -> u64 {
        100 * scaled(1).min(20)
    }

    /// How often one is frozen.
    fn rounds() -> u64 {
        40 * scaled(1).min(50)
    }

    /// Operations that the producer has before it, so that it is frozen in one of them.
    const EAGER: u64 = 5000;

    fn engine() -> Engine<Item> {
        let builder = Builder::new().tick(AROUND.0).shards(2).thread_name("thawed");
        builder.build_with_handler(run_all).unwrap()
    }

    /// A producer that does anything, as much as it is allowed to.
    struct Producer {
        is_over: Arc<AtomicBool>,
        acts: Arc<AtomicU64>,
        allowed: Arc<AtomicU64>,
        thread: thread::JoinHandle<()>,
    }

    impl Producer {
        fn begin(mut actor: Actor) -> Producer {
            let is_over = Arc::new(AtomicBool::new(false));
            let [acts, allowed] = [0, 0].map(|n| Arc::new(AtomicU64::new(n)));
            let (over, count, most) = (is_over.clone(), acts.clone(), allowed.clone());
            let thread = thread::spawn(move || {
                while !over.load(Ordering::SeqCst) {
                    if count.load(Ordering::SeqCst) < most.load(Ordering::SeqCst) {
                        actor.act(None);
                        count.fetch_add(1, Ordering::SeqCst);
                    } else {
                        thread::yield_now();
                    }
                }
                drop(actor.give_up());
            });
            Producer { is_over, acts, allowed, thread }
        }

        /// Waits until it is in the midst of what it is allowed to do.
        fn moves(&self) {
            let before = self.acts.load(Ordering::SeqCst);
            self.allowed.store(before + EAGER, Ordering::SeqCst);
            wait_until("the producer goes on", || self.acts.load(Ordering::SeqCst) > before);
        }

        fn end(self) {
            self.is_over.store(true, Ordering::SeqCst);
            self.thread.join().unwrap();
        }
    }

    /// Anything at all on a thread of its own, and timers on each shard, all of which fire.
    fn go_on(mut actor: Actor, each: u64) {
        let go_on = move || {
            (0..each).for_each(|_| actor.act(None));
            for n in 0..20 {
                actor.engine.bind_thread(n % 2).unwrap();
                let soon = Duration::from_micros(n as u64 * 13);
                let timer = actor.book.schedule(&actor.engine, soon).unwrap();
                wait_until("it fires beside a frozen thread", || timer.state() != State::Pending);
                assert_eq!(timer.state(), State::Fired);
            }
            drop(actor.give_up());
        };
        thread::spawn(go_on).join().unwrap();
    }

    #[test]
    fn a_producer_that_is_frozen_at_any_instruction_holds_nobody_up_and_loses_nothing() {
        let _alone = freezer::alone();
        watched("going on beside a frozen producer", |pulse| {
            let (freezer, engine) = (Freezer::new(), engine());
            let book = Book::new(rounds() * (EAGER + others() + 20));
            let producer = Producer::begin(Actor::new(&book, &engine, AROUND, 1));
            for round in 0..rounds() {
                producer.moves();
                freezer.freeze(&producer.thread);
                let acts = producer.acts.load(Ordering::SeqCst);
                go_on(Actor::new(&book, &engine, AROUND, 2 + round), others());
                assert_eq!(producer.acts.load(Ordering::SeqCst), acts, "it is frozen");
                freezer.thaw();
                pulse.beat();
            }
            producer.end();
            assert_whole(&engine);
            assert!(end(&engine, &book).ran >= rounds() * 20);
        });
    }

    #[test]
    fn an_engine_stops_while_a_producer_is_frozen_at_any_instruction() {
        let _alone = freezer::alone();
        watched("a stop beside a frozen producer", |pulse| {
            let freezer = Freezer::new();
            for seed in 0..scaled(40) {
                let (engine, book) = (engine(), Book::new(EAGER));
                let producer = Producer::begin(Actor::new(&book, &engine, AROUND, seed));
                producer.moves();
                freezer.freeze(&producer.thread);
                book.stop(&engine);
                freezer.thaw();
                producer.end();
                let sums = book.close();
                sums.agree_with(engine.stats());
                assert_eq!(sums.dropped, 0, "{sums:?}");
                pulse.beat();
            }
        });
    }
}
