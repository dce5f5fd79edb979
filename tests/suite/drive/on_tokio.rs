//! An engine that belongs to a runtime of tokio: it follows the runtime's time, also where that is
//! paused, waits without a reactor or without timers of the runtime, and ends with the runtime.

use std::cell::RefCell;
use std::future::Future;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::{Duration, Instant};

use futures_util::FutureExt;
use futures_util::future::join_all;
use support::mpsc::channel;
use support::parking::block_on;
use support::patience::PATIENCE;
use support::until::wait_until;
use tickless::future::SleepError;
use tickless::{BuildError, Clock, Engine, ManualClock, ScheduleReason};
use tokio::runtime::{Builder, Runtime};
use tokio::time::Instant as TokioInstant;

use crate::on_runtime::{Runs, spawn};

const MS: Duration = Duration::from_millis(1);

const SECOND: Duration = Duration::from_secs(1);

const HOUR: Duration = Duration::from_secs(3600);

fn build() -> Result<Engine, BuildError> {
    Engine::builder().shards(2).build_on_tokio()
}

fn runtime() -> Runtime {
    Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap()
}

/// As in `#[tokio::test(start_paused = true)]`.
fn paused<F: Future>(body: F) -> F::Output {
    Builder::new_current_thread().enable_all().start_paused(true).build().unwrap().run(body)
}

#[test]
fn it_is_built_only_where_it_can_be_served() {
    assert!(matches!(build(), Err(BuildError::NoRuntime)));
    let bare = Builder::new_current_thread().build().unwrap();
    bare.run(async { assert!(matches!(build(), Err(BuildError::RuntimeWithoutTimers))) });
    let by_hand = Engine::builder().manual_clock(&ManualClock::new());
    let refused = runtime().run(async { by_hand.build_on_tokio() });
    assert!(matches!(refused, Err(BuildError::ManualClockWithThreads)));
}

#[test]
fn it_waits_by_the_reactor_or_by_the_timers_of_the_runtime_whichever_there_is() {
    let mut some = vec![
        Builder::new_current_thread().enable_time().build(),
        Builder::new_multi_thread().enable_time().build(),
    ];
    if cfg!(all(target_os = "linux", not(elsewhere))) {
        some.push(Builder::new_current_thread().enable_io().build());
        some.push(Builder::new_multi_thread().enable_io().build());
    }
    for runtime in some {
        runtime.unwrap().run(async {
            let engine = build().unwrap();
            let far = engine.schedule(HOUR, || ()).unwrap();
            for ms in [5, 1, 3] {
                let begin = Instant::now();
                spawn(engine.sleep(ms * MS)).await.unwrap();
                assert!(begin.elapsed() >= ms * MS);
            }
            assert!(far.cancel());
        });
    }
}

/// A clock of the builder's own, also one that counts suspended time.
#[test]
fn it_waits_by_the_clock_that_it_is_given() {
    let clocks = [Some(Clock::system()), Some(Clock::instant()), Clock::boottime().ok()];
    for clock in clocks.into_iter().flatten() {
        runtime().run(async {
            let engine = Engine::builder().clock(clock).build_on_tokio().unwrap();
            let begin = Instant::now();
            engine.sleep(3 * MS).await;
            assert!(begin.elapsed() >= 3 * MS);
        });
    }
}

/// A ring makes the task come when its timer is due, and the hook that is rung for that rings for
/// what is due earlier.
#[test]
fn a_hook_may_schedule_what_is_due_earlier() {
    runtime().run(async {
        let (fires, fired) = channel();
        let place = Arc::new(OnceLock::<Engine>::new());
        let (ours, is_first) = (place.clone(), AtomicBool::new(true));
        let hook = move |_| {
            if is_first.swap(false, Ordering::SeqCst) {
                let fires = fires.clone();
                let engine = ours.get().unwrap();
                engine.schedule_detached(2 * MS, move || fires.send(()).unwrap()).unwrap();
            }
        };
        let engine = Engine::builder().shards(1).on_earlier(hook).build_on_tokio().unwrap();
        assert!(place.set(engine.clone()).is_ok());
        let (begun, mut far) = (Instant::now(), HOUR);
        while fired.try_recv().is_err() {
            assert!(begun.elapsed() < PATIENCE, "what the hook has scheduled does not fire");
            // (While the task is awake, nobody rings; nor for what is due later than the last one.)
            far = far * 99 / 100;
            engine.schedule_detached(far, || ()).unwrap();
            tokio::time::sleep(MS).await;
        }
        engine.stop().unwrap();
    });
}

