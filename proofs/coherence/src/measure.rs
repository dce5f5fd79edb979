//! The same workloads on one and two real threads, in nanoseconds of processor time per operation.

use std::collections::HashMap;
use std::hint::{black_box, spin_loop};
use std::iter;
use std::mem::MaybeUninit;
use std::sync::Barrier;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Instant;

use crate::queue::Queue;
use crate::timers::{ByKey, Contender, Heap, Keyed, KeyedTimers, Ours, Timers, Wheels};
use crate::workload::{Amount, Ground, Job, KeyedJob, Progress, Workload};

/// Runs of each, of which the median counts.
const RUNS: usize = 9;

const WORKLOADS: [Workload; 5] =
    [Workload::Own, Workload::Handoff, Workload::Reset, Workload::FireOwn, Workload::Keyed];

struct Real<'a> {
    barrier: &'a Barrier,
}

thread_local! {
    /// The processor time of this thread when it began to count.
    static BEGUN_NS: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
}

impl Ground for Real<'_> {
    fn count_from_here(&self) {
        self.barrier.wait();
        BEGUN_NS.set(cpu_ns());
    }

    fn wait(&self) {
        spin_loop();
    }
}

/// The processor time that the calling thread has used.
fn cpu_ns() -> u64 {
    let mut time = MaybeUninit::<libc::timespec>::uninit();
    // SAFETY: it writes the time to where the pointer says.
    let done = unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, time.as_mut_ptr()) };
    assert_eq!(done, 0, "the system has such a clock");
    // SAFETY: it was written.
    let time = unsafe { time.assume_init() };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Runs `body` on so many threads; returns the processor time of all from where they count.
fn on_threads(threads: usize, body: impl Fn(usize) + Sync) -> u64 {
    thread::scope(|scope| {
        let body = &body;
        let work = |number| {
            move || {
                body(number);
                cpu_ns() - BEGUN_NS.get()
            }
        };
        let running: Vec<_> = (0..threads).map(|number| scope.spawn(work(number))).collect();
        running.into_iter().map(|thread| thread.join().expect("it does not panic")).sum()
    })
}

fn cost<T: Timers>(workload: Workload, threads: usize, amount: Amount) -> f64 {
    // What fires is fired by hand-moved time, so that none of it waits.
    let setup = workload.setup(threads, workload != Workload::FireOwn);
    let timers = T::new(setup);
    let queues: Vec<_> = iter::repeat_with(Queue::new).take(threads.div_ceil(2)).collect();
    let barrier = Barrier::new(threads);
    let job = Job {
        workload,
        timers: &timers,
        setup,
        amount,
        is_planted: false,
        ground: &Real { barrier: &barrier },
        queues: &queues,
        progress: &Progress::default(),
    };
    let ns = on_threads(threads, |number| job.run(number));
    ns as f64 / workload.ops(setup, amount) as f64
}

fn keyed_cost<T: KeyedTimers>(threads: usize, amount: Amount) -> f64 {
    let setup = Workload::Keyed.setup(threads, true);
    let timers = T::new(setup);
    let barrier = Barrier::new(threads);
    let job = KeyedJob { timers: &timers, amount, ground: &Real { barrier: &barrier } };
    let ns = on_threads(threads, |number| job.run(number));
    ns as f64 / Workload::Keyed.ops(setup, amount) as f64
}

fn cost_of(contender: Contender, workload: Workload, threads: usize) -> f64 {
    let amount = Amount { warm_up: 20_000, ops: 100_000 };
    match (workload, contender) {
        (Workload::Keyed, Contender::Ours) => keyed_cost::<Keyed>(threads, amount),
        (Workload::Keyed, Contender::Heap) => keyed_cost::<ByKey<Heap>>(threads, amount),
        (Workload::Keyed, Contender::Wheels) => keyed_cost::<ByKey<Wheels>>(threads, amount),
        (_, Contender::Ours) => cost::<Ours>(workload, threads, amount),
        (_, Contender::Heap) => cost::<Heap>(workload, threads, amount),
        (_, Contender::Wheels) => cost::<Wheels>(workload, threads, amount),
    }
}

/// A value on lines of its own.
#[repr(align(128))]
struct Ball(AtomicU64);

/// The time of one transfer between two threads: the median of many short games of ping-pong.
fn transfer_ns() -> f64 {
    const ROUNDS: u64 = 64;
    const GAMES: u64 = 2_000;
    let ball = &Ball(AtomicU64::new(0));
    let play = |first: u64| {
        let game = |game: u64| {
            let begun = Instant::now();
            for round in 0..ROUNDS {
                let at = 2 * (game * ROUNDS + round) + first;
                // A CAS takes the line in one transfer; a load before it would take another.
                while ball.0.compare_exchange(at, at + 1, Ordering::AcqRel, Ordering::Relaxed).is_err()
                {
                    spin_loop();
                }
            }
            begun.elapsed().as_nanos() as f64 / (2 * ROUNDS) as f64
        };
        (0..GAMES).map(game).collect::<Vec<f64>>()
    };
    thread::scope(|scope| {
        scope.spawn(|| black_box(play(1)));
        median(play(0))
    })
}

fn median(mut of: Vec<f64>) -> f64 {
    of.sort_by(f64::total_cmp);
    of[of.len() / 2]
}

/// Measures all, alternating, and prints a line for each: what, with how many threads, median, least
/// and greatest.
pub(crate) fn run() {
    let mut all: HashMap<(&str, &str, usize), Vec<f64>> = HashMap::new();
    for _ in 0..RUNS {
        all.entry(("transfer", "-", 2)).or_default().push(transfer_ns());
        for workload in WORKLOADS {
            for contender in Contender::ALL.into_iter().filter(|it| it.has(workload)) {
                for threads in [1, 2] {
                    let ns = cost_of(contender, workload, threads);
                    let key = (workload.name(), contender.name(), threads);
                    all.entry(key).or_default().push(ns);
                }
            }
        }
    }
    let mut lines: Vec<_> = all.into_iter().collect();
    lines.sort_by_key(|(key, _)| *key);
    for ((what, who, threads), ns) in lines {
        let least = ns.iter().copied().fold(f64::INFINITY, f64::min);
        let most = ns.iter().copied().fold(0.0, f64::max);
        println!("{what}\t{who}\t{threads}\t{:.1}\t{least:.1}\t{most:.1}", median(ns));
    }
}
