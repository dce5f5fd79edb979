//! Races: tasks that poll, reset and drop on threads while timers fire and engines stop. Every wait
//! ends, no sleep is ready early, and every waker is let go.

use std::future::poll_fn;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::task::{Context, Poll, Wake, Waker};
use std::thread;
use std::time::{Duration, Instant};

use support::emptied::assert_empties;
use support::parking::block_on;
use support::patience::PATIENCE;
use support::polling::{Bell, bell, poll};
use support::random::Random;
use support::slow::Slow;
use support::threads::on_threads;
use support::until::wait_until;
use support::{scaled, spread};
use tickless::Engine;
use tickless::dispatch::Channel;
use tickless::future::{Sleep, SleepError};
// One that ThreadSanitizer can follow.
use tickless_sync::Mutex;

const US: Duration = Duration::from_micros(1);

fn engine() -> Engine {
    Engine::builder().tick(US * 50).shards(2).build().unwrap()
}

/// What many tasks saw together.
#[derive(Default)]
struct Books {
    begun: AtomicU64,
    ready: AtomicU64,
    dropped: AtomicU64,
}

fn add(count: &AtomicU64) {
    count.fetch_add(1, Ordering::SeqCst);
}

fn of(count: &AtomicU64) -> u64 {
    count.load(Ordering::SeqCst)
}

/// Polls once; a sleep that is ready is not early.
fn poll_honestly(sleep: &mut Sleep, waker: &Waker) -> bool {
    let is_ready = poll(sleep, waker).is_ready();
    assert!(!is_ready || sleep.deadline().is_some_and(|deadline| deadline <= Instant::now()));
    is_ready
}

/// One life of a sleep: polled by this and that task, moved, dropped or awaited.
fn live(engine: &Engine, random: &mut Random, bells: &[(Arc<Bell>, Waker)], books: &Books) {
    add(&books.begun);
    let mut sleep = engine.sleep(US * random.below(400) as u32);
    for _ in 0..random.below(8) {
        match random.below(6) {
            0 => sleep.reset(US * random.below(600) as u32),
            1 => sleep.reset(engine.now() + US * random.below(100) as u32),
            2 => thread::yield_now(),
            _ => {
                let (_, waker) = &bells[random.below(bells.len() as u64) as usize];
                poll_honestly(&mut sleep, waker);
            }
        }
    }
    if random.below(3) == 0 {
        add(&books.dropped);
        return drop(sleep);
    }
    block_on(&mut sleep);
    assert!(poll_honestly(&mut sleep, &bells[0].1), "it stays ready");
    add(&books.ready);
}

#[test]
fn sleeps_that_are_polled_moved_and_dropped_while_they_fire_all_end() {
    let (engine, books) = (engine(), Books::default());
    let bells = [(); 3].map(|()| bell());
    let seeds = AtomicU64::new(0);
    on_threads::<4>(|| {
        let random = &mut Random::new(seeds.fetch_add(1, Ordering::SeqCst));
        (0..scaled(1500)).for_each(|_| live(&engine, random, &bells, &books));
    });
    assert_eq!(of(&books.begun), of(&books.ready) + of(&books.dropped));
    assert!(of(&books.ready) > 0 && of(&books.dropped) > 0);
    assert_empties(&engine);
    // What has fired rings until the reapers are through.
    drop(engine.stop());
    drop(engine);
    assert!(bells.iter().all(|(bell, _)| Arc::strong_count(bell) == 2));
}

#[test]
fn a_sleep_that_threads_take_turns_with_wakes_the_last_of_them() {
    let engine = engine();
    let rounds = scaled(300);
    for round in 0..rounds {
        let sleep = Mutex::new(engine.sleep(US * spread(round, rounds, 200) as u32));
        let turn = |cx: &mut Context<'_>| sleep.lock().unwrap().poll_elapsed(cx);
        on_threads::<3>(|| {
            let (_, waker) = bell();
            for _ in 0..5 {
                let _ = turn(&mut Context::from_waker(&waker));
                thread::yield_now();
            }
        });
        assert_eq!(block_on(poll_fn(turn)), Ok(()));
        assert!(sleep.into_inner().unwrap().is_elapsed());
    }
}

