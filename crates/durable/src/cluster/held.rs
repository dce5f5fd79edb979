//! The shards that an instance has, and what is happening to each.
//!
//! A shard is opened and closed by threads of their own, because both can take long: opening reads
//! the store, and closing waits for handlers. Meanwhile its lease is renewed. What other instances
//! tell about a shard while it is being opened is kept, and told to its service then.
//!
//! *Owner*: any thread, under the lock of [`Inner`](super::inner::Inner).
//!
//! *Invariants*: a shard is here once. It leaves after its service has ended. All that are here
//! share the instance's window: when the lock is free, each service has its share, and the pauses
//! of the last round.
//!
//! *Tested by*: `src/cluster/keeper/tests.rs`, `tests/durable/postgres/`.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::SystemTime;

use crate::position::{Position, time_of};
use crate::record::Key;
use crate::service::Durable;

use super::lease::Lease;

/// By their numbers.
#[derive(Debug)]
pub(super) struct Held<P> {
    shards: BTreeMap<u32, Shard<P>>,
    /// The shard that has got the last timer without a key.
    last: u32,
    /// How many timers may be in memory, of all shards.
    window: usize,
    /// How keys begin whose timers do not fire, as the hub said in the last round.
    pauses: Vec<Key>,
}

#[derive(Debug)]
struct Shard<P> {
    lease: Arc<Lease>,
    stage: Stage<P>,
}

#[derive(Debug)]
enum Stage<P> {
    Opening(News),
    Open(Durable<P>),
    /// The service does not belong to this: a thread ends it.
    Closing(Option<Durable<P>>),
}

/// What other instances did to a shard.
#[derive(Debug, Default)]
pub(super) struct News {
    /// The first of the times of timers that they have put there.
    due_ms: Option<u64>,
    /// Those of which they have told where they are.
    there: Vec<Position>,
    gone: Vec<Position>,
    /// Some may not have been told.
    is_partial: bool,
}

// === impl Held ===

impl<P> Held<P> {
    pub(super) fn new(window: usize) -> Held<P> {
        Held { shards: BTreeMap::new(), last: 0, window, pauses: Vec::new() }
    }

    /// The shards were taken, and threads open them.
    pub(super) fn add(&mut self, leases: impl IntoIterator<Item = Arc<Lease>>) {
        for lease in leases {
            let stage = Stage::Opening(News::default());
            self.shards.insert(lease.taken.shard, Shard { lease, stage });
        }
        self.share_window();
    }

    /// The shard is open, unless it was lost meanwhile: then the service comes back.
    pub(super) fn opened(&mut self, lease: &Lease, durable: Durable<P>) -> Result<(), Durable<P>> {
        // Others may have come or left while it was opened, or the pauses changed.
        let window = self.window_of_each();
        match self.shards.get_mut(&lease.taken.shard).map(|shard| &mut shard.stage) {
            Some(stage @ Stage::Opening(_)) => {
                if let Stage::Opening(news) = stage {
                    news.tell(&durable);
                }
                durable.set_window(window);
                durable.are_paused(&self.pauses);
                *stage = Stage::Open(durable);
                Ok(())
            }
            _ => Err(durable),
        }
    }

    /// The shard's service is to be ended, if it is open. The shard stays here until it has.
    pub(super) fn close(&mut self, shard: u32) -> Option<(Arc<Lease>, Durable<P>)> {
        let shard = self.shards.get_mut(&shard)?;
        match std::mem::replace(&mut shard.stage, Stage::Closing(None)) {
            Stage::Open(durable) => {
                shard.stage = Stage::Closing(Some(durable.unowned()));
                Some((shard.lease.clone(), durable))
            }
            // The thread that opens it finds that it is not wanted any more.
            Stage::Opening(_) => None,
            closing @ Stage::Closing(_) => {
                shard.stage = closing;
                None
            }
        }
    }

    pub(super) fn remove(&mut self, lease: &Lease) {
        self.shards.remove(&lease.taken.shard);
        self.share_window();
    }

    /// How many timers each shard may have in memory, also one that is being closed.
    pub(super) fn window_of_each(&self) -> usize {
        self.window / self.shards.len().max(1)
    }

    /// The number of shards has changed.
    fn share_window(&self) {
        let each = self.window_of_each();
        self.services().iter().for_each(|durable| durable.set_window(each));
    }

    pub(super) fn pauses(&self) -> Vec<Key> {
        self.pauses.clone()
    }

    /// These are the pauses now.
    pub(super) fn set_pauses(&mut self, pauses: Vec<Key>) {
        self.pauses = pauses;
        self.services().iter().for_each(|durable| durable.are_paused(&self.pauses));
    }

    /// The service of a shard.
    pub(super) fn open_at(&self, shard: u32) -> Option<Durable<P>> {
        match &self.shards.get(&shard)?.stage {
            Stage::Open(durable) => Some(durable.clone()),
            Stage::Opening(_) | Stage::Closing(_) => None,
        }
    }

