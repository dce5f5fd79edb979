//! The memory behind a `tickless_engine`: a shell that engines use one after another.
//!
//! A shell is never freed, so a stale pointer to one can be looked at. Its generation is odd while
//! an engine is in it. The lowest bits of the generation go into the pointer that the caller gets:
//! the pointer of an engine that was freed is refused until the bits come round again. There are as
//! many shells as engines existed at a time.
//!
//! *Owner*: any thread looks; the thread that makes or frees an engine changes it.
//!
//! *Orderings*: the generation is stored with Release after the engine was put in, and loaded with
//! Acquire. A caller that frees an engine while another thread uses it breaks the rules, and this
//! notices it by chance only; but of several calls that free it, one goes on. For that, the shell
//! has the generation that a call frees, or did: these numbers only grow.

use std::cell::UnsafeCell;
use std::mem::{ManuallyDrop, MaybeUninit};
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, Ordering};

use tickless::{Engine, ManualClock};

use crate::bells::SharedBells;
use crate::failure::{Failure, TICKLESS_E_HANDLE};
use crate::memory;
use crate::process;
use crate::task::Payload;
use crate::when::Reach;

/// An engine.
#[derive(Debug)]
#[expect(dead_code, reason = "the header only names it")]
pub struct TicklessEngine(u8);

/// What is in a shell.
#[derive(Debug)]
pub(crate) struct Inner {
    pub(crate) engine: Engine<Payload>,
    /// If its caller drives it.
    pub(crate) bells: Option<SharedBells>,
    /// If it is moved by hand.
    pub(crate) clock: Option<ManualClock>,
    /// Whether a stop gave up waiting.
    pub(crate) gave_up: AtomicBool,
    /// How far its ticks reach.
    pub(crate) reach: Reach,
}

#[repr(align(64))]
struct Shell {
    generation: AtomicU64,
    /// The generation that a call frees or has freed, or one before it.
    freed: AtomicU64,
    /// The address of the next empty shell.
    next: AtomicU64,
    /// The shell that was made before this one.
    older: *mut Shell,
    inner: UnsafeCell<MaybeUninit<Inner>>,
}

/// The bits of the pointer that are not the shell's address.
const TAG: usize = align_of::<Shell>() - 1;

/// The shells without an engine, a stack: the address of the first, and in the bits that an address
/// does not have, how often the stack was changed. Shells are never freed, so that a thread may
/// look at one that another has taken meanwhile.
static EMPTY: AtomicU64 = AtomicU64::new(0);

/// The shell that was made last. From here all are reached, for checkers of leaks: what is on the
/// stack is no address to them.
static NEWEST: AtomicPtr<Shell> = AtomicPtr::new(ptr::null_mut());

/// The bits of the stack's word that are an address: 48, less those that the alignment leaves.
const ADDRESS: u64 = (1 << 48) - 1 - TAG as u64;

/// Puts an engine into a shell, and returns the pointer for the caller.
pub(crate) fn fill(inner: Inner) -> *mut TicklessEngine {
    let shell = pop().unwrap_or_else(make);
    // SAFETY: shells are never freed.
    let this = unsafe { &*shell };
    // SAFETY: the shell is empty, and this thread's: it is new, or was taken off the stack.
    unsafe { (*this.inner.get()).write(inner) };
    // ORDER: Relaxed - what was before the shell was put on the stack is seen (`pop`).
    let generation = this.generation.load(Ordering::Relaxed) + 1;
    // ORDER: Release - pairs with the Acquire in `inner`: the engine is in the shell.
    this.generation.store(generation, Ordering::Release);
    shell.cast::<TicklessEngine>().map_addr(|address| address | tag(generation))
}

fn make() -> *mut Shell {
    // ORDER: Relaxed - a pointer that nobody follows.
    let mut older = NEWEST.load(Ordering::Relaxed);
    let shell = Box::into_raw(Box::new(Shell {
        generation: AtomicU64::new(0),
        freed: AtomicU64::new(0),
        next: AtomicU64::new(0),
        older,
        inner: UnsafeCell::new(MaybeUninit::uninit()),
    }));
    // ORDER: Release, Relaxed - as above; checkers look when all threads stand still.
    let (to, failed) = (Ordering::Release, Ordering::Relaxed);
    while let Err(now) = NEWEST.compare_exchange(older, shell, to, failed) {
        older = now;
        // SAFETY: nobody else knows the shell yet.
        unsafe { (*shell).older = older };
    }
    shell
}

