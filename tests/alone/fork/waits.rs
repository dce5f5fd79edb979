//! Waits in a child: for the parent's tasks, and in tasks of the child's own.

use std::sync::{Arc, mpsc};
use std::time::Duration;

use tickless::Engine;
use tickless::periodic::End;
use tickless::wait::{Ended, Stage, WaitError};

use crate::{HOUR, MS, PATIENCE};
use support::child::in_a_child;

#[test]
fn a_child_waits_for_no_task_of_the_parent() {
    let engine = Engine::builder().tick(MS).build().unwrap();
    let ((begin, begun), (release, released)) = (mpsc::channel(), mpsc::channel::<()>());
    let (own, given) = mpsc::channel::<()>();
    let task = move || {
        begin.send(()).unwrap();
        let _ = released.recv();
        drop(own);
    };
    let mut running = engine.schedule_waitable(Duration::ZERO, task).unwrap();
    begun.recv().unwrap();
    let mut pending = engine.schedule_waitable(HOUR, || ()).unwrap();
    let periodic = engine.every(HOUR, |_| ()).unwrap();
    in_a_child("a wait", || {
        assert_eq!(running.cancel_wait(), Err(WaitError::Forked));
        let limit = Duration::from_millis(1);
        assert_eq!(running.cancel_wait_within(limit), Err(WaitError::Forked));
        assert_eq!(pending.cancel_wait(), Ok(Ended::Cancelled));
        assert_eq!(periodic.cancel_wait(), Ok(End::Cancelled));
    });
    assert_eq!(pending.stage(), Stage::Pending);
    drop(release);
    assert_eq!(running.cancel_wait(), Ok(Ended::Finished));
    assert!(given.try_recv().is_err(), "its captures are dropped");
    assert_eq!(periodic.cancel_wait(), Ok(End::Cancelled));
}

#[test]
fn a_child_that_is_made_while_tasks_begin_to_wait_can_wait_in_its_own_tasks() {
    let one_shard = || Engine::builder().shards(1).build().unwrap();
    let stopped = one_shard();
    stopped.stop().unwrap();
    let busy = [(); 3].map(|()| one_shard());
    // Dropped before the engines, also if the test fails.
    let running = Arc::new(());
    for engine in &busy {
        let (stopped, running) = (stopped.clone(), Arc::downgrade(&running));
        // Each of these waits is over as soon as it has begun.
        let task = move || {
            while running.strong_count() > 0 {
                assert!(stopped.stop().unwrap().is_empty());
            }
        };
        engine.schedule_detached(Duration::ZERO, task).unwrap();
    }
    for _ in 0..20 {
        in_a_child("waiting in a task", || {
            let [engine, other] = [(); 2].map(|()| one_shard());
            let (sender, receiver) = mpsc::channel();
            let task = move || sender.send(other.stop().map(|left| left.len())).unwrap();
            engine.schedule_detached(Duration::ZERO, task).unwrap();
            assert_eq!(receiver.recv_timeout(PATIENCE), Ok(Ok(0)));
            engine.stop().unwrap();
        });
    }
    drop(running);
    busy.iter().for_each(|engine| _ = engine.stop().unwrap());
}

#[test]
fn a_child_waits_for_no_key_of_the_parent() {
    let engine = Engine::builder().shards(1).build().unwrap();
    let timers = tickless_keyed::KeyedTimers::with_engine(&engine);
    let (begin, begun) = mpsc::channel();
    let (release, released) = mpsc::channel::<()>();
    let task = move || {
        begin.send(()).unwrap();
        _ = released.recv();
    };
    timers.schedule_keyed(1, Duration::ZERO, task).unwrap();
    begun.recv_timeout(PATIENCE).unwrap();
    in_a_child("a wait for a key", || {
        assert_eq!(timers.cancel_wait(&1), Err(WaitError::Forked));
        assert_eq!(timers.cancel_wait_within(&1, MS * 50), Err(WaitError::Forked));
    });
    drop(release);
    assert_eq!(timers.cancel_wait(&1), Ok(false));
}
