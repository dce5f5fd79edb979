//! How a log is opened: fenced first, then read.
//!
//! *Tested by*: `tests/durable/nats/`.

use std::thread;
use std::time::Instant;

use crate::error::{StoreError, StoreErrorKind};
use crate::record::Record;
use crate::store::contract::Store;

use super::entry::{Effect, Entry};
use super::reply::{Trouble, failed};
use super::{Log, PAUSE};

/// How many changes are made to an index at a time, and how long they are together.
const MOST: usize = 20_000;
const MOST_BYTES: usize = 8 << 20;

/// Batches, as the messages of a log make them one by one.
#[derive(Debug, Default)]
struct Batches {
    /// The fence of the last message.
    fence: u64,
    /// A batch whose last message was not there yet.
    begun: Option<(Entry, u32)>,
}

impl Batches {
    /// Returns the batch that this message completes.
    fn next(&mut self, entry: Entry) -> Result<Option<Vec<u8>>, StoreError> {
        if entry.fence < self.fence {
            return Err(corrupt("a log has a message of a writer that was fenced off"));
        }
        self.fence = entry.fence;
        let (parts, part) = (entry.parts, entry.part);
        let whole = match self.begun.take() {
            Some((mut begun, next)) if part > 0 => {
                if (begun.batch, begun.fence, next) != (entry.batch, entry.fence, part) {
                    return Err(corrupt("a batch of a log lacks a message"));
                }
                begun.piece.extend(entry.piece);
                begun
            }
            // What was begun was never completed, and does not count.
            _ if part == 0 => entry,
            _ => return Err(corrupt("a batch of a log lacks its beginning")),
        };
        if part + 1 == parts {
            return Ok(Some(whole.piece));
        }
        self.begun = Some((whole, part + 1));
        Ok(None)
    }
}

fn corrupt(what: &str) -> StoreError {
    StoreError::new(StoreErrorKind::Corrupt, what)
}

impl Log {
    /// Adds a message that fences all others off.
    pub(super) fn take(&mut self) -> Result<(), StoreError> {
        let begun = Instant::now();
        loop {
            let taken = self.try_to_take();
            match taken {
                Ok(true) => return Ok(()),
                Err(error) if begun.elapsed() > self.patience => return Err(error),
                Err(error) if error.kind() != StoreErrorKind::Io => return Err(error),
                // Another message came in between; or there is no leader.
                Ok(false) | Err(_) => thread::sleep(PAUSE),
            }
        }
    }

    fn try_to_take(&mut self) -> Result<bool, StoreError> {
        let stream = self.names.log(self.shard);
        let extent = self.nats.extent(&stream).map_err(failed)?;
        let extent = extent.ok_or_else(|| corrupt("the log of a shard is not there any more"))?;
        if extent.last_sequence > 0 {
            if extent.messages == 0 {
                return Err(corrupt("the log of a shard was emptied"));
            }
            let last = self.nats.read_one(&stream, extent.last_sequence).map_err(failed)?;
            let behind = || StoreError::new(StoreErrorKind::Io, "the servers of a log are behind");
            let last = Entry::decode(&last.ok_or_else(behind)?.payload)?;
            if last.fence > self.fence {
                return Err(self.fenced());
            }
            if (last.fence, last.batch) == (self.fence, 0) {
                // It came in the end.
                self.last = extent.last_sequence;
                return Ok(true);
            }
        }
        self.last = extent.last_sequence;
        let entry = Entry { fence: self.fence, batch: 0, part: 0, parts: 1, piece: Vec::new() };
        match self.add(&entry) {
            Err(error) if error.kind() == StoreErrorKind::Fenced => Ok(false),
            other => other.map(|()| true),
        }
    }

