//! What the tasks do, once for all timers. Each counts what it does in a line of memory of its own;
//! between two readings of all counts lies what is measured.

use std::array;
use std::future::{Future, poll_fn};
use std::hint::black_box;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::thread;
use std::time::{Duration, Instant};

use async_scale::{Timers, cpu_ns};
use clap::ValueEnum;
use tokio::runtime::Runtime;
use tokio::task::{JoinHandle, yield_now};

/// What the tasks do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Workload {
    /// A timeout of 30 s around one yield; 64 tasks per worker.
    Timeout,
    /// One of the idle sleeps of 10,000 connections per worker is moved to 75 s from now and
    /// polled; a task per worker has them all.
    Idle,
    /// A sleep of 1 to 10 ms; 200 tasks per worker.
    Short,
    /// A sleep of 1 ms after the other; one task.
    Lone,
}

/// What came out.
pub(crate) struct Outcome {
    pub(crate) operations: u64,
    pub(crate) wall: Duration,
    pub(crate) cpu_ns: u64,
    pub(crate) timer_calls: Option<u64>,
    /// By how many nanoseconds sleeps were late, in order.
    pub(crate) late_ns: Vec<u32>,
    /// Sleeps that ended before their time.
    pub(crate) early: u64,
}

/// What a task has done so far; nobody else writes it.
#[derive(Default)]
#[repr(align(128))]
struct Count(AtomicU64);

/// What a task that sleeps has seen.
#[derive(Default)]
struct Seen {
    late_ns: Vec<u32>,
    early: u64,
}

/// What the tasks of a run share.
struct Run {
    counts: Box<[Count]>,
    is_measured: AtomicBool,
    is_over: AtomicBool,
}

/// A number for each call, by steps of a fixed pattern.
struct Random(u64);

const TASKS_THAT_LIMIT: usize = 64;
const TASKS_THAT_SLEEP: usize = 200;
const CONNECTIONS: usize = 10_000;
const LIMIT: Duration = Duration::from_secs(30);
const SILENCE: Duration = Duration::from_secs(75);
const LONE: Duration = Duration::from_millis(1);
/// From here to here short sleeps last.
const SHORT_NS: (u64, u64) = (1_000_000, 10_000_000);
/// Connections that a task serves before it lets others go on.
const BURST: usize = 64;

// === impl Workload ===

impl Workload {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Workload::Timeout => "async-timeout",
            Workload::Idle => "async-idle",
            Workload::Short => "async-short",
            Workload::Lone => "async-lone",
        }
    }

    /// Has tasks on `workers` workers do it, and measures them for a time, after another.
    pub(crate) fn measure<T: Timers>(
        self,
        timers: T,
        runtime: &Runtime,
        workers: usize,
        (warm_up, time): (Duration, Duration),
    ) -> Outcome {
        let count = match self {
            Workload::Timeout => TASKS_THAT_LIMIT * workers,
            Workload::Idle => workers,
            Workload::Short => TASKS_THAT_SLEEP * workers,
            Workload::Lone => 1,
        };
        let run = Arc::new(Run::of(count));
        let count = count as u64;
        let tasks: Vec<JoinHandle<Seen>> = (0..run.counts.len())
            .map(|nth| {
                let run = run.clone();
                match self {
                    Workload::Timeout => runtime.spawn(limit(timers, run, nth)),
                    Workload::Idle => runtime.spawn(keep_idle(timers, run, nth)),
                    Workload::Short => runtime.spawn(doze(timers, run, nth)),
                    Workload::Lone => runtime.spawn(doze_alone(timers, run)),
                }
            })
            .collect();
        thread::sleep(warm_up);
        run.wait_for_all();
        run.is_measured.store(true, Ordering::Relaxed);
        let before = (run.total(), cpu_ns(), timers.calls(), Instant::now());
        thread::sleep(time);
        // Of two operations of a task, the second was seen as one that is measured.
        while run.total() - before.0 <= count {
            thread::sleep(Duration::from_millis(1));
        }
        let wall = before.3.elapsed();
        let after = (run.total(), cpu_ns(), timers.calls());
        run.is_measured.store(false, Ordering::Relaxed);
        run.is_over.store(true, Ordering::Relaxed);
        let (mut late_ns, mut early) = (Vec::new(), 0);
        for task in tasks {
            let seen = runtime.block_on(task).expect("a task does not panic");
            late_ns.extend(seen.late_ns);
            early += seen.early;
        }
        late_ns.sort_unstable();
        Outcome {
            operations: after.0 - before.0,
            wall,
            cpu_ns: after.1 - before.1,
            timer_calls: after.2.zip(before.2).map(|(after, before)| after - before),
            late_ns,
            early,
        }
    }
}

