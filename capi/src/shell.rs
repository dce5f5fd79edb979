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
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use tickless::{Engine, ManualClock};

use crate::bells::SharedBells;
use crate::failure::{Failure, TICKLESS_E_HANDLE};
use crate::task::Payload;

/// An engine. It is made by tickless_engine_new and freed by tickless_engine_free.
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
}

#[repr(align(64))]
struct Shell {
    generation: AtomicU64,
    /// The generation that a call frees or has freed, or one before it.
    freed: AtomicU64,
    inner: UnsafeCell<MaybeUninit<Inner>>,
}

/// The bits of the pointer that are not the shell's address.
const TAG: usize = align_of::<Shell>() - 1;

/// The addresses of shells without an engine. Nobody waits for this lock: in a child process, the
/// thread that held it may not exist.
static EMPTY: Mutex<Vec<usize>> = Mutex::new(Vec::new());

/// Puts an engine into a shell, and returns the pointer for the caller.
pub(crate) fn fill(inner: Inner) -> *mut TicklessEngine {
    let used = EMPTY.try_lock().ok().and_then(|mut empty| empty.pop());
    let shell: *mut Shell = match used {
        Some(address) => ptr::with_exposed_provenance_mut(address),
        None => Box::into_raw(Box::new(Shell {
            generation: AtomicU64::new(0),
            freed: AtomicU64::new(0),
            inner: UnsafeCell::new(MaybeUninit::uninit()),
        })),
    };
    // SAFETY: shells are never freed.
    let this = unsafe { &*shell };
    // SAFETY: the shell is empty, and this thread's: it was in no list, or was taken out of it.
    unsafe { (*this.inner.get()).write(inner) };
    // ORDER: Relaxed - the lock has ordered what was before.
    let generation = this.generation.load(Ordering::Relaxed) + 1;
    // ORDER: Release - pairs with the Acquire in `inner`: the engine is in the shell.
    this.generation.store(generation, Ordering::Release);
    shell.cast::<TicklessEngine>().map_addr(|address| address | tag(generation))
}

/// What is in the shell of a caller's pointer.
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
    // SAFETY: there is an engine in it, which stays, as the caller promises.
    Ok(unsafe { (*shell.inner.get()).assume_init_ref() })
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
        if let Ok(mut empty) = EMPTY.try_lock() {
            empty.push(this.address.expose_provenance());
        }
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
    use std::thread;

    use tickless::Builder;

    use super::*;

    #[test]
    fn of_two_threads_that_take_an_engine_out_of_its_shell_one_gets_it() {
        for _ in 0..500 {
            let clock = ManualClock::new();
            let builder = Builder::new().manual_clock(&clock).shards(1);
            let engine = builder.build_each(Payload::fire).expect("the settings are valid");
            let inner = Inner { engine, bells: None, clock: None, gave_up: AtomicBool::new(false) };
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
