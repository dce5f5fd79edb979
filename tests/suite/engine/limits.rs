//! Limits: bad input gets a typed error that names the bad value and gives the payload back.

use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use support::boxed::Boxed;
use support::scaled;
use support::threads::on_threads;
use tickless::{
    Batch, BuildError, Builder, Driver, Engine, GeometryError, ManualClock, ScheduleReason,
    StopError, TurnError,
};

fn drop_all(batch: Batch<'_, u64>) {
    batch.for_each(drop);
}

fn manual(max_pending: u64) -> (Engine<u64>, ManualClock) {
    let clock = ManualClock::new();
    let builder = Builder::new().max_pending(max_pending).shards(1).manual_clock(&clock);
    (builder.build_with_handler(drop_all).unwrap(), clock)
}

const SOON: Duration = Duration::from_millis(5);

#[test]
fn what_exceeds_max_pending_comes_back_in_the_error() {
    let (engine, _clock) = manual(3);
    let handles: Vec<_> = (0..3).map(|n| engine.schedule(SOON, n).unwrap()).collect();
    let error = engine.schedule(SOON, 3).unwrap_err();
    assert_eq!(error.reason(), ScheduleReason::Full);
    assert!(error.is_full() && !error.is_stopped());
    assert_eq!(error.to_string(), "as many timers as allowed are pending");
    assert_eq!(error.into_payload(), 3);
    assert_eq!(engine.schedule_detached(SOON, 4).unwrap_err().into_payload(), 4);
    assert_eq!(engine.schedule(engine.now(), 5).unwrap_err().into_payload(), 5);
    assert_eq!((engine.len(), engine.stats().scheduled), (3, 3));
    drop(handles);
}

#[test]
fn room_is_there_again_as_soon_as_a_timer_was_cancelled_fired_or_returned() {
    let (engine, _clock) = manual(1);
    for _ in 0..10 {
        let handle = engine.schedule(SOON, 0).unwrap();
        assert!(engine.schedule(SOON, 1).is_err());
        assert!(handle.cancel());
        engine.schedule_detached(SOON, 2).unwrap();
        assert!(engine.schedule(SOON, 3).is_err());
        assert_eq!(engine.advance(SOON), Ok(1));
    }
    let mut handle = engine.schedule(SOON * 100, 4).unwrap();
    assert!(handle.reset(SOON).is_ok(), "a reset needs no room");
    assert!(handle.reset(SOON * 200).is_ok());
    assert!(engine.schedule(SOON, 5).is_err(), "and makes none");
    assert_eq!(engine.stop().unwrap(), [4]);
    assert!(engine.schedule(SOON, 6).unwrap_err().is_stopped());
}

#[test]
fn a_task_finds_the_room_of_its_own_timer_free() {
    let clock = ManualClock::new();
    let engine = Engine::builder().max_pending(1).shards(1).manual_clock(&clock).build().unwrap();
    let (inner, ran) = (engine.clone(), Arc::new(AtomicU64::new(0)));
    let counter = ran.clone();
    let task = move || {
        let next = move || {
            counter.fetch_add(1, Ordering::SeqCst);
        };
        inner.schedule_detached(SOON, next).unwrap();
    };
    engine.schedule_detached(SOON, task).unwrap();
    assert_eq!(engine.advance(SOON * 2), Ok(2));
    assert_eq!(ran.load(Ordering::SeqCst), 1);
}

