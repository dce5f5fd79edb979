//! A simulated machine: some cores, and a directory of the cache lines that they hold.
//!
//! A core is a thread of the system. One of them runs at a time; after a random number of accesses
//! it hands over to another (`turns`). Before each access, the directory decides whether the line
//! has to come from another core (`directory`). Whatever happens follows from the seed.
//!
//! The machine knows nothing about the program: that tells it of each access, through [`access`].
//! With the feature of the compiler that ThreadSanitizer is built on, the compiler does (`hooks`).
//! This crate is the only one that is never compiled that way.

mod directory;
#[cfg(coherence_all)]
mod hooks;
mod random;
mod turns;

use std::cell::Cell;
use std::panic::Location;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;

pub use directory::{Counts, HotLine, Tally};
pub use random::Random;

use directory::Directory;
use turns::Turns;

/// What an access is called that no line of the source has told of.
pub(crate) enum Site {
    /// A place in the source.
    Known(&'static Location<'static>),
    /// The address of the code that makes the access, which the compiler has instrumented.
    #[cfg_attr(not(coherence_all), allow(dead_code, reason = "for the hooks"))]
    Code(usize),
}

/// A simulated machine.
pub struct Machine {
    turns: Turns,
    directory: Mutex<Directory>,
}

/// What a machine is made of.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// Cores, up to [`Plan::MAX_CORES`].
    pub cores: usize,
    /// From which all choices follow.
    pub seed: u64,
    /// A core makes up to this many accesses in a row, half of it on average.
    pub slice: u64,
    /// Bytes in a line, a power of two.
    pub line: usize,
    /// How many cores call [`count_from_here`].
    pub meeting: usize,
}

thread_local! {
    /// The machine and the number of the core that this thread is.
    static CORE: Cell<Option<(&'static Machine, usize)>> = const { Cell::new(None) };
}

/// The calling core is about to read, or else to write, so many bytes at `at`. Returns at once on a
/// thread that is no core.
pub fn access(at: usize, bytes: usize, writes: bool, site: &'static Location<'static>) {
    if let Some((machine, core)) = CORE.get() {
        machine.turns.step(core);
        machine.directory().access(core, at, bytes, writes, &Site::Known(site));
    }
}

/// The calling core waits until the lock at this address is released, or at least until another
/// core has run. Returns `false` on a thread that is no core.
pub fn wait(lock: usize) -> bool {
    CORE.get().inspect(|(machine, core)| machine.turns.wait(*core, lock)).is_some()
}

/// The lock at this address was released.
pub fn release(lock: usize) {
    if let Some((machine, _)) = CORE.get() {
        machine.turns.release(lock);
    }
}

/// All cores that [wait](wait()) for what has this address may try again.
pub fn release_all(what: usize) {
    if let Some((machine, _)) = CORE.get() {
        machine.turns.release_all(what);
    }
}

/// Lets another core run. Does nothing on a thread that is no core.
pub fn pass() {
    if let Some((machine, core)) = CORE.get() {
        machine.turns.pass(core);
    }
}

/// Runs `f` as if it did nothing: what belongs to the program that counts, and not to what is
/// counted.
pub fn aside<R>(f: impl FnOnce() -> R) -> R {
    let core = become_core(None);
    let result = f();
    become_core(core);
    result
}

/// The thread is this core from now on; returns what it was. Never a part of code that is
/// instrumented, which would be told of the change halfway.
#[inline(never)]
fn become_core(core: Option<(&'static Machine, usize)>) -> Option<(&'static Machine, usize)> {
    CORE.replace(core)
}

/// Does not count the line of this address from now on.
pub fn ignore(at: usize) {
    if let Some((machine, _)) = CORE.get() {
        machine.directory().ignore(at);
    }
}

/// Waits until all cores that are to [meet](Plan::meeting) have come here, and counts from then on.
pub fn count_from_here() {
    let (machine, core) = CORE.get().expect("a core calls this");
    if machine.turns.meet(core) {
        machine.directory().begin();
    }
}

/// Runs `body` once on each core of a new machine, from its number on, and returns what was
/// counted. If a core panics, or all wait for each other, the process is aborted.
///
/// # Panics
/// There cannot be so many cores.
pub fn run(plan: Plan, body: impl Fn(usize) + Sync) -> Counts {
    assert!((1..=Plan::MAX_CORES).contains(&plan.cores), "{} cores", plan.cores);
    // Threads keep a reference to their machine until their very end.
    let machine: &'static Machine = Box::leak(Box::new(Machine {
        turns: Turns::new(plan),
        directory: Mutex::new(Directory::new(plan.line)),
    }));
    thread::scope(|scope| {
        let body = &body;
        for core in 0..plan.cores {
            scope.spawn(move || {
                machine.turns.enter(core);
                become_core(Some((machine, core)));
                let _fatal = Fatal;
                body(core);
                become_core(None);
                machine.turns.leave(core);
            });
            // One after the other, so that the allocator meets them in the order of their numbers.
            machine.turns.await_entry(core);
        }
        machine.turns.start();
    });
    machine.directory().take()
}

/// All others would wait for ever for a core that has panicked.
struct Fatal;

impl Drop for Fatal {
    fn drop(&mut self) {
        if thread::panicking() {
            std::process::abort();
        }
    }
}

impl Machine {
    fn directory(&self) -> MutexGuard<'_, Directory> {
        self.directory.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl std::fmt::Debug for Machine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Machine").finish_non_exhaustive()
    }
}

impl Plan {
    /// The most cores that a machine has.
    pub const MAX_CORES: usize = 256;
}
