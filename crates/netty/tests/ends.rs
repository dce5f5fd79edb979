//! The hashed wheel's ends: cancelling and its callback, stopping, and timers and timeouts that
//! outlive each other.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Barrier, OnceLock, mpsc};
use std::thread;
use std::time::Duration;

use support::patience::PATIENCE;
use support::planned::{panic_as_planned, quietly};
use support::token::{Fates, Token};
use tickless::ManualClock;
use tickless_netty::{Builder, Expired, HashedWheelTimer, Timeout, TimerTask, WorkerState};
// One that ThreadSanitizer can follow.
use tickless_sync::Mutex;

const HOUR: Duration = Duration::from_secs(3600);

const TICK: Duration = Duration::from_millis(1);

fn threaded() -> Builder {
    quietly();
    HashedWheelTimer::builder().tick_duration(TICK)
}

fn by_hand() -> Builder {
    threaded().manual_clock(&ManualClock::new())
}

/// A task that owns a token and runs it.
fn running(token: Token) -> impl TimerTask {
    move |_: &Timeout| token.run()
}

// === the callback ===

/// Notes who told it of which cancellation.
#[derive(Default)]
struct Told(Mutex<Vec<(thread::ThreadId, Timeout)>>);

impl TimerTask for Told {
    fn run(&self, _timeout: &Timeout) {}

    fn cancelled(&self, timeout: &Timeout) {
        self.0.lock().unwrap().push((thread::current().id(), timeout.clone()));
    }
}

#[test]
fn the_thread_that_cancels_calls_the_callback_before_cancel_returns() {
    let timer = threaded().build().unwrap();
    let task = Arc::new(Told::default());
    let [here, there] = [(); 2].map(|()| timer.new_timeout(task.clone(), HOUR).unwrap());
    assert!(here.cancel());
    let me = thread::current().id();
    assert_eq!(*task.0.lock().unwrap(), [(me, here.clone())]);
    assert!(!here.cancel());
    let clone = there.clone();
    let other = thread::spawn(move || (clone.cancel(), thread::current().id()));
    let (cancelled, other) = other.join().unwrap();
    assert!(cancelled);
    // Taken out: a task that keeps its own timeouts would be kept by them.
    let told = std::mem::take(&mut *task.0.lock().unwrap());
    assert_eq!(told, [(me, here), (other, there)], "once each");
}

#[test]
fn neither_stop_nor_the_end_of_a_timer_nor_a_run_calls_the_callback() {
    let task = Arc::new(Told::default());
    let make = |delay| {
        let timer = by_hand().build().unwrap();
        let timeout = timer.new_timeout(task.clone(), delay).unwrap();
        (timer, timeout)
    };
    let (stopped, returned) = make(HOUR);
    assert_eq!(stopped.stop().unwrap(), std::slice::from_ref(&returned));
    let (dropped, let_go) = make(HOUR);
    drop(dropped);
    let (advanced, ran) = make(TICK);
    advanced.advance(TICK).unwrap();
    for timeout in [returned, let_go, ran] {
        assert!(!timeout.cancel());
    }
    assert!(task.0.lock().unwrap().is_empty());
}

/// Makes another timeout in place of each that is cancelled.
struct Again(mpsc::Sender<bool>);

impl TimerTask for Again {
    fn run(&self, _timeout: &Timeout) {}

    fn cancelled(&self, timeout: &Timeout) {
        let timer = timeout.timer().unwrap();
        let again = timer.new_timeout(timeout.task().clone(), HOUR);
        self.0.send(again.is_ok()).unwrap();
    }
}

#[test]
fn the_callback_finds_the_room_of_its_timeout_free() {
    let timer = by_hand().max_pending_timeouts(1).build().unwrap();
    let (sender, receiver) = mpsc::channel();
    let timeout = timer.new_timeout(Again(sender), HOUR).unwrap();
    assert!(timeout.cancel());
    assert_eq!((receiver.try_recv(), timer.pending_timeouts()), (Ok(true), 1));
}

struct Touchy;

impl TimerTask for Touchy {
    fn run(&self, _timeout: &Timeout) {}

    fn cancelled(&self, _timeout: &Timeout) {
        panic_as_planned();
    }
}

#[test]
fn a_callback_that_panics_does_so_to_its_caller_when_all_else_is_done() {
    let timer = by_hand().max_pending_timeouts(1).build().unwrap();
    let timeout = timer.new_timeout(Touchy, HOUR).unwrap();
    assert!(catch_unwind(AssertUnwindSafe(|| timeout.cancel())).is_err());
    assert!(timeout.is_cancelled() && !timeout.cancel());
    assert_eq!((timer.pending_timeouts(), timer.stats().cancelled), (0, 1));
    timer.new_timeout(Touchy, HOUR).unwrap();
}

// === what is let go ===

