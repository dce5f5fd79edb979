//! What the streams and subjects of a cluster are called, and how the streams are made.
//!
//! *Tested by*: `tests/durable/nats/`.

use async_nats::header::{HeaderName, NATS_EXPECTED_LAST_SUBJECT_SEQUENCE};
use async_nats::jetstream::message::StreamMessage;
use async_nats::jetstream::stream::{Config, DiscardPolicy};
use serde_json::json;

use crate::error::{StoreError, StoreErrorKind};

use crate::record::Key;

use super::client::Nats;
use super::reply::{Trouble, WRONG_LAST, failed};
use crate::store::version::wrong_version;

/// The version of what is in the streams.
const VERSION: u32 = 3;

/// The first one that can be brought up to that. To 3: records keep what attempts have failed with,
/// which programs of before cannot read.
const FIRST: u32 = 2;

/// How many shards there are in a new cluster, if nobody says.
const SHARDS: u32 = 8;

/// How many there can be: a bucket is read by one request, of 1024 keys at most.
const MAX_SHARDS: u32 = 500;

/// The header with which a holder says when the first timer of its shard is due.
const DUE: &str = "Tickless-Due";

/// What a holder has said with that.
pub(crate) fn due_ms_of(stored: &StreamMessage) -> Option<u64> {
    stored.headers.get(DUE)?.as_str().parse().ok()
}

/// The names of a cluster: all begin in the same way.
#[derive(Clone, Debug)]
pub(crate) struct Names(pub(crate) String);

impl Names {
    /// The stream with a shard's log, and its subject.
    pub(crate) fn log(&self, shard: u32) -> String {
        format!("tickless_{}_{shard}", self.0)
    }

    pub(crate) fn log_subject(&self, shard: u32) -> String {
        format!("tickless.{}.log.{shard}", self.0)
    }

    /// The stream of the bucket with leases and instances.
    pub(crate) fn bucket(&self) -> String {
        format!("KV_tickless_{}", self.0)
    }

    /// The subject of a key in the bucket.
    pub(crate) fn key(&self, key: &str) -> String {
        format!("$KV.tickless_{}.{key}", self.0)
    }

    /// Where instances tell each other.
    pub(crate) fn told(&self) -> String {
        format!("tickless.{}.told", self.0)
    }

    /// Where the holder of a shard is asked that has taken it with this fence. Nobody else hears
    /// it: if that one has not done something, no other has.
    pub(crate) fn ask(&self, shard: u32, fence: u64) -> String {
        format!("tickless.{}.ask.{shard}.{fence}", self.0)
    }

    /// The value of a key in the bucket, and its revision.
    pub(crate) fn value(&self, nats: &Nats, key: &str) -> Result<Option<(String, u64)>, Trouble> {
        let which = json!({ "last_by_subj": self.key(key) });
        let found = nats.read(&self.bucket(), &which)?.pop();
        Ok(found
            .map(|found| (String::from_utf8_lossy(&found.payload).into_owned(), found.sequence)))
    }

    /// Writes a key if its revision is the one that is known. `None`: it is not.
    pub(crate) fn swap(
        &self,
        nats: &Nats,
        key: &str,
        revision: u64,
        value: &str,
    ) -> Result<Option<u64>, Trouble> {
        self.swap_with(nats, key, revision, value, None)
    }

    /// The same of the key of a shard, whose first timer is due then: programs of before do not
    /// read that.
    pub(crate) fn swap_with(
        &self,
        nats: &Nats,
        key: &str,
        revision: u64,
        value: &str,
        due_ms: Option<u64>,
    ) -> Result<Option<u64>, Trouble> {
        let expected = (NATS_EXPECTED_LAST_SUBJECT_SEQUENCE, revision);
        let due = due_ms.map(|due_ms| (HeaderName::from_static(DUE), due_ms));
        let numbers: Vec<(HeaderName, u64)> = [expected].into_iter().chain(due).collect();
        match nats.add(self.key(key), &numbers, value.as_bytes().to_vec()) {
            Ok(revision) => Ok(Some(revision)),
            Err(Trouble::Refused { code, .. }) if WRONG_LAST.contains(&code) => Ok(None),
            Err(trouble) => Err(trouble),
        }
    }

    /// How keys begin whose timers do not fire, and the revision of that.
    pub(crate) fn pauses(&self, nats: &Nats) -> Result<(Vec<Key>, u64), StoreError> {
        let Some((value, revision)) = self.value(nats, "pauses").map_err(failed)? else {
            return Ok((Vec::new(), 0));
        };
        let pauses: Result<Vec<Key>, serde_json::Error> =
            serde_json::from_str::<Vec<Vec<u8>>>(&value)
                .map(|pauses| pauses.into_iter().map(Key::from).collect());
        let unread = |error| {
            StoreError::caused(StoreErrorKind::Corrupt, "the pauses in a bucket are none", error)
        };
        Ok((pauses.map_err(unread)?, revision))
    }

    /// Adds one, or takes it out. Returns whether that has changed them.
    pub(crate) fn set_pause(
        &self,
        nats: &Nats,
        prefix: &Key,
        is_paused: bool,
    ) -> Result<bool, StoreError> {
        for _ in 0..1000 {
            let (mut pauses, revision) = self.pauses(nats)?;
            if pauses.contains(prefix) == is_paused {
                return Ok(false);
            }
            pauses.retain(|other| other != prefix);
            pauses.extend(is_paused.then(|| prefix.clone()));
            let pauses: Vec<&[u8]> = pauses.iter().map(|pause| &**pause).collect();
            let value = json!(pauses).to_string();
            if self.swap(nats, "pauses", revision, &value).map_err(failed)?.is_some() {
                return Ok(true);
            }
        }
        Err(StoreError::new(StoreErrorKind::Io, "the pauses in a bucket do not stand still"))
    }

