//! Takeovers: a task that keeps its shard for too long holds nobody up, and nothing is lost or runs
//! twice. (`tests/realtime/takeover.rs` shows who is not taken over.)

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Barrier};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};
use std::{iter, panic, thread};

use support::mpsc;
use support::parking::block_on;
use support::patience::PATIENCE;
use support::planned::{Planned, quietly};
use support::threads::spawn;
use tickless::dispatch::{Full, Pool};
use tickless::future::{Sleep, SleepError};
use tickless::{Batch, Builder, Clock, Engine, ManualClock, TurnError};
use tickless_sync::Mutex;

const MS: Duration = Duration::from_millis(1);
fn builder(shards: usize) -> Builder {
    Engine::builder().shards(shards).takeover(MS)
}

/// Waits until `is_so`.
fn until(is_so: impl Fn() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !is_so() {
        assert!(Instant::now() < deadline, "it takes too long");
        thread::sleep(MS / 10);
    }
}

/// A task that runs until the sender is dropped; and the receiver of the news that it has begun.
fn stuck() -> (impl FnOnce() + Send + 'static, mpsc::Sender<()>, mpsc::Receiver<()>) {
    let (release, released) = mpsc::channel();
    let (begin, begun) = mpsc::channel();
    let task = move || {
        begin.send(()).unwrap();
        let _ = released.recv();
    };
    (task, release, begun)
}

#[test]
fn timers_of_a_shard_fire_while_a_task_is_stuck() {
    let engine = builder(1).build().unwrap();
    let (task, release, begun) = stuck();
    engine.schedule_detached(MS, task).unwrap();
    begun.recv_timeout(PATIENCE).unwrap();
    let (sender, fired) = mpsc::channel();
    for delay in 0..50 {
        let sender = sender.clone();
        engine.schedule_detached(MS * delay, move || sender.send(delay).unwrap()).unwrap();
    }
    // In whichever order: a reaper that the system suspends for so long loses the shard as well.
    let delays: BTreeSet<u32> = (0..50).map(|_| fired.recv_timeout(PATIENCE).unwrap()).collect();
    assert_eq!(delays.len(), 50);
    assert!(engine.stats().takeovers >= 1);
    drop(release);
    assert!(engine.stop().unwrap().is_empty());
    assert_eq!(engine.stats().fired, 51);
}

#[test]
fn the_rest_of_a_batch_goes_on_in_order() {
    let (sender, receiver) = mpsc::channel();
    let (release, released) = mpsc::channel::<()>();
    let released = Mutex::new(released);
    let each = move |n: u64| match n {
        0 => _ = released.lock().unwrap().recv(),
        _ => sender.send(n).unwrap(),
    };
    let engine = builder(1).build_each(each).unwrap();
    let at = engine.now() + MS * 20;
    for n in 0..600 {
        engine.schedule_detached(at, n).unwrap();
    }
    let rest: BTreeSet<u64> = (1..600).map(|_| receiver.recv_timeout(PATIENCE).unwrap()).collect();
    assert!(rest.into_iter().eq(1..600));
    drop(release);
    assert!(engine.stop().unwrap().is_empty());
    let stats = engine.stats();
    assert_eq!((stats.fired, stats.lateness.count), (600, 600), "those left count once");
}

#[test]
fn with_a_task_stuck_on_each_shard_all_others_fire() {
    const SHARDS: usize = 4;
    let engine = builder(SHARDS).build().unwrap();
    let begun = Arc::new(Barrier::new(SHARDS + 1));
    let (release, released) = mpsc::channel::<()>();
    let released = Arc::new(Mutex::new(released));
    let threads: Vec<_> = (0..SHARDS)
        .map(|shard| {
            let (engine, begun, released) = (engine.clone(), begun.clone(), released.clone());
            spawn(move || {
                engine.bind_thread(shard).unwrap();
                let task = move || {
                    begun.wait();
                    let _ = released.lock().unwrap().recv();
                };
                engine.schedule_detached(MS, task).unwrap();
                let (sender, fired) = mpsc::channel();
                engine.schedule_detached(MS * 20, move || sender.send(()).unwrap()).unwrap();
                fired.recv_timeout(PATIENCE).unwrap();
            })
        })
        .collect();
    begun.wait();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    assert!(engine.stats().takeovers >= SHARDS as u64);
    drop(release);
    engine.stop().unwrap();
}

