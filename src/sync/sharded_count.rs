//! Several reference counts of one value, so that many threads do not count on the same cache line.
//!
//! A door's table is kept by each node that is in it. One reference count for all of these would be
//! the one line that every thread writes. So the door makes a few *counts*, each with a reference
//! to the table, and a node keeps one of them: which, the hash of its key says.

use std::fmt;

use super::{Arc, Padded};

/// Reference counts of one value.
const SHARDS: usize = 64;

/// One of the reference counts, with what else is counted there.
pub type CountShard<V> = Arc<Padded<V>>;

/// All of them.
pub struct ShardedCount<V>(Box<[CountShard<V>]>);

/// A number as good in its upper as in its lower bits, from one that need not be.
pub fn spread(hash: u64) -> u64 {
    // An odd number without a pattern carries every lower bit into the upper ones, and the shift
    // brings those back to the lowest.
    let upper = hash.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    upper ^ (upper >> 32)
}

// === impl ShardedCount ===

impl<V> ShardedCount<V> {
    /// ShardedCount that each have a value of `make`.
    pub fn new(make: impl Fn() -> V) -> ShardedCount<V> {
        ShardedCount((0..SHARDS).map(|_| Arc::new(Padded(make()))).collect())
    }

    /// The count for what has that hash.
    pub fn of(&self, hash: u64) -> &CountShard<V> {
        &self.0[(spread(hash) % SHARDS as u64) as usize]
    }

    /// All counts.
    pub fn iter(&self) -> impl Iterator<Item = &CountShard<V>> {
        self.0.iter()
    }
}

impl<V> fmt::Debug for ShardedCount<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ShardedCount").finish_non_exhaustive()
    }
}