/// Takes an empty shell.
fn pop() -> Option<*mut Shell> {
    // ORDER: Acquire - pairs with the Release in `push`: what was done with the shell before.
    let mut head = EMPTY.load(Ordering::Acquire);
    while head & ADDRESS != 0 {
        let first: *mut Shell = ptr::with_exposed_provenance_mut((head & ADDRESS) as usize);
        // SAFETY: shells are never freed.
        // ORDER: Relaxed - if another thread has taken it meanwhile, the CAS fails.
        let next = unsafe { &(*first).next }.load(Ordering::Relaxed);
        let (to, failed) = (Ordering::Acquire, Ordering::Acquire);
        // ORDER: Acquire - as above.
        match EMPTY.compare_exchange(head, changed(head, next), to, failed) {
            Ok(_) => return Some(first),
            Err(now) => head = now,
        }
    }
    None
}

/// Leaves an empty shell for the next engine.
fn push(shell: *const Shell) {
    let address = shell.expose_provenance() as u64;
    assert_eq!(address & ADDRESS, address, "addresses have 48 bits");
    // ORDER: Relaxed - the CAS looks again.
    let mut head = EMPTY.load(Ordering::Relaxed);
    loop {
        // SAFETY: shells are never freed.
        // ORDER: Relaxed - the CAS publishes it.
        unsafe { &(*shell).next }.store(head & ADDRESS, Ordering::Relaxed);
        let (to, failed) = (Ordering::Release, Ordering::Relaxed);
        // ORDER: Release - pairs with the Acquire in `pop`. Relaxed - it is tried again.
        match EMPTY.compare_exchange(head, changed(head, address), to, failed) {
            Ok(_) => return,
            Err(now) => head = now,
        }
    }
}

/// The stack's word with another first shell, and one change more.
fn changed(head: u64, first: u64) -> u64 {
    // The low bits count first, and carry into the high ones.
    let changes = ((head & !ADDRESS) | ADDRESS).wrapping_add(1) & !ADDRESS;
    changes | first
}

/// What is in the shell of a caller's pointer.
///
/// # Errors
/// It is none, or this process is a child of which nobody was told.
///
/// # Safety
/// The pointer is NULL or came from [`fill`]. While the result is used, the engine is not freed.
#[inline]
pub(crate) unsafe fn inner<'a>(engine: *const TicklessEngine) -> Result<&'a Inner, Failure> {
    let shell = engine.map_addr(|address| address & !TAG).cast::<Shell>();
    if shell.is_null() {
        return Err(Failure::null("engine"));
    }
    // SAFETY: shells are never freed.
    let shell = unsafe { &*shell };
    // ORDER: Acquire - pairs with the Release in `fill`.
    let generation = shell.generation.load(Ordering::Acquire);
    if !is_of(engine, generation) {
        return Err(freed());
    }
    process::check()?;
    // SAFETY: there is an engine in it, which stays, as the caller promises.
    Ok(unsafe { (*shell.inner.get()).assume_init_ref() })
}

/// As `inner`, for a call that starts something.
///
/// # Errors
/// As for `inner`, or there is no memory.
///
/// # Safety
/// As for `inner`.
#[inline]
pub(crate) unsafe fn inner_to_start<'a>(
    engine: *const TicklessEngine,
) -> Result<&'a Inner, Failure> {
    // SAFETY: passed on to the caller.
    let inner = unsafe { inner(engine) }?;
    memory::check().map(|()| inner)
}

/// A call that frees an engine: no other does. If it does not take the engine out, another call may
/// free it.
#[derive(Debug)]
pub(crate) struct Freeing {
    address: *const Shell,
    generation: u64,
}

/// Begins to free the engine of a caller's pointer.
///
/// # Safety
/// The pointer is NULL or came from [`fill`].
pub(crate) unsafe fn begin_to_free(engine: *mut TicklessEngine) -> Result<Freeing, Failure> {
    let address = engine.map_addr(|address| address & !TAG).cast::<Shell>();
    if address.is_null() {
        return Err(Failure::null("engine"));
    }
    // SAFETY: shells are never freed.
    let shell = unsafe { &*address };
    // ORDER: Acquire - as in `inner`.
    let generation = shell.generation.load(Ordering::Acquire);
    let (to, failed) = (Ordering::AcqRel, Ordering::Relaxed);
    let claim = |freed| (freed < generation).then_some(generation);
    // ORDER: AcqRel, Relaxed - of two calls that free an engine, one finds that it is being freed,
    // also if it comes when the shell has another: the generations grow.
    if !is_of(engine, generation) || shell.freed.fetch_update(to, failed, claim).is_err() {
        return Err(freed());
    }
    Ok(Freeing { address, generation })
}

