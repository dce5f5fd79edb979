//! Tasks that wait for the end of what they run on.

use std::sync::Arc;
use std::time::Duration;

use support::mpsc::channel;
use support::patience::PATIENCE;
use tickless::dispatch::{Full, Pool};
use tickless::{Engine, StopError};
use tickless_sync::Mutex;

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