#[test]
fn tasks_may_wait_for_timers_of_their_own_shard() {
    let engine = builder(1).build().unwrap();
    let (sender, fired) = mpsc::channel();
    for _ in 0..5 {
        let (of_task, sender) = (engine.clone(), sender.clone());
        let task = move || {
            let (inner, waited) = mpsc::channel();
            of_task.schedule_detached(MS * 2, move || inner.send(()).unwrap()).unwrap();
            waited.recv_timeout(PATIENCE).unwrap();
            // It may hold the last clone.
            drop(of_task);
            sender.send(()).unwrap();
        };
        engine.schedule_detached(MS, task).unwrap();
    }
    (0..5).for_each(|_| fired.recv_timeout(PATIENCE).unwrap());
    engine.stop().unwrap();
}

#[test]
fn a_stop_waits_for_a_task_that_lost_its_shard_and_the_handler_outlives_it() {
    struct Handler(Arc<AtomicUsize>, Mutex<mpsc::Receiver<()>>, mpsc::Sender<u64>);
    impl tickless::Handler<u64> for Handler {
        fn fire(&self, batch: Batch<'_, u64>) {
            for n in batch {
                self.2.send(n).unwrap();
                if n == 0 {
                    let _ = self.1.lock().unwrap().recv();
                    assert_eq!(self.0.load(Ordering::Relaxed), 0, "the handler was dropped");
                }
            }
        }
    }
    impl Drop for Handler {
        fn drop(&mut self) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }
    let dropped = Arc::new(AtomicUsize::new(0));
    let (release, released) = mpsc::channel();
    let (sender, receiver) = mpsc::channel();
    let handler = Handler(dropped.clone(), Mutex::new(released), sender);
    let engine = builder(1).build_with_handler(handler).unwrap();
    engine.schedule_detached(Duration::ZERO, 0).unwrap();
    assert_eq!(receiver.recv_timeout(PATIENCE), Ok(0));
    engine.schedule_detached(Duration::from_secs(3600), 9).unwrap();
    until(|| engine.stats().takeovers >= 1);
    let stopped = engine.stop_within(MS).unwrap();
    assert_eq!(stopped.returned, [9]);
    assert!(stopped.running > 0);
    assert_eq!(dropped.load(Ordering::Relaxed), 0);
    drop(release);
    assert!(engine.stop().unwrap().is_empty());
    assert_eq!(dropped.load(Ordering::Relaxed), 1);
}

#[test]
fn with_all_spare_threads_stuck_the_rest_waits_until_one_returns() {
    let engine = builder(1).spares(2).build().unwrap();
    let mut stuck: Vec<_> = (0..3)
        .map(|_| {
            let (task, release, begun) = stuck();
            engine.schedule_detached(Duration::ZERO, task).unwrap();
            begun.recv_timeout(PATIENCE).unwrap();
            release
        })
        .collect();
    // Where threads are slow, one may have lost its shard between two tasks.
    assert!(engine.stats().takeovers >= 2);
    let (sender, fired) = mpsc::channel();
    engine.schedule_detached(Duration::ZERO, move || sender.send(()).unwrap()).unwrap();
    assert!(fired.recv_timeout(MS * 20).is_err(), "nobody is left to take over");
    // The first to return watches again, and takes the third one's shard over.
    drop(stuck.remove(0));
    fired.recv_timeout(PATIENCE).unwrap();
    drop(stuck);
    engine.stop().unwrap();
}

/// Each of them would keep a thread, of which one has to be left to fire what they wait for.
#[test]
fn tasks_that_sleep_on_their_own_engine_do_not_use_up_its_threads() {
    for (shards, spares) in [(1, 2), (2, 2), (1, 16)] {
        let engine = builder(shards).spares(spares).build().unwrap();
        let (sender, results) = mpsc::channel();
        for _ in 0..3 * spares {
            let (mut sleep, sender) = (engine.sleep(MS * 50), sender.clone());
            let task = move || sender.send(block_on(sleep.wait())).unwrap();
            engine.schedule_detached(MS, task).unwrap();
        }
        let next = || results.recv_timeout(PATIENCE).expect("the tasks wait for each other");
        let results: Vec<_> = (0..3 * spares).map(|_| next()).collect();
        let is_known = |result| matches!(result, &Ok(()) | &Err(SleepError::Circular));
        assert!(results.iter().all(is_known), "{results:?}");
        engine.stop().unwrap();
    }
}

