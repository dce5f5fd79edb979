//! The clerk: it writes what this instance has to do with shards of other instances.
//!
//! New timers and cancels that go to a shard of another instance are written by this thread: to the
//! shard's list in a database, or by way of the holder, as the hub does it. If the hub needs a
//! holder and there is none at the moment, they wait here. Dead letters are read by it as well.
//!
//! A new timer that nobody waits for, and that is not due soon, waits for others: for four
//! lingers of the services. Then all that is here is written, whatever its shards are.
//!
//! *Owner*: the clerk's thread has the connection. Any thread adds jobs.
//!
//! *Tested by*: `tests/durable/postgres/`, `tests/durable/nats/`.

use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::error::{Error, ScheduleReason, StoreError, StoreErrorKind};
use crate::position::Position;
use crate::promise::{Hurry, Promise};
use crate::service::Cancelled;
use crate::store::Op;

use super::clock::since_start;
use super::hub::{Clerking, Hub, Taken};
use super::message::Message;

/// How many changes may wait here, and how many bytes their keys and payloads may have.
const MAX: usize = 1_000_000;
const MAX_BYTES: usize = 256 << 20;

/// How many changes are made together.
const BATCH: usize = 1000;

pub(super) struct Clerk {
    desk: Mutex<Desk>,
    bell: Condvar,
    /// How long new timers wait for others.
    wait: Duration,
}

#[derive(Default)]
struct Desk {
    writes: BTreeMap<u32, Vec<Write>>,
    reads: Vec<Box<dyn Read>>,
    waiting: usize,
    bytes: usize,
    releases: Vec<Taken>,
    messages: Vec<Message>,
    /// Since when new timers wait here, if nothing is here that does not.
    since: Option<Instant>,
    is_urgent: bool,
    is_closed: bool,
}

/// A change of a shard's list.
struct Write {
    op: Op,
    then: Then,
    /// When it was asked for, by [`since_start`].
    since: Duration,
}

pub(super) enum Then {
    Put(Promise<()>),
    /// If there is none with its key, this timer is there.
    New(crate::position::TimerId, Promise<Option<crate::position::TimerId>>),
    Cancel(Promise<Cancelled>),
    /// A dead letter is gone, and perhaps a timer again.
    Letter(Promise<bool>),
}

/// Something that is looked up, for somebody who waits, without the type of what is found.
pub(super) trait Read: Send {
    /// Looks it up. With an error, it can be tried again, or has [failed](Read::fail).
    fn read(&mut self, clerking: &mut dyn Clerking) -> Result<(), StoreError>;

    fn fail(&mut self, error: &StoreError);

    /// When it was asked for, by [`since_start`].
    fn since(&self) -> Duration;
}

struct Reading<T, F> {
    promise: Option<Promise<T>>,
    look: F,
    since: Duration,
}

pub(super) fn reading<T: Send + 'static>(
    promise: Promise<T>,
    look: impl FnMut(&mut dyn Clerking) -> Result<T, StoreError> + Send + 'static,
) -> Box<dyn Read> {
    Box::new(Reading { promise: Some(promise), look, since: since_start() })
}

impl<T: Send, F> Read for Reading<T, F>
where
    F: FnMut(&mut dyn Clerking) -> Result<T, StoreError> + Send,
{
    fn read(&mut self, clerking: &mut dyn Clerking) -> Result<(), StoreError> {
        let found = (self.look)(clerking)?;
        if let Some(promise) = self.promise.take() {
            promise.keep(Ok(found));
        }
        Ok(())
    }

    fn fail(&mut self, error: &StoreError) {
        if let Some(promise) = self.promise.take() {
            promise.keep(Err(Error::Store(error.clone())));
        }
    }

    fn since(&self) -> Duration {
        self.since
    }
}

/// What is to be tried again.
#[derive(Default)]
struct Again {
    writes: Vec<(u32, Vec<Write>)>,
    reads: Vec<Box<dyn Read>>,
}

/// The thread.
pub(super) struct Work<'c> {
    pub(super) clerk: &'c Clerk,
    pub(super) hub: Arc<dyn Hub>,
    pub(super) lease: Duration,
    pub(super) clerking: Option<Box<dyn Clerking>>,
    /// Why there is no connection: the rest of what there is to do fails without another try.
    pub(super) down: Option<StoreError>,
}

// === impl Clerk ===

impl Clerk {
    pub(super) fn new(wait: Duration) -> Clerk {
        Clerk { desk: Mutex::default(), bell: Condvar::new(), wait }
    }

    /// Why nothing is taken, if that is so.
    pub(super) fn refusal(&self) -> Option<ScheduleReason> {
        let desk = self.desk();
        let is_full = desk.waiting >= MAX || desk.bytes >= MAX_BYTES;
        let busy = is_full.then_some(ScheduleReason::Busy);
        desk.is_closed.then_some(ScheduleReason::Stopped).or(busy)
    }

