//! A retry whose attempts are futures.
//!
//! *Owner*: the task that polls it.
//!
//! *Tested by*: `tests/suite/periodic/retry_async.rs`.

use std::future::{Future, poll_fn};
use std::mem;
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use crate::engine::Engine;
use crate::error::ScheduleReason;
use crate::time::saturating_ns;

use super::{End, Outcome, Retry};

// === impl Retry: futures ===

impl<P: IntoIterator<Item = Duration>> Retry<P> {
    /// Makes attempts that are futures, inside the task that awaits this, and returns the outcome.
    /// `attempt` gets the attempt's number, starting with 1, and returns the future of that
    /// attempt.
    ///
    /// The pauses, their limits and [`attempt_timeout`](Retry::attempt_timeout) mean the same as
    /// for [`start`](Retry::start), by the engine's clock; [`within`](Retry::within) counts from
    /// this call. An attempt that takes too long is dropped, and has failed without an error. If
    /// the engine cannot time an attempt, since it has stopped or the task [must not
    /// wait](crate::ScheduleReason::Circular), the attempt fails in this way when it has to wait
    /// for the first time. If it cannot time a pause, the outcome is
    /// [`Outcome::Ended`]. A pause of zero lets other tasks of the executor run, and does not need
    /// the engine.
    ///
    /// Dropping the future cancels the retry. A panic of an attempt or of the pauses is not a
    /// failure: it goes through to the task that polls. The future does not keep the engine alive.
    /// It is `Send` if the closure, its futures, their errors and the pauses are. Nothing is
    /// allocated, and there is at most one timer at a time.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tickless::Engine;
    /// use tickless::periodic::{Backoff, Outcome, Retry};
    ///
    /// # async fn connect(number: u32) -> Result<u32, &'static str> {
    /// #     if number < 3 { Err("refused") } else { Ok(7) }
    /// # }
    /// let engine = Engine::new()?;
    /// let backoff = Backoff::new(Duration::from_millis(1));
    /// let retry = Retry::new(backoff).attempts(5).attempt_timeout(Duration::from_secs(10));
    /// let outcome = pollster::block_on(retry.run_async(&engine, |number| connect(number)));
    /// assert_eq!(outcome, Outcome::Succeeded { value: 7, attempts: 3 });
    /// # Ok::<(), tickless::BuildError>(())
    /// ```
    pub fn run_async<T, E, F, A>(
        self,
        engine: &Engine,
        mut attempt: A,
    ) -> impl Future<Output = Outcome<T, E>> + use<T, E, F, A, P>
    where
        F: Future<Output = Result<T, E>>,
        A: FnMut(u32) -> F,
    {
        let Retry { pauses, most, within, timeout } = self;
        let clock = engine.clock().clone();
        let until_ns = clock.now_ns().saturating_add(saturating_ns(within));
        let mut pauses = pauses.into_iter();
        // Neither has a timer until it is awaited.
        let [mut limit, mut sleep] = [(); 2].map(|()| engine.sleep(Duration::MAX));
        async move {
            let mut attempts = 0;
            loop {
                attempts += 1;
                let answer = {
                    let mut attempt = pin!(attempt(attempts));
                    if let Some(timeout) = timeout {
                        limit.reset(timeout);
                    }
                    poll_fn(|cx| match attempt.as_mut().poll(cx) {
                        Poll::Ready(answer) => Poll::Ready(answer.map_err(Some)),
                        Poll::Pending if timeout.is_some() => {
                            limit.poll_elapsed(cx).map(|_| Err(None))
                        }
                        Poll::Pending => Poll::Pending,
                    })
                    .await
                };
                limit.cancel();
                let error = match answer {
                    Ok(value) => return Outcome::Succeeded { value, attempts },
                    Err(error) => error,
                };
                let in_time = |pause: &Duration| {
                    let next_ns = clock.now_ns().saturating_add(saturating_ns(*pause));
                    attempts < most && next_ns <= until_ns
                };
                let Some(pause) = pauses.next().filter(in_time) else {
                    return Outcome::GaveUp { error, attempts };
                };
                drop(error);
                if pause.is_zero() {
                    yield_once().await;
                    continue;
                }
                sleep.reset(pause);
                if let Err(error) = sleep.wait().await {
                    let end = match error {
                        ScheduleReason::Stopped => End::Stopped,
                        ScheduleReason::Circular => End::Circular,
                        // No engine is full for a sleep.
                        _ => End::Full,
                    };
                    return Outcome::Ended { end, attempts };
                }
            }
        }
    }
}

/// Lets other tasks of the executor run.
fn yield_once() -> impl Future<Output = ()> {
    let mut has_yielded = false;
    poll_fn(move |cx| {
        if mem::replace(&mut has_yielded, true) {
            return Poll::Ready(());
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    })
}