/// A poll of a sleep, in a task.
fn poll(sleep: &mut Sleep) -> Poll<Result<(), SleepError>> {
    sleep.poll_elapsed(&mut Context::from_waker(Waker::noop()))
}

/// None of them is stuck when they begin to wait, and one spare takes one shard over.
#[test]
fn of_tasks_of_several_shards_as_many_may_sleep_at_a_time_as_there_are_spares() {
    const HOUR: Duration = Duration::from_secs(3600);
    let builder = Engine::builder().shards(2).reapers(2, 2).spares(1);
    let engine = builder.takeover(HOUR).build().unwrap();
    let (sender, results) = mpsc::channel();
    for round in 0..3 {
        let both = Arc::new(Barrier::new(2));
        for shard in 0..2 {
            engine.bind_thread(shard).unwrap();
            let (mut sleep, sender, both) = (engine.sleep(HOUR), sender.clone(), both.clone());
            let task = move || {
                both.wait();
                let result = poll(&mut sleep);
                both.wait();
                assert!(result.is_ready() || poll(&mut sleep) == result, "it may poll again");
                sender.send(result).unwrap();
            };
            engine.schedule_detached(Duration::ZERO, task).unwrap();
        }
        let mut told = [(); 2].map(|()| results.recv_timeout(PATIENCE).unwrap());
        told.sort_by_key(Poll::is_ready);
        let refused = Poll::Ready(Err(SleepError::Circular));
        assert_eq!(told, [Poll::Pending, refused], "in round {round}");
        // What the threads counted for these tasks is taken back when their turns end.
        until(|| engine.stats().pending == 0);
    }
    engine.stop().unwrap();
}

/// One spare has taken a shard over. Two tasks that sleep would need two more.
#[test]
fn a_sleep_is_refused_if_those_who_sleep_and_those_who_are_stuck_need_all_spares() {
    let builder = Engine::builder().shards(3).reapers(3, 3).spares(2);
    let engine = builder.takeover(MS * 100).build().unwrap();
    let (task, release, begun) = stuck();
    engine.bind_thread(0).unwrap();
    engine.schedule_detached(Duration::ZERO, task).unwrap();
    begun.recv_timeout(PATIENCE).unwrap();
    until(|| engine.stats().takeovers >= 1);
    let sleeps = [1, 2].map(|shard| {
        engine.bind_thread(shard).unwrap();
        let mut sleep = engine.sleep(Duration::from_secs(3600));
        let ((tell, told), (hold, held)) = (mpsc::channel(), mpsc::channel::<()>());
        let task = move || {
            tell.send(poll(&mut sleep)).unwrap();
            let _ = held.recv();
        };
        engine.schedule_detached(Duration::ZERO, task).unwrap();
        (told.recv_timeout(PATIENCE).unwrap(), hold)
    });
    let refused = Poll::Ready(Err(SleepError::Circular));
    assert_eq!([sleeps[0].0, sleeps[1].0], [Poll::Pending, refused]);
    drop((sleeps, release));
    engine.stop().unwrap();
}

#[test]
fn a_task_that_may_sleep_may_go_on_with_it_when_its_shard_was_taken_over() {
    let engine = builder(1).spares(1).build().unwrap();
    let (sender, results) = mpsc::channel();
    let (of_task, mut sleep) = (engine.clone(), engine.sleep(MS * 1000 * 3600));
    let task = move || {
        let before = poll(&mut sleep);
        of_task.schedule_detached(Duration::ZERO, || ()).unwrap();
        until(|| of_task.stats().takeovers >= 1);
        drop(of_task);
        sender.send([before, poll(&mut sleep)]).unwrap();
    };
    engine.schedule_detached(MS, task).unwrap();
    assert_eq!(results.recv_timeout(PATIENCE), Ok([Poll::Pending; 2]));
    engine.stop().unwrap();
}

