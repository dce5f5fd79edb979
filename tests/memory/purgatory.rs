//! The purgatory at size: very many operations over thousands of keys, which end in every way; and
//! what is left of those that have ended, which is nothing.
//!
//! Every block that any thread allocates is counted, so that only one test runs at a time.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use support::alone::alone;
use support::by_hand::by_hand;
use support::counting::{free_what_waits_for_readers, live, made_here};
use support::hands::let_memory_go;
use support::operation::{End, Op};
use support::random::Random;
use support::scaled;
use support::threads::on_threads;
use tickless::Engine;
use tickless_purgatory::{Arrival, Delayed, Operation, Purgatory};

const HOUR: Duration = Duration::from_secs(3600);

const MS: Duration = Duration::from_millis(1);

/// What a purgatory and its engine may keep when nobody waits: the tables of 256 parts at their
/// smallest, and what each thread has at hand of the engine.
const KEPT_BYTES: i64 = 2_000_000;

/// Asserts that so little lives that was not there before.
#[track_caller]
fn assert_freed(before: i64) {
    free_what_waits_for_readers();
    let left = live().bytes - before;
    assert!(left <= KEPT_BYTES, "{left} bytes are left");
}

/// An operation that says in a common book how it ended: as small as can be, for there are many.
struct Small {
    book: Arc<Book>,
    may_complete: bool,
}

#[derive(Default)]
struct Book {
    completed: AtomicU64,
    expired: AtomicU64,
    dropped: AtomicU64,
}

impl Operation for Small {
    fn try_complete(&self) -> bool {
        self.may_complete
    }

    fn on_complete(&self) {
        self.book.completed.fetch_add(1, Relaxed);
    }

    fn on_expire(&self) {
        self.book.expired.fetch_add(1, Relaxed);
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        self.book.dropped.fetch_add(1, Relaxed);
    }
}

/// What one thread was told: completed and cancelled, by whichever call.
struct Worker<'a> {
    purgatory: &'a Purgatory<u64, Small>,
    book: &'a Arc<Book>,
    random: Random,
    tickets: Vec<Delayed<u64, Small>>,
    completed: u64,
    cancelled: u64,
}

const KEYS: u64 = 5000;

impl Worker<'_> {
    /// Lets one more operation wait, under three keys.
    fn watch(&mut self, most_ms: u64) {
        let random = &mut self.random;
        let keys = [random.below(KEYS), random.below(KEYS), random.below(KEYS)];
        let timeout = match random.below(4) {
            0 => MS * random.below(most_ms) as u32,
            _ => HOUR,
        };
        let op = Small { book: self.book.clone(), may_complete: random.below(8) == 0 };
        match self.purgatory.try_complete_else_watch(Arc::new(op), keys, timeout).unwrap() {
            Arrival::Completed => self.completed += 1,
            Arrival::Delayed(ticket) if random.below(2) == 0 => self.tickets.push(ticket),
            Arrival::Delayed(_) => (),
        }
    }

    /// Ends some, in whichever way.
    fn end_some(&mut self) {
        let key = self.random.below(KEYS);
        match self.random.below(64) {
            0 => self.cancelled += self.purgatory.cancel_for_key(&key).len() as u64,
            1..32 => self.completed += self.purgatory.check_and_complete(&key) as u64,
            way => {
                if self.tickets.len() > 1000 {
                    let at = self.random.below(self.tickets.len() as u64) as usize;
                    let ticket = self.tickets.swap_remove(at);
                    match way % 2 {
                        0 => self.completed += u64::from(ticket.force_complete()),
                        _ => self.cancelled += u64::from(ticket.cancel()),
                    }
                }
            }
        }
    }
}