    /// Writes a change to that shard's list, now or together with others. Who waits is told that
    /// the clerk has stopped, if so.
    pub(super) fn write(&self, shard: u32, op: Op, then: Then, is_urgent: bool) {
        let mut desk = self.desk();
        if !desk.is_closed {
            desk.waiting += 1;
            desk.bytes += bytes_of(&op);
            desk.writes.entry(shard).or_default().push(Write { op, then, since: since_start() });
            desk.is_urgent |= is_urgent || self.wait.is_zero();
            let is_first = desk.since.is_none();
            desk.since.get_or_insert_with(Instant::now);
            let is_urgent = desk.is_urgent;
            drop(desk);
            if is_urgent || is_first {
                self.bell.notify_one();
            }
        }
    }

    /// Whether a timer that is due then cannot wait for others.
    pub(super) fn is_soon(&self, due_ms: u64, now_ms: u64) -> bool {
        let wait_ms = u64::try_from(self.wait.as_millis()).unwrap_or(u64::MAX);
        due_ms <= now_ms.saturating_add(wait_ms)
    }

    /// Looks something up. Who waits is told that the clerk has stopped, if so.
    pub(super) fn read(&self, read: Box<dyn Read>) {
        let mut desk = self.desk();
        if !desk.is_closed {
            desk.reads.push(read);
            drop(desk);
            self.bell.notify_one();
        }
    }

    /// Lets others have the shard. Its service has ended.
    pub(super) fn release(&self, taken: Taken) {
        self.desk().releases.push(taken);
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

    #[cfg(test)]
    pub(super) fn releases(&self) -> usize {
        self.desk().releases.len()
    }

    fn desk(&self) -> MutexGuard<'_, Desk> {
        self.desk.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What there is to do; `None` when all is done for ever. What is to be tried again waits for
    /// that long, or until there is something else.
    fn wait(&self, pause: Duration, again: Again) -> Option<Desk> {
        let begun = Instant::now();
        let mut desk = self.desk();
        loop {
            let pause = (!again.is_empty()).then(|| pause.saturating_sub(begun.elapsed()));
            let is_over = desk.is_closed && again.is_empty();
            let left = desk.wait(self.wait).into_iter().chain(pause).min();
            desk = match left {
                _ if is_over => break,
                Some(left) if left.is_zero() => break,
                Some(left) => {
                    let woken = self.bell.wait_timeout(desk, left);
                    woken.unwrap_or_else(PoisonError::into_inner).0
                }
                None => self.bell.wait(desk).unwrap_or_else(PoisonError::into_inner),
            };
        }
        // New ones come after them.
        for (shard, mut writes) in again.writes {
            desk.waiting += writes.len();
            desk.bytes += writes.iter().map(|write| bytes_of(&write.op)).sum::<usize>();
            let later = desk.writes.entry(shard).or_default();
            writes.append(later);
            *later = writes;
        }
        let is_closed = desk.is_closed;
        if !is_closed {
            desk.reads.splice(..0, again.reads);
        }
        let jobs = std::mem::replace(&mut *desk, Desk { is_closed, ..Desk::default() });
        (!jobs.is_empty()).then_some(jobs)
    }
}

impl Hurry for Clerk {
    fn hurry(&self, _: Option<u64>) {
        self.desk().is_urgent = true;
        self.bell.notify_one();
    }
}

fn bytes_of(op: &Op) -> usize {
    match op {
        Op::Put(record) | Op::PutNew(record) => record.bytes(),
        _ => 0,
    }
}

impl Desk {
    /// How long it may take until something has to be done; `None`: there is nothing.
    fn wait(&self, wait: Duration) -> Option<Duration> {
        let others = [self.reads.is_empty(), self.releases.is_empty(), self.messages.is_empty()];
        let is_urgent = self.is_urgent && !self.writes.is_empty();
        if is_urgent || others != [true; 3] {
            return Some(Duration::ZERO);
        }
        self.since.map(|since| wait.saturating_sub(since.elapsed()))
    }

    fn is_empty(&self) -> bool {
        self.writes.is_empty()
            && self.reads.is_empty()
            && self.releases.is_empty()
            && self.messages.is_empty()
    }
}

impl Again {
    fn is_empty(&self) -> bool {
        self.writes.is_empty() && self.reads.is_empty()
    }
}

// === impl Work ===

impl Work<'_> {
    pub(super) fn run(mut self) {
        let mut again = Again::default();
        loop {
            let waiting = std::mem::take(&mut again);
            let Some(jobs) = self.clerk.wait(self.lease / 20, waiting) else { return };
            self.down = None;
            for taken in jobs.releases {
                // Without it, the lease runs out.
                let _ = self.connected(|clerking| clerking.release(taken));
            }
            for message in jobs.messages {
                // Without it, others look a little later.
                let _ = self.connected(|clerking| clerking.tell(&message));
            }
            again.writes = self.write(jobs.writes);
            again.reads.extend(jobs.reads.into_iter().filter_map(|read| self.read(read)));
        }
    }

