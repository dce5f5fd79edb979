//! Payloads that remember what became of them.
//!
//! *Invariant*, checked after every interleaving: each payload met exactly one fate and was
//! dropped exactly once, and one that ran did so no earlier than its last deadline.
//!
//! The accounts are not part of the model: all threads of a model are run by one thread of the
//! system, which keeps them in a thread-local.

use std::cell::RefCell;

use tickless::Tick;

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
pub struct Payload(usize);

#[derive(Debug, Default)]
struct Account {
    deadline: Tick,
    fates: Vec<Fate>,
    drops: usize,
}

thread_local! {
    static ACCOUNTS: RefCell<Vec<Account>> = const { RefCell::new(Vec::new()) };
}

// === impl Payload ===

impl Payload {
    /// A payload that is due at `deadline`.
    pub(crate) fn new(deadline: Tick) -> Payload {
        ACCOUNTS.with_borrow_mut(|all| {
            all.push(Account { deadline, ..Account::default() });
            Payload(all.len() - 1)
        })
    }

    /// Its number: payloads are counted from zero in each interleaving.
    pub fn id(&self) -> usize {
        self.0
    }

    /// Ends it.
    pub(crate) fn meets(self, fate: Fate) {
        ACCOUNTS.with_borrow_mut(|all| all[self.0].fates.push(fate));
    }
}

impl Drop for Payload {
    fn drop(&mut self) {
        // Nothing here may panic: a payload is also dropped while a failed model unwinds.
        let _ = ACCOUNTS.try_with(|all| {
            if let Some(account) = all.borrow_mut().get_mut(self.0) {
                account.drops += 1;
            }
        });
    }
}

/// What became of payload number `id` so far.
pub fn fate(id: usize) -> Option<Fate> {
    ACCOUNTS.with_borrow(|all| all[id].fates.first().copied())
}

/// Whether payload number `id` was handed over.
pub fn has_run(id: usize) -> bool {
    matches!(fate(id), Some(Fate::Ran(_)))
}

/// Payload number `id` has another deadline.
pub(crate) fn moved(id: usize, deadline: Tick) {
    ACCOUNTS.with_borrow_mut(|all| all[id].deadline = deadline);
}

/// Begins an interleaving.
pub(crate) fn open() {
    ACCOUNTS.with_borrow_mut(Vec::clear);
}

/// Ends an interleaving.
pub(crate) fn settle() {
    ACCOUNTS.with_borrow(|all| {
        for (id, account) in all.iter().enumerate() {
            assert_eq!(account.fates.len(), 1, "payload {id} met one fate: {account:?}");
            assert_eq!(account.drops, 1, "payload {id} was dropped once: {account:?}");
            if let Fate::Ran(at) = account.fates[0] {
                assert!(at >= account.deadline, "payload {id} ran early: {account:?}");
            }
        }
    });
}
