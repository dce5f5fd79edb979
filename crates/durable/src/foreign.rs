//! Calling code that is not this crate's: handlers, wakers, callbacks, stores.
//!
//! Its panics end here. A value that was panicked with is foreign, too, and can panic when it is
//! dropped; then it is left alone.
//!
//! *Tested by*: `tests/durable/service.rs`.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Calls it, and returns what it returns, or the text with which it has panicked.
pub(crate) fn call<T>(body: impl FnOnce() -> T) -> Result<T, String> {
    // The callers use nothing that the body has left half done.
    catch_unwind(AssertUnwindSafe(body)).map_err(text_of)
}

/// The text with which something has panicked.
pub(crate) fn text_of(panic: Box<dyn Any + Send>) -> String {
    let text = text(&*panic).to_owned();
    if let Err(again) = catch_unwind(AssertUnwindSafe(|| drop(panic))) {
        std::mem::forget(again);
    }
    text
}

fn text(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("with a value of some type")
}