#[test]
fn a_million_operations_over_thousands_of_keys_end_in_every_way_and_leave_nothing() {
    const THREADS: usize = 3;
    let each = scaled(1_000_000) / THREADS as u64;
    let _alone = alone();
    let before = live().bytes;
    let book = Arc::new(Book::default());
    let engine = Engine::builder().shards(2).build().unwrap();
    let purgatory = Purgatory::with_engine(&engine);
    let (seed, told) = (AtomicU64::new(0), [AtomicU64::new(0), AtomicU64::new(0)]);
    on_threads::<THREADS>(|| {
        let mut worker = Worker {
            purgatory: &purgatory,
            book: &book,
            random: Random::new(seed.fetch_add(1, Relaxed)),
            tickets: Vec::new(),
            completed: 0,
            cancelled: 0,
        };
        for n in 0..each {
            worker.watch(200);
            // The first tenth only comes: so many wait at a time.
            if n > each / 10 {
                worker.end_some();
            }
        }
        told[0].fetch_add(worker.completed, Relaxed);
        told[1].fetch_add(worker.cancelled, Relaxed);
    });
    // However busy the machine is: a reaper comes by before the end.
    while book.expired.load(Relaxed) == 0 {
        std::thread::yield_now();
    }
    let returned = purgatory.stop().len() as u64;
    assert!(engine.stop().unwrap().is_empty());
    purgatory.check();
    let stats = purgatory.stats();
    assert_eq!((stats.delayed, stats.watched, stats.keys, stats.panicked), (0, 0, 0, 0));
    let [completed, cancelled] = told.map(AtomicU64::into_inner);
    let [ended, expired, dropped] =
        [&book.completed, &book.expired, &book.dropped].map(|n| n.load(Relaxed));
    assert_eq!(ended, completed + expired);
    assert_eq!((stats.cancelled, stats.expired), (cancelled + returned, expired));
    assert_eq!(completed + expired + cancelled + returned, each * THREADS as u64);
    assert_eq!(dropped, each * THREADS as u64);
    assert!([completed, expired, cancelled, returned].iter().all(|&ends| ends > 0));
    drop((purgatory, engine));
    assert_freed(before);
}

#[cfg(target_pointer_width = "64")]
#[test]
fn a_purgatory_takes_as_much_as_its_docs_say() {
    let _alone = alone();
    let engine = by_hand::<u64, Small>().1;
    // The engine has its memory.
    assert!(engine.schedule(HOUR, || ()).unwrap().cancel());
    let before = live().bytes;
    let kib = || (live().bytes - before) / 1024;
    // Of several, since the thread of an earlier test may be about to end, and give something back.
    let made = [(); 8].map(|()| Purgatory::<u64, Small>::with_engine(&engine));
    let each = kib() / made.len() as i64;
    assert!((75..=85).contains(&each), "{each} KiB");
    let [purgatory, others @ ..] = made;
    drop(others);
    free_what_waits_for_readers();
    let book = Arc::new(Book::default());
    // Each of 256 parts has an operation at some time.
    for key in 0..20_000 {
        let op = Arc::new(Small { book: book.clone(), may_complete: false });
        let arrival = purgatory.try_complete_else_watch(op, [key], HOUR).unwrap();
        assert!(arrival.into_delayed().expect("it may not complete").cancel());
    }
    assert!((520..=580).contains(&kib()), "{} KiB", kib());
}

#[test]
fn a_million_keys_come_and_go_and_leave_nothing() {
    let _alone = alone();
    let (purgatory, engine) = by_hand::<u64, Small>();
    let book = Arc::new(Book::default());
    let keys = scaled(1_000_000);
    let watch = |keys: [u64; 2]| {
        let op = Arc::new(Small { book: book.clone(), may_complete: false });
        let arrival = purgatory.try_complete_else_watch(op, keys, HOUR).unwrap();
        arrival.into_delayed().expect("it may not complete")
    };
    assert!(watch([0, 1]).cancel());
    let before = live().bytes;
    // One after another: nothing grows at all.
    let mut most = 0;
    for key in (0..keys / 2).step_by(2) {
        assert!(watch([key, key + 1]).force_complete());
        most = most.max(live().bytes - before);
    }
    assert!(most <= KEPT_BYTES / 2, "{most} bytes for one operation at a time");
    // All at a time.
    let tickets: Vec<_> = (keys / 2..keys).step_by(2).map(|key| watch([key, key + 1])).collect();
    assert_eq!(purgatory.stats().keys as u64, keys / 2);
    assert!(live().bytes - before > keys as i64 * 20, "the allocator that counts is in use");
    assert!(tickets.into_iter().all(|ticket| ticket.force_complete()));
    let stats = purgatory.stats();
    assert_eq!((stats.keys, stats.watched, stats.completed), (0, 0, keys / 2));
    let_memory_go(&engine);
    assert_freed(before);
    purgatory.check();
}

