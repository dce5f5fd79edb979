//! Waiting for tasks that run: on each dispatcher, with a limit, inside other tasks, and while an
//! engine stops. And what it is for: memory that is freed as soon as the wait is over.

use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use support::awaited::wait_for_a_slow_task;
use support::mpsc::channel;
use support::patience::PATIENCE;
use support::random::{Random, dawdle};
use support::scaled;
use support::threads::spawn;
use support::token::Fates;
use support::watchdog::watched;
use tickless::dispatch::{Full, Pool};
use tickless::wait::{Ended, Stage};
use tickless::{Builder, Engine, Waitable};

const US: Duration = Duration::from_micros(1);

const MODES: [Full; 3] = [Full::Block, Full::RunInline, Full::Drop];

fn pool(full: Full, threads: usize, queue_bound: usize) -> Pool {
    Pool::builder(full).threads(threads).queue_bound(queue_bound).build().unwrap()
}

fn builder() -> Builder {
    Builder::new().tick(20 * US).shards(1)
}

fn on_pool(full: Full, threads: usize, queue_bound: usize) -> Engine {
    builder().build_with_handler(pool(full, threads, queue_bound)).unwrap()
}

/// Engines that run their tasks in every place that there is, with the name of that.
fn everywhere() -> Vec<(String, Engine)> {
    let mut engines = vec![("inline".into(), builder().build().unwrap())];
    for full in MODES {
        engines.push((format!("a pool that would {full:?}"), on_pool(full, 2, 100)));
    }
    let (sender, receiver) = crossbeam_channel::unbounded::<tickless::Task>();
    let channel = tickless::dispatch::Channel::blocking(sender);
    spawn(move || receiver.into_iter().for_each(tickless::Task::run));
    engines.push(("a channel".into(), builder().build_with_handler(channel).unwrap()));
    engines
}

#[test]
fn a_task_that_runs_is_waited_for_wherever_it_does() {
    for (what, engine) in everywhere() {
        for _ in 0..scaled(20) {
            wait_for_a_slow_task(&what, &engine);
        }
    }
}

#[test]
fn a_task_that_waits_in_a_queue_is_cancelled_by_the_only_worker() {
    for full in MODES {
        let (engine, fates, (answer, answers)) = (on_pool(full, 1, 10), Fates::new(1), channel());
        let (give, given) = channel::<Waitable>();
        let of_task = fates.clone();
        let first = move || {
            let mut timer = given.recv().unwrap();
            // Until it has left the engine, or is about to.
            while timer.stage() == Stage::Pending {
                thread::yield_now();
            }
            answer.send((timer.cancel_wait(), of_task.of(0))).unwrap();
        };
        engine.schedule_detached(Duration::ZERO, first).unwrap();
        let token = fates.token(0);
        give.send(engine.schedule_waitable(Duration::ZERO, move || token.run()).unwrap()).unwrap();
        let told = answers.recv_timeout(PATIENCE).expect("it waits for itself");
        assert_eq!(told, (Ok(Ended::Cancelled), (0, 1)), "{full:?}");
    }
}

#[test]
fn a_worker_that_waits_steps_aside() {
    let (engine, other) = (on_pool(Full::Block, 1, 1), builder().build().unwrap());
    let ((go, gone), (begin, begun), (answer, answers)) = (channel::<()>(), channel(), channel());
    let awaited = move || {
        begin.send(()).unwrap();
        gone.recv().unwrap();
    };
    let mut timer = other.schedule_waitable(Duration::ZERO, awaited).unwrap();
    begun.recv().unwrap();
    engine
        .schedule_detached(Duration::ZERO, move || answer.send(timer.cancel_wait()).unwrap())
        .unwrap();
    // The worker waits. These fill the queue, and the last one finds no room and nobody to make
    // any: it ends the task that the worker waits for.
    for _ in 0..3 {
        let go = go.clone();
        engine.schedule_detached(200 * US, move || _ = go.send(())).unwrap();
    }
    drop(go);
    assert_eq!(answers.recv_timeout(PATIENCE).expect("it is stuck"), Ok(Ended::Finished));
}

#[test]
fn a_task_is_waited_for_while_its_engine_stops() {
    // Each way at least once.
    for round in 0..scaled(300).max(2) {
        let (engine, fates) = (builder().build().unwrap(), Fates::new(1));
        let token = fates.token(0);
        let mut timer = engine.schedule_waitable(30 * US, move || token.run()).unwrap();
        let stops = spawn(move || match round % 2 {
            0 => engine.stop().unwrap(),
            _ => engine.stop_within(Duration::ZERO).unwrap().returned,
        });
        let ended = timer.cancel_wait().unwrap();
        let (ran, dropped) = fates.of(0);
        assert_eq!((ran == 1, dropped), (ended == Ended::Finished, 1));
        stops.join().unwrap().into_iter().for_each(tickless::Task::run);
        assert_eq!(fates.of(0), (ran, dropped), "nothing of it is left");
    }
}

/// Memory that a task works on, and that is freed when the wait is over.
struct Ground([AtomicU64; 2]);

/// Schedules timers that work on memory of their own, cancels each when it is about to fire, fires
/// or has fired, and frees that memory at once. Returns how many ran.
fn free_after_cancel(engine: &Engine, random: &mut Random, timers: u64) -> u64 {
    let mut finished = 0;
    for _ in 0..timers {
        let memory = Box::into_raw(Box::new(Ground([const { AtomicU64::new(0) }; 2])));
        // SAFETY: the memory is freed after the wait, and nothing of the task runs then.
        let ground: &'static Ground = unsafe { &*memory };
        let steps = random.below(40);
        let task = move || {
            for _ in 0..=steps {
                ground.0.iter().for_each(|word| _ = word.fetch_add(1, Ordering::Relaxed));
            }
        };
        let delay = US * random.below(60) as u32;
        let mut timer = engine.schedule_waitable(delay, task).unwrap();
        match random.below(3) {
            0 => dawdle(random),
            1 => thread::yield_now(),
            _ => {
                while timer.stage() == Stage::Pending && random.below(500) > 0 {
                    std::hint::spin_loop();
                }
            }
        }
        let ended = timer.cancel_wait().unwrap();
        // SAFETY: it came from a box, and the wait is over. The plain reads that this makes of it
        // race with anything that is left of the task.
        let Ground(words) = *unsafe { Box::from_raw(memory) };
        let works = words.map(AtomicU64::into_inner);
        assert_eq!(works, [if ended == Ended::Finished { steps + 1 } else { 0 }; 2]);
        finished += u64::from(ended == Ended::Finished);
    }
    finished
}

/// A million of these run when the sanitizers run at length (`ci/long.sh`).
#[test]
fn memory_that_is_freed_after_the_wait_is_touched_by_nobody() {
    const EACH: u64 = 5_000;
    let places: Vec<(String, Engine)> = everywhere().into_iter().take(4).collect();
    let threads: Vec<_> = (0_u64..8)
        .map(|i| {
            let (what, engine) = places[i as usize % places.len()].clone();
            spawn(move || {
                watched(&what.clone(), move |pulse| {
                    let random = &mut Random::new(i);
                    let rounds = scaled(EACH).div_ceil(100);
                    (0..rounds).for_each(|_| {
                        free_after_cancel(&engine, random, 100);
                        pulse.beat();
                    });
                });
            })
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
}
