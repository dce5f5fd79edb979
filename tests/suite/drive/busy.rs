//! An engine that tokio serves, beside a thread that is busy: one that has just scheduled what is
//! due first keeps no other sleep waiting.
//!
//! Each test shows that by order: the busy thread goes on only when another task's sleep is over.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::task::Poll;
use std::thread;
use std::time::Duration;

use support::mpsc::{Receiver, channel};
use support::patience::PATIENCE;
use support::polling::bell;
use tickless::{Driver, Engine};
use tokio::runtime::{Builder, Handle, Runtime};

use crate::on_runtime::{Runs, spawn};

const MS: Duration = Duration::from_millis(1);

/// A busy thread may or may not have the luck to be passed over.
const ROUNDS: usize = 5;

fn runtime(workers: usize) -> Runtime {
    builder(workers).enable_all().build().unwrap()
}

fn builder(workers: usize) -> Builder {
    let mut builder = match workers {
        0 => Builder::new_current_thread(),
        _ => Builder::new_multi_thread(),
    };
    builder.worker_threads(workers.max(1));
    builder
}

/// What keeps its thread busy: the thread schedules what is due before all others, and then waits
/// for the end of another sleep.
struct Busy {
    engine: Engine,
    others: Receiver<()>,
}

impl Busy {
    fn keep_busy(self) {
        let mut first = pin!(self.engine.sleep(10 * MS));
        let (_bell, waker) = bell();
        let mut context = std::task::Context::from_waker(&waker);
        // The system may have kept this thread from running until the sleep was over.
        while first.as_mut().poll(&mut context).is_ready() {
            first.set(self.engine.sleep(10 * MS));
        }
        let heard = self.others.recv_timeout(PATIENCE);
        heard.expect("the sleeps of others wait for a busy thread");
    }
}

/// Lets a thread be busy, by `begin`, while a task sleeps.
fn others_sleep_beside<'a, F: Future<Output = ()> + 'a>(workers: usize, begin: impl Fn(Busy) -> F) {
    for _ in 0..ROUNDS {
        let build = || Engine::builder().shards(1).build_on_tokio().unwrap();
        others_sleep_on(runtime(workers), &build, &|busy| Box::pin(begin(busy)));
    }
}

/// The same on one runtime, with the engine that is built there.
fn others_sleep_on<'a>(
    runtime: Runtime,
    build: &dyn Fn() -> Engine,
    begin: &dyn Fn(Busy) -> Pin<Box<dyn Future<Output = ()> + 'a>>,
) {
    runtime.run(async {
        let engine = build();
        let (over, others) = channel();
        let sleep = engine.sleep(20 * MS);
        let sleeper = spawn(async move {
            sleep.await;
            over.send(()).unwrap();
        });
        while engine.stats().scheduled == 0 && !sleeper.is_finished() {
            tokio::task::yield_now().await;
        }
        // A sleep of the runtime: its threads come to rest.
        tokio::time::sleep(2 * MS).await;
        begin(Busy { engine, others }).await;
        sleeper.await.unwrap();
    });
}

#[test]
fn a_busy_worker_keeps_no_other_sleep_waiting() {
    for workers in [2, 4] {
        others_sleep_beside(workers, |busy| async {
            spawn(async move { busy.keep_busy() }).await.unwrap();
        });
    }
}

/// The task waits by the runtime's sleeps, and rings wake it.
#[test]
fn a_busy_worker_keeps_no_other_sleep_waiting_where_there_is_no_reactor() {
    for round in 0..2 * ROUNDS {
        let runtime = builder(2).enable_time().build().unwrap();
        let build = || match round % 2 {
            0 => Engine::builder().shards(1).build_on_tokio().unwrap(),
            _ => {
                let engine = Engine::builder().driver(Driver::Caller).shards(1).build().unwrap();
                spawn(engine.drive(|at| tokio::time::sleep_until(at.into())));
                engine
            }
        };
        others_sleep_on(runtime, &build, &|busy: Busy| {
            Box::pin(async { spawn(async move { busy.keep_busy() }).await.unwrap() })
        });
    }
}

#[test]
fn a_worker_that_blocks_in_place_keeps_no_other_sleep_waiting() {
    for workers in [1, 2] {
        others_sleep_beside(workers, |busy| async {
            let blocks = async move { tokio::task::block_in_place(|| busy.keep_busy()) };
            spawn(blocks).await.unwrap();
        });
    }
}

#[test]
fn a_blocking_thread_keeps_no_sleep_waiting() {
    for workers in [0, 1, 2] {
        others_sleep_beside(workers, |busy| async {
            tokio::task::spawn_blocking(|| busy.keep_busy()).await.unwrap();
        });
    }
}

#[test]
fn a_plain_thread_keeps_no_sleep_waiting() {
    for workers in [0, 1, 2] {
        others_sleep_beside(workers, |busy| async {
            let thread = thread::spawn(|| busy.keep_busy());
            while !thread.is_finished() {
                tokio::time::sleep(MS).await;
            }
            thread.join().unwrap();
        });
    }
}

#[test]
fn a_busy_worker_of_another_runtime_keeps_no_sleep_waiting() {
    for workers in [0, 1, 2] {
        let other = runtime(2);
        let handle: &Handle = other.handle();
        others_sleep_beside(workers, |busy| async {
            handle.spawn(async move { busy.keep_busy() }).await.unwrap();
        });
    }
}

/// One thread has to do everything, and another task is always ready to run.
#[test]
fn a_worker_that_always_has_something_to_do_looks_after_sleeps_as_well() {
    for workers in [0, 1] {
        others_sleep_beside(workers, |busy| async {
            let Busy { engine, others } = busy;
            let mut first = pin!(engine.sleep(10 * MS));
            let begun = poll_fn(|cx| Poll::Ready(first.as_mut().poll(cx))).await;
            assert!(begun.is_pending());
            let deadline = std::time::Instant::now() + PATIENCE;
            while others.try_recv().is_err() {
                assert!(std::time::Instant::now() < deadline, "the sleeps of others wait");
                tokio::task::yield_now().await;
            }
        });
    }
}