#[test]
fn keys_whose_operations_expire_leave_nothing_either() {
    let _alone = alone();
    let (purgatory, engine) = by_hand::<u64, Small>();
    let book = Arc::new(Book::default());
    let before = live().bytes;
    let ops = scaled(100_000);
    for n in 0..ops {
        let op = Arc::new(Small { book: book.clone(), may_complete: false });
        let keys = [2 * n, 2 * n + 1];
        drop(purgatory.try_complete_else_watch(op, keys, MS * (n % 1000) as u32).unwrap());
    }
    assert_eq!(purgatory.stats().keys as u64, 2 * ops);
    assert_eq!(engine.advance(MS * 1000), Ok(ops as usize));
    assert_eq!((purgatory.stats().keys, purgatory.stats().expired), (0, ops));
    assert_eq!(book.dropped.load(Relaxed), ops);
    let_memory_go(&engine);
    assert_freed(before);
}

#[test]
fn memory_of_a_burst_goes_back_although_a_few_of_it_stay() {
    let _alone = alone();
    let (purgatory, engine) = by_hand::<u64, Small>();
    let book = Arc::new(Book::default());
    let before = live().bytes;
    let watch = |key: u64| {
        let op = Arc::new(Small { book: book.clone(), may_complete: false });
        let arrival = purgatory.try_complete_else_watch(op, [key], HOUR).unwrap();
        arrival.into_delayed().expect("it may not complete")
    };
    // So many that what is kept in any case is little beside them.
    let ops = scaled(200_000).max(150_000);
    let mut tickets: Vec<_> = (0..ops).map(watch).collect();
    let most = live().bytes - before;
    let staying: Vec<_> = tickets
        .drain(..)
        .enumerate()
        .filter(|(n, ticket)| n % 1000 == 0 || !ticket.cancel())
        .collect();
    drop(tickets);
    let_memory_go(&engine);
    free_what_waits_for_readers();
    let left = live().bytes - before;
    // Each of them may hold on to the block of its timer, a chunk of blocks and one of lists, and
    // each thing that was there leaves a few bits in the tables of chunks.
    let bound = KEPT_BYTES + staying.len() as i64 * (4096 + 3_000) + ops as i64 * 2;
    assert!(left < bound && 10 * bound < most, "{left} bytes of {most} are left, not {bound}");
    purgatory.check();
    assert_eq!(purgatory.stats().keys, staying.len());
}

/// A way to end an operation that is given with its ticket and one of its keys.
type Way = fn(&Purgatory<u64, Op>, Delayed<u64, Op>, u64) -> bool;

#[test]
fn an_operation_that_ended_is_gone_at_once_though_its_time_and_its_other_keys_have_not_come() {
    let _alone = alone();
    let (purgatory, engine) = by_hand::<u64, Op>();
    let ways: [Way; 4] = [
        |purgatory, ticket, key| {
            ticket.operation().allow();
            drop(ticket);
            purgatory.check_and_complete(&key) == 1
        },
        |_, ticket, _| ticket.force_complete(),
        |_, ticket, _| ticket.cancel(),
        |purgatory, ticket, key| {
            drop(ticket);
            purgatory.cancel_for_key(&key).len() == 1
        },
    ];
    // Under a key that is never checked there are many, who stay.
    let stay: Vec<_> = (0..100).map(|_| Op::new()).collect();
    let quiet = u64::MAX;
    let watch = |op: Arc<Op>, key| {
        let arrival = purgatory.try_complete_else_watch(op, [quiet, key, key + 1], HOUR).unwrap();
        arrival.into_delayed().expect("it may not complete")
    };
    stay.iter().for_each(|op| drop(watch(op.clone(), 0)));
    let blocks = live().blocks;
    for n in 0..scaled(20_000) {
        let (op, key) = (Op::new(), 10 + 2 * n);
        let memory = Arc::downgrade(&op);
        let ticket = watch(op, key);
        assert!(ways[n as usize % 4](&purgatory, ticket, key + n % 2));
        assert_eq!(memory.strong_count(), 0, "way {}", n % 4);
        assert_eq!((purgatory.len(), purgatory.watched(), engine.len()), (100, 300, 100));
    }
    let left = live().blocks - blocks;
    assert!(left < 2_000, "{left} blocks are left of {} operations", scaled(20_000));
    assert!(stay.iter().all(|op| op.end() == End::Untold) && made_here() > 0);
    assert_eq!(purgatory.cancel_for_key(&quiet).len(), 100);
    assert_eq!(purgatory.stats().keys, 0);
}
