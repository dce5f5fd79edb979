//! Reclamation: memory goes back to the allocator after every reader that might see it has left.
//!
//! This is the only file that names the epoch crate. Entries are *reused* at once, because link
//! and state are atomic and readers touch nothing else. Only freeing blocks waits for the epoch.
//!
//! The collector is our own. A collector runs deferred calls inside any later call to it. A
//! collector shared with other crates would run their destructors inside our calls, and their pins
//! would hold our memory back.
//!
//! A batch is freed by the thread that leaves it here ([`after_readers`]), unless a reader is in
//! the way; then by the [`Reader`] that goes last, or by a reaper while nothing is due
//! ([`collect`]).
//!
//! A child process has a collector of its own. It inherits memory that its parent's collector was
//! about to free, and never frees that. Only the parent's bags refer to that memory, so nothing
//! else frees it either. The forking thread's handle is forgotten, not dropped, which would pass
//! its bag on; so a guard from before the fork only unpins. A child leaks what was waiting at the
//! fork.
//!
//! *Owner*: any thread.
//!
//! *Invariant*: freeing a waiting batch runs no user code.
//!
//! *Orderings*: BUCKET-READ, PUBLISHED, through the epoch's own fences.
//!
//! Why BUCKET-READ holds. Call an entry *old* to a reader if the SeqCst fence of its retirement
//! precedes that of the reader's pin. An entry that is not old stays allocated as long as the pin.
//! A reader gets no pointer to an old entry N:
//!
//! - *from the head of a list*: the swap that took N happens before N's retirement, and the load
//!   comes after the pin. If N were old, the load would see that swap, or a later one.
//! - *from a link that was there when the reader got to P, the entry before N*: then N was taken
//!   after P's list was read, and so retired after that.
//! - *from a link that is written while the reader stands on P*: P was taken, handed on, and is
//!   pushed again, perhaps on a list of another shard. A push begins with a *load* of the head.
//!   Nothing orders that load after the swap by which another owner took N: it may return an
//!   arbitrarily old value (x86 and ARMv8 forbid that, the language does not). So a thread that
//!   takes a chain executes a SeqCst fence before it hands out an entry (`inbox`). The reader read
//!   P's list before P was taken (or it came along such a link, whose writer did), so its pin's
//!   fence precedes that fence. If N were old, N's retirement would precede it as well, and the
//!   load, which comes after that fence, would see the swap that took N.
//! - *from a link that the owner writes between entries in its tray*: the owner holds N, which is
//!   retired later. The link's Release shows the reader no older link of N.
//!
//! An entry that is taken into a tray is safe for the same reason: its owner retires it later. The
//! link that led to an entry that is unlinked from the middle of a list is overwritten before that
//! entry's retirement, as a head is.
//!
//! For an entry P that a sweep cut out of a list, and for one that was a notice, the fence is that
//! of the outbox to which it went (`memory/free_list.rs`): no thread gets it before the magazine
//! that has it leaves. A reader that stands on P has read the link that the cut overwrites, or a
//! head that the owner's take of the notices overwrites, before that: so its pin's fence precedes
//! that of the outbox. (No model has this: it takes a third thread.
//! `loom-tests/tests/freed.rs` has the argument for what is taken.)
//!
//! The fences add no cost per entry. A producer has one for each magazine that it gives away.
//!
//! *Tested by*: `loom-tests/tests/{bucket_read,published}.rs`, `tests/memory/foreign.rs`,
//! `tests/memory/readers.rs`, `tests/alone/fork/main.rs`.

use std::cell::{Cell, Ref, RefCell};
use std::mem;

use crossbeam_epoch::{Atomic, Collector, Guard, LocalHandle, Owned};

#[cfg(not(crossbeam_loom))]
use crate::os::ForkHandler;
use crate::os::Process;
#[cfg(not(crossbeam_loom))]
use crate::sync::Global;
use crate::sync::{Counter, IS_CHECKED, Ordering};
#[cfg(crossbeam_loom)]
use crate::sync::{lazy_static, modelled_local as thread_local};

/// While it lives, no memory that its holder may have seen is given back to the allocator.
pub struct Reader {
    /// `Some` until the reader is dropped.
    guard: Option<Guard>,
}

/// A value that is read without a lock and replaced as a whole.
pub struct Published<V> {
    value: Atomic<V>,
}

/// After this many attempts in a row that free nothing, a reader is in the way. A batch can be
/// freed once the epoch has advanced twice, which takes one attempt each. Models use the minimum.
const ATTEMPTS: usize = if IS_CHECKED { 1 } else { 4 };

