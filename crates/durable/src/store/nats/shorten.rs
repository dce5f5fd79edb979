//! How a log is kept short: what is still there of its oldest messages goes to its end.
//!
//! *Tested by*: `tests/durable/nats/`.

use std::sync::Arc;

use serde_json::json;

use crate::error::StoreError;
use crate::position::Position;
use crate::store::contract::Store;

use super::Log;
use super::entry::{Effect, Entry};

/// How much longer than what is in it a log may be.
const TIMES: u64 = 3;

impl Log {
    /// If the log is too long, adds what is still there of its oldest messages to a batch. Returns
    /// the first message that is then needed.
    pub(super) fn take_along(&mut self, body: &mut Vec<u8>) -> Result<Option<u64>, StoreError> {
        // More than what is added, so that the log becomes shorter.
        let most = 2 * body.len() + (64 << 10);
        let (mut first, mut read) = (None, 0);
        while read < most && self.bytes > self.floor + TIMES * self.live_bytes {
            let Some(oldest) = self.oldest_batch() else { break };
            for effect in Effect::decode_all(&oldest.body)? {
                if let Some(effect) = self.still_there(&effect)? {
                    effect.encode(body);
                }
            }
            self.bytes = self.bytes.saturating_sub(oldest.bytes);
            // A message that says only who has taken the shard takes time to read, too.
            self.unpurged += oldest.bytes + 256;
            first = Some(oldest.next);
            read += oldest.body.len() + 256;
        }
        Ok(first)
    }

    /// The next of the oldest batches. `None`: there is none, or it cannot be read now.
    fn oldest_batch(&mut self) -> Option<Oldest> {
        let mut oldest = Oldest { body: Vec::new(), next: self.unread, bytes: 0 };
        let whole = loop {
            if self.oldest.is_empty() {
                let stream = self.names.log(self.shard);
                self.oldest = self.nats.read_on(&stream, oldest.next).ok()?.into();
            }
            let Some(stored) = self.oldest.pop_front() else { break false };
            let is_next = stored.sequence == oldest.next && stored.sequence <= self.last;
            let Some(entry) = is_next.then(|| Entry::decode(&stored.payload).ok()).flatten() else {
                break false;
            };
            if entry.part == 0 {
                // The one before it was cut off.
                oldest.body.clear();
            }
            oldest.next += 1;
            oldest.bytes += stored.payload.len() as u64;
            oldest.body.extend(entry.piece);
            if entry.part + 1 == entry.parts {
                break true;
            }
        };
        if !whole {
            // Another time, from the beginning of the batch on.
            self.oldest.clear();
            return None;
        }
        self.unread = oldest.next;
        Some(oldest)
    }

    /// What there is now of what an effect has left.
    fn still_there(&mut self, effect: &Effect) -> Result<Option<Effect>, StoreError> {
        let before = |position: Position| (position != Position::FIRST).then(|| position.before());
        match effect {
            Effect::There(record) => {
                let found = self.index.scan(before(record.position), 1)?.pop();
                let found = found.filter(|found| found.position == record.position);
                Ok(found.map(|record| Effect::There(Arc::new(record))))
            }
            Effect::Buried(letter) => {
                let position = letter.record.position;
                let found = self.index.dead_letters(before(position), 1)?.pop();
                let found = found.filter(|found| found.record.position == position);
                Ok(found.map(|letter| Effect::Buried(Arc::new(letter))))
            }
            Effect::Gone(_) | Effect::Forgotten(_) => Ok(None),
        }
    }

    /// Takes out what is also in later messages, if that is worth a request.
    pub(super) fn purge(&mut self) {
        if self.unpurged >= self.floor.clamp(1, 1 << 20) {
            self.unpurged = 0;
            // If it fails, a later one takes out the same and more.
            self.nats.purge(&self.names.log(self.shard), &json!({ "seq": self.first }));
        }
    }
}

/// A batch that is taken along.
struct Oldest {
    body: Vec<u8>,
    /// The number after its last message.
    next: u64,
    bytes: u64,
}