#[test]
fn max_pending_is_never_exceeded_by_threads_that_schedule_cancel_and_fire() {
    const MAX: u64 = 50;
    const THREADS: usize = 4;
    /// More than the limit, so that even a thread that is alone for a while meets it.
    const EACH: u64 = 60;
    // Of our own: timers that exist for sure, because they are counted after they were admitted
    // and uncounted before they are cancelled.
    let (alive, most) = (AtomicU64::new(0), AtomicU64::new(0));
    let engine = Builder::new().max_pending(MAX).shards(2).build_with_handler(drop_all).unwrap();
    let (admitted, refused) = (AtomicU64::new(0), AtomicU64::new(0));
    let far = Duration::from_secs(3600);
    let use_and_give_back = || {
        for round in 0..scaled(300) {
            let mut mine = Vec::new();
            for n in 0..EACH {
                match engine.schedule(far, n) {
                    Ok(handle) => {
                        let now = alive.fetch_add(1, Ordering::SeqCst) + 1;
                        most.fetch_max(now, Ordering::SeqCst);
                        mine.push(handle);
                    }
                    Err(error) => {
                        assert!(error.is_full());
                        refused.fetch_add(1, Ordering::SeqCst);
                    }
                }
            }
            admitted.fetch_add(mine.len() as u64, Ordering::SeqCst);
            for mut handle in mine {
                alive.fetch_sub(1, Ordering::SeqCst);
                if round % 2 == 0 {
                    assert!(handle.cancel());
                } else {
                    assert!(handle.reset(Duration::ZERO).is_ok());
                }
            }
        }
    };
    on_threads::<THREADS>(use_and_give_back);
    let most = most.into_inner();
    assert!(most <= MAX, "{most} at a time");
    assert!(most > MAX / 2, "the limit was put to the test: {most}");
    assert_eq!(admitted.load(Ordering::SeqCst), engine.stats().scheduled);
    assert_eq!(admitted.into_inner() + refused.into_inner(), THREADS as u64 * scaled(300) * EACH);
}

#[test]
fn all_room_is_there_again_after_a_storm() {
    let (engine, _clock) = manual(64);
    on_threads::<2>(|| {
        let handles: Vec<_> =
            (0..scaled(5000)).filter_map(|n| engine.schedule(SOON, n).ok()).collect();
        assert!(handles.into_iter().all(|handle| handle.cancel()));
    });
    assert_eq!(engine.len(), 0);
    for n in 0..64 {
        engine.schedule_detached(SOON, n).unwrap();
    }
    assert!(engine.schedule_detached(SOON, 64).is_err());
}

// === what a builder refuses ===

fn refusal(builder: Builder) -> BuildError {
    builder.build().map(drop).expect_err("it must be refused")
}

#[test]
fn a_builder_refuses_ticks_out_of_range_and_says_which() {
    for tick in [Duration::ZERO, Duration::MAX] {
        let error = refusal(Engine::builder().tick(tick));
        assert!(matches!(error, BuildError::Tick { tick: wrong } if wrong == tick));
        assert!(error.to_string().contains(&format!("{tick:?}")), "{error}");
    }
}

#[test]
fn a_builder_refuses_wheels_that_cannot_turn_and_says_why() {
    for slots in [0, 1, (1 << 20) + 1] {
        let error = refusal(Engine::builder().slots(slots));
        let wrong = GeometryError::Slots { slots };
        assert!(matches!(error, BuildError::Geometry(why) if why == wrong), "{error:?}");
        assert!(error.to_string().ends_with(&format!("got {slots}")), "{error}");
        assert_eq!(error.source().unwrap().to_string(), wrong.to_string());
    }
    for (slots, reach) in [(64, 0), (64, 1), (64, 65), (2, 3)] {
        let error = refusal(Engine::builder().slots(slots).reach(reach));
        let wrong = GeometryError::Reach { reach, slots };
        assert!(matches!(error, BuildError::Geometry(why) if why == wrong), "{error:?}");
        let text = error.to_string();
        assert!(text.ends_with(&format!("got {reach}")), "{error}");
        assert!(text.contains(&format!("({slots})")), "{error}");
    }
}

#[test]
fn a_builder_refuses_no_shards_and_too_many() {
    for shards in [0, Builder::MAX_SHARDS + 1, usize::MAX] {
        let error = refusal(Engine::builder().shards(shards));
        assert!(matches!(error, BuildError::Shards { shards: wrong } if wrong == shards));
        assert!(error.to_string().ends_with(&format!("got {shards}")), "{error}");
    }
}

#[test]
fn a_builder_refuses_a_limit_of_nothing() {
    let error = refusal(Engine::builder().max_pending(0));
    assert!(matches!(error, BuildError::MaxPending));
    assert!(error.to_string().contains("max_pending must be above zero"));
}

