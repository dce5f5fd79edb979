//! Races of the purgatory: whatever comes at once, each operation ends once, as the winner was
//! told; and a check is never lost.

use std::array;
use std::collections::HashSet;
use std::hint;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

use support::emptied::assert_empties;
use support::operation::{Call, End, Op};
use support::random::Random;
use support::scaled;
use support::threads::on_threads;
use support::until::wait_until;
use tickless_purgatory::{Arrival, Decision, Delayed, Operation, Purgatory, Stats, WatchReason};
// One that ThreadSanitizer can follow.
use tickless::{Engine, ManualClock};
use tickless_sync::Mutex;

const HOUR: Duration = Duration::from_secs(3600);

type Keyed = Purgatory<u64, Op>;

fn threaded() -> (Keyed, Engine) {
    let engine = Engine::builder().tick(Duration::from_micros(50)).shards(2).build().unwrap();
    (Purgatory::with_engine(&engine), engine)
}

/// On a clock that nobody moves: nothing expires.
fn timeless() -> Keyed {
    let engine = Engine::builder().shards(2).manual_clock(&ManualClock::new()).build().unwrap();
    Purgatory::with_engine(&engine)
}

/// Asserts that nobody waits any more, and that nothing is kept of who did.
#[track_caller]
fn assert_empty(purgatory: &Keyed) -> Stats {
    purgatory.check();
    let stats = purgatory.stats();
    assert_eq!((stats.delayed, stats.watched, stats.keys, stats.panicked), (0, 0, 0, 0));
    stats
}

/// A try looks first and dawdles then: a check that comes meanwhile needs another one, and who
/// decides meanwhile finds it at that.
fn dawdle(_: &Op, call: Call) {
    if call == Call::Try {
        (0..3).for_each(|_| thread::yield_now());
    }
}

/// As `dawdle`, at its registration alone and on the processor: lists may be long.
fn dawdle_first(op: &Op, call: Call) {
    if call == Call::Try && op.tries() == 2 {
        (0..500).for_each(|_| hint::spin_loop());
    }
}

/// Tells each of `N` threads its number.
fn on_numbered<const N: usize>(body: impl Fn(usize) + Sync) {
    let next = AtomicUsize::new(0);
    on_threads::<N>(|| body(next.fetch_add(1, Relaxed)));
}

// === checks are never lost ===

#[test]
fn twenty_threads_complete_a_hundred_operations_with_many_checks_each_of_which_the_last_may() {
    const OPS: usize = 100;
    const THREADS: usize = 20;
    const CHECKS: u32 = 20;
    for _ in 0..scaled(10) {
        let purgatory = timeless();
        let ops: [Arc<Op>; OPS] = array::from_fn(|_| Op::with(dawdle));
        for (op, key) in ops.iter().zip(0..) {
            let keys = [key, key / 10, 1000 + key];
            let arrival = purgatory.try_complete_else_watch(op.clone(), keys, Duration::MAX);
            assert!(!arrival.unwrap().is_completed());
        }
        let left: [AtomicU32; OPS] = array::from_fn(|_| AtomicU32::new(CHECKS));
        let completed = AtomicUsize::new(0);
        on_numbered::<THREADS>(|thread| {
            let random = &mut Random::new(thread as u64);
            loop {
                let open = (0..OPS).filter(|&n| left[n].load(Relaxed) > 0).collect::<Vec<_>>();
                if open.is_empty() {
                    return;
                }
                let n = open[random.below(open.len() as u64) as usize];
                let lower = |left: u32| left.checked_sub(1);
                if left[n].fetch_update(Relaxed, Relaxed, lower) == Ok(1) {
                    ops[n].allow();
                }
                let key = [0, 1000][random.below(2) as usize] + n as u64;
                completed.fetch_add(purgatory.check_and_complete(&key), Relaxed);
            }
        });
        assert!(ops.iter().all(|op| op.end() == End::Completed));
        assert_eq!(completed.into_inner(), OPS);
        assert_eq!(assert_empty(&purgatory).completed, OPS as u64);
    }
}

/// Waits for so many things, which any threads count.
struct Countdown {
    left: Arc<AtomicU32>,
    completed: AtomicBool,
}

impl Operation for Countdown {
    fn try_complete(&self) -> bool {
        self.left.load(Relaxed) == 0
    }

    fn on_complete(&self) {
        assert!(!self.completed.swap(true, Relaxed), "it completes once");
    }
}

