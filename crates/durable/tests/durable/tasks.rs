//! Handlers that are asynchronous: how many run, how they end, and what ends them.

#![cfg(feature = "tokio")]

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::{Duration, SystemTime};

use tickless_durable::store::{Disk, Fault};
use tickless_durable::{Backoff, Builder, Error, Firing, StopError};
use tokio::runtime::Runtime;
use tokio::sync::{Semaphore, mpsc};

use crate::common::until::wait_until;

const HOUR: Duration = Duration::from_secs(3600);

fn runtime() -> Runtime {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    builder.worker_threads(2).enable_time().build().unwrap()
}

fn builder() -> Builder {
    Builder::new().backoff(Backoff::new(Duration::from_millis(2)).factor(1.0))
}

fn now() -> SystemTime {
    SystemTime::now()
}

/// Counts itself as long as it lives.
struct Alive(Arc<AtomicUsize>);

impl Alive {
    fn new(count: &Arc<AtomicUsize>) -> Alive {
        count.fetch_add(1, SeqCst);
        Alive(count.clone())
    }
}

impl Drop for Alive {
    fn drop(&mut self) {
        self.0.fetch_sub(1, SeqCst);
    }
}

#[test]
fn many_tasks_wait_at_a_time_and_no_more_than_may() {
    const TASKS: usize = 50;
    let (runtime, disk) = (runtime(), Disk::default());
    let (alive, gate) = (Arc::new(AtomicUsize::new(0)), Arc::new(Semaphore::new(0)));
    let (sender, mut fired) = mpsc::unbounded_channel();
    let (counted, theirs) = (alive.clone(), gate.clone());
    let handler = move |firing: Firing<String>| {
        let (alive, gate, sender) = (Alive::new(&counted), theirs.clone(), sender.clone());
        async move {
            gate.acquire().await.unwrap().forget();
            drop(alive);
            sender.send(firing.payload().clone())
        }
    };
    let timers = builder().open_async(disk.open(), runtime.handle(), TASKS, handler).unwrap();
    for n in 0..TASKS * 2 {
        drop(timers.schedule(now(), n.to_string()).unwrap());
    }
    wait_until("as many run as may", || alive.load(SeqCst) == TASKS);
    let stats = timers.stats();
    assert_eq!((stats.fired, timers.stats().failed), (TASKS as u64, 0));
    gate.add_permits(TASKS * 2);
    let fired: BTreeSet<String> = (0..TASKS * 2).map(|_| fired.blocking_recv().unwrap()).collect();
    assert_eq!(fired.len(), TASKS * 2);
    timers.stop().unwrap();
    assert!(disk.timers().is_empty() && alive.load(SeqCst) == 0);
}

#[test]
fn a_task_that_fails_or_panics_is_tried_again_and_then_no_more() {
    let (runtime, disk) = (runtime(), Disk::default());
    let (sender, mut fired) = mpsc::unbounded_channel();
    let handler = move |firing: Firing<String>| {
        sender.send(firing.attempt()).unwrap();
        // One panics before there is a future, and one in it.
        assert!(firing.attempt() != 1, "at once");
        async move {
            tokio::task::yield_now().await;
            assert!(firing.attempt() != 2, "later");
            Err::<(), _>(format!("failure {}", firing.attempt()))
        }
    };
    let builder = builder().attempts(3);
    let timers = builder.open_async(disk.open(), runtime.handle(), 4, handler).unwrap();
    let id = timers.schedule(now(), "a".to_owned()).unwrap().wait().unwrap();
    let attempts: Vec<u32> = (0..3).map(|_| fired.blocking_recv().unwrap()).collect();
    assert_eq!(attempts, [1, 2, 3]);
    wait_until("it is a dead letter", || timers.stats().buried == 1);
    let letter = timers.dead_letters(None, 9).wait().unwrap().pop().unwrap();
    assert_eq!((letter.id(), letter.error.as_str()), (id, "failure 3"));
    assert_eq!(timers.stats().failed, 3);
    timers.stop().unwrap();
}

