//! WAKER: how the end of a timer reaches the task that waits for it.
//!
//! Who races: polls of a sleep, each by another task; the end of its timer, which rings; the sleep
//! that is dropped (it cancels, or comes too late), or moved and armed again.
//! Asserted: the thread that polled last and has to wait is woken, once, and nobody who polled
//! before; a poll that finds the end sees how the timer ended; a cancelled timer wakes nobody; a
//! late ring of an earlier timer ends no later one; each waker is dropped once; the slot is touched
//! by one thread at a time (the checker's cell sees to that).

use std::mem::ManuallyDrop;
use std::sync::Arc;
use std::task::{RawWaker, RawWakerVTable, Waker};

use loom_tests::check;
use tickless::protocol::signal::Signal;
use tickless::sync::{AtomicBool, Counter, Mutex, Ordering, UnsafeCell, thread};

/// A sleep, and the timer that it waits for.
struct Rig {
    signal: Signal,
    /// Of each timer in turn, whether its payload is still there: who takes it ends the timer.
    payloads: [AtomicBool; 2],
    /// What the timer's end leaves for the poll that finds it.
    outcome: UnsafeCell<u32>,
}

// SAFETY: the outcome is written by the thread that ends the timer, and read by who has found its
// end.
unsafe impl Sync for Rig {}

/// A task, and what became of its wakers. The counts are no part of the model.
#[derive(Default)]
struct Task {
    made: Counter,
    dropped: Counter,
    woken: Counter,
}

static VTABLE: RawWakerVTable = RawWakerVTable::new(clone, wake, wake_by_ref, drop_waker);

/// # Safety
/// As a waker's vtable asks: `task` is a reference that this borrows.
unsafe fn clone(task: *const ()) -> RawWaker {
    // SAFETY: the caller says so.
    let task = ManuallyDrop::new(unsafe { Arc::from_raw(task.cast::<Task>()) });
    task.made.fetch_add(1, Ordering::Relaxed);
    RawWaker::new(Arc::into_raw((*task).clone()).cast(), &VTABLE)
}

/// # Safety
/// As `clone`, and the reference ends here.
unsafe fn wake(task: *const ()) {
    // SAFETY: the caller says so.
    unsafe { wake_by_ref(task) };
    // SAFETY: the caller says so.
    unsafe { drop_waker(task) };
}

/// # Safety
/// As `clone`.
unsafe fn wake_by_ref(task: *const ()) {
    // SAFETY: the caller says so.
    let task = ManuallyDrop::new(unsafe { Arc::from_raw(task.cast::<Task>()) });
    task.woken.fetch_add(1, Ordering::Relaxed);
}

/// # Safety
/// As `clone`, and the reference ends here.
unsafe fn drop_waker(task: *const ()) {
    // SAFETY: the caller says so.
    let task = unsafe { Arc::from_raw(task.cast::<Task>()) };
    task.dropped.fetch_add(1, Ordering::Relaxed);
}

impl Task {
    fn waker(self: &Arc<Task>) -> Waker {
        // SAFETY: as the vtable's functions say: this one borrows its reference, and is not
        // dropped.
        let borrowed = unsafe { Waker::new(Arc::as_ptr(self).cast(), &VTABLE) };
        (*ManuallyDrop::new(borrowed)).clone()
    }

    fn woken(&self) -> u64 {
        self.woken.load(Ordering::Relaxed)
    }

    /// All its wakers are gone.
    fn settle(&self) {
        assert_eq!(self.made.load(Ordering::Relaxed), self.dropped.load(Ordering::Relaxed));
    }
}

impl Rig {
    /// A sleep that `task` has polled for the first time.
    fn armed(task: &Arc<Task>) -> Arc<Rig> {
        let rig = Rig {
            signal: Signal::new(),
            payloads: [AtomicBool::new(true), AtomicBool::new(true)],
            outcome: UnsafeCell::new(0),
        };
        assert!(rig.arm(task));
        Arc::new(rig)
    }

    /// Gets ready for another timer; whether the last one has let go.
    fn arm(&self, task: &Arc<Task>) -> bool {
        // SAFETY: the sleep makes one call at a time.
        unsafe { self.signal.arm(&task.waker()) }
    }

    /// The timer's end, if nobody was faster: on the reaper's thread.
    fn fire(&self, timer: usize) {
        if self.take_payload(timer) {
            self.set_outcome(7);
            self.signal.ring().into_iter().for_each(Waker::wake);
        }
    }

    /// Cancels the first timer; whether it was in time.
    fn cancel(&self) -> bool {
        let is_cancelled = self.take_payload(0);
        if is_cancelled {
            // SAFETY: the sleep makes one call at a time, and has what would ring.
            unsafe { self.signal.hush() };
            assert!(self.signal.ring().is_none(), "the payload's drop wakes nobody");
        }
        is_cancelled
    }

    fn take_payload(&self, timer: usize) -> bool {
        self.payloads[timer].swap(false, Ordering::AcqRel)
    }

    fn set_outcome(&self, outcome: u32) {
        // SAFETY: the caller ends the timer, or arms it.
        self.outcome.with_mut(|known| unsafe { *known = outcome });
    }

    /// A poll; whether it has to wait. One that need not knows how the timer ended.
    fn poll(&self, task: &Arc<Task>) -> bool {
        let waits = self.signal.register(&task.waker());
        if !waits {
            // SAFETY: the timer has ended.
            self.outcome.with_mut(|outcome| assert_eq!(unsafe { *outcome }, 7));
        }
        waits
    }
}

fn tasks<const N: usize>() -> [Arc<Task>; N] {
    [(); N].map(|()| Arc::default())
}

