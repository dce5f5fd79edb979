//! Stops with a limit of time: what is stuck is told, nothing else is waited for, nothing is lost.

use std::cell::RefCell;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use support::boxed::Boxed;
use support::mpsc::{Receiver, Sender, channel};
use support::patience::PATIENCE;
use support::slow::Slow;
use support::threads::spawn;
use tickless::{Batch, Builder, Driver, Engine, Handler, Task};
use tickless_sync::Mutex;

const SHORT: Duration = Duration::from_millis(1);

const HOUR: Duration = Duration::from_secs(3600);

fn engine(shards: usize) -> Engine {
    Engine::builder().shards(shards).takeover(None).build().unwrap()
}

#[test]
fn an_engine_at_rest_stops_within_any_limit_that_is_long_enough() {
    for limit in [PATIENCE, Duration::MAX] {
        let engine = engine(2);
        engine.schedule_detached(HOUR, || ()).unwrap();
        let stopped = engine.stop_within(limit).unwrap();
        assert_eq!((stopped.returned.len(), stopped.running), (1, 0));
        assert!(engine.is_stopped());
    }
}

#[test]
fn what_waits_behind_a_task_that_is_stuck_comes_with_the_first_stop() {
    let engine = engine(1);
    let (slow, task) = Slow::task();
    let later = Duration::from_millis(20);
    let (ran, runs) = channel();
    engine.schedule_detached(later, task).unwrap();
    for number in 0..3 {
        let ran: Sender<i32> = ran.clone();
        engine.schedule_detached(later, move || ran.send(number).unwrap()).unwrap();
    }
    engine.schedule_detached(HOUR, || ()).unwrap();
    slow.has_begun();
    let first = engine.stop_within(SHORT).unwrap();
    assert_eq!(first.running, 1);
    assert!(engine.schedule_detached(SHORT, || ()).is_err(), "nothing gets in");
    let second = engine.stop_within(Duration::ZERO).unwrap();
    assert_eq!((second.returned.len(), second.running), (0, 1));
    slow.release();
    assert!(engine.stop().unwrap().is_empty());
    let ran = runs.try_iter().count();
    assert_eq!(first.returned.len() + ran, 4, "each of them once");
}

#[test]
fn only_shards_that_run_a_task_count_as_running() {
    let engine = Builder::new().shards(4).driver(Driver::Caller).build().unwrap();
    let (slow, task) = Slow::task();
    engine.bind_thread(2).unwrap();
    engine.schedule_detached(Duration::ZERO, task).unwrap();
    let same = engine.clone();
    let caller = spawn(move || while same.turn(2).is_ok_and(|turn| turn.fired == 0) {});
    slow.has_begun();
    assert_eq!(engine.stop_within(SHORT).unwrap().running, 1);
    slow.release();
    assert_eq!(engine.stop_within(PATIENCE).unwrap().running, 0);
    caller.join().unwrap();
}

/// A thread-local that stays until it is told to go, and tells that it has gone.
struct Staying(Receiver<()>, Sender<()>);

impl Drop for Staying {
    fn drop(&mut self) {
        self.0.recv().unwrap();
        self.1.send(()).unwrap();
    }
}

thread_local! {
    static STAYING: RefCell<Option<Staying>> = const { RefCell::new(None) };
}

#[test]
fn a_thread_in_its_last_destructors_runs_no_task_and_a_stop_without_a_limit_waits_for_it() {
    let engine = engine(1);
    let ((leave, may_leave), (go, gone)) = (channel(), channel());
    let staying = Staying(may_leave, go);
    let (begin, begun) = channel();
    let task = move || {
        STAYING.set(Some(staying));
        begin.send(()).unwrap();
    };
    engine.schedule_detached(SHORT, task).unwrap();
    begun.recv_timeout(PATIENCE).unwrap();
    assert_eq!(engine.stop_within(PATIENCE).unwrap().running, 0);
    assert!(gone.try_recv().is_err(), "it cannot have ended");
    leave.send(()).unwrap();
    engine.stop().unwrap();
    assert!(gone.try_recv().is_ok(), "the stop did not wait for the thread");
}

