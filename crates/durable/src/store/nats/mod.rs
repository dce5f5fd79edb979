//! A store on NATS JetStream, which several instances share.
//!
//! | stream or subject | what is there |
//! |---|---|
//! | `tickless_NAME_SHARD` | the shard's log: what became of its timers, batch by batch |
//! | `KV_tickless_NAME` | the bucket with leases, instances, and the number of sessions |
//! | `tickless.NAME.ask.SHARD.FENCE` | where others ask that holder for timers and cancels |
//! | `tickless.NAME.told` | what instances tell each other |
//!
//! # One log for each shard
//!
//! JetStream has no transaction over what lies in several places, and no order but that of arrival.
//! So a shard is a *log*, with one writer. A batch is a message, or some that count when the last
//! one is there. Each is added only if the log's last number is the one that the writer knows
//! (`Nats-Expected-Last-Sequence`), and an instance that takes the shard begins with a message of
//! its own: from then on, no other writer's last number is right. That is the fence. Its number is
//! the revision with which the lease was taken, it is in each message, and who opens the log sees
//! in its last message whether a later one was there.
//!
//! What is not replied to is found out by reading: the same message is added again, under the same
//! condition, until it is there or another one is in its place. If that is not decided within a
//! time, it is unknown whether the batch is durable, and the store has failed.
//!
//! # What a holder keeps
//!
//! The list in order of time is an *index* in a file of the instance, which opening the log builds.
//! It is never ahead of what a caller may see: the store changes it first, and if the batch does
//! not come into the log, the store has failed and the index is gone with it.
//!
//! So that the log does not grow for ever, and is read in a time that is bounded by the number of
//! timers: as soon as it is three times as long as its timers, each batch takes some of the oldest
//! messages along. Of these, what is still there is written again, at the end of the batch, and
//! then the messages are purged. A log that lacks its beginning like that has the same effect,
//! because what it says does not depend on what came before.
//!
//! *Owner*: a service's writer, and the thread that others' requests come to, one at a time.
//!
//! *Invariants*: the index has the effect of the log up to `last`. What is in messages before
//! `first` is also in later ones.
//!
//! *Tested by*: `tests/durable/nats/`.

pub(crate) mod client;
mod entry;
mod index;
mod mend;
pub(crate) mod names;
pub mod probe;
mod replay;
pub(crate) mod reply;
pub(crate) mod request;
mod shorten;

use std::collections::VecDeque;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::thread;
use std::time::{Duration, Instant};

use async_nats::header::NATS_EXPECTED_LAST_SEQUENCE;
use async_nats::jetstream::message::StreamMessage;

use crate::error::{StoreError, StoreErrorKind};
use crate::position::{Position, TimerId, ms_at_or_after};
use crate::record::{DeadLetter, Record};

use super::contract::{Contents, Op, Store};
use super::redb::RedbStore;
use client::Nats;
use entry::{Effect, Entry, FRAME};
use names::Names;
use reply::{Trouble, WRONG_LAST, failed};

/// How long until something is tried again that the servers did not reply to.
const PAUSE: Duration = Duration::from_millis(20);

/// The list of one shard, for as long as nobody else has taken the shard.
///
/// A [`Cluster`](crate::Cluster) makes these.
#[derive(Clone)]
pub struct NatsStore {
    log: Arc<Mutex<Log>>,
}

/// When the first timer of a shard is due, for who does not wait for its store.
#[derive(Clone, Debug)]
pub(crate) struct FirstDue(Arc<AtomicU64>);

impl FirstDue {
    /// In milliseconds since 1970. `None`: there is no timer.
    pub(crate) fn ms(&self) -> Option<u64> {
        // ORDER: Relaxed - a number is all that is wanted.
        Some(self.0.load(Ordering::Relaxed)).filter(|due_ms| *due_ms != u64::MAX)
    }
}

/// See [`NatsStore::downgrade`].
pub(crate) struct WeakNatsStore(Weak<Mutex<Log>>);

impl WeakNatsStore {
    pub(crate) fn upgrade(&self) -> Option<NatsStore> {
        self.0.upgrade().map(|log| NatsStore { log })
    }
}

/// How a log is opened.
#[derive(Clone, Debug)]
pub(crate) struct Opening<'d> {
    pub(crate) shard: u32,
    pub(crate) fence: u64,
    /// Where the index is.
    pub(crate) directory: &'d Path,
    /// How long to find out what is not replied to.
    pub(crate) patience: Duration,
    /// For tests which show that they would notice.
    pub(crate) ignores_fence: bool,
    /// A log as long as this is not shortened.
    pub(crate) floor: u64,
}