/// The first task waits for the answer of the callback, which the watcher makes. If that waited for
/// a timer of the shard, and the next task as well, nobody would be left.
#[test]
fn a_callback_of_the_watchers_awaits_no_timer() {
    let (place, (sender, results)) = (Arc::new(Mutex::new(None::<Engine>)), mpsc::channel());
    let of_callbacks = place.clone();
    let answer = move |what: &str| {
        let sleep = of_callbacks.lock().unwrap().as_ref().map(|engine| engine.sleep(MS));
        if let Some(mut sleep) = sleep {
            // (The test may be over.)
            let _ = sender.send((what.to_owned(), block_on(sleep.wait())));
        }
    };
    let tell = answer.clone();
    let builder =
        builder(1).on_stuck(move |_| tell("told")).on_thread_start(move || answer("begun"));
    let engine = builder.build().unwrap();
    *place.lock().unwrap() = Some(engine.clone());
    let (task, release, begun) = stuck();
    engine.schedule_detached(Duration::ZERO, task).unwrap();
    begun.recv_timeout(PATIENCE).unwrap();
    let mut told = BTreeSet::new();
    while told.len() < 2 {
        let (what, result) = results.recv_timeout(PATIENCE).unwrap();
        assert_eq!(result, Err(SleepError::Circular), "{what}");
        told.insert(what);
    }
    place.lock().unwrap().take();
    drop(release);
    engine.stop().unwrap();
}

#[test]
fn without_takeovers_the_tasks_of_a_shard_do_not_overlap() {
    let engine = Engine::builder().shards(1).takeover(None).build().unwrap();
    let running = Arc::new(AtomicUsize::new(0));
    for _ in 0..5 {
        let running = running.clone();
        let task = move || {
            assert_eq!(running.fetch_add(1, Ordering::Relaxed), 0, "two run at a time");
            thread::sleep(MS * 8);
            running.fetch_sub(1, Ordering::Relaxed);
        };
        engine.schedule_detached(MS, task).unwrap();
    }
    until(|| engine.stats().fired == 5);
    engine.stop().unwrap();
    assert_eq!((engine.stats().takeovers, engine.stats().panicked), (0, 0));
}

#[test]
fn what_a_task_counts_after_it_lost_its_shard_counts() {
    quietly();
    let engine = builder(1).build().unwrap();
    let (task, release, begun) = stuck();
    let task = move || {
        task();
        panic::panic_any(Planned);
    };
    engine.schedule_detached(Duration::ZERO, task).unwrap();
    begun.recv_timeout(PATIENCE).unwrap();
    // A task that holds nobody up is left alone.
    let other = engine.schedule(Duration::from_secs(3600), || ()).unwrap();
    until(|| engine.stats().takeovers >= 1);
    assert!(other.cancel());
    drop(release);
    until(|| engine.stats().panicked == 1);
    engine.stop().unwrap();
    let stats = engine.stats();
    assert_eq!((stats.fired, stats.pending), (1, 0));
}

/// A reaper that lost its shard is the watcher later on, whatever it slept by before.
#[test]
fn who_lost_a_shard_watches_and_hears_of_the_end() {
    let clocks: [fn() -> std::io::Result<Clock>; 2] = [|| Ok(Clock::system()), Clock::boottime];
    for clock in clocks.into_iter().filter_map(|clock| clock().ok()) {
        let engine = builder(1).clock(clock).spares(1).build().unwrap();
        for round in 1..=4 {
            let before = engine.stats().takeovers;
            let (task, release, begun) = stuck();
            engine.schedule_detached(Duration::ZERO, task).unwrap();
            begun.recv_timeout(PATIENCE).unwrap();
            // A task that holds nobody up is left alone.
            engine.schedule_detached(Duration::ZERO, || ()).unwrap();
            until(|| engine.stats().takeovers > before);
            // The only spare thread serves the shard; this one is the next watcher.
            drop(release);
            until(|| engine.stats().fired == 2 * round);
        }
        engine.stop().unwrap();
    }
}

