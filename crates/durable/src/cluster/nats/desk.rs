//! The clerk's part: what is told to others and asked of them.
//!
//! *Owner*: the clerk's thread.
//!
//! *Tested by*: `tests/durable/nats/`.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::cluster::hub::{Clerking, Outcomes, Shard, Taken};
use crate::cluster::message::Message;
use crate::error::{StoreError, StoreErrorKind};
use crate::position::{Position, TimerId};
use crate::record::{DeadLetter, Key, Record};
use crate::service::fits;
use crate::store::Op;
use crate::store::nats::client::Nats;
use crate::store::nats::names::Names;
use crate::store::nats::reply::{Trouble, failed};
use crate::store::nats::request::{
    About, Piece, Question, decode_contents, decode_letters, decode_outcomes, encode_ops,
};

use super::asked::{DONE, NOT_MINE};
use super::seen::{Seen, lock};

/// How often a release is tried while the keeper renews the same lease.
const RELEASES: usize = 10;

pub(super) struct Desk {
    pub(super) nats: Nats,
    pub(super) names: Names,
    pub(super) shards: u32,
    pub(super) lease: Duration,
    pub(super) seen: Arc<Mutex<Seen>>,
}

// === impl Desk ===

impl Clerking for Desk {
    fn is_open(&self) -> bool {
        true
    }

    fn release(&mut self, taken: Taken) -> Result<(), StoreError> {
        let name = format!("s.{}", taken.shard);
        for _ in 0..RELEASES {
            let (known, due_ms) = lock(&self.seen).known(taken.shard);
            if known.fence != taken.fence.cast_unsigned() {
                break;
            }
            // Nobody fires it from here on, so it can only get later.
            let free = "0 0";
            let freed = self.names.swap_with(&self.nats, &name, known.revision, free, due_ms);
            let freed = freed.map_err(failed)?;
            if let Some(revision) = freed {
                lock(&self.seen).read(&name, revision, free.as_bytes());
                break;
            }
            // A renewal was under way.
            if let Some((value, revision)) = self.names.value(&self.nats, &name).map_err(failed)? {
                lock(&self.seen).read(&name, revision, value.as_bytes());
            }
        }
        self.tell(&Message::Look)
    }

    fn pauses(&mut self) -> Result<Vec<Key>, StoreError> {
        Ok(self.names.pauses(&self.nats)?.0)
    }

    fn set_pause(&mut self, prefix: &Key, is_paused: bool) -> Result<bool, StoreError> {
        fits(prefix)?;
        let is_changed = self.names.set_pause(&self.nats, prefix, is_paused)?;
        self.tell(&Message::Look)?;
        Ok(is_changed)
    }

    fn tell(&mut self, message: &Message) -> Result<(), StoreError> {
        self.nats.tell(self.names.told(), message.to_text().into_bytes());
        Ok(())
    }

    fn fits(&self, op: &Op) -> Result<(), StoreError> {
        if let Op::Move { .. } = op {
            let message =
                "a holder is not asked to put a timer off: cancel it and schedule another";
            return Err(StoreError::new(StoreErrorKind::Denied, message));
        }
        let most = self.nats.max_payload();
        if encode_ops(std::slice::from_ref(op)).len() <= most {
            return Ok(());
        }
        let message = format!("a timer for another instance has more than {most} bytes");
        Err(StoreError::new(StoreErrorKind::TooLarge, message))
    }

    fn write(&mut self, lists: &[(u32, Vec<Op>)]) -> Vec<Outcomes> {
        lists.iter().map(|(shard, ops)| self.write_list(*shard, ops)).collect()
    }

    /// Each shard's holder is asked, and this instance by the same way.
    fn letters(
        &mut self,
        after: Option<(u32, Position)>,
        limit: usize,
    ) -> Result<Vec<(u32, DeadLetter)>, StoreError> {
        self.pages(About::Letters, after, limit)
    }

    fn timers(
        &mut self,
        after: Option<(u32, Position)>,
        limit: usize,
    ) -> Result<Vec<(u32, Record)>, StoreError> {
        let found = self.pages(About::Timers, after, limit)?.into_iter();
        Ok(found.map(|(shard, letter)| (shard, letter.record)).collect())
    }

    fn get(&mut self, shard: u32, id: TimerId) -> Result<Option<Record>, StoreError> {
        let mut found = self.page(About::Timer, shard, Some(id.first_position()), 1)?;
        Ok(found.pop().map(|letter| letter.record))
    }

    /// A shard that nobody has is waited for.
    fn contents(&mut self) -> Result<Vec<Shard>, StoreError> {
        let about = About::Contents;
        let question = Question { about, after: None, limit: 0, skip: 0 }.encode();
        let mut all = Vec::new();
        for shard in 0..self.shards {
            let reply = self.ask(shard, question.clone(), self.lease / 4).map_err(again)?;
            let contents = decode_contents(&reply).ok_or_else(not_understood)?;
            let (known, _) = lock(&self.seen).known(shard);
            let holder = (known.holder != 0).then_some(known.holder);
            all.push(Shard { shard, fence: known.fence, holder, contents });
        }
        Ok(all)
    }
}

