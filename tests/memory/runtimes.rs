//! What is left of the engines of runtimes that have ended: nothing, however many there were.

use std::fs;
use std::time::Duration;

use support::alone::alone;
use support::counting::{free_what_waits_for_readers, live};
use support::scaled;
use tickless::Engine;
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
