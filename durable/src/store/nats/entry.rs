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
//! *Tested by*: here, and `durable/tests/nats/`.

use std::sync::Arc;

use crate::error::{StoreError, StoreErrorKind};
use crate::position::{Position, TimerId};
use crate::record::{DeadLetter, Record};
use crate::store::Op;

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

fn put(bytes: &mut Vec<u8>, kind: u8, position: Position, value: Option<&[u8]>) {
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

// === what instances ask a holder to do ===

/// Writes changes of the kinds that one instance asks another for.
pub(crate) fn encode_ops(ops: &[Op]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for op in ops {
        match op {
            Op::Put(record) => put(&mut bytes, 1, record.position, Some(&record.encode())),
            Op::Cancel(id) => put(&mut bytes, 2, id.first_position(), None),
            Op::CancelKey(key) => put(&mut bytes, 3, Position::FIRST, Some(key)),
            Op::Forget(position) => put(&mut bytes, 4, *position, None),
            Op::Revive { from, to } => {
                // The holder has the rest.
                put(&mut bytes, 5, *from, Some(&to.position.due_ms.to_le_bytes()));
            }
            Op::Remove(_) | Op::Move { .. } | Op::Bury { .. } => {
                debug_assert!(false, "nobody asks for that");
            }
        }
    }
    bytes
}

/// `None`: it is something else. A timer that is to be revived has only its position.
pub(crate) fn decode_ops(bytes: &[u8]) -> Option<Vec<Op>> {
    let mut reader = Reader(bytes);
    let mut ops = Vec::new();
    while !reader.0.is_empty() {
        let (kind, position) = (reader.byte()?, reader.position()?);
        ops.push(match kind {
            1 => Op::Put(Arc::new(Record::decode(position, reader.bytes()?).ok()?)),
            2 => Op::Cancel(TimerId::of(position)),
            3 => Op::CancelKey(reader.bytes()?.into()),
            4 => Op::Forget(position),
            5 => {
                let due_ms = Reader(reader.bytes()?).u64()?;
                let to = Position { due_ms, number: position.number };
                Op::Revive { from: position, to: Arc::new(Record::new(to, None, [].into())) }
            }
            _ => return None,
        });
    }
    Some(ops)
}

/// A question for the dead letters of a shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Question {
    pub(crate) after: Option<Position>,
    pub(crate) limit: u32,
    /// From which byte of the first one on: it can be longer than a message.
    pub(crate) skip: u32,
}

/// What a question begins with, unlike changes.
const QUESTION: u8 = 255;

impl Question {
    pub(crate) fn encode(self) -> Vec<u8> {
        let mut bytes = vec![QUESTION, u8::from(self.after.is_some())];
        bytes.extend(self.after.unwrap_or(Position::FIRST).to_bytes());
        bytes.extend(self.limit.to_le_bytes());
        bytes.extend(self.skip.to_le_bytes());
        bytes
    }

    /// `None`: it is something else.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Question> {
        let mut reader = Reader(bytes);
        if reader.byte()? != QUESTION {
            return None;
        }
        let (is_after, position) = (reader.byte()? != 0, reader.position()?);
        let (limit, skip) = (reader.u32()?, reader.u32()?);
        let question = Question { after: is_after.then_some(position), limit, skip };
        reader.0.is_empty().then_some(question)
    }
}

/// What a holder replies to a [`Question`]: as many letters as a message has room for, and at least
/// a piece of the first one.
pub(crate) fn encode_letters(letters: &[DeadLetter], skip: u32, room: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    for letter in letters {
        let whole = letter.encode();
        let from = if bytes.is_empty() { (skip as usize).min(whole.len()) } else { 0 };
        let (length, left) = (whole.len() - from, room.saturating_sub(bytes.len() + HEAD));
        if length > left && !bytes.is_empty() {
            break;
        }
        let piece = &whole[from..][..length.min(left)];
        bytes.extend(letter.record.position.to_bytes());
        bytes.extend(u32::try_from(whole.len()).unwrap_or(u32::MAX).to_le_bytes());
        bytes.extend(u32::try_from(piece.len()).unwrap_or(u32::MAX).to_le_bytes());
        bytes.extend(piece);
        if piece.len() < length {
            break;
        }
    }
    bytes
}

/// All of a piece but its bytes.
const HEAD: usize = 24;

/// A letter, or a piece of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Piece<'b> {
    pub(crate) position: Position,
    /// How long the letter is.
    pub(crate) length: usize,
    pub(crate) bytes: &'b [u8],
}

