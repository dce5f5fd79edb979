//! The rare branches of the engine that were reached, if it was compiled with `--cfg events`.

/// Each event, and how often this process reached it.
#[cfg(events)]
pub(crate) fn counts() -> Vec<(&'static str, u64)> {
    tickless_sync::events::counts()
}

/// None: the engine does not count.
#[cfg(not(events))]
pub(crate) fn counts() -> Vec<(&'static str, u64)> {
    Vec::new()
}
