//! Payloads that remember what became of them.
//!
//! *Invariant*, checked after every run of a body: each payload met exactly one fate and was
//! dropped exactly once, and one that ran did so no earlier than its last deadline.
//!
//! The accounts are not part of the model. They are kept in plain numbers that order nothing, so
//! that they hide no race from a model that looks for one. Each run of a body has a book of its
//! own; the thread that runs the body finds it, and its world and payloads carry it elsewhere.

use std::cell::RefCell;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use tickless_core::time::Tick;
use tickless_sync::Counter;

/// What became of a payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// A turn at this time handed it over.
    Ran(Tick),
    /// A cancel returned it.
    Cancelled,
    /// A stop returned it.
    Returned,
    /// A schedule or reset gave it back in its error.
    Refused,
}

/// A payload, by its number.
#[derive(Debug)]
pub struct Payload {
    id: usize,
    book: Arc<Book>,
}

/// The accounts of one run of a body.
pub(crate) struct Book {
    accounts: Box<[Account]>,
    opened: Counter,
    /// Whether a payload that is dropped without a fate counts as returned.
    drops_are_returns: Counter,
}

#[derive(Default)]
struct Account {
    deadline: Counter,
    /// The last one, as `Fate::pack` writes it.
    fate: Counter,
    fates: Counter,
    drops: Counter,
}

/// The most payloads of one run.
const PAYLOADS: usize = 128;

thread_local! {
    /// The book of the run that this thread is about.
    static BOOK: RefCell<Arc<Book>> = RefCell::new(Book::new());
}

// === impl Fate ===

impl Fate {
    fn pack(self) -> u64 {
        match self {
            Fate::Ran(at) => at.get() << 2,
            Fate::Cancelled => 1,
            Fate::Returned => 2,
            Fate::Refused => 3,
        }
    }

    fn unpack(bits: u64) -> Fate {
        match bits & 3 {
            0 => Fate::Ran(Tick::new(bits >> 2)),
            1 => Fate::Cancelled,
            2 => Fate::Returned,
            _ => Fate::Refused,
        }
    }
}

// === impl Payload ===

impl Payload {
    /// A payload that is due at `deadline`.
    pub(crate) fn new(book: &Arc<Book>, deadline: Tick) -> Payload {
        let id = book.opened.fetch_add(1, Relaxed) as usize;
        assert!(id < PAYLOADS, "a body has at most {PAYLOADS} payloads");
        book.accounts[id].deadline.store(deadline.get(), Relaxed);
        Payload { id, book: book.clone() }
    }

    /// Its number: payloads are counted from zero in each run.
    pub fn id(&self) -> usize {
        self.id
    }

    /// When it is due.
    pub(crate) fn deadline(&self) -> u64 {
        self.book.accounts[self.id].deadline.load(Relaxed)
    }

    /// Ends it.
    pub(crate) fn meets(self, fate: Fate) {
        let account = &self.book.accounts[self.id];
        account.fate.store(fate.pack(), Relaxed);
        account.fates.fetch_add(1, Relaxed);
    }
}

impl Drop for Payload {
    fn drop(&mut self) {
        let account = &self.book.accounts[self.id];
        if self.book.drops_are_returns.load(Relaxed) > 0 && account.fate().is_none() {
            account.fate.store(Fate::Returned.pack(), Relaxed);
            account.fates.fetch_add(1, Relaxed);
        }
        account.drops.fetch_add(1, Relaxed);
    }
}

// === impl Book ===

impl Book {
    fn new() -> Arc<Book> {
        let accounts = (0..PAYLOADS).map(|_| Account::default()).collect();
        Arc::new(Book { accounts, opened: Counter::new(0), drops_are_returns: Counter::new(0) })
    }

    /// The book of the run that this thread is about.
    pub(crate) fn current() -> Arc<Book> {
        BOOK.with_borrow(Arc::clone)
    }

    /// Payload number `id` has another deadline; answers the old one.
    pub(crate) fn moved(&self, id: usize, deadline: Tick) -> Tick {
        Tick::new(self.accounts[id].deadline.swap(deadline.get(), Relaxed))
    }

    /// What was due by `end` has ended, and what was due after `begin` ran on the tick.
    pub(crate) fn assert_punctual(&self, begin: Tick, end: Tick) {
        for (id, account) in self.opened() {
            let deadline = Tick::new(account.deadline.load(Relaxed));
            let fate = account.fate();
            assert!(fate.is_some() || deadline > end, "payload {id} is late: {account:?}");
            if let Some(Fate::Ran(at)) = fate {
                assert!(at <= deadline.max(begin), "payload {id} ran late: {account:?}");
            }
        }
    }

    fn opened(&self) -> impl Iterator<Item = (usize, &Account)> {
        self.accounts.iter().enumerate().take(self.opened.load(Relaxed) as usize)
    }

    fn settle(&self) {
        for (id, account) in self.opened() {
            assert_eq!(account.fates.load(Relaxed), 1, "payload {id} met one fate: {account:?}");
            assert_eq!(
                account.drops.load(Relaxed),
                1,
                "payload {id} was dropped once: {account:?}"
            );
            if let Some(Fate::Ran(at)) = account.fate() {
                let deadline = account.deadline.load(Relaxed);
                assert!(at.get() >= deadline, "payload {id} ran early: {account:?}");
            }
        }
    }
}

impl fmt::Debug for Book {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Book").field("opened", &self.opened).finish_non_exhaustive()
    }
}

// === impl Account ===

impl Account {
    fn fate(&self) -> Option<Fate> {
        (self.fates.load(Relaxed) > 0).then(|| Fate::unpack(self.fate.load(Relaxed)))
    }
}

impl fmt::Debug for Account {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Account")
            .field("deadline", &self.deadline)
            .field("last_fate", &self.fate())
            .field("fates", &self.fates)
            .field("drops", &self.drops)
            .finish()
    }
}

/// What became of payload number `id` so far. To be asked by the thread that runs the body.
pub fn fate(id: usize) -> Option<Fate> {
    BOOK.with_borrow(|book| book.accounts[id].fate())
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
