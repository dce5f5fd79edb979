//! The way from a timer's task to the event loop that armed it.
//!
//! A task runs on a thread of the engine, so it should be short: it reads the clock, puts a letter
//! into the loop's mailbox and rings, unless somebody else has rung already. All that follows, such
//! as closing a socket, is done by the loop, which owns the connections and needs no lock for them.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Instant;

use mio::{Events, Poll, Registry, Token, Waker};

use crate::audit::TimerId;

/// A timer's task ran.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Letter {
    pub(crate) timer: TimerId,
    pub(crate) fired_at: Instant,
}

/// The end that the tasks hold.
#[derive(Debug)]
pub(crate) struct Mailbox {
    letters: Sender<Letter>,
    waker: Waker,
    /// Whether the loop has been woken since it last looked: one wake-up serves a whole batch.
    rung: AtomicBool,
}

/// The end that the loop holds.
#[derive(Debug)]
pub(crate) struct Inbox {
    letters: Receiver<Letter>,
    mailbox: Arc<Mailbox>,
}

// === impl Mailbox ===

impl Mailbox {
    /// Called by a timer's task.
    pub(crate) fn deliver(&self, timer: TimerId, fired_at: Instant) {
        // After the end of the run the inbox may be gone, and with it whoever would care.
        if self.letters.send(Letter { timer, fired_at }).is_ok() {
            self.ring();
        }
    }

    /// Wakes the loop.
    pub(crate) fn ring(&self) {
        // AcqRel: the letter sent above is published to the loop that takes the flag down in
        // `Inbox::open`; a flag that is still up means that the loop has yet to look.
        if self.rung.swap(true, Ordering::AcqRel) {
            return;
        }
        if let Err(error) = self.waker.wake() {
            eprintln!("tickless-demo: cannot wake an event loop: {error}");
        }
    }
}

// === impl Inbox ===

impl Inbox {
    /// A mailbox that wakes the poll behind `registry` with `token`.
    pub(crate) fn new(registry: &Registry, token: Token) -> io::Result<Inbox> {
        let (sender, letters) = channel();
        let waker = Waker::new(registry, token)?;
        let rung = AtomicBool::new(false);
        Ok(Inbox { letters, mailbox: Arc::new(Mailbox { letters: sender, waker, rung }) })
    }

    /// The address to give to the tasks.
    pub(crate) fn mailbox(&self) -> &Arc<Mailbox> {
        &self.mailbox
    }

    /// Takes the flag down; to be called before the letters are read, or one could be overlooked.
    pub(crate) fn open(&self) {
        self.mailbox.rung.swap(false, Ordering::AcqRel);
    }

    /// The next letter, if there is one.
    pub(crate) fn next(&self) -> Option<Letter> {
        self.letters.try_recv().ok()
    }
}

/// Waits for readiness events, until `give_up` at the latest: then the answer is `false`.
pub(crate) fn wait(poll: &mut Poll, events: &mut Events, give_up: Instant) -> io::Result<bool> {
    let left = give_up.saturating_duration_since(Instant::now());
    match poll.poll(events, Some(left)) {
        Err(error) if error.kind() == io::ErrorKind::Interrupted => events.clear(),
        other => other?,
    }
    Ok(!left.is_zero())
}
