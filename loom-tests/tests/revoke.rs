//! REVOKE: a task begins, is dropped or is cancelled, and who cancels waits for its end.
//!
//! Who races: the guard, which runs the task or drops it, and the waiter, which takes the task back
//! or waits until its use is over. Then the waiter frees what the task works on, as a caller does
//! whose callback has pointers to it.
//! Asserted: the task is used once, or taken back; when the waiter goes on, nothing of the task is
//! left, nor does anybody work on what it worked on; a task that waits in a poll is woken (the
//! checker's cells and lives see to the first two).

use std::sync::Arc;

#[cfg(not(loom))]
use loom_tests::TOO_BIG;
use loom_tests::{check, on_thread};
use tickless_sync::protocol::revocable::{Phase, Revocable};
use tickless_sync::protocol::twin::Twin;
use tickless_sync::{Life, Mutex, Thread, UnsafeCell, park, thread};

/// What a task works on: memory of the caller.
struct Ground {
    works: UnsafeCell<u32>,
    life: Life,
}

/// A task: it works on the ground when it runs, and once more when it is dropped.
struct Task(Arc<Ground>);

type Shared = Twin<Revocable<Task, Thread>>;

// SAFETY: one thread at a time works on it: the checker reports if not.
unsafe impl Sync for Ground {}
// SAFETY: as above.
unsafe impl Send for Ground {}

impl Ground {
    fn new() -> Arc<Ground> {
        Arc::new(Ground { works: UnsafeCell::new(0), life: Life::begin() })
    }

    fn work(&self) {
        self.life.look();
        // SAFETY: one thread at a time does so.
        self.works.with_mut(|works| unsafe { *works += 1 });
    }

    /// The caller frees it.
    fn end(&self) -> u32 {
        // SAFETY: nobody works here any more.
        let works = self.works.with_mut(|works| unsafe { *works });
        self.life.end();
        works
    }
}

impl Drop for Task {
    fn drop(&mut self) {
        self.0.work();
    }
}

fn pair() -> (Arc<Ground>, Shared, Shared) {
    let ground = Ground::new();
    let [guard, waiter] = Twin::pair(Revocable::new(Task(ground.clone())));
    (ground, guard, waiter)
}

/// The guard's part, when the timer fires.
fn run(guard: &Shared) {
    if let Some(task) = guard.begin() {
        task.0.work();
        drop(task);
        guard.end(|thread| thread.unpark());
    }
}

/// The guard's part, when it is dropped.
fn discard(guard: &Shared) {
    if let Some(task) = guard.discard() {
        drop(task);
        guard.end(|thread| thread.unpark());
    }
}

/// The waiter's part. Returns how often the task worked.
fn cancel_and_wait(waiter: &Shared, ground: &Ground) -> u32 {
    match waiter.revoke() {
        Some(task) => {
            drop(task);
            assert_eq!(waiter.phase(), Phase::Revoked);
        }
        None => {
            if waiter.latch().watch(thread::current()).is_some() {
                while !waiter.latch().is_open() {
                    park(None);
                }
            }
            assert!(matches!(waiter.phase(), Phase::Ran | Phase::Dropped));
        }
    }
    ground.end()
}

#[test]
fn a_task_runs_or_is_cancelled() {
    check(3, || {
        let (ground, guard, waiter) = pair();
        let waits = thread::spawn(move || cancel_and_wait(&waiter, &ground));
        run(&guard);
        assert!(matches!(waits.join().unwrap(), 1 | 2), "it was dropped, and ran before or not");
    });
}

#[test]
fn a_task_is_dropped_or_cancelled() {
    check(3, || {
        let (ground, guard, waiter) = pair();
        let waits = thread::spawn(move || cancel_and_wait(&waiter, &ground));
        discard(&guard);
        assert_eq!(waits.join().unwrap(), 1);
    });
}

#[test]
fn a_task_that_is_waited_for_may_be_asked_how_far_it_is() {
    check(3, || {
        let (ground, guard, waiter) = pair();
        let asks = thread::spawn(move || match waiter.phase() {
            Phase::Waits | Phase::Runs => None,
            Phase::Ran => Some(ground.end()),
            other => unreachable!("{other:?}"),
        });
        run(&guard);
        assert!(asks.join().unwrap().is_none_or(|works| works == 2));
    });
}

#[test]
fn a_stop_returns_a_task_that_is_cancelled_meanwhile() {
    check(2, || {
        let (ground, guard, waiter) = pair();
        let filed = Arc::new(Mutex::new(Some(guard)));
        let waits = thread::spawn(move || cancel_and_wait(&waiter, &ground));
        let stopper = on_thread(&filed, |filed| {
            let returned = filed.lock().unwrap().take();
            returned.inspect(discard).is_some()
        });
        let fired = filed.lock().unwrap().take();
        let is_fired = fired.inspect(run).is_some();
        assert!(is_fired != stopper.join().unwrap());
        assert!(matches!(waits.join().unwrap(), 1 | 2));
    });
}

/// A poll that takes its waker back and leaves another, as a future does that moves to another
/// task, and one that gives up.
#[test]
fn who_polls_again_is_woken_by_the_last_poll() {
    check(3, || {
        let (ground, guard, waiter) = pair();
        let polls = thread::spawn(move || {
            if let Some(task) = waiter.revoke() {
                drop(task);
                return ground.end();
            }
            let first = waiter.latch().watch(thread::current());
            drop(first.and_then(|place| waiter.latch().leave(place)));
            if waiter.latch().watch(thread::current()).is_some() {
                while !waiter.latch().is_open() {
                    park(None);
                }
            }
            ground.end()
        });
        run(&guard);
        assert!(matches!(polls.join().unwrap(), 1 | 2));
    });
}

/// Many tasks, each of which is run, dropped or cancelled: in random schedules.
#[cfg(not(loom))]
#[test]
fn a_crowd_of_tasks_is_cancelled_while_they_run() {
    check(TOO_BIG, || {
        let filed = Arc::new(Mutex::new(Vec::new()));
        let waits = [(); 4].map(|()| {
            let (ground, guard, waiter) = pair();
            filed.lock().unwrap().push(guard);
            thread::spawn(move || cancel_and_wait(&waiter, &ground))
        });
        let reapers = [run as fn(&Shared), discard].map(|end| {
            on_thread(&filed, move |filed| {
                loop {
                    let Some(guard) = filed.lock().unwrap().pop() else { break };
                    end(&guard);
                }
            })
        });
        reapers.into_iter().for_each(|reaper| reaper.join().unwrap());
        waits.into_iter().for_each(|waits| assert!(matches!(waits.join().unwrap(), 1 | 2)));
    });
}