/// A shard's log, and its index.
struct Log {
    nats: Nats,
    names: Names,
    shard: u32,
    fence: u64,
    index: RedbStore,
    /// The number of the last message.
    last: u64,
    /// Of the index.
    first_due: FirstDue,
    /// The number of the last batch of this opening.
    batch: u64,
    /// The first message that was not taken along.
    first: u64,
    /// The same, with the batch that is being made, and what was read from there on.
    unread: u64,
    oldest: VecDeque<StreamMessage>,
    /// How long the log is from `first` on, and what of it is still there.
    bytes: u64,
    live_bytes: u64,
    /// How much before `first` was not purged yet.
    unpurged: u64,
    failure: Option<StoreError>,
    patience: Duration,
    floor: u64,
    ignores_fence: bool,
    /// For tests: how many messages of a batch are written, and how many replies are lost.
    most_parts: usize,
    lost_replies: u32,
}

// === impl NatsStore ===

impl NatsStore {
    /// Fences all others off, and reads the log.
    pub(crate) fn open(
        nats: &Nats,
        names: &Names,
        opening: &Opening<'_>,
    ) -> Result<NatsStore, StoreError> {
        let mut log = Log {
            nats: nats.clone(),
            names: names.clone(),
            shard: opening.shard,
            fence: opening.fence,
            index: index::make(opening.directory)?,
            last: 0,
            first_due: FirstDue(Arc::new(AtomicU64::new(u64::MAX))),
            batch: 0,
            first: 0,
            unread: 0,
            oldest: VecDeque::new(),
            bytes: 0,
            live_bytes: 0,
            unpurged: 0,
            failure: None,
            patience: opening.patience,
            floor: opening.floor,
            ignores_fence: opening.ignores_fence,
            most_parts: usize::MAX,
            lost_replies: 0,
        };
        log.take()?;
        log.replay()?;
        log.note_first()?;
        Ok(NatsStore { log: Arc::new(Mutex::new(log)) })
    }

    /// The shard's number, from 0 on.
    pub fn shard(&self) -> u32 {
        self.log().shard
    }

    /// The number of this taking of the shard: each has a larger one than all before.
    pub fn fence(&self) -> u64 {
        self.log().fence
    }

    pub(crate) fn first_due(&self) -> FirstDue {
        self.log().first_due.clone()
    }

    /// A store that does not keep the log open.
    pub(crate) fn downgrade(&self) -> WeakNatsStore {
        WeakNatsStore(Arc::downgrade(&self.log))
    }

    /// How many bytes of the log are read by the next opening, as far as this one knows.
    #[doc(hidden)]
    pub fn log_bytes(&self) -> u64 {
        self.log().bytes
    }

    /// Writes only so many messages of a batch, for tests.
    #[doc(hidden)]
    pub fn commit_cut_off(&mut self, batch: &[Op], parts: usize) -> Result<(), StoreError> {
        self.log().most_parts = parts;
        self.commit(batch).map(drop)
    }

    /// Does not get the next replies, for tests.
    #[doc(hidden)]
    pub fn lose_replies(&mut self, count: u32) {
        self.log().lost_replies = count;
    }

    fn log(&self) -> MutexGuard<'_, Log> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Store for NatsStore {
    fn begin(&mut self) -> Result<u64, StoreError> {
        let log = self.log();
        log.names.count(&log.nats, "sessions")
    }

    fn commit(&mut self, batch: &[Op]) -> Result<Vec<Option<Position>>, StoreError> {
        self.log().commit(batch)
    }

    fn scan(&mut self, after: Option<Position>, limit: usize) -> Result<Vec<Record>, StoreError> {
        self.log().usable()?.scan(after, limit)
    }

    fn dead_letters(
        &mut self,
        after: Option<Position>,
        limit: usize,
    ) -> Result<Vec<DeadLetter>, StoreError> {
        self.log().usable()?.dead_letters(after, limit)
    }

    fn get(&mut self, id: TimerId) -> Result<Option<Record>, StoreError> {
        self.log().usable()?.get(id)
    }

    fn contents(&mut self) -> Result<Contents, StoreError> {
        self.log().usable()?.contents()
    }
}

impl std::fmt::Debug for NatsStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (shard, fence) = (self.shard(), self.fence());
        f.debug_struct("NatsStore").field("shard", &shard).field("fence", &fence).finish()
    }
}

// === impl Log ===

/// What is at the place in a log where a message was to be.
enum Found {
    Ours,
    Anothers,
    /// Nothing, or it is not known.
    Nothing,
}

impl Log {
    /// The index, unless it may be ahead of the log.
    fn usable(&mut self) -> Result<&mut RedbStore, StoreError> {
        match &self.failure {
            Some(error) => Err(error.clone()),
            None => Ok(&mut self.index),
        }
    }

