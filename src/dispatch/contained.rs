//! Calls to code that may panic.
//!
//! *Tested by*: `tests/panics.rs`, `tests/faults.rs`.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::sync::assert_outside;

/// Calls `f`, which is foreign code. Returns `false` if it panicked. The panic is swallowed, even
/// if dropping its payload panics in turn.
#[track_caller]
pub fn contained(f: impl FnOnce()) -> bool {
    contained_or(f, |_| ())
}

/// As [`contained`], and calls `tell` with the panic's payload.
#[track_caller]
pub fn contained_or(f: impl FnOnce(), tell: impl FnOnce(&(dyn Any + Send))) -> bool {
    assert_outside();
    let Err(panic) = catch_unwind(AssertUnwindSafe(f)) else { return true };
    forget_if_it_panics(|| tell(&*panic));
    forget_if_it_panics(|| drop(panic));
    false
}

/// Drops payloads one by one: if one drop panics, the others are still dropped, and the thread
/// continues.
pub fn drop_each<T>(payloads: Vec<T>) {
    for payload in payloads {
        contained(|| drop(payload));
    }
}

/// Calls `f` and drops the payload of its panic. If that drop panics as well, the second payload
/// is leaked.
fn forget_if_it_panics(f: impl FnOnce()) {
    let Err(panic) = catch_unwind(AssertUnwindSafe(f)) else { return };
    if let Err(panic) = catch_unwind(AssertUnwindSafe(|| drop(panic))) {
        std::mem::forget(panic);
    }
}
