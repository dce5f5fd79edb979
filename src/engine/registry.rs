//! Finds an engine by its number, for handles that come to a thread which has not used their
//! engine yet. Read without a lock; engines come and go by replacing the whole table.

use std::any::Any;

use crate::entry::Published;
use crate::sync::{Arc, AtomicU32, Ordering, Weak};

use super::core::Core;

type Table = Vec<(u32, Weak<dyn Any + Send + Sync>)>;

static ENGINES: Published<Table> = Published::empty();

/// A number that no engine of this process had before; `None` after 2^32 - 1 of them.
pub(super) fn new_number() -> Option<u32> {
    static LAST: AtomicU32 = AtomicU32::new(0);
    // ORDER: Relaxed - a number and nothing else.
    LAST.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |last| last.checked_add(1))
        .ok()
        .map(|last| last + 1)
}

/// Makes an engine known.
pub(super) fn enter<T: Send + 'static>(core: &Arc<Core<T>>) {
    let number = core.id();
    let core: Arc<dyn Any + Send + Sync> = core.clone();
    let known = (number, Arc::downgrade(&core));
    ENGINES.update(|table| {
        let mut table = table.cloned().unwrap_or_default();
        table.push(known.clone());
        table
    });
}

/// Forgets an engine.
pub(super) fn leave(number: u32) {
    ENGINES.update(|table| {
        let others = table.into_iter().flatten().filter(|(other, _)| *other != number);
        others.cloned().collect()
    });
}

/// The engine with that number, if it still exists.
pub(super) fn find<T: Send + 'static>(number: u32) -> Option<Arc<Core<T>>> {
    let core = ENGINES.with(|table| {
        let (_, core) = table?.iter().find(|(other, _)| *other == number)?;
        core.upgrade()
    })?;
    Some(core.downcast().expect("a number belongs to one engine"))
}
