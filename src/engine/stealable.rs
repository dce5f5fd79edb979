//! A waker for a task that other workers of a tokio runtime find when it was woken.
//!
//! A worker that wakes just one task runs that next, and no other worker looks for it. So a second
//! task, which does nothing, is woken after it: the first is put where others find it.
//!
//! *Owner*: the task that serves an engine (`driving_task`, `on_tokio`).
//!
//! *Tested by*: `tests/suite/drive/busy.rs`.

use std::future::poll_fn;
use std::task::{Context, Poll, Wake, Waker};

use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::task::AbortHandle;

use crate::sync::{Arc, OnceLock};

/// A waker for a task that other workers find when it was woken, whatever its waker does next.
#[derive(Default)]
pub(super) struct Stealable {
    idle: Option<Idle>,
    has_begun: bool,
    /// The task's waker, and the one that wakes both.
    wakers: Option<(Waker, Waker)>,
}

/// A task that does nothing.
struct Idle {
    /// Known when it was polled.
    waker: Arc<OnceLock<Waker>>,
    task: AbortHandle,
}

/// Wakes a task, and then another.
struct Both(Waker, Waker);

// === impl Stealable ===

impl Stealable {
    /// The waker for the task that is polled: its own, or one that wakes a second task as well.
    pub(super) fn waker<'a>(&'a mut self, cx: &'a Context<'_>) -> &'a Waker {
        if !self.has_begun {
            self.has_begun = true;
            self.idle = Idle::begin(cx.waker());
        }
        let own = cx.waker();
        let Some(idle) = self.idle.as_ref().and_then(|idle| idle.waker.get()) else { return own };
        if !self.wakers.as_ref().is_some_and(|(of, _)| of.will_wake(own)) {
            let both = Both(own.clone(), idle.clone());
            self.wakers = Some((own.clone(), Waker::from(Arc::new(both))));
        }
        self.wakers.as_ref().map_or(own, |(_, both)| both)
    }
}

impl Idle {
    /// Begins a task, which wakes `first` when its waker is known. `None`: there is no current
    /// runtime, or it has one thread, which does everything itself.
    fn begin(first: &Waker) -> Option<Idle> {
        let runtime = Handle::try_current().ok()?;
        if runtime.runtime_flavor() != RuntimeFlavor::MultiThread {
            return None;
        }
        let waker = Arc::new(OnceLock::new());
        let (place, first) = (waker.clone(), first.clone());
        let task = runtime.spawn(poll_fn(move |cx| {
            if place.set(cx.waker().clone()).is_ok() {
                first.wake_by_ref();
            }
            Poll::<()>::Pending
        }));
        Some(Idle { waker, task: task.abort_handle() })
    }
}

impl Drop for Idle {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Wake for Both {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.0.wake_by_ref();
        self.1.wake_by_ref();
    }
}