/// As with the timer of a connection of quinn: a task moves the sleep and then polls it, and the
/// next one may be another.
#[test]
fn a_sleep_that_threads_take_turns_to_move_wakes_the_last_of_them() {
    let (engine, seeds) = (engine(), AtomicU64::new(0));
    for _ in 0..scaled(100) {
        // With the task that waits, and how often it was woken before.
        let turns = Mutex::new((engine.sleep(Duration::ZERO), None));
        on_threads::<3>(|| {
            let mut random = Random::new(seeds.fetch_add(1, Ordering::SeqCst));
            let task = bell();
            for _ in 0..20 {
                let mut turn = turns.lock().unwrap();
                let (sleep, waits) = &mut *turn;
                let before = task.0.woken();
                sleep.reset(US * random.below(400) as u32);
                let is_ready = poll_honestly(sleep, &task.1);
                *waits = (!is_ready).then(|| (task.clone(), before));
                drop(turn);
                thread::yield_now();
            }
        });
        let (mut sleep, mut waits) = turns.into_inner().unwrap();
        while let Some((task, before)) = waits.take() {
            while task.0.woken() == before {
                thread::yield_now();
            }
            let before = task.0.woken();
            waits = (!poll_honestly(&mut sleep, &task.1)).then_some((task, before));
        }
    }
}

#[test]
fn a_wake_up_that_meets_another_tasks_poll_is_not_lost() {
    let engine = engine();
    on_threads::<3>(|| {
        let rounds = scaled(1000);
        for round in 0..rounds {
            let mut sleep = engine.sleep(US * spread(round, rounds, 120) as u32);
            let bells = [(); 2].map(|()| bell());
            let mut last = 0;
            // So many polls by one task and the other, some of them while it fires.
            let polls = (75 + 7 * round) % 150;
            let waits = (0..polls).all(|n| {
                last = (n % 2) as usize;
                !poll_honestly(&mut sleep, &bells[last].1)
            });
            while polls > 0 && waits && bells[last].0.woken() == 0 {
                thread::yield_now();
            }
            block_on(&mut sleep);
            drop(sleep);
            assert!(bells.iter().map(|(bell, _)| bell.woken()).sum::<u32>() <= 1);
        }
    });
}

#[test]
fn a_task_that_waits_while_its_engine_stops_is_told() {
    let (ended, stopped) = (AtomicU64::new(0), AtomicU64::new(0));
    // In all but the first, a sleep ends before the engine does.
    let rounds = scaled(100).max(2);
    for round in 0..rounds {
        let engine = engine();
        let seeds = AtomicU64::new(round * 4);
        on_threads::<4>(|| {
            let seed = seeds.fetch_add(1, Ordering::SeqCst);
            let random = &mut Random::new(seed);
            if seed % 4 == 0 {
                while engine.stats().fired < round % 50 && engine.stats().scheduled < 200 {
                    thread::yield_now();
                }
                return drop(engine.stop().unwrap());
            }
            loop {
                let mut sleep = engine.sleep(US * random.below(300) as u32);
                if random.below(2) == 0 {
                    sleep.reset(US * random.below(300) as u32);
                }
                match block_on(sleep.wait()) {
                    Ok(()) => add(&ended),
                    Err(SleepError::Stopped) => return add(&stopped),
                    Err(error) => panic!("{error}"),
                }
            }
        });
        assert_eq!(engine.len(), 0);
    }
    assert_eq!(of(&stopped), 3 * rounds);
    assert!(of(&ended) > 0);
}

/// Runs a closure when it is woken.
struct Waking(Mutex<Option<Box<dyn FnOnce() + Send>>>);

impl Wake for Waking {
    fn wake(self: Arc<Waking>) {
        let run = self.0.lock().unwrap().take().expect("it is woken once");
        run();
    }
}

#[test]
fn a_waker_that_blocks_is_a_stuck_task_whatever_the_handler_is() {
    let (sender, receiver) = mpsc::channel();
    let builder = Engine::builder().tick(US * 50).shards(1).takeover(US * 1000).spares(2);
    let engine = builder.build_with_handler(Channel::blocking(sender)).unwrap();
    for _ in 0..scaled(20) {
        let (slow, task) = Slow::task();
        let blocks = Waker::from(Arc::new(Waking(Mutex::new(Some(Box::new(task))))));
        let (woken, waker) = bell();
        let deadline = Instant::now() + US * 300;
        let mut first = engine.sleep_until(deadline);
        let mut later = [0, 1, 700].map(|us| engine.sleep_until(deadline + US * us));
        let pending = poll(&mut first, &blocks).is_pending();
        let polls = later.each_mut().map(|sleep| poll(sleep, &waker).is_pending());
        let waiting = polls.into_iter().map(u32::from).sum::<u32>();
        engine.schedule_detached(US * 400, || ()).unwrap();
        if pending {
            slow.has_begun();
        }
        wait_until("what is due behind it is woken", || woken.woken() == waiting);
        receiver.recv_timeout(PATIENCE).unwrap();
        if pending {
            slow.release();
        }
    }
    engine.stop().unwrap();
}

