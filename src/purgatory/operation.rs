//! What waits.

/// An operation that waits until it can complete, or until its timeout.
///
/// All three calls come from whichever thread is concerned: the one that registers the operation,
/// one that checks a key, one that forces it, or the engine's reaper when the timeout comes. For
/// one operation they never overlap: each call has returned, and what it wrote is visible, before
/// the next begins. No lock of the purgatory is held during them; they may check, force, register
/// and cancel on the same purgatory, for the same keys too.
///
/// A call that panics is caught and counted ([`Stats::panicked`](super::Stats::panicked)); a
/// `try_complete` that panicked counts as one that answered `false`.
///
/// A type with interior mutability holds what the operation collects. An operation is to be
/// registered once: registered twice, it is two operations to the purgatory.
pub trait Operation: Send + Sync + 'static {
    /// Whether the operation can complete now. If it answers `true`, then `on_complete` follows
    /// on the same thread, unless the operation was forced, timed out or cancelled meanwhile (and
    /// then what that asks for follows).
    ///
    /// Called at registration, before and after the operation is watched, and for each check of
    /// one of its keys. Each check is followed by a whole call that began after it, or finds the
    /// operation decided; only one that comes from inside this very call (directly, or through what
    /// it calls) is not. It should look at the state that the keys stand for and be quick:
    /// a check waits for the calls that it makes.
    fn try_complete(&self) -> bool;

    /// The operation completes, by itself, by force or by its timeout: called exactly once, unless
    /// it is cancelled or its purgatory stops. By then no key leads to it any more.
    fn on_complete(&self);

    /// The timeout came first: called exactly once, right after `on_complete`.
    fn on_expire(&self) {}
}
