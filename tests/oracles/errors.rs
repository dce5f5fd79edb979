//! Errors: `?` passes each of them on to anyhow, to eyre and to `Box<dyn Error + Send + Sync>`, and
//! a payload that one carries comes back out of there and can be used.

use std::cell::Cell;
use std::error::Error;
use std::fmt::Debug;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use support::boxed::Boxed;
use support::compiled;
use tickless::dispatch::{
    Full, Pool, PoolBuilder, PoolError, ShutdownError, SubmitError, SubmitReason,
};
use tickless::future::{Elapsed, SleepError};
use tickless::periodic::{Backoff, Heartbeat, Retry, StartError, StartReason};
use tickless::{
    Batch, BuildError, Builder, Engine, GeometryError, Handle, ManualClock, ResetError,
    ScheduleError, ScheduleReason, StopError, Task, TurnError, Violation,
};
use tickless_purgatory::{Operation, Purgatory, WatchError, WatchReason};

const HOUR: Duration = Duration::from_secs(3600);

/// A value that may be sent and not shared, which is all that an engine asks for.
type Unshared = Cell<u8>;

/// A payload that may not be shared either.
fn unshared() -> Boxed {
    Boxed::new(Unshared::new(7))
}

/// Calls `fails` in a function of each kind, and returns the errors that these functions passed on.
fn through_each<T: Debug, E: Error + Send + Sync + 'static>(
    fails: impl Fn() -> Result<T, E>,
) -> [E; 3] {
    let text = fails().unwrap_err().to_string();
    let by_anyhow = || -> anyhow::Result<T> { Ok(fails()?) };
    let by_eyre = || -> eyre::Result<T> { Ok(fails()?) };
    let boxed = || -> Result<T, Box<dyn Error + Send + Sync>> { Ok(fails()?) };
    let (by_anyhow, by_eyre) = (by_anyhow().unwrap_err(), by_eyre().unwrap_err());
    let boxed = boxed().unwrap_err();
    let texts = [by_anyhow.to_string(), by_eyre.to_string(), boxed.to_string()];
    assert!(texts.iter().all(|other| *other == text), "{texts:?}");
    [by_anyhow.downcast().unwrap(), by_eyre.downcast().unwrap(), *boxed.downcast().unwrap()]
}

/// Something that counts how often it ran, in a closure that may be sent and not shared.
#[derive(Default)]
struct Runs(Arc<AtomicU32>);

impl Runs {
    fn closure(&self) -> impl FnOnce() + Send + 'static {
        let (runs, unshared) = (self.0.clone(), Unshared::new(1));
        move || {
            runs.fetch_add(u32::from(unshared.get()), Ordering::Relaxed);
        }
    }

    fn count(&self) -> u32 {
        self.0.load(Ordering::Relaxed)
    }
}

fn stopped() -> Engine {
    let engine = by_hand();
    engine.stop().unwrap();
    engine
}

fn by_hand() -> Engine {
    Builder::new().shards(1).manual_clock(&ManualClock::new()).build().unwrap()
}

fn full() -> (Engine, Handle) {
    let builder = Builder::new().shards(1).max_pending(1);
    let engine = builder.manual_clock(&ManualClock::new()).build().unwrap();
    let pending = engine.schedule(HOUR, || ()).unwrap();
    (engine, pending)
}

#[test]
fn errors_may_be_sent_and_shared_whatever_their_payload_is() {
    fn is_error<E: Error + Send + Sync + 'static>() {}
    is_error::<BuildError>();
    is_error::<GeometryError>();
    is_error::<ResetError>();
    is_error::<ScheduleError<Unshared>>();
    is_error::<ScheduleError<Task>>();
    is_error::<StopError>();
    is_error::<TurnError>();
    is_error::<Violation>();
    is_error::<PoolError>();
    is_error::<ShutdownError>();
    is_error::<SubmitError<Unshared>>();
    is_error::<SleepError>();
    is_error::<Elapsed>();
    is_error::<StartError<Unshared>>();
    is_error::<WatchError<Op>>();
    {
        is_error::<tickless_keyed::IfAbsentError>();
        is_error::<tickless_keyed::ResetError>();
    }
}

#[test]
fn a_task_that_was_refused_runs_at_the_other_end() {
    let runs = Runs::default();
    let (full, _pending) = full();
    for (engine, reason) in [(stopped(), ScheduleReason::Stopped), (full, ScheduleReason::Full)] {
        for error in through_each(|| engine.schedule(HOUR, runs.closure())) {
            assert_eq!(error.reason(), reason);
            error.into_payload().run();
        }
        for error in through_each(|| engine.schedule_detached(HOUR, runs.closure())) {
            error.into_payload().run();
        }
    }
    assert_eq!(runs.count(), 12);
}

