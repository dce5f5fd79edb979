//! The bodies of the bench `future`, with this crate and with tokio's timer in turns, so that
//! whatever disturbs the machine disturbs both: the median round of each, CPU ns of the process per
//! operation. `cargo bench -p benches --features studies --bench future_turns -- 21` makes so many
//! rounds.

use bench_support::sleeps::{Work, round, runtime, works};
use bench_support::turns::{median, rounds};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Thousands of operations in a round, which then takes some tenths of a second.
const THOUSANDS: [u64; 3] = [200, 500, 500];

fn main() {
    let (rounds, scale) = rounds(1000, 0);
    println!("ns of CPU per operation, median of {rounds} rounds: tickless, tokio");
    for threads in [1, 2] {
        let runtime = runtime(threads);
        for (Work { name, ours, theirs }, thousands) in works().into_iter().zip(THOUSANDS) {
            let each = (thousands * scale / threads).max(1);
            let measure = |body| {
                round(&runtime, threads, body, each).as_nanos() as f64 / (each * threads) as f64
            };
            let rounds = (0..=rounds).map(|_| [ours, theirs].map(measure));
            // The first is for warming up.
            let (ours, theirs) = rounds.skip(1).map(|[ours, theirs]| (ours, theirs)).unzip();
            println!("{threads} {name:30} {:8.1} {:8.1}", median(ours), median(theirs));
        }
    }
}
