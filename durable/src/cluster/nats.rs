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
//! *Owner*: each part says it in [`hub`](super::hub).
//!
//! *Tested by*: `durable/tests/nats/`.

use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use serde_json::json;

use crate::error::{StoreError, StoreErrorKind};
use crate::position::Position;
use crate::store::nats::client::{Listening, Nats, Trouble, WRONG_LAST, failed};
use crate::store::nats::names::{EXPECT_LAST_OF_KEY, Names};
use crate::store::nats::{
    NatsStore, Opening, decode_ops, decode_outcomes, encode_ops, encode_outcomes,
};
use crate::store::{Op, Store};

use super::clock::since_start;
use super::hub::{Clerking, Hub, Keeping, Reading, Taken, Tell, messages};
use super::message::Message;

/// A log as long as this is not shortened.
const FLOOR: u64 = 16 << 20;

/// How often the clock is tried to be read by a new instance.
const TRIES: u32 = 50;

pub(super) struct Meeting {
    nats: Nats,
    names: Names,
    shards: u32,
    lease: Duration,
    directory: PathBuf,
    ignores_fence: bool,
    seen: Arc<Mutex<Seen>>,
}

/// What this instance knows of the bucket.
#[derive(Debug, Default)]
struct Seen {
    /// The leases, by shard.
    shards: BTreeMap<u32, Key>,
    /// By instance, those that may be alive.
    instances: BTreeMap<u64, Key>,
}

/// A key of the bucket.
#[derive(Clone, Copy, Debug, Default)]
struct Key {
    revision: u64,
    /// When this revision was first seen, by [`since_start`].
    since: Duration,
    holder: u64,
    fence: u64,
}

/// The keeper's.
struct Watch {
    nats: Nats,
    names: Names,
    shards: u32,
    lease: Duration,
    seen: Arc<Mutex<Seen>>,
    told: Receiver<Message>,
    has_read_clock: bool,
    _listening: Listening,
}

/// The clerk's.
struct Desk {
    nats: Nats,
    names: Names,
    lease: Duration,
    seen: Arc<Mutex<Seen>>,
}

/// A store, and the thread that does what others ask for.
struct Asked {
    store: NatsStore,
    /// Dropping it ends the thread.
    _listening: Listening,
}

fn lock(seen: &Mutex<Seen>) -> MutexGuard<'_, Seen> {
    seen.lock().unwrap_or_else(PoisonError::into_inner)
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
        Meeting { nats, names, shards, lease, directory, ignores_fence, seen: Arc::default() }
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
        Ok(Box::new(Asked::new(&self.nats, &self.names, store, tell)?))
    }

    /// What others do to a shard is done here. What is told besides is only told sooner.
    fn misses_nothing(&self) -> bool {
        true
    }
}

// === impl Seen ===

impl Seen {
    /// A holder or an instance says which revisions it has written: `KEY REVISION ..`.
    fn hear(&mut self, renewed: &str) {
        let now = since_start();
        let words: Vec<&str> = renewed.split(' ').collect();
        for pair in words.chunks_exact(2) {
            let Ok(revision) = pair[1].parse() else { continue };
            if let Some(key) = self.key(pair[0]) {
                // Who has it does not change with a renewal. What is new is read in a round.
                if key.revision > 0 && key.revision < revision {
                    (key.revision, key.since) = (revision, now);
                }
            }
        }
    }

    fn key(&mut self, name: &str) -> Option<&mut Key> {
        match name.split_once('.')? {
            ("s", shard) => self.shards.get_mut(&shard.parse().ok()?),
            ("i", instance) => self.instances.get_mut(&instance.parse().ok()?),
            _ => None,
        }
    }

    /// A key was read.
    fn read(&mut self, name: &str, revision: u64, value: &[u8]) {
        let key = match name.split_once('.') {
            Some(("s", shard)) => shard.parse().ok().map(|n| self.shards.entry(n).or_default()),
            Some(("i", instance)) => {
                instance.parse().ok().map(|n| self.instances.entry(n).or_default())
            }
            _ => None,
        };
        // A server that is behind tells what was before.
        let Some(key) = key.filter(|key| key.revision <= revision) else { return };
        if key.revision < revision {
            (key.revision, key.since) = (revision, since_start());
        }
        let value = String::from_utf8_lossy(value);
        let numbers = value.split_once(' ').map(|(holder, fence)| (holder.parse(), fence.parse()));
        if let Some((Ok(holder), Ok(fence))) = numbers {
            // A taking does not know its number yet.
            (key.holder, key.fence) = (holder, if fence == 0 { revision } else { fence });
        }
    }
}

impl Key {
    fn is_over(&self, now: Duration, lease: Duration) -> bool {
        now >= self.since + lease
    }
}

// === impl Watch ===

