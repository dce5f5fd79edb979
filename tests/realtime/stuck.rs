//! Tasks that are stuck behind another one that was: the watcher looks for them as soon as for the
//! first. `tests/races/engine/stuck.rs` has the other tests of stuck tasks.

use std::sync::mpsc;
use std::thread;
use std::time::Duration;

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
