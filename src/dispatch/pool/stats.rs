//! What a pool has counted.

use super::queue::Counters;

/// What a pool has counted since it was built.
///
/// All numbers are of one moment. What was handed to the pool is either `queued`, `running`, `ran`,
/// `ran_inline` or `dropped` (but for what [`submit`](super::Pool::submit) gave back, which is none
/// of these).
///
/// ```
/// use tickless::dispatch::{Full, Pool};
///
/// let pool = Pool::builder(Full::Block).build_typed(|n: u32| println!("{n}"))?;
/// for n in 0..3 {
///     pool.submit(n)?;
/// }
/// pool.shutdown()?;
/// assert_eq!((pool.stats().ran, pool.stats().dropped), (3, 0));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct PoolStats {
    /// Payloads that wait for a worker.
    pub queued: usize,
    /// Payloads that workers are at.
    pub running: usize,
    /// Payloads that workers are done with, panics included.
    pub ran: u64,
    /// Payloads that ran on the thread that handed them over, panics included: because the queue
    /// was full ([`Full::RunInline`](super::Full::RunInline)), or because waiting for room would
    /// have been for ever ([`Full::Block`](super::Full::Block)).
    pub ran_inline: u64,
    /// Payloads that were due and never ran: because the queue was full
    /// ([`Full::Drop`](super::Full::Drop)), or because the pool had been shut down.
    pub dropped: u64,
    /// Of those that ran, those that panicked.
    pub panicked: u64,
    /// The most payloads that ever waited at a time.
    pub longest_queue: usize,
}

// === impl PoolStats ===

impl From<Counters> for PoolStats {
    fn from(counters: Counters) -> PoolStats {
        let Counters { queued, running, done, ran_inline, dropped, panicked, longest } = counters;
        PoolStats {
            queued,
            running,
            ran: done,
            ran_inline,
            dropped,
            panicked,
            longest_queue: longest,
        }
    }
}
