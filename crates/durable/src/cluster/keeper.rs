//! The keeper: it renews the leases of an instance, takes shards, and lets others have them.
//!
//! A *round* is made three times per lease, and sooner if a message asks for one or if another
//! instance's lease may be over. All decisions about leases are the hub's:
//!
//! 1. The instance says that it is alive, renews its leases, and reads the hub's clock. A shard
//!    whose lease does not come back is lost.
//! 2. The instances that are alive share the shards: each has as many as any other, and some have
//!    one more if that does not come out even. Who has too many closes some. Who has too few takes
//!    some that are free, or whose lease is over.
//! 3. It looks how late each shard is, also those of others and of nobody.
//! 4. If most of the numbers for timers that go to others' shards were given out, another session
//!    begins.
//!
//! Where the hub or the machine is so slow that a round takes a third of a lease, the leases are
//! renewed again in the middle of it: a lease is lost if the hub takes as long as it to renew it,
//! or to reply to one other request, not if a round takes as long.
//!
//! Between two rounds the thread waits for messages. If some may have been lost because a
//! connection was, all shards are read again as soon as there is another one. None is closed for
//! that: closing one waits for its handlers, and nothing else of it fires meanwhile.
//!
//! *Owner*: the keeper's thread.
//!
//! *Tested by*: `tests/durable/postgres/`, `tests/durable/nats/`.

use std::sync::{Arc, PoisonError};
use std::time::Duration;

use crate::error::StoreError;
use crate::position::ms_passed;
use crate::service::Share;

use super::clock::since_start;
use super::closing;
use super::held::News;
use super::hub::{Keeping, Renewal, Taken, Taking};
use super::inner::{Inner, State};
use super::lease::{Lease, until};
use super::message::Message;
use super::overdue::Overdue;

pub(super) struct Keeper<P> {
    pub(super) inner: Arc<Inner<P>>,
    /// It hears what is told.
    pub(super) keeping: Option<Box<dyn Keeping>>,
}

/// When to look again.
enum Next {
    Round,
    Message,
}