#[test]
fn of_threads_that_each_do_a_part_and_check_their_key_one_completes_the_operation() {
    const THREADS: usize = 3;
    let engine = Engine::builder().shards(1).manual_clock(&ManualClock::new()).build().unwrap();
    let purgatory: Purgatory<(u64, usize), Countdown> = Purgatory::with_engine(&engine);
    let rounds = scaled(20_000);
    let left: Vec<_> = (0..rounds).map(|_| Arc::new(AtomicU32::new(THREADS as u32))).collect();
    let ended = AtomicU64::new(0);
    let arrived = AtomicU64::new(0);
    // Each registers the operations of a third of the rounds, when it comes there: the others may
    // have done their parts, do them right then, or later.
    on_numbered::<THREADS>(|me| {
        for round in 0..rounds {
            let left = &left[round as usize];
            if round % THREADS as u64 == me as u64 {
                let completed = AtomicBool::new(false);
                let op = Arc::new(Countdown { left: left.clone(), completed });
                let keys = (0..THREADS).map(|part| (round, part));
                let arrival = purgatory.try_complete_else_watch(op, keys, Duration::MAX).unwrap();
                ended.fetch_add(u64::from(arrival.is_completed()), Relaxed);
                arrived.fetch_add(1, Relaxed);
            }
            left.fetch_sub(1, Relaxed);
            ended.fetch_add(purgatory.check_and_complete(&(round, me)) as u64, Relaxed);
        }
    });
    assert_eq!((arrived.into_inner(), ended.into_inner()), (rounds, rounds));
    let stats = purgatory.stats();
    assert_eq!((stats.delayed, stats.watched, stats.keys), (0, 0, 0));
    assert!(stats.completed > 0, "some had to wait");
    purgatory.check();
}

// === one end each ===

/// How many ends somebody was told of.
#[derive(Default)]
struct Told {
    completed: AtomicU64,
    cancelled: AtomicU64,
    refused: AtomicU64,
    on_the_spot: AtomicU64,
    /// Operations that were given back: who they are.
    back: Mutex<Vec<Arc<Op>>>,
}

impl Told {
    fn give_back(&self, ops: Vec<Arc<Op>>) {
        self.cancelled.fetch_add(ops.len() as u64, Relaxed);
        self.back.lock().unwrap().extend(ops);
    }

    /// Asserts that the operations have ended as everybody was told, and each once.
    fn agrees_with(&self, ops: &[Arc<Op>], stats: Stats) {
        let count = |end| ops.iter().filter(|op| op.end() == end).count() as u64;
        let [completed, cancelled, refused, on_the_spot] =
            [&self.completed, &self.cancelled, &self.refused, &self.on_the_spot]
                .map(|told| told.load(Relaxed));
        assert_eq!(stats.completed + on_the_spot, completed);
        assert_eq!((stats.cancelled, stats.expired), (cancelled, count(End::Expired)));
        assert_eq!((completed, cancelled + refused), (count(End::Completed), count(End::Untold)));
        let back = self.back.lock().unwrap();
        let mut back: Vec<_> = back.iter().map(Arc::as_ptr).collect();
        let many = back.len();
        back.sort_unstable();
        back.dedup();
        assert_eq!(back.len(), many, "each is given back once");
    }
}

/// Registers an operation, and keeps its ticket where everybody can reach it.
fn register(
    purgatory: &Keyed,
    (op, keys): (&Arc<Op>, &[u64]),
    timeout: Duration,
    tickets: &Mutex<Vec<Delayed<u64, Op>>>,
    told: &Told,
) {
    let before = op.tries();
    match purgatory.try_complete_else_watch(op.clone(), keys.iter().copied(), timeout) {
        Ok(Arrival::Completed) => {
            told.completed.fetch_add(1, Relaxed);
            told.on_the_spot.fetch_add(u64::from(op.tries() == before + 1), Relaxed);
        }
        Ok(Arrival::Delayed(ticket)) => tickets.lock().unwrap().push(ticket),
        Err(error) => {
            assert_eq!(error.reason(), WatchReason::Stopped);
            told.refused.fetch_add(1, Relaxed);
            told.back.lock().unwrap().push(error.into_payload());
        }
    }
}