fn not_understood() -> StoreError {
    StoreError::new(StoreErrorKind::Io, "the reply of another instance is not understood")
}

/// Who reads can always try again: a holder may have left with the question.
fn again(error: StoreError) -> StoreError {
    match error.kind() {
        StoreErrorKind::Io => StoreError::new(StoreErrorKind::InUse, error.to_string()),
        _ => error,
    }
}

impl Desk {
    fn write_list(&mut self, shard: u32, ops: &[Op]) -> Result<Vec<Option<Position>>, StoreError> {
        let most = self.nats.max_payload();
        let mut outcomes = Vec::new();
        let mut rest = ops;
        while let [first, ..] = rest {
            // As many as one message has.
            let mut bytes = encode_ops(std::slice::from_ref(first));
            let mut count = 1;
            for op in &rest[1..] {
                let next = encode_ops(std::slice::from_ref(op));
                if bytes.len() + next.len() > most {
                    break;
                }
                bytes.extend(next);
                count += 1;
            }
            // The holder's own patience is a lease.
            let patience = self.lease + self.lease / 2;
            let told = self.ask(shard, bytes, patience).and_then(|reply| {
                let told = decode_outcomes(&reply).filter(|told| told.len() == count);
                told.ok_or_else(not_understood)
            });
            match told {
                Ok(told) => outcomes.extend(told),
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

    /// Reads page by page, from shard to shard.
    fn pages(
        &self,
        about: About,
        after: Option<(u32, Position)>,
        limit: usize,
    ) -> Result<Vec<(u32, DeadLetter)>, StoreError> {
        let (first, mut after) = after.map_or((0, None), |(shard, at)| (shard, Some(at)));
        let mut all = Vec::new();
        for shard in first..self.shards {
            while all.len() < limit {
                let page = self.page(about, shard, after, limit - all.len())?;
                let Some(last) = page.last() else { break };
                after = Some(last.record.position);
                all.extend(page.into_iter().map(|letter| (shard, letter)));
            }
            after = None;
        }
        Ok(all)
    }

    /// Some of the next dead letters or timers of a shard; none, if there are no more.
    fn page(
        &self,
        about: About,
        shard: u32,
        after: Option<Position>,
        limit: usize,
    ) -> Result<Vec<DeadLetter>, StoreError> {
        let limit = u32::try_from(limit).unwrap_or(u32::MAX);
        let mut first: Option<(Position, Vec<u8>)> = None;
        loop {
            let skip = first.as_ref().map_or(0, |(_, begun)| begun.len());
            let skip = u32::try_from(skip).unwrap_or(u32::MAX);
            let question = Question { about, after, limit, skip }.encode();
            let reply = self.ask(shard, question, self.lease / 4).map_err(again)?;
            let pieces = decode_letters(&reply).ok_or_else(not_understood)?;
            let Some(piece) = pieces.first() else { return Ok(Vec::new()) };
            let is_next = first.as_ref().is_none_or(|(position, _)| *position == piece.position);
            if !is_next {
                // The one that was begun is no letter any more.
                first = None;
                continue;
            }
            let (_, whole) = first.get_or_insert_with(|| (piece.position, Vec::new()));
            whole.extend(piece.bytes);
            if whole.len() < piece.length {
                if piece.bytes.is_empty() {
                    return Err(not_understood());
                }
                continue;
            }
            let letter = |piece: &Piece<'_>| DeadLetter::decode(piece.position, piece.bytes);
            let begun = DeadLetter::decode(piece.position, whole);
            return std::iter::once(begun).chain(pieces[1..].iter().map(letter)).collect();
        }
    }

    /// Reads anew who has a shard, because nobody has it as far as is known.
    fn look(&self, shard: u32) {
        let key = format!("s.{shard}");
        // If it cannot be read, the next round of the keeper does.
        if let Ok(Some((value, revision))) = self.names.value(&self.nats, &key) {
            lock(&self.seen).read(&key, revision, value.as_bytes());
        }
    }

    /// Asks the holder of a shard. If that turns out not to be the holder, nobody has done what was
    /// asked for.
    fn ask(&self, shard: u32, bytes: Vec<u8>, patience: Duration) -> Result<Vec<u8>, StoreError> {
        let (known, _) = lock(&self.seen).known(shard);
        let ask = self.names.ask(shard, known.fence);
        let nobody = || {
            self.look(shard);
            let message = format!("no instance has shard {shard} at the moment");
            StoreError::new(StoreErrorKind::InUse, message)
        };
        match self.nats.request(ask, bytes, patience) {
            Err(Trouble::Nobody) => Err(nobody()),
            Err(trouble) => Err(failed(trouble)),
            Ok(reply) => match reply.split_first() {
                Some((&DONE, done)) => Ok(done.to_vec()),
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
