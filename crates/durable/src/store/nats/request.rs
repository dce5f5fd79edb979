//! What instances ask the holder of a shard for, and how it is done.
//!
//! A request is a list of changes or a [`Question`]. It goes to the holder's thread for that, which
//! replies with what the changes took out, or with dead letters.
//!
//! *Owner*: the thread that others' requests come to.
//!
//! *Tested by*: here, and `tests/durable/nats/`.

use std::sync::Arc;

use crate::error::StoreError;
use crate::position::{END, Position, TimerId, ms_at_or_after, time_of};
use crate::record::{DeadLetter, Record};
use crate::store::contract::{Contents, Op, Store};

use super::entry::{Reader, put};
use super::reply::failed;
use super::{Log, NatsStore};

/// How many dead letters are read at a time, which can be long.
const FEW: usize = 8;

/// What another instance has asked for, and what it took out.
pub(crate) struct Done {
    pub(crate) ops: Vec<Op>,
    pub(crate) outcomes: Vec<Option<Position>>,
}

// === impl NatsStore, Log ===

impl NatsStore {
    /// Makes the changes that another instance asks for. What they are and did, or `None` if the
    /// request is something else.
    pub(crate) fn carry_out(&self, request: &[u8]) -> Option<Result<Done, StoreError>> {
        let mut ops = decode_ops(request)?;
        let mut log = self.log();
        let done = log.complete(&mut ops).and_then(|()| log.commit(&ops));
        Some(done.map(|outcomes| Done { ops, outcomes }))
    }

    /// Reads dead letters or timers, as of a moment in which no other instance had the shard: at
    /// most as many as are asked for, and not many more bytes than that.
    pub(crate) fn letters_now(
        &self,
        question: Question,
        bytes: usize,
    ) -> Result<Vec<DeadLetter>, StoreError> {
        let Question { about, after, limit, .. } = question;
        let limit = usize::try_from(limit).unwrap_or(usize::MAX);
        let mut log = self.log();
        let mut letters: Vec<DeadLetter> = Vec::new();
        let mut read = 0;
        while letters.len() < limit && read < bytes {
            let after = letters.last().map_or(after, |last| Some(last.record.position));
            let few = (limit - letters.len()).min(FEW);
            let index = log.usable()?;
            let as_letter = |record| DeadLetter::new(record, "");
            let more: Vec<DeadLetter> = match about {
                About::Timers => index.scan(after, few)?.into_iter().map(as_letter).collect(),
                About::Timer if letters.is_empty() => {
                    let id = TimerId::of(after.unwrap_or(Position::FIRST));
                    index.get(id)?.into_iter().map(as_letter).collect()
                }
                About::Timer => Vec::new(),
                About::Letters | About::Contents => index.dead_letters(after, few)?,
            };
            if more.is_empty() {
                break;
            }
            read += more.iter().map(|letter| letter.record.payload.len()).sum::<usize>();
            letters.extend(more);
        }
        log.is_its_own()?;
        Ok(letters)
    }

    /// The same for how much there is.
    pub(crate) fn contents_now(&self) -> Result<Contents, StoreError> {
        let mut log = self.log();
        let contents = log.usable()?.contents()?;
        log.is_its_own()?;
        Ok(contents)
    }
}

/// How much is in a shard, as a reply.
pub(crate) fn encode_contents(contents: &Contents) -> Vec<u8> {
    let first_ms = contents.first_due.map_or(u64::MAX, ms_at_or_after);
    let parts = [contents.timers, first_ms, contents.dead_letters];
    parts.into_iter().flat_map(u64::to_le_bytes).collect()
}

pub(crate) fn decode_contents(bytes: &[u8]) -> Option<Contents> {
    let mut reader = Reader(bytes);
    let (timers, first_ms, dead_letters) = (reader.u64()?, reader.u64()?, reader.u64()?);
    let first_due = (first_ms < END).then(|| time_of(first_ms)).flatten();
    Some(Contents { timers, first_due, dead_letters })
}

