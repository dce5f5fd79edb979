//! Precise timers and waiting in user space, by hand: what an engine whose time is moved does with
//! precise timers, and that everything else about them is as with any timer.

use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use crate::precisely::{manual, precisely};
use tickless::{
    Batch, BindError, BuildError, Builder, Engine, Handle, ManualClock, ScheduleReason, State,
    StopError, TurnError, When,
};

const US: Duration = Duration::from_micros(1);

const MS: Duration = Duration::from_millis(1);

const HOUR: Duration = Duration::from_secs(3600);

/// An engine that notes when its payloads are handed over.
fn noting() -> (Engine<u32>, ManualClock, mpsc::Receiver<(u32, Duration)>) {
    let (builder, clock) = manual();
    let (sender, receiver) = mpsc::channel();
    let (at, sender) = (clock.clone(), Mutex::new(sender));
    let each = move |payload| sender.lock().unwrap().send((payload, at.elapsed())).unwrap();
    (builder.build_each(each).unwrap(), clock, receiver)
}

#[test]
fn a_precise_timer_fires_at_its_microsecond_and_another_at_its_tick() {
    let (engine, _clock, fired) = noting();
    for (n, when) in [
        (0, precisely(1234 * US)),
        (1, When::after(1234 * US)),
        (2, precisely(Duration::from_nanos(1_234_567))),
        (3, precisely(HOUR + 7 * US)),
        (4, When::at(engine.now() + 5 * US).precise()),
        (5, precisely(Duration::ZERO)),
    ] {
        engine.schedule_detached(when, n).unwrap();
    }
    engine.check().unwrap();
    assert_eq!(engine.advance(2 * HOUR).unwrap(), 6);
    let expected = [(5, Duration::ZERO), (4, 5 * US), (0, 1234 * US), (2, 1235 * US), (1, 2 * MS)];
    assert_eq!(fired.try_iter().take(5).collect::<Vec<_>>(), expected);
    assert_eq!(fired.try_recv(), Ok((3, HOUR + 7 * US)));
    engine.check().unwrap();
}

#[test]
fn on_an_engine_without_them_a_precise_timer_is_like_any_other() {
    let engine = Engine::builder().manual_clock(&ManualClock::new()).shards(1).build().unwrap();
    let mut timer = engine.schedule(precisely(1234 * US), || ()).unwrap();
    assert_eq!(timer.deadline(), Some(engine.now() + 2 * MS));
    timer.reset(precisely(2345 * US)).unwrap();
    assert_eq!(timer.deadline(), Some(engine.now() + 3 * MS));
    assert!(engine.snapshot().iter().all(|timer| !timer.precise));
    assert_eq!(engine.shards(), 1);
    assert_eq!(engine.advance(3 * MS), Ok(1));
}

#[test]
fn a_reset_leaves_a_timer_as_precise_as_it_was() {
    let (engine, clock, fired) = noting();
    let mut precise = engine.schedule(precisely(10 * MS), 0).unwrap();
    let mut other = engine.schedule(10 * MS, 1).unwrap();
    for delay in [20_001 * US, 3_333 * US, 40_321 * US, 1_500 * US] {
        precise.reset(delay).unwrap();
        other.reset(precisely(delay)).unwrap();
        assert_eq!(precise.deadline(), Some(engine.now() + delay));
        let ticks = delay.as_micros().div_ceil(1000) as u32;
        assert_eq!(other.deadline(), Some(engine.now() + MS * ticks));
        engine.check().unwrap();
    }
    assert_eq!(engine.advance(MS), Ok(0));
    precise.reset(engine.now() + 77 * US).unwrap();
    assert_eq!(engine.advance(MS), Ok(2));
    assert_eq!(fired.try_iter().collect::<Vec<_>>(), [(0, 1077 * US), (1, 2 * MS)]);
    assert_eq!(clock.elapsed(), 2 * MS);
    assert!(precise.reset(MS).is_err() && !precise.cancel() && !other.cancel());
}

#[test]
fn cancel_take_and_state_work_and_the_next_one_gets_the_seat() {
    let (engine, ..) = noting();
    let one = engine.schedule(precisely(MS), 1).unwrap();
    assert_eq!(one.state(), State::Pending);
    assert!(one.cancel());
    let two = engine.schedule(precisely(MS), 2).unwrap();
    assert_eq!(two.take(), Some(2));
    drop(engine.schedule(precisely(MS), 3).unwrap().cancel_on_drop());
    assert_eq!(engine.len(), 0);
    let stats = engine.stats();
    assert_eq!((stats.scheduled, stats.seated, stats.cancelled), (3, 2, 3));
    let last = engine.schedule(precisely(MS), 4).unwrap();
    assert_eq!(engine.advance(MS), Ok(1));
    assert_eq!(last.state(), State::Fired);
    engine.check().unwrap();
}

