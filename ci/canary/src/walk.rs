//! Taking entries off lists, as a shard's owner does.

use std::iter;
use std::ptr::NonNull;
use std::sync::Arc;

use tickless_core::entry::Entry;
use tickless_core::inbox::{Lanes, OwnLanes, Tray};

/// Takes all entries of a bucket, and hands them out one by one.
pub(crate) fn walk<T>(
    lanes: &Lanes<Entry<T>>,
    own: &OwnLanes<Entry<T>>,
) -> impl Iterator<Item = NonNull<Entry<T>>> + use<T> {
    let tray: Arc<Tray<Entry<T>>> = Arc::new(Tray::wide());
    tray.begin(0);
    // SAFETY: the tray is this walk's. (That it is alone with the lists is what two owners break.)
    let mut at = unsafe { tray.take(lanes, own) };
    iter::from_fn(move || {
        let entry = tray.peek(&at)?;
        // SAFETY: the tray is this walk's, and showed the entry.
        unsafe { tray.pass(&mut at, entry) };
        Some(entry)
    })
}

/// As `walk`, of the lists that producers push on.
pub(crate) fn walk_lanes<T>(
    lanes: &Lanes<Entry<T>>,
) -> impl Iterator<Item = NonNull<Entry<T>>> + use<T> {
    walk(lanes, &OwnLanes::default())
}
