//! What is left of the engines of runtimes that have ended: nothing, however many there were.

use std::fs;
use std::time::Duration;

use futures_util::FutureExt;
use support::alone::alone;
use support::counting::{free_what_waits_for_readers, live, made_here};
use support::scaled;
use tickless::Engine;
use tickless::future::SleepError;
use tokio::runtime::Builder;

const HOUR: Duration = Duration::from_secs(3600);

/// Files that the process has open, where the system tells.
fn open_files() -> Option<usize> {
    Some(fs::read_dir("/proc/self/fd").ok()?.count())
}

/// As each `#[tokio::test]` does, with a timer that is pending at the end.
fn a_test() {
    let runtime = Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        tickless::sleep(Duration::from_micros(1)).await;
        Engine::of_runtime().unwrap().schedule_detached(HOUR, || ()).unwrap();
    });
}

#[test]
fn the_engine_of_a_runtime_leaves_nothing_behind_when_that_has_ended() {
    let _alone = alone();
    let kept = |tests: u64| {
        (0..tests).for_each(|_| a_test());
        // The thread drops what it keeps of the last one.
        drop(Engine::builder().shards(1).build().unwrap());
        free_what_waits_for_readers();
        (live().entries, live().bytes, open_files())
    };
    let (entries, bytes, files) = kept(100);
    let after = kept(scaled(2000));
    assert_eq!((after.0, after.2), (entries, files));
    assert!(after.1 < bytes + 20_000, "{bytes} bytes and then {}", after.1);
}

/// Each task of a runtime that shuts down would build one that ends at once, before it is dropped.
#[test]
fn code_in_a_runtime_that_has_shut_down_builds_no_engine() {
    let _alone = alone();
    let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let handle = runtime.handle().clone();
    drop(runtime);
    let _entered = handle.enter();
    let sleep = || {
        let mut sleep = tickless::sleep(HOUR);
        sleep.wait().now_or_never()
    };
    assert_eq!(sleep(), Some(Err(SleepError::RuntimeEnded)), "the thread begins");
    let before = made_here();
    for _ in 0..100 {
        assert_eq!(sleep(), Some(Err(SleepError::RuntimeEnded)));
    }
    assert_eq!(made_here(), before);
}