    /// Adds one to a number in the bucket, and returns the sum.
    pub(crate) fn count(&self, nats: &Nats, key: &str) -> Result<u64, StoreError> {
        // Each try that fails is another's that has not, or one that was behind.
        for _ in 0..1000 {
            let found = self.value(nats, key).map_err(failed)?;
            let (count, revision) = match found {
                None => (0, 0),
                Some((count, revision)) => {
                    let count = count.parse().map_err(|_| {
                        let message = format!("the number {key} in a bucket is {count:?}");
                        StoreError::new(StoreErrorKind::Corrupt, message)
                    })?;
                    (count, revision)
                }
            };
            let next: u64 = count + 1;
            // If this fails and it was added all the same, that number is nobody's.
            if self.swap(nats, key, revision, &next.to_string()).map_err(failed)?.is_some() {
                return Ok(next);
            }
        }
        Err(StoreError::new(StoreErrorKind::Io, "a number in a bucket does not stand still"))
    }
}

/// Makes the streams if they are not there, and returns how many shards there are.
///
/// # Errors
/// What is there is of a later version, or has another number of shards than is asked for, or the
/// bucket was emptied and the logs were not.
pub(crate) fn prepare(
    nats: &Nats,
    names: &Names,
    wanted: Option<u32>,
    replicas: Option<usize>,
    migrates: bool,
) -> Result<u32, StoreError> {
    let replicas = replicas.unwrap_or(if nats.is_clustered() { 3 } else { 1 });
    make_bucket(nats, names, replicas)?;
    if names.value(nats, "meta").map_err(failed)?.is_none() {
        let shards = wanted.unwrap_or(SHARDS).min(MAX_SHARDS);
        for shard in 0..shards {
            make_log(nats, names, shard, replicas)?;
            let extent = nats.extent(&names.log(shard)).map_err(failed)?;
            if extent.is_some_and(|extent| extent.last_sequence > 0) {
                // Another instance may have made all this meanwhile, and begun.
                return agreed(&meta(nats, names)?.ok_or_else(emptied)?, wanted);
            }
        }
        // If another has made it meanwhile, what counts is that.
        names.swap(nats, "meta", 0, &format!("{VERSION} {shards}")).map_err(failed)?;
    }
    let unread = || StoreError::new(StoreErrorKind::Io, "the bucket cannot be read");
    let found = meta(nats, names)?.ok_or_else(unread)?;
    match found.split_once(' ') {
        Some((version, shards)) if migrates && version == FIRST.to_string() => {
            let (Some((_, revision)), newer) =
                (names.value(nats, "meta").map_err(failed)?, format!("{VERSION} {shards}"))
            else {
                return Err(unread());
            };
            // If another has done it meanwhile, it is done.
            names.swap(nats, "meta", revision, &newer).map_err(failed)?;
            agreed(&newer, wanted)
        }
        _ => agreed(&found, wanted),
    }
}

pub(super) fn make_bucket(nats: &Nats, names: &Names, replicas: usize) -> Result<(), StoreError> {
    let bucket = Config {
        name: names.bucket(),
        description: Some("Leases of durable timers".to_owned()),
        subjects: vec![names.key(">")],
        max_messages_per_subject: 1,
        ..config(replicas)
    };
    nats.make_stream(&bucket).map_err(failed)
}

pub(super) fn make_log(
    nats: &Nats,
    names: &Names,
    shard: u32,
    replicas: usize,
) -> Result<(), StoreError> {
    let log = Config {
        name: names.log(shard),
        description: Some("A shard of durable timers".to_owned()),
        subjects: vec![names.log_subject(shard)],
        ..config(replicas)
    };
    nats.make_stream(&log).map_err(failed)
}

/// What all streams have in common.
fn config(replicas: usize) -> Config {
    Config {
        discard: DiscardPolicy::New,
        num_replicas: replicas,
        allow_direct: true,
        ..Config::default()
    }
}

/// There is a log, and the bucket does not say whose.
fn emptied() -> StoreError {
    let message = "the logs of shards are there, and the bucket with their numbers was emptied";
    StoreError::new(StoreErrorKind::Corrupt, message)
}

/// The number of shards that the bucket tells, if that is as many as are wanted.
fn agreed(meta: &str, wanted: Option<u32>) -> Result<u32, StoreError> {
    let numbers = meta
        .split_once(' ')
        .map(|(version, shards)| (version.parse::<u32>(), shards.parse::<u32>()));
    match numbers {
        Some((Ok(version), _)) if version != VERSION => {
            Err(wrong_version("the bucket", version.into(), FIRST.into(), VERSION.into()))
        }
        Some((Ok(_), Ok(found))) => match wanted.map(|shards| shards.min(MAX_SHARDS)) {
            Some(shards) if shards != found => {
                let message = format!("there are {found} shards, not {shards}");
                Err(StoreError::new(StoreErrorKind::Denied, message))
            }
            _ => Ok(found),
        },
        _ => {
            let message = format!("the bucket is of something else: {meta:?}");
            Err(StoreError::new(StoreErrorKind::Corrupt, message))
        }
    }
}

/// What the bucket says about itself. The server that replies may be a little behind.
fn meta(nats: &Nats, names: &Names) -> Result<Option<String>, StoreError> {
    for _ in 0..100 {
        if let Some((meta, _)) = names.value(nats, "meta").map_err(failed)? {
            return Ok(Some(meta));
        }
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    Ok(None)
}
