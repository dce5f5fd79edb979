//! Exchanging: how a timer that waits gets another payload, at the same time and in the same entry.
//!
//! The entry is vacated and its seat is taken again: two CASes, and nothing else changes. If the
//! owner of the shard unlinks the vacant entry in between, the entry is filed again. Counts and
//! limit stay as they are, because there is one timer throughout.
//!
//! *Owner*: the thread that has the handle.
//!
//! *Orderings*: WAKER, which is CANCEL-FIRE and then SEAT on one entry: the payload carries the
//! waker of the task that polled last.
//!
//! *Tested by*: `loom-tests/tests/waker.rs`, `tests/races/future.rs`.

use std::ptr::NonNull;

use crate::entry::{Entry, read};
use crate::inbox::Closed;
use crate::memory::Shared;
use crate::shard::Shard;
use crate::sync::events::{Event, reached};
use crate::time::Tick;

use super::{Deferred, Producer};

impl<T> Producer<T> {
    /// Files an entry again that was unlinked during an exchange. Returns whether work was
    /// deferred, or `None` if the engine has stopped: the timer is stranded then.
    ///
    /// # Safety
    /// The caller has the handle. [`Entry::exchange`] has returned `Unlinked` with this deadline,
    /// and the entry belongs to the engine of `shared`.
    #[cold]
    pub unsafe fn file_again(
        &mut self,
        shared: &Shared<T>,
        shard: &Shard<T>,
        entry: NonNull<Entry<T>>,
        deadline: Tick,
        now: Tick,
    ) -> Option<Deferred> {
        reached(Event::ExchangeUnlinked);
        // This thread alone may keep the engine: see `shard/close.rs`.
        let _reader = read();
        // SAFETY: it was unlinked, so this thread holds it alone, with a payload in it.
        let counts = shared.counts(unsafe { entry.as_ref().payload() });
        // SAFETY: it was unlinked, so this thread holds it alone, with a payload in it.
        match unsafe { self.push(shared, shard, deadline, now, entry, true) } {
            Ok(deferred) => Some(deferred),
            Err(Closed) => {
                // SAFETY: it was refused, so it is still ours alone, and armed as held.
                unsafe { self.strand(shared, entry, counts) };
                None
            }
        }
    }
}