impl Watch {
    /// Reads the bucket, and returns when its leader has got that revision, if that is there.
    fn read(&self, revision: u64) -> Result<Option<i64>, StoreError> {
        let which = json!({ "multi_last": [self.names.key("s.*"), self.names.key("i.*")] });
        let all = self.nats.read(&self.names.bucket(), &which).map_err(failed)?;
        let prefix = self.names.key("");
        let mut seen = lock(&self.seen);
        for stored in &all {
            if let Some(key) = stored.subject.strip_prefix(&prefix) {
                seen.read(key, stored.sequence, &stored.data);
            }
        }
        let own = all.iter().find(|stored| stored.sequence == revision);
        Ok(own.map(|stored| stored.time_us))
    }

    /// Writes a key if its revision is the one that is known. `None`: it is not.
    fn swap(&self, key: &str, revision: u64, value: &str) -> Result<Option<u64>, StoreError> {
        let expected = Some((EXPECT_LAST_OF_KEY, revision));
        match self.nats.add(self.names.key(key), expected, value.as_bytes().to_vec()) {
            Ok(revision) => Ok(Some(revision)),
            Err(Trouble::Refused { code, .. }) if WRONG_LAST.contains(&code) => Ok(None),
            Err(trouble) => Err(failed(trouble)),
        }
    }

    fn tell_renewed(&self, renewed: &[(String, u64)]) {
        let words: Vec<String> =
            renewed.iter().map(|(key, revision)| format!("{key} {revision}")).collect();
        let text = format!("renewed {}", words.join(" "));
        self.nats.tell(self.names.told(), text.into_bytes());
    }
}

impl Keeping for Watch {
    fn next_session(&mut self) -> Result<u64, StoreError> {
        self.names.count(&self.nats, "sessions")
    }

    fn say_alive(&mut self, instance: u64, _: Duration) -> Result<Option<Reading>, StoreError> {
        let key = format!("i.{instance}");
        let sent = since_start();
        let revision =
            self.nats.add(self.names.key(&key), None, b"0 0".to_vec()).map_err(failed)?;
        let received = since_start();
        self.tell_renewed(&[(key, revision)]);
        let tries = if self.has_read_clock { 1 } else { TRIES };
        for _ in 0..tries {
            if let Some(shows_us) = self.read(revision)? {
                self.has_read_clock = true;
                return Ok(Some(Reading { sent, received, shows_us }));
            }
            // The server that has replied is behind.
            if tries > 1 {
                thread::sleep(Duration::from_millis(20));
            }
        }
        Ok(None)
    }

    fn renew(
        &mut self,
        instance: u64,
        leases: &[Taken],
        _: Duration,
    ) -> Result<Vec<Taken>, StoreError> {
        let (mut renewed, mut told) = (Vec::new(), Vec::new());
        for &taken in leases {
            let fence = taken.fence.cast_unsigned();
            let known = lock(&self.seen).shards.get(&taken.shard).copied().unwrap_or_default();
            if (known.holder, known.fence) != (instance, fence) {
                continue;
            }
            let (key, value) = (format!("s.{}", taken.shard), format!("{instance} {fence}"));
            // If its revision is another one, somebody has the shard. Or the reply to the last
            // renewal was lost, and the next round knows the revision.
            if let Some(revision) = self.swap(&key, known.revision, &value)? {
                lock(&self.seen).read(&key, revision, value.as_bytes());
                renewed.push(taken);
                told.push((key, revision));
            }
        }
        if !told.is_empty() {
            self.tell_renewed(&told);
        }
        Ok(renewed)
    }

    fn alive(&mut self, lease: Duration) -> Result<Vec<u64>, StoreError> {
        let now = since_start();
        let mut seen = lock(&self.seen);
        // Long dead ones.
        let is_dead = |key: &Key| now >= key.since + lease * 10;
        let dead: Vec<u64> =
            seen.instances.iter().filter(|(_, key)| is_dead(key)).map(|(one, _)| *one).collect();
        for instance in dead {
            seen.instances.remove(&instance);
            let key = self.names.key(&format!("i.{instance}"));
            self.nats.purge(&self.names.bucket(), &json!({ "filter": key }));
        }
        let mut shards: HashMap<u64, usize> = HashMap::new();
        for key in seen.shards.values().filter(|key| !key.is_over(now, lease)) {
            *shards.entry(key.holder).or_default() += 1;
        }
        let alive = seen.instances.iter().filter(|(_, key)| !key.is_over(now, lease));
        let mut alive: Vec<u64> = alive.map(|(instance, _)| *instance).collect();
        // Who has more keeps the one more, so that no shard changes hands for nothing.
        alive.sort_by_key(|one| (usize::MAX - shards.get(one).copied().unwrap_or(0), *one));
        Ok(alive)
    }

