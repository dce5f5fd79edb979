//! A runtime of tokio's whose time is paused, and an engine that it serves: time moves when nothing
//! else is left to do, and not before. Tasks, sockets and threads of the runtime hold it; a thread
//! from outside that waits for the engine moves it.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use futures_util::poll;
use support::mpsc;
use tickless::Engine;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Builder;
use tokio::sync::oneshot;
use tokio::task::{spawn_blocking, yield_now};
use tokio::time::Instant;

use crate::on_runtime::{Runs, spawn};

const MS: Duration = Duration::from_millis(1);

const SECOND: Duration = Duration::from_secs(1);

const HOUR: Duration = Duration::from_secs(3600);

/// As in `#[tokio::test(start_paused = true)]`, with an engine.
fn paused<F: Future>(body: impl FnOnce(Engine) -> F) -> F::Output {
    let mut builder = Builder::new_current_thread();
    let runtime = builder.enable_all().start_paused(true).build().unwrap();
    runtime.run(async {
        let engine = Engine::builder().shards(2).build_on_tokio().unwrap();
        body(engine).await
    })
}

#[test]
fn a_limit_waits_for_a_task_that_has_something_to_do() {
    paused(async |engine| {
        let begin = Instant::now();
        for yields in [0, 1, 100] {
            let work = spawn(async move {
                for _ in 0..yields {
                    yield_now().await;
                }
                yields
            });
            assert_eq!(engine.timeout(MS, work).await.unwrap().unwrap(), yields);
        }
        assert_eq!(begin.elapsed(), Duration::ZERO);
        // What it says is not all that it does.
        let work = spawn(engine.sleep(HOUR));
        assert!(engine.timeout(HOUR / 2, work).await.is_err());
        assert_eq!(begin.elapsed(), HOUR / 2);
    });
}

/// Each step is caused by the one before, through a socket.
#[test]
fn data_on_its_way_comes_before_any_limit() {
    paused(async |engine| {
        let begin = Instant::now();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let echo = spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut byte = [0];
            while stream.read_exact(&mut byte).await.is_ok() {
                stream.write_all(&byte).await.unwrap();
            }
        });
        let talk = async {
            let mut stream = TcpStream::connect(address).await.unwrap();
            for sent in 0..=u8::MAX {
                stream.write_all(&[sent]).await.unwrap();
                assert_eq!(stream.read_u8().await.unwrap(), sent);
            }
        };
        engine.timeout(MS, talk).await.unwrap();
        echo.await.unwrap();
        assert_eq!(begin.elapsed(), Duration::ZERO);
    });
}

#[test]
fn a_blocking_task_of_the_runtime_holds_time() {
    paused(async |engine| {
        let begin = Instant::now();
        let (go, may_go) = mpsc::channel();
        let work = spawn_blocking(move || may_go.recv().unwrap());
        let mut limited = Box::pin(engine.timeout(HOUR, work));
        assert!(poll!(&mut limited).is_pending());
        let outside = thread::spawn(move || go.send(7).unwrap());
        assert_eq!(limited.await.unwrap().unwrap(), 7);
        outside.join().unwrap();
        assert_eq!(begin.elapsed(), Duration::ZERO);
    });
}

#[test]
fn a_thread_from_outside_that_waits_moves_time() {
    const ROUNDS: u32 = 50;
    paused(async |engine| {
        let begin = Instant::now();
        let (done, is_done) = oneshot::channel();
        let theirs = engine.clone();
        let outside = thread::spawn(move || {
            for _ in 0..ROUNDS {
                pollster::block_on(theirs.sleep(HOUR));
            }
            done.send(()).unwrap();
        });
        is_done.await.unwrap();
        outside.join().unwrap();
        assert_eq!(begin.elapsed(), HOUR * ROUNDS);
    });
}

#[test]
fn what_an_advance_makes_due_has_fired_when_it_returns() {
    paused(async |engine| {
        let mut sleep = engine.sleep(HOUR);
        assert!(poll!(&mut sleep).is_pending());
        tokio::time::advance(HOUR - MS).await;
        assert!(poll!(&mut sleep).is_pending());
        tokio::time::advance(MS).await;
        assert!(poll!(&mut sleep).is_ready());
        let (fires, fired) = mpsc::channel();
        engine.schedule_detached(HOUR, move || fires.send(()).unwrap()).unwrap();
        tokio::time::advance(HOUR * 2).await;
        assert!(fired.try_recv().is_ok());
    });
}

/// A turn of the task fires 256 timers at most, and files as many: of 600 that were due, none had
/// fired.
#[test]
fn what_an_advance_makes_due_has_fired_however_much_that_is() {
    for (count, delay) in [(200, SECOND), (600, SECOND), (5_000, SECOND), (5_000, HOUR)] {
        paused(async |engine| {
            let fired = Arc::new(AtomicUsize::new(0));
            for _ in 0..count {
                let fired = fired.clone();
                let fire = move || _ = fired.fetch_add(1, Ordering::Relaxed);
                engine.schedule_detached(delay, fire).unwrap();
            }
            yield_now().await;
            tokio::time::advance(delay).await;
            assert_eq!(fired.load(Ordering::Relaxed), count);
        });
    }
}

/// The runtime's clock moves by whole milliseconds, from where it was stopped.
#[test]
fn a_sleep_takes_no_longer_than_one_of_the_runtime_wherever_time_was_stopped() {
    Builder::new_current_thread().enable_all().build().unwrap().run(async {
        tokio::time::pause();
        for n in 1..200 {
            let delay = n * Duration::from_micros(77);
            let begin = Instant::now();
            tokio::time::sleep(delay).await;
            let theirs = begin.elapsed();
            tickless::sleep(delay).await;
            let ours = begin.elapsed() - theirs;
            assert!(delay <= ours && ours <= theirs, "{delay:?}: {ours:?}, and not {theirs:?}");
        }
    });
}
