//! What a holder does if somebody has taken messages out of its log: it writes anew what is there.
//!
//! The servers refuse nothing because of that: the last number of the log is what it was. So a
//! holder looks from time to time where its log begins.
//!
//! *Tested by*: `tests/durable/nats/`.

use std::sync::Arc;

use serde_json::json;

use crate::error::StoreError;
use crate::store::contract::Store;

use super::entry::{Effect, Entry};
use super::reply::failed;
use super::{Log, NatsStore};

/// How many timers make a batch.
const PAGE: usize = 256;

impl NatsStore {
    /// Looks whether the log lacks messages that this store has not taken out. If so, all timers
    /// and dead letters are written again. Returns whether that was so.
    ///
    /// # Errors
    /// The servers do not reply, or the store has failed meanwhile.
    #[doc(hidden)]
    pub fn mend(&self) -> Result<bool, StoreError> {
        let (nats, stream) = {
            let log = self.log();
            (log.nats.clone(), log.names.log(log.shard))
        };
        let extent = nats.extent(&stream).map_err(failed)?;
        let mut log = self.log();
        // Its own purges end before `first`, also those after the look.
        if extent.is_none_or(|extent| extent.first_sequence <= log.first) {
            return Ok(false);
        }
        log.usable()?;
        let written = log.write_anew();
        written.inspect_err(|error| log.failure = Some(error.clone())).map(|()| true)
    }
}

impl Log {
    fn write_anew(&mut self) -> Result<(), StoreError> {
        let first = self.last + 1;
        self.bytes = 0;
        // So that there is a message also if there is no timer.
        let entry = Entry { fence: self.fence, batch: 0, part: 0, parts: 1, piece: Vec::new() };
        self.add(&entry)?;
        let mut after = None;
        loop {
            let page = self.index.scan(after, PAGE)?;
            let Some(last) = page.last() else { break };
            after = Some(last.position);
            self.write(page.into_iter().map(|record| Effect::There(Arc::new(record))))?;
        }
        after = None;
        loop {
            let page = self.index.dead_letters(after, PAGE)?;
            let Some(last) = page.last() else { break };
            after = Some(last.record.position);
            self.write(page.into_iter().map(|letter| Effect::Buried(Arc::new(letter))))?;
        }
        (self.first, self.unread, self.unpurged) = (first, first, 0);
        self.oldest.clear();
        self.nats.purge(&self.names.log(self.shard), &json!({ "seq": first }));
        Ok(())
    }

    fn write(&mut self, effects: impl Iterator<Item = Effect>) -> Result<(), StoreError> {
        let mut body = Vec::new();
        effects.for_each(|effect| effect.encode(&mut body));
        self.batch += 1;
        let entries = Entry::cut(self.fence, self.batch, &body, self.largest_piece());
        entries.iter().try_for_each(|entry| self.add(entry))
    }
}