pub(crate) fn decode_letters(bytes: &[u8]) -> Option<Vec<Piece<'_>>> {
    let mut reader = Reader(bytes);
    let mut pieces = Vec::new();
    while !reader.0.is_empty() {
        let (position, length) = (reader.position()?, reader.u32()? as usize);
        pieces.push(Piece { position, length, bytes: reader.bytes()? });
    }
    Some(pieces)
}

/// What each change has taken out.
pub(crate) fn encode_outcomes(outcomes: &[Option<Position>]) -> Vec<u8> {
    let bytes = |outcome: &Option<Position>| {
        let mut bytes = vec![u8::from(outcome.is_some())];
        bytes.extend(outcome.unwrap_or(Position::FIRST).to_bytes());
        bytes
    };
    outcomes.iter().flat_map(bytes).collect()
}

pub(crate) fn decode_outcomes(bytes: &[u8]) -> Option<Vec<Option<Position>>> {
    let mut reader = Reader(bytes);
    let mut outcomes = Vec::new();
    while !reader.0.is_empty() {
        let (is_some, position) = (reader.byte()? != 0, reader.position()?);
        outcomes.push(is_some.then_some(position));
    }
    Some(outcomes)
}

/// The bytes that were not read yet.
struct Reader<'b>(&'b [u8]);

impl<'b> Reader<'b> {
    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (array, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*array)
    }

    fn byte(&mut self) -> Option<u8> {
        self.array::<1>().map(|[byte]| byte)
    }

    fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }

    fn position(&mut self) -> Option<Position> {
        self.array().map(Position::from_bytes)
    }

    fn bytes(&mut self) -> Option<&'b [u8]> {
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
        Arc::new(Record { position, first_due_ms: 4, attempt: 2, crashes: 3, key, payload })
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
    fn what_is_asked_for_is_understood() {
        let ops = [
            Op::Put(record(1)),
            Op::Cancel(TimerId::of(Position { due_ms: 1, number: 2 })),
            Op::CancelKey([].into()),
            Op::Forget(Position::LAST),
            Op::Revive {
                from: Position { due_ms: 1, number: 2 },
                to: Arc::new(Record::new(Position { due_ms: 9, number: 2 }, None, [].into())),
            },
        ];
        assert_eq!(decode_ops(&encode_ops(&ops)).unwrap(), ops);
        assert_eq!(decode_ops(b"x"), None);
        let outcomes = [None, Some(Position::LAST)];
        assert_eq!(decode_outcomes(&encode_outcomes(&outcomes)).unwrap(), outcomes);
        for after in [None, Some(Position::LAST)] {
            let question = Question { after, limit: 3, skip: 4 };
            assert_eq!(Question::decode(&question.encode()), Some(question));
            assert_eq!(decode_ops(&question.encode()), None);
        }
        assert_eq!(Question::decode(&encode_ops(&ops)), None);
    }

    #[test]
    fn a_revived_letter_is_gone_from_a_log_and_a_timer_is_there() {
        let revive = Op::Revive { from: Position::LAST, to: record(2) };
        let effects = [Effect::Forgotten(Position::LAST), Effect::There(record(2))];
        assert_eq!(Effect::of(&revive, Some(Position::LAST)), effects);
        assert_eq!(Effect::of(&revive, None), []);
    }

    #[test]
    fn letters_that_are_longer_than_a_message_come_in_pieces() {
        let letters: Vec<DeadLetter> =
            (0..3).map(|number| DeadLetter::new((*record(number)).clone(), "why")).collect();
        let length = letters[0].encode().len();
        // All fit, two do, one does.
        for (room, count) in [(1000, 3), (2 * (length + HEAD), 2), (length + HEAD, 1)] {
            let bytes = encode_letters(&letters, 0, room);
            assert!(bytes.len() <= room);
            let pieces = decode_letters(&bytes).unwrap();
            assert_eq!(pieces.len(), count);
            for (piece, letter) in pieces.iter().zip(&letters) {
                assert_eq!((piece.length, piece.bytes), (length, &letter.encode()[..]));
            }
        }
        let mut whole: Vec<u8> = Vec::new();
        while whole.len() < length {
            let skip = u32::try_from(whole.len()).unwrap();
            let bytes = encode_letters(&letters, skip, HEAD + 50);
            let pieces = decode_letters(&bytes).unwrap();
            assert_eq!(pieces.len(), 1);
            assert!(!pieces[0].bytes.is_empty() && bytes.len() <= HEAD + 50);
            whole.extend(pieces[0].bytes);
        }
        assert_eq!(whole, letters[0].encode());
        assert_eq!(decode_letters(b"x"), None);
    }
}