    /// Reads the log up to the last message, which is this instance's.
    pub(super) fn replay(&mut self) -> Result<(), StoreError> {
        let stream = self.names.log(self.shard);
        let extent = self.nats.extent(&stream).map_err(failed)?;
        let extent = extent.ok_or_else(|| corrupt("the log of a shard is not there any more"))?;
        self.first = extent.first_sequence;
        self.unread = extent.first_sequence;
        self.bytes = 0;
        let (mut batches, mut ops, mut ops_bytes) = (Batches::default(), Vec::new(), 0);
        let (mut next, mut progress) = (extent.first_sequence, Instant::now());
        while next <= self.last {
            let stored = self.nats.read_on(&stream, next);
            let stored = match stored {
                Ok(stored) if !stored.is_empty() => stored,
                // There is no leader, or the server that has replied is behind.
                other if progress.elapsed() > self.patience => {
                    let behind = Trouble::Unknown("a log cannot be read to its end".to_owned());
                    return Err(failed(other.err().unwrap_or(behind)));
                }
                _ => {
                    thread::sleep(PAUSE);
                    continue;
                }
            };
            progress = Instant::now();
            for stored in stored.iter().take_while(|stored| stored.sequence <= self.last) {
                if stored.sequence != next {
                    return Err(self.lack(next));
                }
                next += 1;
                self.bytes += stored.payload.len() as u64;
                if let Some(batch) = batches.next(Entry::decode(&stored.payload)?)? {
                    ops_bytes += batch.len();
                    for effect in Effect::decode_all(&batch)? {
                        self.live_bytes += super::live_bytes(&effect);
                        if let Effect::Buried(letter) = &effect {
                            // It is a timer first.
                            let timer = Record { key: None, ..letter.record.clone() };
                            self.live_bytes += timer.encode().len() as u64;
                        }
                        effect.into_ops(&mut ops);
                    }
                }
                if ops.len() >= MOST || ops_bytes >= MOST_BYTES {
                    self.index.commit(&ops)?;
                    ops.clear();
                    ops_bytes = 0;
                }
            }
        }
        self.index.commit(&ops)?;
        self.live_bytes = self.live_bytes.saturating_sub(self.index.taken_bytes());
        Ok(())
    }

    /// A message is not there. If the one who had the shard before has purged it only now, another
    /// opening begins after it. What was read meanwhile would lack what the purged ones took out.
    fn lack(&self, sequence: u64) -> StoreError {
        match self.nats.extent(&self.names.log(self.shard)) {
            Ok(Some(extent)) if extent.first_sequence <= sequence => {
                corrupt("a message in the middle of a log is not there any more")
            }
            _ => StoreError::new(StoreErrorKind::Io, "a log was shortened while it was read"),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::position::Position;
    use crate::store::contract::Op;

    fn entries(fence: u64, batch: u64, body: &[u8]) -> Vec<Entry> {
        Entry::cut(fence, batch, body, 2)
    }

    /// The batches that these messages make.
    fn whole(entries: Vec<Entry>) -> Result<Vec<Vec<u8>>, StoreError> {
        let mut batches = Batches::default();
        let mut all = Vec::new();
        for entry in entries {
            all.extend(batches.next(entry)?);
        }
        Ok(all)
    }

    #[test]
    fn a_batch_counts_when_all_of_it_is_there() {
        let (one, two, taken) =
            (entries(1, 1, b"12345"), entries(1, 2, b"678"), entries(2, 0, b""));
        assert_eq!((one.len(), two.len()), (3, 2));
        let all = [&one[..], &two[..], &taken[..]].concat();
        assert_eq!(whole(all).unwrap(), [&b"12345"[..], b"678", b""]);
        // It was cut off, and then the shard was taken.
        let cut_off = [&one[..], &two[..1], &taken[..], &entries(2, 1, b"9")[..]].concat();
        assert_eq!(whole(cut_off).unwrap(), [&b"12345"[..], b"", b"9"]);
    }

    #[test]
    fn what_is_not_a_log_is_noticed() {
        let one = entries(1, 1, b"12345");
        assert!(whole(one[1..].to_vec()).is_err(), "no beginning");
        assert!(whole(vec![one[0].clone(), one[2].clone()]).is_err(), "no middle");
        let later = [&entries(2, 0, b"")[..], &one[..]].concat();
        assert!(whole(later).is_err(), "a writer that was fenced off");
    }

    #[test]
    fn an_effect_on_an_index_is_that_of_its_changes() {
        let letter = crate::record::DeadLetter::new(
            Record {
                position: Position { due_ms: 1, number: 2 },
                first_due_ms: 1,
                attempt: 1,
                crashes: 0,
                tried: false,
                key: Some([7].into()),
                payload: [].into(),
                errors: Arc::default(),
            },
            "why",
        );
        let mut ops = Vec::new();
        Effect::Buried(Arc::new(letter.clone())).into_ops(&mut ops);
        let mut index = crate::store::Disk::default().open();
        let keyed = Record { position: Position::LAST, ..letter.record.clone() };
        index.commit(&[Op::Put(Arc::new(keyed.clone()))]).unwrap();
        index.commit(&ops).unwrap();
        assert_eq!(index.scan(None, 9).unwrap(), [keyed], "which has the letter's key");
        assert_eq!(index.dead_letters(None, 9).unwrap(), [letter]);
    }
}