#[test]
fn numbers_and_snapshots_have_both_kinds() {
    let (engine, ..) = noting();
    for n in 0..10 {
        engine.schedule_detached(precisely(MS * n + 3 * US), n).unwrap();
        engine.schedule_detached(MS * n + 3 * US, n).unwrap();
    }
    assert_eq!((engine.len(), engine.shards()), (20, 3));
    let snapshot = engine.snapshot();
    assert_eq!((snapshot.len(), snapshot.by_shard().len()), (20, 3));
    assert_eq!(snapshot.by_shard()[2], 10);
    for timer in &snapshot {
        assert_eq!(timer.precise, timer.shard == 2);
        let after = timer.deadline.unwrap() - engine.now();
        assert_eq!(after.as_micros() % 1000, if timer.precise { 3 } else { 0 });
    }
    // Widths are those of the right wheel: few timers are filed for their own ticks.
    let levels = snapshot.by_level();
    let widths: Vec<_> = levels.iter().map(|count| (count.width, count.timers)).collect();
    assert_eq!(widths, [(MS, 10), (US, 10)]);
    assert_eq!(engine.advance(5 * MS), Ok(10));
    let stats = engine.stats();
    assert_eq!((stats.scheduled, stats.fired, stats.pending), (20, 10, 10));
    assert_eq!((stats.lateness.count, stats.lateness.max), (10, Duration::ZERO));
}

#[test]
fn far_deadlines_are_kept_and_those_too_far_never_fire() {
    let (engine, ..) = noting();
    let never = engine.schedule(precisely(Duration::MAX), 0).unwrap();
    let far = engine.schedule(precisely(HOUR * 24 * 365 * 100), 1).unwrap();
    assert_eq!(never.deadline(), None);
    assert_eq!(far.deadline(), Some(engine.now() + HOUR * 24 * 365 * 100));
    engine.check().unwrap();
    assert_eq!(engine.advance(HOUR * 24 * 365 * 100 - US), Ok(0));
    assert_eq!(engine.advance(US), Ok(1));
    assert!(never.cancel());
}

#[test]
fn the_limit_holds_for_both_kinds_together() {
    let (builder, _clock) = manual();
    let engine = builder.max_pending(3).build().unwrap();
    let one = engine.schedule(precisely(MS), || ()).unwrap();
    let two = engine.schedule(MS, || ()).unwrap();
    engine.schedule_detached(precisely(2 * MS), || ()).unwrap();
    for when in [precisely(MS), MS.into()] {
        let refused = engine.schedule(when, || ()).unwrap_err();
        assert_eq!(refused.reason(), ScheduleReason::Full);
    }
    assert!(one.cancel() && two.cancel());
    for _ in 0..2 {
        engine.schedule_detached(MS, || ()).unwrap();
    }
    assert!(engine.schedule(precisely(MS), || ()).unwrap_err().is_full());
    assert_eq!(engine.advance(2 * MS), Ok(3));
    let all: Vec<Handle> =
        (0..3).map(|_| engine.schedule(precisely(HOUR), || ()).unwrap()).collect();
    assert!(engine.schedule(HOUR, || ()).unwrap_err().is_full());
    drop(all);
    assert_eq!(engine.stop().unwrap().len(), 3);
}

#[test]
fn a_caller_turns_the_last_shard_for_them_and_is_called_for_its_number() {
    let (builder, clock) = manual();
    let called = Arc::new(Mutex::new(Vec::new()));
    let calls = called.clone();
    let engine = builder.on_earlier(move |shard| calls.lock().unwrap().push(shard)).build();
    let engine = engine.unwrap();
    let shards = engine.shards();
    assert_eq!(shards, 3);
    let turns = || (0..shards).map(|shard| engine.turn(shard).unwrap());
    assert!(turns().all(|turn| turn.next.is_none()));
    engine.schedule_detached(precisely(1500 * US), || ()).unwrap();
    assert_eq!(*called.lock().unwrap(), [2]);
    let next: Vec<_> = turns().map(|turn| turn.next).collect();
    assert_eq!(next, [None, None, Some(engine.now() + 1500 * US)]);
    clock.advance(1499 * US);
    assert_eq!(engine.turn(2).unwrap().fired, 0);
    clock.advance(US);
    let fired: Vec<_> = turns().map(|turn| turn.fired).collect();
    assert_eq!(fired, [0, 0, 1]);
    for shard in [3, usize::MAX] {
        let refused = Err(TurnError::NoSuchShard { shard, shards: 3 });
        assert_eq!(engine.turn(shard), refused);
    }
    assert_eq!(engine.bind_thread(2), Err(BindError::NoSuchShard { shard: 2, shards: 2 }));
}

