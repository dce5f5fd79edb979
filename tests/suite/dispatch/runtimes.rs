//! What holds wherever the tasks of an engine run that are not its own threads: a pool of rayon's,
//! a runtime of tokio's. `rayon` and `tokio` have what is their own.

use std::time::Duration;

use support::mpsc;
use support::patience::PATIENCE;
use support::slow::Slow;
use tickless::{Builder, Engine, Handler, ManualClock, Task};

pub(super) const MS: Duration = Duration::from_millis(1);

pub(super) fn by_hand<T: Send + 'static>(handler: impl Handler<T> + 'static) -> Engine<T> {
    Builder::new().shards(1).manual_clock(&ManualClock::new()).build_with_handler(handler).unwrap()
}

/// A task that is slow delays no timer, and no stop: it ends after the engine.
pub(super) fn assert_waits_for_no_task(handler: impl Handler<Task> + 'static) {
    let engine = by_hand(handler);
    let (slow, task) = Slow::task();
    engine.schedule_detached(MS, task).unwrap();
    let (sender, receiver) = mpsc::channel();
    for n in 0..100 {
        let sender = sender.clone();
        engine.schedule_detached(MS * (1 + n), move || sender.send(n).unwrap()).unwrap();
    }
    assert_eq!(engine.advance(MS * 100), Ok(101));
    slow.has_begun();
    assert_eq!(engine.stats().lateness.max, Duration::ZERO);
    for _ in 0..100 {
        receiver.recv_timeout(PATIENCE).unwrap();
    }
    engine.stop().unwrap();
    drop(engine);
    slow.release();
}

/// A task stops the engine that it comes from.
pub(super) fn assert_a_task_may_stop(handler: impl Handler<Task> + 'static) {
    let engine: Engine = Engine::builder().shards(2).build_with_handler(handler).unwrap();
    engine.schedule_detached(Duration::from_secs(3600), || ()).unwrap();
    let ((sender, receiver), inner) = (mpsc::channel(), engine.clone());
    let task = move || sender.send(inner.stop().map(|rest| rest.len())).unwrap();
    engine.schedule_detached(MS, task).unwrap();
    assert_eq!(receiver.recv_timeout(PATIENCE), Ok(Ok(1)));
    let late = engine.schedule_detached(MS, || ()).unwrap_err();
    Task::run(late.into_payload());
}