/// One without a runtime, another's, and another runtime.
#[test]
fn executors_of_others_may_await_its_timers() {
    let runtime = runtime();
    let engine = runtime.run(async { build().unwrap() });
    pollster::block_on(engine.sleep(MS));
    smol::block_on(engine.sleep(MS));
    Builder::new_current_thread().build().unwrap().run(engine.sleep(MS));
    let late = pollster::block_on(engine.timeout(MS, std::future::pending::<()>()));
    assert_eq!(late.unwrap_err().cause(), None);
}

#[test]
fn in_paused_time_nothing_waits_and_all_ends_on_time() {
    paused(async {
        let engine = build().unwrap();
        let begin = TokioInstant::now();
        let sleeps = (0..100_u32).map(|n| {
            let sleep = engine.sleep(n * SECOND);
            async move {
                sleep.await;
                assert_eq!(begin.elapsed(), n * SECOND);
            }
        });
        join_all(sleeps.map(spawn)).await.into_iter().for_each(Result::unwrap);
        assert_eq!(begin.elapsed(), 99 * SECOND);
        engine.sleep(1_000 * HOUR).await;
        let mut interval = engine.interval(MS);
        for _ in 0..1_000 {
            interval.tick().await;
        }
        assert_eq!(begin.elapsed(), 1_000 * HOUR + 99 * SECOND + 999 * MS);
    });
}

/// On a thread of its own, which keeps the engine.
#[test]
fn in_paused_time_code_that_names_no_engine_follows_it_too() {
    let body = async {
        let engine = build().unwrap();
        engine.enter_thread();
        let begin = TokioInstant::now();
        spawn(tickless::sleep(HOUR)).await.unwrap();
        assert_eq!(begin.elapsed(), HOUR);
        assert!(tickless::timeout(HOUR, tokio::time::sleep(2 * HOUR)).await.is_err());
        assert_eq!((begin.elapsed(), engine.stats().fired), (2 * HOUR, 2));
    };
    thread::spawn(move || paused(body)).join().unwrap();
}

/// The two kinds of timers in turn, and in one another.
#[test]
fn in_paused_time_its_timers_and_those_of_the_runtime_keep_their_order() {
    paused(async {
        let engine = build().unwrap();
        let begin = TokioInstant::now();
        let work = async {
            for _ in 0..500 {
                tokio::time::sleep(SECOND).await;
                engine.sleep(SECOND).await;
            }
        };
        assert!(engine.timeout(3 * SECOND, work).await.is_err());
        assert_eq!(begin.elapsed(), 3 * SECOND);
        let slow = tokio::time::sleep(5 * SECOND);
        assert!(engine.timeout(6 * SECOND, slow).await.is_ok());
        let late = engine.sleep(5 * SECOND);
        assert!(tokio::time::timeout(4 * SECOND, late).await.is_err());
        assert_eq!(begin.elapsed(), 12 * SECOND);
    });
}

