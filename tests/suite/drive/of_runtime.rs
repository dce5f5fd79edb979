//! Each runtime of tokio's has an engine of its own, on which code there runs that names none.

use std::future::Future;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use futures_util::FutureExt;
use support::mpsc::channel;
use support::patience::PATIENCE;
use support::scaled;
use support::until::wait_until;
use tickless::future::SleepError;
use tickless::{BuildError, Engine, GlobalReason, ManualClock};
use tokio::runtime::{Builder, Handle, Runtime};
use tokio::sync::oneshot;
use tokio::time::Instant as TokioInstant;

use crate::on_runtime::{Runs, spawn};

const MS: Duration = Duration::from_millis(1);

const HOUR: Duration = Duration::from_secs(3600);

fn runtime() -> Runtime {
    Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap()
}

/// As in `#[tokio::test(start_paused = true)]`.
fn paused<F: Future>(body: F) -> F::Output {
    Builder::new_current_thread().enable_all().start_paused(true).build().unwrap().run(body)
}

/// As in the tests of a program: each has a runtime of its own.
#[test]
fn what_names_no_engine_follows_the_clock_of_each_runtime() {
    for _ in 0..3 {
        paused(async {
            let begin = TokioInstant::now();
            tickless::sleep(HOUR).await;
            let late = tickless::timeout(HOUR, tokio::time::sleep(2 * HOUR)).await;
            assert!(late.is_err());
            assert_eq!(begin.elapsed(), 2 * HOUR);
        });
    }
}

#[test]
fn a_runtime_has_one_engine_whichever_thread_is_the_first_and_another_has_another() {
    let [first, second] = [runtime(), runtime()];
    let of = |runtime: &Runtime| {
        let engines = Arc::new(Mutex::new(Vec::new()));
        let tasks: Vec<_> = (0..4)
            .map(|_| {
                let engines = engines.clone();
                runtime.start(async move {
                    // Until each thread knows its runtime.
                    for _ in 0..50 {
                        assert!(tickless::sleep(HOUR).now_or_never().is_none());
                        tokio::task::yield_now().await;
                    }
                    engines.lock().unwrap().push(Engine::of_runtime().unwrap());
                })
            })
            .collect();
        tasks.into_iter().for_each(|task| runtime.run(task).unwrap());
        let engine = engines.lock().unwrap().pop().unwrap();
        assert_eq!(engine.stats().scheduled, 200, "all sleeps were its own");
        engine
    };
    let (one, other) = (of(&first), of(&second));
    drop(first);
    wait_until("the engine ends with its runtime", || one.is_stopped());
    assert!(!other.is_stopped());
    assert_eq!(of_sleep(&second), Ok(()));
}

fn of_sleep(runtime: &Runtime) -> Result<(), SleepError> {
    runtime.run(async { tickless::sleep(MS).wait().await })
}

#[test]
fn an_engine_of_other_settings_takes_its_place_before_the_first_use() {
    let runtime = runtime();
    runtime.run(async {
        let build = || Engine::builder().shards(3).build_on_tokio().unwrap();
        build().enter_runtime().unwrap();
        assert_eq!(Engine::of_runtime().unwrap().shards(), 3);
        assert!(tickless::sleep(HOUR).now_or_never().is_none());
        assert_eq!(Engine::of_runtime().unwrap().stats().scheduled, 1);
        assert_eq!(build().enter_runtime(), Err(GlobalReason::RuntimeInUse));
    });
    // One that is not the runtime's own goes on after it.
    let clock = ManualClock::new();
    let engine = Engine::builder().manual_clock(&clock).shards(1).build().unwrap();
    assert_eq!(engine.enter_runtime(), Err(GlobalReason::NoRuntime));
    let another = Builder::new_multi_thread().enable_all().build().unwrap();
    another.run(async {
        engine.enter_runtime().unwrap();
        let sleep = spawn(tickless::sleep(HOUR));
        wait_until("it waits there", || engine.len() == 1);
        engine.advance(HOUR).unwrap();
        sleep.await.unwrap();
    });
    drop(another);
    assert!(!engine.is_stopped());
}

#[test]
fn what_is_entered_goes_before_the_runtimes_own() {
    let engine = Engine::builder().manual_clock(&ManualClock::new()).shards(1).build().unwrap();
    runtime().run(async {
        let _entered = engine.enter();
        assert_eq!(tickless::now(), engine.now());
    });
}

/// Its timers are those of the process's engine then.
#[test]
fn where_none_can_be_built_code_that_names_no_engine_goes_on() {
    let bare = Builder::new_current_thread().build().unwrap();
    bare.run(async {
        for _ in 0..2 {
            let begin = Instant::now();
            tickless::sleep(MS).await;
            assert!(begin.elapsed() >= MS);
            assert!(matches!(Engine::of_runtime(), Err(BuildError::RuntimeWithoutTimers)));
        }
    });
    assert!(matches!(Engine::of_runtime(), Err(BuildError::NoRuntime)));
    pollster::block_on(tickless::sleep(MS));
}