    /// The services of all shards that are open.
    pub(super) fn open(&self) -> Vec<Durable<P>> {
        self.shards.keys().filter_map(|shard| self.open_at(*shard)).collect()
    }

    /// The services of all shards, also of those that are being closed. None is kept open.
    pub(super) fn services(&self) -> Vec<Durable<P>> {
        let service = |shard: &Shard<P>| match &shard.stage {
            Stage::Open(durable) | Stage::Closing(Some(durable)) => Some(durable.unowned()),
            Stage::Opening(_) | Stage::Closing(None) => None,
        };
        self.shards.values().filter_map(service).collect()
    }

    /// Whether this thread runs a handler of one of the services.
    pub(super) fn is_in_handler(&self) -> bool {
        self.shards.values().any(|shard| match &shard.stage {
            Stage::Open(durable) | Stage::Closing(Some(durable)) => durable.is_in_handler(),
            Stage::Opening(_) | Stage::Closing(None) => false,
        })
    }

    /// The next one of the shards that are open.
    pub(super) fn next_open(&mut self) -> Option<u32> {
        let is_open = |(_, shard): &(&u32, &Shard<P>)| matches!(shard.stage, Stage::Open(_));
        let later = self.shards.range(self.last.saturating_add(1)..).find(is_open);
        let (next, _) = later.or_else(|| self.shards.iter().find(is_open))?;
        self.last = *next;
        Some(*next)
    }

    /// All leases, also of the shards that are being closed.
    pub(super) fn leases(&self) -> Vec<Arc<Lease>> {
        self.shards.values().map(|shard| shard.lease.clone()).collect()
    }

    /// The shards that are not being closed.
    pub(super) fn wanted(&self) -> Vec<u32> {
        let is_wanted = |shard: &Shard<P>| !matches!(shard.stage, Stage::Closing(_));
        let wanted = self.shards.iter().filter(|(_, shard)| is_wanted(shard));
        wanted.map(|(shard, _)| *shard).collect()
    }

    /// The shards that are open and have not failed since they read what is first in their lists.
    pub(super) fn lasting(&self) -> Vec<u32> {
        let lasts = |shard: &Shard<P>| match &shard.stage {
            Stage::Open(durable) => durable.failure().is_none() && durable.stats().refills > 0,
            Stage::Opening(_) | Stage::Closing(_) => false,
        };
        let lasting = self.shards.iter().filter(|(_, shard)| lasts(shard));
        lasting.map(|(shard, _)| *shard).collect()
    }

    /// The shards whose services have failed.
    pub(super) fn failed(&self) -> Vec<u32> {
        let has_failed = |shard: &Shard<P>| match &shard.stage {
            Stage::Open(durable) => durable.failure().is_some(),
            Stage::Opening(_) | Stage::Closing(_) => false,
        };
        let failed = self.shards.iter().filter(|(_, shard)| has_failed(shard));
        failed.map(|(shard, _)| *shard).collect()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.shards.is_empty()
    }

    /// Other instances may have done anything to the shards since they were heard last.
    pub(super) fn has_missed(&mut self) {
        for shard in self.shards.values_mut() {
            match &mut shard.stage {
                Stage::Open(durable) => durable.read_again(),
                Stage::Opening(news) => news.is_partial = true,
                Stage::Closing(_) => {}
            }
        }
    }

    /// Another instance has done something to a shard.
    pub(super) fn hear(&mut self, shard: u32, news: News) {
        match self.shards.get_mut(&shard).map(|shard| &mut shard.stage) {
            Some(Stage::Open(durable)) => news.tell(durable),
            Some(Stage::Opening(before)) => before.add(news),
            Some(Stage::Closing(_)) | None => {}
        }
    }
}

// === impl News ===

impl News {
    pub(super) fn due(due_ms: u64) -> News {
        News { due_ms: Some(due_ms), ..News::default() }
    }

    pub(super) fn there(there: Vec<Position>) -> News {
        News { there, ..News::default() }
    }

    pub(super) fn gone(gone: Vec<Position>) -> News {
        News { gone, ..News::default() }
    }

    fn add(&mut self, other: News) {
        self.due_ms = self.due_ms.into_iter().chain(other.due_ms).min();
        self.there.extend(other.there);
        self.gone.extend(other.gone);
        self.is_partial |= other.is_partial;
    }

    fn tell<P>(&self, durable: &Durable<P>) {
        if self.is_partial {
            durable.read_again();
        }
        durable.are_gone(&self.gone);
        durable.are_there(&self.there);
        if let Some(due_ms) = self.due_ms {
            durable.look_again(time_of(due_ms).unwrap_or(SystemTime::UNIX_EPOCH));
        }
    }
}