impl<P: Send + 'static> Keeper<P> {
    pub(super) fn run(mut self) {
        loop {
            let deadline = match self.connected(Keeper::round) {
                Ok(deadline) => deadline,
                Err(error) => {
                    self.lose(&error);
                    since_start() + self.inner.lease / 10
                }
            };
            if self.inner.is_stopping() && self.inner.held().is_empty() {
                break;
            }
            self.wait(deadline);
        }
        let _ = self.connected(|keeper, keeping| keeping.leave(keeper.inner.instance));
        self.inner.clerk.tell(Message::Look);
    }

    fn connected<T>(
        &mut self,
        body: impl FnOnce(&Keeper<P>, &mut dyn Keeping) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let mut keeping = match self.keeping.take() {
            Some(keeping) => keeping,
            None => {
                let keeping = self.inner.hub.keeping()?;
                // It hears of what comes from now on.
                if !self.inner.hub.misses_nothing() {
                    self.inner.held().has_missed();
                }
                keeping
            }
        };
        let result = body(self, &mut *keeping)?;
        self.keeping = Some(keeping);
        Ok(result)
    }

    /// The connection has failed. The shards stay as long as their leases last: those that cannot
    /// be written fail by themselves, and what is missed is read when there is a connection again.
    fn lose(&self, error: &StoreError) {
        let inner = &self.inner;
        inner.note(None, error);
        let lost = if inner.is_stopping() {
            inner.held().wanted()
        } else {
            let mut lost = inner.held().failed();
            let leases = inner.held().leases();
            let over = leases.iter().filter(|lease| lease.may_fire().is_err());
            lost.extend(over.map(|lease| lease.taken.shard));
            lost
        };
        lost.into_iter().for_each(|shard| self.close(shard));
    }

    // --- a round ---

    /// Returns when to make the next one.
    fn round(&self, keeping: &mut dyn Keeping) -> Result<Duration, StoreError> {
        let inner = &self.inner;
        let mut sent = self.renew(keeping)?;
        self.see_pauses(keeping)?;
        let failed = inner.held().failed();
        failed.into_iter().for_each(|shard| self.close(shard));
        let fair = self.fair_share(keeping, &mut sent)?;
        self.renew_if_due(keeping, &mut sent)?;
        let wanted = inner.held().wanted();
        let fair = fair.unwrap_or(wanted.len());
        let fair = if inner.faults.ignores_lease { fair.max(wanted.len()) } else { fair };
        let paused = self.paused(&wanted);
        let missing = fair.saturating_sub(wanted.len() + paused.len());
        let taken = self.take(keeping, missing, &paused)?;
        if missing > 0 {
            self.renew_if_due(keeping, &mut sent)?;
        }
        wanted.into_iter().skip(fair).for_each(|shard| self.close(shard));
        inner.held().open().iter().for_each(crate::service::Durable::clock_was_read);
        self.go_on(keeping)?;
        let now_ms = ms_passed(inner.clock.now());
        let overdue = Overdue::new(keeping.first_dues(now_ms)?);
        inner.state().overdue = overdue;
        let next = if taken < missing {
            // Somebody has one locked, and lets go of it or takes it.
            Some(inner.lease / 20)
        } else {
            // A millisecond later it is over. If it is over now, it was not in this round's first
            // statements, or is for another to take.
            let first = keeping.next_expiry(inner.instance, inner.lease)?;
            let pause = inner.lease / 50;
            first.map(|left| if left.is_zero() { pause } else { left + Duration::from_millis(1) })
        };
        let regular = sent + inner.lease / 3;
        let now = since_start();
        let pause = inner.state().troubles.first_end(now);
        Ok(next.map(|next| now + next).into_iter().chain(pause).fold(regular, Duration::min))
    }

    /// What is paused is so from here on, also in shards that are opened later.
    fn see_pauses(&self, keeping: &mut dyn Keeping) -> Result<(), StoreError> {
        let pauses = keeping.pauses()?;
        self.inner.held().set_pauses(pauses);
        Ok(())
    }

    /// The shards that have failed here and are left alone for a while. The connection works, and
    /// so do the shards that are read.
    fn paused(&self, wanted: &[u32]) -> Vec<u32> {
        let inner = &self.inner;
        let (now, open) = (since_start(), inner.held().lasting());
        let mut state = inner.state();
        state.troubles.clear(None);
        open.into_iter().for_each(|shard| state.troubles.clear(Some(shard)));
        state.troubles.tidy(now, inner.lease, wanted);
        state.troubles.paused(now)
    }

    /// Returns when it was asked for.
    fn renew(&self, keeping: &mut dyn Keeping) -> Result<Duration, StoreError> {
        let inner = &self.inner;
        let leases = inner.held().leases();
        let mine: Vec<Taken> = leases.iter().map(|lease| lease.taken).collect();
        let Renewal { sent, renewed, reading } =
            keeping.renew(inner.instance, &mine, inner.lease)?;
        for lease in leases {
            if renewed.contains(&lease.taken) {
                lease.renew(until(sent, inner.lease));
            } else if !inner.faults.ignores_lease {
                lease.end();
                self.close(lease.taken.shard);
            }
        }
        // After that: who has lost a shard because the clock was set forward fires nothing by it.
        if let Some(reading) = reading {
            inner.clock.read(reading);
        }
        Ok(sent)
    }

    /// Begins another session long before the numbers for timers of others' shards are used up.
    fn go_on(&self, keeping: &mut dyn Keeping) -> Result<(), StoreError> {
        if self.inner.numbers().is_half_used() {
            let session = keeping.next_session()?;
            // Without one, timers for others' shards are refused, and the leases go on.
            if let Err(error) = self.inner.numbers().go_on(session) {
                self.inner.note(None, &error);
            }
        }
        Ok(())
    }

    /// Renews them again if it is a third of a lease since the last time.
    fn renew_if_due(
        &self,
        keeping: &mut dyn Keeping,
        sent: &mut Duration,
    ) -> Result<(), StoreError> {
        if since_start() >= *sent + self.inner.lease / 3 {
            *sent = self.renew(keeping)?;
        }
        Ok(())
    }

    /// How many shards this instance should have; `None`: what it has. Others take an instance for
    /// dead that was too slow to be alive. It would lose all if it closed what it has, and could
    /// not keep what it took.
    fn fair_share(
        &self,
        keeping: &mut dyn Keeping,
        sent: &mut Duration,
    ) -> Result<Option<usize>, StoreError> {
        let inner = &self.inner;
        if inner.is_stopping() {
            return Ok(Some(0));
        }
        let mut alive = keeping.alive(inner.lease)?;
        if !alive.contains(&inner.instance) {
            *sent = self.renew(keeping)?;
            alive = keeping.alive(inner.lease)?;
        }
        let rank = alive.iter().position(|instance| *instance == inner.instance);
        let shards = inner.shards as usize;
        Ok(rank.map(|rank| shards / alive.len() + usize::from(rank < shards % alive.len())))
    }

    /// Takes shards that are free, at most that many, and begins to open them.
    fn take(
        &self,
        keeping: &mut dyn Keeping,
        most: usize,
        paused: &[u32],
    ) -> Result<usize, StoreError> {
        let inner = &self.inner;
        if most == 0 {
            return Ok(0);
        }
        let held = inner.held().leases();
        let held = held.iter().map(|lease| lease.taken.shard);
        let held: Vec<u32> = held.chain(paused.iter().copied()).collect();
        let sent = since_start();
        let taken = keeping.take(inner.instance, &held, most, inner.lease)?;
        let lease = |&Taking { taken, served_ms }: &Taking| {
            let until = until(sent, inner.lease);
            let ignored = inner.faults.ignores_lease;
            Arc::new(Lease::new(taken, served_ms, until, &inner.clock, ignored))
        };
        let leases: Vec<Arc<Lease>> = taken.iter().map(lease).collect();
        // All are there before the first is opened, which has no more of the window than its share.
        if !leases.is_empty() {
            inner.held().add(leases.iter().cloned());
        }
        for lease in leases {
            let inner = inner.clone();
            closing::apart("opening", move || closing::open(&inner, &lease));
        }
        Ok(taken.len())
    }

    fn close(&self, shard: u32) {
        let closed = self.inner.held().close(shard);
        if let Some((lease, durable)) = closed {
            let inner = self.inner.clone();
            closing::apart("closing", move || closing::close(&inner, &lease, durable));
        }
    }

    // --- between two rounds ---

    /// Waits until then, or until something asks for a round. What was told in the meantime is
    /// heard in any case: on a slow machine, it can be time for the next round after each.
    fn wait(&mut self, deadline: Duration) {
        loop {
            let left = deadline.saturating_sub(since_start());
            let is_over = left.is_zero() || self.inner.take_wake();
            let left = if is_over { Duration::ZERO } else { left };
            let Some(keeping) = &mut self.keeping else {
                if is_over {
                    return;
                }
                let state = self.inner.state();
                let is_quiet = |state: &mut State| !state.is_woken;
                let woken = self.inner.bell.wait_timeout_while(state, left, is_quiet);
                drop(woken.unwrap_or_else(PoisonError::into_inner));
                continue;
            };
            let all = keeping.wait(left);
            // Nothing was heard because the time is over, or the connection is.
            let is_over = is_over || all.is_empty();
            let heard = all.into_iter().map(|message| self.inner.hear(message));
            if heard.fold(is_over, |is, next| is | matches!(next, Next::Round)) {
                return;
            }
        }
    }
}

impl<P> Inner<P> {
    fn hear(&self, message: Message) -> Next {
        match message {
            Message::Look => return Next::Round,
            Message::Wake(instance) if instance == self.instance => return Next::Round,
            Message::Wake(_) => {}
            Message::Due(shard, due_ms) => self.held().hear(shard, News::due(due_ms)),
            Message::There(shard, there) => self.held().hear(shard, News::there(there)),
            Message::Gone(shard, gone) => self.held().hear(shard, News::gone(gone)),
        }
        Next::Message
    }

    /// What others do to a shard that is open here.
    pub(super) fn hear_of_shard(&self, message: Message) {
        let _ = self.hear(message);
    }
}

#[cfg(test)]
mod tests;
