//! Clocks that callers move by hand, together with engines that have them. An engine is seen here
//! as a [`Drivable`]: what it does meanwhile is its own.
//!
//! *Owner*: the thread that moves the clock. If several do at the same time, the clock never goes
//! back, and each of them fires what is due by then.
//!
//! *Tested by*: `tests/suite/engine/virtual_time.rs`, `tests/oracles/engine.rs`.

use std::time::Duration;

use crate::error::TurnError;

use super::{Clock, ManualClock, saturating_ns};

/// An engine whose time can be moved together with that of others: an [`Engine`] with any payload.
/// See [`ManualClock::advance_engines`].
///
/// The trait is sealed.
///
/// [`Engine`]: https://docs.rs/tickless/latest/tickless/struct.Engine.html
pub trait Driven {
    #[doc(hidden)]
    fn drivable(&self) -> &dyn Drivable;
}

/// What is needed to move an engine's time.
#[doc(hidden)]
pub trait Drivable {
    /// The engine's clock.
    fn clock(&self) -> &Clock;

    /// # Errors
    /// The caller may not run turns of the engine.
    fn may_turn(&self) -> Result<(), TurnError>;

    /// Runs turns of all shards until no timer is due and no work is left. Returns how many fired.
    ///
    /// # Errors
    /// The engine has stopped.
    fn settle(&self) -> Result<usize, TurnError>;

    /// Returns when the first bucket of any shard opens.
    ///
    /// # Errors
    /// The engine has stopped.
    fn next_opening_ns(&self) -> Result<Option<u64>, TurnError>;
}

// === impl ManualClock ===

impl ManualClock {
    /// Moves the clock forward by `by`, and fires all timers of these engines that become due on
    /// the way, in order. Returns how many fired.
    ///
    /// As [`Engine::advance`][advance], for several engines that have this clock. What is due at
    /// the same time in several of them fires in the order in which they are given here, and so
    /// does what their tasks schedule for that time on each other.
    ///
    /// ```
    /// use std::sync::mpsc;
    /// use std::time::Duration;
    /// use tickless::{Builder, ManualClock};
    ///
    /// let (sender, log) = mpsc::channel();
    /// let clock = ManualClock::new();
    /// let builder = || Builder::new().manual_clock(&clock).shards(1);
    /// let theirs = sender.clone();
    /// let requests = builder().build_each(move |id: u32| drop(sender.send(format!("{id}"))))?;
    /// let leases = builder().build_each(move |name: &str| drop(theirs.send(name.into())))?;
    /// let second = Duration::from_secs(1);
    /// requests.schedule_detached(second, 1)?;
    /// leases.schedule_detached(2 * second, "a lease")?;
    /// requests.schedule_detached(3 * second, 2)?;
    /// assert_eq!(clock.advance_engines(3 * second, &[&requests, &leases])?, 3);
    /// assert_eq!(log.try_iter().collect::<Vec<_>>(), ["1", "a lease", "2"]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`Engine::advance`][advance], for any of the engines; and one of them has another clock.
    /// Before anything moves, each of them is asked whether it may. (That one of them has stopped
    /// is found in its turn: those before it may have fired what was due.)
    ///
    /// [advance]: https://docs.rs/tickless/latest/tickless/struct.Engine.html#method.advance
    pub fn advance_engines(
        &self,
        by: Duration,
        engines: &[&dyn Driven],
    ) -> Result<usize, TurnError> {
        let engines = Vec::from_iter(engines.iter().map(|engine| engine.drivable()));
        for engine in &engines {
            match engine.clock().as_manual() {
                None => return Err(TurnError::NotManual),
                Some(clock) if !clock.is_same(self) => return Err(TurnError::OtherClock),
                Some(_) => engine.may_turn()?,
            }
        }
        advance_to(self, self.elapsed_ns().saturating_add(saturating_ns(by)), &engines)
    }
}

/// Moves `clock`, which these engines have, to `target_ns`.
pub fn advance_to(
    clock: &ManualClock,
    target_ns: u64,
    engines: &[&dyn Drivable],
) -> Result<usize, TurnError> {
    let mut fired = settle(engines)?;
    loop {
        let mut next_ns = None;
        for engine in engines {
            next_ns = next_ns.into_iter().chain(engine.next_opening_ns()?).min();
        }
        let Some(next_ns) = next_ns.filter(|&ns| ns <= target_ns) else { break };
        clock.move_to_ns(next_ns);
        fired += settle(engines)?;
    }
    clock.move_to_ns(target_ns);
    Ok(fired + settle(engines)?)
}

/// Runs turns of all these engines until none has work left.
fn settle(engines: &[&dyn Drivable]) -> Result<usize, TurnError> {
    let mut all_fired = 0;
    loop {
        let mut fired = 0;
        for engine in engines {
            fired += engine.settle()?;
        }
        all_fired += fired;
        // What one engine fires may have made work for another.
        if fired == 0 || engines.len() == 1 {
            return Ok(all_fired);
        }
    }
}
