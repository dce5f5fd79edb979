//! Stress: many threads on the real clock, under conditions that reapers do not like. Every
//! payload is accounted for, and none is early.
//!
//! `TICKLESS_TEST_SCALE` multiplies what each thread does.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Barrier};
use std::thread::{self, JoinHandle};
use std::time::Duration;
use support::account::{Book, Item, Sums, Timer, run_all};
use support::mpsc;
use support::patience::PATIENCE;
use support::random::Random;
use support::scaled;
use support::threads::spawn;
use support::until::wait_until;
// One that ThreadSanitizer can follow.
use tickless::{Batch, Builder, Engine};
use tickless_sync::Mutex;

const HOUR: Duration = Duration::from_secs(3600);

/// Threads at a time, on any machine more than it has cores (or enough).
const CROWD: u64 = 24;

fn engine(builder: Builder) -> Engine<Item> {
    builder.tick(Duration::from_micros(100)).build_with_handler(run_all).unwrap()
}

/// One thread of a crowd: schedules, cancels, takes, resets and detaches timers, its own and
/// those that other threads left at the market.
fn live(book: &Book, engine: &Engine<Item>, market: &Mutex<Vec<Timer>>, seed: u64, n: u64) {
    let random = &mut Random::new(seed);
    let mut mine: Vec<Timer> = Vec::new();
    for _ in 0..n {
        let delay = match random.below(4) {
            0 => HOUR * (1 + random.below(2000) as u32),
            1 => Duration::ZERO,
            _ => Duration::from_nanos(random.below(5_000_000)),
        };
        match random.below(8) {
            0 => book.schedule_detached(engine, delay).unwrap(),
            _ => mine.push(book.schedule(engine, delay).unwrap()),
        }
        if mine.len() < 40 {
            continue;
        }
        let mut timer = mine.swap_remove(random.below(40) as usize);
        match random.below(8) {
            0 => drop(timer),
            1 => _ = timer.take(),
            2 | 3 => _ = timer.cancel(),
            4 => {
                let mut market = market.lock().unwrap();
                market.push(timer);
                let at = random.below(market.len() as u64) as usize;
                mine.push(market.swap_remove(at));
            }
            _ => {
                if timer.reset(delay / 2) {
                    mine.push(timer);
                }
            }
        }
    }
    market.lock().unwrap().append(&mut mine);
}

/// Begins `threads` threads with a number each. (Not scoped ones: ThreadSanitizer does not see
/// that those have ended.)
fn begin(threads: u64, body: impl Fn(u64) + Send + Sync + 'static) -> Vec<JoinHandle<()>> {
    let body = Arc::new(body);
    let spawn = |number| {
        let body = body.clone();
        spawn(move || body(number))
    };
    (0..threads).map(spawn).collect()
}

fn join(threads: Vec<JoinHandle<()>>) {
    threads.into_iter().for_each(|thread| thread.join().unwrap());
}

/// Lets a crowd live on `engine`, stops it, and asserts that the books agree.
fn crowd(engine: &Engine<Item>, threads: u64, each: u64) {
    let (book, market) = (Book::new(threads * each), Arc::new(Mutex::new(Vec::new())));
    let (books, engines, markets) = (book.clone(), engine.clone(), market.clone());
    join(begin(threads, move |seed| live(&books, &engines, &markets, seed, each)));
    // The threads and their caches are gone; the handles are used by one that scheduled nothing.
    wait_until("some fire", || engine.stats().fired > 0);
    for (n, timer) in market.lock().unwrap().drain(..).enumerate() {
        if n % 2 == 0 {
            timer.cancel();
        }
    }
    book.stop(engine);
    let sums = book.close();
    sums.agree_with(engine.stats());
    assert!(sums.ran > 0 && sums.cancelled > 0 && sums.returned > 0, "{sums:?}");
    assert_eq!(sums.made, threads * each);
}

#[test]
fn many_more_threads_than_cores_use_one_engine_in_every_way() {
    for shards in [1, 3] {
        crowd(&engine(Builder::new().shards(shards)), CROWD, scaled(2000));
    }
}

#[test]
fn more_shards_than_cores_serve_a_crowd() {
    crowd(&engine(Builder::new().shards(CROWD as usize)), CROWD / 2, scaled(2000));
}

