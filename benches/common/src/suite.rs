//! What all benches of the suite share: how long each measures, and how its groups are made.
//!
//! A group is named after what a user does, and says how many of those operations one iteration
//! is, so that criterion prints operations per second beside the time. `ci/bench.sh` refuses a
//! group that is made in another way.

use std::time::Duration;

use criterion::measurement::WallTime;
use criterion::{BenchmarkGroup, Criterion, Throughput};

/// Short samples: the whole suite has to end within ten minutes on two cores. The options of
/// criterion (`-- --sample-size 50 --measurement-time 5`) go before these.
pub fn config() -> Criterion {
    Criterion::default()
        .sample_size(15)
        .warm_up_time(Duration::from_millis(300))
        .measurement_time(Duration::from_millis(1_500))
        .nresamples(10_000)
}

/// A group in which each iteration is `operations` of what the name says.
pub fn group<'a>(
    criterion: &'a mut Criterion,
    name: impl Into<String>,
    operations: u64,
) -> BenchmarkGroup<'a, WallTime> {
    let mut group = criterion.benchmark_group(name);
    group.throughput(Throughput::Elements(operations));
    group
}
