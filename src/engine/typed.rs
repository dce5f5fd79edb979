//! The engine for payloads of any one type. What one schedules on it is in `scheduling`, what can
//! be seen of it in `view`, turns for its caller are in `driving`, its end is in `stopping`.

use std::fmt;

use crate::dispatch::Handler;
use crate::error::BuildError;
use crate::sync::{Arc, JoinHandle};
use crate::time::Clock;

use super::Builder;
use super::core::Core;
use super::registry::is_inherited;
use super::stopping::Inner;

/// A timer engine whose payload is any `T`, handed to one [`Handler`] in batches.
///
/// This is the engine without closures: where all timers of a service do the same kind of thing,
/// a payload of a few words (a connection's number, say) says which.
///
/// Clones are cheap and share the engine. When the last clone is dropped the engine stops, and
/// what is pending is dropped (a panic in that ends there); [`stop`](TypedEngine::stop) returns it
/// instead.
///
/// After a fork an engine stays with the process that built it: see [`Engine`](crate::Engine).
///
/// ```
/// use std::sync::mpsc;
/// use std::time::Duration;
/// use tickless::{Batch, TypedEngine};
///
/// let (sender, idle) = mpsc::channel();
/// let engine = TypedEngine::new(move |batch: Batch<'_, u64>| {
///     batch.for_each(|connection| drop(sender.send(connection)));
/// })?;
/// let active = engine.schedule(Duration::from_secs(30), 1)?;
/// engine.schedule_detached(Duration::from_millis(2), 2)?;
/// assert_eq!(idle.recv()?, 2);
/// assert!(active.cancel());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct TypedEngine<T: Send + 'static> {
    inner: Arc<Inner<T>>,
}

// === impl TypedEngine ===

impl<T: Send + 'static> TypedEngine<T> {
    /// An engine with default settings: see [`Builder`].
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tickless::{Batch, TypedEngine};
    /// let engine = TypedEngine::new(|batch: Batch<'_, u64>| println!("{} idle", batch.len()))?;
    /// engine.schedule_detached(Duration::from_secs(30), 17)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// A thread could not be started.
    pub fn new(handler: impl Handler<T> + 'static) -> Result<TypedEngine<T>, BuildError> {
        Builder::new().build_typed(handler)
    }

    pub(super) fn from_parts(
        core: Arc<Core<T>>,
        has_threads: bool,
        threads: Vec<JoinHandle<()>>,
    ) -> TypedEngine<T> {
        TypedEngine { inner: Arc::new(Inner::new(core, has_threads, threads)) }
    }

    /// The engine's number: no other of this process has it.
    pub(crate) fn number(&self) -> u32 {
        self.core().id()
    }

    /// Whether the engine belongs to a process that this one was forked from.
    pub(crate) fn is_inherited(&self) -> bool {
        is_inherited(self.number())
    }

    /// The engine's clock.
    pub(crate) fn clock(&self) -> &Clock {
        &self.core().clock
    }

    pub(super) fn core(&self) -> &Arc<Core<T>> {
        self.inner.core()
    }

    pub(super) fn inner(&self) -> &Inner<T> {
        &self.inner
    }
}

impl<T: Send + 'static> Clone for TypedEngine<T> {
    fn clone(&self) -> TypedEngine<T> {
        TypedEngine { inner: self.inner.clone() }
    }
}

impl<T: Send + 'static> fmt::Debug for TypedEngine<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TypedEngine")
            .field("shards", &self.shards())
            .field("len", &self.len())
            .finish_non_exhaustive()
    }
}
