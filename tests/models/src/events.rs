//! The rare branches of the engine that a run of a fuzz target has reached, told when it ends.
//!
//! Only with `--cfg events`, by which the engine counts them: see `crates/sync/src/events.rs`.

/// Tells which events were reached, and which were not, once this process ends.
#[cfg(events)]
pub fn report_at_exit() {
    use std::sync::Once;

    unsafe extern "C" {
        /// Of the C library.
        fn atexit(call: extern "C" fn()) -> std::ffi::c_int;
    }
    static ONCE: Once = Once::new();
    // SAFETY: the function unwinds into nobody, and needs nothing that is gone by then.
    ONCE.call_once(|| assert_eq!(unsafe { atexit(report) }, 0));
}

#[cfg(not(events))]
pub fn report_at_exit() {}

#[cfg(events)]
extern "C" fn report() {
    let counts = tickless_sync::events::counts();
    let (reached, missing): (Vec<_>, Vec<_>) = counts.iter().partition(|(_, count)| *count > 0);
    for (name, count) in &reached {
        eprintln!("{count:>12}  {name}");
    }
    let missing: Vec<&str> = missing.iter().map(|(name, _)| *name).collect();
    eprintln!("{} of {} events; not {}", reached.len(), counts.len(), missing.join(", "));
}
