//! Calling what may panic.

use std::panic::{AssertUnwindSafe, catch_unwind};

/// Whether `f` returned. What it panicked with ends here, even if that panics in its turn.
pub fn contained(f: impl FnOnce()) -> bool {
    let Err(panic) = catch_unwind(AssertUnwindSafe(f)) else { return true };
    if let Err(panic) = catch_unwind(AssertUnwindSafe(|| drop(panic))) {
        std::mem::forget(panic);
    }
    false
}
