//! A cluster, seen from outside.

use std::time::SystemTime;

use tickless_durable::cluster::{DeadLetter, Observer, Timer, TimerId};
use tickless_durable::{Key, Position, StoreError};

use super::place::{Answer, At, Count, PAGE, Place, Row, Which, read_pages};

pub(crate) struct Servers(pub(crate) Observer);

fn timer(timer: Timer) -> Row {
    let id = timer.id().to_string();
    Row { shard: timer.shard, id, record: timer.record, error: None }
}

fn letter(letter: &DeadLetter) -> Row {
    let (id, letter) = (letter.id(), letter.letter().clone());
    let (shard, id) = (id.shard(), id.to_string());
    Row { shard, id, record: letter.record, error: Some(letter.error) }
}

// === impl Servers ===

impl Servers {
    fn letters(&mut self, limit: usize) -> Answer<Vec<DeadLetter>> {
        read_pages(limit, |last, limit| Ok(self.0.dead_letters(last, limit)?))
    }

    /// Makes a change of each letter that is chosen.
    fn change_letters(
        &mut self,
        which: &Which<'_>,
        change: impl Fn(&mut Observer, &[DeadLetter]) -> Result<Vec<bool>, StoreError>,
    ) -> Answer<Vec<(String, bool)>> {
        let id: Option<TimerId> = which.id()?;
        let mut letters = self.letters(usize::MAX)?;
        letters.retain(|letter| which.has(&letter.letter().record, || Some(letter.id()) == id));
        let found = change(&mut self.0, &letters)?;
        Ok(letters.iter().map(|letter| letter.id().to_string()).zip(found).collect())
    }
}

impl Place for Servers {
    fn list(
        &mut self,
        from: Option<SystemTime>,
        before: Option<SystemTime>,
        limit: usize,
    ) -> Answer<Vec<Row>> {
        let from = from.map(Position::before_all_at);
        let shards = self.0.contents()?;
        let mut rows: Vec<Row> = Vec::new();
        for shard in shards.iter().map(|shard| shard.shard) {
            let mut after = Some((shard, from.unwrap_or(Position::FIRST)));
            while let (Some(_), true) = (after, rows.len() < limit) {
                let page = self.0.list(after, PAGE.min(limit - rows.len()))?;
                let is_one = |timer: &Timer| {
                    let is_before = before.is_none_or(|before| timer.record.due() < before);
                    timer.shard == shard && is_before
                };
                let mut here = page.into_iter().filter(is_one).peekable();
                after = here.peek().map(|_| (shard, Position::FIRST));
                for one in here {
                    after = Some((shard, one.record.position));
                    rows.push(timer(one));
                }
            }
        }
        Ok(rows)
    }

    fn timers_after(&mut self, after: Option<At>, limit: usize) -> Answer<Vec<Row>> {
        let found = self.0.list(after.map(|after| (after.shard, after.position)), limit)?;
        Ok(found.into_iter().map(timer).collect())
    }

    fn letters_after(&mut self, after: Option<At>, limit: usize) -> Answer<Vec<Row>> {
        let after = after.map(|after| (after.shard, after.position));
        Ok(self.0.dead_letters_after(after, limit)?.iter().map(letter).collect())
    }

    fn get(&mut self, id: &str) -> Answer<Option<Row>> {
        Ok(self.0.get(id.parse()?)?.map(timer))
    }

    fn count(&mut self) -> Answer<Vec<Count>> {
        let shards = self.0.contents()?;
        let count = |one: &tickless_durable::cluster::Shard| Count {
            shard: Some((one.shard, one.fence, one.holder)),
            contents: one.contents,
        };
        Ok(shards.iter().map(count).collect())
    }

    /// The holders of shards bury what they cannot read, so this is an error, if it is found.
    fn unreadable(&mut self) -> Answer<Vec<Row>> {
        self.list(None, None, usize::MAX)?;
        self.letters(usize::MAX)?;
        Ok(Vec::new())
    }

    fn cancel(&mut self, id: &str) -> Answer<bool> {
        Ok(self.0.cancel(id.parse()?)?)
    }

    fn cancel_key(&mut self, key: &str) -> Answer<bool> {
        Ok(self.0.cancel_key(key)?)
    }

    fn reschedule(&mut self, id: &str, at: SystemTime) -> Answer<bool> {
        Ok(self.0.reschedule(id.parse()?, at)?)
    }

    fn revive(&mut self, which: &Which<'_>, at: SystemTime) -> Answer<Vec<(String, bool)>> {
        self.change_letters(which, |observer, letters| observer.revive_all(letters, at))
    }

    fn forget(&mut self, which: &Which<'_>) -> Answer<Vec<(String, bool)>> {
        self.change_letters(which, |observer, letters| observer.forget_all(letters))
    }

    fn set_pause(&mut self, prefix: &str, is_paused: bool) -> Answer<bool> {
        Ok(if is_paused { self.0.pause(prefix)? } else { self.0.resume(prefix)? })
    }

    fn pauses(&mut self) -> Answer<Vec<Key>> {
        Ok(self.0.pauses()?)
    }
}