/// Batches that wait for readers to leave.
static WAITING: Counter = Counter::new(0);

/// A child process counts anew: its own collector has no batch yet.
#[cfg(not(crossbeam_loom))]
static AT_FORK: ForkHandler = ForkHandler::new(count_anew);

thread_local! {
    /// The thread's handle of the collector.
    static HANDLE: Handle = Handle::new();
}

/// A thread's handle of the collector of a process.
struct Handle(RefCell<(Process, LocalHandle)>);

std::thread_local! {
    /// How many batches the thread has freed so far.
    static FREED: Cell<u64> = const { Cell::new(0) };
    /// The value of `FREED` when the thread last flushed its bag.
    static FREED_BEFORE: Cell<u64> = const { Cell::new(0) };
}

/// Starts reading. Takes no lock and never waits.
pub fn read() -> Reader {
    Reader { guard: Some(pin()) }
}

/// Runs `free` once every current [`Reader`] is gone: before this returns, if there is none, or
/// later on some thread. Also frees some of the batches that waited before.
///
/// # Safety
/// Readers that start from now on cannot reach what `free` frees. `free` may run on any thread at
/// any later time, even after everything that it does not own is gone. It runs no user code and
/// does not panic.
pub unsafe fn after_readers<F: FnOnce()>(free: F) {
    let mut free = Some(free);
    with_handle(|handle| {
        let guard = handle.pin();
        let free = free.take().expect("it is called once");
        // SAFETY: passed on to the caller.
        unsafe { leave(&guard, free) };
        flush(&guard);
        drop(guard);
        collect_some(handle);
    });
}

/// Frees a few waiting batches, unless readers are in the way. Returns `true` if it did and more
/// are waiting.
#[inline]
pub fn collect() -> bool {
    waiting() > 0 && with_handle(collect_some)
}

fn collect_some(handle: &LocalHandle) -> bool {
    (0..ATTEMPTS).any(|_| waiting() > 0 && attempt(handle)) && waiting() > 0
}

/// How many batches wait for readers to leave, or for a thread to collect them.
#[inline]
pub fn waiting() -> u64 {
    // ORDER: Relaxed - the number only says whether to look.
    WAITING.load(Ordering::Relaxed)
}

/// Defers `call` in the thread's bag, which the caller flushes next.
///
/// # Safety
/// As [`after_readers`].
unsafe fn leave<F: FnOnce()>(guard: &Guard, call: F) {
    // ORDER: Relaxed - the number only says whether to look.
    WAITING.fetch_add(1, Ordering::Relaxed);
    let call = move || {
        call();
        FREED.set(FREED.get() + 1);
        // ORDER: Relaxed - the number only says whether to look.
        WAITING.fetch_sub(1, Ordering::Relaxed);
    };
    // SAFETY: passed on to the caller; the code around the call touches only statics.
    unsafe { guard.defer_unchecked(call) };
}

/// Frees some of the waiting batches. Returns `false` if it freed none.
fn attempt(handle: &LocalHandle) -> bool {
    let guard = handle.pin();
    // For each bag that it empties, the collector leaves a node of its own queue in the thread's
    // bag. If there are several, the bag is worth another collection.
    if FREED.get() > FREED_BEFORE.get() + 1 {
        // SAFETY: it frees nothing.
        unsafe { leave(&guard, || ()) };
    }
    flush(&guard)
}

/// Passes on the thread's bag, lets the epoch advance, and frees a bounded part of what is old
/// enough. Returns `false` if it freed nothing.
fn flush(guard: &Guard) -> bool {
    let before = FREED.get();
    FREED_BEFORE.set(before);
    guard.flush();
    FREED.get() > before
}

fn pin() -> Guard {
    // A guard keeps its handle alive.
    with_handle(LocalHandle::pin)
}

/// Calls `f` with the thread's handle. A thread that is ending no longer has one: it takes another.
fn with_handle<R>(mut f: impl FnMut(&LocalHandle) -> R) -> R {
    HANDLE.try_with(|handle| f(&handle.current())).unwrap_or_else(|_| f(&collector().register()))
}

/// The collector of the process. A child has one of its own: in its parent's, threads that do not
/// exist there may be pinned for ever.
#[cfg(not(crossbeam_loom))]
fn collector() -> &'static Collector {
    static COLLECTOR: Global<(Process, Collector)> = Global::empty();
    let make = || {
        AT_FORK.register();
        (Process::current(), Collector::new())
    };
    &COLLECTOR.get_or_make(|(process, _)| process.is_current(), make).1
}