#[test]
fn a_task_that_a_full_pool_leaves_to_the_reaper_may_be_stuck() {
    let pool = Pool::builder(Full::RunInline).threads(1).queue_bound(1).build().unwrap();
    let engine = builder(1).build_with_handler(pool).unwrap();
    // One on the pool's thread, one in its queue, and the others on reapers.
    let schedule = || {
        let (task, release, begun) = stuck();
        engine.schedule_detached(Duration::ZERO, task).unwrap();
        (release, begun)
    };
    let first = schedule();
    first.1.recv_timeout(PATIENCE).unwrap();
    let stuck: Vec<_> = iter::once(first).chain((0..4).map(|_| schedule())).collect();
    let running = std::cell::Cell::new(1);
    until(|| {
        let begun = stuck.iter().filter(|(_, begun)| begun.try_recv().is_ok()).count();
        running.set(running.get() + begun);
        running.get() == 4
    });
    // Three run on reapers at once. (The last of them holds nobody up, and may keep its shard.)
    assert!(engine.stats().takeovers >= 2);
    drop(stuck);
    engine.stop().unwrap();
    assert_eq!((engine.stats().fired, engine.stats().panicked), (5, 0));
}

#[test]
fn a_caller_takes_a_shard_over_when_it_thinks_fit() {
    let clock = ManualClock::new();
    let engine = Engine::builder().shards(1).manual_clock(&clock).build().unwrap();
    assert_eq!(engine.take_over(0), Ok(None), "no task is running");
    assert!(matches!(engine.take_over(1), Err(TurnError::NoSuchShard { .. })));
    let (task, release, begun) = stuck();
    engine.schedule_detached(MS, task).unwrap();
    let fired = Arc::new(AtomicUsize::new(0));
    for _ in 0..3 {
        let fired = fired.clone();
        engine.schedule_detached(MS, move || _ = fired.fetch_add(1, Ordering::Relaxed)).unwrap();
    }
    let inside = engine.clone();
    let is_refused = move || assert_eq!(inside.take_over(0), Err(TurnError::InsideTask));
    engine.schedule_detached(MS, is_refused).unwrap();
    clock.advance(MS);
    let begin_turn = || {
        let engine = engine.clone();
        spawn(move || engine.turn(0).unwrap())
    };
    let loser = begin_turn();
    begun.recv_timeout(PATIENCE).unwrap();
    // A turn that waits for the shard goes on after the one that takes it over.
    let waiting = begin_turn();
    let turn = engine.take_over(0).unwrap().unwrap();
    assert_eq!(turn.fired + waiting.join().unwrap().fired, 4);
    assert_eq!(fired.load(Ordering::Relaxed), 3);
    assert_eq!(engine.take_over(0), Ok(None), "it is taken over once");
    drop(release);
    let lost = loser.join().unwrap();
    assert_eq!((lost.fired, lost.more), (1, true));
    assert!(!engine.turn(0).unwrap().more);
    assert_eq!((engine.stats().fired, engine.stats().takeovers), (5, 1));
    engine.stop().unwrap();
    assert_eq!(engine.take_over(0), Err(TurnError::Stopped));
}

/// Each tenth task is stuck until its shard was taken over.
#[test]
fn over_many_takeovers_each_payload_is_handed_over_once() {
    let takeovers = support::scaled(400);
    let counts: Arc<[AtomicU64]> = (0..10 * takeovers).map(|_| AtomicU64::new(0)).collect();
    let of_tasks = counts.clone();
    let run = move |n: u64| {
        of_tasks[n as usize].fetch_add(1, Ordering::Relaxed);
        if n % 10 == 0 {
            thread::sleep(MS / 2);
        }
    };
    let engine = builder(2).takeover(MS / 10).spares(64).build_each(run).unwrap();
    for n in 0..10 * takeovers {
        let seen = engine.stats().takeovers;
        engine.schedule_detached(MS / 10, n).unwrap();
        if n % 10 == 9 {
            until(|| engine.stats().takeovers > seen || engine.stats().pending == 0);
        }
    }
    until(|| engine.stats().pending == 0);
    engine.stop().unwrap();
    assert!(counts.iter().all(|count| count.load(Ordering::Relaxed) == 1));
    assert_eq!(engine.stats().fired, 10 * takeovers);
}
