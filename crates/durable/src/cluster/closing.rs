//! Opening and closing a shard, each in a thread of its own.
//!
//! A shard that this instance gives up is closed as a service is stopped: the handlers come to
//! their end, and what became of their timers is written. Then others can have it. A shard that is
//! lost is closed at once: its handlers may still run when another instance has its timers fire.
//!
//! *Tested by*: `tests/durable/postgres/`, `tests/durable/nats/share.rs`.

use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use crate::error::{Error, OpenError, StoreError, StoreErrorKind};
use crate::events;
use crate::position::Position;
use crate::promise::promise_alone;
use crate::record::Record;
use crate::service::{Durable, Share};
use crate::store::{Op, Store};

use super::clerk::Then;
use super::inner::{Inner, State};
use super::lease::Lease;
use super::message::Message;

/// How often notes are taken back at most, where the connection works.
const TRIES: u32 = 20;

/// Runs it in a thread, or right here if there cannot be one.
pub(super) fn apart(what: &str, work: impl FnOnce() + Send + 'static) {
    let shared = Arc::new(Mutex::new(Some(work)));
    let theirs = shared.clone();
    let run = move || {
        let work = theirs.lock().unwrap_or_else(PoisonError::into_inner).take();
        work.into_iter().for_each(|work| work());
    };
    if thread::Builder::new().name(format!("durable-{what}")).spawn(run).is_err() {
        let work = shared.lock().unwrap_or_else(PoisonError::into_inner).take();
        work.into_iter().for_each(|work| work());
    }
}

pub(super) fn open<P: Send + 'static>(inner: &Arc<Inner<P>>, lease: &Arc<Lease>) {
    // The hub may keep this for as long as the store is there, which the instance has.
    let weak = Arc::downgrade(inner);
    let tell = Box::new(move |message: Message| {
        weak.upgrade().iter().for_each(|inner| inner.hear_of_shard(message.clone()));
    });
    let store = inner.hub.open(lease.taken, tell).and_then(|mut store| {
        forget_notes(&inner.state, lease.taken.shard, &mut *store)?;
        Ok(store)
    });
    let opened =
        store.map_err(OpenError::Store).and_then(|store| (inner.open)(inner, lease, store));
    match opened {
        Ok(durable) => {
            events::shard(inner.instance, lease.taken.shard, lease.taken.fence, "opened");
            let unwanted = inner.held().opened(lease, durable);
            if let Err(durable) = unwanted {
                close(inner, lease, durable);
            }
        }
        Err(error) => {
            if let OpenError::Store(error) = &error {
                inner.note(Some(lease.taken.shard), error);
            }
            leave(inner, lease);
        }
    }
}

pub(super) fn close<P>(inner: &Arc<Inner<P>>, lease: &Arc<Lease>, durable: Durable<P>) {
    if let Some(error) = durable.failure() {
        inner.note(Some(lease.taken.shard), &error);
    }
    match lease.may_fire().err().or_else(|| durable.failure()) {
        Some(error) => {
            durable.fail(&error);
            let _ = durable.stop_within(Duration::ZERO);
        }
        // What it could not write has failed by now, and who waits for it was told.
        None => {
            if let Some(until) = inner.state().end_by {
                durable.end_by(until);
            }
            let left = durable.stop_and_count().unwrap_or(0);
            inner.state().left_behind += left;
        }
    }
    take_back_notes(inner, lease.taken.shard, durable.take_notes());
    drop(durable);
    events::shard(inner.instance, lease.taken.shard, lease.taken.fence, "closed");
    leave(inner, lease);
}

/// Has the store forget that handlers were about to run: this process has not ended. The shard
/// stays with this instance until then, so that it does not open it again before. Another instance
/// that has it by now may have read the notes, and adds to them.
///
/// What cannot be written from outside, as on NATS, is written when this instance opens the shard
/// again.
fn take_back_notes<P>(inner: &Inner<P>, shard: u32, notes: Vec<Record>) {
    let mut left: Vec<Arc<Record>> = notes.into_iter().map(Arc::new).collect();
    let mut refused = Vec::new();
    for round in 0.. {
        if left.is_empty() {
            break;
        }
        let replies = left.into_iter().map(|record| {
            let (promise, reply) = promise_alone();
            let op = Op::Move { from: record.position, to: record.clone() };
            inner.clerk.write(shard, op, Then::Letter(promise), true);
            (record, reply)
        });
        let replies: Vec<_> = replies.collect();
        let is_early = |error: &Error| match error {
            Error::Store(error) => error.kind() == StoreErrorKind::Io,
            _ => false,
        };
        left = Vec::new();
        for (record, reply) in replies {
            match reply.wait() {
                Ok(_) => {}
                Err(error) if is_early(&error) => left.push(record),
                // It would be again.
                Err(_) => refused.push(record),
            }
        }
        // A connection that is lost is noticed by who uses it, one after another.
        let is_hopeless = round >= TRIES && inner.state().troubles.is_connected();
        if is_hopeless || inner.is_stopping() {
            refused.append(&mut left);
        }
        if !left.is_empty() {
            thread::sleep(inner.lease / 20);
        }
    }
    if !refused.is_empty() {
        inner.state().notes.insert(shard, refused);
    }
}

