//! Precise timers, and what they share with `spin_before`: reapers that wait in user space.
//!
//! An entry and its handle know their core by its number. So a precise timer needs no mark: it is a
//! timer of a second core, which has one shard, ticks of a microsecond, and a reaper that waits in
//! user space. Cancel, reset and the rest work on it as on any timer, and no other timer pays for
//! it. The second core belongs to the engine's core, shares its handler, its limit and its party,
//! and starts and stops with it. Whatever sums up an engine goes through [`Core::both`].
//!
//! Both cores count nanoseconds from the same moment, so that a time in nanoseconds holds for both,
//! but ticks hold for one. The second core reads the system's clock each time, because a thread
//! clock may be microseconds ahead.
//!
//! *Owner*: the settings are the builder's; the rest is for any thread.
//!
//! *Tested by*: `tests/precise.rs`, `tests/precise_driven.rs`.

use std::time::Duration;

use crate::dispatch::{Batch, Handler};
use crate::error::BuildError;
use crate::reaper::Spin;
use crate::sync::Arc;
use crate::time::Geometry;

use super::{Builder, Engine, When};

/// The default of [`Builder::spin_share`].
pub(super) const SPIN_SHARE: f64 = 0.25;

/// The ticks of precise timers, unless the engine's are shorter.
const TICK: Duration = Duration::from_micros(1);

/// The wheel of precise timers. Its first level reaches 256 us and its third 17 s, up to where few
/// timers are filed for their own deadlines.
const SLOTS: u32 = 512;
const REACH: u32 = 256;

/// Below how many precise timers each is filed for its own deadline: one that shares a coarse
/// bucket makes a wake-up of its own. There are as many buckets for that as slots.
pub(super) const FEW: u64 = 2 * SLOTS as u64;

/// A handler that two cores share.
pub(super) struct Both<T>(Arc<dyn Handler<T>>);

// === impl Builder: waiting in user space ===

impl Builder {
    /// Sets how long before its next wake-up a reaper stops sleeping and waits in user space, in a
    /// loop that reads the clock. Default: zero, which means that reapers always sleep.
    ///
    /// A thread that sleeps wakes up late, often by 50 us and more on a virtual machine, and each
    /// sleep and wake-up costs CPU time. A reaper that waits in user space fires about a
    /// microsecond after its tick has begun, and takes a whole core while it waits. This is for
    /// ticks of some 100 us and shorter, where the time to wake up is a large part of the tick. The
    /// waiting is limited by [`spin_share`](Builder::spin_share); of a longer time than that share
    /// of 100 ms, the rest is slept.
    ///
    /// While a reaper waits, scheduling an earlier timer takes no system call. An engine that its
    /// caller drives has no reapers that wait.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tickless::Engine;
    ///
    /// let engine = Engine::builder()
    ///     .tick(Duration::from_micros(100))
    ///     .spin_before(Duration::from_micros(100))
    ///     .build()?;
    /// # drop(engine);
    /// # Ok::<(), tickless::BuildError>(())
    /// ```
    pub fn spin_before(mut self, before: Duration) -> Builder {
        self.spin_before = before;
        self
    }

    /// Sets the share of a core that each reaper may spend on [waiting in user
    /// space](Builder::spin_before). Default: 0.25; from 0 to 1, which is no limit.
    ///
    /// The share holds over any stretch of time that is long compared with 100 ms. A reaper that
    /// has used it up sleeps until the time itself: the timer is as late as a wake-up.
    pub fn spin_share(mut self, share: f64) -> Builder {
        self.spin_share = share;
        self
    }

    /// Makes an engine with [precise](When::precise) timers: they fire microseconds after their
    /// deadlines. Default: no. `share` is the share of a core that may be spent on that, from 0
    /// to 1.
    ///
    /// Precise timers have a wheel of their own, with ticks of 1 us, and a thread that serves it:
    /// the last of the engine's [shards](Engine::shards). The thread sleeps until shortly before
    /// a timer is due, by as much as wake-ups were late before (4 to 400 us), and waits for the
    /// rest in user space, as with [`spin_before`](Builder::spin_before). If the timers need more
    /// than `share` of a core over some 100 ms, the thread sleeps until their deadlines, and they
    /// are as late as a wake-up. None is early, and none is lost. A thousand timers per second take
    /// a tenth of a core or two. While no precise timer is pending, the thread sleeps.
    ///
    /// The payloads go to the same handler as all others, on that thread, so a slow task delays
    /// other precise timers and no ordinary ones. The limit of
    /// [`max_pending`](Builder::max_pending) holds for both kinds together. In an engine that its
    /// caller drives, turns of the last shard fire the precise timers, and the caller decides how
    /// to wait for the time that a turn returns. With a manual clock,
    /// [`advance`](Engine::advance) stops at each microsecond at which one is due.
    ///
    /// A thread that schedules both kinds in turn pays a search in a small table for each change.
    pub fn precise(mut self, share: f64) -> Builder {
        self.precise = Some(share);
        self
    }

    /// Checks the shares.
    pub(super) fn check_shares(&self) -> Result<(), BuildError> {
        let shares = [Some(self.spin_share), self.precise].into_iter().flatten();
        let mut bad = shares.filter(|share| !(0.0..=1.0).contains(share));
        bad.next().map_or(Ok(()), |share| Err(BuildError::Share { share }))
    }

    /// How the reapers of all shards wait, except for that of precise timers.
    pub(super) fn spin(&self) -> Spin {
        Spin::before(self.spin_before, self.spin_share)
    }

    /// The ticks of precise timers.
    pub(super) fn precise_tick(&self) -> Duration {
        self.tick.min(TICK)
    }
}

/// The wheel of precise timers.
pub(super) fn geometry() -> Geometry {
    Geometry::new(SLOTS, REACH).expect("constants that are in bounds")
}

// === impl Engine ===

impl<T: Send + 'static> Engine<T> {
    /// The number of the core that a timer for `when` belongs to.
    #[inline(always)]
    pub(super) fn number_for(&self, when: When) -> u32 {
        if when.is_precise { self.precise_number() } else { self.number() }
    }

    #[cold]
    fn precise_number(&self) -> u32 {
        self.core().precise.as_ref().map_or(self.number(), |precise| precise.id())
    }
}

// === impl Both ===

impl<T: 'static> Both<T> {
    /// For each of the two cores.
    pub(super) fn share(handler: Box<dyn Handler<T>>) -> [Box<dyn Handler<T>>; 2] {
        let handler = Arc::from(handler);
        [Box::new(Both(Arc::clone(&handler))), Box::new(Both(handler))]
    }
}

impl<T> Handler<T> for Both<T> {
    fn fire(&self, batch: Batch<'_, T>) {
        self.0.fire(batch);
    }
}
