//! What a sign of life costs: of 100,000 peers one, picked at random, is heard of. Either its
//! heartbeat beats, or a timer that stands for it is moved to 30 s from now.

use bench_support::suite;
use std::time::{Duration, Instant};

use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use tickless::periodic::Heartbeat;
use tickless::{Engine, Handle};

use bench_support::delays::Delays;
use bench_support::threads::{on_threads, producers};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const PEERS: usize = 100_000;
const TIMEOUT: Duration = Duration::from_secs(30);

fn heartbeat(c: &mut Criterion) {
    let mut group = suite::group(c, "hear-from-a-peer", 1);
    for threads in producers() {
        group.bench_function(BenchmarkId::new("beat-a-heartbeat", threads), |b| {
            let engine = Engine::new().expect("an engine starts");
            let peer = || Heartbeat::new(&engine, TIMEOUT, || {}).expect("the engine runs");
            b.iter_custom(|iters| hear(threads, iters, peer, |peer| peer.beat()));
        });
        group.bench_function(BenchmarkId::new("reset-a-timer", threads), |b| {
            let engine = Engine::new().expect("an engine starts");
            let peer = || engine.schedule(TIMEOUT, || {}).expect("the engine runs");
            let reset = |peer: &mut Handle| peer.reset(TIMEOUT).is_ok();
            b.iter_custom(|iters| hear(threads, iters, peer, reset));
        });
    }
    group.finish();
}

/// Hears of peers so many times, on so many threads.
fn hear<P>(
    threads: usize,
    iters: u64,
    peer: impl Fn() -> P + Sync,
    sign_of_life: impl Fn(&mut P) -> bool + Sync,
) -> Duration {
    on_threads(threads, iters, |thread, ops, start| {
        let mut picks = Delays::new(thread + 1);
        let mut peers: Vec<P> = (0..PEERS / threads).map(|_| peer()).collect();
        start.wait();
        let began = Instant::now();
        for _ in 0..ops {
            let pick = picks.between(0, 1_000_000).as_micros() as usize % peers.len();
            assert!(sign_of_life(&mut peers[pick]));
        }
        began.elapsed()
    })
}

criterion_group! {
    name = benches;
    config = suite::config();
    targets = heartbeat
}
criterion_main!(benches);
