//! The clerk: it writes what this instance has to do with shards of other instances.
//!
//! New timers and cancels that go to a shard of another instance are written to its list by this
//! thread, together with a notification for the holder. They need no fence: the list is locked by
//! its writers (`writers`), and what the holder does not know of, it reads again.
//!
//! *Owner*: the clerk's thread has the connection. Any thread adds jobs.
//!
//! *Tested by*: `durable/tests/postgres/`.

use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use crate::error::{Error, ScheduleReason, StoreError};
use crate::position::Position;
use crate::promise::Promise;
use crate::record::Record;
use crate::service::Cancelled;
use crate::store::Op;
use crate::store::postgres::{Database, Session, all_letters, apply, lock_list};

use super::letters::DeadLetter;
use super::message::{MOST, Message};

/// How many changes may wait here.
const MAX: usize = 1_000_000;

/// How many changes are made in one transaction.
const BATCH: usize = 1000;

pub(super) struct Clerk {
    desk: Mutex<Desk>,
    bell: Condvar,
}

#[derive(Default)]
struct Desk {
    writes: BTreeMap<u32, Vec<Write>>,
    reads: Vec<Read>,
    waiting: usize,
    releases: Vec<(u32, i64)>,
    messages: Vec<Message>,
    is_closed: bool,
}

/// A change of a shard's list.
struct Write {
    op: Op,
    then: Then,
}

pub(super) enum Then {
    Put(Promise<()>),
    Cancel(Promise<Cancelled>),
    /// A dead letter is gone; this timer takes its place.
    Revive(Arc<Record>, Promise<bool>),
    Forget(Promise<bool>),
}

/// A page of dead letters that somebody waits for.
pub(super) struct Read {
    pub(super) after: Option<(u32, Position)>,
    pub(super) limit: usize,
    pub(super) promise: Promise<Vec<DeadLetter>>,
}

/// The thread.
pub(super) struct Work<'c> {
    pub(super) clerk: &'c Clerk,
    pub(super) database: Database,
    pub(super) session: Option<Session>,
}

// === impl Clerk ===

impl Clerk {
    pub(super) fn new() -> Clerk {
        Clerk { desk: Mutex::default(), bell: Condvar::new() }
    }

    /// Why nothing is taken, if that is so.
    pub(super) fn refusal(&self) -> Option<ScheduleReason> {
        let desk = self.desk();
        let is_full = desk.waiting >= MAX;
        let busy = is_full.then_some(ScheduleReason::Busy);
        desk.is_closed.then_some(ScheduleReason::Stopped).or(busy)
    }

    /// Writes a change to that shard's list. Who waits is told that the clerk has stopped, if so.
    pub(super) fn write(&self, shard: u32, op: Op, then: Then) {
        let mut desk = self.desk();
        if !desk.is_closed {
            desk.waiting += 1;
            desk.writes.entry(shard).or_default().push(Write { op, then });
            drop(desk);
            self.bell.notify_one();
        }
    }

    /// Reads dead letters. Who waits is told that the clerk has stopped, if so.
    pub(super) fn read(&self, read: Read) {
        let mut desk = self.desk();
        if !desk.is_closed {
            desk.reads.push(read);
            drop(desk);
            self.bell.notify_one();
        }
    }

    /// Lets others have the shard. Its service has ended.
    pub(super) fn release(&self, shard: u32, fence: i64) {
        self.desk().releases.push((shard, fence));
        self.bell.notify_one();
    }

    pub(super) fn tell(&self, message: Message) {
        self.desk().messages.push(message);
        self.bell.notify_one();
    }

    /// Nothing is taken any more. The thread ends when it has done what is there.
    pub(super) fn close(&self) {
        self.desk().is_closed = true;
        self.bell.notify_one();
    }

    fn desk(&self) -> MutexGuard<'_, Desk> {
        self.desk.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What there is to do; `None` when all is done for ever.
    fn wait(&self) -> Option<Desk> {
        let is_idle = |desk: &mut Desk| desk.is_empty() && !desk.is_closed;
        let desk = self.bell.wait_while(self.desk(), is_idle);
        let mut desk = desk.unwrap_or_else(PoisonError::into_inner);
        let is_closed = desk.is_closed;
        let jobs = std::mem::replace(&mut *desk, Desk { is_closed, ..Desk::default() });
        (!jobs.is_empty()).then_some(jobs)
    }
}

impl Desk {
    fn is_empty(&self) -> bool {
        self.writes.is_empty()
            && self.reads.is_empty()
            && self.releases.is_empty()
            && self.messages.is_empty()
    }
}

// === impl Work ===

