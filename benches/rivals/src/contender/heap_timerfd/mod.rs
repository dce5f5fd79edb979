//! What people write by hand for a thread per core: each worker is an event loop with a heap of its
//! own, which no other thread touches, and a timerfd that wakes the loop for the first deadline.
//!
//! The lanes of a workload run as such loops: after each burst a worker fires what is due, and it
//! sets its timerfd only before it sleeps. Threads that are no workers (the bench's main thread,
//! the two sides of `handoff`) share one more heap, which has a lock, a thread that serves it, and
//! a timerfd that the scheduling thread sets if its timer becomes the first.
//!
//! Cancelling sets a flag. A heap throws the cancelled out when they are more than half of it.

mod alarm;
mod worker;

use std::cell::RefCell;
use std::iter;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use self::alarm::Alarm;
use self::worker::{CANCELLED, PENDING, Timer, Timers, Worker, settle};
use super::{Contender, Producer, Setup};
use crate::drive::{Gate, Lane, Section};
use crate::error::BenchError;

/// How many timers the thread of the shared heap takes at a time.
const BATCH: usize = 64;

thread_local! {
    /// The worker that this thread is, if it is one.
    static WORKER: RefCell<Option<Worker>> = const { RefCell::new(None) };
}

/// The heap of those who are no workers.
#[derive(Debug)]
pub(crate) struct HeapTimerfd(Arc<Shared>);

/// That heap; workers are found through their threads.
#[derive(Debug)]
pub(crate) struct TimerfdProducer(Arc<Shared>);

/// A heap for any thread.
#[derive(Debug)]
struct Shared {
    timers: Mutex<Timers>,
    /// Set under the lock.
    alarm: Alarm,
    cancelled: AtomicUsize,
}

/// The caller's end of a timer.
#[derive(Debug)]
pub(crate) struct Handle {
    state: Arc<AtomicU8>,
    /// Whether a worker has it, not the shared heap.
    is_workers: bool,
}

impl Contender for HeapTimerfd {
    const NAME: &'static str = "heap-timerfd";
    const ABOUT: &'static str = "by hand: a BinaryHeap and a timerfd per worker; lazy cancel";

    type Timer = Option<Handle>;
    type Producer = TimerfdProducer;

    fn start(_: Setup) -> Result<HeapTimerfd, BenchError> {
        let shared = Arc::new(Shared {
            timers: Mutex::default(),
            alarm: Alarm::new().map_err(BenchError::setup(Self::NAME))?,
            cancelled: AtomicUsize::new(0),
        });
        let of_thread = shared.clone();
        let serve = move || of_thread.serve();
        let spawned = thread::Builder::new().name(Self::NAME.to_owned()).spawn(serve);
        spawned.map_err(BenchError::setup(Self::NAME))?;
        Ok(HeapTimerfd(shared))
    }

    fn producer(&self) -> TimerfdProducer {
        TimerfdProducer(self.0.clone())
    }

    fn drive<L: Lane>(&self, lanes: Vec<L>) -> (Vec<L>, Section) {
        let gate = &Gate::new(lanes.len());
        let lanes = thread::scope(|scope| {
            let threads: Vec<_> =
                lanes.into_iter().map(|lane| scope.spawn(move || event_loop(gate, lane))).collect();
            threads
                .into_iter()
                .map(|thread| thread.join().expect("a lane does not panic"))
                .collect()
        });
        (lanes, gate.section())
    }
}

/// A worker whose only task is the lane. What is pending at its end fires all the same.
fn event_loop<L: Lane>(gate: &Gate, mut lane: L) -> L {
    WORKER.set(Some(Worker::new().expect("there are file descriptors left")));
    lane.prepare();
    gate.arrive();
    while !gate.is_open() {
        thread::yield_now();
    }
    while lane.burst() {
        WORKER.with_borrow_mut(|worker| {
            let worker = worker.as_mut().expect("this thread is a worker");
            match lane.pause() {
                Duration::ZERO => worker.fire_due(Instant::now()),
                pause => worker.sleep_until(Some(Instant::now() + pause)),
            }
        });
    }
    gate.leave();
    let mut worker = WORKER.take().expect("this thread is a worker");
    // This thread ends, and the worker goes on.
    thread::spawn(move || worker.sleep_until(None));
    lane
}

