//! The engine that a program makes the process's own. One test, because a process has one.

use std::thread;
use std::time::Duration;

use tickless::{Engine, GlobalReason, ManualClock};
use tokio::runtime::Builder;

#[test]
fn the_first_engine_that_is_set_is_the_processs_own_for_good() {
    let clock = ManualClock::new();
    let build = || Engine::builder().manual_clock(&clock).shards(1).build().unwrap();
    let engine = build();
    let ours = engine.clone();
    let set = |engine: Engine| thread::spawn(move || Engine::set_global(engine)).join().unwrap();
    // Before any other: one that ends with its runtime is none for the process.
    let runtime = Builder::new_current_thread().enable_all().build().unwrap();
    let of_runtime = runtime.block_on(async { Engine::builder().build_on_tokio().unwrap() });
    let refused = set(of_runtime).unwrap_err();
    assert_eq!(refused.reason(), GlobalReason::OfRuntime);
    assert!(refused.to_string().contains("enter_runtime"), "{refused}");
    set(engine).unwrap();
    assert_eq!(Engine::global().now(), ours.now());
    let refused = set(build()).unwrap_err();
    assert_eq!(refused.reason(), GlobalReason::InUse);
    assert_eq!(refused.to_string(), "the process has an engine of its own already");
    refused.into_payload().stop().unwrap();
    drop(ours);

    // Code that names no engine runs by its clock.
    let hour = Duration::from_secs(3600);
    let begin = tickless::now();
    let nap = thread::spawn(move || {
        pollster::block_on(tickless::sleep(hour));
        tickless::now()
    });
    while Engine::global().is_empty() {
        thread::yield_now();
    }
    assert_eq!(Engine::global().advance(hour).unwrap(), 1);
    assert_eq!(nap.join().unwrap(), begin + hour);
    // So does code in a runtime, though that has an engine of its own.
    runtime.block_on(async {
        Engine::of_runtime().unwrap();
        assert_eq!(tickless::now(), begin + hour);
    });
}