#[test]
fn reapers_that_are_starved_by_busy_threads_lose_nothing() {
    let engine = engine(Builder::new().shards(2));
    let idle = Arc::new(AtomicBool::new(false));
    let is_idle = idle.clone();
    let spin = move |_| {
        while !is_idle.load(Ordering::Relaxed) {
            std::hint::spin_loop();
        }
    };
    // More than there are cores.
    let busy = begin(4 * thread::available_parallelism().unwrap().get() as u64, spin);
    crowd(&engine, 4, scaled(2000));
    idle.store(true, Ordering::Relaxed);
    join(busy);
}

/// Reapers and producers on one CPU, which the producers never leave by themselves.
#[cfg(all(target_os = "linux", not(elsewhere)))]
#[test]
fn a_reaper_that_is_pinned_to_the_cpu_of_busy_producers_loses_nothing() {
    let engine = engine(Builder::new().shards(1).pinned(true));
    let keep_there = move |_| {
        // The reaper of shard 0 keeps to the first CPU that we may use; threads that are spawned
        // from here on inherit this.
        keep_to_first_cpu();
        crowd(&engine, 6, scaled(2000));
    };
    join(begin(1, keep_there));
}

#[cfg(all(target_os = "linux", not(elsewhere)))]
fn keep_to_first_cpu() {
    // SAFETY: an all-zero set is an empty one; the calls read and write the sets alone, in their
    // size, and the index is below that.
    unsafe {
        let mut allowed: libc::cpu_set_t = std::mem::zeroed();
        assert_eq!(libc::sched_getaffinity(0, size_of_val(&allowed), &mut allowed), 0);
        let first = (0..libc::CPU_SETSIZE as usize).find(|&cpu| libc::CPU_ISSET(cpu, &allowed));
        let mut only: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(first.expect("we run somewhere"), &mut only);
        assert_eq!(libc::sched_setaffinity(0, size_of_val(&only), &only), 0);
    }
}

#[test]
fn handles_are_used_on_many_threads_while_their_engine_is_dropped() {
    const THREADS: u64 = 4;
    const EACH: u64 = 300;
    let mut all = Sums::default();
    // At least one that begins with cancels.
    for round in 0..scaled(40).max(2) {
        let engine = engine(Builder::new().shards(2));
        let book = Book::new(THREADS * EACH);
        let schedule = |n: u64| book.schedule(&engine, HOUR * (1 + n as u32 % 500)).unwrap();
        let parts: Vec<Vec<Timer>> =
            (0..THREADS).map(|_| (0..EACH).map(schedule).collect()).collect();
        let (parts, at_once) = (Mutex::new(parts), Arc::new(Barrier::new(THREADS as usize + 1)));
        let begins = at_once.clone();
        let (used, is_gone) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
        let (of_users, engine_is_gone) = (used.clone(), is_gone.clone());
        let use_them = move |number| {
            let part = parts.lock().unwrap().pop().expect("one for each");
            begins.wait();
            for (n, mut timer) in part.into_iter().enumerate() {
                // However late the engine goes: one thread has handles left then.
                let may_wait = (number, n as u64) == (0, EACH / 2);
                wait_until("the drop", || !may_wait || engine_is_gone.load(Ordering::Relaxed));
                match n % 4 {
                    0 => _ = timer.cancel(),
                    1 => _ = timer.take(),
                    // Later in the same entry; and earlier, in another.
                    2 => _ = timer.reset(HOUR * 1000) && timer.reset(HOUR / 2),
                    _ => drop(timer),
                }
                of_users.fetch_add(1, Ordering::Relaxed);
            }
        };
        let users = begin(THREADS, use_them);
        at_once.wait();
        // After as many as the round says; the first of each thread is cancelled.
        wait_until("they use some", || used.load(Ordering::Relaxed) >= round % 20 * 7);
        drop(engine);
        is_gone.store(true, Ordering::Relaxed);
        join(users);
        let sums = book.close();
        assert_eq!(sums.made, sums.cancelled + sums.returned + sums.dropped, "{sums:?}");
        all.cancelled += sums.cancelled;
        all.dropped += sums.dropped;
    }
    assert!(all.cancelled > 0 && all.dropped > 0, "{all:?}");
}

