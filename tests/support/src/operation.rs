//! An operation that counts what is called on it, and notices calls that must not be: two at a
//! time, an end that comes twice, an expiry without a completion.
//!
//! What it counts and what it may do is read and written without any order of its own (Relaxed),
//! and each call touches plain memory besides: under ThreadSanitizer calls of two threads that the
//! purgatory does not order are a data race.

use std::cell::UnsafeCell;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};

use tickless_purgatory::Operation;

/// An operation that completes when it [may](Op::allow).
pub struct Op {
    may_complete: AtomicBool,
    tries: AtomicU32,
    completions: AtomicU32,
    expiries: AtomicU32,
    is_inside: AtomicBool,
    /// Touched by each call.
    touched: UnsafeCell<u32>,
    offence: OnceLock<&'static str>,
    deed: Option<Deed>,
}

/// What an operation does inside each call on it, before it answers.
type Deed = Box<dyn Fn(&Op, Call) + Send + Sync>;

/// A call on an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
    Try,
    Complete,
    Expire,
}

/// How an operation has ended, as far as it was told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// It was told of no end: it waits, or was cancelled or refused.
    Untold,
    Completed,
    Expired,
}

// SAFETY: what is touched is touched inside calls alone, which never overlap: the very promise of
// the purgatory that this is to notice a breach of.
unsafe impl Sync for Op {}

/// Leaves the call also when it panics.
struct Inside<'a>(&'a Op);

// === impl Op ===

impl Op {
    pub fn new() -> Arc<Op> {
        Op::maybe_with(None)
    }

    /// One that does something inside each call, with whatever it may do decided before.
    pub fn with(deed: impl Fn(&Op, Call) + Send + Sync + 'static) -> Arc<Op> {
        Op::maybe_with(Some(Box::new(deed)))
    }

    fn maybe_with(deed: Option<Deed>) -> Arc<Op> {
        Arc::new(Op {
            may_complete: AtomicBool::new(false),
            tries: AtomicU32::new(0),
            completions: AtomicU32::new(0),
            expiries: AtomicU32::new(0),
            is_inside: AtomicBool::new(false),
            touched: UnsafeCell::new(0),
            offence: OnceLock::new(),
            deed,
        })
    }

    /// From now on a try completes it.
    pub fn allow(&self) {
        self.may_complete.store(true, Relaxed);
    }

    pub fn tries(&self) -> u32 {
        self.tries.load(Relaxed)
    }

    /// How it has ended.
    ///
    /// # Panics
    /// A call came that must not be.
    pub fn end(&self) -> End {
        assert_eq!(self.offence.get(), None);
        match (self.completions.load(Relaxed), self.expiries.load(Relaxed)) {
            (0, _) => End::Untold,
            (_, 0) => End::Completed,
            _ => End::Expired,
        }
    }

    fn enter(&self, call: Call) -> Inside<'_> {
        if self.is_inside.swap(true, Relaxed) {
            self.offends("two calls at a time");
        }
        let (completions, expiries) = (self.completions.load(Relaxed), self.expiries.load(Relaxed));
        match call {
            Call::Try if completions > 0 => self.offends("tried after its end"),
            Call::Complete if completions > 0 => self.offends("completed twice"),
            Call::Expire if completions == 0 => self.offends("expired and not completed"),
            Call::Expire if expiries > 0 => self.offends("expired twice"),
            Call::Try => &self.tries,
            Call::Complete => &self.completions,
            Call::Expire => &self.expiries,
        }
        .fetch_add(1, Relaxed);
        // SAFETY: calls on one operation do not overlap.
        unsafe { *self.touched.get() += 1 };
        let inside = Inside(self);
        if let Some(deed) = &self.deed {
            deed(self, call);
        }
        inside
    }

    /// Notes an offence, and answers something to count it in.
    fn offends(&self, offence: &'static str) -> &AtomicU32 {
        self.offence.get_or_init(|| offence);
        &self.tries
    }
}

impl Operation for Op {
    fn try_complete(&self) -> bool {
        // Decided first: what comes later must lead to another try.
        let may_complete = self.may_complete.load(Relaxed);
        let _inside = self.enter(Call::Try);
        may_complete
    }

    fn on_complete(&self) {
        drop(self.enter(Call::Complete));
    }

    fn on_expire(&self) {
        drop(self.enter(Call::Expire));
    }
}

// === impl Inside ===

impl Drop for Inside<'_> {
    fn drop(&mut self) {
        self.0.is_inside.store(false, Relaxed);
    }
}

#[test]
fn an_operation_notices_the_calls_that_must_not_be() {
    let offends = |calls: &[Call]| {
        let op = Op::new();
        calls.iter().for_each(|&call| drop(op.enter(call)));
        op.offence.get().is_some()
    };
    use Call::{Complete, Expire, Try};
    assert!(!offends(&[Try, Try, Complete, Expire]));
    assert!(offends(&[Complete, Try]));
    assert!(offends(&[Complete, Complete]));
    assert!(offends(&[Try, Expire]));
    assert!(offends(&[Complete, Expire, Expire]));

    let twice = Op::with(|op, call| {
        if op.offence.get().is_none() {
            drop(op.enter(call));
        }
    });
    assert!(!twice.try_complete());
    assert_eq!(twice.offence.get(), Some(&"two calls at a time"));

    let op = Op::new();
    assert!(!op.try_complete());
    op.allow();
    assert!(op.try_complete());
    assert_eq!((op.tries(), op.end()), (2, End::Untold));
    op.on_complete();
    assert_eq!(op.end(), End::Completed);
    op.on_expire();
    assert_eq!(op.end(), End::Expired);
}
