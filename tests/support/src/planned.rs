//! Panics that a test has planned, and does not want printed.

use std::panic;
use std::sync::Once;

/// What tests panic with on purpose. Panics with anything else are failures and are shown.
#[derive(Clone, Copy, Debug)]
pub struct Planned;

pub fn panic_as_planned() -> ! {
    panic::panic_any(Planned)
}

/// Keeps planned panics from being printed.
pub fn quietly() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let usual = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            if !info.payload().is::<Planned>() {
                usual(info);
            }
        }));
    });
}
