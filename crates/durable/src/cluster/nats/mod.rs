//! Instances that meet on servers of NATS: leases in a bucket of keys and values, and messages.
//!
//! | key of the bucket | value |
//! |---|---|
//! | `s.SHARD` | the holder and its fence; `0 0` if nobody has the shard |
//! | `i.INSTANCE` | nothing: the instance is alive |
//! | `sessions`, `meta` | how many sessions there were; the version and the number of shards |
//!
//! # Leases
//!
//! No clock of a server decides. A lease is a key that its holder writes again and again, each time
//! only if its revision is the one of the last time (a compare-and-swap). It is over for another
//! instance that has seen one revision for as long as a lease lasts, by its own monotonic clock. It
//! takes the shard with the same compare-and-swap, so it gets it only if the holder has not written
//! meanwhile. A holder counts from before it has asked, and others from after they have seen what
//! came of that, so it never counts on a lease that another takes. The revision of the taking is
//! the fence.
//!
//! Others see a renewal as soon as the holder tells it. If they miss that, they see it in their
//! next round, and the lease lasts a third longer for them at most.
//!
//! With it, a holder says when the first timer of the shard is due, in a header of its own. That
//! stays there when the holder dies or lets go of the shard, so each instance knows how late it is.
//!
//! # The clock
//!
//! Timers are due by the clock of the leader of the bucket, which is in each message that says that
//! an instance is alive.
//!
//! # Timers of others
//!
//! A shard's log has one writer, so an instance asks the holder for changes of its shard, with a
//! request. If there is no holder, or if it was fenced off, nothing was done and it is tried again.
//! If there is no reply, it is unknown.
//!
//! Dead letters are read in the same way, of each shard's holder. Before it replies, it looks
//! whether its taking of the log is still the last one.
//!
//! *Owner*: each part says it in `hub.rs`.
//!
//! *Tested by*: `tests/durable/nats/`.

mod asked;
mod desk;
mod seen;
mod watch;

use std::path::PathBuf;
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crate::error::StoreError;
use crate::store::Store;
use crate::store::nats::client::Nats;
use crate::store::nats::names::Names;
use crate::store::nats::reply::failed;
use crate::store::nats::{NatsStore, Opening};

use super::hub::{Clerking, Hub, Keeping, Taken, Tell};
use super::message::Message;
use asked::Asked;
use desk::Desk;
use seen::{Seen, lock};
use watch::Watch;

/// A log as long as this is not shortened.
const FLOOR: u64 = 16 << 20;

pub(super) struct Meeting {
    nats: Nats,
    names: Names,
    shards: u32,
    lease: Duration,
    directory: PathBuf,
    ignores_fence: bool,
    seen: Arc<Mutex<Seen>>,
    /// For the first keeping.
    starting: Mutex<Option<Nats>>,
}

// === impl Meeting ===

impl Meeting {
    pub(super) fn new(
        nats: Nats,
        names: Names,
        shards: u32,
        lease: Duration,
        directory: PathBuf,
        ignores_fence: bool,
    ) -> Meeting {
        let (seen, starting) = (Arc::default(), Mutex::default());
        Meeting { nats, names, shards, lease, directory, ignores_fence, seen, starting }
    }

    /// The instance starts, and asks by this connection until it knows the clock.
    pub(super) fn starting(mut self, patient: Nats) -> Meeting {
        self.starting = Mutex::new(Some(patient));
        self
    }
}

impl Hub for Meeting {
    #[cfg(feature = "postgres")]
    fn name(&self) -> &str {
        &self.names.0
    }

    fn keeping(&self) -> Result<Box<dyn Keeping>, StoreError> {
        let (tell, told) = channel();
        let seen = self.seen.clone();
        let hear = move |message: async_nats::Message| {
            let text = String::from_utf8_lossy(&message.payload);
            match text.strip_prefix("renewed ") {
                Some(renewed) => lock(&seen).hear(renewed),
                // The keeper may have ended.
                None => drop(Message::from_text(&text).map(|message| tell.send(message))),
            }
        };
        let listening = self.nats.listen(self.names.told(), hear).map_err(failed)?;
        Ok(Box::new(Watch {
            nats: self.nats.clone(),
            starting: self.starting.lock().unwrap_or_else(PoisonError::into_inner).take(),
            names: self.names.clone(),
            shards: self.shards,
            lease: self.lease,
            seen: self.seen.clone(),
            told,
            has_read_clock: false,
            _listening: listening,
        }))
    }

    fn clerking(&self) -> Result<Box<dyn Clerking>, StoreError> {
        Ok(Box::new(Desk {
            nats: self.nats.clone(),
            names: self.names.clone(),
            shards: self.shards,
            lease: self.lease,
            seen: self.seen.clone(),
        }))
    }

    fn open(&self, taken: Taken, tell: Tell) -> Result<Box<dyn Store>, StoreError> {
        let opening = Opening {
            shard: taken.shard,
            fence: taken.fence.cast_unsigned(),
            directory: &self.directory,
            // Longer, and others can have the shard.
            patience: self.lease,
            ignores_fence: self.ignores_fence,
            floor: FLOOR,
        };
        let store = NatsStore::open(&self.nats, &self.names, &opening)?;
        lock(&self.seen).firsts.insert(taken.shard, (store.fence(), store.first_due()));
        Ok(Box::new(Asked::new(&self.nats, &self.names, store, self.lease, tell)?))
    }

    /// What others do to a shard is done here. What is told besides is only told sooner.
    fn misses_nothing(&self) -> bool {
        true
    }
}
