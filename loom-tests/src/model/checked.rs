//! Bodies under the model checker.

use std::cell::Cell;
use std::env;

use loom::model::Builder;
use tickless_sync::membarrier;

use super::stopwatch::Stopwatch;

/// Steps of an interleaving before it is taken for an endless loop.
const MAX_STEPS: usize = 20_000;

thread_local! {
    static INTERLEAVINGS: Cell<u64> = const { Cell::new(0) };
}

/// Runs `body` in every interleaving with at most `bound` preemptions.
///
/// `LOOM_MAX_PREEMPTIONS` is the most that any body gets. `MORE_PREEMPTIONS` is added to the bound
/// of each: for those who have the time.
pub(super) fn run(bound: usize, body: impl Fn() + Send + Sync + 'static) {
    let mut builder = Builder::new();
    let more = env::var("MORE_PREEMPTIONS").map_or(0, |more| more.parse().expect("a number"));
    let bound = (bound + more).min(builder.preemption_bound.unwrap_or(usize::MAX));
    builder.preemption_bound = Some(bound);
    builder.max_branches = builder.max_branches.max(MAX_STEPS);
    let begin = Stopwatch::start();
    INTERLEAVINGS.set(0);
    builder.check(move || {
        // All threads of a model are run by one thread of the system: this one.
        INTERLEAVINGS.set(INTERLEAVINGS.get() + 1);
        tickless_sync::end_iteration();
        membarrier::begin_iteration();
        body();
    });
    tickless_sync::end_iteration();
    let (count, time) = (INTERLEAVINGS.get(), begin.elapsed());
    eprintln!("{count} interleavings with up to {bound} preemptions in {time:.2?}");
}
