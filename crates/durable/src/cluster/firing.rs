//! A timer that is due, as the handler of a cluster gets it.

use std::fmt;
use std::time::SystemTime;

#[cfg(feature = "postgres")]
use postgres::Transaction;

use crate::service;

use super::handle::Cluster;
use super::id::TimerId;
#[cfg(feature = "postgres")]
use super::inner::Inner;

/// A timer that is due, as its handler gets it.
///
/// An asynchronous handler gets one that it can keep, `Firing<'static, P>`.
pub struct Firing<'f, P> {
    pub(super) firing: Got<'f, P>,
    pub(super) shard: u32,
    pub(super) fence: i64,
    pub(super) cluster: Cluster<P>,
}

/// A handler borrows it, and a task has it.
pub(super) enum Got<'f, P> {
    Borrowed(&'f service::Firing<P>),
    #[cfg(feature = "tokio")]
    Owned(Box<service::Firing<P>>),
}

impl<P> std::ops::Deref for Got<'_, P> {
    type Target = service::Firing<P>;

    fn deref(&self) -> &service::Firing<P> {
        match self {
            Got::Borrowed(firing) => firing,
            #[cfg(feature = "tokio")]
            Got::Owned(firing) => firing,
        }
    }
}

// === impl Firing ===

impl<P> Firing<'_, P> {
    /// What the timer carries.
    pub fn payload(&self) -> &P {
        self.firing.payload()
    }

    /// The timer's number. It is the same at each attempt, on whatever instance. Another number of
    /// shards changes the [shard](TimerId::shard) in it alone.
    pub fn id(&self) -> TimerId {
        TimerId { shard: self.shard, timer: self.firing.id() }
    }

    /// The timer's key, if it has one.
    pub fn key(&self) -> Option<&[u8]> {
        self.firing.key()
    }

    /// Which attempt this is, from 1 on. Attempts that ended with their process, or whose lease ran
    /// out before their end was written, are not counted: see [`crashes`](Firing::crashes) and
    /// [`may_be_repeat`](Firing::may_be_repeat).
    pub fn attempt(&self) -> u32 {
        self.firing.attempt()
    }

    /// As [`service::Firing::crashes`]. An instance that goes on after it has lost a shard takes
    /// its attempts back from this number. On NATS, it does not: there, a lease that ran out counts
    /// as the end of a process.
    pub fn crashes(&self) -> u32 {
        self.firing.crashes()
    }

    /// Whether a handler may have begun for this timer before, on this or on another instance: at
    /// an earlier attempt, or because it was due when this instance took its shard, up to a second
    /// later, by the database's clock. If that clock was set back by more than that since a handler
    /// began whose end was not written, this is missed.
    pub fn may_be_repeat(&self) -> bool {
        self.firing.may_be_repeat()
    }

    /// When the timer was scheduled to be due, before it was put off for any reason.
    pub fn due(&self) -> SystemTime {
        self.firing.due()
    }

    /// The timer's shard.
    pub fn shard(&self) -> u32 {
        self.shard
    }

    /// The fence: a number that is larger each time that an instance takes the shard. After a
    /// failover to a server that lacks the last takings, too, if its clock is right (PostgreSQL).
    ///
    /// Pass it on with whatever the handler changes elsewhere. What is changed notes the largest
    /// fence of the [`shard`](Firing::shard) that it has seen, and refuses a smaller one: then it
    /// hears nothing more from a handler that was held up, once the next holder has begun.
    pub fn fence(&self) -> u64 {
        self.fence.cast_unsigned()
    }

    /// The cluster, to schedule and cancel other timers. It does not keep the instance going.
    pub fn cluster(&self) -> &Cluster<P> {
        &self.cluster
    }

    /// Takes this timer out within a transaction of yours, in the same database. If the result is
    /// `true`, what else the transaction changes takes place exactly once, namely if and when it is
    /// committed. If it is `false`, roll back: the timer was handled before, was cancelled, or is
    /// another instance's by now.
    ///
    /// Until the transaction ends, no instance can take the shard over, so keep it short; and do
    /// not wait inside it for a ticket of a timer with the same key.
    ///
    /// ```no_run
    /// use tickless_durable::{Cluster, cluster::Firing};
    ///
    /// # fn pay(_: &str, _: &mut postgres::Transaction<'_>) -> Result<(), postgres::Error> {
    /// #     Ok(())
    /// # }
    /// let url = "host=db.example user=payments";
    /// let cluster = Cluster::builder(url).start(move |firing: &Firing<'_, String>| {
    ///     let mut client = postgres::Client::connect(url, postgres::NoTls)?;
    ///     let mut transaction = client.transaction()?;
    ///     if firing.settle(&mut transaction)? {
    ///         pay(firing.payload(), &mut transaction)?;
    ///         transaction.commit()?;
    ///     }
    ///     Ok::<(), postgres::Error>(())
    /// })?;
    /// # Ok::<(), tickless_durable::OpenError>(())
    /// ```
    ///
    /// # Errors
    /// The database cannot do it.
    #[cfg(feature = "postgres")]
    #[cfg_attr(docsrs, doc(cfg(feature = "postgres")))]
    pub fn settle(&self, transaction: &mut Transaction<'_>) -> Result<bool, postgres::Error> {
        let schema = self.inner().hub.name();
        // The shard's row is locked as in a commit of the store: see
        // `crates/durable/src/store/postgres/mod.rs`.
        let hold =
            format!("SELECT 1 FROM {schema}.shards WHERE shard = $1 AND fence = $2 FOR KEY SHARE");
        let take =
            format!("DELETE FROM {schema}.records WHERE shard = $1 AND due = $2 AND number = $3");
        let shard = self.shard.cast_signed();
        if transaction.query(&hold, &[&shard, &self.fence])?.is_empty() {
            return Ok(false);
        }
        let position = self.firing.position();
        let (due, number) = (position.due_ms.cast_signed(), position.number.cast_signed());
        Ok(transaction.execute(&take, &[&shard, &due, &number])? > 0)
    }

    #[cfg(feature = "postgres")]
    fn inner(&self) -> &Inner<P> {
        &self.cluster.inner
    }
}

impl<P> fmt::Debug for Firing<'_, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (id, fence) = (self.id(), self.fence);
        f.debug_struct("Firing").field("id", &id).field("fence", &fence).finish_non_exhaustive()
    }
}
