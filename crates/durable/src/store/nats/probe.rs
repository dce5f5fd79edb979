//! What tests do with the streams of a cluster, past its instances.

use std::time::Duration;

use async_nats::jetstream::stream::Info;
use serde_json::json;

use crate::error::StoreError;
use crate::position::Position;

use super::client::Nats;
use super::entry::{Effect, Entry};
use super::names::{self, Names};
use super::reply::{failed, time_us};
use super::{NatsStore, Opening};

impl NatsStore {
    /// Makes the streams of a cluster with one shard and takes that, also from an instance that
    /// holds it.
    #[doc(hidden)]
    pub fn take_first(servers: &str, name: &str, floor: u64) -> Result<NatsStore, StoreError> {
        let nats = Nats::connect(servers, async_nats::ConnectOptions::new())?;
        let names = Names(name.to_owned());
        names::prepare(&nats, &names, Some(1), None, false)?;
        let fence = nats.add(names.key("s.0"), &[], b"0 0".to_vec()).map_err(failed)?;
        NatsStore::open_one(&nats, &names, fence, floor)
    }

    /// Opens the log of the first shard.
    #[doc(hidden)]
    pub fn open_first(servers: &str, name: &str, fence: u64) -> Result<NatsStore, StoreError> {
        let nats = Nats::connect(servers, async_nats::ConnectOptions::new())?;
        NatsStore::open_one(&nats, &Names(name.to_owned()), fence, 0)
    }

    fn open_one(
        nats: &Nats,
        names: &Names,
        fence: u64,
        floor: u64,
    ) -> Result<NatsStore, StoreError> {
        let directory = std::env::temp_dir();
        let opening = Opening {
            shard: 0,
            fence,
            directory: &directory,
            patience: Duration::from_secs(30),
            ignores_fence: false,
            floor,
        };
        NatsStore::open(nats, names, &opening)
    }
}

/// What a message of a log says.
#[derive(Clone, Debug)]
pub struct Noted {
    /// By the clock of the log's leader.
    pub at_us: i64,
    /// The fence of its writer.
    pub fence: u64,
    /// Whether it says that the shard was taken. If not, it is a batch.
    pub is_taking: bool,
    /// The timers that the batch has made, and those it has taken out, in order.
    pub changes: Vec<(Position, bool)>,
}

/// What the log of a shard says, in order.
pub fn history(servers: &str, name: &str, shard: u32) -> Result<Vec<Noted>, StoreError> {
    let nats = Nats::connect(servers, async_nats::ConnectOptions::new())?;
    let stream = Names(name.to_owned()).log(shard);
    let extent = nats.extent(&stream).map_err(failed)?;
    let last = extent.map_or(0, |extent| extent.last_sequence);
    let (mut all, mut next) = (Vec::new(), 1);
    let mut body = Vec::new();
    while next <= last {
        for stored in nats.read_on(&stream, next).map_err(failed)? {
            next = stored.sequence + 1;
            let at_us = time_us(&stored);
            let Entry { fence, batch, part, parts, piece } = Entry::decode(&stored.payload)?;
            if part == 0 {
                body.clear();
            }
            body.extend(piece);
            if part + 1 < parts {
                continue;
            }
            let change = |effect: &Effect| match effect {
                Effect::Gone(position) => Some((*position, false)),
                Effect::There(record) => Some((record.position, true)),
                Effect::Buried(_) | Effect::Forgotten(_) => None,
            };
            let changes = Effect::decode_all(&body)?.iter().filter_map(change).collect();
            all.push(Noted { at_us, fence, is_taking: batch == 0, changes });
        }
    }
    Ok(all)
}

/// The name of the server that leads a stream, if one does.
pub fn leader(servers: &str, stream: &str) -> Result<Option<String>, StoreError> {
    let nats = Nats::connect(servers, async_nats::ConnectOptions::new())?;
    let info: Info = nats.api(&format!("STREAM.INFO.{stream}"), &json!({})).map_err(failed)?;
    Ok(info.cluster.and_then(|cluster| cluster.leader))
}

/// Makes the streams of a cluster with one shard, in which there is nothing yet.
pub fn make_streams(servers: &str, name: &str) -> Result<(), StoreError> {
    let nats = Nats::connect(servers, async_nats::ConnectOptions::new())?;
    let names = Names(name.to_owned());
    names::make_bucket(&nats, &names, 1)?;
    names::make_log(&nats, &names, 0, 1)
}

/// Adds a message to a stream that is none of ours.
pub fn publish(servers: &str, subject: &str, data: &[u8]) -> Result<u64, StoreError> {
    let nats = Nats::connect(servers, async_nats::ConnectOptions::new())?;
    nats.add(subject.to_owned(), &[], data.to_vec()).map_err(failed)
}
