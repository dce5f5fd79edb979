//! Waiting for tasks by key: after the wait nothing of the key's tasks is left.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use support::mpsc::channel;
use support::parking::block_on;
use support::patience::PATIENCE;
use support::random::{Random, dawdle};
use support::scaled;
use support::slow::Slow;
use support::threads::spawn;
use tickless::dispatch::{Full, Pool};
use tickless::wait::WaitError;
use tickless::{Builder, Engine};
use tickless_keyed::KeyedTimers;

const US: Duration = Duration::from_micros(1);
const HOUR: Duration = Duration::from_secs(3600);

fn inline() -> Engine {
    Builder::new().tick(20 * US).shards(1).build().unwrap()
}

fn on_pool(threads: usize) -> Engine {
    let pool = Pool::builder(Full::Block).threads(threads).queue_bound(64).build().unwrap();
    Builder::new().tick(20 * US).shards(1).build_with_handler(pool).unwrap()
}

/// A task that runs under `key` until it is released.
fn slow_under(timers: &KeyedTimers<u32>, key: u32) -> Slow {
    let (slow, task) = Slow::task();
    timers.schedule_keyed(key, Duration::ZERO, task).unwrap();
    slow.has_begun();
    slow
}

#[test]
fn a_timer_that_waits_is_cancelled_and_nothing_is_waited_for() {
    let timers = KeyedTimers::with_engine(&inline());
    timers.schedule_keyed(1, HOUR, || ()).unwrap();
    assert_eq!(timers.cancel_wait(&1), Ok(true));
    assert_eq!(timers.cancel_wait_within(&1, Duration::ZERO), Ok(false));
    assert_eq!(block_on(timers.cancelled(&1)), Ok(false));
}

#[test]
fn a_wait_ends_when_the_task_of_its_key_has() {
    for engine in [inline(), on_pool(2)] {
        let timers = KeyedTimers::with_engine(&engine);
        for _ in 0..scaled(20) {
            let slow = slow_under(&timers, 1);
            // The key is free, and the next timer under it is cancelled with the wait.
            timers.schedule_keyed(1, HOUR, || ()).unwrap();
            assert_eq!(timers.cancel_wait_within(&1, 50 * US), Err(WaitError::TimedOut));
            assert_eq!((timers.len(), timers.cancel_wait(&2)), (0, Ok(false)), "another key");
            let (ends, ended) = channel();
            let others = timers.clone();
            let waits = spawn(move || ends.send(others.cancel_wait(&1)).unwrap());
            assert!(ended.try_recv().is_err(), "it still runs");
            slow.release();
            assert_eq!(ended.recv_timeout(PATIENCE), Ok(Ok(false)));
            waits.join().unwrap();
        }
    }
}

#[test]
fn all_tasks_of_a_key_are_waited_for() {
    let timers = KeyedTimers::with_engine(&on_pool(3));
    let [first, other, second] = [7, 8, 7].map(|key| slow_under(&timers, key));
    let (ends, ended) = channel();
    let waiting = timers.clone();
    let waits = spawn(move || ends.send(block_on(waiting.cancelled(&7))).unwrap());
    second.release();
    assert_eq!(timers.cancel_wait_within(&7, 500 * US), Err(WaitError::TimedOut));
    assert!(ended.try_recv().is_err(), "the first still runs");
    first.release();
    assert_eq!(ended.recv_timeout(PATIENCE), Ok(Ok(false)));
    waits.join().unwrap();
    other.release();
}

#[test]
fn a_task_cannot_wait_for_its_own_key() {
    let timers = KeyedTimers::with_engine(&inline());
    let (sender, receiver) = channel();
    let inside = timers.clone();
    let task = move || {
        inside.schedule_keyed(1, HOUR, || ()).unwrap();
        sender.send((inside.cancel_wait(&1), inside.len())).unwrap();
    };
    timers.schedule_keyed(1, Duration::ZERO, task).unwrap();
    // What was scheduled under the key is cancelled all the same.
    assert_eq!(receiver.recv_timeout(PATIENCE), Ok((Err(WaitError::InsideTask), 0)));
}

/// A task that takes a while to be dropped.
struct SlowDrop<F: FnMut()>(F);

impl<F: FnMut()> Drop for SlowDrop<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}

#[test]
fn a_task_that_a_stop_has_returned_is_waited_for_while_it_is_dropped() {
    let engine = inline();
    let timers = KeyedTimers::with_engine(&engine);
    let (slow, task) = Slow::task();
    let mut task = Some(task);
    let slow_drop = SlowDrop(move || task.take().into_iter().for_each(|task| task()));
    timers.schedule_keyed(1, HOUR, move || drop(slow_drop)).unwrap();
    let returned = engine.stop().unwrap();
    let drops = spawn(move || drop(returned));
    slow.has_begun();
    assert_eq!(timers.cancel_wait_within(&1, 50 * US), Err(WaitError::TimedOut));
    slow.release();
    assert_eq!(timers.cancel_wait(&1), Ok(false));
    drops.join().unwrap();
}

