//! Bodies on threads of the system.

/// Runs of each body.
const RUNS: u64 = 100;

pub(super) fn run(_bound: usize, body: impl Fn() + Send + Sync + 'static) {
    // As an engine does.
    tickless_core::os::asymmetric::prepare();
    // The epoch's first use makes its collector, behind a lock of the standard library, into which
    // ThreadSanitizer cannot see: let no two threads race for it.
    drop(tickless_core::entry::read());
    for _ in 0..support::scaled(RUNS) {
        body();
    }
}
