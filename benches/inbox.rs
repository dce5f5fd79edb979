//! A bucket's inbox, node by node: what a push costs, what the taker pays to walk what it took, and
//! both at a time. With one lane and with all of them, between which pushers take turns.
//!
//! What criterion calls an iteration is one node, of the size of an entry.

use bench_support::suite;
use std::hint::black_box;
use std::ptr::{self, NonNull};
use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use tickless_core::entry::{Guard, Linked};
use tickless_core::inbox::{LANES, Lanes, OwnLanes, Tray};
use tickless_sync::AtomicPtr;

use bench_support::delays::Delays;
use bench_support::rounds::per_item;
use bench_support::threads::{on_threads, producers};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Nodes of one round where threads push: more than a cache near a core holds.
const NODES: usize = 100_000;

/// Nodes that are taken: a bucket whose entries are in a cache, and one whose are not.
const TAKEN: [usize; 2] = [1_000, 100_000];

/// A node that fills a cache line, as an entry does.
#[repr(align(64))]
struct Node {
    next: AtomicPtr<Node>,
    number: u64,
}

// SAFETY: a node has one link.
unsafe impl Linked for Node {
    fn next(&self) -> &AtomicPtr<Node> {
        &self.next
    }
}

/// Nodes that lie side by side.
fn nodes(count: usize) -> Vec<Node> {
    let node = |number| Node { next: AtomicPtr::new(ptr::null_mut()), number };
    (0..count as u64).map(node).collect()
}

/// References to all of `nodes`, in an order fixed by a seed.
fn shuffled(nodes: &[Node]) -> Vec<&Node> {
    let mut random = Delays::new(1);
    let mut order: Vec<&Node> = nodes.iter().collect();
    for i in (1..order.len()).rev() {
        let at = random.between(0, 1_000_000).as_micros() as usize % (i + 1);
        order.swap(i, at);
    }
    order
}

/// What one of so many threads pushes: an equal part.
fn share<'a>(nodes: &'a [&'a Node], threads: usize, thread: usize) -> &'a [&'a Node] {
    nodes.chunks(nodes.len().div_ceil(threads)).nth(thread).unwrap_or_default()
}

/// Pushes nodes of which the caller has the only use, on so many lanes in turn.
fn push_all(inbox: &Lanes<Node>, nodes: &[&Node], lanes: usize) {
    for (i, node) in nodes.iter().enumerate() {
        // SAFETY: only this call has the node, until it is taken, and it lives for the bench.
        unsafe { inbox.push(NonNull::from(*node), i % lanes) }.expect("nobody closes it");
    }
}

/// Takes what is there and looks at each node; answers how many there were.
fn take_all(inbox: &Lanes<Node>) -> usize {
    let tray = Tray::wide();
    let tray: &Tray<Node> = &tray;
    tray.begin(0);
    // SAFETY: the tray is this thread's, and nobody else takes.
    let mut at = unsafe { tray.take(inbox, &OwnLanes::default()) };
    let mut count = 0;
    while let Some(node) = tray.peek(&at) {
        // SAFETY: the tray is this thread's, and showed the node.
        unsafe { tray.pass(&mut at, node) };
        // SAFETY: the nodes live for the bench.
        black_box(unsafe { node.as_ref() }.number);
        count += 1;
    }
    count
}

fn push(nodes: &[&Node], lanes: usize, threads: usize) -> Duration {
    let inbox = Lanes::default();
    let time = on_threads(threads, NODES as u64, |thread, _, start| {
        let share = share(nodes, threads, thread as usize);
        start.wait();
        let began = Instant::now();
        push_all(&inbox, share, lanes);
        began.elapsed()
    });
    assert_eq!(take_all(&inbox), NODES);
    time
}

fn take(nodes: &[&Node], lanes: usize) -> Duration {
    let inbox = Lanes::default();
    push_all(&inbox, nodes, lanes);
    let began = Instant::now();
    assert_eq!(take_all(&inbox), nodes.len());
    began.elapsed()
}

/// Threads push while this one takes, whenever it sees something, until it has everything.
fn push_and_take(nodes: &[&Node], lanes: usize, threads: usize) -> Duration {
    let (inbox, start) = (&Lanes::default(), &Barrier::new(threads + 1));
    thread::scope(|scope| {
        for thread in 0..threads {
            let share = share(nodes, threads, thread);
            scope.spawn(move || {
                start.wait();
                push_all(inbox, share, lanes);
            });
        }
        start.wait();
        let began = Instant::now();
        let mut left = NODES;
        // SAFETY: the nodes outlive the threads.
        let guard = unsafe { Guard::assume() };
        while left > 0 {
            if (0..LANES).all(|lane| inbox.lane(lane).first(guard).is_none()) {
                thread::yield_now();
            } else {
                left -= take_all(inbox);
            }
        }
        began.elapsed()
    })
}

fn inbox(c: &mut Criterion) {
    let mut group = suite::group(c, "file-on-a-bucket", 1);
    let nodes_of_all = nodes(NODES);
    let order = shuffled(&nodes_of_all);
    for lanes in [1, LANES] {
        let name = |what: &str| format!("{what}-on-{lanes}");
        for threads in producers() {
            group.bench_function(BenchmarkId::new(name("push"), threads), |b| {
                b.iter_custom(|n| per_item(n, NODES as u64, || push(&order, lanes, threads)));
            });
            group.bench_function(BenchmarkId::new(name("both"), threads), |b| {
                b.iter_custom(|n| {
                    per_item(n, NODES as u64, || push_and_take(&order, lanes, threads))
                });
            });
        }
        for count in TAKEN {
            let order = &shuffled(&nodes_of_all[..count]);
            group.bench_function(BenchmarkId::new(name("take"), count), |b| {
                b.iter_custom(|n| per_item(n, count as u64, || take(order, lanes)));
            });
        }
    }
    group.finish();
}

criterion_group! {
    name = benches;
    config = suite::config();
    targets = inbox
}
criterion_main!(benches);
