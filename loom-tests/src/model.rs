//! How a body is run: the one place that knows of the three worlds.
//!
//! A body is written once, against the threads and atomics of [`tickless_sync`]. Without a
//! switch it runs on threads of the system, some hundred times. Under loom it runs in every
//! interleaving up to a number of preemptions. Under shuttle it runs in some thousand random
//! schedules, and, if it has a call that is suspendable, with that call stopped at each of its
//! steps.

use std::sync::Arc;

use tickless_sync::thread;

use crate::ledger;

#[cfg(loom)]
#[path = "model/checked.rs"]
mod run;
#[cfg(not(any(loom, shuttle)))]
#[path = "model/plain.rs"]
mod run;
#[cfg(shuttle)]
#[path = "model/scheduled.rs"]
mod run;
// Elsewhere, the call of the system has other arguments.
#[cfg(all(loom, target_os = "linux", target_pointer_width = "64"))]
#[path = "model/stacks.rs"]
mod stacks;
#[cfg(any(loom, shuttle))]
#[path = "model/stopwatch.rs"]
mod stopwatch;
#[cfg(shuttle)]
#[path = "model/suspension.rs"]
mod suspension;

/// The bound of a body that is too big for the model checker, under which it is not built.
pub const TOO_BIG: usize = 0;

/// Runs `body` in the world that it was built for, and settles the accounts of its payloads after
/// each run. `bound` is the number of preemptions per interleaving for the model checker.
pub fn check(bound: usize, body: impl Fn() + Send + Sync + 'static) {
    check_boxed(bound, Box::new(body));
}

/// The same for any body: a checker that is compiled for each of them takes half of the build.
fn check_boxed(bound: usize, body: Box<dyn Fn() + Send + Sync>) {
    run::run(bound, move || {
        ledger::open();
        body();
        ledger::settle();
    });
}

/// Runs `f` on a thread of its own, with what all threads of a body share.
pub fn on_thread<S, R>(
    shared: &Arc<S>,
    f: impl FnOnce(&S) -> R + Send + 'static,
) -> thread::JoinHandle<R>
where
    S: Send + Sync + 'static,
    R: Send + 'static,
{
    let shared = shared.clone();
    thread::spawn(move || f(&shared))
}

/// Runs `call`. Under the random scheduler the thread may be suspended at any step of it, until
/// somebody calls [`resume`]: a thread that waits for it meanwhile fails the test. One thread of a
/// body may have such a call.
pub fn suspendable<R>(call: impl FnOnce() -> R) -> R {
    #[cfg(shuttle)]
    let _within = suspension::Within::begin();
    call()
}

/// Under the model checker, the system fences on all processors no longer.
pub fn refuse_fences() {
    #[cfg(loom)]
    tickless_sync::membarrier::refuse();
}

/// Lets the thread go on that was suspended in its [`suspendable`] call, or is about to be.
pub fn resume() {
    #[cfg(shuttle)]
    suspension::resume();
}
