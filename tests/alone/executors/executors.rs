//! The executors that asynchronous bodies are run on, each as a test of its own.

use std::future::Future;

/// Runs a body to its end.
pub(crate) trait Executor {
    fn run<F>(body: F)
    where
        F: Future<Output = ()> + Send + 'static;
}

/// Tokio's, with worker threads: the body is a task on one of them, or on one after another.
pub(crate) struct TokioThreads;

/// Tokio's on the calling thread.
pub(crate) struct TokioHere;

/// Smol's global executor, on a thread of its own.
pub(crate) struct Smol;

/// No executor at all: the thread sleeps until its waker is called.
pub(crate) struct Bare;

/// Makes a test of each asynchronous function for each executor.
macro_rules! on_every_executor {
    ($($body:ident),+ $(,)?) => {
        on_every_executor!(@on tokio_threads, TokioThreads, $($body),+);
        on_every_executor!(@on tokio_here, TokioHere, $($body),+);
        on_every_executor!(@on smol, Smol, $($body),+);
        on_every_executor!(@on bare, Bare, $($body),+);
    };
    (@on $module:ident, $executor:ident, $($body:ident),+) => {
        mod $module {
            use crate::executors::{self, Executor};

            $(
                #[test]
                fn $body() {
                    executors::$executor::run(super::$body());
                }
            )+
        }
    };
}

pub(crate) use on_every_executor;

impl Executor for TokioThreads {
    fn run<F>(body: F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(3).build().unwrap();
        runtime.block_on(async { tokio::spawn(body).await.unwrap() });
    }
}

impl Executor for TokioHere {
    fn run<F>(body: F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(body);
    }
}

impl Executor for Smol {
    fn run<F>(body: F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        smol::block_on(smol::spawn(body));
    }
}

impl Executor for Bare {
    fn run<F>(body: F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        pollster::block_on(body);
    }
}