fn firing(rig: &Arc<Rig>, timer: usize) -> thread::JoinHandle<()> {
    let rig = rig.clone();
    thread::spawn(move || rig.fire(timer))
}

#[test]
fn the_task_that_polled_last_is_woken() {
    check(3, || {
        let tasks: [_; 3] = tasks();
        let rig = Rig::armed(&tasks[0]);
        let reaper = firing(&rig, 0);
        let mut last = Some(0);
        for next in [1, 2] {
            if last.is_some() {
                last = rig.poll(&tasks[next]).then_some(next);
            }
        }
        reaper.join().unwrap();
        if let Some(last) = last {
            assert_eq!(tasks[last].woken(), 1, "a lost wake-up");
        }
        assert!(tasks.iter().map(|task| task.woken()).sum::<u64>() <= 1);
        drop(rig);
        tasks.iter().for_each(|task| task.settle());
    });
}

#[test]
fn a_task_that_polls_again_is_woken_once() {
    check(3, || {
        let [task] = tasks();
        let rig = Rig::armed(&task);
        let reaper = firing(&rig, 0);
        let waits = rig.poll(&task) && rig.poll(&task);
        reaper.join().unwrap();
        assert!(task.woken() <= 1 && (task.woken() == 1 || !waits));
        drop(rig);
        task.settle();
    });
}

#[test]
fn a_sleep_goes_from_task_to_task_on_their_threads() {
    check(3, || {
        let tasks: [_; 2] = tasks();
        let rig = Rig::armed(&tasks[0]);
        let reaper = firing(&rig, 0);
        let (of_other, other) = (rig.clone(), tasks[1].clone());
        let waits = thread::spawn(move || of_other.poll(&other)).join().unwrap();
        let waits = waits && rig.poll(&tasks[0]);
        reaper.join().unwrap();
        assert!(!waits || (tasks[0].woken(), tasks[1].woken()) == (1, 0));
        drop(rig);
        tasks.iter().for_each(|task| task.settle());
    });
}

#[test]
fn two_tasks_take_turns_at_a_sleep() {
    check(3, || {
        let tasks: [_; 3] = tasks();
        let rig = Rig::armed(&tasks[0]);
        // Who polled last and waits; it guards the sleep, of which there is one.
        let last = Arc::new(Mutex::new(Some(0)));
        let turn = |rig: &Rig, last: &Mutex<Option<usize>>, task: &Arc<Task>, number| {
            let mut last = last.lock().unwrap();
            if last.is_some() {
                *last = rig.poll(task).then_some(number);
            }
        };
        let (of_other, others_last, other) = (rig.clone(), last.clone(), tasks[1].clone());
        let other = thread::spawn(move || turn(&of_other, &others_last, &other, 1));
        let reaper = firing(&rig, 0);
        turn(&rig, &last, &tasks[2], 2);
        other.join().unwrap();
        reaper.join().unwrap();
        let last = *last.lock().unwrap();
        assert!(last.is_none_or(|last| tasks[last].woken() == 1), "a lost wake-up");
        assert!(tasks.iter().map(|task| task.woken()).sum::<u64>() <= 1);
        drop(rig);
        tasks.iter().for_each(|task| task.settle());
    });
}

#[test]
fn a_sleep_is_dropped_while_it_fires() {
    check(3, || {
        let tasks: [_; 2] = tasks();
        let rig = Rig::armed(&tasks[0]);
        let reaper = firing(&rig, 0);
        let waits = rig.poll(&tasks[1]);
        let is_cancelled = rig.cancel();
        drop(rig);
        reaper.join().unwrap();
        let woken = tasks.iter().map(|task| task.woken()).sum::<u64>();
        assert!(waits || !is_cancelled, "it has fired");
        assert!(if is_cancelled { woken == 0 } else { woken <= 1 });
        assert!(is_cancelled || !waits || tasks[1].woken() == 1);
        tasks.iter().for_each(|task| task.settle());
    });
}

#[test]
fn a_sleep_that_has_fired_is_armed_again() {
    check(3, || {
        let tasks: [_; 3] = tasks();
        let mut rig = Rig::armed(&tasks[0]);
        let first = firing(&rig, 0);
        // It is moved, unless it is cancelled first; the payload says that it has fired.
        if rig.cancel() {
            assert!(rig.arm(&tasks[1]));
        } else if !rig.arm(&tasks[1]) {
            rig = Rig::armed(&tasks[1]);
        }
        assert!(rig.signal.register(&tasks[1].waker()), "a stale ring");
        rig.set_outcome(0);
        let second = firing(&rig, 1);
        let waits = rig.poll(&tasks[2]);
        second.join().unwrap();
        assert!(!waits || tasks[2].woken() == 1);
        assert!(tasks[1].woken() + tasks[2].woken() <= 1);
        drop(rig);
        first.join().unwrap();
        tasks.iter().for_each(|task| task.settle());
    });
}

#[test]
fn an_end_that_a_poll_has_found_may_be_followed_by_the_next_timer() {
    check(3, || {
        let tasks: [_; 3] = tasks();
        let mut rig = Rig::armed(&tasks[0]);
        let first = firing(&rig, 0);
        if !rig.poll(&tasks[1]) {
            if !rig.arm(&tasks[2]) {
                rig = Rig::armed(&tasks[2]);
            }
            assert!(rig.signal.register(&tasks[2].waker()), "a stale ring");
            assert!(rig.signal.ring().is_some());
        }
        first.join().unwrap();
        assert!(tasks.iter().all(|task| task.woken() <= 1));
        drop(rig);
        tasks.iter().for_each(|task| task.settle());
    });
}
