//! Cache lines: a value on lines of its own, asking for a line before it is needed, and a count on
//! which many threads do not meet on one line.

use std::array;
use std::cell::Cell;

use super::{Arc, Counter, Ordering, per_thread};

pub use crossbeam_utils::CachePadded;

/// The number of shards.
const SHARDS: usize = 64;

/// One shard: a reference count, and whatever else is counted there.
pub type CountShard<V> = Arc<CachePadded<V>>;

/// A reference count in several shards, so that many threads do not count on the same cache line.
///
/// Each node in a table of the keyed API or the purgatory keeps the table alive. A single reference
/// count would be one cache line that every thread writes. So the table has a few *shards*, each of
/// which owns a reference to it, and a node keeps the shard of the thread that makes it. As long as
/// a thread ends what it began, and there are not more threads than shards, no other thread writes
/// the thread's shard.
pub struct ShardedCount<V>(Box<[CountShard<V>; SHARDS]>);

/// How many threads have a shard so far.
static THREADS: Counter = Counter::new(0);

per_thread! {
    /// The number of the thread's shard in each count; or it has none yet.
    static SHARD: Cell<usize> = Cell::new(SHARDS);
}

/// Starts to load the cache line of this address. Any will do: a prefetch is a hint and touches
/// nothing.
#[inline]
pub fn prefetch(at: usize) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        let at = std::ptr::without_provenance(at);
        // SAFETY: a prefetch reads nothing that the program can see and faults on no address;
        // every x86-64 processor has it.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(at) };
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    let _ = at;
}

/// As [`prefetch`], of a line that is about to be written: no other core has a copy of it then. If
/// it was fetched for reading, the write would cost a second message to the core that had it.
#[inline]
#[cfg_attr(coherence, track_caller)]
pub fn prefetch_to_write(at: usize) {
    #[cfg(coherence)]
    if at != 0 {
        super::coherence::touch(std::ptr::without_provenance::<u8>(at), true);
    }
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    {
        use std::arch::asm;
        // The intrinsic for it becomes a prefetch for reading, unless the whole program is built
        // for processors that have this instruction: AMD's of 64 bits, and Intel's since 2014.
        // Those without it take it for a `nop`.
        // SAFETY: a prefetch reads nothing that the program can see and faults on no address.
        unsafe { asm!("prefetchw [{}]", in(reg) at, options(nomem, nostack, preserves_flags)) };
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    prefetch(at);
}

/// Mixes `hash`, so that the lower bits of the result are as good as the upper ones.
pub fn spread(hash: u64) -> u64 {
    // An odd number without a pattern carries every lower bit into the upper ones, and the shift
    // brings those back to the lowest.
    let upper = hash.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    upper ^ (upper >> 32)
}

// === impl ShardedCount ===

impl<V> ShardedCount<V> {
    /// Shards that each own a value from `make`.
    pub fn new(make: impl Fn() -> V) -> ShardedCount<V> {
        ShardedCount(Box::new(array::from_fn(|_| Arc::new(CachePadded::new(make())))))
    }

    /// The shard of the calling thread.
    #[inline]
    pub fn own(&self) -> &CountShard<V> {
        let known = SHARD.with(Cell::get);
        &self.0[if known < SHARDS { known } else { first_shard() }]
    }
}

/// Gives the calling thread a shard: round robin.
#[cold]
fn first_shard() -> usize {
    // ORDER: Relaxed - any number does.
    let shard = (THREADS.fetch_add(1, Ordering::Relaxed) % SHARDS as u64) as usize;
    SHARD.with(|own| own.set(shard));
    shard
}

debug! { impl[V] ShardedCount[V] {} }

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;
    use crate::thread;

    #[test]
    fn a_thread_has_one_shard_and_its_neighbours_have_others() {
        let count = ShardedCount::new(|| ());
        let own = || Arc::as_ptr(count.own()).addr();
        assert_eq!(own(), own());
        let others = thread::scope(|scope| {
            let threads: [_; 3] = std::array::from_fn(|_| scope.spawn(own));
            threads.map(|thread| thread.join().unwrap())
        });
        assert!(!others.contains(&own()));
        assert!(others[0] != others[1] && others[1] != others[2] && others[0] != others[2]);
    }
}