// === impl Run ===

impl Run {
    fn of(tasks: usize) -> Run {
        Run {
            counts: (0..tasks).map(|_| Count::default()).collect(),
            is_measured: AtomicBool::new(false),
            is_over: AtomicBool::new(false),
        }
    }

    fn total(&self) -> u64 {
        self.counts.iter().map(|count| count.0.load(Ordering::Relaxed)).sum()
    }

    /// Waits until each task has done something: what it makes ready first is not measured.
    fn wait_for_all(&self) {
        while self.counts.iter().any(|count| count.0.load(Ordering::Relaxed) == 0) {
            thread::sleep(Duration::from_millis(1));
        }
    }

    fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Relaxed)
    }

    fn is_measured(&self) -> bool {
        self.is_measured.load(Ordering::Relaxed)
    }

    fn count(&self, nth: usize) {
        // Only this task writes it.
        let count = &self.counts[nth].0;
        count.store(count.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    }
}

// === impl Seen ===

impl Seen {
    /// A sleep of `delay`, begun at `begun`, has ended now.
    fn ended(&mut self, begun: Instant, delay: Duration) {
        match begun.elapsed().checked_sub(delay) {
            Some(late) => self.late_ns.push(u32::try_from(late.as_nanos()).unwrap_or(u32::MAX)),
            None => self.early += 1,
        }
    }
}

// === impl Random ===

impl Random {
    fn of(nth: usize) -> Random {
        Random(0x9e37_79b9_7f4a_7c15_u64.wrapping_mul(nth as u64 + 1))
    }

    fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        ((u128::from(self.0) * u128::from(end)) >> 64) as u64
    }
}

async fn limit<T: Timers>(timers: T, run: Arc<Run>, nth: usize) -> Seen {
    while !run.is_over() {
        let answer = timers.timeout(LIMIT, yield_now()).await;
        assert!(black_box(answer).is_some(), "nothing takes so long");
        run.count(nth);
    }
    Seen::default()
}

async fn keep_idle<T: Timers>(timers: T, run: Arc<Run>, nth: usize) -> Seen {
    let mut sleeps: Vec<_> = (0..CONNECTIONS).map(|_| Box::pin(timers.sleep(SILENCE))).collect();
    let is_pending = |sleep: Pin<&mut T::Sleep>, context: &mut Context<'_>| {
        assert!(black_box(sleep.poll(context)).is_pending(), "nobody is silent for so long");
    };
    poll_fn(|context| {
        sleeps.iter_mut().for_each(|sleep| is_pending(sleep.as_mut(), context));
        Poll::Ready(())
    })
    .await;
    let mut random = Random::of(nth);
    while !run.is_over() {
        let picked: [usize; BURST] = array::from_fn(|_| random.below(CONNECTIONS as u64) as usize);
        poll_fn(|context| {
            for &connection in &picked {
                let sleep = &mut sleeps[connection];
                timers.reset(sleep.as_mut(), SILENCE);
                is_pending(sleep.as_mut(), context);
                run.count(nth);
            }
            Poll::Ready(())
        })
        .await;
        yield_now().await;
    }
    Seen::default()
}

async fn doze<T: Timers>(timers: T, run: Arc<Run>, nth: usize) -> Seen {
    let (mut seen, mut random) = (Seen::default(), Random::of(nth));
    while !run.is_over() {
        let ns = SHORT_NS.0 + random.below(SHORT_NS.1 - SHORT_NS.0);
        doze_once(timers, &run, nth, Duration::from_nanos(ns), &mut seen).await;
    }
    seen
}

async fn doze_alone<T: Timers>(timers: T, run: Arc<Run>) -> Seen {
    let mut seen = Seen::default();
    while !run.is_over() {
        doze_once(timers, &run, 0, LONE, &mut seen).await;
    }
    seen
}

async fn doze_once<T: Timers>(timers: T, run: &Run, nth: usize, delay: Duration, seen: &mut Seen) {
    let begun = Instant::now();
    timers.nap(delay).await;
    if T::NAPS && run.is_measured() {
        seen.ended(begun, delay);
    }
    run.count(nth);
}