    fn take(
        &mut self,
        instance: u64,
        held: &[u32],
        most: usize,
        lease: Duration,
    ) -> Result<Vec<Taken>, StoreError> {
        let now = since_start();
        let known = |shard: &u32| lock(&self.seen).shards.get(shard).copied().unwrap_or_default();
        let mut free: Vec<(Duration, u32, u64)> = (0..self.shards)
            .filter(|shard| !held.contains(shard))
            .map(|shard| (shard, known(&shard)))
            .filter(|(_, key)| [0, instance].contains(&key.holder) || key.is_over(now, lease))
            .map(|(shard, key)| (key.since, shard, key.revision))
            .collect();
        // Instances that look at the same time begin at different ones.
        let count = u64::from(self.shards);
        free.sort_by_key(|(since, shard, _)| {
            (*since, (u64::from(*shard) + count - instance % count) % count)
        });
        let mut taken = Vec::new();
        for (_, shard, revision) in free {
            if taken.len() == most {
                break;
            }
            let (key, value) = (format!("s.{shard}"), format!("{instance} 0"));
            match self.swap(&key, revision, &value) {
                Ok(Some(revision)) => {
                    lock(&self.seen).read(&key, revision, value.as_bytes());
                    taken.push(Taken { shard, fence: revision.cast_signed() });
                }
                Ok(None) => {}
                // What was taken is to be opened. The next round finds the others.
                Err(_) if !taken.is_empty() => break,
                Err(error) => return Err(error),
            }
        }
        Ok(taken)
    }

    fn next_expiry(
        &mut self,
        instance: u64,
        lease: Duration,
    ) -> Result<Option<Duration>, StoreError> {
        let now = since_start();
        let seen = lock(&self.seen);
        let others = seen.shards.values().filter(|key| ![0, instance].contains(&key.holder));
        Ok(others.map(|key| (key.since + lease).saturating_sub(now)).min())
    }

    fn wait(&mut self, left: Duration) -> Vec<Message> {
        match self.told.recv_timeout(left) {
            Ok(first) => std::iter::once(first).chain(self.told.try_iter()).collect(),
            Err(RecvTimeoutError::Timeout) => Vec::new(),
            Err(RecvTimeoutError::Disconnected) => {
                // The connection's thread has died, so nothing will be told.
                thread::sleep(left.min(self.lease / 10));
                Vec::new()
            }
        }
    }

    fn leave(&mut self, instance: u64) -> Result<(), StoreError> {
        let which = json!({ "filter": self.names.key(&format!("i.{instance}")) });
        self.nats
            .api(&format!("STREAM.PURGE.{}", self.names.bucket()), Some(&which))
            .map_err(failed)?;
        Ok(())
    }
}

// === impl Desk ===

impl Clerking for Desk {
    fn is_open(&self) -> bool {
        true
    }

    fn release(&mut self, taken: Taken) -> Result<(), StoreError> {
        let known = lock(&self.seen).shards.get(&taken.shard).copied().unwrap_or_default();
        if known.fence == taken.fence.cast_unsigned() {
            let key = format!("s.{}", taken.shard);
            let expected = Some((EXPECT_LAST_OF_KEY, known.revision));
            let released = self.nats.add(self.names.key(&key), expected, b"0 0".to_vec());
            lock(&self.seen).read(&key, released.map_err(failed)?, b"0 0");
        }
        self.tell(&Message::Look)
    }

    fn tell(&mut self, message: &Message) -> Result<(), StoreError> {
        self.nats.tell(self.names.told(), message.to_text().into_bytes());
        Ok(())
    }

    fn write(&mut self, shard: u32, ops: &[Op]) -> Result<Vec<Option<Position>>, StoreError> {
        let most = self.nats.max_payload();
        let mut outcomes = Vec::new();
        let mut rest = ops;
        while let [first, ..] = rest {
            // As many as one message has.
            let mut bytes = encode_ops(std::slice::from_ref(first));
            if bytes.len() > most {
                let message = format!("a timer for another instance has more than {most} bytes");
                return Err(StoreError::new(StoreErrorKind::TooLarge, message));
            }
            let mut count = 1;
            for op in &rest[1..] {
                let next = encode_ops(std::slice::from_ref(op));
                if bytes.len() + next.len() > most {
                    break;
                }
                bytes.extend(next);
                count += 1;
            }
            match self.ask(shard, bytes) {
                Ok(told) if told.len() == count => outcomes.extend(told),
                Ok(_) => {
                    let message = "the reply of another instance is not understood";
                    return Err(StoreError::new(StoreErrorKind::Io, message));
                }
                // Some were done, so not all can be tried again.
                Err(error) if !outcomes.is_empty() => {
                    return Err(StoreError::new(StoreErrorKind::Io, error.to_string()));
                }
                Err(error) => return Err(error),
            }
            rest = &rest[count..];
        }
        Ok(outcomes)
    }
}

