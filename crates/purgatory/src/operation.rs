//! The trait of operations.

/// An operation that waits until it can complete, or until its timeout.
///
/// All three methods are called by the thread concerned: the one that registers the operation,
/// checks a key or forces the operation, or the engine's reaper when the timeout comes. For one
/// operation the calls never overlap: each call has returned, and its writes are visible, before
/// the next begins. No lock of the purgatory is held during a call; it may check, force, register
/// and cancel on the same purgatory, even for the same keys.
///
/// A panic of a call is caught and counted ([`Stats::panicked`](super::Stats::panicked)); a
/// `try_complete` that panicked counts as `false`.
///
/// Use a type with interior mutability if the operation collects something. Register an operation
/// once: if it is registered twice, the purgatory treats it as two operations.
///
/// ```
/// use std::sync::mpsc::{self, Sender};
/// use std::time::Duration;
/// use tickless_purgatory::{Operation, Purgatory};
/// use tickless::{Engine, ManualClock};
///
/// /// An answer that is owed as soon as a file has grown to a length, or it is too late.
/// struct Answer {
///     grown: fn() -> bool,
///     client: Sender<&'static str>,
/// }
///
/// impl Operation for Answer {
///     fn try_complete(&self) -> bool {
///         (self.grown)()
///     }
///     fn on_complete(&self) {
///         let _ = self.client.send("what there is");
///     }
///     fn on_expire(&self) {
///         let _ = self.client.send("and it took too long");
///     }
/// }
///
/// let engine = Engine::builder().manual_clock(&ManualClock::new()).build()?;
/// let purgatory = Purgatory::with_engine(&engine);
/// let (client, answers) = mpsc::channel();
/// let answer = Answer { grown: || false, client };
/// purgatory.try_complete_else_watch(answer.into(), ["log"], Duration::from_secs(5))?;
/// engine.advance(Duration::from_secs(5))?;
/// assert_eq!(answers.recv()?, "what there is");
/// assert_eq!(answers.recv()?, "and it took too long");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait Operation: Send + Sync + 'static {
    /// Returns whether the operation can complete now. If it returns `true`, `on_complete` follows
    /// on the same thread, unless the operation was forced, timed out or cancelled meanwhile: then
    /// the callbacks of that end follow.
    ///
    /// Called at registration, before and after the operation is watched, and for each check of one
    /// of its keys. Each check is followed by a complete call that began after it, or finds that
    /// the operation has ended. The exception is a check from inside this same call (directly, or
    /// through what it calls). The method should look at the state that the keys stand for, and be
    /// quick: a check waits for the calls that it makes.
    ///
    /// ```
    /// # use std::sync::atomic::{AtomicU32, Ordering};
    /// # use tickless_purgatory::Operation;
    /// /// Waits until `wanted` members of a group have come.
    /// struct Join {
    ///     wanted: u32,
    ///     present: AtomicU32,
    /// }
    ///
    /// impl Operation for Join {
    ///     fn try_complete(&self) -> bool {
    ///         self.present.load(Ordering::Acquire) >= self.wanted
    ///     }
    ///     # fn on_complete(&self) {}
    /// }
    /// # let join = Join { wanted: 2, present: AtomicU32::new(1) };
    /// assert!(!join.try_complete(), "one of two");
    /// join.present.fetch_add(1, Ordering::Release);
    /// assert!(join.try_complete());
    /// ```
    fn try_complete(&self) -> bool;

    /// The operation completes, by itself, by force or by its timeout. Called exactly once, unless
    /// the operation is cancelled or its purgatory stops. The operation has been removed from all
    /// its keys by then.
    ///
    /// ```
    /// # use std::sync::mpsc::{self, Sender};
    /// # use std::time::Duration;
    /// # use tickless_purgatory::{Operation, Purgatory};
    /// struct Fetch {
    ///     client: Sender<String>,
    /// }
    ///
    /// impl Operation for Fetch {
    ///     # fn try_complete(&self) -> bool {
    ///     #     true
    ///     # }
    ///     fn on_complete(&self) {
    ///         // The client may have gone meanwhile: then there is nothing to do.
    ///         let _ = self.client.send("here you are".to_owned());
    ///     }
    /// }
    /// # let (client, answers) = mpsc::channel();
    /// # let purgatory = Purgatory::new()?;
    /// let fetch = Fetch { client }.into();
    /// purgatory.try_complete_else_watch(fetch, ["orders-0"], Duration::from_secs(30))?;
    /// assert_eq!(answers.try_iter().count(), 1, "it could complete at once");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    fn on_complete(&self);

    /// The timeout came first: called exactly once, right after `on_complete`.
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use std::sync::atomic::{AtomicU32, Ordering};
    /// # use std::time::Duration;
    /// # use tickless_purgatory::{Operation, Purgatory};
    /// # use tickless::{Engine, ManualClock};
    /// struct Fetch {
    ///     timeouts: Arc<AtomicU32>,
    /// }
    ///
    /// impl Operation for Fetch {
    ///     # fn try_complete(&self) -> bool {
    ///     #     false
    ///     # }
    ///     # fn on_complete(&self) {}
    ///     fn on_expire(&self) {
    ///         self.timeouts.fetch_add(1, Ordering::Relaxed);
    ///     }
    /// }
    /// # let engine = Engine::builder().manual_clock(&ManualClock::new()).build()?;
    /// # let purgatory = Purgatory::with_engine(&engine);
    /// let timeouts = Arc::new(AtomicU32::new(0));
    /// let (fetch, second) = (Fetch { timeouts: timeouts.clone() }, Duration::from_secs(1));
    /// purgatory.try_complete_else_watch(fetch.into(), ["orders-0"], second)?;
    /// engine.advance(second)?;
    /// assert_eq!(timeouts.load(Ordering::Relaxed), 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    fn on_expire(&self) {}
}