#[test]
fn it_follows_time_that_is_moved_by_hand() {
    paused(async {
        let engine = build().unwrap();
        let before = engine.now();
        tokio::time::advance(HOUR).await;
        assert_eq!(engine.now() - before, HOUR);
        let sleep = spawn(engine.sleep(HOUR));
        tokio::task::yield_now().await;
        tokio::time::advance(HOUR - MS).await;
        assert!(!sleep.is_finished());
        tokio::time::advance(MS).await;
        sleep.await.unwrap();
        // Other threads read the same time.
        let theirs = engine.clone();
        let now = tokio::task::spawn_blocking(move || theirs.now()).await.unwrap();
        assert_eq!(now, engine.now());
        // Time goes on, from there.
        tokio::time::resume();
        let begin = Instant::now();
        engine.sleep(3 * MS).await;
        assert!(begin.elapsed() >= 3 * MS && engine.now() - before >= 2 * HOUR);
    });
}

/// The engine already waits by the reactor.
#[cfg(debug_assertions)]
#[test]
fn time_may_be_paused_later() {
    let runtime = Builder::new_current_thread().enable_all().build().unwrap();
    runtime.run(async {
        let engine = build().unwrap();
        let far = engine.schedule(10 * HOUR, || ()).unwrap();
        engine.sleep(MS).await;
        tokio::time::pause();
        let begin = TokioInstant::now();
        engine.sleep(20 * HOUR).await;
        assert!(begin.elapsed() >= 20 * HOUR);
        drop(far);
    });
}

/// By the time that has been paused, and not by the system's, which has gone on since.
#[cfg(debug_assertions)]
#[test]
fn the_first_sleep_after_time_is_paused_is_not_early() {
    for by_hand in [false, true] {
        let runtime = Builder::new_current_thread().enable_all().build().unwrap();
        runtime.run(async {
            tickless::sleep(MS).await;
            tokio::time::pause();
            thread::sleep(3 * MS);
            if by_hand {
                let mut advance = Box::pin(tokio::time::advance(HOUR));
                assert!((&mut advance).now_or_never().is_none());
            }
            let (begin, sleep) = (TokioInstant::now(), 2 * MS);
            tickless::sleep(sleep).await;
            let slept = begin.elapsed();
            assert!(slept >= sleep, "{slept:?}");
            let begin = TokioInstant::now();
            tickless::sleep_until((begin + sleep).into_std()).await;
            assert!(begin.elapsed() >= sleep);
        });
    }
}

#[cfg(debug_assertions)]
#[test]
fn time_may_be_paused_while_a_sleep_waits_and_nothing_else_is_scheduled() {
    for by_hand in [false, true] {
        let runtime = Builder::new_current_thread().enable_all().build().unwrap();
        runtime.run(async {
            let far = spawn(tickless::sleep(20 * HOUR));
            let sleep = spawn(tickless::sleep(HOUR));
            tickless::sleep(MS).await;
            tokio::time::pause();
            let begin = TokioInstant::now();
            if by_hand {
                tokio::time::advance(HOUR).await;
            }
            let limit = tokio::time::timeout(2 * HOUR, sleep);
            limit.await.expect("it ends in time").unwrap();
            assert!(begin.elapsed() >= HOUR - SECOND && !far.is_finished());
        });
    }
}

/// Work of 1,000 seconds, under a limit of three, was done in time by an engine that goes on by
/// itself.
#[cfg(debug_assertions)]
#[test]
fn where_time_is_paused_an_engine_that_does_not_follow_it_is_an_error() {
    let threads = Engine::builder().shards(1).build().unwrap();
    paused(async {
        let work = tokio::time::sleep(1_000 * SECOND);
        let refused = threads.timeout(3 * SECOND, work).await.unwrap_err();
        assert_eq!(refused.cause(), Some(ScheduleReason::RuntimePaused));
        assert_eq!(threads.sleep(MS).wait().await, Err(SleepError::RuntimePaused));
        // It is the runtime of the one who waits that counts.
        threads.schedule(MS, || ()).unwrap().cancel();
    });
    pollster::block_on(threads.sleep(MS));
    runtime().run(threads.sleep(MS));
}