#[test]
fn a_payload_that_was_refused_comes_back_at_the_other_end() {
    let engine = Engine::typed(|batch: Batch<'_, Boxed>| batch.for_each(drop)).unwrap();
    engine.stop().unwrap();
    for error in through_each(|| engine.schedule(HOUR, unshared())) {
        assert!(error.is_stopped());
        assert_eq!(error.into_payload().get::<Unshared>().get(), 7);
    }
}

#[test]
fn a_reset_is_passed_on_with_the_same_sign() {
    fn postpone<T: Send>(handle: &mut Handle<T>) -> anyhow::Result<()> {
        handle.reset(2 * HOUR)?;
        handle.reset(std::time::Instant::now() + HOUR)?;
        Ok(())
    }
    let engine = Engine::typed(|batch: Batch<'_, Boxed>| batch.for_each(drop)).unwrap();
    let mut handle = engine.schedule(HOUR, unshared()).unwrap();
    postpone(&mut handle).unwrap();
    engine.stop().unwrap();
    let error = postpone(&mut handle).unwrap_err();
    assert_eq!(error.downcast_ref(), Some(&ResetError::Stopped));
}

#[test]
fn what_a_pool_does_not_take_comes_back_at_the_other_end() {
    let runs = Runs::default();
    let pool: Pool<Box<dyn FnOnce() + Send>> = Pool::builder(Full::Block)
        .threads(1)
        .build_typed(|run: Box<dyn FnOnce() + Send>| run())
        .unwrap();
    pool.shutdown().unwrap();
    for error in through_each(|| pool.submit(Box::new(runs.closure()))) {
        assert_eq!(error.reason(), SubmitReason::ShutDown);
        error.into_payload()();
    }
    assert_eq!(runs.count(), 3);
}

#[test]
fn what_repeats_and_was_not_started_comes_back_at_the_other_end() {
    let (engine, unshared) = (stopped(), || Unshared::new(3));
    let every = || {
        let unshared = unshared();
        engine.every(HOUR, compiled::task(move |_| unshared.set(unshared.get() + 1)))
    };
    for error in through_each(every) {
        assert_eq!(error.reason(), StartReason::Stopped);
        by_hand().every(HOUR, error.into_payload()).unwrap();
    }
    let heartbeat = || {
        let unshared = unshared();
        Heartbeat::new(&by_hand(), Duration::ZERO, compiled::silent(move || unshared.set(0)))
    };
    for error in through_each(heartbeat) {
        assert_eq!(error.reason(), StartReason::ZeroPeriod);
        error.into_payload()();
    }
    let retry = || {
        let unshared = unshared();
        let attempt = move |_| unshared.replace(0).checked_sub(1).ok_or("not now");
        Retry::new(Backoff::new(HOUR)).run(&engine, attempt, |_| ())
    };
    for error in through_each(retry) {
        let (attempt, _done) = error.into_payload();
        assert_eq!((attempt(1), attempt(2)), (Ok(2), Err("not now")));
    }
}

struct Op(Unshared);

// SAFETY: nobody but the one thread of the test has it.
unsafe impl Sync for Op {}

impl Operation for Op {
    fn try_complete(&self) -> bool {
        false
    }

    fn on_complete(&self) {}
}

#[test]
fn an_operation_that_was_not_let_in_comes_back_at_the_other_end() {
    let purgatory = Purgatory::with_engine(&stopped());
    let watch = || purgatory.try_complete_else_watch(Op(Unshared::new(7)).into(), [1], HOUR);
    for error in through_each(watch) {
        assert_eq!(error.reason(), WatchReason::Stopped);
        assert_eq!(error.into_payload().0.get(), 7);
    }
}

#[test]
fn a_keyed_task_that_was_refused_runs_at_the_other_end() {
    use tickless_keyed::{IfAbsentReason, KeyedTimers};

    let (timers, runs) = (KeyedTimers::with_engine(&by_hand()), Runs::default());
    timers.schedule_keyed("key", HOUR, || ()).unwrap();
    for error in through_each(|| timers.schedule_if_absent("key", HOUR, runs.closure())) {
        assert_eq!(error.reason(), IfAbsentReason::Occupied);
        error.into_payload().run();
    }
    let _returned = timers.engine().stop().unwrap();
    for error in through_each(|| timers.schedule_keyed("other", HOUR, runs.closure())) {
        error.into_payload().run();
    }
    assert_eq!(runs.count(), 6);
    through_each(|| timers.reset("key", HOUR));
}

#[test]
fn errors_without_a_payload_are_passed_on_as_well() {
    let (engine, pool) = (stopped(), |threads| PoolBuilder::new(Full::Block).threads(threads));
    through_each(|| Builder::new().shards(0).build());
    through_each(|| tickless::local::Geometry::new(0, 1));
    through_each(|| engine.turn(0));
    through_each(|| pool(0).build());
    through_each(|| pollster::block_on(engine.sleep(HOUR).wait()));
    through_each(|| pollster::block_on(engine.timeout(HOUR, std::future::pending::<()>())));
}

#[test]
fn one_function_passes_on_all_that_a_program_meets() {
    fn program() -> anyhow::Result<u32> {
        let runs = Runs::default();
        let clock = ManualClock::new();
        let engine = Builder::new().manual_clock(&clock).build()?;
        let mut handle = engine.schedule(HOUR, runs.closure())?;
        handle.reset(2 * HOUR)?;
        let again = engine.every(HOUR, compiled::task(|_| ()))?;
        engine.advance(2 * HOUR)?;
        engine.check()?;
        assert!(again.cancel());
        engine.stop()?;
        engine.schedule_detached(HOUR, runs.closure())?;
        Ok(runs.count())
    }
    let error = program().unwrap_err().downcast::<ScheduleError<Task>>().unwrap();
    assert!(error.is_stopped());
    error.into_payload().run();
}
