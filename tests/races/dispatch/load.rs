//! Dispatchers under load: threads schedule, cancel, stop and shut down at the same time, each
//! payload meets one fate, and the books of engine and pool agree.

use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use support::account::{Book, Item, Sums};
use support::random::Random;
use support::threads::on_threads;
use support::{scaled, spread};
use tickless::dispatch::{Channel, Full, Pool, PoolStats};
// One that ThreadSanitizer can follow.
use tickless::{Builder, Engine, Stats};
use tickless_sync::Mutex;

const US: Duration = Duration::from_micros(1);

const EACH: u64 = 1500;

fn pool(full: Full, threads: usize, queue_bound: usize) -> Pool<Item> {
    let builder = Pool::builder(full).threads(threads).queue_bound(queue_bound);
    builder.build_typed(|item: Item| item.run()).unwrap()
}

fn engine_on(pool: &Pool<Item>) -> Engine<Item> {
    Builder::new().tick(US * 50).shards(2).build_with_handler(pool.clone()).unwrap()
}

/// Schedules items, cancels some and resets others, until the engine refuses.
fn produce(book: &Book, engine: &Engine<Item>, seed: u64) {
    let (random, mut kept) = (&mut Random::new(seed), Vec::new());
    for _ in 0..EACH {
        let delay = US * random.below(1500) as u32;
        let is_refused = match book.schedule(engine, delay) {
            Ok(timer) => {
                kept.push(timer);
                false
            }
            Err(_) => true,
        };
        if is_refused || book.schedule_detached(engine, delay / 2).is_err() {
            break;
        }
        if kept.len() > 20 {
            let timer = kept.swap_remove(random.below(20) as usize);
            match random.below(3) {
                0 => drop(timer.cancel()),
                1 => drop(timer.take()),
                _ => {
                    let mut timer = timer;
                    timer.reset(delay);
                }
            }
        }
    }
}

/// What the engine has fired, the pool has run or dropped.
fn agree(sums: Sums, fired: Stats, pool: PoolStats) {
    assert_eq!((pool.queued, pool.running, pool.panicked), (0, 0, 0));
    assert_eq!(pool.ran + pool.ran_inline, sums.ran, "{pool:?}");
    assert_eq!(fired.fired, sums.ran + pool.dropped);
    // What the pool has dropped met no fate of its own, as what was dropped with an engine.
    assert_eq!(sums.dropped, pool.dropped);
    let sums = Sums { ran: fired.fired, dropped: 0, ..sums };
    sums.agree_with(fired);
}

#[test]
fn the_books_add_up_whatever_happens_when_the_queue_is_full() {
    const PRODUCERS: u64 = 3;
    for round in 0..scaled(8) {
        for full in [Full::Block, Full::RunInline, Full::Drop] {
            let book = Book::new(PRODUCERS * EACH * 2);
            let pool = pool(full, 2, [1, 2, 7, 100][round as usize % 4]);
            let engine = engine_on(&pool);
            let seeds = AtomicU64::new(round * 10);
            on_threads::<{ PRODUCERS as usize + 1 }>(|| {
                let seed = seeds.fetch_add(1, Ordering::SeqCst);
                if seed % 10 != PRODUCERS {
                    return produce(&book, &engine, seed);
                }
                // Somewhere in the midst of it, or when all have done their part.
                let enough = PRODUCERS * EACH * (1 + round % 4) / 2;
                while engine.stats().scheduled < enough && !engine.is_empty() {
                    thread::yield_now();
                }
                book.stop(&engine);
            });
            pool.shutdown().unwrap();
            agree(book.close(), engine.stats(), pool.stats());
        }
    }
}

#[test]
fn a_shutdown_in_the_midst_loses_nothing_and_doubles_nothing() {
    let rounds = scaled(8);
    for round in 0..rounds {
        for full in [Full::Block, Full::RunInline, Full::Drop] {
            let book = Book::new(2 * EACH * 2);
            let pool = pool(full, 2, 1 + round as usize % 3);
            let engine = engine_on(&pool);
            let seeds = AtomicU64::new(round * 10);
            on_threads::<3>(|| match seeds.fetch_add(1, Ordering::SeqCst) {
                seed if seed % 10 < 2 => produce(&book, &engine, seed),
                _ => {
                    while engine.stats().fired < spread(round, rounds, 800) {
                        thread::yield_now();
                    }
                    pool.shutdown().unwrap();
                }
            });
            book.stop(&engine);
            agree(book.close(), engine.stats(), pool.stats());
        }
    }
}

#[test]
fn tasks_that_stop_the_engine_from_the_pool_get_each_payload_back_or_run_it() {
    let rounds = scaled(30);
    for round in 0..rounds {
        let threads = 1 + round as usize % 3;
        let book = Book::new(2 * EACH * 2);
        let (returned, stopper) = (AtomicU64::new(0), Mutex::new(None::<Engine<Item>>));
        let shared = std::sync::Arc::new((returned, stopper, book.clone()));
        let (of_work, count) = (shared.clone(), AtomicU64::new(0));
        let work = move |item: Item| {
            item.run();
            drop(item);
            if count.fetch_add(1, Ordering::SeqCst) == spread(round, rounds, 600) {
                let engine = of_work.1.lock().unwrap().take();
                let n = engine.map_or(0, |engine| of_work.2.stop(&engine));
                of_work.0.fetch_add(n, Ordering::SeqCst);
            }
        };
        let pool = Pool::builder(Full::Block).threads(threads).queue_bound(threads);
        let pool = pool.build_typed(work).unwrap();
        let engine = engine_on(&pool);
        *shared.1.lock().unwrap() = Some(engine.clone());
        let seeds = AtomicU64::new(round);
        on_threads::<2>(|| produce(&book, &engine, seeds.fetch_add(1, Ordering::SeqCst)));
        book.stop(&engine);
        pool.shutdown().unwrap();
        agree(book.close(), engine.stats(), pool.stats());
    }
}

#[test]
fn a_channel_gets_each_payload_once_and_then_the_end() {
    let rounds = scaled(8);
    for round in 0..rounds {
        let book = Book::new(2 * EACH * 2);
        let (sender, receiver) = crossbeam_channel::bounded(1 + round as usize % 5 * 20);
        let drops = round % 2 == 1;
        let channel = if drops { Channel::dropping(sender) } else { Channel::blocking(sender) };
        let monitor = channel.monitor();
        let engine = Builder::new().tick(US * 50).shards(2).build_with_handler(channel).unwrap();
        let seeds = AtomicU64::new(round * 10);
        let received = AtomicU64::new(0);
        on_threads::<4>(|| match seeds.fetch_add(1, Ordering::SeqCst) {
            seed if seed % 10 < 2 => produce(&book, &engine, seed),
            seed if seed % 10 == 2 => {
                while engine.stats().fired < spread(round, rounds, 800) {
                    thread::yield_now();
                }
                book.stop(&engine);
            }
            _ => {
                let all = receiver.iter().inspect(|item: &Item| item.run()).count();
                received.fetch_add(all as u64, Ordering::SeqCst);
            }
        });
        let (sums, stats, sent) = (book.close(), engine.stats(), monitor.stats());
        assert_eq!((sent.sent, sent.disconnected), (received.into_inner(), 0));
        assert_eq!((sent.sent, sent.dropped), (sums.ran, sums.dropped));
        assert!(drops || sent.dropped == 0);
        Sums { ran: stats.fired, dropped: 0, ..sums }.agree_with(stats);
    }
}
