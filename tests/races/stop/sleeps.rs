//! A running task awaits a sleep of its own engine, which is stopped or dropped: the sleep ends,
//! and so does the task, for which the stop waits.

use std::future::pending;
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;

use support::parking::block_on;
use support::patience::PATIENCE;
use tickless::Engine;

const HOUR: Duration = Duration::from_secs(3600);

/// Futures that end when a timer of the engine is due in an hour, or when the engine stops. They do
/// not keep the engine.
type Wait = Box<dyn FnOnce() + Send>;

fn waits(engine: &Engine) -> [(&'static str, Wait); 4] {
    let (mut sleep, timeout) = (engine.sleep(HOUR), engine.timeout(HOUR, pending::<()>()));
    let (mut interval, mut queue) = (engine.interval_at(HOUR, HOUR), engine.delay_queue());
    queue.insert("item", HOUR);
    [
        ("a sleep", Box::new(move || assert!(block_on(sleep.wait()).is_err()))),
        ("a timeout", Box::new(move || assert!(block_on(timeout).is_err()))),
        ("an interval", Box::new(move || assert!(block_on(interval.try_tick()).is_err()))),
        ("a queue", Box::new(move || assert!(block_on(queue.try_expired()).is_err()))),
    ]
}

/// Begins a task of the engine that waits; what tells that the wait is over.
fn begin(engine: &Engine, wait: Wait) -> Receiver<()> {
    let ((begin, begun), (end, ended)) = (channel(), channel());
    let task = move || {
        begin.send(()).unwrap();
        wait();
        end.send(()).unwrap();
    };
    engine.schedule_detached(Duration::ZERO, task).unwrap();
    begun.recv_timeout(PATIENCE).unwrap();
    ended
}

/// Has each of the waits of a running task ended by `end`, on a thread of its own.
fn assert_ended_by(end: impl FnOnce(Engine) + Clone + Send + 'static) {
    for i in 0..4 {
        let engine = Engine::builder().shards(1).build().unwrap();
        let (what, wait) = waits(&engine).into_iter().nth(i).unwrap();
        let (ended, end) = (begin(&engine, wait), end.clone());
        let thread = thread::spawn(move || end(engine));
        ended.recv_timeout(PATIENCE).unwrap_or_else(|_| panic!("{what} lasts"));
        thread.join().unwrap();
    }
}

#[test]
fn a_stop_ends_what_a_running_task_awaits() {
    assert_ended_by(|engine| assert!(engine.stop().unwrap().is_empty(), "it is no caller's"));
}

#[test]
fn dropping_the_engine_ends_what_a_running_task_awaits() {
    assert_ended_by(drop);
}

#[test]
fn a_sleep_of_another_thread_ends_while_the_caller_has_what_a_stop_returned() {
    let engine = Engine::builder().shards(1).build().unwrap();
    let mut sleep = engine.sleep(HOUR);
    engine.schedule_detached(HOUR, || ()).unwrap();
    let sleeper = thread::spawn(move || block_on(sleep.wait()));
    while engine.len() < 2 {
        thread::yield_now();
    }
    let left = engine.stop().unwrap();
    assert!(sleeper.join().unwrap().is_err());
    assert_eq!(left.len(), 1);
}