/// pgdog#1052: tokio's wheel was corrupted when the timeouts of queries were dropped under load, by
/// other workers than those that had polled them.
#[test]
fn timeouts_that_another_thread_drops_as_they_fire_leave_their_neighbours_in_place() {
    let engine = engine();
    let polled: Mutex<Vec<Vec<Sleep>>> = Mutex::default();
    let seed = AtomicU64::new(0);
    on_threads::<4>(|| {
        let mut random = Random::new(seed.fetch_add(1, Ordering::Relaxed));
        let waker = Waker::noop();
        for _ in 0..scaled(200) {
            let delay = US * (random.below(40) as u32 * 10);
            let mut queries: Vec<Sleep> = (0..32).map(|_| engine.sleep(delay)).collect();
            queries.iter_mut().for_each(|timeout| _ = poll_honestly(timeout, waker));
            // One of two neighbours is dropped by whichever thread comes next, the other one fires.
            let given = (0..16).map(|n| queries.swap_remove(n)).collect();
            let others = {
                let mut polled = polled.lock().unwrap();
                polled.push(given);
                if polled.len() > 2 { polled.swap_remove(0) } else { Vec::new() }
            };
            drop(others);
            for mut timeout in queries {
                block_on(poll_fn(|cx| timeout.poll_elapsed(cx))).unwrap();
            }
        }
    });
    drop(polled);
    assert_empties(&engine);
    engine.check().unwrap();
}

/// What one thread gives another, which waits for it.
#[derive(Default)]
struct Permits(Mutex<(u64, Option<Waker>)>);

impl Permits {
    fn give(&self) {
        let waker = {
            let mut state = self.0.lock().unwrap();
            state.0 += 1;
            state.1.take()
        };
        waker.into_iter().for_each(Waker::wake);
    }

    /// Takes one, or has `cx` woken by the next.
    fn poll_take(&self, cx: &Context<'_>) -> Poll<()> {
        let mut state = self.0.lock().unwrap();
        if state.0 == 0 {
            state.1 = Some(cx.waker().clone());
            return Poll::Pending;
        }
        state.0 -= 1;
        Poll::Ready(())
    }
}

/// JDK-8369227: a virtual thread that waited without a limit right after it had waited with one was
/// never woken. The first wait ended by a wake-up while its timeout ran; the timeout then took the
/// second wait for the first, and its wake-up was lost.
#[test]
fn a_wait_without_a_limit_right_after_one_with_is_not_taken_for_it_by_the_late_timeout() {
    let engine = engine();
    let seed = AtomicU64::new(0);
    on_threads::<2>(|| {
        let mut random = Random::new(seed.fetch_add(1, Ordering::Relaxed));
        let delays = [(); 16].map(|()| US * random.below(300) as u32);
        let (permits, taken) = (Permits::default(), AtomicU64::new(0));
        let rounds = scaled(500);
        thread::scope(|scope| {
            // The permit for the first wait comes about when its timeout does, the other at once
            // after the first was taken.
            let giver = scope.spawn(|| {
                for round in 0..rounds {
                    block_on(engine.sleep(delays[(round % 13) as usize]));
                    permits.give();
                    while of(&taken) <= 2 * round {
                        thread::yield_now();
                    }
                    permits.give();
                    while of(&taken) <= 2 * round + 1 {
                        thread::yield_now();
                    }
                }
            });
            let mut mistaken = 0;
            block_on(async {
                let mut limit = engine.sleep(Duration::MAX);
                for round in 0..rounds {
                    limit.reset(delays[(round % 16) as usize]);
                    // As a timeout does: the limit is looked at only if there is no permit.
                    poll_fn(|cx| {
                        let taken = permits.poll_take(cx);
                        if taken.is_pending() {
                            _ = limit.poll_elapsed(cx);
                        }
                        taken
                    })
                    .await;
                    add(&taken);
                    limit.reset(Duration::MAX);
                    poll_fn(|cx| {
                        mistaken += u32::from(limit.poll_elapsed(cx).is_ready());
                        permits.poll_take(cx)
                    })
                    .await;
                    add(&taken);
                    // And the limit alone wakes the task again.
                    limit.reset(US * 10);
                    poll_fn(|cx| limit.poll_elapsed(cx)).await.unwrap();
                }
            });
            // (The end of a scope alone is not seen by ThreadSanitizer.)
            giver.join().unwrap();
            assert_eq!(mistaken, 0, "the timeout of one wait ended the next");
        });
        assert_eq!(of(&taken), 2 * rounds);
    });
    assert_empties(&engine);
    engine.check().unwrap();
}
