//! Doors on an engine whose dispatcher drops what is due: a task that is dropped unrun ends what
//! waits for it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::SeqCst};
use std::time::Duration;

use futures_util::FutureExt;
use support::compiled;
use support::mpsc;
use support::slow::Slow;
use tickless::dispatch::{Channel, Full, Pool};
use tickless::future::SleepError;
use tickless::periodic::{Attempt, Backoff, End, Heartbeat, Outcome, Retry, Schedule};
use tickless::{Batch, Builder, Engine, ManualClock, Task};
use tickless_purgatory::{Decision, Operation, Purgatory};
use tickless_sync::Mutex;

const SECOND: Duration = Duration::from_secs(1);

const HOUR: Duration = Duration::from_secs(3600);

/// An engine that drops every task, and what makes it do so.
struct Rig {
    engine: Engine,
    name: &'static str,
    _keeps: Box<dyn std::any::Any>,
}

impl Rig {
    fn new(
        name: &'static str,
        handler: impl tickless::Handler<Task> + 'static,
        keeps: impl std::any::Any,
    ) -> Rig {
        let builder = Builder::new().shards(1).manual_clock(&ManualClock::new());
        Rig { engine: builder.build_with_handler(handler).unwrap(), name, _keeps: Box::new(keeps) }
    }