/// Does something at random to the keys below `keys` and to a ticket.
fn meddle(
    purgatory: &Keyed,
    keys: u64,
    random: &mut Random,
    tickets: &Mutex<Vec<Delayed<u64, Op>>>,
    told: &Told,
) {
    let key = random.below(keys);
    let any = || {
        let tickets = tickets.lock().unwrap();
        let some = tickets.len().min(16) as u64;
        (some > 0).then(|| tickets[tickets.len() - 1 - (key % some) as usize].clone())
    };
    let (told_of, count) = match random.below(16) {
        0 => return told.give_back(purgatory.cancel_for_key(&key)),
        1 => (&told.cancelled, any().is_some_and(|ticket| ticket.cancel()).into()),
        2 | 3 => (&told.completed, any().is_some_and(|ticket| ticket.force_complete()).into()),
        4..8 => {
            any().inspect(|ticket| ticket.operation().allow());
            return;
        }
        _ => (&told.completed, purgatory.check_and_complete(&key) as u64),
    };
    told_of.fetch_add(count, Relaxed);
}

/// Everything at once, on as few keys as that, until a number of operations have come.
fn race(keys: u64, ops: usize, timeout_ns: u64) {
    let (purgatory, engine) = threaded();
    let ops: Vec<_> = (0..ops).map(|_| Op::with(dawdle_first)).collect();
    // One that nobody meddles with, and that expires in the midst of the race.
    let alone = keys;
    let (tickets, told) = (Mutex::default(), Told::default());
    let (next, lasting) = (AtomicUsize::new(0), Mutex::new(HashSet::new()));
    on_numbered::<4>(|thread| {
        let random = &mut Random::new(thread as u64);
        loop {
            if thread < 2 {
                let number = next.fetch_add(1, Relaxed);
                let Some(op) = ops.get(number) else { return };
                if number == ops.len() / 2 {
                    register(&purgatory, (op, &[alone]), Duration::ZERO, &Mutex::default(), &told);
                    // However busy the machine is: a reaper comes by.
                    wait_until("it expires", || purgatory.stats().expired > 0);
                    continue;
                }
                let under: Vec<_> = (0..=random.below(4)).map(|_| random.below(keys)).collect();
                let timeout = match random.below(3) {
                    0 => {
                        lasting.lock().unwrap().insert(Arc::as_ptr(op) as usize);
                        HOUR
                    }
                    _ => Duration::from_nanos(random.below(timeout_ns)),
                };
                register(&purgatory, (op, &under), timeout, &tickets, &told);
            } else if next.load(Relaxed) > ops.len() {
                return;
            }
            meddle(&purgatory, keys, random, &tickets, &told);
        }
    });
    // An expiry that nobody has carried out would leave an operation without a timer. A stop
    // returns the tasks that it keeps from running, so nothing may be due any more.
    let lasting = lasting.lock().unwrap().clone();
    let lasts = |op: &Arc<Op>| lasting.contains(&(Arc::as_ptr(op) as usize));
    let is_over = |ticket: &Delayed<_, _>| ticket.decision().is_some() || lasts(ticket.operation());
    wait_until("all that are due are over", || {
        tickets.lock().unwrap().iter().all(is_over) && purgatory.len() == engine.len()
    });
    told.give_back(purgatory.stop());
    assert!(engine.stop().unwrap().is_empty(), "each end has cancelled its timer");
    let stats = assert_empty(&purgatory);
    told.agrees_with(&ops, stats);
    let ends = [stats.completed, stats.expired, stats.cancelled];
    assert!(ends.iter().all(|&ends| ends > 0), "a race has many sides: {ends:?}");
    let mut decisions = tickets.lock().unwrap();
    assert!(decisions.drain(..).all(|ticket| ticket.decision().is_some()));
}

#[test]
fn whatever_races_with_whatever_each_operation_ends_once_and_as_the_winner_was_told() {
    race(5, scaled(20_000) as usize, 1_000_000);
}

#[test]
fn the_same_over_one_key() {
    race(1, scaled(10_000) as usize, 300_000);
}

#[test]
fn the_same_over_many_keys() {
    race(2000, scaled(20_000) as usize, 1_000_000);
}

