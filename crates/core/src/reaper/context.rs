//! What a turn works with.
//!
//! *Owner*: the thread that holds the role of the shard (`role`).
//!
//! *Orderings*: STOP.
//!
//! *Tested by*: as `turn`.

use crate::dispatch::{Handler, Own};
use crate::memory::Shared;
use crate::shard::Shard;
use crate::sync::{AtomicBool, Ordering};
use crate::time::{Clock, Scale};

use super::{Observer, Watch};

/// What a turn works with: the shard, and what else it needs. Its holder has the role of the
/// shard's reaper.
pub struct TurnContext<'a, T> {
    /// The shard that it serves.
    pub shard: &'a Shard<T>,
    /// What the shards of the engine share.
    pub shared: &'a Shared<T>,
    /// The handler of due payloads.
    pub handler: &'a dyn Handler<T>,
    /// What the handler does not get, if there is any.
    pub own: Option<Own<T>>,
    /// The engine's clock.
    pub clock: &'a Clock,
    /// The engine's tick.
    pub scale: Scale,
    /// The observer of the shard.
    pub observer: &'a Observer,
    /// Raised when the engine stops: see [`Ending`](super::Ending).
    pub stopping: &'a AtomicBool,
    /// The watch over its tasks, if there is one.
    pub watch: Option<&'a Watch>,
    /// Whether the thread leads a group, and has lent the lead for the turn.
    pub leads: bool,
}

impl<T> TurnContext<'_, T> {
    /// Whether the engine is stopping, so that no payload is handed over any more.
    pub(super) fn is_stopping(&self) -> bool {
        // ORDER(STOP): Acquire - pairs with the swap that raises the flag.
        self.stopping.load(Ordering::Acquire)
    }
}

debug! { impl[T] TurnContext['_, T] { shard = |this| this.shard } }
