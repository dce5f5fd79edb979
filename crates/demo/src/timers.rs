//! The engine in use: every call into it that a loop makes is in this file.
//!
//! Each call is paired with an entry in the audit's ledger. The order matters: the clock is read
//! *before* the engine is called, so that the deadline the ledger remembers can only be earlier
//! than the engine's own, and a timer that fires before it is early beyond any excuse.

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::audit::{Books, Ledger, TimerId};
use crate::engine::TimerEngine;
use crate::gauges::Gauges;
use crate::mailbox::{Inbox, Mailbox};

/// One loop's timers.
pub(crate) struct Timers<E> {
    engine: E,
    accounts: Accounts,
}

/// The ledger of a loop, and the inbox from which it learns what fired.
pub(crate) struct Accounts {
    inbox: Inbox,
    ledger: Ledger,
    gauges: Arc<Gauges>,
}

/// A timer that can be cancelled or reset.
pub(crate) struct Timer<E: TimerEngine> {
    id: TimerId,
    handle: E::Handle,
}

/// A timer that nobody cancels; to be kept until it fires.
pub(crate) struct Pause<E: TimerEngine> {
    id: TimerId,
    _kept: E::Detached,
}

/// A timer that fired: which one, and whose.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fired {
    pub(crate) timer: TimerId,
    pub(crate) owner: usize,
}

// === impl Timer, impl Pause ===

impl<E: TimerEngine> Timer<E> {
    pub(crate) fn id(&self) -> TimerId {
        self.id
    }
}

impl<E: TimerEngine> Pause<E> {
    pub(crate) fn id(&self) -> TimerId {
        self.id
    }
}

// === impl Timers ===

impl<E: TimerEngine> Timers<E> {
    /// The name is for the audit's notes.
    pub(crate) fn new(name: &'static str, engine: E, inbox: Inbox, gauges: Arc<Gauges>) -> Self {
        Timers { engine, accounts: Accounts { inbox, ledger: Ledger::new(name), gauges } }
    }

    /// Arms a timer for the connection `owner`.
    pub(crate) fn arm(&mut self, delay: Duration, owner: usize) -> io::Result<Timer<E>> {
        let id = self.enter(delay, owner);
        let handle = self.engine.schedule(delay, task(self.accounts.inbox.mailbox(), id))?;
        Ok(Timer { id, handle })
    }

    /// Arms a timer that nobody will cancel.
    pub(crate) fn arm_detached(&mut self, delay: Duration, owner: usize) -> io::Result<Pause<E>> {
        let id = self.enter(delay, owner);
        let task = task(self.accounts.inbox.mailbox(), id);
        Ok(Pause { id, _kept: self.engine.schedule_detached(delay, task)? })
    }

    /// Moves a timer to `delay` from now. If it has fired meanwhile, its letter is on the way.
    pub(crate) fn reset(&mut self, timer: &mut Timer<E>, delay: Duration) -> io::Result<()> {
        let due = Instant::now() + delay;
        if self.engine.reset(&mut timer.handle, delay)? {
            self.accounts.ledger.reset(timer.id, due);
            self.accounts.gauges.reset();
        }
        Ok(())
    }

    /// Cancels a timer. If it has fired meanwhile, its letter is on the way.
    pub(crate) fn cancel(&mut self, timer: Timer<E>) {
        if self.engine.cancel(timer.handle) {
            self.accounts.ledger.cancel(timer.id);
            self.accounts.gauges.cancelled();
        }
    }

    /// Where the loop can be woken.
    pub(crate) fn mailbox(&self) -> &Arc<Mailbox> {
        self.accounts.inbox.mailbox()
    }

    /// To be called when the loop was woken, before [`next_fired`](Timers::next_fired).
    pub(crate) fn open_mail(&self) {
        self.accounts.inbox.open();
    }

    /// The next timer that fired. One that had no right to is the audit's business alone.
    pub(crate) fn next_fired(&mut self) -> Option<Fired> {
        self.accounts.next_fired()
    }

    /// Whether every timer has met its fate.
    pub(crate) fn all_settled(&self) -> bool {
        self.accounts.ledger.pending_count() == 0
    }

    /// Lets go of the engine, so that it can be stopped.
    pub(crate) fn into_accounts(self) -> Accounts {
        self.accounts
    }

    fn enter(&mut self, delay: Duration, owner: usize) -> TimerId {
        self.accounts.gauges.armed(1);
        self.accounts.ledger.arm(owner, Instant::now() + delay)
    }
}

// === impl Accounts ===

impl Accounts {
    /// Closes the books. The engine must have been stopped: nothing may fire after the last look.
    pub(crate) fn close(mut self) -> Books {
        while self.next_fired().is_some() {}
        self.ledger.close()
    }

    fn next_fired(&mut self) -> Option<Fired> {
        while let Some(letter) = self.inbox.next() {
            if let Some((owner, late)) = self.ledger.fire(letter.timer, letter.fired_at) {
                self.gauges.fired(late);
                return Some(Fired { timer: letter.timer, owner });
            }
        }
        None
    }
}

/// What runs on the engine's thread when a timer fires.
fn task(mailbox: &Arc<Mailbox>, timer: TimerId) -> impl Fn() + Send + Sync + 'static {
    let mailbox = Arc::clone(mailbox);
    move || mailbox.deliver(timer, Instant::now())
}
