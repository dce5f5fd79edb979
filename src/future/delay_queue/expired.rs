//! What a queue returns.

use std::time::Instant;

use crate::local::Key;

/// An item that has come out of a [`DelayQueue`](super::DelayQueue), because its deadline has
/// passed.
///
/// ```
/// use std::time::Duration;
/// use tickless::{Engine, ManualClock};
/// use tickless::future::DelayQueue;
/// use tickless::future::delay_queue::Expired;
///
/// let engine = Engine::builder().manual_clock(&ManualClock::new()).build()?;
/// let mut queue = engine.delay_queue();
/// let key = queue.insert("seven", Duration::from_secs(7));
/// engine.advance(Duration::from_secs(9))?;
/// let expired: Expired<&str> = pollster::block_on(queue.expired()).unwrap();
/// assert_eq!(expired.key(), key);
/// assert_eq!(expired.deadline(), engine.now() - Duration::from_secs(2));
/// assert_eq!(expired.into_inner(), "seven");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Expired<T> {
    pub(super) value: T,
    pub(super) deadline: Instant,
    pub(super) key: Key,
}

// === impl Expired ===

impl<T> Expired<T> {
    /// Returns the item.
    pub fn into_inner(self) -> T {
        self.value
    }

    /// Returns a reference to the item.
    pub fn get_ref(&self) -> &T {
        &self.value
    }

    /// Returns a mutable reference to the item.
    pub fn get_mut(&mut self) -> &mut T {
        &mut self.value
    }

    /// Returns the deadline that has passed, rounded up to the engine's tick.
    pub fn deadline(&self) -> Instant {
        self.deadline
    }

    /// Returns the key that named the item. It is stale now.
    pub fn key(&self) -> Key {
        self.key
    }
}
