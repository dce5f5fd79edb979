//! Taking entries off lists, as a shard's owner does.

use std::iter;
use std::ptr::NonNull;
use std::sync::Arc;

use tickless_core::entry::Entry;
use tickless_core::inbox::{Hand, Lanes, OwnLanes};

/// Takes all entries of a bucket, and hands them out one by one.
pub(crate) fn walk<T>(
    lanes: &Lanes<Entry<T>>,
    own: &OwnLanes<Entry<T>>,
) -> impl Iterator<Item = NonNull<Entry<T>>> + use<T> {
    let hand: Arc<Hand<Entry<T>>> = Arc::new(Hand::wide());
    hand.begin(0);
    let mut at = hand.take(lanes, own);
    iter::from_fn(move || {
        let entry = hand.peek(&at)?;
        // SAFETY: the hand is this walk's, and showed the entry.
        unsafe { hand.pass(&mut at, entry) };
        Some(entry)
    })
}

/// As `walk`, of the lists that producers push on.
pub(crate) fn walk_lanes<T>(
    lanes: &Lanes<Entry<T>>,
) -> impl Iterator<Item = NonNull<Entry<T>>> + use<T> {
    walk(lanes, &OwnLanes::new())
}
