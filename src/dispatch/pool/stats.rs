//! The statistics of a pool.

use super::queue::Counters;

/// What a pool has counted since it was built.
///
/// All numbers are read at one moment. Each payload that was handed to the pool is counted as
/// either `queued`, `running`, `ran`, `ran_inline` or `dropped`. Payloads that
/// [`submit`](super::Pool::submit) returned are not counted.
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
    /// Payloads that workers are running.
    pub running: usize,
    /// Payloads that workers have run, including those that panicked.
    pub ran: u64,
    /// Payloads that ran on the thread that handed them over, including those that panicked:
    /// because the queue was full ([`Full::RunInline`](super::Full::RunInline)), or because no
    /// worker would have made room ([`Full::Block`](super::Full::Block)).
    pub ran_inline: u64,
    /// Payloads that were due and never ran: because the queue was full
    /// ([`Full::Drop`](super::Full::Drop)), or because the pool had been shut down.
    pub dropped: u64,
    /// Payloads that ran and panicked.
    pub panicked: u64,
    /// The highest number of payloads that waited at the same time.
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