/// What the first byte of a reply says.
const DONE: u8 = 0;
const NOT_MINE: u8 = 1;
const FAILED: u8 = 2;

impl Desk {
    /// Asks the holder of a shard.
    fn ask(&self, shard: u32, bytes: Vec<u8>) -> Result<Vec<Option<Position>>, StoreError> {
        let nobody = || {
            let message = format!("no instance has shard {shard} at the moment");
            StoreError::new(StoreErrorKind::InUse, message)
        };
        // The holder's own patience is a lease.
        match self.nats.request(self.names.ask(shard), bytes, self.lease + self.lease / 2) {
            Err(Trouble::Nobody) => Err(nobody()),
            Err(trouble) => Err(failed(trouble)),
            Ok(reply) => match reply.split_first() {
                Some((&DONE, outcomes)) => decode_outcomes(outcomes).ok_or_else(|| {
                    let message = "the reply of another instance is cut off";
                    StoreError::new(StoreErrorKind::Io, message)
                }),
                Some((&NOT_MINE, _)) => Err(nobody()),
                Some((_, why)) => {
                    let why = String::from_utf8_lossy(why).into_owned();
                    Err(StoreError::new(StoreErrorKind::Io, why))
                }
                None => Err(nobody()),
            },
        }
    }
}

// === impl Asked ===

impl Asked {
    fn new(nats: &Nats, names: &Names, store: NatsStore, tell: Tell) -> Result<Asked, StoreError> {
        let (ask, asked) = channel::<async_nats::Message>();
        let hear = move |message| drop(ask.send(message));
        let listening = nats.listen(names.ask(store.shard()), hear).map_err(failed)?;
        let (nats, theirs) = (nats.clone(), store.downgrade());
        let work = move || {
            while let Ok(message) = asked.recv() {
                let Some(mut store) = theirs.upgrade() else { return };
                let reply = answer(&mut store, &message.payload, &tell);
                drop(store);
                if let Some(to) = message.reply {
                    nats.tell(to.to_string(), reply);
                }
            }
        };
        let started = thread::Builder::new().name("durable-asked".to_owned()).spawn(work);
        started.map_err(|error| StoreError::io("no thread can be started", error))?;
        Ok(Asked { store, _listening: listening })
    }
}

/// Does what another instance asks for, and returns the reply.
fn answer(store: &mut NatsStore, request: &[u8], tell: &Tell) -> Vec<u8> {
    let Some(ops) = decode_ops(request) else {
        return [&[FAILED][..], b"a request is not understood"].concat();
    };
    match store.commit(&ops) {
        Ok(outcomes) => {
            // Before the reply: from then on, a cancelled timer does not fire.
            messages(store.shard(), &ops, &outcomes).into_iter().for_each(tell);
            [&[DONE][..], &encode_outcomes(&outcomes)].concat()
        }
        // A batch that was fenced off is not in the log.
        Err(error) if error.kind() == StoreErrorKind::Fenced => vec![NOT_MINE],
        Err(error) => [&[FAILED][..], error.to_string().as_bytes()].concat(),
    }
}

impl Store for Asked {
    fn begin(&mut self) -> Result<u64, StoreError> {
        self.store.begin()
    }

    fn commit(&mut self, batch: &[Op]) -> Result<Vec<Option<Position>>, StoreError> {
        self.store.commit(batch)
    }

    fn scan(
        &mut self,
        after: Option<Position>,
        limit: usize,
    ) -> Result<Vec<crate::Record>, StoreError> {
        self.store.scan(after, limit)
    }

    fn dead_letters(
        &mut self,
        after: Option<Position>,
        limit: usize,
    ) -> Result<Vec<crate::DeadLetter>, StoreError> {
        self.store.dead_letters(after, limit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_that_stands_still_is_over_and_one_that_was_read_late_is_not_younger() {
        let mut seen = Seen::default();
        seen.read("s.3", 10, b"7 0");
        let first = seen.shards[&3];
        assert_eq!((first.holder, first.fence, first.revision), (7, 10, 10));
        // The same again, from a server that is behind, and of a key that nobody knows.
        seen.read("s.3", 10, b"7 0");
        seen.read("s.3", 9, b"6 5");
        seen.hear("s.3 9 s.4 11 x");
        let same = seen.shards[&3];
        assert_eq!((same.holder, same.revision, same.since), (7, 10, first.since));
        assert!(!seen.shards.contains_key(&4));
        let lease = Duration::from_secs(1);
        assert!(!same.is_over(first.since, lease) && same.is_over(first.since + lease, lease));
        seen.hear("s.3 12");
        let renewed = seen.shards[&3];
        assert_eq!((renewed.holder, renewed.fence, renewed.revision), (7, 10, 12));
        seen.read("s.3", 13, b"0 0");
        assert_eq!(seen.shards[&3].holder, 0);
    }
}
