//! The messages of a shard's log, and what is in them.
//!
//! | part | bytes |
//! |---|---|
//! | version | 1 |
//! | the fence of who has written it | 8 |
//! | the number of the batch; 0: the shard was taken | 8 |
//! | which message of the batch, and of how many | 4, 4 |
//! | a piece of the batch | |
//! | a checksum of all that | 4 |
//!
//! A batch is a list of [`Effect`]s, cut into pieces that fit into messages. It counts when its
//! last piece is there. An effect has no condition, unlike an [`Op`]: it says what became of the
//! shard, so it can be read without what came before.
//!
//! *Tested by*: here, and `tests/durable/nats/`.

use std::sync::Arc;

use crate::error::{StoreError, StoreErrorKind};
use crate::position::Position;
use crate::record::{DeadLetter, Record};
use crate::store::contract::Op;

const VERSION: u8 = 1;

/// All of a message but the piece.
pub(super) const FRAME: usize = 29;

/// A message of a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) fence: u64,
    /// From 1 on in each taking; 0 is the taking itself.
    pub(super) batch: u64,
    pub(super) part: u32,
    pub(super) parts: u32,
    pub(super) piece: Vec<u8>,
}

/// What became of a shard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Effect {
    /// There is no timer here any more.
    Gone(Position),
    /// There is this timer.
    There(Arc<Record>),
    /// There is this dead letter.
    Buried(Arc<DeadLetter>),
    /// The letter of this position is gone.
    Forgotten(Position),
}

// === impl Entry ===

impl Entry {
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(FRAME + self.piece.len());
        bytes.push(VERSION);
        bytes.extend(self.fence.to_le_bytes());
        bytes.extend(self.batch.to_le_bytes());
        bytes.extend(self.part.to_le_bytes());
        bytes.extend(self.parts.to_le_bytes());
        bytes.extend(&self.piece);
        bytes.extend(crc32fast::hash(&bytes).to_le_bytes());
        bytes
    }

    pub(super) fn decode(bytes: &[u8]) -> Result<Entry, StoreError> {
        match bytes.first() {
            Some(&later) if later > VERSION => {
                let message = format!("a log has version {later}, later than {VERSION}");
                return Err(StoreError::new(StoreErrorKind::Version, message));
            }
            _ => {}
        }
        let entry = (|| {
            let (body, sum) = bytes.split_last_chunk()?;
            let mut reader = Reader(body);
            let is_whole = crc32fast::hash(body) == u32::from_le_bytes(*sum);
            let is_ours = reader.byte()? == VERSION && is_whole;
            let (fence, batch) = (reader.u64()?, reader.u64()?);
            let (part, parts) = (reader.u32()?, reader.u32()?);
            let piece = reader.0.to_vec();
            is_ours.then_some(Entry { fence, batch, part, parts, piece })
        })();
        entry.ok_or_else(|| corrupt("a message of a log is damaged"))
    }

    /// The messages of a batch.
    pub(super) fn cut(fence: u64, batch: u64, body: &[u8], most: usize) -> Vec<Entry> {
        let pieces: Vec<&[u8]> =
            if body.is_empty() { vec![body] } else { body.chunks(most.max(1)).collect() };
        let parts = u32::try_from(pieces.len()).unwrap_or(u32::MAX);
        let entry = |(part, piece): (u32, &&[u8])| Entry {
            fence,
            batch,
            part,
            parts,
            piece: piece.to_vec(),
        };
        (0..).zip(&pieces).map(entry).collect()
    }
}

// === impl Effect ===

impl Effect {
    /// What a change was, given what it took out.
    pub(super) fn of(op: &Op, taken: Option<Position>) -> Vec<Effect> {
        let mut effects: Vec<Effect> = match op {
            Op::PutNew(record) => {
                let there = || Effect::There(record.clone());
                return taken.is_none().then(there).into_iter().collect();
            }
            Op::Forget(_) | Op::Revive { .. } => taken.map(Effect::Forgotten).into_iter().collect(),
            _ => taken.map(Effect::Gone).into_iter().collect(),
        };
        match op {
            Op::Put(record) => effects.push(Effect::There(record.clone())),
            Op::Move { to, .. } | Op::Revive { to, .. } if taken.is_some() => {
                effects.push(Effect::There(to.clone()));
            }
            Op::Bury { letter, .. } if taken.is_some() => {
                effects.push(Effect::Buried(letter.clone()));
            }
            _ => {}
        }
        effects
    }

    /// Adds the changes that have this effect on an index.
    pub(super) fn into_ops(self, ops: &mut Vec<Op>) {
        match self {
            Effect::Gone(position) => ops.push(Op::Remove(position)),
            Effect::There(record) => ops.push(Op::Put(record)),
            Effect::Buried(letter) => {
                // Without its key, which another timer can have by now.
                let timer = Record { key: None, ..letter.record.clone() };
                ops.push(Op::Put(Arc::new(timer)));
                ops.push(Op::Bury { from: letter.record.position, letter });
            }
            Effect::Forgotten(position) => ops.push(Op::Forget(position)),
        }
    }

