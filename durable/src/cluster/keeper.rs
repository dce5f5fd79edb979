//! The keeper: it renews the leases of an instance, takes shards, and lets others have them.
//!
//! A *round* is made three times per lease, and sooner if a notification asks for one or if another
//! instance's lease may be over. All decisions about leases are the database's, by its clock:
//!
//! 1. The instance says that it is alive, and reads the database's clock.
//! 2. The leases are renewed. A shard whose lease does not come back is lost.
//! 3. The instances that are alive share the shards: each has as many as any other, and some have
//!    one more if that does not come out even. Who has too many closes some. Who has too few takes
//!    some that are free, or whose lease is over (`FOR UPDATE SKIP LOCKED`).
//!
//! Between two rounds the thread waits for notifications. If the connection is lost, some may be
//! lost with it, so all shards are closed, and opened again.
//!
//! *Owner*: the keeper's thread.
//!
//! *Tested by*: `durable/tests/postgres/`.

use std::sync::{Arc, PoisonError};
use std::time::Duration;

use postgres::Notification;
use postgres::fallible_iterator::FallibleIterator;

use crate::error::StoreError;
use crate::store::postgres::{Session, failed};

use super::clock::{SharedClock, since_start};
use super::held::News;
use super::lease::{Lease, until};
use super::message::Message;
use super::{Inner, closing};

pub(super) struct Keeper<P> {
    pub(super) inner: Arc<Inner<P>>,
    /// It listens.
    pub(super) session: Option<Session>,
}

/// When to look again.
enum Next {
    Round,
    Notification,
}

/// Begins to listen.
pub(super) fn listen(session: &mut Session, channel: &str) -> Result<(), StoreError> {
    session.client().batch_execute(&format!("LISTEN {channel}")).map_err(failed)
}

/// Says that an instance is alive for as long as a lease, and reads the database's clock.
pub(super) fn say_alive(
    session: &mut Session,
    instance: u64,
    lease: Duration,
) -> Result<i64, StoreError> {
    let alive = "INSERT INTO instances VALUES ($1, now() + $2 * interval '1 microsecond')
                 ON CONFLICT (instance) DO UPDATE SET expires = excluded.expires
                 RETURNING (extract(epoch FROM clock_timestamp()) * 1000000)::bigint";
    let alive = session.query(alive, &[&instance.cast_signed(), &micros(lease)])?;
    Ok(alive[0].get(0))
}

