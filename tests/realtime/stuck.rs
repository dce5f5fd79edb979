//! Threads that look at once for tasks that are stuck: the system decides how often one of them is
//! suspended while it looks. `tests/races/engine/stuck.rs` has the other tests of stuck tasks.

use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use tickless::{Engine, StuckTask};

use crate::attempts::succeeds_at_last;
use support::patience::PATIENCE;

const MS: Duration = Duration::from_millis(1);

/// Threads that look at the same time see the task all the same.
#[test]
fn several_threads_that_look_at_once_all_see_a_stuck_task() {
    let (tell, told) = mpsc::channel();
    let builder = Engine::builder().shards(2).takeover(None);
    let builder = builder.on_stuck(move |task: &StuckTask| _ = tell.send(task.shard));
    let engine = builder.build().unwrap();
    let (release, released) = mpsc::channel::<()>();
    engine.bind_thread(0).unwrap();
    engine.schedule_detached(Duration::ZERO, move || _ = released.recv()).unwrap();
    engine.schedule_detached(MS, || ()).unwrap();
    assert_eq!(told.recv_timeout(PATIENCE), Ok(0));
    let look = || {
        // The system may suspend a thread just while it looks, and the other one then misses the
        // task until that thread goes on: many times in succession, but seldom.
        let seen: Vec<bool> = (0..20_000).map(|_| engine.overdue().stuck.len() == 1).collect();
        seen.windows(2).filter(|two| two[0] && !two[1]).count()
    };
    succeeds_at_last("the task is out of sight at most 20 times in 20,000 looks", || {
        thread::scope(|scope| {
            let lookers = [scope.spawn(look), scope.spawn(look)];
            lookers.into_iter().all(|looker| looker.join().unwrap() <= 20)
        })
    });
    drop(release);
    engine.stop().unwrap();
}