    pub(super) fn encode(&self, bytes: &mut Vec<u8>) {
        match self {
            Effect::Gone(position) => put(bytes, 0, *position, None),
            Effect::There(record) => put(bytes, 1, record.position, Some(&record.encode())),
            Effect::Buried(letter) => put(bytes, 2, letter.record.position, Some(&letter.encode())),
            Effect::Forgotten(position) => put(bytes, 3, *position, None),
        }
    }

    /// Reads a batch.
    pub(super) fn decode_all(bytes: &[u8]) -> Result<Vec<Effect>, StoreError> {
        let mut reader = Reader(bytes);
        let mut effects = Vec::new();
        while !reader.0.is_empty() {
            let cut_off = || corrupt("a batch of a log is cut off");
            let kind = reader.byte().ok_or_else(cut_off)?;
            let position = reader.position().ok_or_else(cut_off)?;
            effects.push(match kind {
                0 => Effect::Gone(position),
                3 => Effect::Forgotten(position),
                _ => {
                    let value = reader.bytes().ok_or_else(cut_off)?;
                    match kind {
                        1 => Effect::There(Arc::new(Record::decode(position, value)?)),
                        2 => Effect::Buried(Arc::new(DeadLetter::decode(position, value)?)),
                        _ => return Err(corrupt("there is an unknown effect in a log")),
                    }
                }
            });
        }
        Ok(effects)
    }
}

pub(super) fn put(bytes: &mut Vec<u8>, kind: u8, position: Position, value: Option<&[u8]>) {
    bytes.push(kind);
    bytes.extend(position.to_bytes());
    if let Some(value) = value {
        bytes.extend(u32::try_from(value.len()).unwrap_or(u32::MAX).to_le_bytes());
        bytes.extend(value);
    }
}

fn corrupt(what: &str) -> StoreError {
    StoreError::new(StoreErrorKind::Corrupt, what)
}

/// The bytes that were not read yet.
pub(super) struct Reader<'b>(pub(super) &'b [u8]);

impl<'b> Reader<'b> {
    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (array, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*array)
    }

    pub(super) fn byte(&mut self) -> Option<u8> {
        self.array::<1>().map(|[byte]| byte)
    }

    pub(super) fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    pub(super) fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }

    pub(super) fn position(&mut self) -> Option<Position> {
        self.array().map(Position::from_bytes)
    }

    pub(super) fn bytes(&mut self) -> Option<&'b [u8]> {
        let length = self.u32()? as usize;
        let (bytes, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(number: u64) -> Arc<Record> {
        let position = Position { due_ms: 5, number };
        let key = Some(Arc::from(*b"k"));
        let payload = [7; 99].into();
        Arc::new(Record {
            position,
            first_due_ms: 4,
            attempt: 2,
            crashes: 3,
            tried: true,
            key,
            payload,
            errors: "1 5 no".into(),
        })
    }

    fn effects() -> Vec<Effect> {
        let letter = DeadLetter::new((*record(2)).clone(), "why");
        vec![
            Effect::Gone(Position::LAST),
            Effect::There(record(1)),
            Effect::Buried(Arc::new(letter)),
            Effect::Forgotten(Position::FIRST),
        ]
    }

    #[test]
    fn a_batch_is_read_as_it_was_written_however_it_is_cut() {
        let mut body = Vec::new();
        effects().iter().for_each(|effect| effect.encode(&mut body));
        for most in [1, 7, body.len(), usize::MAX] {
            let entries = Entry::cut(3, 4, &body, most);
            let read = entries.iter().map(|entry| Entry::decode(&entry.encode()).unwrap());
            let whole: Vec<u8> = read.flat_map(|entry| entry.piece).collect();
            assert_eq!(Effect::decode_all(&whole).unwrap(), effects());
        }
        for end in 1..body.len() {
            let short = Effect::decode_all(&body[..end]);
            assert!(short.is_err() || short.unwrap().len() < 4, "{end}");
        }
    }

    #[test]
    fn a_changed_bit_is_noticed() {
        let bytes = Entry::cut(3, 4, b"piece", 100)[0].encode();
        assert_eq!(bytes.len(), FRAME + 5);
        for bit in 0..bytes.len() * 8 {
            let mut changed = bytes.clone();
            changed[bit / 8] ^= 1 << (bit % 8);
            assert!(Entry::decode(&changed).is_err(), "bit {bit}");
        }
        assert!(Entry::decode(&[]).is_err());
        let kind = Entry::decode(&[VERSION + 1]).unwrap_err().kind();
        assert_eq!(kind, StoreErrorKind::Version);
    }

    #[test]
    fn a_revived_letter_is_gone_from_a_log_and_a_timer_is_there() {
        let revive = Op::Revive { from: Position::LAST, to: record(2) };
        let effects = [Effect::Forgotten(Position::LAST), Effect::There(record(2))];
        assert_eq!(Effect::of(&revive, Some(Position::LAST)), effects);
        assert_eq!(Effect::of(&revive, None), []);
    }
}
