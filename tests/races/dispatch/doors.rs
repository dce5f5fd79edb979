//! Doors on an engine whose tasks run on a pool: late, on other threads, beside one another.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::Waker;
use std::time::Duration;

use support::compiled;
use support::mpsc::{Receiver, Sender, channel};
use support::parking::block_on;
use support::patience::PATIENCE;
use support::polling::poll;
use support::slow::Slow;
use tickless::dispatch::{Full, Pool};
use tickless::periodic::Run;
use tickless::{Engine, ManualClock};
use tickless_purgatory::{Operation, Purgatory};

const SECOND: Duration = Duration::from_secs(1);
/// An engine whose tasks run on a pool of one thread.
struct Rig {
    engine: Engine,
    pool: Pool,
}

impl Rig {
    fn new() -> Rig {
        let pool = Pool::builder(Full::Block).threads(1).build().expect("it is valid");
        let builder = Engine::builder().shards(1).manual_clock(&ManualClock::new());
        Rig { engine: builder.build_with_handler(pool.clone()).expect("it is valid"), pool }
    }

    /// Keeps the pool's thread busy until it is released.
    fn occupy(&self) -> Slow {
        let (slow, task) = Slow::task();
        self.engine.schedule_detached(Duration::ZERO, task).expect("it runs");
        self.engine.advance(Duration::ZERO).expect("the caller drives");
        slow.has_begun();
        slow
    }

    /// Waits until all that was handed over has run.
    fn rest(&self) {
        self.pool.shutdown().expect("this is none of its tasks");
    }
}

fn wait<T: 'static>(receiver: &Receiver<T>) -> T {
    receiver.recv_timeout(PATIENCE).expect("it comes")
}

#[test]
fn a_periodic_that_is_slower_than_its_period_never_piles_up_on_a_pool() {
    let rig = Rig::new();
    let (runs, inside) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicU32::new(0)));
    let (count, nested) = (runs.clone(), inside.clone());
    let (tell, told) = channel();
    let task = compiled::task(move |_: &Run| {
        assert_eq!(nested.fetch_add(1, Ordering::SeqCst), 0, "one at a time");
        count.fetch_add(1, Ordering::SeqCst);
        nested.fetch_sub(1, Ordering::SeqCst);
        let _ = tell.send(());
    });
    let periodic = rig.engine.every(SECOND, task).expect("it runs");
    let busy = rig.occupy();
    rig.engine.advance(100 * SECOND).expect("the caller drives");
    assert_eq!((runs.load(Ordering::SeqCst), rig.pool.stats().queued), (0, 1), "one waits");
    busy.release();
    wait(&told);
    assert!(periodic.cancel());
    rig.rest();
    assert_eq!(u64::from(runs.load(Ordering::SeqCst)), periodic.runs());
    assert_eq!(rig.pool.stats().panicked, 0);
}

#[test]
fn a_periodic_that_is_cancelled_while_its_run_waits_for_the_pool_does_not_run() {
    let rig = Rig::new();
    let runs = Arc::new(AtomicU32::new(0));
    let count = runs.clone();
    let task = compiled::task(move |_: &Run| {
        count.fetch_add(1, Ordering::SeqCst);
    });
    let periodic = rig.engine.every(SECOND, task).expect("it runs");
    let busy = rig.occupy();
    rig.engine.advance(SECOND).expect("the caller drives");
    assert_eq!(rig.pool.stats().queued, 1);
    assert!(periodic.cancel());
    busy.release();
    rig.rest();
    assert_eq!((runs.load(Ordering::SeqCst), periodic.runs()), (0, 0));
    assert_eq!(Arc::strong_count(&runs), 1, "the task was let go");
}

#[test]
fn a_sleep_is_woken_from_a_pool_as_well() {
    let rig = Rig::new();
    let mut sleep = rig.engine.sleep(SECOND);
    assert!(poll(&mut sleep, Waker::noop()).is_pending());
    let busy = rig.occupy();
    rig.engine.advance(SECOND).expect("the caller drives");
    busy.release();
    block_on(sleep);
}

/// Completes never; says when it expires.
struct Expires(Sender<()>);

impl Operation for Expires {
    fn try_complete(&self) -> bool {
        false
    }

    fn on_complete(&self) {}

    fn on_expire(&self) {
        self.0.send(()).expect("somebody waits for that");
    }
}

#[test]
fn an_operation_expires_on_a_pool_unless_it_was_completed_before_its_turn_came() {
    let rig = Rig::new();
    let purgatory = Purgatory::<u32, Expires>::with_engine(&rig.engine);
    let (expire, expired) = channel();
    let watch = || {
        let operation = Arc::new(Expires(expire.clone()));
        let arrival = purgatory.try_complete_else_watch(operation, [7], SECOND);
        arrival.expect("it runs").into_delayed().expect("it waits")
    };
    let (first, second) = (watch(), watch());
    let busy = rig.occupy();
    rig.engine.advance(SECOND).expect("the caller drives");
    assert!(first.force_complete(), "its expiry waits for the pool");
    busy.release();
    wait(&expired);
    rig.rest();
    assert!(expired.try_recv().is_err(), "one of them");
    assert!(!second.force_complete() && purgatory.is_empty());
}

#[test]
fn a_cancel_by_key_wins_over_a_task_that_waits_for_the_pool() {
    use tickless_keyed::{KeyedTimers, Scheduled};

    let rig = Rig::new();
    let timers = KeyedTimers::with_engine(&rig.engine);
    let (run, ran) = channel();
    let task = |name: &'static str| {
        let run = run.clone();
        move || run.send(name).expect("somebody waits for that")
    };
    for key in ["cancelled", "replaced", "moved", "left"] {
        assert_eq!(timers.schedule_keyed(key, SECOND, task(key)).unwrap(), Scheduled::New);
    }
    let busy = rig.occupy();
    rig.engine.advance(SECOND).expect("the caller drives");
    assert_eq!((rig.pool.stats().queued, timers.len()), (4, 4), "all wait for the pool");
    assert!(timers.cancel("cancelled") && !timers.cancel("cancelled"));
    let scheduled = timers.schedule_keyed("replaced", SECOND, task("new")).unwrap();
    assert_eq!(scheduled, Scheduled::Replaced);
    assert_eq!(timers.reset("moved", SECOND), Ok(()));
    busy.release();
    assert_eq!(wait(&ran), "left");
    rig.engine.advance(SECOND).expect("the caller drives");
    let mut rest = [wait(&ran), wait(&ran)];
    rest.sort_unstable();
    assert_eq!(rest, ["moved", "new"]);
    assert!(timers.is_empty() && !timers.cancel("left"));
    rig.rest();
    assert!(ran.try_recv().is_err(), "each once");
}
