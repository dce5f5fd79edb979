//! By what a caller knows a timer of a cluster.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::str::FromStr;
use std::task::{Context, Poll};

use crate::error::Error;
use crate::position::{self, ParseIdError};
use crate::promise;

/// Identifies a timer, on every instance and also after a restart.
///
/// If the cluster gets another number of shards, a timer's id can name another shard from then on.
/// The [number](TimerId::timer) in it stays the same.
///
/// As text, it is the number of its shard, a hyphen, and 32 hexadecimal digits.
///
/// ```
/// use tickless_durable::cluster::TimerId;
///
/// let id: TimerId = "12-0000019af0c4d2000000010000000007".parse()?;
/// assert_eq!(id.to_string().parse::<TimerId>()?, id);
/// # Ok::<(), tickless_durable::ParseIdError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TimerId {
    pub(super) shard: u32,
    pub(super) timer: position::TimerId,
}

/// A timer on its way to the database: [`wait`](Ticket::wait) until it is durable, or `.await`
/// that.
///
/// Dropping it changes nothing.
#[derive(Debug)]
#[must_use = "until it is ready, the timer may be lost in a crash"]
pub struct Ticket {
    pub(super) shard: u32,
    pub(super) ticket: promise::Ticket,
}

/// A timer on its way to the database, if there is none with its key there:
/// [`wait`](Entered::wait) until that is decided, or `.await` it.
///
/// Dropping it changes nothing.
#[derive(Debug)]
#[must_use = "until it is ready, the timer may be lost in a crash"]
pub struct Entered {
    pub(super) shard: u32,
    pub(super) reply: promise::Reply<Option<position::TimerId>>,
}

// === impl Entered ===

impl Entered {
    /// Waits until the timer is durable, and returns its number; or `None`, if there was one with
    /// its key, which stays as it is.
    ///
    /// # Errors
    /// It is not, and why: as of [`Ticket::wait`].
    pub fn wait(&self) -> Result<Option<TimerId>, Error> {
        self.reply.wait().map(|timer| of_shard(self.shard, timer))
    }

    /// The result, if it is there.
    pub fn try_get(&self) -> Option<Result<Option<TimerId>, Error>> {
        let result = self.reply.try_get()?;
        Some(result.map(|timer| of_shard(self.shard, timer)))
    }
}

impl Future for Entered {
    type Output = Result<Option<TimerId>, Error>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let shard = self.shard;
        Pin::new(&mut self.reply).poll(context).map_ok(|timer| of_shard(shard, timer))
    }
}

fn of_shard(shard: u32, timer: Option<position::TimerId>) -> Option<TimerId> {
    timer.map(|timer| TimerId { shard, timer })
}

// === impl TimerId ===

impl TimerId {
    /// The timer's shard.
    pub fn shard(self) -> u32 {
        self.shard
    }

    /// Where it is looked for in a cluster with that many shards, which may once have had more.
    pub(super) fn shard_of(self, shards: u32) -> u32 {
        self.shard % shards
    }

    /// The timer's number, which is unique in all shards.
    pub fn timer(self) -> position::TimerId {
        self.timer
    }
}

impl fmt::Display for TimerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.shard, self.timer)
    }
}

impl FromStr for TimerId {
    type Err = ParseIdError;

    fn from_str(text: &str) -> Result<TimerId, ParseIdError> {
        let (shard, timer) = text.split_once('-').ok_or(ParseIdError)?;
        // `parse` would take a sign, too.
        let is_number = !shard.is_empty() && shard.bytes().all(|byte| byte.is_ascii_digit());
        let shard = is_number.then(|| shard.parse().ok()).flatten().ok_or(ParseIdError)?;
        Ok(TimerId { shard, timer: timer.parse()? })
    }
}

// === impl Ticket ===

impl Ticket {
    /// The timer's number, by which it can be cancelled, on any instance.
    pub fn id(&self) -> TimerId {
        TimerId { shard: self.shard, timer: self.ticket.id() }
    }

    /// Waits until the timer is durable.
    ///
    /// # Errors
    /// It is not, and why. With [`Error::Store`] of the kind
    /// [`Fenced`](crate::StoreErrorKind::Fenced), this instance has lost the shard meanwhile:
    /// schedule the timer again.
    pub fn wait(&self) -> Result<TimerId, Error> {
        self.ticket.wait().map(|_| self.id())
    }

    /// Whether the timer is durable, if that is decided. This does not hurry the writer.
    pub fn try_get(&self) -> Option<Result<TimerId, Error>> {
        self.ticket.try_get().map(|result| result.map(|_| self.id()))
    }
}

impl Future for Ticket {
    type Output = Result<TimerId, Error>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let id = self.id();
        Pin::new(&mut self.ticket).poll(context).map_ok(|_| id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_a_number_is_refused() {
        let digits = "0000019af0c4d2000000010000000007";
        for text in [digits.to_owned(), format!("-{digits}"), format!("+1-{digits}"), "1-".into()] {
            assert_eq!(text.parse::<TimerId>(), Err(ParseIdError), "{text}");
        }
    }
}
