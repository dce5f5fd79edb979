//! What tokio's own tests ask of its sleeps and timeouts, asked of ours. The clock is moved by
//! hand, and no turn is made but in `advance`: what a poll can know it knows by itself.

use std::future::{Future, pending, ready};
use std::sync::{Arc, Mutex};
use std::task::{Poll, Wake, Waker};
use std::time::{Duration, Instant};

use futures_util::FutureExt as _;
use support::hands::engine_by_hand;
use support::polling::{bell, poll};
use tickless::Engine;
use tickless::future::Sleep;

use crate::on_runtime::Runs;

const MS: Duration = Duration::from_millis(1);

const YEAR: Duration = Duration::from_secs(365 * 24 * 3600);

fn is_ready(future: &mut (impl Future + Unpin)) -> bool {
    poll(future, &bell().1).is_ready()
}

/// A sleep of 100 ms that was polled, its engine, and when it began.
fn polled() -> (Engine, Instant, Sleep) {
    let engine = engine_by_hand();
    let begin = engine.now();
    let mut sleep = engine.sleep(100 * MS);
    assert!(!is_ready(&mut sleep));
    (engine, begin, sleep)
}

/// Advances by milliseconds until the sleep is ready; how many that took.
fn wait(engine: &Engine, sleep: &mut Sleep) -> u32 {
    (0..10_000)
        .find(|_| is_ready(sleep) || engine.advance(MS).is_err())
        .expect("it is ready at some time")
}

// === sleeps ===

#[test]
fn a_sleep_until_now_is_ready_when_it_is_asked_and_elapsed_then() {
    let engine = engine_by_hand();
    let mut sleep = engine.sleep_until(engine.now());
    assert!(!sleep.is_elapsed());
    assert!(is_ready(&mut sleep) && sleep.is_elapsed());
}

#[test]
fn a_sleep_takes_as_long_as_it_says_wherever_the_wheel_stands() {
    let engine = engine_by_hand();
    for ms in [1, 10, 60, 5, 60, 64, 1_000, 4_096] {
        assert_eq!(wait(&engine, &mut engine.sleep(ms * MS)), ms);
        assert_eq!(wait(&engine, &mut engine.sleep_until(engine.now() + ms * MS)), ms);
    }
    for _ in 0..5 {
        let deadline = engine.now() + MS + Duration::from_nanos(1);
        assert_eq!(wait(&engine, &mut engine.sleep_until(deadline)), 2, "never early");
    }
    (0..1_000).for_each(|_| assert_eq!(engine.sleep(Duration::ZERO).now_or_never(), Some(())));
}

#[test]
fn a_reset_before_it_fires_moves_it_either_way() {
    for (advanced, to, takes) in [(0, 200, 200), (0, 80, 80), (10, 80, 70), (99, 300, 201)] {
        let (engine, begin, mut sleep) = polled();
        engine.advance(advanced * MS).unwrap();
        sleep.reset(begin + to * MS);
        assert_eq!(wait(&engine, &mut sleep), takes, "from {advanced} to {to}");
    }
}

#[test]
fn a_reset_after_it_fired_waits_anew() {
    let (engine, begin, mut sleep) = polled();
    assert_eq!(wait(&engine, &mut sleep), 100);
    sleep.reset(begin + 110 * MS);
    assert!(!sleep.is_elapsed());
    assert_eq!(wait(&engine, &mut sleep), 10);
    let before = sleep.deadline();
    sleep.reset(begin + YEAR);
    assert_ne!(before, sleep.deadline());
    assert!(!is_ready(&mut sleep) && !is_ready(&mut sleep));
}

