//! The clerk's part: what is told to others and asked of them.
//!
//! *Owner*: the clerk's thread.
//!
//! *Tested by*: `durable/tests/nats/`.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::cluster::hub::{Clerking, Taken};
use crate::cluster::message::Message;
use crate::error::{StoreError, StoreErrorKind};
use crate::position::Position;
use crate::store::Op;
use crate::store::nats::client::{Nats, Trouble, failed};
use crate::store::nats::names::{EXPECT_LAST_OF_KEY, Names};
use crate::store::nats::{decode_outcomes, encode_ops};

use super::asked::{DONE, NOT_MINE};
use super::seen::{Seen, lock};

pub(super) struct Desk {
    pub(super) nats: Nats,
    pub(super) names: Names,
    pub(super) lease: Duration,
    pub(super) seen: Arc<Mutex<Seen>>,
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