#[test]
fn a_handler_schedules_and_waits_without_a_thread_of_its_own() {
    let (runtime, disk) = (runtime(), Disk::default());
    let (sender, mut fired) = mpsc::unbounded_channel();
    let handler = move |firing: Firing<String>| {
        let sender = sender.clone();
        async move {
            let timers = firing.timers();
            assert!(matches!(timers.stop(), Err(StopError::InHandler)));
            if firing.payload() == "parent" {
                timers.schedule(now(), "child".to_owned()).unwrap().await?;
            }
            sender.send(firing.payload().clone()).unwrap();
            Ok::<(), Error>(())
        }
    };
    let timers = builder().open_async(disk.open(), runtime.handle(), 4, handler).unwrap();
    drop(timers.schedule(now(), "parent".to_owned()).unwrap());
    let both: BTreeSet<String> = (0..2).map(|_| fired.blocking_recv().unwrap()).collect();
    assert_eq!(both, BTreeSet::from(["child".to_owned(), "parent".to_owned()]));
    timers.stop().unwrap();
}

/// A service whose tasks never end by themselves.
fn hanging(
    runtime: &Runtime,
    disk: &Disk,
    builder: Builder,
) -> (tickless_durable::Durable<String>, Arc<AtomicUsize>) {
    let alive = Arc::new(AtomicUsize::new(0));
    let counted = alive.clone();
    let handler = move |_: Firing<String>| {
        let alive = Alive::new(&counted);
        async move {
            std::future::pending::<()>().await;
            drop(alive);
            Ok::<(), String>(())
        }
    };
    let timers = builder.open_async(disk.open(), runtime.handle(), 9, handler).unwrap();
    for n in 0..3 {
        timers.schedule(now(), n.to_string()).unwrap().wait().unwrap();
    }
    wait_until("they run", || alive.load(SeqCst) == 3);
    (timers, alive)
}

#[test]
fn tasks_end_with_their_store() {
    let (runtime, disk) = (runtime(), Disk::default());
    let (timers, alive) = hanging(&runtime, &disk, builder());
    disk.fail_next(Fault::Lost);
    assert!(timers.schedule(now() + HOUR, "x".to_owned()).unwrap().wait().is_err());
    wait_until("they are aborted", || alive.load(SeqCst) == 0);
    assert!(matches!(timers.stop(), Err(StopError::Store(_))));
    assert_eq!(disk.timers().len(), 3, "they come again");
}

#[test]
fn tasks_that_an_end_leaves_behind_are_aborted_and_their_timers_come_again() {
    let (runtime, disk) = (runtime(), Disk::default());
    let (timers, alive) = hanging(&runtime, &disk, builder());
    assert_eq!(timers.stop_within(Duration::from_millis(1)).unwrap(), 3);
    wait_until("they are aborted", || alive.load(SeqCst) == 0);
    assert!(timers.failure().is_none());
    assert_eq!(disk.timers().len(), 3);
    // The same by a limit of each.
    let (timers, alive) =
        hanging(&runtime, &Disk::default(), builder().handler_limit(Duration::from_millis(1)));
    wait_until("they are told", || timers.stats().stuck == 3);
    timers.stop().unwrap();
    wait_until("they are aborted", || alive.load(SeqCst) == 0);
}

#[test]
fn a_runtime_that_ends_fails_the_service_and_loses_no_timer() {
    let (runtime, disk) = (runtime(), Disk::default());
    let told = Arc::new(AtomicUsize::new(0));
    let count = told.clone();
    let telling = builder().on_failure(move |error| {
        assert!(error.to_string().contains("runtime"));
        count.fetch_add(1, SeqCst);
    });
    let (timers, _alive) = hanging(&runtime, &disk, telling);
    runtime.shutdown_background();
    wait_until("it is told", || told.load(SeqCst) > 0);
    assert!(timers.failure().unwrap().to_string().contains("runtime"));
    assert!(timers.stop().is_err());
    assert_eq!((disk.timers().len(), told.load(SeqCst)), (3, 1));
    assert!(disk.timers().iter().all(|record| record.attempt == 1));
}