#[test]
fn while_the_tasks_of_one_shard_block_the_other_goes_on_and_nobody_waits_for_it() {
    let (open, gate) = mpsc::channel::<()>();
    let (gate, is_passed) = (Mutex::new(gate), AtomicBool::new(false));
    let handler = move |batch: Batch<'_, Item>| {
        for item in batch {
            let is_gated = thread::current().name() == Some("gated-0");
            if is_gated && !is_passed.swap(true, Ordering::SeqCst) {
                gate.lock().unwrap().recv().unwrap();
            }
            item.run();
        }
    };
    let builder = Builder::new().shards(2).thread_name("gated").tick(Duration::from_micros(100));
    let engine = builder.takeover(None).build_with_handler(handler).unwrap();
    let (release, many) = (open, scaled(5000)); // It goes before the engine, which waits for it.
    let book = Book::new(1 + 4 * many);
    engine.bind_thread(0).unwrap();
    book.schedule_detached(&engine, Duration::ZERO).unwrap();
    wait_until("the task that blocks is handed over", || engine.stats().fired == 1);
    let soon = |n: u64| Duration::from_micros(n % 1000);
    engine.bind_thread(1).unwrap();
    (0..2 * many).for_each(|n| book.schedule_detached(&engine, soon(n)).unwrap());
    wait_until("the other shard fires", || engine.stats().fired == 1 + 2 * many);
    // Of the blocked shard: scheduled, cancelled and reset as ever, and fired by nobody.
    engine.bind_thread(0).unwrap();
    let timers: Vec<_> = (0..2 * many).map(|n| book.schedule(&engine, soon(n)).unwrap()).collect();
    for (n, mut timer) in timers.into_iter().enumerate() {
        assert!(if n % 2 == 0 { timer.cancel() } else { timer.reset(soon(7)) });
    }
    assert_eq!(engine.len() as u64, many);
    release.send(()).unwrap();
    wait_until("the late ones fire", || engine.is_empty());
    assert_eq!(book.stop(&engine), 0);
    let sums = book.close();
    sums.agree_with(engine.stats());
    assert_eq!((sums.ran, sums.cancelled), (1 + 3 * many, many));
}

#[test]
fn room_below_the_limit_is_back_at_once_whichever_thread_cancels() {
    // Each thread has a part of the limit and never more than that pending: were room to come
    // back late, somebody would be refused.
    const THREADS: u64 = 8;
    const PART: u64 = 16;
    let rounds = scaled(500);
    let engine = engine(Builder::new().shards(2).max_pending(THREADS * PART));
    let book = Book::new(THREADS * PART * rounds);
    let (senders, receivers): (Vec<_>, Vec<_>) =
        (0..THREADS).map(|_| mpsc::channel::<Vec<Timer>>()).unzip();
    let mut threads = Vec::new();
    for (thread, receiver) in receivers.into_iter().enumerate() {
        let next = senders[(thread + 1) % senders.len()].clone();
        let (book, engine) = (book.clone(), engine.clone());
        threads.push(spawn(move || {
            for round in 0..rounds {
                let schedule = |_| book.schedule(&engine, HOUR).expect("there is room");
                let timers: Vec<Timer> = (0..PART).map(schedule).collect();
                // The neighbour cancels ours while we cancel somebody else's: room for as many
                // as we have sent away is there when theirs are gone.
                next.send(timers).unwrap();
                let theirs = receiver.recv_timeout(PATIENCE).unwrap();
                let cancel =
                    |timer: Timer| if round % 2 == 0 { timer.cancel() } else { timer.take() };
                assert!(theirs.into_iter().all(cancel));
            }
        }));
    }
    drop(senders);
    join(threads);
    assert_eq!(book.stop(&engine), 0);
    let sums = book.close();
    sums.agree_with(engine.stats());
    assert_eq!((sums.cancelled, sums.refused), (THREADS * PART * rounds, 0));
}

// === threads that come and go ===

/// Timers of each.
const EACH: usize = 12;

/// Timers that a thread keeps until it ends: some go when its thread-locals do, before or after
/// what the engine keeps there.
#[derive(Default)]
struct Kept(Vec<Timer>);

impl Drop for Kept {
    fn drop(&mut self) {
        for (n, mut timer) in self.0.drain(..).enumerate() {
            match n % 4 {
                0 => _ = timer.cancel(),
                1 => _ = timer.take(),
                2 => _ = timer.reset(HOUR / 2),
                _ => drop(timer),
            }
        }
    }
}