impl Producer for TimerfdProducer {
    type Timer = Option<Handle>;

    #[inline]
    fn schedule(&mut self, timer: Pin<&mut Self::Timer>, delay: Duration, token: u64) {
        let deadline = Instant::now() + delay;
        let state = Arc::new(AtomicU8::new(PENDING));
        let is_workers = WORKER.with_borrow_mut(|worker| match worker {
            Some(worker) => {
                worker.timers.push(deadline, token, state.clone());
                true
            }
            None => {
                self.0.push(deadline, token, state.clone());
                false
            }
        });
        *timer.get_mut() = Some(Handle { state, is_workers });
    }

    #[inline]
    fn cancel(&mut self, timer: Pin<&mut Self::Timer>) -> bool {
        timer.get_mut().take().is_some_and(|Handle { state, is_workers }| {
            let is_cancelled = settle(&state, CANCELLED);
            if !is_workers {
                self.0.cancelled.fetch_add(usize::from(is_cancelled), Ordering::Relaxed);
            } else if is_cancelled {
                // The workloads have each worker cancel its own timers.
                WORKER.with_borrow_mut(|worker| {
                    worker.iter_mut().for_each(|worker| worker.timers.cancelled += 1);
                });
            }
            is_cancelled
        })
    }
}

// === impl Shared ===

impl Shared {
    fn push(&self, deadline: Instant, token: u64, state: Arc<AtomicU8>) {
        let mut timers = self.timers.lock();
        let is_earliest = timers.first().is_none_or(|first| deadline < first);
        timers.cancelled += self.cancelled.swap(0, Ordering::Relaxed);
        timers.push(deadline, token, state);
        if is_earliest {
            self.alarm.set(Some(deadline));
        }
    }

    /// Fires what is due, for ever. Timers leave the lock before they fire.
    fn serve(&self) {
        let mut due = Vec::with_capacity(BATCH);
        loop {
            let mut timers = self.timers.lock();
            let now = Instant::now();
            due.extend(iter::from_fn(|| timers.pop_due(now)).take(BATCH));
            if due.is_empty() {
                self.alarm.set(timers.first());
                drop(timers);
                self.alarm.wait();
            } else {
                drop(timers);
                due.drain(..).for_each(Timer::fire);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::worker::FIRED;
    use super::*;

    #[test]
    fn a_heap_of_which_half_was_cancelled_throws_those_out() {
        let mut timers = Timers::default();
        let mut states = Vec::new();
        let far = Instant::now() + Duration::from_secs(3_600);
        for token in 0..1_000 {
            let state = Arc::new(AtomicU8::new(PENDING));
            timers.push(far, token, state.clone());
            states.push(state);
        }
        for state in &states[..600] {
            assert!(settle(state, CANCELLED));
            timers.cancelled += 1;
        }
        timers.push(far, 1_000, Arc::new(AtomicU8::new(PENDING)));
        assert_eq!((timers.len(), timers.cancelled), (401, 0));
    }

    #[test]
    fn what_is_due_is_taken_in_order_and_the_cancelled_do_not_fire() {
        let (mut timers, now) = (Timers::default(), Instant::now());
        let far = now + Duration::from_secs(3_600);
        let states = [far, now, now].map(|deadline| {
            let state = Arc::new(AtomicU8::new(PENDING));
            timers.push(deadline, 1 << 50, state.clone());
            state
        });
        assert!(settle(&states[2], CANCELLED));
        while let Some(timer) = timers.pop_due(now) {
            timer.fire();
        }
        assert_eq!(timers.first(), Some(far));
        let fates = states.map(|state| state.load(Ordering::Relaxed));
        assert_eq!(fates, [PENDING, FIRED, CANCELLED]);
    }

    #[test]
    fn an_alarm_wakes_at_its_time_and_can_be_set_to_an_earlier_one_meanwhile() {
        let (alarm, begun) = (Alarm::new().unwrap(), Instant::now());
        alarm.set(Some(begun + Duration::from_secs(3_600)));
        thread::scope(|scope| {
            scope.spawn(|| alarm.set(Some(begun + Duration::from_millis(5))));
            alarm.wait();
        });
        assert!(begun.elapsed() >= Duration::from_millis(5));
    }
}