#[cfg(debug_assertions)]
#[test]
fn where_time_is_paused_an_engine_of_another_runtime_is_an_error_too() {
    let threads = runtime();
    let single = Builder::new_current_thread().enable_all().build().unwrap();
    for other in [threads, single] {
        let engine = other.run(async { build().unwrap() });
        paused(async {
            assert_eq!(engine.sleep(MS).wait().await, Err(SleepError::RuntimePaused));
            tickless::sleep(MS).await;
        });
        other.run(engine.sleep(MS));
    }
}

/// Sleeps of other runtimes on it, those that come too late, and what is not a sleep.
#[test]
fn it_ends_with_its_runtime_and_says_so() {
    let first = runtime();
    let engine = first.run(async { build().unwrap() });
    let second = runtime();
    let (begins, begun) = channel();
    let mut sleep = engine.sleep(HOUR);
    let waits = second.start(async move {
        begins.send(()).unwrap();
        sleep.wait().await
    });
    begun.recv().unwrap();
    let (fires, _fired) = channel();
    engine.schedule_detached(HOUR, move || _ = fires.send(())).unwrap();
    wait_until("the sleep is pending", || engine.len() == 2);
    drop(first);
    assert_eq!(second.run(waits).unwrap(), Err(SleepError::RuntimeEnded));
    second.run(async {
        assert_eq!(engine.sleep(MS).wait().await, Err(SleepError::RuntimeEnded));
        let refused = engine.timeout(MS, std::future::pending::<()>()).await.unwrap_err();
        assert_eq!(refused.cause(), Some(ScheduleReason::RuntimeEnded));
    });
    assert!(SleepError::RuntimeEnded.to_string().contains("build one on each runtime"));
    assert!(engine.is_stopped() && engine.schedule(MS, || ()).is_err());
    assert_eq!(engine.stop().unwrap().len(), 1, "nothing is lost");
    let another = second.run(async { build().unwrap() });
    second.run(another.sleep(MS));
}

/// Of one that was polled, and of one that was not.
#[test]
fn a_sleep_that_outlives_its_engine_hears_of_the_runtime() {
    let runtime = runtime();
    let engine = runtime.run(async { build().unwrap() });
    let [mut polled, mut fresh] = [engine.sleep(HOUR), engine.sleep(HOUR)];
    assert!(polled.wait().now_or_never().is_none());
    drop(runtime);
    drop(engine);
    for sleep in [&mut polled, &mut fresh] {
        assert_eq!(pollster::block_on(sleep.wait()), Err(SleepError::RuntimeEnded));
    }
}

/// What stops by itself says so, as long as it is there.
#[test]
fn an_engine_that_is_stopped_before_its_runtime_says_that_it_has_stopped() {
    let runtime = runtime();
    let engine = runtime.run(async { build().unwrap() });
    engine.stop().unwrap();
    drop(runtime);
    assert_eq!(pollster::block_on(engine.sleep(HOUR).wait()), Err(SleepError::Stopped));
}

/// Does something when its thread ends.
struct AtTheEnd(Option<Box<dyn FnOnce()>>);

impl Drop for AtTheEnd {
    fn drop(&mut self) {
        self.0.take().unwrap()();
    }
}

/// A thread-local that was there before those of tokio goes after them. Then tokio tells no time,
/// and what panics ends the process.
#[test]
fn a_thread_that_ends_uses_engines_of_runtimes_whose_time_is_paused() {
    thread_local!(static DEED: RefCell<Option<AtTheEnd>> = const { RefCell::new(None) });
    let runtime = Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
    let engine = runtime.run(async { build().unwrap() });
    let threads = Engine::builder().shards(1).build().unwrap();
    let (handle, (tell, told)) = (runtime.handle().clone(), channel());
    let same = engine.clone();
    let deed = move || {
        assert!(tokio::runtime::Handle::try_current().unwrap_err().is_thread_local_destroyed());
        same.schedule_detached(HOUR, || ()).unwrap();
        let mut sleep = Box::pin(same.sleep(HOUR));
        assert!((&mut sleep).now_or_never().is_none());
        assert!(same.schedule(HOUR, || ()).unwrap().cancel());
        pollster::block_on(threads.sleep(MS));
        tell.send(same.now()).unwrap();
    };
    let user = move || {
        DEED.set(Some(AtTheEnd(Some(Box::new(deed)))));
        drop(handle.enter());
    };
    thread::spawn(user).join().unwrap();
    assert_eq!(told.recv(), Ok(engine.now()));
    runtime.run(engine.sleep(HOUR));
    assert_eq!(engine.stats().fired, 2);
}