#[test]
fn a_reset_into_the_past_is_ready_at_the_next_poll() {
    for (to, is_past) in [(0, true), (40, true), (50, true), (51, false)] {
        let (engine, begin, mut sleep) = polled();
        engine.advance(50 * MS).unwrap();
        sleep.reset(begin + to * MS);
        assert!(!sleep.is_elapsed(), "it was not polled since");
        let mut like_it = engine.sleep_until(begin + to * MS);
        assert_eq!(is_ready(&mut sleep), is_past, "{to}");
        assert_eq!(is_ready(&mut like_it), is_past, "as one that is new");
        assert_eq!((sleep.is_elapsed(), engine.len()), (is_past, 2 * usize::from(!is_past)));
        // Once ready it stays so, and can be moved again.
        assert_eq!(is_ready(&mut sleep), is_past);
        sleep.reset(10 * MS);
        assert_eq!(wait(&engine, &mut sleep), 10);
    }
}

#[test]
fn who_polled_last_is_woken_by_a_reset_into_the_past_that_another_makes() {
    let (engine, begin, mut sleep) = polled();
    engine.advance(50 * MS).unwrap();
    let (bell, waker) = bell();
    assert_eq!(poll(&mut sleep, &waker), Poll::Pending);
    // By the thread that it was lent to, who does not poll it.
    sleep.reset(begin);
    assert_eq!(engine.advance(Duration::ZERO), Ok(1));
    assert_eq!((bell.woken(), poll(&mut sleep, &waker)), (1, Poll::Ready(())));
}

#[test]
fn a_reset_to_now_is_ready_at_the_next_poll() {
    let (_engine, _, mut sleep) = polled();
    sleep.reset(Duration::ZERO);
    assert!(is_ready(&mut sleep));
}

#[test]
fn sleeps_of_many_years_end_on_their_tick() {
    let engine = engine_by_hand();
    for years in [1, 1, 1, 5, 10] {
        let mut sleep = engine.sleep(years * YEAR);
        assert!(!is_ready(&mut sleep));
        engine.advance(years * YEAR - MS).unwrap();
        assert!(!is_ready(&mut sleep));
        engine.advance(MS).unwrap();
        assert!(is_ready(&mut sleep));
    }
}

#[test]
fn delays_around_the_longest_that_there_is_are_as_good_as_any() {
    let engine = engine_by_hand();
    let huge = [Duration::MAX, Duration::MAX - MS, Duration::from_secs(u64::MAX / 10)];
    let mut sleeps = huge.map(|delay| engine.sleep(delay));
    assert!(!sleeps.iter_mut().any(is_ready));
    assert_eq!(wait(&engine, &mut engine.sleep(Duration::from_nanos(1))), 1);
    assert!(!sleeps.iter_mut().any(is_ready));
}

#[test]
fn a_sleep_that_is_far_away_breaks_no_other() {
    let engine = engine_by_hand();
    let mut far = engine.sleep(Duration::from_millis(10 << 36));
    assert!(!is_ready(&mut far));
    engine.advance(Duration::from_millis((1 << 30) - 1)).unwrap();
    let [mut first, mut second] = [10, 20].map(|ms| engine.sleep(ms * MS));
    assert!(!is_ready(&mut first) && !is_ready(&mut second));
    assert_eq!(wait(&engine, &mut engine.sleep(10 * MS)), 10);
    engine.advance(20 * MS).unwrap();
    drop(first);
    engine.advance(Duration::from_millis(1 << 31)).unwrap();
    assert!(is_ready(&mut second) && !is_ready(&mut far));
}

#[test]
fn a_sleep_that_was_moved_beside_another_may_be_dropped_there() {
    let engine = engine_by_hand();
    let begin = engine.now();
    let [mut a, mut b, mut c] = [5, 5, 10].map(|ms| engine.sleep(ms * MS));
    assert!(!is_ready(&mut a) && !is_ready(&mut b) && !is_ready(&mut c));
    b.reset(begin + 10 * MS);
    assert_eq!(wait(&engine, &mut a), 5);
    drop(b);
    assert_eq!(wait(&engine, &mut c), 5);
    assert!(engine.is_empty());
}

/// A task that has sleeps, and drops them all when it is woken or when it ends itself.
#[derive(Default)]
struct Owner(Arc<Mutex<Vec<Sleep>>>);

impl Wake for Owner {
    fn wake(self: Arc<Owner>) {
        let all = std::mem::take(&mut *self.0.lock().unwrap());
        drop(all);
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        let all = std::mem::take(&mut *self.0.lock().unwrap());
        drop(all);
    }
}