impl Work<'_> {
    pub(super) fn run(mut self) {
        while let Some(jobs) = self.clerk.wait() {
            for (shard, fence) in jobs.releases {
                // Without it, the lease runs out.
                let _ =
                    self.with_session(|session, channel| release(session, channel, shard, fence));
            }
            for message in jobs.messages {
                // Without it, others look a little later.
                let _ = self.with_session(|session, channel| notify(session, channel, &message));
            }
            for (shard, writes) in jobs.writes {
                let mut writes = writes.into_iter().peekable();
                while writes.peek().is_some() {
                    self.write(shard, writes.by_ref().take(BATCH).collect());
                }
            }
            jobs.reads.into_iter().for_each(|read| self.read(read));
        }
    }

    fn read(&mut self, Read { after, limit, promise }: Read) {
        let read = self.with_session(|session, _| all_letters(session, after, limit));
        let letter = |(shard, letter)| DeadLetter { shard, letter };
        let read = read.map(|letters| letters.into_iter().map(letter).collect());
        promise.keep(read.map_err(Error::Store));
    }

    fn write(&mut self, shard: u32, writes: Vec<Write>) {
        let (ops, thens): (Vec<Op>, Vec<Then>) =
            writes.into_iter().map(|Write { op, then }| (op, then)).unzip();
        let result = self.with_session(|session, channel| {
            session.transaction(|session| {
                let number = shard.cast_signed();
                lock_list(session, number)?;
                let outcomes = apply(session, number, &ops)?;
                let revived = revived(&thens, &outcomes);
                apply(session, number, &revived)?;
                let told = messages(shard, &ops, &outcomes).into_iter();
                for message in told.chain(messages(shard, &revived, &[])) {
                    notify(session, channel, &message)?;
                }
                Ok(outcomes)
            })
        });
        match result {
            Ok(outcomes) => {
                thens.into_iter().zip(outcomes).for_each(|(then, outcome)| then.keep(outcome));
            }
            Err(error) => thens.into_iter().for_each(|then| then.fail(&error)),
        }
    }

    /// Uses the connection, or makes a new one if it is lost.
    fn with_session<T>(
        &mut self,
        body: impl FnOnce(&mut Session, &str) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let kept = self.session.take().filter(Session::is_open);
        let mut session = kept.map_or_else(|| self.database.connect("tickless clerk"), Ok)?;
        let result = body(&mut session, &self.database.channel());
        self.session = Some(session);
        result
    }
}

/// The timers that take the place of dead letters which were there.
fn revived(thens: &[Then], outcomes: &[Option<Position>]) -> Vec<Op> {
    let timer = |(then, outcome): (&Then, &Option<Position>)| match (then, outcome) {
        (Then::Revive(timer, _), Some(_)) => Some(Op::Put(timer.clone())),
        _ => None,
    };
    thens.iter().zip(outcomes).filter_map(timer).collect()
}

/// What the holder has to know of these changes.
fn messages(shard: u32, ops: &[Op], outcomes: &[Option<Position>]) -> Vec<Message> {
    let due = |op: &Op| match op {
        Op::Put(record) => Some(record.position.due_ms),
        _ => None,
    };
    let first = ops.iter().filter_map(due).min();
    let gone: Vec<Position> = outcomes.iter().copied().flatten().collect();
    let gone = gone.chunks(MOST).map(|gone| Message::Gone(shard, gone.to_vec()));
    gone.chain(first.map(|due_ms| Message::Due(shard, due_ms))).collect()
}

/// Tells all instances.
pub(super) fn notify(
    session: &mut Session,
    channel: &str,
    message: &Message,
) -> Result<(), StoreError> {
    let notify = "SELECT pg_notify($1, $2)";
    session.query(notify, &[&channel, &message.to_text()]).map(drop)
}

fn release(session: &mut Session, channel: &str, shard: u32, fence: i64) -> Result<(), StoreError> {
    let release = "UPDATE shards SET holder = NULL, expires = '-infinity'
                   WHERE shard = $1 AND fence = $2";
    session.query(release, &[&shard.cast_signed(), &fence])?;
    notify(session, channel, &Message::Look)
}

// === impl Then ===

impl Then {
    fn keep(self, outcome: Option<Position>) {
        match self {
            Then::Put(promise) => promise.keep(Ok(())),
            Then::Cancel(promise) => {
                let found = outcome.map_or(Cancelled::NotFound, |_| Cancelled::Cancelled);
                promise.keep(Ok(found));
            }
            Then::Revive(_, promise) | Then::Forget(promise) => promise.keep(Ok(outcome.is_some())),
        }
    }

    fn fail(self, error: &StoreError) {
        match self {
            Then::Put(promise) => promise.keep(Err(Error::Store(error.clone()))),
            Then::Cancel(promise) => promise.keep(Err(Error::Store(error.clone()))),
            Then::Revive(_, promise) | Then::Forget(promise) => {
                promise.keep(Err(Error::Store(error.clone())));
            }
        }
    }
}