#[test]
fn tasks_of_both_kinds_work_for_the_engine() {
    let (builder, _clock) = manual();
    let engine = builder.build().unwrap();
    let (sender, receiver) = mpsc::channel();
    for when in [precisely(MS), MS.into()] {
        let (inside, sender) = (engine.clone(), sender.clone());
        let task = move || {
            let turns = [0, 2].map(|shard| inside.turn(shard).unwrap_err());
            sender.send((inside.stop().unwrap_err(), turns)).unwrap();
            for when in [precisely(MS), MS.into()] {
                inside.schedule_detached(when, || ()).unwrap();
            }
        };
        engine.schedule_detached(when, task).unwrap();
    }
    assert_eq!(engine.advance(2 * MS), Ok(6));
    let refused = (StopError::InsideTask, [TurnError::InsideTask; 2]);
    assert_eq!(receiver.try_iter().collect::<Vec<_>>(), [refused; 2]);
}

#[test]
fn a_stop_returns_both_kinds_and_refuses_both() {
    let (engine, ..) = noting();
    for (n, when) in
        [precisely(MS), MS.into(), precisely(HOUR), HOUR.into()].into_iter().enumerate()
    {
        engine.schedule_detached(when, n as u32).unwrap();
    }
    let mut held = engine.schedule(precisely(HOUR), 4).unwrap();
    let mut returned = engine.stop().unwrap();
    returned.sort_unstable();
    assert_eq!(returned, [0, 1, 2, 3, 4]);
    for when in [precisely(MS), MS.into()] {
        assert!(engine.schedule(when, 5).unwrap_err().is_stopped());
    }
    assert_eq!((held.state(), held.deadline()), (State::Stopped, None));
    assert!(held.reset(MS).is_err() && !held.cancel());
    assert_eq!(engine.turn(2), Err(TurnError::Stopped));
    assert!(engine.stop().unwrap().is_empty());
    let stats = engine.stats();
    assert_eq!((stats.returned, stats.pending), (5, 0));
}

#[test]
fn the_handler_is_dropped_once_with_the_engine_and_handles_outlive_it() {
    struct Tell(mpsc::Sender<()>);
    impl tickless::Handler<u32> for Tell {
        fn fire(&self, batch: Batch<'_, u32>) {
            batch.for_each(drop);
        }
    }
    impl Drop for Tell {
        fn drop(&mut self) {
            self.0.send(()).unwrap();
        }
    }
    let (sender, dropped) = mpsc::channel();
    let engine = manual().0.build_with_handler(Tell(sender)).unwrap();
    let handle = engine.schedule(precisely(HOUR), 1).unwrap();
    assert!(dropped.try_recv().is_err());
    drop(engine);
    assert_eq!(dropped.try_iter().count(), 1);
    assert_eq!((handle.state(), handle.deadline()), (State::Stopped, None));
    assert!(!handle.cancel());
}

#[test]
fn a_panic_and_a_slow_task_are_reported_with_the_number_of_the_shard() {
    let (builder, clock) = manual();
    let (sender, told) = mpsc::channel();
    let slow = sender.clone();
    let engine = builder
        .on_panic(move |panic| sender.send(("panicked", panic.shard)).unwrap())
        .on_slow_task(MS, move |task| slow.send(("slow", task.shard)).unwrap())
        .build()
        .unwrap();
    engine.schedule_detached(precisely(MS), || crate::planned::panic_as_planned()).unwrap();
    engine.schedule_detached(precisely(2 * MS), move || clock.advance(5 * MS)).unwrap();
    crate::planned::quietly();
    engine.advance(3 * MS).unwrap();
    assert_eq!(told.try_iter().collect::<Vec<_>>(), [("panicked", 2), ("slow", 2)]);
    let stats = engine.stats();
    assert_eq!((stats.panicked, stats.slow, stats.fired), (1, 1, 2));
}

#[test]
fn a_share_is_between_nothing_and_a_whole_core() {
    for share in [-0.1, 1.1, f64::NAN, f64::INFINITY] {
        for builder in [Builder::new().precise(share), Builder::new().spin_share(share)] {
            let error = builder.build().unwrap_err();
            assert!(matches!(error, BuildError::Share { .. }), "{error}");
            assert!(error.to_string().contains("between 0 and 1"));
        }
    }
    for share in [0.0, 1.0] {
        manual().0.precise(share).spin_share(share).build().unwrap();
    }
}

// === the modules above the engine ===