fn micros(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
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
        let _ = self.connected(|keeper, session| {
            let gone = "DELETE FROM instances WHERE instance = $1";
            session.query(gone, &[&keeper.inner.instance.cast_signed()])
        });
        self.inner.clerk.tell(Message::Look);
    }

    fn connected<T>(
        &mut self,
        body: impl FnOnce(&Keeper<P>, &mut Session) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let mut session = match self.session.take() {
            Some(session) => session,
            None => {
                let mut session = self.inner.database.connect("tickless keeper")?;
                listen(&mut session, &self.inner.database.channel())?;
                session
            }
        };
        let result = body(self, &mut session)?;
        self.session = Some(session);
        Ok(result)
    }

    /// The connection has failed, and with it the notifications.
    fn lose(&self, error: &StoreError) {
        self.inner.note(error);
        let wanted = self.inner.held().wanted();
        wanted.into_iter().for_each(|shard| self.close(shard));
    }

    // --- a round ---

    /// Returns when to make the next one.
    fn round(&self, session: &mut Session) -> Result<Duration, StoreError> {
        let inner = &self.inner;
        let sent = since_start();
        let shows_us = say_alive(session, inner.instance, inner.lease)?;
        inner.clock.read(sent, since_start(), shows_us);
        self.renew(session)?;
        let failed = inner.held().failed();
        failed.into_iter().for_each(|shard| self.close(shard));
        let fair = self.fair_share(session)?;
        let wanted = inner.held().wanted();
        let fair = if inner.faults.ignores_lease { fair.max(wanted.len()) } else { fair };
        let missing = fair.saturating_sub(wanted.len());
        let taken = self.take(session, missing)?;
        wanted.into_iter().skip(fair).for_each(|shard| self.close(shard));
        inner.held().open().iter().for_each(crate::Durable::clock_was_read);
        let next = if taken < missing {
            // Somebody has one locked, and lets go of it or takes it.
            Some(inner.lease / 20)
        } else {
            self.next_expiry(session)?
        };
        let regular = sent + inner.lease / 3;
        Ok(next.map_or(regular, |next| regular.min(since_start() + next)))
    }

    fn renew(&self, session: &mut Session) -> Result<(), StoreError> {
        let inner = &self.inner;
        let leases = inner.held().leases();
        let shards: Vec<i32> = leases.iter().map(|lease| lease.shard.cast_signed()).collect();
        let sent = since_start();
        let renew = "UPDATE shards SET expires = now() + $3 * interval '1 microsecond'
                     WHERE holder = $1 AND shard = ANY ($2) RETURNING shard, fence";
        let instance = inner.instance.cast_signed();
        let renewed = session.query(renew, &[&instance, &shards, &micros(inner.lease)])?;
        let is_renewed = |lease: &Lease| {
            let is_same = |row: &postgres::Row| {
                (row.get::<_, i32>(0), row.get::<_, i64>(1))
                    == (lease.shard.cast_signed(), lease.fence)
            };
            renewed.iter().any(is_same)
        };
        for lease in leases {
            if is_renewed(&lease) {
                lease.renew(until(sent, inner.lease));
            } else if !inner.faults.ignores_lease {
                lease.end();
                self.close(lease.shard);
            }
        }
        Ok(())
    }

    /// How many shards this instance should have.
    fn fair_share(&self, session: &mut Session) -> Result<usize, StoreError> {
        let inner = &self.inner;
        if inner.is_stopping() {
            return Ok(0);
        }
        // Long dead ones, one statement for itself, so that no two instances wait for each other.
        let bury = "DELETE FROM instances WHERE instance IN (
                        SELECT instance FROM instances
                        WHERE expires < now() - $1 * interval '10 microseconds'
                        FOR UPDATE SKIP LOCKED)";
        session.query(bury, &[&micros(inner.lease)])?;
        // Who has more keeps the one more, so that no shard changes hands for nothing.
        let alive = "SELECT instance FROM instances
                     LEFT JOIN (SELECT holder, count(*) AS shards FROM shards
                        WHERE expires > now() GROUP BY holder) AS held ON holder = instance
                     WHERE expires > now() ORDER BY coalesce(held.shards, 0) DESC, instance";
        let alive = session.query(alive, &[])?;
        let instance = inner.instance.cast_signed();
        let rank = alive.iter().position(|row| row.get::<_, i64>(0) == instance);
        // It can have been too slow to be alive.
        let Some(rank) = rank else { return Ok(0) };
        let shards = inner.shards as usize;
        Ok(shards / alive.len() + usize::from(rank < shards % alive.len()))
    }

    /// Takes shards that are free, at most that many, and begins to open them.
    fn take(&self, session: &mut Session, most: usize) -> Result<usize, StoreError> {
        let inner = &self.inner;
        if most == 0 {
            return Ok(0);
        }
        let held = inner.held().leases();
        let held: Vec<i32> = held.iter().map(|lease| lease.shard.cast_signed()).collect();
        let sent = since_start();
        let take = "WITH free AS (
                        SELECT shard FROM shards
                        WHERE (holder IS NULL OR holder = $1 OR expires < now())
                            AND NOT shard = ANY ($2)
                        ORDER BY expires, shard LIMIT $3 FOR UPDATE SKIP LOCKED)
                    UPDATE shards SET holder = $1, fence = fence + 1,
                        expires = now() + $4 * interval '1 microsecond'
                    FROM free WHERE shards.shard = free.shard
                    RETURNING shards.shard, shards.fence";
        let most = i64::try_from(most).unwrap_or(i64::MAX);
        let instance = inner.instance.cast_signed();
        let taken = session.query(take, &[&instance, &held, &most, &micros(inner.lease)])?;
        for row in &taken {
            let (shard, fence) = (row.get::<_, i32>(0).cast_unsigned(), row.get(1));
            let until = until(sent, inner.lease);
            let ignored = inner.faults.ignores_lease;
            let lease = Arc::new(Lease::new(shard, fence, until, &inner.clock, ignored));
            inner.held().add(lease.clone());
            let inner = inner.clone();
            closing::apart("opening", move || closing::open(&inner, &lease));
        }
        Ok(taken.len())
    }

    /// How long the first lease of another instance lasts, if it is not renewed.
    fn next_expiry(&self, session: &mut Session) -> Result<Option<Duration>, StoreError> {
        let first = "SELECT (extract(epoch FROM min(expires) - now()) * 1000000)::bigint
                     FROM shards WHERE holder <> $1";
        let first = session.query(first, &[&self.inner.instance.cast_signed()])?;
        let first_us = first[0].get::<_, Option<i64>>(0);
        Ok(first_us.map(|first_us| match u64::try_from(first_us) {
            // A millisecond later it is over.
            Ok(first_us) => Duration::from_micros(first_us + 1000),
            // It was not over in this round's first statements, or is for another to take.
            Err(_) => self.inner.lease / 50,
        }))
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
            let Some(session) = &mut self.session else {
                if is_over {
                    return;
                }
                let state = self.inner.state();
                let is_quiet = |state: &mut super::State| !state.is_woken;
                let woken = self.inner.bell.wait_timeout_while(state, left, is_quiet);
                drop(woken.unwrap_or_else(PoisonError::into_inner));
                continue;
            };
            let all = notifications(session, left);
            let heard = all.iter().map(|told| self.hear(told.payload()));
            // Nothing was heard because the time is over, or the connection is.
            let is_over = is_over || all.is_empty();
            if heard.fold(is_over, |is, next| is | matches!(next, Next::Round)) {
                return;
            }
        }
    }

    fn hear(&self, payload: &str) -> Next {
        let inner = &self.inner;
        match Message::from_text(payload) {
            Some(Message::Look) => return Next::Round,
            Some(Message::Wake(instance)) if instance == inner.instance => return Next::Round,
            Some(Message::Due(shard, due_ms)) => inner.held().hear(shard, News::due(due_ms)),
            Some(Message::Gone(shard, gone)) => inner.held().hear(shard, News::gone(gone)),
            Some(Message::Wake(_)) | None => {}
        }
        Next::Notification
    }
}

/// Waits for a notification, if there is none yet, and returns all that are there.
fn notifications(session: &mut Session, left: Duration) -> Vec<Notification> {
    let mut told = session.client().notifications();
    let mut all = Vec::new();
    all.extend(told.timeout_iter(left).next().ok().flatten());
    if !all.is_empty() {
        all.extend(told.iter().iterator().map_while(Result::ok));
    }
    all
}

/// The first reading of the database's clock.
pub(super) fn first_reading(
    session: &mut Session,
    instance: u64,
    lease: Duration,
    is_own: bool,
) -> Result<SharedClock, StoreError> {
    let shows_us = say_alive(session, instance, lease)?;
    Ok(SharedClock::new(since_start(), shows_us, is_own))
}
