//! `tokio::time`.

/// The timers of tokio's `time`, and its clock.
pub mod time {
    use std::future::{poll_fn, Future, IntoFuture};
    use std::marker::PhantomPinned;
    use std::pin::Pin;
    use std::task::{ready, Context, Poll};

    use tickless::future;

    use crate::engines::of_runtime;

    pub use tickless::future::{MissedTickBehavior, Timeout};
    pub use tokio::time::{advance, pause, resume, Duration, Instant};

    pub mod error {
        pub use tickless::future::Elapsed;
    }

    pin_project_lite::pin_project! {
        /// As `tokio::time::Sleep`, which is not `Unpin`.
        #[derive(Debug)]
        #[must_use = "futures do nothing unless you `.await` or poll them"]
        pub struct Sleep {
            sleep: future::Sleep,
            #[pin]
            pinned: PhantomPinned,
        }
    }

    /// As `tokio::time::Interval`.
    #[derive(Debug)]
    pub struct Interval {
        interval: future::Interval,
    }

    #[track_caller]
    pub fn sleep(duration: Duration) -> Sleep {
        Sleep { sleep: of_runtime().sleep(duration), pinned: PhantomPinned }
    }

    #[track_caller]
    pub fn sleep_until(deadline: Instant) -> Sleep {
        Sleep { sleep: of_runtime().sleep_until(deadline.into_std()), pinned: PhantomPinned }
    }

    #[track_caller]
    pub fn timeout<F: IntoFuture>(duration: Duration, future: F) -> Timeout<F::IntoFuture> {
        of_runtime().timeout(duration, future)
    }

    #[track_caller]
    pub fn timeout_at<F: IntoFuture>(deadline: Instant, future: F) -> Timeout<F::IntoFuture> {
        of_runtime().timeout_at(deadline.into_std(), future)
    }

    #[track_caller]
    pub fn interval(period: Duration) -> Interval {
        assert!(!period.is_zero(), "`period` must be non-zero.");
        Interval { interval: of_runtime().interval(period) }
    }

    #[track_caller]
    pub fn interval_at(start: Instant, period: Duration) -> Interval {
        assert!(!period.is_zero(), "`period` must be non-zero.");
        Interval { interval: of_runtime().interval_at(start.into_std(), period) }
    }

    // === impl Sleep ===

    impl Sleep {
        pub fn deadline(&self) -> Instant {
            // Thirty years, as tokio has it.
            let never = || Instant::now() + Duration::from_secs(86400 * 365 * 30);
            self.sleep.deadline().map_or_else(never, Instant::from_std)
        }

        pub fn is_elapsed(&self) -> bool {
            self.sleep.is_elapsed()
        }

        pub fn reset(self: Pin<&mut Self>, deadline: Instant) {
            self.project().sleep.reset(deadline.into_std());
        }
    }

    impl Future for Sleep {
        type Output = ();

        fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
            Pin::new(self.project().sleep).poll(cx)
        }
    }

    // === impl Interval ===

    impl Interval {
        pub async fn tick(&mut self) -> Instant {
            poll_fn(|cx| self.poll_tick(cx)).await
        }

        pub fn poll_tick(&mut self, cx: &mut Context<'_>) -> Poll<Instant> {
            Poll::Ready(Instant::from_std(ready!(self.interval.poll_tick(cx))))
        }

        pub fn reset(&mut self) {
            self.interval.reset();
        }

        pub fn reset_immediately(&mut self) {
            self.interval.reset_immediately();
        }

        pub fn reset_after(&mut self, after: Duration) {
            self.interval.reset_after(after);
        }

        pub fn reset_at(&mut self, deadline: Instant) {
            self.interval.reset_at(deadline.into_std());
        }

        pub fn missed_tick_behavior(&self) -> MissedTickBehavior {
            self.interval.missed_tick_behavior()
        }

        pub fn set_missed_tick_behavior(&mut self, behavior: MissedTickBehavior) {
            self.interval.set_missed_tick_behavior(behavior);
        }

        pub fn period(&self) -> Duration {
            self.interval.period()
        }
    }
}