    /// Returns it if it can be tried again.
    fn read(&mut self, mut read: Box<dyn Read>) -> Option<Box<dyn Read>> {
        match self.connected(|clerking| read.read(clerking)) {
            Ok(()) => None,
            Err(error) if self.is_early(&error, read.since()) => Some(read),
            Err(error) => {
                read.fail(&error);
                None
            }
        }
    }

    /// Whether what failed like this can be tried again: a shard without a holder has one within a
    /// lease.
    fn is_early(&self, error: &StoreError, since: Duration) -> bool {
        error.kind() == StoreErrorKind::InUse && since_start() < since + self.lease * 3
    }

    /// Returns those that can be tried again.
    fn write(&mut self, writes: BTreeMap<u32, Vec<Write>>) -> Vec<(u32, Vec<Write>)> {
        let (mut again, mut left) = (Vec::new(), writes);
        while !left.is_empty() {
            let mut room = BATCH;
            let mut round: Vec<(u32, Vec<Write>)> = Vec::new();
            for (shard, writes) in &mut left {
                if room == 0 {
                    break;
                }
                let few: Vec<Write> = writes.drain(..writes.len().min(room)).collect();
                room -= few.len();
                round.push((*shard, self.without_misfits(few)));
            }
            round.retain(|(_, writes)| !writes.is_empty());
            for (shard, early) in self.write_round(round) {
                // Those after them wait, too, so that the order stays.
                let later = left.remove(&shard).into_iter().flatten();
                again.push((shard, early.into_iter().chain(later).collect()));
            }
            left.retain(|_, writes| !writes.is_empty());
        }
        again
    }

    /// The same for as many as are written together.
    fn write_round(&mut self, round: Vec<(u32, Vec<Write>)>) -> Vec<(u32, Vec<Write>)> {
        if round.is_empty() {
            return Vec::new();
        }
        let ops = |writes: &[Write]| writes.iter().map(|write| write.op.clone()).collect();
        let lists: Vec<(u32, Vec<Op>)> =
            round.iter().map(|(shard, writes)| (*shard, ops(writes))).collect();
        let results = match self.connected(|clerking| Ok(clerking.write(&lists))) {
            Ok(results) => results,
            Err(error) => vec![Err(error); lists.len()],
        };
        let mut again = Vec::new();
        for ((shard, writes), result) in round.into_iter().zip(results) {
            match result {
                Ok(outcomes) => {
                    writes.into_iter().zip(outcomes).for_each(|(write, out)| write.then.keep(out));
                }
                Err(error) => {
                    let (early, late): (Vec<_>, Vec<_>) =
                        writes.into_iter().partition(|write| self.is_early(&error, write.since));
                    late.into_iter().for_each(|write| write.then.fail(&error));
                    if !early.is_empty() {
                        again.push((shard, early));
                    }
                }
            }
        }
        again
    }

    /// Refuses those that cannot be written, so that they do not fail the others.
    fn without_misfits(&mut self, writes: Vec<Write>) -> Vec<Write> {
        let fits = self.connected(|clerking| {
            Ok(writes.iter().map(|write| clerking.fits(&write.op)).collect::<Vec<_>>())
        });
        // Without a connection, all of them fail.
        let Ok(fits) = fits else { return writes };
        let fitting = |(write, fits): (Write, Result<(), StoreError>)| match fits {
            Ok(()) => Some(write),
            Err(error) => {
                write.then.fail(&error);
                None
            }
        };
        writes.into_iter().zip(fits).filter_map(fitting).collect()
    }

    /// Uses the connection, or makes a new one if it is lost.
    fn connected<T>(
        &mut self,
        body: impl FnOnce(&mut dyn Clerking) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        if let Some(error) = &self.down {
            return Err(error.clone());
        }
        let kept = self.clerking.take().filter(|clerking| clerking.is_open());
        let connected = kept.map_or_else(|| self.hub.clerking(), Ok);
        let mut clerking = connected.inspect_err(|error| self.down = Some(error.clone()))?;
        let result = body(&mut *clerking);
        self.clerking = Some(clerking);
        result
    }
}

// === impl Then ===

impl Then {
    fn keep(self, outcome: Option<Position>) {
        match self {
            Then::Put(promise) => promise.keep(Ok(())),
            Then::New(id, promise) => promise.keep(Ok(outcome.is_none().then_some(id))),
            Then::Cancel(promise) => {
                let found = outcome.map_or(Cancelled::NotFound, |_| Cancelled::Cancelled);
                promise.keep(Ok(found));
            }
            Then::Letter(promise) => promise.keep(Ok(outcome.is_some())),
        }
    }

    fn fail(self, error: &StoreError) {
        match self {
            Then::Put(promise) => promise.keep(Err(Error::Store(error.clone()))),
            Then::New(_, promise) => promise.keep(Err(Error::Store(error.clone()))),
            Then::Cancel(promise) => promise.keep(Err(Error::Store(error.clone()))),
            Then::Letter(promise) => promise.keep(Err(Error::Store(error.clone()))),
        }
    }
}
