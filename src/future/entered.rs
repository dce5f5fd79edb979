//! A future that finds the same ambient engine at each poll.
//!
//! *Owner*: the task that polls it.
//!
//! *Tested by*: `tests/alone/ambient.rs`.

use std::future::{Future, IntoFuture};
use std::mem::ManuallyDrop;
use std::pin::Pin;
use std::task::{Context, Poll};

use crate::engine::{Engine, EngineRef};

/// A future whose polls all find the same [ambient engine](Engine::enter), on whichever thread.
/// Created by [`Engine::entered`].
///
/// Its destructor finds that engine, too. It does not keep the engine alive.
///
/// ```
/// use std::future::Ready;
/// use tickless::Engine;
/// use tickless::future::Entered;
///
/// let engine = Engine::builder().shards(1).build()?;
/// let seven: Entered<Ready<u32>> = engine.entered(std::future::ready(7));
/// assert_eq!(pollster::block_on(seven), 7);
/// # Ok::<(), tickless::BuildError>(())
/// ```
#[must_use = "futures do nothing unless they are awaited or polled"]
pub struct Entered<F> {
    /// Pinned with this; see `inner`. Dropped by `drop` alone.
    inner: ManuallyDrop<F>,
    engine: EngineRef,
}

// === impl Engine: entering ===

impl Engine {
    /// Wraps `future` so that this is the ambient engine, as with [`enter`](Engine::enter), at each
    /// of its polls and while it is dropped. So it stays with its task when the task moves to
    /// another thread. A future that it spawns as a task of its own has to be wrapped again. What
    /// was made before, outside of the future, stays on its own engine.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tickless::Engine;
    ///
    /// # tokio::runtime::Builder::new_multi_thread().build()?.block_on(async {
    /// let engine = Engine::builder().tick(Duration::from_micros(100)).shards(1).build()?;
    /// let nap = tokio::spawn(engine.entered(async {
    ///     tickless::sleep(Duration::from_micros(300)).await;
    /// }));
    /// nap.await?;
    /// assert_eq!(engine.stats().fired, 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn entered<F: IntoFuture>(&self, future: F) -> Entered<F::IntoFuture> {
        // `into_future` is foreign code, too.
        let _entered = self.enter();
        let inner = ManuallyDrop::new(future.into_future());
        Entered { inner, engine: EngineRef::new(self) }
    }
}

// === impl Entered ===

impl<F> Entered<F> {
    fn inner(self: Pin<&mut Self>) -> Pin<&mut F> {
        // SAFETY: `inner` is pinned with this: nothing moves it out, `drop` drops it in place,
        // nothing is packed, and this is `Unpin` only if `inner` is.
        unsafe { self.map_unchecked_mut(|this| &mut *this.inner) }
    }
}

impl<F: Future> Future for Entered<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        let _entered = self.engine.enter();
        self.inner().poll(cx)
    }
}

impl<F> Drop for Entered<F> {
    fn drop(&mut self) {
        let _entered = self.engine.enter();
        // SAFETY: it is dropped here alone, and in place, as a pinned value has to be.
        unsafe { ManuallyDrop::drop(&mut self.inner) };
    }
}

debug! { impl[F] Entered[F] {} }
