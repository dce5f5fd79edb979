//! A view of a dispatcher's counters, for a caller that has given the dispatcher to an engine.

use crate::sync::Arc;

/// Reads a dispatcher's counters without keeping it alive: a pool ends and a channel closes as if
/// the monitor did not exist. Clones are cheap.
///
/// ```
/// use tickless::Engine;
/// use tickless::dispatch::{Full, Monitor, Pool, PoolStats};
///
/// let pool = Pool::builder(Full::Drop).build()?;
/// let monitor: Monitor<PoolStats> = pool.monitor();
/// let engine = Engine::builder().build_with_handler(pool)?;
/// assert_eq!(monitor.stats().dropped, 0);
/// engine.stop()?;
/// assert_eq!(monitor.stats(), PoolStats::default(), "nothing was due");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Monitor<S> {
    read: Arc<dyn Fn() -> S + Send + Sync>,
}

/// Defines the counters of a dispatcher, and how a monitor reads them as its stats: one by one,
/// while others count.
macro_rules! counts {
    ($Stats:ident { $($count:ident),+ }) => {
        #[derive(Default)]
        struct Counts {
            $($count: $crate::sync::Counter,)+
        }

        impl Counts {
            fn read(&self) -> $Stats {
                // ORDER: Relaxed - numbers only.
                $Stats { $($count: self.$count.load($crate::sync::Ordering::Relaxed),)+ }
            }

            fn monitor(self: &Arc<Self>) -> Monitor<$Stats> {
                let counts = self.clone();
                Monitor::new(move || counts.read())
            }
        }
    };
}

pub(super) use counts;

// === impl Monitor ===

impl<S> Monitor<S> {
    pub(crate) fn new(read: impl Fn() -> S + Send + Sync + 'static) -> Monitor<S> {
        Monitor { read: Arc::new(read) }
    }

    /// Returns the counts so far. This also works after the dispatcher was dropped.
    pub fn stats(&self) -> S {
        (self.read)()
    }
}

debug! { impl[S: std::fmt::Debug] Monitor[S] { stats = |this| this.stats() } }
