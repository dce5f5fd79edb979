//! Tasks that wait for the end of each other's engines and pools: the thread that would close the
//! circle is told, all others get to the end.

use std::cell::RefCell;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Barrier};
use std::time::Duration;

use support::patience::PATIENCE;
use tickless::dispatch::{Full, Pool, ShutdownError};
use tickless::{Engine, StopError, Task};
use tickless_sync::Mutex;

type Answers = (Sender<Option<StopError>>, Receiver<Option<StopError>>);

/// Each of `engines` gets a task that stops the next one, when all of these tasks are running.
/// Answers how many were told that they would close the circle.
fn stop_in_a_ring(engines: &[Engine]) -> usize {
    let barrier = Arc::new(Barrier::new(engines.len()));
    let (answer, answers): Answers = channel();
    for (i, engine) in engines.iter().enumerate() {
        let next = engines[(i + 1) % engines.len()].clone();
        let (barrier, answer) = (barrier.clone(), answer.clone());
        let task = move || {
            barrier.wait();
            answer.send(next.stop().err()).unwrap();
        };
        engine.schedule_detached(Duration::ZERO, task).unwrap();
    }
    let told = engines.iter().map(|_| answers.recv_timeout(PATIENCE).expect("it is stuck"));
    let told: Vec<StopError> = told.flatten().collect();
    assert!(told.iter().all(|error| *error == StopError::Circular), "{told:?}");
    told.len()
}

#[test]
fn of_engines_whose_tasks_stop_each_other_one_is_told() {
    for engines in [2, 3, 5] {
        let ring: Vec<Engine> =
            (0..engines).map(|_| Engine::builder().shards(1).build().unwrap()).collect();
        assert_eq!(stop_in_a_ring(&ring), 1, "of {engines}");
        assert_eq!(ring.iter().filter(|engine| !engine.is_stopped()).count(), 1);
        ring.iter().for_each(|engine| _ = engine.stop().unwrap());
    }
}

/// The pools have one worker and room for one task each, and more tasks than that are due: so the
/// reapers wait for room while the workers wait for the engines.
#[test]
fn a_ring_through_full_pools_is_a_ring_as_well() {
    let ring: Vec<Engine> = (0..3)
        .map(|_| {
            let pool = Pool::builder(Full::Block).threads(1).queue_bound(1).build().unwrap();
            Engine::builder().shards(1).build_with_handler(pool).unwrap()
        })
        .collect();
    let (answer, answers): Answers = channel();
    for (i, engine) in ring.iter().enumerate() {
        for _ in 0..5 {
            let (next, answer) = (ring[(i + 1) % ring.len()].clone(), answer.clone());
            let task = move || answer.send(next.stop().err()).unwrap();
            // One that is refused comes too late: its engine has been stopped already.
            let _ = engine.schedule_detached(Duration::from_millis(2), task);
        }
    }
    drop(answer);
    // All tasks end or are dropped, after which nobody is left who could answer.
    let stops = ring.clone();
    let ended = std::thread::spawn(move || {
        let errors: Vec<StopError> = answers.iter().flatten().collect();
        assert!(
            errors
                .iter()
                .all(|error| { matches!(error, StopError::Circular | StopError::InsideTask) })
        );
    });
    let (done, is_done) = channel();
    std::thread::spawn(move || {
        stops.iter().for_each(|engine| _ = engine.stop().unwrap());
        drop(stops);
        ended.join().unwrap();
        done.send(()).unwrap();
    });
    is_done.recv_timeout(PATIENCE).expect("it is stuck");
}

#[test]
fn engines_that_are_dropped_by_each_others_tasks_do_not_wait() {
    let engines = [(); 2].map(|()| Engine::builder().shards(1).build().unwrap());
    let (barrier, (done, is_done)) = (Arc::new(Barrier::new(2)), channel());
    let mut last = engines.clone();
    last.rotate_left(1);
    for (engine, last) in engines.iter().zip(last) {
        let (barrier, done) = (barrier.clone(), done.clone());
        let task = move || {
            barrier.wait();
            drop(last);
            done.send(()).unwrap();
        };
        engine.schedule_detached(Duration::from_millis(2), task).unwrap();
    }
    drop(engines);
    (0..2).for_each(|_| is_done.recv_timeout(PATIENCE).expect("it is stuck"));
}

