//! What the threads of an instance share.
//!
//! *Tested by*: `tests/durable/postgres/`, `tests/durable/nats/`.

use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::error::{OpenError, ScheduleReason, StoreError, StoreErrorKind};
use crate::events;
use crate::position::{Position, ms_passed};
use crate::record::{Key, Record};
use crate::service::{Durable, Numbers};
use crate::store::Store;

use super::clerk::Clerk;
use super::clock::{SharedClock, since_start};
use super::held::Held;
use super::hub::Hub;
use super::lease::Lease;
use super::message::Message;
use super::overdue::Overdue;
use super::owner::Instance;
use super::troubles::Troubles;

/// What the threads of an instance share.
pub(super) struct Inner<P> {
    pub(super) hub: Arc<dyn Hub>,
    /// How many shards there are.
    pub(super) shards: u32,
    pub(super) lease: Duration,
    /// How many timers may be in memory, of all shards.
    pub(super) window: usize,
    /// The number of this instance. No other ever has the same.
    pub(super) instance: u64,
    pub(super) clock: Arc<SharedClock>,
    pub(super) held: Mutex<Held<P>>,
    pub(super) clerk: Arc<Clerk>,
    /// For timers that go to shards of others.
    pub(super) numbers: Mutex<Numbers>,
    pub(super) state: Mutex<State>,
    pub(super) bell: Condvar,
    pub(super) open: Box<Open<P>>,
    pub(super) faults: Faults,
}

/// Opens the service of a shard.
pub(super) type Open<P> =
    dyn Fn(&Arc<Inner<P>>, &Arc<Lease>, Box<dyn Store>) -> Opened<P> + Send + Sync;
type Opened<P> = Result<Durable<P>, OpenError>;

#[derive(Debug, Default)]
pub(super) struct State {
    pub(super) is_stopping: bool,
    /// The keeper is to look.
    pub(super) is_woken: bool,
    /// Until when an end waits for handlers at most, and how many it has left behind.
    pub(super) end_by: Option<Instant>,
    pub(super) left_behind: usize,
    pub(super) troubles: Troubles,
    pub(super) overdue: Overdue,
    /// How keys begin whose timers do not fire, as the hub said in the last round.
    pub(super) pauses: Vec<Key>,
    /// Of shards that were lost: what says that handlers were about to run, without that.
    pub(super) notes: BTreeMap<u32, Vec<Arc<Record>>>,
}

/// What an instance does wrong, for tests which show that they would notice.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Faults {
    /// It writes without a look at the fence.
    pub ignores_fence: bool,
    /// It fires without a look at its leases.
    pub ignores_lease: bool,
    /// Its timers are due by its own clock.
    pub goes_by_own_clock: bool,
}

// === impl Inner ===

impl<P> Inner<P> {
    pub(super) fn held(&self) -> MutexGuard<'_, Held<P>> {
        // No foreign code runs under the lock.
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn numbers(&self) -> MutexGuard<'_, Numbers> {
        self.numbers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn shard_of(&self, key: &Key) -> u32 {
        self.hub.shard_of()(key, self.shards)
    }

    /// A new timer for a shard of another instance.
    pub(super) fn record(
        &self,
        key: Option<Key>,
        due_ms: u64,
        payload: Arc<[u8]>,
    ) -> Result<Arc<Record>, ScheduleReason> {
        if let Some(reason) = self.clerk.refusal() {
            return Err(reason);
        }
        let number = self.numbers().take().ok_or(ScheduleReason::Busy)?;
        Ok(Arc::new(Record::new(Position { due_ms, number }, key, payload)))
    }

    /// A shard for a timer without a key: one that is held here, or else any.
    pub(super) fn next_shard(&self) -> u32 {
        let here = self.held().next_open();
        here.unwrap_or_else(|| u32::try_from(self.instance % u64::from(self.shards)).unwrap_or(0))
    }

    pub(super) fn open_at(&self, shard: u32) -> Option<Durable<P>> {
        self.held().open_at(shard)
    }

    /// An end of this instance waits for handlers until then at most.
    pub(super) fn end_by(&self, until: Instant) {
        let mut state = self.state();
        state.end_by = Some(state.end_by.map_or(until, |before| before.min(until)));
        drop(state);
        self.held().services().iter().for_each(|durable| durable.end_by(until));
    }

    /// Whether a new timer cannot wait for others to be written with.
    pub(super) fn is_soon(&self, due_ms: u64) -> bool {
        self.clerk.is_soon(due_ms, ms_passed(self.clock.now()))
    }

    /// How many timers each shard may have in memory: as many of them as are held share the window.
    pub(super) fn window_of_each(&self) -> usize {
        self.window / self.held().count().max(1)
    }

    /// The number of shards that are held has changed.
    pub(super) fn share_window(&self) {
        let each = self.window_of_each();
        let services = self.held().services();
        services.iter().for_each(|durable| durable.set_window(each));
    }

    pub(super) fn is_stopping(&self) -> bool {
        self.state().is_stopping
    }

    /// Has the keeper look, whether it waits for notifications or for the database.
    pub(super) fn wake(&self) {
        self.state().is_woken = true;
        self.bell.notify_all();
        self.clerk.tell(Message::Wake(self.instance));
    }

    pub(super) fn take_wake(&self) -> bool {
        std::mem::take(&mut self.state().is_woken)
    }

    /// The connection has failed, or this shard has. Who is fenced off has not failed.
    pub(super) fn note(&self, shard: Option<u32>, error: &StoreError) {
        if error.kind() == StoreErrorKind::Fenced {
            return;
        }
        events::trouble(self.instance, shard, error);
        let mut state = self.state();
        state.troubles.note(shard, error);
        if let Some(shard) = shard {
            state.troubles.pause(shard, since_start(), self.lease);
        }
    }
}

impl<P> Instance for Inner<P> {
    fn is_in_handler(&self) -> bool {
        self.held().is_in_handler()
    }

    fn begin_end(&self) {
        self.state().is_stopping = true;
        self.wake();
    }

    fn clerk(&self) -> &Clerk {
        &self.clerk
    }
}
