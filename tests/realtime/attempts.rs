//! What the scheduler may deny a test now and then, however right the engine is.

/// More than a scheduler spoils one after the other. A fault spoils them all.
const ATTEMPTS: u32 = 40;

/// Makes attempts until one succeeds, as the first does on a machine that has time.
#[track_caller]
pub(crate) fn succeeds_at_last(what: &str, mut attempt: impl FnMut() -> bool) {
    let has_succeeded = (0..ATTEMPTS).any(|_| attempt());
    assert!(has_succeeded, "{what}: in none of {ATTEMPTS} attempts");
}
