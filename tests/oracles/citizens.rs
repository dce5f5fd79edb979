//! Types that cross threads, and sizes that users count on.

use std::fmt::Debug;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::time::Duration;

use tickless::local::Geometry;
use tickless::{
    Batch, CancelOnDrop, Engine, Handle, ManualClock, SlowTask, Snapshot, Stats, Task, Tick, View,
};

fn is_send_and_sync<T: Send + Sync + ?Sized>() {}
fn is_send<T: Send>() {}
fn is_unpin<T: Unpin>() {}
fn is_unwind_safe<T: UnwindSafe + RefUnwindSafe>() {}

/// A payload that may be sent and not shared, which is all that an engine asks for.
type Unshared = std::cell::Cell<u8>;

#[test]
fn engines_and_handles_go_to_any_thread_and_may_be_shared() {
    is_send_and_sync::<Engine>();
    is_send_and_sync::<Engine<Unshared>>();
    is_send_and_sync::<Handle>();
    is_send_and_sync::<Handle<Unshared>>();
    is_send_and_sync::<CancelOnDrop<Handle<Unshared>>>();
    is_send_and_sync::<ManualClock>();
    is_send_and_sync::<Snapshot>();
    is_send_and_sync::<Stats>();
    is_send_and_sync::<View<Unshared>>();
    is_send_and_sync::<SlowTask>();
    is_send_and_sync::<Task>();
    is_send::<Batch<'static, Unshared>>();
    is_unpin::<Handle<Unshared>>();
    is_unwind_safe::<Engine<Unshared>>();
    is_unwind_safe::<Handle<Unshared>>();
    is_unwind_safe::<CancelOnDrop<Handle<Unshared>>>();
    is_unwind_safe::<Task>();
    is_unwind_safe::<ManualClock>();
}

#[test]
fn handles_and_timeouts_are_one_word_and_clones_of_engines_and_timers_too() {
    assert_eq!(size_of::<Handle>(), size_of::<usize>());
    assert_eq!(size_of::<Engine>(), size_of::<usize>());
}

fn assert_prints(value: &dyn Debug, name: &str) {
    let printed = format!("{value:?}");
    assert!(printed.starts_with(name), "{printed} for {name}");
}

#[test]
fn what_users_hold_can_be_told_apart_in_a_log() {
    assert_prints(&Engine::builder(), "Builder { ");
    assert_prints(&Geometry::default(), "Geometry { ");
    assert_prints(&Task::new(|| {}), "Task");
    assert_eq!(format!("{:?} {:?}", Tick::new(5), Tick::NEVER), "t5 never");
    let clock = ManualClock::new();
    assert_prints(&clock, "ManualClock(");
    let engine = Engine::builder().shards(1).manual_clock(&clock).build().unwrap();
    assert_prints(&engine, "Engine { ");
    assert_prints(&engine.stats(), "Stats { ");
    let handle = engine.schedule(Duration::from_secs(1), || {}).unwrap();
    assert_prints(&handle, "Handle { state: Pending");
    assert_prints(&handle.cancel_on_drop(), "CancelOnDrop(");
    let look = |batch: Batch<'_, u8>| assert_prints(&batch, "Batch { len: 1");
    let typed = Engine::builder().shards(1).manual_clock(&clock).build_with_handler(look).unwrap();
    assert_prints(&typed, "Engine { ");
    typed.schedule_detached(Duration::ZERO, 7).unwrap();
    assert_eq!(typed.turn(0).unwrap().fired, 1);
    assert_eq!(typed.stats().panicked, 0, "it was looked at");
}