    fn commit(&mut self, batch: &[Op]) -> Result<Vec<Option<Position>>, StoreError> {
        self.usable()?;
        let result = self.change(batch);
        let result = result.and_then(|outcomes| self.note_first().map(|()| outcomes));
        if let Err(error) = &result {
            self.failure = Some(error.clone());
        }
        result
    }

    fn change(&mut self, batch: &[Op]) -> Result<Vec<Option<Position>>, StoreError> {
        let taken_before = self.index.taken_bytes();
        let outcomes = self.index.commit(batch)?;
        let effects = batch.iter().zip(&outcomes).flat_map(|(op, taken)| Effect::of(op, *taken));
        let (mut body, mut added) = (Vec::new(), 0);
        for effect in effects {
            added += live_bytes(&effect);
            effect.encode(&mut body);
        }
        let gone = self.index.taken_bytes() - taken_before;
        self.live_bytes = (self.live_bytes + added).saturating_sub(gone);
        if body.is_empty() {
            return Ok(outcomes);
        }
        let along = self.take_along(&mut body)?;
        self.batch += 1;
        let entries = Entry::cut(self.fence, self.batch, &body, self.largest_piece());
        for (number, entry) in entries.iter().enumerate() {
            if number == self.most_parts {
                return Err(StoreError::new(StoreErrorKind::Io, "the rest is not to be written"));
            }
            self.add(entry)?;
        }
        if let Some(first) = along {
            self.first = first;
            self.purge();
        }
        Ok(outcomes)
    }

    /// Says when the first timer is due. After a batch, that is durable.
    fn note_first(&mut self) -> Result<(), StoreError> {
        let first = self.index.contents()?.first_due;
        // ORDER: Relaxed - as above.
        self.first_due.0.store(first.map_or(u64::MAX, ms_at_or_after), Ordering::Relaxed);
        Ok(())
    }

    fn largest_piece(&self) -> usize {
        // Headers count, too.
        self.nats.max_payload().min(1 << 20).saturating_sub(FRAME + 256)
    }

    /// Adds a message at the end of the log, and returns when it is there.
    fn add(&mut self, entry: &Entry) -> Result<(), StoreError> {
        let begun = Instant::now();
        let bytes = entry.encode();
        let expected = [(NATS_EXPECTED_LAST_SEQUENCE, self.last)];
        let expected = if self.ignores_fence { &[][..] } else { &expected };
        loop {
            let subject = self.names.log_subject(self.shard);
            let trouble = match self.nats.add(subject, expected, bytes.clone()) {
                Ok(_) if self.lost_replies > 0 => {
                    self.lost_replies -= 1;
                    Trouble::Unknown("a test has lost the reply".to_owned())
                }
                Ok(sequence) if sequence != self.last + 1 && !self.ignores_fence => {
                    let message = "a server has not looked at the last number of a log";
                    return Err(StoreError::new(StoreErrorKind::Corrupt, message));
                }
                Ok(sequence) => {
                    self.last = sequence;
                    self.bytes += bytes.len() as u64;
                    return Ok(());
                }
                Err(Trouble::Refused { code, text }) if !WRONG_LAST.contains(&code) => {
                    return Err(failed(Trouble::Refused { code, text }));
                }
                Err(trouble) => trouble,
            };
            // Another message is there, or this one, after a reply was lost.
            match self.find(&bytes) {
                Found::Ours => {
                    self.last += 1;
                    self.bytes += bytes.len() as u64;
                    return Ok(());
                }
                Found::Anothers => return Err(self.fenced()),
                Found::Nothing if begun.elapsed() > self.patience => {
                    return Err(failed(trouble));
                }
                Found::Nothing => thread::sleep(PAUSE),
            }
        }
    }

    /// Looks at the place after the last message that is known. Only what is found counts: the
    /// server that replies may be behind.
    fn find(&self, bytes: &[u8]) -> Found {
        match self.nats.read_one(&self.names.log(self.shard), self.last + 1) {
            Ok(Some(stored)) if stored.payload == bytes => Found::Ours,
            Ok(Some(_)) => Found::Anothers,
            Ok(None) | Err(_) => Found::Nothing,
        }
    }

    fn fenced(&self) -> StoreError {
        let message = format!("another instance has shard {}, which this one had", self.shard);
        StoreError::new(StoreErrorKind::Fenced, message)
    }
}

/// How long what an effect has left is in the index.
fn live_bytes(effect: &Effect) -> u64 {
    match effect {
        Effect::There(record) => record.encode().len() as u64,
        Effect::Buried(letter) => letter.encode().len() as u64,
        Effect::Gone(_) | Effect::Forgotten(_) => 0,
    }
}