/// One before and one behind the task, in whichever order the batch has them.
#[test]
fn an_engine_that_is_owned_by_what_a_stop_found_behind_a_stuck_task_ends_with_it() {
    let engine = engine(1);
    let (slow, task) = Slow::task();
    let due = engine.now() + Duration::from_millis(20);
    let gone = Arc::new(());
    let own = || {
        let owner = (engine.clone(), gone.clone());
        engine.schedule_detached(due, move || drop(owner)).unwrap();
    };
    own();
    engine.schedule_detached(due, task).unwrap();
    own();
    slow.has_begun();
    drop(engine.stop_within(SHORT).unwrap());
    drop(engine);
    slow.release();
    while Arc::strong_count(&gone) > 1 {
        thread::yield_now();
    }
}

#[test]
fn an_engine_that_somebody_gave_up_waiting_for_is_dropped_without_waiting() {
    let (begin, begun) = channel::<()>();
    let (end, ends) = channel::<()>();
    let (ends, gone) = (Mutex::new(ends), Arc::new(()));
    let held = gone.clone();
    let handler = move |batch: Batch<'_, Boxed>| {
        let _held = &held;
        for payload in batch {
            begin.send(()).unwrap();
            let _ = ends.lock().unwrap().recv();
            drop(payload);
        }
    };
    let engine = Builder::new().shards(1).takeover(None).build_with_handler(handler).unwrap();
    let (told, drops): (Sender<()>, Receiver<()>) = channel();
    for _ in 0..3 {
        let told = told.clone();
        let payload = Boxed::on_drop(move || _ = told.send(()));
        engine.schedule_detached(Duration::from_millis(20), payload).unwrap();
    }
    begun.recv_timeout(PATIENCE).unwrap();
    let stopped = engine.stop_within(SHORT).unwrap();
    assert_eq!(stopped.running, 1);
    drop(stopped);
    // This does not wait, or it would do so for ever.
    drop((engine, told));
    end.send(()).unwrap();
    // The task that was stuck, and those behind it, which nobody claims.
    while drops.recv_timeout(PATIENCE).is_ok() {}
    while Arc::strong_count(&gone) > 1 {
        thread::yield_now();
    }
}

#[test]
fn a_batch_ends_when_the_engine_is_stopped() {
    let (report, reports) = channel();
    let (slow, task) = Slow::task();
    let handler = move |mut batch: Batch<'_, Task>| {
        let before = batch.len();
        batch.next().unwrap().run();
        let after = (batch.next().is_some(), batch.len(), batch.is_empty());
        report.send((before, after)).unwrap();
    };
    let engine = Builder::new().shards(1).takeover(None).build_with_handler(handler).unwrap();
    let due = engine.now() + Duration::from_millis(20);
    engine.schedule(due, task).map(drop).unwrap();
    for _ in 0..5 {
        engine.schedule(due, || panic!("it is not to run")).map(drop).unwrap();
    }
    slow.has_begun();
    let first = engine.stop_within(SHORT).unwrap();
    slow.release();
    let rest = engine.stop().unwrap();
    // All that were behind it in its batch come with the first stop, which does not wait.
    assert_eq!((first.returned.len(), rest.len()), (5, 0));
    let (_, after) = reports.recv_timeout(PATIENCE).unwrap();
    assert_eq!(after, (false, 0, true));
    let stats = engine.stats();
    assert_eq!((stats.fired, stats.returned, stats.pending), (1, 5, 0));
}

/// Waits in its drop until it is released.
struct Leaving {
    leave: Sender<()>,
    released: Mutex<Receiver<()>>,
}

impl Handler<u64> for Leaving {
    fn fire(&self, _: Batch<'_, u64>) {}
}

impl Drop for Leaving {
    fn drop(&mut self) {
        self.leave.send(()).unwrap();
        _ = self.released.lock().unwrap().recv();
    }
}

#[test]
fn who_drops_the_handler_counts_as_running() {
    let ((leave, leaving), (release, released)) = (channel(), channel());
    let handler = Leaving { leave, released: Mutex::new(released) };
    let engine = Builder::new().shards(1).build_with_handler(handler).unwrap();
    let same = engine.clone();
    let first = spawn(move || same.stop().unwrap());
    leaving.recv_timeout(PATIENCE).unwrap();
    assert_eq!(engine.stop_within(SHORT).unwrap().running, 1);
    release.send(()).unwrap();
    assert!(first.join().unwrap().is_empty());
    assert_eq!(engine.stop_within(PATIENCE).unwrap().running, 0);
}
