//! Wakers of an unusual kind: a clone may be another waker than its original.

use std::future::Future;
use std::mem::ManuallyDrop;
use std::pin::Pin;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, RawWaker, RawWakerVTable, Wake, Waker};
use std::time::Duration;

use tickless::{Engine, ManualClock};

/// A task: how often it was woken.
#[derive(Default)]
struct Task(AtomicU32);

impl Wake for Task {
    fn wake(self: Arc<Task>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// An executor that lends one waker to all its tasks. A clone is of the task that is polled.
struct Executor {
    polled: Mutex<Arc<Task>>,
}

static OF_ALL: RawWakerVTable = RawWakerVTable::new(clone, wake, wake, drop_lent);

/// # Safety
/// `executor` points to one.
unsafe fn clone(executor: *const ()) -> RawWaker {
    // SAFETY: the caller says so.
    let executor = unsafe { &*executor.cast::<Executor>() };
    let waker = ManuallyDrop::new(Waker::from(executor.polled.lock().unwrap().clone()));
    RawWaker::new(waker.data(), waker.vtable())
}

/// # Safety
/// As `clone`.
unsafe fn wake(executor: *const ()) {
    // SAFETY: the caller says so.
    let executor = unsafe { &*executor.cast::<Executor>() };
    executor.polled.lock().unwrap().clone().wake();
}

/// # Safety
/// None: nothing is owned.
unsafe fn drop_lent(_: *const ()) {}

impl Executor {
    fn poll(&self, task: &Arc<Task>, future: &mut (impl Future + Unpin)) -> bool {
        *self.polled.lock().unwrap() = task.clone();
        // SAFETY: the vtable's functions take what `data` points to, which outlives the poll; a
        // clone is a waker of its own.
        let waker = unsafe { Waker::new(std::ptr::from_ref(self).cast(), &OF_ALL) };
        let is_ready = Pin::new(future).poll(&mut Context::from_waker(&waker));
        matches!(is_ready, Poll::Ready(_))
    }
}

#[test]
fn the_task_that_polled_last_is_woken_although_all_tasks_lend_one_waker() {
    let clock = ManualClock::new();
    let engine = Engine::builder().manual_clock(&clock).build().unwrap();
    let tasks = [(); 3].map(|()| Arc::new(Task::default()));
    let executor = Executor { polled: Mutex::new(tasks[0].clone()) };
    let woken = || tasks.each_ref().map(|task| task.0.load(Ordering::Relaxed));
    let mut sleep = engine.sleep(Duration::from_secs(1));
    for last in [0, 1, 1, 2] {
        assert!(!executor.poll(&tasks[last], &mut sleep));
    }
    // Whoever is polled when it fires has nothing to do with it.
    *executor.polled.lock().unwrap() = tasks[1].clone();
    engine.advance(Duration::from_secs(1)).unwrap();
    assert_eq!(woken(), [0, 0, 1]);
    assert!(executor.poll(&tasks[2], &mut sleep));

    sleep.reset(Duration::from_secs(1));
    assert!(!executor.poll(&tasks[2], &mut sleep));
    assert!(!executor.poll(&tasks[0], &mut sleep));
    engine.advance(Duration::from_secs(1)).unwrap();
    assert_eq!(woken(), [1, 0, 1]);
}