    /// One after the other: each way in which dispatchers drop.
    fn each(check: impl Fn(&Rig)) {
        check(&Rig::new("handler", |_: Batch<'_, Task>| (), ()));

        let (sender, receiver) = crossbeam_channel::bounded(0);
        check(&Rig::new("full channel", Channel::dropping(sender), receiver));

        let (sender, receiver) = crossbeam_channel::bounded(0);
        drop(receiver);
        check(&Rig::new("channel without a receiver", Channel::blocking(sender), ()));

        let pool = Pool::builder(Full::Drop).threads(1).queue_bound(1).build().unwrap();
        let (slow, task) = Slow::task();
        pool.submit(Task::new(task)).unwrap();
        slow.has_begun();
        pool.submit(Task::new(|| ())).unwrap();
        let rig = Rig::new("full pool", pool.clone(), ());
        check(&rig);
        slow.release();
        drop((rig, pool));

        let pool = Pool::builder(Full::Block).threads(1).build().unwrap();
        pool.shutdown().unwrap();
        check(&Rig::new("pool that was shut down", pool, ()));

        {
            let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
            let dispatcher = tickless::dispatch::OnTokio::spawn(runtime.handle().clone());
            drop(runtime);
            check(&Rig::new("runtime that was shut down", dispatcher, ()));
        }
    }

    fn advance(&self, by: Duration) {
        self.engine.advance(by).unwrap();
        assert_eq!(self.engine.stats().panicked, 0, "{}", self.name);
    }
}

/// Counts how it ends; completes never.
#[derive(Default)]
struct Op {
    completed: AtomicU32,
    expired: AtomicU32,
}

impl Operation for Op {
    fn try_complete(&self) -> bool {
        false
    }

    fn on_complete(&self) {
        self.completed.fetch_add(1, SeqCst);
    }

    fn on_expire(&self) {
        self.expired.fetch_add(1, SeqCst);
    }
}

#[test]
fn an_operation_expires_where_its_task_is_dropped() {
    Rig::each(|rig| {
        let purgatory = Purgatory::<u32, Op>::with_engine(&rig.engine);
        let op = Arc::new(Op::default());
        let arrival = purgatory.try_complete_else_watch(op.clone(), [1, 2], SECOND).unwrap();
        let ticket = arrival.into_delayed().unwrap();
        rig.advance(SECOND / 2);
        assert_eq!(ticket.decision(), None, "{}", rig.name);
        rig.advance(SECOND / 2);
        assert_eq!(ticket.decision(), Some(Decision::Expired), "{}", rig.name);
        assert_eq!((op.completed.load(SeqCst), op.expired.load(SeqCst)), (1, 1), "{}", rig.name);
        assert!(purgatory.is_empty() && purgatory.watched() == 0);
        assert_eq!(purgatory.stats().expired, 1);
        drop(ticket);
        assert_eq!(Arc::strong_count(&op), 1);
    });
}

#[test]
fn an_operation_whose_engine_stopped_in_time_waits_until_its_task_is_dropped_too_late() {
    let builder = Builder::new().shards(1).manual_clock(&ManualClock::new());
    let engine = builder.build().unwrap();
    let purgatory = Purgatory::<u32, Op>::with_engine(&engine);
    let op = Arc::new(Op::default());
    purgatory.try_complete_else_watch(op.clone(), [1], SECOND).unwrap();
    drop(engine.stop().unwrap());
    assert_eq!((purgatory.len(), op.completed.load(SeqCst)), (1, 0), "it was not due");
    assert_eq!(purgatory.stop().len(), 1);
}

#[test]
fn a_sleep_is_ready_where_its_task_is_dropped() {
    Rig::each(|rig| {
        let mut sleep = rig.engine.sleep(SECOND);
        let mut late = rig.engine.timeout(SECOND, std::future::pending::<()>());
        let mut interval = rig.engine.interval(SECOND);
        assert!(interval.try_tick().now_or_never().is_some());
        assert!((&mut sleep).now_or_never().is_none() && (&mut late).now_or_never().is_none());
        assert!(interval.try_tick().now_or_never().is_none());
        rig.advance(SECOND);
        assert_eq!(sleep.wait().now_or_never(), Some(Ok::<(), SleepError>(())), "{}", rig.name);
        assert!(late.now_or_never().unwrap().is_err(), "{}", rig.name);
        assert!(interval.try_tick().now_or_never().unwrap().is_ok(), "{}", rig.name);
    });
}

#[test]
fn what_repeats_is_over_where_its_task_is_dropped() {
    Rig::each(|rig| {
        let captured = Arc::new(());
        let held = captured.clone();
        let periodic = Schedule::fixed_rate(SECOND)
            .start(&rig.engine, compiled::task(move |_| _ = &held))
            .unwrap();
        let (tell, told) = mpsc::channel();
        let attempt = |_| Err::<(), ()>(());
        let retry = Retry::new(Backoff::new(SECOND));
        let done = move |outcome| tell.send(outcome).unwrap();
        let retrying = retry.run(&rig.engine, attempt, done).unwrap();
        let held = captured.clone();
        let silence = compiled::silent(move || drop(held));
        let heartbeat = Heartbeat::new(&rig.engine, SECOND, silence).unwrap();
        rig.advance(SECOND);
        let ends = (periodic.end(), retrying.end(), heartbeat.end());
        let stopped = Some(End::Stopped);
        assert_eq!(ends, (stopped, stopped, stopped), "{}", rig.name);
        assert_eq!(told.try_recv(), Ok(Outcome::Ended { end: End::Stopped, attempts: 0 }));
        assert!(!heartbeat.is_alive() && !heartbeat.beat() && !heartbeat.has_fired());
        assert_eq!(Arc::strong_count(&captured), 1, "{}", rig.name);
        assert!(rig.engine.is_empty());
    });
}

#[test]
fn a_retry_ends_where_the_task_that_follows_the_limit_of_an_attempt_is_dropped() {
    // The first task runs and makes the attempt; from then on all are dropped.
    let first = AtomicBool::new(true);
    let handler = move |batch: Batch<'_, Task>| {
        for task in batch {
            if first.swap(false, SeqCst) {
                task.run();
            }
        }
    };
    let rig = Rig::new("handler", handler, ());
    let (tell, told) = mpsc::channel();
    let attempts = Mutex::new(Vec::<Attempt<(), ()>>::new());
    let retry = Retry::new(Backoff::new(SECOND)).attempts(1).attempt_timeout(SECOND);
    let keep = move |attempt| attempts.lock().unwrap().push(attempt);
    let done = move |outcome| tell.send(outcome).unwrap();
    retry.start(&rig.engine, keep, done).unwrap();
    rig.advance(Duration::ZERO);
    assert!(told.try_recv().is_err());
    rig.advance(SECOND);
    assert_eq!(told.try_recv(), Ok(Outcome::Ended { end: End::Stopped, attempts: 1 }));
}

#[test]
fn a_key_is_free_where_its_task_is_dropped() {
    use tickless_keyed::{KeyedTimers, Scheduled};

    Rig::each(|rig| {
        let timers = KeyedTimers::<u32>::with_engine(&rig.engine);
        let captured = Arc::new(());
        let held = captured.clone();
        timers.schedule_keyed(1, SECOND, move || drop(held)).unwrap();
        timers.schedule_keyed(2, HOUR, || ()).unwrap();
        rig.advance(SECOND);
        assert!(!timers.contains_key(&1) && timers.len() == 1, "{}", rig.name);
        assert_eq!(Arc::strong_count(&captured), 1, "{}", rig.name);
        assert_eq!(timers.schedule_keyed(1, HOUR, || ()).unwrap(), Scheduled::New);
        // One that is moved, and so has two tickets.
        assert_eq!(timers.reset(&2, SECOND), Ok(()));
        rig.advance(SECOND);
        assert!(timers.contains_key(&1) && !timers.contains_key(&2), "{}", rig.name);
    });
}
