//! The same workloads on one and two real threads, in nanoseconds of processor time per operation.

use std::cell::Cell;
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

/// Runs of each in which no thread was preempted, of which the median counts; and attempts to have
/// so many.
const RUNS: usize = 9;
const ATTEMPTS: usize = 60;

/// What takes no threads besides those that are measured.
fn is_measured(workload: Workload) -> bool {
    !matches!(workload, Workload::OwnInTime | Workload::Fire)
}

struct Real<'a> {
    barrier: &'a Barrier,
}

thread_local! {
    /// The processor time of this thread when it began to count, and how often it was preempted.
    static BEGUN: Cell<(u64, u64)> = const { Cell::new((0, 0)) };
}

impl Ground for Real<'_> {
    fn count_from_here(&self) {
        self.barrier.wait();
        BEGUN.set((cpu_ns(), preemptions()));
    }

    fn wait(&self) {
        spin_loop();
    }

    fn wait_for_reapers(&self) {
        spin_loop();
    }

    fn reaped(&self) {}
}

/// What a run has used.
#[derive(Clone, Copy, Debug)]
struct Used {
    ns_per_op: f64,
    /// How often a thread was stopped for another one's sake.
    preempted: u64,
}

/// Keeps the calling thread on a CPU of its own, if there is one.
fn pin(number: usize) {
    // SAFETY: a set of CPUs is bits, and none of them set is an empty set.
    let mut cpus = unsafe { std::mem::zeroed::<libc::cpu_set_t>() };
    // SAFETY: the set has room for that many, and more.
    unsafe { libc::CPU_SET(number, &mut cpus) };
    // SAFETY: the set is valid. If there is no such CPU, the thread stays where it may be.
    unsafe { libc::sched_setaffinity(0, size_of_val(&cpus), &raw const cpus) };
}

/// How often the calling thread was preempted.
fn preemptions() -> u64 {
    let mut usage = MaybeUninit::<libc::rusage>::uninit();
    // SAFETY: it writes to where the pointer says.
    let done = unsafe { libc::getrusage(libc::RUSAGE_THREAD, usage.as_mut_ptr()) };
    assert_eq!(done, 0, "the system counts this");
    // SAFETY: it was written.
    unsafe { usage.assume_init() }.ru_nivcsw as u64
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

/// Runs `body` on so many threads; returns what all have used from where they count.
fn on_threads(threads: usize, ops: usize, body: impl Fn(usize) + Sync) -> Used {
    let (ns, preempted) = thread::scope(|scope| {
        let body = &body;
        let work = |number| {
            move || {
                pin(number);
                body(number);
                let (ns, preempted) = BEGUN.get();
                (cpu_ns() - ns, preemptions() - preempted)
            }
        };
        let running: Vec<_> = (0..threads).map(|number| scope.spawn(work(number))).collect();
        let ended = running.into_iter().map(|thread| thread.join().expect("it does not panic"));
        ended.fold((0, 0), |sum, used| (sum.0 + used.0, sum.1 + used.1))
    });
    Used { ns_per_op: ns as f64 / ops as f64, preempted }
}

fn cost<T: Timers>(workload: Workload, threads: usize, amount: Amount) -> Used {
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
    on_threads(threads, workload.ops(setup, amount), |number| job.run(number))
}

fn keyed_cost<T: KeyedTimers>(threads: usize, amount: Amount) -> Used {
    let setup = Workload::Keyed.setup(threads, true);
    let timers = T::new(setup);
    let barrier = Barrier::new(threads);
    let job = KeyedJob { timers: &timers, amount, ground: &Real { barrier: &barrier } };
    on_threads(threads, Workload::Keyed.ops(setup, amount), |number| job.run(number))
}

fn cost_of(contender: Contender, workload: Workload, threads: usize) -> Used {
    let amount = Amount { warm_up: 20_000, ops: 50_000 };
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
fn transfer_ns() -> Used {
    const ROUNDS: u64 = 64;
    const GAMES: u64 = 2_000;
    let ball = &Ball(AtomicU64::new(0));
    let play = |first: u64| {
        let game = |game: u64| {
            let begun = Instant::now();
            for round in 0..ROUNDS {
                let at = 2 * (game * ROUNDS + round) + first;
                // A CAS takes the line in one transfer; a load before it would take another.
                while ball
                    .0
                    .compare_exchange(at, at + 1, Ordering::AcqRel, Ordering::Relaxed)
                    .is_err()
                {
                    spin_loop();
                }
            }
            begun.elapsed().as_nanos() as f64 / (2 * ROUNDS) as f64
        };
        (0..GAMES).map(game).collect::<Vec<f64>>()
    };
    thread::scope(|scope| {
        scope.spawn(|| {
            pin(1);
            black_box(play(1))
        });
        // A thread that stays pinned ends with it.
        let games = scope.spawn(|| {
            pin(0);
            let before = preemptions();
            (play(0), preemptions() - before)
        });
        let (games, preempted) = games.join().expect("it does not panic");
        Used { ns_per_op: median(games), preempted }
    })
}

fn median(mut of: Vec<f64>) -> f64 {
    of.sort_by(f64::total_cmp);
    of[of.len() / 2]
}

/// What is measured: a name, whose, and on how many threads.
type What = (&'static str, &'static str, usize);

/// How it is measured, and the runs so far.
type Measured = (What, Box<dyn Fn() -> Used>, Vec<Used>);

/// Measures all, alternating, and prints a line for each: what, whose, with how many threads;
/// median, least and greatest of the runs without preemption; and how many those are.
pub(crate) fn run() {
    let mut all: Vec<Measured> = Vec::new();
    all.push((("transfer", "-", 2), Box::new(transfer_ns), Vec::new()));
    for workload in Workload::ALL.into_iter().filter(|it| is_measured(*it)) {
        for contender in Contender::ALL.into_iter().filter(|it| workload.suits(*it)) {
            // Time that is moved by hand is a line that both threads write.
            let most = if workload == Workload::FireOwn { 1 } else { 2 };
            for threads in 1..=most {
                let what = (workload.name(), contender.name(), threads);
                let run = move || cost_of(contender, workload, threads);
                all.push((what, Box::new(run), Vec::new()));
            }
        }
    }
    let clean = |runs: &[Used]| runs.iter().filter(|used| used.preempted == 0).count();
    for _ in 0..ATTEMPTS {
        for (_, run, runs) in &mut all {
            if clean(runs) < RUNS {
                runs.push(run());
            }
        }
    }
    for ((what, who, threads), _, mut runs) in all {
        let clean = clean(&runs);
        // Where there are too few, those that were disturbed least.
        runs.sort_by_key(|used| used.preempted);
        runs.truncate(RUNS);
        let ns: Vec<f64> = runs.iter().map(|used| used.ns_per_op).collect();
        let least = ns.iter().copied().fold(f64::INFINITY, f64::min);
        let most = ns.iter().copied().fold(0.0, f64::max);
        println!("{what}\t{who}\t{threads}\t{:.1}\t{least:.1}\t{most:.1}\t{clean}", median(ns));
    }
}
