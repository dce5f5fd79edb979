//! Payloads that remember what became of them.
//!
//! *Invariant*, checked after every run of a body: each payload met exactly one fate and was
//! dropped exactly once, and one that ran did so no earlier than its last deadline.
//!
//! The lines are those of `support::ledger`, in ticks. They are not part of the model. Each run of
//! a body has a book of its own; the thread that runs the body finds it, and its world and payloads
//! carry it elsewhere.

use std::cell::RefCell;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use support::ledger::Ledger;
use tickless_core::time::Tick;
use tickless_sync::Counter;

pub use support::ledger::Fate;

/// A payload, by its number.
#[derive(Debug)]
pub struct Payload {
    id: usize,
    book: Arc<Book>,
}

/// The accounts of one run of a body.
pub(crate) struct Book {
    ledger: Ledger,
    /// Whether a payload that is dropped without a fate counts as returned.
    drops_are_returns: Counter,
}

/// The most payloads of one run.
const PAYLOADS: usize = 128;

thread_local! {
    /// The book of the run that this thread is about.
    static BOOK: RefCell<Arc<Book>> = RefCell::new(Book::new());
}

// === impl Payload ===

impl Payload {
    /// A payload that is due at `deadline`.
    pub(crate) fn new(book: &Arc<Book>, deadline: Tick) -> Payload {
        Payload { id: book.ledger.open(deadline.get()), book: book.clone() }
    }

    /// Its number: payloads are counted from zero in each run.
    pub fn id(&self) -> usize {
        self.id
    }

    /// When it is due.
    pub(crate) fn deadline(&self) -> u64 {
        self.book.ledger.due(self.id)
    }

    /// Ends it.
    pub(crate) fn meets(self, fate: Fate) {
        self.book.ledger.meets(self.id, fate);
    }
}

impl Drop for Payload {
    fn drop(&mut self) {
        let ledger = &self.book.ledger;
        if self.book.drops_are_returns.load(Relaxed) > 0 && ledger.fate(self.id).is_none() {
            ledger.meets(self.id, Fate::Returned);
        }
        ledger.dropped(self.id);
    }
}

// === impl Book ===

impl Book {
    fn new() -> Arc<Book> {
        Arc::new(Book { ledger: Ledger::new(PAYLOADS), drops_are_returns: Counter::new(0) })
    }

    /// The book of the run that this thread is about.
    pub(crate) fn current() -> Arc<Book> {
        BOOK.with_borrow(Arc::clone)
    }

    /// Payload number `id` has another deadline; answers the old one.
    pub(crate) fn moved(&self, id: usize, deadline: Tick) -> Tick {
        Tick::new(self.ledger.moved(id, deadline.get()))
    }

    /// What was due by `end` has ended, and what was due after `begin` ran on the tick.
    pub(crate) fn assert_punctual(&self, begin: Tick, end: Tick) {
        for id in 0..self.ledger.opened() {
            let (deadline, fate) = (self.ledger.due(id), self.ledger.fate(id));
            let line = || self.ledger.line(id);
            assert!(fate.is_some() || deadline > end.get(), "payload {id} is late: {}", line());
            if let Some(Fate::Ran(at)) = fate {
                assert!(at <= deadline.max(begin.get()), "payload {id} ran late: {}", line());
            }
        }
    }

    fn settle(&self) {
        let offences = self.ledger.offences();
        assert!(offences.is_empty(), "{offences:#?}");
        for id in 0..self.ledger.opened() {
            assert!(self.ledger.fate(id).is_some(), "payload {id} met no fate");
        }
    }
}

impl fmt::Debug for Book {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Book").field("opened", &self.ledger.opened()).finish_non_exhaustive()
    }
}

/// What became of payload number `id` so far. To be asked by the thread that runs the body.
pub fn fate(id: usize) -> Option<Fate> {
    BOOK.with_borrow(|book| book.ledger.fate(id))
}

/// Whether payload number `id` was handed over. To be asked by the thread that runs the body.
pub fn has_run(id: usize) -> bool {
    matches!(fate(id), Some(Fate::Ran(_)))
}

/// In this run, a payload that is dropped without a fate was returned to the thread that drops it.
pub fn drops_are_returns() {
    Book::current().drops_are_returns.store(1, Relaxed);
}

/// Begins a run of a body.
pub(crate) fn open() {
    BOOK.set(Book::new());
}

/// Ends a run of a body.
pub(crate) fn settle() {
    Book::current().settle();
}