#[test]
fn a_wake_up_may_drop_every_sleep_there_is() {
    let engine = engine_by_hand();
    let owner = Arc::new(Owner::default());
    let (sleeps, waker) = (owner.0.clone(), Waker::from(owner));
    for _ in 0..100 {
        let mut sleep = engine.sleep(10 * MS);
        assert!(poll(&mut sleep, &waker).is_pending());
        sleeps.lock().unwrap().push(sleep);
    }
    engine.advance(11 * MS).unwrap();
    assert_eq!((sleeps.lock().unwrap().len(), engine.stats().panicked), (0, 0));
}

#[test]
fn the_end_of_a_waker_may_drop_sleeps_too() {
    let engine = engine_by_hand();
    let owner = Arc::new(Owner::default());
    let sleeps = owner.0.clone();
    let mut own = engine.sleep(10 * MS);
    // The sleep has the last waker; what that takes along is another sleep of the same tick.
    assert!(poll(&mut own, &Waker::from(owner)).is_pending());
    let mut other = engine.sleep(10 * MS);
    assert!(!is_ready(&mut other));
    sleeps.lock().unwrap().push(other);
    // Another task takes over: the waker goes, and the other sleep with it.
    assert!(!is_ready(&mut own));
    assert_eq!((sleeps.lock().unwrap().len(), engine.len()), (0, 1));
    engine.advance(10 * MS).unwrap();
    assert_eq!((is_ready(&mut own), engine.stats().panicked), (true, 0));
}

// === timeouts ===

#[test]
fn what_is_complete_counts_also_at_and_after_its_deadline() {
    let engine = engine_by_hand();
    let now = engine.now();
    assert_eq!(engine.timeout_at(now, ready(())).now_or_never(), Some(Ok(())));
    engine.advance(1_000 * MS).unwrap();
    assert_eq!(engine.timeout_at(now, ready(())).now_or_never(), Some(Ok(())));
    assert!(engine.timeout_at(now, pending::<()>()).now_or_never().unwrap().is_err());
    let at_once = engine.timeout_at(engine.now(), pending::<()>());
    assert!(at_once.now_or_never().unwrap().is_err());
}

#[test]
fn what_completes_in_time_wakes_the_timeout_and_is_its_answer() {
    for delay in [100 * MS, Duration::MAX] {
        let engine = engine_by_hand();
        let (sender, receiver) = tokio::sync::oneshot::channel();
        let mut timeout = engine.timeout(delay, receiver);
        let (bell, waker) = bell();
        assert!(poll(&mut timeout, &waker).is_pending());
        engine.advance(if delay == Duration::MAX { 10 * YEAR } else { 90 * MS }).unwrap();
        assert!(poll(&mut timeout, &waker).is_pending());
        sender.send(7).unwrap();
        assert_eq!(bell.woken(), 1);
        assert_eq!(poll(&mut timeout, &waker), Poll::Ready(Ok(Ok(7))));
        assert!(engine.is_empty());
    }
}

#[test]
fn what_does_not_complete_is_woken_and_has_elapsed() {
    let engine = engine_by_hand();
    let mut timeout = engine.timeout_at(engine.now() + 300 * MS, pending::<()>());
    let (bell, waker) = bell();
    assert!(poll(&mut timeout, &waker).is_pending());
    engine.advance(300 * MS).unwrap();
    assert_eq!(bell.woken(), 1);
    assert!(matches!(poll(&mut timeout, &waker), Poll::Ready(Err(_))));
}

#[test]
fn a_future_that_never_rests_does_not_keep_its_timeout_from_coming() {
    // Under tokio a task has a budget, which this future uses up at each poll.
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let restless = async {
        let mut buffer = [0_u8; 1];
        loop {
            use tokio::io::AsyncReadExt;
            let _ = tokio::io::empty().read(&mut buffer).await;
        }
    };
    let timeout = tickless::future::timeout(MS, restless);
    assert!(runtime.run(async { timeout.await.is_err() }));
}
