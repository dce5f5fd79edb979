//! What is the engine's own never passes through a handler: the wakes of futures, a heartbeat's
//! looks for beats and the limits of attempts run where they are due, whatever a handler does.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::task::{Context, Wake, Waker};
use std::time::Duration;

use futures_util::FutureExt;
use support::compiled;
use support::mpsc;
use support::patience::PATIENCE;
use support::polling::{bell, poll};
use support::slow::Slow;
use support::threads::spawn;
use tickless::dispatch::{Channel, Full, OnRayon, OnTokio, Pool};
use tickless::future::SleepError;
use tickless::periodic::{Heartbeat, Outcome, Retry};
use tickless::{Batch, Builder, Engine, Handler, ManualClock, Task};
use tickless_sync::Mutex;

use crate::on_runtime::Runs;

const SECOND: Duration = Duration::from_secs(1);

/// Calls `check` with an engine by hand for each way in which a handler keeps its tasks.
fn each(check: impl Fn(&str, &Engine)) {
    let with = |name: &str, handler: Box<dyn FnOnce(Builder) -> Engine>| {
        check(name, &handler(Builder::new().shards(1).manual_clock(&ManualClock::new())));
    };
    fn build(handler: impl Handler<Task> + 'static) -> Box<dyn FnOnce(Builder) -> Engine> {
        Box::new(|builder: Builder| builder.build_with_handler(handler).unwrap())
    }

    let kept = Arc::new(Mutex::new(Vec::new()));
    let keeps = kept.clone();
    with("handler", build(move |batch: Batch<'_, Task>| keeps.lock().unwrap().extend(batch)));

    let (sender, receiver) = crossbeam_channel::unbounded();
    with("channel", build(Channel::blocking(sender)));
    assert!(receiver.len() == 1, "the user's task alone");

    let pool = Pool::builder(Full::Block).threads(1).build().unwrap();
    let (slow, task) = Slow::task();
    pool.submit(Task::new(task)).unwrap();
    slow.has_begun();
    with("pool", build(pool.clone()));
    assert_eq!(pool.stats().queued, 1, "the user's task alone");
    slow.release();

    let rayon = Arc::new(rayon_core::ThreadPoolBuilder::new().num_threads(1).build().unwrap());
    let (slow, task) = Slow::task();
    rayon.spawn(task);
    slow.has_begun();
    with("rayon", build(OnRayon::spawn(rayon)));
    slow.release();

    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    with("tokio", build(OnTokio::spawn(runtime.handle().clone())));

    let runtime =
        tokio::runtime::Builder::new_current_thread().max_blocking_threads(1).build().unwrap();
    let (slow, task) = Slow::task();
    let busy = runtime.spawn_blocking(task);
    slow.has_begun();
    with("blocking threads", build(OnTokio::spawn_blocking(runtime.handle().clone())));
    slow.release();
    runtime.run(busy).unwrap();
}

#[test]
fn whatever_a_handler_does_with_its_tasks_the_futures_that_are_due_are_woken() {
    each(|name, engine| {
        let (woken, waker) = bell();
        let mut sleep = engine.sleep(SECOND);
        let mut late = engine.timeout(SECOND, std::future::pending::<()>());
        let mut interval = engine.interval(SECOND);
        let mut queue = engine.delay_queue();
        queue.insert("item", SECOND);
        assert!(interval.try_tick().now_or_never().is_some());
        assert!(poll(&mut sleep, &waker).is_pending() && poll(&mut late, &waker).is_pending());
        let cx = &mut Context::from_waker(&waker);
        assert!(pin!(interval.try_tick()).poll_unpin(cx).is_pending());
        assert!(queue.poll_expired(cx).is_pending());
        engine.schedule_detached(SECOND, || ()).unwrap();
        engine.advance(SECOND).unwrap();
        assert_eq!(woken.woken(), 4, "{name}");
        assert!(poll(&mut sleep, &waker).is_ready() && poll(&mut late, &waker).is_ready());
        assert!(interval.try_tick().now_or_never().is_some(), "{name}");
        assert!(queue.poll_expired(cx).is_ready(), "{name}");
    });
}

#[test]
fn whatever_a_handler_does_with_its_tasks_heartbeats_look_for_beats() {
    each(|name, engine| {
        let [alive, silent] =
            [(); 2].map(|()| Heartbeat::new(engine, SECOND, compiled::silent(|| ())).unwrap());
        for _ in 0..5 {
            engine.advance(SECOND * 2 / 3).unwrap();
            assert!(alive.beat(), "{name}");
        }
        assert!(alive.is_alive() && silent.has_fired(), "{name}");
        assert_eq!((engine.len(), silent.end()), (1, None), "{name}: the next look");
    });
}

#[test]
fn the_limit_of_an_attempt_does_not_wait_for_a_handler_and_what_comes_next_does() {
    let kept = Arc::new(Mutex::new(Vec::new()));
    let keeps = kept.clone();
    let handler = move |batch: Batch<'_, Task>| keeps.lock().unwrap().extend(batch);
    let builder = Builder::new().shards(1).manual_clock(&ManualClock::new());
    let engine = builder.build_with_handler(handler).unwrap();
    let advance = |by| {
        engine.advance(by).unwrap();
        kept.lock().unwrap().len()
    };
    let run_kept = || {
        let tasks = std::mem::take(&mut *kept.lock().unwrap());
        tasks.into_iter().for_each(Task::run);
    };
    let ((give, attempts), (tell, told)) = (mpsc::channel(), mpsc::channel());
    let attempt = move |attempt| give.send(attempt).unwrap();
    let done = move |outcome: Outcome<u32, ()>| tell.send(outcome).unwrap();
    let retry = Retry::new([SECOND]).attempt_timeout(SECOND);
    let retrying = retry.start(&engine, attempt, done).unwrap();
    for number in 1..=2 {
        assert_eq!(advance(SECOND * (number - 1)), 1, "an attempt is the handler's");
        run_kept();
        let attempt = attempts.recv().unwrap();
        assert_eq!((attempt.number(), attempt.is_over()), (number, false));
        assert_eq!(advance(SECOND), 1, "what comes next is the handler's");
        assert!(attempt.is_over());
        attempt.succeed(number);
        run_kept();
    }
    assert_eq!(told.recv(), Ok(Outcome::GaveUp { error: None, attempts: 2 }));
    assert!(!retrying.is_running());
    let stats = engine.stats();
    assert_eq!((stats.scheduled, stats.fired, stats.pending), (4, 4, 0));
}

#[test]
fn a_sleep_ends_with_the_stop_of_its_engine_although_the_receivers_remain() {
    let (sender, receiver) = crossbeam_channel::bounded(1);
    let engine = Builder::new().shards(1).build_with_handler(Channel::blocking(sender)).unwrap();
    // One fills the channel; the reaper waits for room, with the rest in hand.
    for _ in 0..3 {
        engine.schedule_detached(Duration::ZERO, || ()).unwrap();
    }
    let mut sleep = engine.sleep(Duration::from_secs(3600));
    assert!(sleep.wait().now_or_never().is_none());
    let awaiting = spawn(move || pollster::block_on(sleep.wait()));
    let stopper = {
        let engine = engine.clone();
        spawn(move || engine.stop().unwrap().len())
    };
    assert_eq!(awaiting.join().unwrap(), Err(SleepError::Stopped));
    let received = receiver.iter().count();
    assert_eq!(received + stopper.join().unwrap(), 3);
}

#[test]
fn a_task_on_the_only_thread_of_a_pool_may_await_a_sleep_of_its_engine() {
    fn check(handler: impl Handler<Task> + 'static) {
        let engine = Builder::new().build_with_handler(handler).unwrap();
        let (tell, told) = mpsc::channel();
        let own = engine.clone();
        let task = move || tell.send(pollster::block_on(own.sleep(SECOND / 500).wait())).unwrap();
        engine.schedule_detached(Duration::ZERO, task).unwrap();
        assert_eq!(told.recv_timeout(PATIENCE), Ok(Ok(())));
    }
    let rayon = Arc::new(rayon_core::ThreadPoolBuilder::new().num_threads(1).build().unwrap());
    check(OnRayon::spawn(rayon));
    let runtime =
        tokio::runtime::Builder::new_current_thread().max_blocking_threads(1).build().unwrap();
    check(OnTokio::spawn_blocking(runtime.handle().clone()));
}

/// Notes in which order it was woken, and panics if it is told to.
struct Noting {
    number: usize,
    panics: bool,
    notes: Arc<Mutex<Vec<usize>>>,
}

impl Wake for Noting {
    fn wake(self: Arc<Noting>) {
        self.notes.lock().unwrap().push(self.number);
        assert!(!self.panics, "a waker's panic");
    }
}

#[test]
fn wakes_keep_their_order_and_come_before_the_tasks_of_their_batch_and_a_panic_costs_one() {
    let notes = Arc::new(Mutex::new(Vec::new()));
    let handled = Arc::new(AtomicUsize::new(0));
    let counts = handled.clone();
    let handler = move |batch: Batch<'_, Task>| {
        counts.fetch_add(batch.len(), SeqCst);
        batch.for_each(Task::run);
    };
    let clock = ManualClock::new();
    let engine = Builder::new().shards(1).manual_clock(&clock).build_with_handler(handler).unwrap();
    let mut sleeps = Vec::new();
    for number in 0..7 {
        let noting = Noting { number, panics: number == 2, notes: notes.clone() };
        let mut sleep = engine.sleep(SECOND * (number as u32 + 1));
        assert!(poll(&mut sleep, &Waker::from(Arc::new(noting))).is_pending());
        sleeps.push(sleep);
        let task = notes.clone();
        let run = move || task.lock().unwrap().push(100 + number);
        engine.schedule_detached(SECOND * (number as u32 + 1), run).unwrap();
    }
    clock.advance(SECOND * 10);
    assert_eq!(engine.turn(0).unwrap().fired, 14);
    let in_order: Vec<_> = (0..7).chain(100..107).collect();
    assert_eq!(*notes.lock().unwrap(), in_order);
    assert_eq!((handled.load(SeqCst), engine.stats().panicked), (7, 1));
}
