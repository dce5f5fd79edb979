//! Tasks that are stuck behind another one that was: the watcher looks for them as soon as for the
//! first. `tests/races/engine/stuck.rs` has the other tests of stuck tasks.

use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use tickless::dispatch::{Full, Pool};
use tickless::{Builder, Engine, StuckTask};

use crate::attempts::succeeds_at_last;

const MS: Duration = Duration::from_millis(1);

/// An engine without takeovers, that tells of the tasks that are stuck.
fn telling(build: impl FnOnce(Builder) -> Engine) -> (Engine, mpsc::Receiver<usize>) {
    let (tell, told) = mpsc::channel();
    let builder = Engine::builder().shards(1).takeover(None);
    let tells = move |task: &StuckTask| _ = tell.send(task.shard);
    (build(builder.on_stuck(tells)), told)
}

/// The first task lasts for 0.7 s, and the second one, of the same batch, not as long.
#[test]
fn a_task_behind_one_that_was_stuck_for_long_is_told_of_as_well() {
    succeeds_at_last("two tasks are told of", || {
        let (engine, told) = telling(|builder| builder.build().unwrap());
        let (end, ended) = mpsc::channel();
        // So late that both are scheduled by then.
        let at = engine.now() + MS * 50;
        for lasts in [MS * 700, MS * 100] {
            let end = end.clone();
            let task = move || {
                thread::sleep(lasts);
                end.send(()).unwrap();
            };
            engine.schedule_detached(at, task).unwrap();
        }
        (0..2).for_each(|_| ended.recv().unwrap());
        engine.stop().unwrap();
        told.try_iter().count() == 2
    });
}

/// The reaper waits for room in a pool for two seconds. Then a callback of the user takes a tenth
/// of one, on the reaper.
#[test]
fn a_callback_after_a_long_wait_for_room_is_told_of() {
    succeeds_at_last("a callback is told of", || {
        let pool = Pool::builder(Full::Block).threads(1).queue_bound(1).build().unwrap();
        let (called, call) = mpsc::channel();
        let (engine, told) = telling(|builder| {
            let on_slow = move |_: &_| {
                thread::sleep(MS * 100);
                _ = called.send(());
            };
            let builder = builder.on_slow_task(MS * 500, on_slow);
            builder.build_with_handler(pool.clone()).unwrap()
        });
        let at = engine.now() + MS * 50;
        (0..4).for_each(|_| engine.schedule_detached(at, || thread::sleep(MS * 1_000)).unwrap());
        call.recv().unwrap();
        let is_told = told.try_iter().count() > 0;
        engine.stop().unwrap();
        is_told
    });
}