thread_local! {
    static KEPT: RefCell<Kept> = RefCell::default();
}

/// The whole life of a short thread: it schedules a few timers, ends some that other threads left,
/// leaves some of its own, and keeps some to its end.
fn pass_by(book: &Book, engine: &Engine<Item>, market: &Mutex<Vec<Timer>>, seed: u64) {
    // Every other time the engine's thread-locals are there first.
    if seed % 2 == 0 {
        KEPT.with(|_| ());
    }
    let random = &mut Random::new(seed);
    let mut mine = Vec::new();
    for _ in 0..EACH {
        let delay = match random.below(3) {
            0 => HOUR * (1 + random.below(100) as u32),
            _ => Duration::from_nanos(random.below(1_000_000)),
        };
        mine.extend(book.schedule(engine, delay).ok());
    }
    let kept = mine.split_off(mine.len() / 2);
    KEPT.with_borrow_mut(|all| all.0.extend(kept));
    let theirs: Vec<Timer> = {
        let mut market = market.lock().unwrap();
        market.append(&mut mine);
        // Those that lie there longest: their threads have ended.
        let most = market.len().saturating_sub(100);
        market.drain(..most.min(EACH / 2)).collect()
    };
    for (n, timer) in theirs.into_iter().enumerate() {
        match n % 3 {
            0 => drop(timer),
            _ => _ = timer.cancel(),
        }
    }
}

/// Lets so many threads pass by, a few at a time. Calls `before` with the number of each.
fn pass_by_in_turn(threads: u64, book: &Book, engine: &Engine<Item>, before: impl Fn(u64)) {
    const AT_A_TIME: usize = 6;
    let market = Arc::new(Mutex::new(Vec::new()));
    let mut living = VecDeque::new();
    for seed in 0..threads {
        before(seed);
        let (book, engine, market) = (book.clone(), engine.clone(), market.clone());
        living.push_back(spawn(move || pass_by(&book, &engine, &market, seed)));
        if living.len() == AT_A_TIME {
            living.pop_front().unwrap().join().unwrap();
        }
    }
    join(living.into());
}

#[test]
fn threads_that_begin_and_end_by_the_thousand_lose_nothing() {
    let (engine, threads) = (engine(Builder::new().shards(3)), scaled(1500));
    let book = Book::new(threads * EACH as u64);
    pass_by_in_turn(threads, &book, &engine, |_| ());
    wait_until("some fire", || engine.stats().fired > 0);
    book.stop(&engine);
    let sums = book.close();
    sums.agree_with(engine.stats());
    assert!(sums.ran > 0 && sums.cancelled > 0 && sums.returned > 0, "{sums:?}");
    assert_eq!((sums.made, sums.refused, sums.dropped), (threads * EACH as u64, 0, 0));
}

#[test]
fn an_engine_stops_while_threads_begin_and_end() {
    const THREADS: u64 = 60;
    // The others begin after the stop, however late that is, which waits for fewer timers.
    const BEFORE: u64 = 50;
    let mut all = Sums::default();
    // At least one in which some are pending.
    for round in 0..scaled(25).max(3) {
        let (engine, book) = (engine(Builder::new().shards(2)), Book::new(THREADS * EACH as u64));
        let (books, engines) = (book.clone(), engine.clone());
        let has_stopped = Arc::new(AtomicBool::new(false));
        let stopped = has_stopped.clone();
        let is_over = move || stopped.load(Ordering::Relaxed);
        let wait = move |number| wait_until("the stop", || number != BEFORE || is_over());
        let users = spawn(move || pass_by_in_turn(THREADS, &books, &engines, wait));
        // After as many timers as the round says.
        wait_until("they begin", || engine.stats().scheduled >= round % 25 * 20);
        book.stop(&engine);
        has_stopped.store(true, Ordering::Relaxed);
        users.join().unwrap();
        let sums = book.close();
        assert_eq!(engine.stats().pending, 0);
        assert_eq!((sums.made, sums.dropped), (THREADS * EACH as u64, 0), "{sums:?}");
        all.refused += sums.refused;
        all.returned += sums.returned;
    }
    assert!(all.refused > 0 && all.returned > 0, "the stop came while threads did: {all:?}");
}
