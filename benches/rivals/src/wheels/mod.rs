//! Wheels for one thread, without a clock: the structures alone.
//!
//! To add one, write its file and name it in [`ALL`](crate::registry::ALL).

pub(crate) mod btreemap;
pub(crate) mod delay_queue;
pub(crate) mod hhwt_quad;
pub(crate) mod nexus;
pub(crate) mod tickless_delay_queue;
pub(crate) mod tickless_wheel;

/// A wheel that is told the time, in ticks.
pub(crate) trait Wheel: Sized + 'static {
    /// What it is called.
    const NAME: &'static str;
    /// What it is, in half a line.
    const ABOUT: &'static str;
    /// Whether a timer can be taken out.
    const CANCELS: bool = true;

    /// How a timer is known.
    type Key;

    /// An empty one, at tick 0.
    fn start() -> Self;

    /// Adds a timer.
    fn insert(&mut self, deadline_tick: u64, token: u64) -> Self::Key;

    /// Adds a timer that will not be cancelled.
    fn insert_for_good(&mut self, deadline_tick: u64, token: u64) {
        drop(self.insert(deadline_tick, token));
    }

    /// Takes a timer out. Was it there?
    fn cancel(&mut self, key: Self::Key) -> bool;

    /// Moves a timer, and returns its key. `None`: it was not there.
    #[inline]
    fn reset(&mut self, key: Self::Key, deadline_tick: u64, token: u64) -> Option<Self::Key> {
        self.cancel(key).then(|| self.insert(deadline_tick, token))
    }

    /// Moves time to `now`, which is later than before, and hands over what is due.
    fn advance(&mut self, now: u64, fire: impl FnMut(u64));

    /// A tick before which nothing happens, as far as the wheel knows; `None` when it is empty.
    fn next_expiration(&mut self) -> Option<u64>;
}