#[test]
fn what_was_cancelled_is_let_go_at_once_but_for_what_the_user_keeps() {
    for timer in [threaded().build().unwrap(), by_hand().build().unwrap()] {
        let fates = Fates::new(2);
        let kept = timer.new_timeout(running(fates.token(0)), HOUR).unwrap();
        let other = timer.new_timeout(running(fates.token(1)), HOUR).unwrap();
        assert!(kept.cancel() && other.cancel());
        drop(other);
        assert_eq!([fates.of(0), fates.of(1)], [(0, 0), (0, 1)]);
        // The task of a timeout that is kept can still be had, and armed.
        timer.new_timeout(kept.task().clone(), HOUR).unwrap();
        drop(kept);
        assert_eq!((fates.of(0), timer.pending_timeouts()), ((0, 0), 1));
        drop(timer);
        assert_eq!(fates.of(0), (0, 1));
    }
}

#[test]
fn a_timer_that_is_dropped_cancels_and_lets_go_of_all_that_waits() {
    for make in [|| threaded().shards(2).build().unwrap(), || by_hand().build().unwrap()] {
        let fates = Fates::new(100);
        let timer = make();
        let kept: Vec<_> = (0..100)
            .map(|n| timer.new_timeout(running(fates.token(n)), HOUR).unwrap())
            .step_by(10)
            .collect();
        let clone = timer.clone();
        drop(timer);
        assert!((0..100).all(|n| fates.of(n) == (0, 0)), "a clone keeps it going");
        drop(clone);
        for (n, timeout) in kept.iter().enumerate() {
            assert!(timeout.is_cancelled() && !timeout.cancel() && timeout.timer().is_none());
            assert_eq!(fates.of(10 * n), (0, 0), "its task can still be had");
            timeout.task().run(timeout);
        }
        drop(kept);
        assert!((0..100).all(|n| fates.of(n) == (u32::from(n % 10 == 0), 1)));
    }
}

#[test]
fn timeouts_outlive_their_timer_on_whichever_thread_they_are() {
    for make in [|| threaded().build().unwrap(), || by_hand().build().unwrap()] {
        for is_stopped in [false, true] {
            let fates = Fates::new(4);
            let of_thread = fates.clone();
            let user = thread::spawn(move || {
                let timer = make();
                let new = |n| timer.new_timeout(running(of_thread.token(n)), HOUR).unwrap();
                let timeouts = [0, 1, 2, 3].map(new);
                assert!(timeouts[0].cancel());
                let returned = if is_stopped { timer.stop().unwrap().len() } else { 3 };
                assert_eq!(returned, 3);
                timeouts
            });
            // The thread takes what it kept of the timer with it.
            let timeouts = user.join().unwrap();
            assert!(timeouts.iter().all(|timeout| timeout.is_cancelled() && !timeout.cancel()));
            assert!(timeouts.iter().all(|timeout| timeout.timer().is_none()));
            drop(timeouts);
            assert!((0..4).all(|n| fates.of(n) == (0, 1)));
        }
    }
}

/// A task with something that goes after its token.
struct Watched {
    token: Token,
    _alive: mpsc::Sender<()>,
}

impl TimerTask for Watched {
    fn run(&self, _timeout: &Timeout) {
        self.token.run();
    }
}

#[test]
fn a_timer_whose_last_clone_goes_inside_its_own_task_ends_without_it() {
    let fates = Fates::new(10);
    let (sender, receiver) = mpsc::channel::<()>();
    let timer = threaded().build().unwrap();
    for n in 0..10 {
        let task = Watched { token: fates.token(n), _alive: sender.clone() };
        timer.new_timeout(task, HOUR).unwrap();
    }
    drop(sender);
    let last = Arc::new(Mutex::new(None));
    let inside = last.clone();
    let (done, outcome) = mpsc::channel();
    let (go_on, wait) = mpsc::channel::<()>();
    let wait = Mutex::new(wait);
    let task = move |timeout: &Timeout| {
        wait.lock().unwrap().recv_timeout(PATIENCE).unwrap();
        let last: Option<HashedWheelTimer> = inside.lock().unwrap().take();
        drop(last);
        done.send(timeout.timer().is_none()).unwrap();
    };
    timer.new_timeout(task, Duration::ZERO).unwrap();
    *last.lock().unwrap() = Some(timer);
    go_on.send(()).unwrap();
    assert_eq!(outcome.recv_timeout(PATIENCE), Ok(true));
    // The thread drops every task that waits, and with the last of them the channel closes.
    let closed = receiver.recv_timeout(PATIENCE);
    assert_eq!(closed, Err(mpsc::RecvTimeoutError::Disconnected));
    assert!((0..10).all(|n| fates.of(n) == (0, 1)));
}

#[test]
fn a_task_that_arms_itself_for_ever_ends_with_its_timer() {
    let timer = threaded().build().unwrap();
    let (sender, receiver) = mpsc::channel();
    let beat = move |timeout: &Timeout| {
        let _ = sender.send(());
        if let Some(timer) = timeout.timer() {
            // Refused once the timer stops.
            let _ = timer.new_timeout(timeout.task().clone(), TICK);
        }
    };
    timer.new_timeout(beat, TICK).unwrap();
    (0..3).for_each(|_| receiver.recv_timeout(PATIENCE).unwrap());
    drop(timer);
    // The task goes, and with it the sender.
    while receiver.recv_timeout(PATIENCE) != Err(mpsc::RecvTimeoutError::Disconnected) {}
}