impl Log {
    /// Another's taking would be the last message.
    fn is_its_own(&self) -> Result<(), StoreError> {
        let extent = self.nats.extent(&self.names.log(self.shard)).map_err(failed)?;
        match extent {
            Some(extent) if extent.last_sequence == self.last => Ok(()),
            _ => Err(self.fenced()),
        }
    }

    /// Gives timers that are to be revived what their letters have.
    fn complete(&mut self, ops: &mut [Op]) -> Result<(), StoreError> {
        let index = self.usable()?;
        for op in ops {
            let Op::Revive { from, to } = op else { continue };
            let (from, due_ms) = (*from, to.position.due_ms);
            let before = (from != Position::FIRST).then(|| from.before());
            let found = index.dead_letters(before, 1)?.pop();
            *op = match found.filter(|found| found.record.position == from) {
                Some(letter) => Op::Revive { from, to: Arc::new(letter.revived_ms(due_ms)) },
                // There is nothing to take out.
                None => Op::Forget(from),
            };
        }
        Ok(())
    }
}

// === how it is written ===

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
            Op::PutNew(record) => put(&mut bytes, 6, record.position, Some(&record.encode())),
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
            6 => Op::PutNew(Arc::new(Record::decode(position, reader.bytes()?).ok()?)),
            _ => return None,
        });
    }
    Some(ops)
}

/// What a question is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum About {
    /// The dead letters after a position.
    Letters = 0,
    /// The timers after a position, which come as letters without an error.
    Timers = 1,
    /// The timer that was first at that position, in the same way.
    Timer = 2,
    /// How much there is.
    Contents = 3,
}

/// A question for the list of a shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Question {
    pub(crate) about: About,
    pub(crate) after: Option<Position>,
    pub(crate) limit: u32,
    /// From which byte of the first one on: it can be longer than a message.
    pub(crate) skip: u32,
}

/// What a question begins with, unlike changes.
const QUESTION: u8 = 255;

impl Question {
    pub(crate) fn encode(self) -> Vec<u8> {
        let mut bytes = vec![QUESTION, self.about as u8, u8::from(self.after.is_some())];
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
        let about = match reader.byte()? {
            0 => About::Letters,
            1 => About::Timers,
            2 => About::Timer,
            3 => About::Contents,
            _ => return None,
        };
        let (is_after, position) = (reader.byte()? != 0, reader.position()?);
        let (limit, skip) = (reader.u32()?, reader.u32()?);
        let question = Question { about, after: is_after.then_some(position), limit, skip };
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

#[cfg(test)]
mod tests {
    use super::*;

    fn record(number: u64) -> Arc<Record> {
        let position = Position { due_ms: 5, number };
        let key = Some(Arc::from(*b"k"));
        Arc::new(Record::new(position, key, [7; 99].into()))
    }

    #[test]
    fn what_is_asked_for_is_understood() {
        let ops = [
            Op::Put(record(1)),
            Op::Cancel(TimerId::of(Position { due_ms: 1, number: 2 })),
            Op::CancelKey([].into()),
            Op::PutNew(record(3)),
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
            for about in [About::Letters, About::Timers, About::Timer, About::Contents] {
                let question = Question { about, after, limit: 3, skip: 4 };
                assert_eq!(Question::decode(&question.encode()), Some(question));
                assert_eq!(decode_ops(&question.encode()), None);
            }
        }
        let contents = Contents { timers: 7, dead_letters: 8, ..Contents::default() };
        for first_due in [None, time_of(0), time_of(END - 1)] {
            let contents = Contents { first_due, ..contents };
            assert_eq!(decode_contents(&encode_contents(&contents)), Some(contents));
        }
        assert_eq!(decode_contents(b"x"), None);
        assert_eq!(Question::decode(&encode_ops(&ops)), None);
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
