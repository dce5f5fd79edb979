//! Pausing timers, and going on with them: see `pauses.rs`.
//!
//! *Tested by*: `tests/durable/looking.rs`, `tests/durable/postgres/looking.rs`,
//! `tests/durable/nats/letters.rs`.

use std::sync::Arc;

use crate::promise::Reply;
use crate::record::Key;

use super::durable::Durable;
use super::pauses::fits;

impl<P> Durable<P> {
    /// Pauses all timers whose keys begin like that; with nothing, all there are. Keys like
    /// `mail/17` have kinds of timers in them.
    ///
    /// From when the reply is ready, none of their handlers begins; those that run come to their
    /// ends. They are scheduled, cancelled and listed as ever, and are as late as they are. The
    /// store remembers it. The reply tells whether that changed something: no, if it was paused, or
    /// if the beginning has more than 1,000 bytes, or the store [keeps](crate::Store::set_pause) no
    /// pauses.
    pub fn pause(&self, prefix: impl AsRef<[u8]>) -> Reply<bool> {
        self.set_pause(prefix.as_ref().into(), true)
    }

    /// Ends a [pause](Durable::pause) with just this beginning: what is due fires. The reply tells
    /// whether there was one.
    pub fn resume(&self, prefix: impl AsRef<[u8]>) -> Reply<bool> {
        self.set_pause(prefix.as_ref().into(), false)
    }

    /// How keys begin whose timers are [paused](Durable::pause).
    pub fn pauses(&self) -> Vec<Key> {
        self.core.state().pauses.clone()
    }

    fn set_pause(&self, prefix: Key, is_paused: bool) -> Reply<bool> {
        let core = Arc::downgrade(&self.core);
        self.look(move |store| {
            if fits(&prefix).is_err() || !store.set_pause(&prefix, is_paused)? {
                return Ok(false);
            }
            let pauses = store.pauses()?;
            core.upgrade().iter().for_each(|core| core.set_pauses(pauses.clone()));
            Ok(true)
        })
    }
}

#[cfg(any(feature = "postgres", feature = "nats"))]
impl<P> Durable<P> {
    /// What instances share has these pauses now.
    pub(crate) fn are_paused(&self, pauses: &[Key]) {
        if self.core.state().pauses != pauses {
            self.core.set_pauses(pauses.to_vec());
        }
    }
}
