//! Opening and closing a shard, each in a thread of its own.
//!
//! A shard that this instance gives up is closed as a service is stopped: the handlers come to
//! their end, and what became of their timers is written. Then others can have it. A shard that is
//! lost is closed at once: its handlers may still run when another instance has its timers fire.
//!
//! *Tested by*: `durable/tests/postgres/`.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use crate::error::OpenError;
use crate::events;
use crate::service::{Durable, Share};

use super::inner::Inner;
use super::lease::Lease;
use super::message::Message;

/// Runs it in a thread, or right here if there cannot be one.
pub(super) fn apart(what: &str, work: impl FnOnce() + Send + 'static) {
    let shared = Arc::new(std::sync::Mutex::new(Some(work)));
    let theirs = shared.clone();
    let run = move || {
        let work = theirs.lock().unwrap_or_else(std::sync::PoisonError::into_inner).take();
        work.into_iter().for_each(|work| work());
    };
    if thread::Builder::new().name(format!("durable-{what}")).spawn(run).is_err() {
        let work = shared.lock().unwrap_or_else(std::sync::PoisonError::into_inner).take();
        work.into_iter().for_each(|work| work());
    }
}

pub(super) fn open<P: Send + 'static>(inner: &Arc<Inner<P>>, lease: &Arc<Lease>) {
    // The hub may keep this for as long as the store is there, which the instance has.
    let weak = Arc::downgrade(inner);
    let tell = Box::new(move |message: Message| {
        weak.upgrade().iter().for_each(|inner| inner.hear_of_shard(message.clone()));
    });
    let store = inner.hub.open(lease.taken, tell);
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
    drop(durable);
    events::shard(inner.instance, lease.taken.shard, lease.taken.fence, "closed");
    leave(inner, lease);
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
