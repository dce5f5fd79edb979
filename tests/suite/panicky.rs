//! Keys that panic wherever code of theirs runs, when they are told to.

use std::hash::{Hash, Hasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use support::planned::panic_as_planned;

/// A key that panics in its hash, in comparisons, or when it is dropped, while it is told to.
#[derive(Clone)]
pub(crate) struct Key {
    pub(crate) number: u32,
    pub(crate) panics: Arc<Panics>,
}

#[derive(Default)]
pub(crate) struct Panics {
    pub(crate) in_hash: AtomicU32,
    pub(crate) in_eq: AtomicU32,
    pub(crate) in_drop: AtomicU32,
}

/// Panics at the last of so many calls.
fn count_down(calls: &AtomicU32) {
    let before = calls.load(Ordering::Relaxed);
    calls.store(before.saturating_sub(1), Ordering::Relaxed);
    if before == 1 {
        panic_as_planned();
    }
}

impl Hash for Key {
    fn hash<H: Hasher>(&self, state: &mut H) {
        count_down(&self.panics.in_hash);
        self.number.hash(state);
    }
}

impl PartialEq for Key {
    fn eq(&self, other: &Key) -> bool {
        count_down(&self.panics.in_eq);
        self.number == other.number
    }
}

impl Eq for Key {}

impl Drop for Key {
    fn drop(&mut self) {
        count_down(&self.panics.in_drop);
    }
}