#[test]
fn of_a_check_a_force_a_cancel_and_the_timer_one_is_told_that_it_decided() {
    let (purgatory, engine) = threaded();
    let mut ways = [0; 4];
    for round in 0..scaled(3000).max(16) {
        // In some rounds one comes first, so that each wins now and then on any machine: a thread,
        // or the timer.
        let (first, has_decided) = (round / 2 % 8, AtomicBool::new(false));
        let op = Op::new();
        let timeout = match first {
            0..3 => HOUR,
            3 => Duration::ZERO,
            // Due about when the others come, and late enough to be registered in most rounds.
            _ => Duration::from_micros(30 + round % 200),
        };
        let arrival = purgatory.try_complete_else_watch(op.clone(), [1, 2, 3], timeout);
        let ticket = arrival.unwrap().into_delayed().expect("it may not complete yet");
        op.allow();
        wait_until("it expires", || first != 3 || ticket.decision().is_some());
        let told: [AtomicUsize; 3] = array::from_fn(|_| AtomicUsize::new(0));
        on_numbered::<3>(|thread| {
            // The thread that is started first has an advantage.
            let way = (thread + round as usize / 2) % 3;
            let is_free = first >= 3 || way as u64 == first;
            wait_until("the first decides", || is_free || has_decided.load(Relaxed));
            let decided = match way {
                0 => purgatory.check_and_complete(&2),
                1 => usize::from(ticket.force_complete()),
                _ if round % 2 == 0 => usize::from(ticket.cancel()),
                _ => purgatory.cancel_for_key(&3).len(),
            };
            told[way].store(decided, Relaxed);
            has_decided.store(true, Relaxed);
        });
        let told = told.map(AtomicUsize::into_inner);
        let decision = ticket.decision().expect("four have tried");
        let expected = match decision {
            Decision::Completed => [[1, 0, 0], [0, 1, 0]].contains(&told),
            Decision::Cancelled => told == [0, 0, 1],
            Decision::Expired => told == [0, 0, 0],
        };
        assert!(expected, "{decision:?}: {told:?}");
        let way = told.iter().position(|&told| told > 0).unwrap_or(3);
        ways[way] += 1;
    }
    assert!(ways.iter().all(|&ways| ways > 0), "each wins now and then: {ways:?}");
    // A timer that a reaper has in hand comes to nothing, and a stop would return it.
    assert_empties(&engine);
    assert!(engine.stop().unwrap().is_empty());
    assert_empty(&purgatory);
}

#[test]
fn a_stop_that_races_with_registrations_leaves_each_returned_completed_or_refused_once() {
    let (mut refused, mut cancelled) = (0, 0);
    // At least one in which some wait.
    for round in 0..scaled(100).max(2) {
        let (purgatory, engine) = threaded();
        let ops: Vec<_> = (0..3000).map(|_| Op::new()).collect();
        let (tickets, told) = (Mutex::default(), Told::default());
        let has_stopped = AtomicBool::new(false);
        on_numbered::<3>(|thread| {
            if thread == 2 {
                // When so many are there.
                wait_until("they come", || purgatory.len() >= (round % 10 * 20) as usize);
                told.give_back(purgatory.stop());
                return has_stopped.store(true, Relaxed);
            }
            let random = &mut Random::new(round * 2 + thread as u64);
            for (n, op) in ops[thread * 1500..][..1500].iter().enumerate() {
                // The others come after the stop, however late that is, which waits for fewer.
                let is_free = (thread, n) != (0, 1000);
                wait_until("the stop", || is_free || has_stopped.load(Relaxed));
                if random.below(8) == 0 {
                    op.allow();
                }
                let keys: [u64; 6] = array::from_fn(|_| random.below(50));
                register(&purgatory, (op, &keys), HOUR, &tickets, &told);
                if told.refused.load(Relaxed) > 20 {
                    return;
                }
            }
        });
        assert!(purgatory.stop().is_empty() && engine.stop().unwrap().is_empty());
        let stats = assert_empty(&purgatory);
        // The rest did not come at all.
        let came: Vec<_> = ops.iter().filter(|op| op.tries() > 0).cloned().collect();
        told.agrees_with(&came, stats);
        refused += told.refused.load(Relaxed);
        cancelled += stats.cancelled;
    }
    assert!(refused > 0 && cancelled > 0, "the stop came in the middle: {refused}, {cancelled}");
}

#[test]
fn callbacks_of_a_purgatory_with_an_engine_of_its_own_run_one_after_another() {
    let purgatory = Keyed::new().unwrap();
    let [running, most, ended] = [(); 3].map(|()| Arc::new(AtomicUsize::new(0)));
    for key in 0..8 {
        let (running, most, ended) = (running.clone(), most.clone(), ended.clone());
        let op = Op::with(move |_: &Op, call: Call| {
            if call == Call::Expire {
                most.fetch_max(running.fetch_add(1, Relaxed) + 1, Relaxed);
                thread::sleep(Duration::from_millis(20));
                running.fetch_sub(1, Relaxed);
                ended.fetch_add(1, Relaxed);
            }
        });
        purgatory.try_complete_else_watch(op, [key], Duration::from_millis(5)).unwrap();
    }
    wait_until("all expire", || ended.load(Relaxed) == 8);
    assert_eq!(most.load(Relaxed), 1);
}