#[cfg(not(crossbeam_loom))]
extern "C" fn count_anew() {
    // ORDER: Relaxed - a child has one thread yet.
    WAITING.store(0, Ordering::Relaxed);
}

/// One for each iteration of a model.
#[cfg(crossbeam_loom)]
fn collector() -> &'static Collector {
    lazy_static! {
        static ref COLLECTOR: Collector = Collector::new();
    }
    &COLLECTOR
}

// === impl Handle ===

impl Handle {
    fn new() -> Handle {
        Handle(RefCell::new(Handle::of_process()))
    }

    fn of_process() -> (Process, LocalHandle) {
        (Process::current(), collector().register())
    }

    /// The thread's handle in this process.
    #[inline]
    fn current(&self) -> Ref<'_, LocalHandle> {
        if !self.0.borrow().0.is_current() {
            self.renew();
        }
        Ref::map(self.0.borrow(), |(_, local)| local)
    }

    /// After a fork, in the child. What waits in the parent's collector stays there.
    #[cold]
    fn renew(&self) {
        mem::forget(self.0.replace(Handle::of_process()));
    }
}

// === impl Reader ===

/// Frees the batches that waited for this reader alone. O(n) in their number.
impl Drop for Reader {
    #[inline]
    fn drop(&mut self) {
        drop(self.guard.take());
        for _ in 0..waiting() {
            if !collect() {
                return;
            }
        }
    }
}

debug! { impl[] Reader[] {} }

// === impl Published ===

impl<V: Send + Sync + 'static> Published<V> {
    /// Nothing published yet.
    ///
    /// # Safety
    /// Dropping a value runs no user code: it happens wherever memory is collected.
    #[cfg(not(crossbeam_loom))]
    pub const unsafe fn empty() -> Published<V> {
        Published { value: Atomic::null() }
    }

    /// Nothing published yet. (The model checker's pointers have no const constructor.)
    ///
    /// # Safety
    /// Dropping a value runs no user code: it happens wherever memory is collected.
    #[cfg(crossbeam_loom)]
    pub unsafe fn empty() -> Published<V> {
        Published { value: Atomic::null() }
    }

    /// Calls `f` with the current value, if there is one.
    pub fn with<R>(&self, f: impl FnOnce(Option<&V>) -> R) -> R {
        let guard = pin();
        // ORDER(PUBLISHED): Acquire - pairs with the CAS in `update`, which publishes the value.
        let shared = self.value.load(Ordering::Acquire, &guard);
        // SAFETY: a value that was loaded under a guard lives as long as the guard: `update`
        // destroys it through the epoch only.
        let result = f(unsafe { shared.as_ref() });
        drop(guard);
        collect();
        result
    }

    /// Replaces the value with `next(old)`; retries if another thread replaced it first.
    pub fn update(&self, mut next: impl FnMut(Option<&V>) -> V) {
        let guard = pin();
        loop {
            // ORDER(PUBLISHED): Acquire - pairs with the CAS below.
            let old = self.value.load(Ordering::Acquire, &guard);
            // SAFETY: it was loaded under the guard, which is held.
            let new = Owned::new(next(unsafe { old.as_ref() }));
            // ORDER(PUBLISHED): AcqRel - Release publishes the new value to `with` and to other
            // updates; Acquire: the value that is replaced is ours to destroy.
            let done =
                self.value.compare_exchange(old, new, Ordering::AcqRel, Ordering::Acquire, &guard);
            if done.is_ok() {
                if !old.is_null() {
                    // SAFETY: it was just taken out of reach, by this thread alone.
                    let destroy = move || drop(unsafe { old.into_owned() });
                    // SAFETY: it is out of reach; the caller of `empty` promised that no user code
                    // runs.
                    unsafe { leave(&guard, destroy) };
                    flush(&guard);
                }
                return;
            }
        }
    }
}

impl<V> Drop for Published<V> {
    fn drop(&mut self) {
        // SAFETY: nobody else can reach it, so nobody replaces the value meanwhile.
        let nobody = unsafe { crossbeam_epoch::unprotected() };
        // ORDER(PUBLISHED): Acquire - pairs with the CAS in `update`.
        let last = self.value.load(Ordering::Acquire, nobody);
        if !last.is_null() {
            // SAFETY: nobody else can reach it or has borrowed it: it is borrowed through `self`.
            drop(unsafe { last.into_owned() });
        }
    }
}

debug! { impl[V] Published[V] {} }
