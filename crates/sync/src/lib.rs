#![doc = include_str!("../README.md")]
#![cfg_attr(docsrs, feature(doc_cfg))]
// The models leave parts out, of which no user needs to know.
#![cfg_attr(docsrs, doc(auto_cfg(hide(loom, shuttle))))]

#[macro_use]
mod macros;

pub mod protocol;
pub mod queue;

mod cache;
mod global;
mod growing_list;
mod nesting;
mod record;
mod section;

use ::std::time::Instant;

pub use cache::{CachePadded, CountShard, ShardedCount, prefetch, prefetch_to_write, spread};
pub use global::Global;
pub use growing_list::GrowingList;
pub use nesting::Nesting;
pub use record::Record;
pub use section::{Quiet, QuietMutex, Section, assert_outside};

/// Whether a checker runs the engine. Its constants are small then: enough for every race, few
/// enough to finish.
pub const IS_CHECKED: bool = cfg!(any(loom, shuttle));

// The checkers have no `Weak` and no `OnceLock`, or take the standard library's; what uses them
// is not part of any model's races.
// (The standard library's pages have links of their own.)
#[cfg(not(tsan))]
#[doc(hidden)]
pub use ::std::sync::OnceLock;
#[doc(hidden)]
pub use ::std::sync::{Arc, PoisonError, Weak};
#[doc(hidden)]
pub use ::std::thread::panicking;

/// A number on whose order with other accesses nothing depends: a statistic, an estimate, or a flag
/// that takes effect whenever it is seen. Left out of the models, which it would only make larger.
#[cfg(not(coherence))]
pub use ::std::sync::atomic::AtomicU64 as Counter;

/// Adds to a counter that no other thread writes.
#[inline]
#[cfg_attr(coherence, track_caller)]
pub fn add_alone(counter: &Counter, n: u64) {
    // ORDER: Relaxed - one writer, so no update is lost; readers want a number, not order.
    counter.store(counter.load(Ordering::Relaxed).wrapping_add(n), Ordering::Relaxed);
}

/// Adds one to a counter.
#[inline]
#[cfg_attr(coherence, track_caller)]
pub fn add_one(counter: &Counter) {
    // ORDER: Relaxed - a statistic, which orders nothing.
    counter.fetch_add(1, Ordering::Relaxed);
}

/// Publishes what was `made` in a place that is null until then. If another thread was faster, this
/// drops it: the place has the other's.
pub fn publish_slice<T>(place: &AtomicPtr<T>, made: Box<[T]>) {
    let made = Box::into_raw(made);
    // ORDER: AcqRel - Release publishes what was made, for those who load the place with Acquire;
    // Acquire: if another thread was faster, what it made is visible to us.
    let (to, order) = (made.cast::<T>(), Ordering::AcqRel);
    if place.compare_exchange(::std::ptr::null_mut(), to, order, Ordering::Acquire).is_err() {
        // SAFETY: it came from `into_raw` and nobody else has seen it.
        drop(unsafe { Box::from_raw(made) });
    }
}

/// A fence for the compiler alone.
pub use ::std::sync::atomic::compiler_fence;

/// Where to look first; every value is valid. Left out of the models, as [`Counter`] is.
#[cfg(not(coherence))]
pub use ::std::sync::atomic::AtomicUsize as Hint;

#[cfg(not(any(loom, shuttle)))]
mod std;
#[cfg(not(any(loom, shuttle)))]
pub use self::std::*;

#[cfg(loom)]
mod loom;
#[cfg(loom)]
pub use self::loom::*;
#[cfg(loom)]
pub mod membarrier;

#[cfg(shuttle)]
mod shuttle;
#[cfg(shuttle)]
pub use self::shuttle::*;

#[cfg(not(loom))]
mod cell;
#[cfg(not(loom))]
pub use cell::{Life, UnsafeCell, deallocate, free, free_slice};

// It lies beside what it is for.
#[cfg(coherence)]
#[path = "../../../proofs/coherence/primitives.rs"]
pub mod coherence;
#[cfg(coherence)]
pub use coherence::{
    AtomicBool, AtomicPtr, AtomicU16, AtomicU32, AtomicU64, AtomicU64 as Counter, AtomicUsize,
    AtomicUsize as Hint, Condvar, Mutex, MutexGuard, spin_loop,
};

#[cfg(tsan)]
mod tsan;
#[cfg(tsan)]
pub use tsan::{Mutex, OnceLock};

/// Releases the lock, sleeps until `bell` is notified, and takes the lock again. It may return for
/// no reason: the caller checks its condition, and waits again.
pub fn wait<'a, T>(
    bell: &Condvar,
    lock: &'a Mutex<T>,
    guard: MutexGuard<'a, T>,
) -> MutexGuard<'a, T> {
    wait_until(bell, lock, guard, None)
}

/// As [`wait`], until `deadline` at most. The checkers have no time: under them this is [`wait`].
#[cfg(not(tsan))]
pub fn wait_until<'a, T>(
    bell: &Condvar,
    _lock: &'a Mutex<T>,
    guard: MutexGuard<'a, T>,
    deadline: Option<Instant>,
) -> MutexGuard<'a, T> {
    const WHOLE: &str = "nothing panics under this lock";
    match deadline {
        #[cfg(not(any(loom, shuttle)))]
        Some(deadline) => {
            let limit = deadline.saturating_duration_since(Instant::now());
            bell.wait_timeout(guard, limit).expect(WHOLE).0
        }
        _ => bell.wait(guard).expect(WHOLE),
    }
}

/// ThreadSanitizer does not see how a standard condition variable takes its lock again (see
/// `tsan`), so here a waiter looks again every 100 us and ignores the bell.
#[cfg(tsan)]
pub fn wait_until<'a, T>(
    _bell: &Condvar,
    lock: &'a Mutex<T>,
    guard: MutexGuard<'a, T>,
    _deadline: Option<Instant>,
) -> MutexGuard<'a, T> {
    drop(guard);
    thread::sleep(::std::time::Duration::from_micros(100));
    lock.lock().expect("nothing panics under this lock")
}
