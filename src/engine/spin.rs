//! Settings for reapers that wait in user space, and the preset of them for precise timers.
//!
//! *Owner*: the builder; the waiting itself is in `reaper/spin.rs`.
//!
//! *Tested by*: `tests/suite/engine/precise.rs`.

use std::time::Duration;

use crate::error::BuildError;
use crate::reaper::Spin;

use super::Builder;

/// What [`Builder::precise`] sets. The wheel's first level reaches 256 us and its third 17 s.
const TICK: Duration = Duration::from_micros(1);
const SLOTS: u32 = 512;
const REACH: u32 = 256;

/// How long before its next wake-up such a reaper waits in user space: most wake-ups are not later.
const MARGIN: Duration = Duration::from_micros(100);

/// So many timers are filed for their own deadlines: one in a coarse bucket makes a wake-up of its
/// own.
const FEW: u64 = 2 * SLOTS as u64;

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
        self.spin_before = Some(before);
        self
    }

    /// Sets the share of a core that each reaper may spend on [waiting in user
    /// space](Builder::spin_before). Default: 0.25; from 0 to 1, which is no limit.
    ///
    /// The share holds over any stretch of time that is long compared with 100 ms, and in which one
    /// thread serves: one that takes over begins with what 100 ms permit. A reaper that has used it
    /// up sleeps until the time itself: the timer is as late as a wake-up.
    pub fn spin_share(mut self, share: f64) -> Builder {
        self.spin_share = share;
        self
    }

    /// Sets what timers need that fire microseconds after their deadlines: for pacing and load
    /// generators, at some thousand timers per second. `share` is the share of a core that each
    /// reaper may spend on that, from 0 to 1.
    ///
    /// This sets the [tick](Builder::tick) to 1 us, 512 [slots](Builder::slots) with a
    /// [reach](Builder::reach) of 256, [`exact_below`](Builder::exact_below) to 1024, and
    /// [`spin_share`](Builder::spin_share) to `share`. Each of them can be set anew after this
    /// call. A reaper waits in user space for the last 100 us before its next wake-up: what takes
    /// the system longer than that is late. Threads that schedule read the system's clock each
    /// time, because a cheaper reading may be microseconds ahead.
    ///
    /// If the timers need more than `share` of a core over some 100 ms, the reaper sleeps until
    /// their deadlines, and they are as late as a wake-up. None is early, and none is lost. A
    /// thousand timers per second take a tenth of a core or two. While no timer is pending, the
    /// reaper sleeps. A slow task delays the timers of its shard, as in any engine, so other timers
    /// are better off in an engine of their own.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tickless::Engine;
    ///
    /// let engine = Engine::builder().precise(0.2).build()?;
    /// engine.schedule_detached(Duration::from_micros(1500), || println!("send the next packet"))?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn precise(mut self, share: f64) -> Builder {
        self.spin_before = None;
        self.tick(TICK).slots(SLOTS).reach(REACH).exact_below(FEW).spin_share(share)
    }

    /// Checks the share.
    pub(super) fn check_share(&self) -> Result<(), BuildError> {
        let share = self.spin_share;
        if (0.0..=1.0).contains(&share) { Ok(()) } else { Err(BuildError::Share { share }) }
    }

    /// How the leaders of groups wait.
    pub(super) fn spin(&self) -> Spin {
        Spin::before(self.spin_before.unwrap_or(MARGIN), self.spin_share)
    }
}
