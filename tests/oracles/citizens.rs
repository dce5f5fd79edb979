//! Types that cross threads, and sizes that users count on.

use std::error::Error;
use std::fmt::Debug;
use std::hash::Hash;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::time::Duration;

use futures_util::future::FusedFuture;
use futures_util::stream::FusedStream;
use futures_util::{FutureExt, StreamExt};
use tickless::dispatch::{Pool, ShutdownError, SubmitReason};
use tickless::local::Geometry;
use tickless::periodic::{Attempt, Heartbeat, Periodic, Retrying, StartReason};
use tickless::wait::{Cancelled, Guarded, Waiter};
use tickless::{
    Batch, CancelOnDrop, Engine, Handle, ManualClock, ResetError, ScheduleReason, Snapshot, Stats,
    StopError, Task, Tick, TurnError, View,
};
use tickless_keyed::IfAbsentReason;
use tickless_purgatory::{Delayed, WatchReason};

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
    is_send_and_sync::<Task>();
    is_send::<Batch<'static, Unshared>>();
    is_unpin::<Handle<Unshared>>();
    is_unwind_safe::<Engine<Unshared>>();
    is_unwind_safe::<Handle<Unshared>>();
    is_unwind_safe::<CancelOnDrop<Handle<Unshared>>>();
    is_unwind_safe::<Task>();
    is_unwind_safe::<ManualClock>();
    is_unwind_safe::<Periodic>();
    is_unwind_safe::<Retrying>();
    is_unwind_safe::<Heartbeat>();
    is_unwind_safe::<Attempt<Unshared, Unshared>>();
    is_unwind_safe::<Waiter<Unshared>>();
    is_unwind_safe::<Guarded<Unshared>>();
    is_unwind_safe::<Cancelled<'static>>();
    is_unwind_safe::<Pool<Unshared>>();
    is_unwind_safe::<View<Unshared>>();
    is_unwind_safe::<Delayed<Unshared, Unshared>>();
}

#[test]
fn reasons_are_errors_and_may_be_keys() {
    fn is_reason<T: Error + Copy + Eq + Hash + Send + Sync + 'static>() {}
    is_reason::<ScheduleReason>();
    is_reason::<StartReason>();
    is_reason::<SubmitReason>();
    is_reason::<WatchReason>();
    is_reason::<IfAbsentReason>();
    is_reason::<ResetError>();
    is_reason::<tickless_keyed::ResetError>();
    is_reason::<StopError>();
    is_reason::<ShutdownError>();
    is_reason::<TurnError>();
}

#[test]
fn what_is_awaited_again_and_again_says_when_it_is_over() {
    let engine = Engine::builder().manual_clock(&ManualClock::new()).build().unwrap();
    let mut sleep = engine.sleep(Duration::ZERO);
    assert!(!sleep.is_terminated());
    assert!((&mut sleep).now_or_never().is_some() && sleep.is_terminated());
    sleep.reset(Duration::ZERO);
    assert!(!sleep.is_terminated());
    let mut late = engine.timeout(Duration::ZERO, std::future::pending::<()>().fuse());
    assert!((&mut late).now_or_never().is_some() && late.is_terminated());
    let mut quick = engine.timeout(Duration::MAX, std::future::ready(7).fuse());
    assert!((&mut quick).now_or_never().is_some() && quick.is_terminated());

    let mut queue = engine.delay_queue();
    assert!(queue.is_terminated());
    queue.insert(7, Duration::ZERO);
    assert!(!queue.is_terminated() && queue.next().now_or_never().flatten().is_some());
    assert!(queue.is_terminated());
    let mut interval = engine.interval(Duration::from_secs(1));
    assert!(interval.next().now_or_never().flatten().is_some() && !interval.is_terminated());
    engine.stop().unwrap();
    assert_eq!(interval.next().now_or_never(), Some(None));
    assert!(interval.is_terminated());
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
