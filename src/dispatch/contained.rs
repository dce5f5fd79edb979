//! Calling what may panic.
//!
//! *Tested by*: `tests/panics.rs`, `tests/faults.rs`.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::sync::assert_outside;

/// Whether `f`, foreign code, returned. What it panicked with ends here, even if that panics in its
/// turn.
#[track_caller]
pub fn contained(f: impl FnOnce()) -> bool {
    contained_or(f, |_| ())
}

/// As [`contained`], where `tell` is shown what was thrown.
#[track_caller]
pub fn contained_or(f: impl FnOnce(), tell: impl FnOnce(&(dyn Any + Send))) -> bool {
    assert_outside();
    let Err(panic) = catch_unwind(AssertUnwindSafe(f)) else { return true };
    forget_if_it_panics(|| tell(&*panic));
    forget_if_it_panics(|| drop(panic));
    false
}

/// Drops what nobody claims, one by one: a payload whose drop panics takes no other with it, and no
/// thread.
pub fn drop_each<T>(payloads: Vec<T>) {
    for payload in payloads {
        contained(|| drop(payload));
    }
}

/// Calls `f` and lets go of what it panics with, unless that panics as well: it is then leaked.
fn forget_if_it_panics(f: impl FnOnce()) {
    let Err(panic) = catch_unwind(AssertUnwindSafe(f)) else { return };
    if let Err(panic) = catch_unwind(AssertUnwindSafe(|| drop(panic))) {
        std::mem::forget(panic);
    }
}