#[test]
fn of_pools_whose_tasks_shut_each_other_down_one_is_told() {
    let pools = [(); 2].map(|()| Pool::builder(Full::Block).threads(1).build().unwrap());
    let (barrier, (answer, answers)) = (Arc::new(Barrier::new(2)), channel());
    for i in 0..2 {
        let (next, barrier, answer) = (pools[1 - i].clone(), barrier.clone(), answer.clone());
        let task = Task::new(move || {
            barrier.wait();
            answer.send(next.shutdown().err()).unwrap();
        });
        pools[i].submit(task).unwrap();
    }
    let told = [(); 2].map(|()| answers.recv_timeout(PATIENCE).expect("it is stuck"));
    let told: Vec<ShutdownError> = told.into_iter().flatten().collect();
    assert_eq!(told, [ShutdownError::Circular]);
}

#[test]
fn a_task_on_a_pool_stops_the_engine_that_feeds_it() {
    let pool = Pool::builder(Full::Block).threads(1).build().unwrap();
    let engine = Engine::builder().shards(1).build_with_handler(pool).unwrap();
    let (answer, answers) = channel();
    let same = engine.clone();
    let task = move || answer.send(same.stop().map(|tasks| tasks.len())).unwrap();
    engine.schedule_detached(Duration::from_secs(3600), || ()).unwrap();
    engine.schedule_detached(Duration::ZERO, task).unwrap();
    assert_eq!(answers.recv_timeout(PATIENCE).expect("it is stuck"), Ok(1));
}

/// A thread's hook is a part of the engine's work: a stop would join the thread.
#[test]
fn a_hook_of_a_thread_that_begins_cannot_stop_its_engine() {
    let (place, (answer, answers)) = (Arc::new(Mutex::new(None::<Engine>)), channel());
    let of_hook = place.clone();
    let hook = move || {
        let engine = of_hook.lock().unwrap().clone();
        // (The test may be over.)
        engine.map(|engine| answer.send(engine.stop().err()));
    };
    let builder = Engine::builder().shards(1).takeover(Duration::from_millis(1));
    let engine = builder.on_thread_start(hook).build().unwrap();
    *place.lock().unwrap() = Some(engine.clone());
    let (hold, held) = channel::<()>();
    // A thread begins when this is stuck, if not before.
    engine.schedule_detached(Duration::ZERO, move || _ = held.recv()).unwrap();
    let told = answers.recv_timeout(PATIENCE).expect("it is stuck");
    assert_eq!(told, Some(StopError::InsideTask));
    place.lock().unwrap().take();
    drop(hold);
    engine.stop().unwrap();
}

/// Does something when the thread ends that has it in a thread-local.
struct AtTheEnd(Option<Box<dyn FnOnce()>>);

impl Drop for AtTheEnd {
    fn drop(&mut self) {
        self.0.take().expect("it is dropped once")();
    }
}

thread_local! {
    static AT_THE_END: RefCell<Option<AtTheEnd>> = const { RefCell::new(None) };
}

fn at_the_end(f: impl FnOnce() + 'static) {
    AT_THE_END.set(Some(AtTheEnd(Some(Box::new(f)))));
}

#[test]
fn threads_whose_locals_stop_what_the_other_works_for_end_as_well() {
    let engine = Engine::builder().shards(1).takeover(None).build().unwrap();
    let pool = Pool::builder(Full::Block).threads(1).build().unwrap();
    let barrier = Arc::new(Barrier::new(2));
    let (answer, answers) = channel();
    let (set, is_set) = channel();
    let of_engine = {
        let (barrier, answer, set, pool) =
            (barrier.clone(), answer.clone(), set.clone(), pool.clone());
        move || {
            at_the_end(move || {
                barrier.wait();
                answer.send(pool.shutdown() == Err(ShutdownError::Circular)).unwrap();
            });
            set.send(()).unwrap();
        }
    };
    let of_pool = {
        let engine = engine.clone();
        move || {
            at_the_end(move || {
                barrier.wait();
                answer.send(engine.stop().err() == Some(StopError::Circular)).unwrap();
            });
            set.send(()).unwrap();
        }
    };
    engine.schedule_detached(Duration::ZERO, of_engine).unwrap();
    pool.submit(Task::new(of_pool)).unwrap();
    (0..2).for_each(|_| is_set.recv_timeout(PATIENCE).unwrap());
    // It does not wait for the thread's locals.
    assert_eq!(engine.stop_within(PATIENCE).unwrap().running, 0);
    let (done, is_done) = channel();
    std::thread::spawn(move || done.send(pool.shutdown()).unwrap());
    let told = [(); 2].map(|()| answers.recv_timeout(PATIENCE).expect("they are stuck"));
    assert_eq!(told.iter().filter(|&&is_told| is_told).count(), 1, "{told:?}");
    assert_eq!(is_done.recv_timeout(PATIENCE), Ok(Ok(())));
}
