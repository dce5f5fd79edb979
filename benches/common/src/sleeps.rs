//! Timeouts and resets of asynchronous code, with this crate and with tokio's own timer, on the
//! same tokio runtime; and the CPU time that they take.
//!
//! *timeout-around-a-future*: a timeout of 5 s around a future that is ready at its second poll, so
//! that a timer is scheduled and cancelled; *-ready-future*: ready at the first poll, which needs
//! no timer; *reset-a-sleep*: a sleep that waits is moved on by 5 s and polled. (`future_fire` has
//! sleeps that end.)

use std::future::{Future, ready};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use tokio::runtime::Runtime;

use crate::runtime::cpu;
pub use crate::runtime::runtime;

const LONG: Duration = Duration::from_secs(5);

/// Ready at the second poll.
struct Soon(bool);

/// So many operations.
pub type Body = fn(u64) -> Pin<Box<dyn Future<Output = ()> + Send>>;

/// Something to do, with this crate and with tokio.
#[derive(Debug)]
pub struct Work {
    /// What it does.
    pub name: &'static str,
    /// With this crate.
    pub ours: Body,
    /// With tokio's timer.
    pub theirs: Body,
}

impl Future for Soon {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        if std::mem::replace(&mut self.0, true) {
            return Poll::Ready(());
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }
}

/// The bodies of one side: both have the same names.
macro_rules! bodies {
    ($($side:ident)::+, $Instant:ty) => {{
        use $($side)::+ as side;
        let bodies: [Body; 3] = [
            |ops| Box::pin(async move {
                for _ in 0..ops {
                    assert!(side::timeout(LONG, Soon(false)).await.is_ok());
                }
            }),
            |ops| Box::pin(async move {
                for _ in 0..ops {
                    assert!(side::timeout(LONG, ready(())).await.is_ok());
                }
            }),
            |ops| Box::pin(async move {
                let mut sleep = std::pin::pin!(side::sleep(LONG));
                for _ in 0..ops {
                    sleep.as_mut().reset(<$Instant>::now() + LONG);
                    assert!(futures_util::poll!(&mut sleep).is_pending());
                }
            }),
        ];
        bodies
    }};
}

/// Everything that is measured.
pub fn works() -> Vec<Work> {
    let (ours, theirs) = (bodies!(tickless, Instant), bodies!(tokio::time, tokio::time::Instant));
    let names = ["timeout-around-a-future", "timeout-around-a-ready-future", "reset-a-sleep"];
    let work = |((ours, theirs), name)| Work { name, ours, theirs };
    ours.into_iter().zip(theirs).zip(names).map(work).collect()
}

/// The CPU time of the process for `each` operations in each of so many tasks.
pub fn round(runtime: &Runtime, threads: u64, body: Body, each: u64) -> Duration {
    let begin = cpu();
    runtime.block_on(async {
        let tasks: Vec<_> = (0..threads).map(|_| tokio::spawn(body(each))).collect();
        for task in tasks {
            task.await.expect("a body does not panic");
        }
    });
    cpu() - begin
}