/// The runtime is dropped by a task of the engine, and by a thread while its timers fire.
#[test]
fn its_runtime_may_end_at_any_time() {
    for round in 0..20 {
        let runtime = runtime();
        let engine = runtime.run(async { build().unwrap() });
        for n in 0..50 {
            engine.schedule_detached(n * MS / 10, || ()).unwrap();
        }
        let (over, ended) = channel();
        let owned = std::sync::Mutex::new(Some(runtime));
        let end = move || {
            owned.lock().unwrap().take().into_iter().for_each(Runtime::shutdown_background);
            over.send(()).unwrap();
        };
        if round % 2 == 0 {
            engine.schedule_detached(2 * MS, end).unwrap();
        } else {
            end();
        }
        ended.recv().unwrap();
        wait_until("the engine stops", || engine.is_stopped());
        let left = engine.stop().unwrap().len() as u64;
        let stats = engine.stats();
        assert_eq!((stats.returned, stats.pending), (left, 0));
        assert_eq!(stats.scheduled, stats.fired + left);
    }
}

#[test]
fn the_runtimes_own_threads_fire_its_timers() {
    let mut threads = Builder::new_multi_thread();
    let threads = threads.worker_threads(2).thread_name("ours").enable_all().build();
    let runtimes = [threads, Builder::new_current_thread().enable_all().build()];
    for (runtime, name) in runtimes.into_iter().zip([Some("ours"), thread::current().name()]) {
        runtime.unwrap().run(async {
            let engine = Engine::of_runtime().unwrap();
            let (fires, fired) = tokio::sync::oneshot::channel();
            let fire = move || fires.send(thread::current().name().map(str::to_owned));
            engine.schedule_detached(MS, move || fire().unwrap()).unwrap();
            assert_eq!(fired.await.unwrap().as_deref(), name);
        });
    }
}

/// There is no thread to spare: the timers of all shards wait.
#[test]
fn a_slow_closure_delays_all_timers() {
    let runtime = runtime();
    let engine = runtime.run(async { build().unwrap() });
    let (tells, told) = channel();
    let (same, fired) = (engine.clone(), Arc::new(AtomicBool::new(false)));
    let slow = move || {
        for shard in [0, 1] {
            same.bind_thread(shard).unwrap();
            let fired = fired.clone();
            same.schedule_detached(MS, move || fired.store(true, Ordering::SeqCst)).unwrap();
        }
        std::thread::sleep(30 * MS);
        tells.send(fired.load(Ordering::SeqCst)).unwrap();
    };
    engine.schedule_detached(MS, slow).unwrap();
    assert!(!told.recv_timeout(PATIENCE).unwrap());
    wait_until("they fire after it", || engine.stats().fired == 3);
    assert_eq!(engine.stats().takeovers, 0);
}

/// It would wait for the task that serves the engine, which it keeps.
#[test]
fn a_closure_does_not_wait_for_a_timer_of_the_engine_that_runs_it() {
    let runtime = runtime();
    let engine = runtime.run(async { build().unwrap() });
    for shard in [0, 1] {
        let (mut sleep, (tells, told)) = (engine.sleep(HOUR), channel());
        engine.bind_thread(shard).unwrap();
        let closure = move || tells.send(block_on(sleep.wait())).unwrap();
        engine.schedule_detached(MS, closure).unwrap();
        let refused = told.recv_timeout(PATIENCE);
        assert_eq!(refused, Ok(Err(SleepError::Circular)), "on shard {shard}");
    }
    runtime.run(engine.sleep(MS));
}