#[test]
fn a_stop_returns_what_waits_as_cancelled_and_once() {
    for timer in [threaded().build().unwrap(), by_hand().build().unwrap()] {
        let fates = Fates::new(3);
        let new = |n, delay| timer.new_timeout(running(fates.token(n)), delay).unwrap();
        let [waiting, never, cancelled] = [new(0, HOUR), new(1, Duration::MAX), new(2, HOUR)];
        assert!(cancelled.cancel());
        let returned = timer.stop().unwrap();
        assert_eq!(returned.len(), 2);
        assert!(returned.contains(&waiting) && returned.contains(&never));
        assert!(returned.iter().all(|timeout| timeout.is_cancelled() && !timeout.cancel()));
        assert_eq!(waiting.timer(), Some(timer.clone()), "it is stopped, and still there");
        assert!(timer.stop().unwrap().is_empty() && timer.clone().stop().unwrap().is_empty());
        assert_eq!((timer.pending_timeouts(), timer.stats().returned), (0, 2));
        drop((returned, waiting, never, cancelled));
        assert!((0..3).all(|n| fates.of(n) == (0, 1)));
    }
}

// === dispatchers ===

#[test]
fn a_dispatcher_that_drops_or_panics_loses_no_count_and_no_other() {
    let fates = Fates::new(30);
    let calls = AtomicU32::new(0);
    let dispatcher = move |expired: Expired| {
        assert!(expired.timeout().is_expired());
        match calls.fetch_add(1, Ordering::SeqCst) % 3 {
            0 => expired.run(),
            1 => drop(expired),
            _ => panic_as_planned(),
        }
    };
    let timer = by_hand().max_pending_timeouts(30).dispatcher(dispatcher).build().unwrap();
    let new = |n| timer.new_timeout(running(fates.token(n)), TICK).unwrap();
    let timeouts: Vec<_> = (0..30).map(new).collect();
    assert_eq!(timer.advance(TICK), Ok(30));
    assert_eq!((timer.pending_timeouts(), timer.stats().panicked), (0, 10));
    assert!(timeouts.iter().all(Timeout::is_expired));
    drop(timeouts);
    assert!((0..30).all(|n| fates.of(n).1 == 1));
    assert_eq!((0..30).map(|n| fates.of(n).0).sum::<u32>(), 10);
    // As many as allowed find room again.
    let fates = Fates::new(30);
    (0..30).for_each(|n| drop(timer.new_timeout(running(fates.token(n)), TICK).unwrap()));
}

#[test]
fn a_task_that_is_dispatched_elsewhere_may_stop_its_timer() {
    let (queue, work) = mpsc::channel::<Expired>();
    let queue = Mutex::new(Some(queue));
    let dispatcher = move |expired| {
        let queue = queue.lock().unwrap().take().expect("one task comes");
        queue.send(expired).unwrap();
    };
    let timer = threaded().dispatcher(dispatcher).build().unwrap();
    let worker = thread::spawn(move || work.into_iter().for_each(Expired::run));
    let returned = Arc::new(OnceLock::new());
    let seen = returned.clone();
    let stopping = move |timeout: &Timeout| {
        let waiting = timeout.timer().unwrap().stop().unwrap();
        seen.set(waiting).unwrap();
    };
    let waiting = timer.new_timeout(running(Fates::new(1).token(0)), HOUR).unwrap();
    timer.new_timeout(stopping, TICK).unwrap();
    worker.join().unwrap();
    assert_eq!(returned.get(), Some(&vec![waiting]));
    assert_eq!(timer.worker_state(), WorkerState::Shutdown);
}

#[test]
fn tasks_that_are_due_at_once_run_one_after_another_however_long_they_take() {
    let timer = threaded().build().unwrap();
    let [running, most] = [(); 2].map(|()| Arc::new(AtomicUsize::new(0)));
    let (end, ended) = mpsc::channel();
    for _ in 0..8 {
        let (running, most, end) = (running.clone(), most.clone(), end.clone());
        let task = move |_: &Timeout| {
            most.fetch_max(running.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            thread::sleep(20 * TICK);
            running.fetch_sub(1, Ordering::SeqCst);
            end.send(()).unwrap();
        };
        timer.new_timeout(task, 5 * TICK).unwrap();
    }
    (0..8).for_each(|_| ended.recv_timeout(PATIENCE).unwrap());
    timer.stop().unwrap();
    assert_eq!(most.load(Ordering::SeqCst), 1);
}

#[test]
fn with_takeovers_a_task_may_wait_for_one_that_is_due_with_it() {
    let timer = threaded().takeover(TICK).build().unwrap();
    let both = Arc::new(Barrier::new(2));
    let (end, ended) = mpsc::channel();
    for _ in 0..2 {
        let (both, end) = (both.clone(), end.clone());
        let task = move |_: &Timeout| {
            both.wait();
            end.send(()).unwrap();
        };
        timer.new_timeout(task, 5 * TICK).unwrap();
    }
    (0..2).for_each(|_| ended.recv_timeout(PATIENCE).unwrap());
    timer.stop().unwrap();
}
