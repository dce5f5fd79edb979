//! Engines with precise timers, whose time is moved by hand.

use std::time::Duration;

use tickless::{Builder, Engine, ManualClock, When};

pub(crate) fn manual() -> (Builder, ManualClock) {
    let clock = ManualClock::new();
    (Engine::builder().shards(2).manual_clock(&clock).precise(0.2), clock)
}

pub(crate) fn precisely(delay: Duration) -> When {
    When::after(delay).precise()
}