/// The same for a shard that was opened again, before anything is read for it. What could not be
/// done is to be done the next time.
fn forget_notes(state: &Mutex<State>, shard: u32, store: &mut dyn Store) -> Result<(), StoreError> {
    // Whoever opens the shard has it alone.
    let state = || state.lock().unwrap_or_else(PoisonError::into_inner);
    let Some(notes) = state().notes.remove(&shard) else { return Ok(()) };
    let forgotten = take_back_one_each(&notes, store);
    if forgotten.is_err() {
        state().notes.insert(shard, notes);
    }
    forgotten
}

/// An attempt that has begun elsewhere since then has another number, or ends by itself. If it was
/// cut off, that counts: a note of this process is one of those that are found.
fn take_back_one_each(notes: &[Arc<Record>], store: &mut dyn Store) -> Result<(), StoreError> {
    let positions: Vec<Position> = notes.iter().map(|note| note.position).collect();
    let there = store.at(&positions)?;
    let is_noted = |found: &&Record| {
        let mut notes = notes.iter().filter(|note| note.position == found.position);
        notes.any(|note| found.attempt == note.attempt && found.crashes > note.crashes)
    };
    let without = |found: &Record| {
        let crashes = found.crashes.saturating_sub(1);
        let to = Arc::new(Record { crashes, tried: true, ..found.clone() });
        Op::Move { from: found.position, to }
    };
    let ops: Vec<Op> = there.iter().filter(is_noted).map(without).collect();
    if ops.is_empty() { Ok(()) } else { store.commit(&ops).map(drop) }
}

/// Lets others have the shard.
pub(super) fn leave<P>(inner: &Inner<P>, lease: &Lease) {
    // In this order: the clerk of an instance that stops ends when nothing is held. In between, the
    // keeper finds that the lease is not renewed, and takes no shard that is held.
    inner.clerk.release(lease.taken);
    inner.held().remove(lease);
    inner.clerk.tell(Message::Wake(inner.instance));
    inner.wake();
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::{Disk, Fault};

    fn record(number: u64, attempt: u32, crashes: u32) -> Record {
        let position = Position { due_ms: 1, number };
        Record { attempt, crashes, ..Record::new(position, None, [7].into()) }
    }

    fn state(notes: impl IntoIterator<Item = Record>) -> Mutex<State> {
        let notes = notes.into_iter().map(Arc::new).collect();
        Mutex::new(State { notes: [(3, notes)].into(), ..State::default() })
    }

    #[test]
    fn a_process_takes_back_its_own_notes_and_no_crashes_of_others() {
        let disk = Disk::default();
        // One has its own note; one another's as well, who has ended; one was tried elsewhere; of
        // one, somebody else has taken the note back.
        for (number, attempt, crashes) in [(1, 1, 1), (2, 1, 2), (3, 2, 1), (4, 1, 0)] {
            disk.add(record(number, attempt, crashes));
        }
        let state = state((1..=5).map(|number| record(number, 1, 0)));
        forget_notes(&state, 3, &mut disk.open()).unwrap();
        let is =
            |number, attempt, crashes, tried| Record { tried, ..record(number, attempt, crashes) };
        let left = [is(1, 1, 0, true), is(2, 1, 1, true), is(3, 2, 1, false), is(4, 1, 0, false)];
        assert_eq!(disk.timers(), left);
        assert!(state.lock().unwrap().notes.is_empty());
    }

    #[test]
    fn notes_that_could_not_be_taken_back_are_the_next_time() {
        let disk = Disk::default();
        disk.add(record(1, 1, 1));
        let state = state([record(1, 1, 0)]);
        let mut store = disk.open();
        disk.fail_next(Fault::Lost);
        forget_notes(&state, 3, &mut store).unwrap_err();
        // It is over, and cannot be read either.
        disk.open();
        forget_notes(&state, 3, &mut store).unwrap_err();
        forget_notes(&state, 3, &mut disk.open()).unwrap();
        assert_eq!(disk.timers()[0].crashes, 0);
    }
}
