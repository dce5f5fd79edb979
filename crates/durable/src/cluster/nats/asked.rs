//! A store whose holder does what other instances ask for.
//!
//! *Owner*: the service has the store. Requests are done by a thread of its own, one at a time.
//!
//! *Tested by*: `tests/durable/nats/`.

use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

use crate::cluster::hub::{Tell, messages};
use crate::error::{StoreError, StoreErrorKind};
use crate::position::{Position, TimerId};
use crate::record::{DeadLetter, Record};
use crate::store::nats::NatsStore;
use crate::store::nats::client::{Listening, Nats};
use crate::store::nats::names::Names;
use crate::store::nats::reply::failed;
use crate::store::nats::request::{
    About, Done, Question, encode_contents, encode_letters, encode_outcomes,
};
use crate::store::{Contents, Op, Store};

/// A store, and the thread that does what others ask for.
pub(super) struct Asked {
    store: NatsStore,
    /// Dropping it ends the thread.
    _listening: Listening,
}

/// What the first byte of a reply says.
pub(super) const DONE: u8 = 0;
pub(super) const NOT_MINE: u8 = 1;
const FAILED: u8 = 2;

// === impl Asked ===

impl Asked {
    pub(super) fn new(
        nats: &Nats,
        names: &Names,
        store: NatsStore,
        lease: Duration,
        tell: Tell,
    ) -> Result<Asked, StoreError> {
        let (ask, asked) = channel::<async_nats::Message>();
        let hear = move |message| drop(ask.send(message));
        let listening =
            nats.listen(names.ask(store.shard(), store.fence()), hear).map_err(failed)?;
        let (nats, theirs) = (nats.clone(), store.downgrade());
        let work = move || {
            let mut mended = Instant::now();
            loop {
                let asked = asked.recv_timeout(lease.saturating_sub(mended.elapsed()));
                let Some(store) = theirs.upgrade() else { return };
                match asked {
                    Ok(message) => {
                        let reply = answer(&store, &message.payload, &tell, nats.max_payload());
                        if let Some(to) = message.reply {
                            nats.tell(to.to_string(), reply);
                        }
                    }
                    Err(RecvTimeoutError::Timeout) => {}
                    Err(RecvTimeoutError::Disconnected) => return,
                }
                if mended.elapsed() >= lease {
                    // If it fails, the service hears of it with its next batch.
                    let _ = store.mend();
                    mended = Instant::now();
                }
            }
        };
        let started = thread::Builder::new().name("durable-asked".to_owned()).spawn(work);
        started.map_err(|error| StoreError::io("no thread can be started", error))?;
        Ok(Asked { store, _listening: listening })
    }
}

/// Does what another instance asks for, and returns the reply.
fn answer(store: &NatsStore, request: &[u8], tell: &Tell, room: usize) -> Vec<u8> {
    if let Some(question) = Question::decode(request) {
        // Headers count, too.
        let found = match question.about {
            About::Contents => store.contents_now().map(|contents| encode_contents(&contents)),
            _ => store
                .letters_now(question, room)
                .map(|letters| encode_letters(&letters, question.skip, room.saturating_sub(256))),
        };
        return match found {
            Ok(found) => [&[DONE][..], &found].concat(),
            Err(error) => refusal(&error),
        };
    }
    match store.carry_out(request) {
        Some(Ok(Done { ops, outcomes })) => {
            // Before the reply: from then on, a cancelled timer does not fire.
            messages(store.shard(), &ops, &outcomes).into_iter().for_each(tell);
            [&[DONE][..], &encode_outcomes(&outcomes)].concat()
        }
        Some(Err(error)) => refusal(&error),
        None => [&[FAILED][..], b"a request is not understood"].concat(),
    }
}

fn refusal(error: &StoreError) -> Vec<u8> {
    match error.kind() {
        // A batch that was fenced off is not in the log.
        StoreErrorKind::Fenced => vec![NOT_MINE],
        _ => [&[FAILED][..], error.to_string().as_bytes()].concat(),
    }
}

impl Store for Asked {
    fn begin(&mut self) -> Result<u64, StoreError> {
        self.store.begin()
    }

    fn commit(&mut self, batch: &[Op]) -> Result<Vec<Option<Position>>, StoreError> {
        self.store.commit(batch)
    }

    fn scan(&mut self, after: Option<Position>, limit: usize) -> Result<Vec<Record>, StoreError> {
        self.store.scan(after, limit)
    }

    fn dead_letters(
        &mut self,
        after: Option<Position>,
        limit: usize,
    ) -> Result<Vec<DeadLetter>, StoreError> {
        self.store.dead_letters(after, limit)
    }

    fn get(&mut self, id: TimerId) -> Result<Option<Record>, StoreError> {
        self.store.get(id)
    }

    fn contents(&mut self) -> Result<Contents, StoreError> {
        self.store.contents()
    }
}