impl Freeing {
    /// What is in the shell.
    pub(crate) fn inner(&self) -> &Inner {
        // SAFETY: shells are never freed.
        let shell = unsafe { &*self.address };
        // SAFETY: the engine was there when this call began to free it, and no other does.
        unsafe { (*shell.inner.get()).assume_init_ref() }
    }

    /// Takes the engine out of its shell.
    ///
    /// # Safety
    /// Nobody uses the engine any more.
    pub(crate) unsafe fn empty(self) -> Inner {
        // It stays claimed.
        let this = ManuallyDrop::new(self);
        // SAFETY: shells are never freed.
        let shell = unsafe { &*this.address };
        // ORDER: Release - a thread that finds it empty comes after what was done with the engine.
        shell.generation.store(this.generation + 1, Ordering::Release);
        // SAFETY: it was there, and nobody else takes it.
        let inner = unsafe { (*shell.inner.get()).assume_init_read() };
        push(this.address);
        inner
    }
}

impl Drop for Freeing {
    /// The engine stays, and may be freed later.
    fn drop(&mut self) {
        // SAFETY: shells are never freed.
        let shell = unsafe { &*self.address };
        // ORDER: Release - pairs with the AcqRel in `begin_to_free`.
        shell.freed.store(self.generation - 1, Ordering::Release);
    }
}

/// Whether a shell of that generation has the engine of the caller's pointer.
#[inline]
fn is_of(engine: *const TicklessEngine, generation: u64) -> bool {
    generation & 1 == 1 && tag(generation) == engine.addr() & TAG
}

#[cold]
fn freed() -> Failure {
    Failure::new(TICKLESS_E_HANDLE, format_args!("the engine was freed"))
}

fn tag(generation: u64) -> usize {
    (generation >> 1) as usize & TAG
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::thread;

    use tickless::Builder;

    use super::*;

    #[test]
    fn no_shell_is_lost_however_many_threads_take_and_leave_them() {
        const THREADS: usize = 4;
        let take_and_leave = || {
            let mut used = BTreeSet::new();
            for _ in 0..300_000 {
                let shell = pop().unwrap_or_else(make);
                used.insert(shell.addr());
                push(shell);
            }
            used
        };
        let used: Vec<BTreeSet<usize>> = thread::scope(|threads| {
            let workers: Vec<_> = (0..THREADS).map(|_| threads.spawn(take_and_leave)).collect();
            workers.into_iter().map(|worker| worker.join().expect("no panic")).collect()
        });
        let shells: BTreeSet<usize> = used.into_iter().flatten().collect();
        // Of the other tests of this program, each has one engine at a time.
        assert!(shells.len() <= THREADS + 4, "{} shells", shells.len());
    }

    #[test]
    fn of_two_threads_that_take_an_engine_out_of_its_shell_one_gets_it() {
        for _ in 0..150 {
            let clock = ManualClock::new();
            let builder = Builder::new().manual_clock(&clock).shards(1);
            let engine = builder.build_each(Payload::fire).expect("the settings are valid");
            let (gave_up, reach) = (AtomicBool::new(false), Reach::of_ticks(0));
            let inner = Inner { engine, bells: None, clock: None, gave_up, reach };
            let address = fill(inner).expose_provenance();
            // Not a barrier of the system's, which lets one of them go much sooner.
            let ready = AtomicU64::new(0);
            let take = || {
                // ORDER: Relaxed, twice - a count.
                ready.fetch_add(1, Ordering::Relaxed);
                while ready.load(Ordering::Relaxed) < 2 {
                    std::hint::spin_loop();
                }
                // SAFETY: the pointer is that of the engine that was put in.
                let freeing = unsafe { begin_to_free(ptr::with_exposed_provenance_mut(address)) };
                // SAFETY: nobody uses the engine.
                freeing.map(|freeing| drop(unsafe { freeing.empty() })).is_ok()
            };
            let (first, second) = thread::scope(|threads| {
                let (first, second) = (threads.spawn(take), threads.spawn(take));
                (first.join().expect("no panic"), second.join().expect("no panic"))
            });
            assert!(first != second, "both or none: {first}");
        }
    }
}
