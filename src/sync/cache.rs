//! Cache lines: a value on lines of its own, asking for a line before it is needed, and a count on
//! which many threads do not meet on one line.

use super::Arc;

pub use crossbeam_utils::CachePadded;

/// The number of shards.
const SHARDS: usize = 64;

/// One shard: a reference count, and whatever else is counted there.
pub type CountShard<V> = Arc<CachePadded<V>>;

/// A reference count in several shards, so that many threads do not count on the same cache line.
///
/// Each node in a table of the keyed API or the purgatory keeps the table alive. A single reference
/// count would be one cache line that every thread writes. So the table has a few *shards*, each of
/// which owns a reference to it, and a node keeps the shard that the hash of its key picks.
pub struct ShardedCount<V>(Box<[CountShard<V>]>);

/// Starts to load the first cache line at `at`. Any address will do: a prefetch is a hint and
/// touches nothing.
#[inline]
pub fn prefetch<T>(at: *const T) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: a prefetch reads nothing that the program can see and faults on no address;
        // every x86-64 processor has it.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(at.cast()) };
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    let _ = at;
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
        ShardedCount((0..SHARDS).map(|_| Arc::new(CachePadded::new(make()))).collect())
    }

    /// The shard for `hash`.
    pub fn of(&self, hash: u64) -> &CountShard<V> {
        &self.0[(spread(hash) % SHARDS as u64) as usize]
    }
}

debug! { impl[V] ShardedCount[V] {} }