/// Its thread belongs to its own runtime, and goes on after the other one has ended.
#[test]
fn a_task_may_enter_another_runtime() {
    let (runtime, another) = (runtime(), runtime());
    let handle = another.handle().clone();
    let (half, at_half) = channel();
    let (goes_on, resumes) = oneshot::channel();
    let task = runtime.start(async move {
        for n in 0..50 {
            let mut sleep = {
                let _entered = (n % 3 == 0).then(|| handle.enter());
                tickless::sleep(MS / 10)
            };
            assert_eq!(sleep.wait().await, Ok(()));
        }
        half.send(()).unwrap();
        resumes.await.unwrap();
        for _ in 0..50 {
            assert_eq!(tickless::sleep(MS / 10).wait().await, Ok(()));
        }
    });
    at_half.recv().unwrap();
    drop(another);
    goes_on.send(()).unwrap();
    runtime.run(task).unwrap();
}

/// It may be found while it ends, and after that.
#[test]
fn in_a_runtime_that_has_shut_down_each_sleep_is_an_error() {
    let runtime = runtime();
    let handle = runtime.handle().clone();
    runtime.run(async { tickless::sleep(MS).await });
    drop(runtime);
    let _entered = handle.enter();
    for _ in 0..2 {
        let mut sleep = tickless::sleep(HOUR);
        let ended = pollster::block_on(sleep.wait());
        assert_eq!(ended, Err(SleepError::RuntimeEnded));
    }
}

/// One thread drops the engine, whose turn runs on another.
#[test]
fn its_own_task_may_end_the_runtime() {
    for _ in 0..20 {
        let runtime = runtime();
        let engine = runtime.run(async { Engine::of_runtime().unwrap() });
        let (ends, ended) = channel();
        let owned = Mutex::new(Some(runtime));
        let end = move || {
            owned.lock().unwrap().take().into_iter().for_each(Runtime::shutdown_background);
            ends.send(()).unwrap();
        };
        engine.schedule_detached(MS, end).unwrap();
        drop(engine);
        ended.recv().unwrap();
    }
}

/// tokio's workers stop one after another: the first drops the tasks, and with them perhaps the one
/// that keeps the engine, while another still polls a task.
#[test]
fn a_task_that_its_runtime_is_about_to_drop_hears_of_no_end() {
    for _ in 0..scaled(300) {
        let runtime = Builder::new_multi_thread().worker_threads(4).enable_all().build().unwrap();
        runtime.run(tickless::sleep(Duration::from_micros(1)));
        let tasks: Vec<_> = (0..8)
            .map(|_| {
                runtime.start(async {
                    loop {
                        let limit = tickless::timeout(HOUR, std::future::pending::<()>());
                        let pause = tickless::sleep(Duration::from_micros(50));
                        tokio::select! {
                            _ = limit => panic!("an hour has not passed"),
                            () = pause => {}
                        }
                    }
                })
            })
            .collect();
        std::thread::sleep(Duration::from_micros(300));
        drop(runtime);
        for task in tasks {
            let end = task.now_or_never().expect("the runtime has ended").unwrap_err();
            assert!(end.is_cancelled(), "{end}");
        }
    }
}

/// It is none that the runtime drops: the runtime waits for it.
#[test]
fn a_thread_that_blocks_on_a_sleep_hears_of_the_end_of_its_runtime() {
    for (in_place, by_tokio) in [(false, false), (false, true), (true, false), (true, true)] {
        let runtime = runtime();
        let engine = runtime.run(async { Engine::of_runtime().unwrap() });
        let (tell, told) = channel();
        let wait = move || {
            let wait = async { tickless::sleep(HOUR).wait().await };
            let handle = Handle::current();
            let end = if by_tokio { handle.block_on(wait) } else { pollster::block_on(wait) };
            tell.send(end).unwrap();
        };
        if in_place {
            runtime.start(async { tokio::task::block_in_place(wait) });
        } else {
            runtime.spawn_blocking(wait);
        }
        wait_until("it waits", || engine.len() == 1);
        runtime.shutdown_background();
        assert_eq!(told.recv_timeout(PATIENCE), Ok(Err(SleepError::RuntimeEnded)));
    }
}

#[test]
fn a_runtime_in_a_blocked_task_of_another_has_its_own_engine() {
    let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let task = runtime.start(async {
        for _ in 0..8 {
            tickless::sleep(Duration::from_micros(100)).await;
        }
        // It would take an hour by the clock of the outer runtime.
        tokio::task::block_in_place(|| paused(async { tickless::sleep(HOUR).await }));
    });
    runtime.run(task).unwrap();
}

#[test]
fn a_runtime_is_not_entered_by_the_engine_of_another() {
    let [one, other] =
        [(); 2].map(|()| Builder::new_current_thread().enable_all().build().unwrap());
    let engine = one.run(async { Engine::of_runtime().unwrap() });
    let entered = other.run(async { engine.enter_runtime() });
    assert_eq!(entered, Err(GlobalReason::OfRuntime));
}
