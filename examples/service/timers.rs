//! The engine in use: every call into `tickless` that a loop makes is in this file.
//!
//! Each call is paired with an entry in the audit's ledger. The order matters: the clock is read
//! *before* the engine is called, so that the deadline the ledger remembers can only be earlier
//! than the engine's own, and a timer that fires before it is early beyond any excuse.

use std::fmt::Display;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tickless::{Engine, Handle, ResetError};

use crate::audit::{Books, Ledger, TimerId};
use crate::mailbox::{Inbox, Mailbox};
use crate::progress::Gauges;

/// One loop's timers.
pub(crate) struct Timers {
    engine: Engine,
    inbox: Inbox,
    ledger: Ledger,
    gauges: Arc<Gauges>,
}

/// A timer that can be cancelled or reset.
pub(crate) struct Timer {
    id: TimerId,
    handle: Handle,
}

/// A timer that fired: which one, and whose.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fired {
    pub(crate) timer: TimerId,
    pub(crate) owner: usize,
}

// === impl Timer ===

impl Timer {
    pub(crate) fn id(&self) -> TimerId {
        self.id
    }
}

// === impl Timers ===

impl Timers {
    /// The name is for the audit's notes.
    pub(crate) fn new(
        name: &'static str,
        engine: Engine,
        inbox: Inbox,
        gauges: Arc<Gauges>,
    ) -> Self {
        Timers { engine, inbox, ledger: Ledger::new(name), gauges }
    }

    /// Arms a timer for the connection `owner`.
    pub(crate) fn arm(&mut self, delay: Duration, owner: usize) -> io::Result<Timer> {
        let id = self.enter(delay, owner);
        let task = task(self.inbox.mailbox(), id);
        let handle = self.engine.schedule(delay, task).map_err(refused)?;
        Ok(Timer { id, handle })
    }

    /// Arms a timer that nobody will cancel: it needs no handle.
    pub(crate) fn arm_detached(&mut self, delay: Duration, owner: usize) -> io::Result<TimerId> {
        let id = self.enter(delay, owner);
        let task = task(self.inbox.mailbox(), id);
        self.engine.schedule_detached(delay, task).map_err(refused)?;
        Ok(id)
    }

    /// Moves a timer to `delay` from now. If it has fired meanwhile, its letter is on the way.
    pub(crate) fn reset(&mut self, timer: &mut Timer, delay: Duration) -> io::Result<()> {
        let due = Instant::now() + delay;
        match timer.handle.reset(delay) {
            Ok(()) => self.ledger.reset(timer.id, due),
            Err(ResetError::TooLate) => {}
            Err(error) => return Err(io::Error::other(error)),
        }
        Ok(())
    }

    /// Cancels a timer. If it has fired meanwhile, its letter is on the way.
    pub(crate) fn cancel(&mut self, timer: Timer) {
        if timer.handle.cancel() {
            self.ledger.cancel(timer.id);
            self.gauges.settled();
        }
    }

    /// To be called when the loop was woken, before [`next_fired`](Timers::next_fired).
    pub(crate) fn open_mail(&self) {
        self.inbox.open();
    }

    /// The next timer that fired. One that had no right to is the audit's business alone.
    pub(crate) fn next_fired(&mut self) -> Option<Fired> {
        while let Some(letter) = self.inbox.next() {
            if let Some(owner) = self.ledger.fire(letter.timer, letter.fired_at) {
                self.gauges.settled();
                return Some(Fired { timer: letter.timer, owner });
            }
        }
        None
    }

    /// Whether every timer has met its fate.
    pub(crate) fn all_settled(&self) -> bool {
        self.ledger.pending_count() == 0
    }

    /// Closes the books. The engine must have been stopped: nothing may fire after the last look.
    pub(crate) fn close(mut self) -> Books {
        while self.next_fired().is_some() {}
        self.ledger.close()
    }

    fn enter(&mut self, delay: Duration, owner: usize) -> TimerId {
        self.gauges.armed();
        self.ledger.arm(owner, Instant::now() + delay)
    }
}

/// What runs on the engine's thread when a timer fires.
fn task(mailbox: &Arc<Mailbox>, timer: TimerId) -> impl FnOnce() + Send + 'static {
    let mailbox = Arc::clone(mailbox);
    move || mailbox.deliver(timer, Instant::now())
}

fn refused(error: impl Display) -> io::Error {
    io::Error::other(format!("the engine refused a timer: {error}"))
}