#[test]
fn memory_may_be_freed_after_the_wait() {
    let mut random = Random::new(17);
    for engine in [inline(), on_pool(2)] {
        let timers = KeyedTimers::with_engine(&engine);
        for round in 0..scaled(400).max(3) {
            let memory = Box::into_raw(Box::new(AtomicU64::new(0)));
            // SAFETY: it is freed after `cancel_wait`, and then no task runs.
            let runs: &'static AtomicU64 = unsafe { &*memory };
            let key = (round % 3) as u32;
            for _ in 0..3 {
                let run = || _ = runs.fetch_add(1, Ordering::Relaxed);
                let delay = Duration::from_micros(random.below(100));
                timers.schedule_keyed(key, delay, run).unwrap();
                dawdle(&mut random);
            }
            timers.cancel_wait(&key).unwrap();
            // SAFETY: it came from a box, and nothing of the tasks is left.
            let runs = unsafe { Box::from_raw(memory) }.into_inner();
            assert!(runs <= 3, "{runs}");
        }
    }
}

/// Two threads wait for one key: for both of them nothing of its task is left afterwards.
#[test]
fn who_waits_for_a_key_also_waits_for_another_waits_drop() {
    let timers = KeyedTimers::<u32>::new().unwrap();
    let ((begin, begun), (end, ends)) = (channel::<()>(), channel::<()>());
    let captured = SlowDrop(move || {
        begin.send(()).unwrap();
        _ = ends.recv();
    });
    timers.schedule_keyed(1, HOUR, move || drop(captured)).unwrap();
    let others = timers.clone();
    let other = spawn(move || others.cancel_wait(&1));
    begun.recv_timeout(PATIENCE).unwrap();
    let outcome = timers.cancel_wait_within(&1, Duration::from_millis(50));
    drop(end);
    assert_eq!(other.join().unwrap(), Ok(true));
    assert_eq!(outcome, Err(WaitError::TimedOut), "what the task captured is being dropped");
}

/// As a wait for a scope does: a panic goes on after the wait.
#[test]
fn a_wait_that_panics_has_waited() {
    struct Bomb;
    impl Drop for Bomb {
        fn drop(&mut self) {
            std::panic::resume_unwind(Box::new("planned"));
        }
    }
    let pool = Pool::builder(Full::Block).threads(2).queue_bound(8).build().unwrap();
    let engine = Builder::new().shards(1).build_with_handler(pool).unwrap();
    let timers = KeyedTimers::<u32>::with_engine(&engine);
    let (slow, task) = Slow::task();
    timers.schedule_keyed(1, Duration::ZERO, task).unwrap();
    slow.has_begun();
    let bomb = Bomb;
    timers.schedule_keyed(1, HOUR, move || drop(bomb)).unwrap();
    let (others, (tell, told)) = (timers.clone(), channel());
    let waits = spawn(move || {
        let waited =
            std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| others.cancel_wait(&1)));
        tell.send(waited.is_err()).unwrap();
    });
    let early = told.recv_timeout(Duration::from_millis(200));
    slow.release();
    waits.join().unwrap();
    assert!(early.is_err(), "it came back while the key's task ran: {early:?}");
}

/// The keys are hashed and compared once more after the cancel.
#[test]
fn a_wait_whose_comparison_panics_has_changed_nothing() {
    use std::cell::Cell;
    use std::hash::{Hash, Hasher};
    thread_local! { static LEFT: Cell<u32> = const { Cell::new(u32::MAX) }; }
    struct Key(u32);
    impl Hash for Key {
        fn hash<H: Hasher>(&self, hasher: &mut H) {
            if LEFT.replace(LEFT.get().wrapping_sub(1)) == 0 {
                std::panic::resume_unwind(Box::new("planned"));
            }
            self.0.hash(hasher);
        }
    }
    impl PartialEq for Key {
        fn eq(&self, other: &Key) -> bool {
            self.0 == other.0
        }
    }
    impl Eq for Key {}
    let timers = KeyedTimers::<Key>::new().unwrap();
    for calls in 0..2 {
        LEFT.set(u32::MAX);
        timers.schedule_keyed(Key(1), HOUR, || ()).unwrap();
        LEFT.set(calls);
        let wait = std::panic::AssertUnwindSafe(|| timers.cancel_wait(&Key(1)));
        let panicked = std::panic::catch_unwind(wait).is_err();
        LEFT.set(u32::MAX);
        assert!(!panicked || timers.len() == 1, "`Hash` panicked in call {calls} of it");
    }
}