#[test]
fn a_builder_refuses_thread_names_that_no_system_takes_and_takes_all_others() {
    for name in ["\0", "in\0between", "at the end\0"] {
        let builder = Engine::builder().thread_name(name).shards(1);
        let error = refusal(builder);
        assert!(matches!(&error, BuildError::ThreadName { name: wrong } if wrong == name));
        assert!(error.to_string().contains(&format!("{name:?}")), "{error}");
    }
    let long = "long".repeat(1000);
    for name in ["", " ", "\n", "\u{1F552}", "a/b%s", long.as_str()] {
        let engine = Engine::builder().thread_name(name).shards(1).build().unwrap();
        assert_eq!(engine.stop().unwrap().len(), 0);
    }
}

#[test]
fn a_builder_refuses_what_does_not_go_with_threads() {
    let clock = ManualClock::new();
    let error = refusal(Engine::builder().manual_clock(&clock).driver(Driver::Threads));
    assert!(matches!(error, BuildError::ManualClockWithThreads));
    assert!(error.to_string().contains("manual clock"));
    let error = refusal(Engine::builder().on_earlier(|_| {}));
    assert!(matches!(error, BuildError::HookWithThreads));
    assert!(error.to_string().contains("hook"));
}

#[test]
fn the_extremes_that_a_builder_accepts_work() {
    let longest = Duration::from_nanos(u64::MAX);
    for (tick, slots, reach) in [(longest, 2, 2), (Duration::from_nanos(1), 1 << 12, 1 << 12)] {
        let clock = ManualClock::new();
        let builder = Engine::builder().tick(tick).slots(slots).reach(reach);
        let engine = builder.shards(Builder::MAX_SHARDS).manual_clock(&clock).build().unwrap();
        engine.schedule_detached(Duration::from_nanos(1), || ()).unwrap();
        assert_eq!(engine.len(), 1);
        assert_eq!(engine.stop().unwrap().len(), 1);
    }
}

// === what a turn refuses ===

#[test]
fn turns_are_refused_with_the_reason() {
    let (manual, _clock) = manual(1);
    assert_eq!(manual.turn(1), Err(TurnError::NoSuchShard { shard: 1, shards: 1 }));
    let text = manual.turn(7).unwrap_err().to_string();
    assert!(text.contains("shard 7") && text.contains("has 1"), "{text}");
    manual.stop().unwrap();
    assert_eq!(manual.turn(0), Err(TurnError::Stopped));
    assert_eq!(manual.advance(SOON), Err(TurnError::Stopped));

    let threaded = Builder::new().shards(1).build_with_handler(drop_all).unwrap();
    assert_eq!(threaded.turn(0), Err(TurnError::Driven));
    assert_eq!(threaded.advance(SOON), Err(TurnError::NotManual));

    let driven =
        Builder::new().shards(1).driver(Driver::Caller).build_with_handler(drop_all).unwrap();
    assert_eq!(driven.advance(SOON), Err(TurnError::NotManual));
    assert_eq!(driven.turn(0).unwrap().fired, 0);
}

#[test]
fn errors_are_errors_and_need_no_payload_that_can_be_printed() {
    let opaque = || Boxed::on_drop(|| ());
    let text = |error: &dyn Error| error.to_string();
    let handler = |batch: Batch<'_, Boxed>| batch.for_each(drop);
    let engine = Builder::new().max_pending(1).build_with_handler(handler).unwrap();
    let _pending = engine.schedule(Duration::from_secs(3600), opaque()).unwrap();
    let full = engine.schedule(SOON, opaque()).unwrap_err();
    assert_eq!(format!("{full:?}"), "Refused { reason: Full, .. }");
    engine.stop().unwrap();
    assert_ne!(text(&full), text(&engine.schedule(SOON, opaque()).unwrap_err()));
    assert!(text(&TurnError::InsideTask).contains("task"));
    assert!(text(&StopError::InsideTask).contains("task"));
}
