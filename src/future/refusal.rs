//! Sleeps inside code that cannot hear of an error, and what they do if the engine refuses them.
//!
//! *Owner*: the task that polls it, one at a time.
//!
//! *Tested by*: `tests/suite/future/refused.rs`, `tests/clients/on_hyper.rs`,
//! `tests/clients/on_quinn.rs`.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Instant;

use crate::engine::When;

use super::{Sleep, SleepError};

/// What a sleep does if its engine refuses it, because the engine has stopped or the task [must not
/// wait](SleepError::Circular).
///
/// It is for sleeps inside code that cannot be told of an error. [`Sleep::on_refusal`] makes one,
/// and the timers for hyper and quinn make all of theirs with a policy.
///
/// The default is [`Elapse`](OnRefusal::Elapse): a limit that cannot be timed counts as passed. So
/// nothing waits for ever, and nothing runs without its limit, as with a
/// [`Timeout`](super::Timeout). A server that loses its engine closes connections; it does not keep
/// them without a limit.
///
/// ```
/// use std::time::Duration;
/// use tickless::Engine;
/// use tickless::future::OnRefusal;
///
/// let engine = Engine::new()?;
/// engine.stop()?;
/// let minute = Duration::from_secs(60);
/// // Ready at once, and no panic.
/// pollster::block_on(engine.sleep(minute).on_refusal(OnRefusal::Elapse));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum OnRefusal {
    /// The sleep is ready at once, before its deadline: the first poll that is refused wakes its
    /// task, and the next one is ready. (So a loop of sleeps uses a processor while it is refused,
    /// but lets the other tasks of its executor run.) The default.
    #[default]
    Elapse,
    /// The sleep is not ready before its deadline. After that, a poll finds it ready, but nothing
    /// wakes the task for it. (If the engine is gone, it may never be ready.) Each poll asks the
    /// engine again. For work that had rather run without a limit than end.
    Never,
    /// The poll panics, as that of a [`Sleep`] does.
    Panic,
}

/// A [`Sleep`] with a rule for the case that its engine refuses it. Made by [`Sleep::on_refusal`].
///
/// In all else it is a sleep, and once ready it stays ready until it is reset.
///
/// ```
/// use std::time::Duration;
/// use tickless::Engine;
/// use tickless::future::{OnRefusal, PolicySleep};
///
/// let engine = Engine::new()?;
/// let soon = Duration::from_millis(2);
/// let mut sleep: PolicySleep = engine.sleep(soon).on_refusal(OnRefusal::Panic);
/// pollster::block_on(&mut sleep);
/// sleep.reset(soon);
/// pollster::block_on(sleep);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "a sleep does nothing unless it is awaited or polled"]
pub struct PolicySleep {
    sleep: Sleep,
    policy: OnRefusal,
    early: EarlyEnd,
}

/// How far a refused sleep is from being ready early.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum EarlyEnd {
    No,
    /// Its task was woken: the next poll that is refused is ready.
    Next,
    Yes,
}

// === impl Sleep: policies ===

impl Sleep {
    /// Turns the sleep into one that does what `policy` says if the engine has stopped, where
    /// awaiting this one panics.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tickless::Engine;
    /// use tickless::future::OnRefusal;
    ///
    /// let engine = Engine::new()?;
    /// let sleep = engine.sleep(Duration::from_secs(60)).on_refusal(OnRefusal::Never);
    /// engine.stop()?;
    /// assert!(futures_util::FutureExt::now_or_never(sleep).is_none(), "and no panic");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn on_refusal(self, policy: OnRefusal) -> PolicySleep {
        PolicySleep { sleep: self, policy, early: EarlyEnd::No }
    }
}

// === impl PolicySleep ===

impl PolicySleep {
    /// Moves the deadline, as [`Sleep::reset`] does. A sleep that was ready early is asleep again,
    /// and asks the engine again.
    pub fn reset(&mut self, when: impl Into<When>) {
        self.early = EarlyEnd::No;
        self.sleep.reset(when);
    }

    /// Returns when it will be ready, by the engine's clock, or `None` for never.
    pub fn deadline(&self) -> Option<Instant> {
        self.sleep.deadline()
    }

    fn refused(&mut self, error: SleepError, cx: &Context<'_>) -> Poll<()> {
        match self.policy {
            OnRefusal::Elapse if self.early == EarlyEnd::No => {
                self.early = EarlyEnd::Next;
                cx.waker().wake_by_ref();
                Poll::Pending
            }
            OnRefusal::Elapse => {
                self.early = EarlyEnd::Yes;
                Poll::Ready(())
            }
            OnRefusal::Never => Poll::Pending,
            OnRefusal::Panic => panic!("a sleep cannot wait: {error}"),
        }
    }
}

impl Future for PolicySleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        if self.early == EarlyEnd::Yes {
            return Poll::Ready(());
        }
        match ready!(self.sleep.poll_elapsed(cx)) {
            Ok(()) => Poll::Ready(()),
            Err(error) => self.refused(error, cx),
        }
    }
}

debug! { impl[] PolicySleep[] {
    deadline = |this| this.deadline(),
    policy = |this| this.policy,
} }
