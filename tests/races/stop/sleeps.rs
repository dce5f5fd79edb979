//! A running task awaits something that a timer of its own engine ends, and the engine is stopped
//! or dropped: the wait ends, and so does the task, for which the stop waits. Without takeovers,
//! no such wait begins.

use std::future::{Future, pending};
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::Duration;

use support::boxed::Boxed;
use support::compiled;
use support::mpsc::{Receiver, Sender, channel};
use support::parking::block_on;
use support::patience::PATIENCE;
use support::polling::{bell, poll};
use support::scaled;
use support::threads::spawn;
use support::until::wait_until;
use tickless::dispatch::Handler;
use tickless::future::Sleep;
use tickless::periodic::{End, Outcome, Retry, Run, Schedule};
use tickless::wait::WaitError;
use tickless::{Batch, Engine, ManualClock, ScheduleReason, StopError, Task};

const MS: Duration = Duration::from_millis(1);
const HOUR: Duration = Duration::from_secs(3600);

/// Waits until a timer of the engine is due in an hour, or until the engine stops, and returns why
/// the wait ended. It does not keep the engine.
type Wait = Box<dyn FnOnce() -> ScheduleReason + Send>;

fn reason_of(ended: End) -> ScheduleReason {
    match ended {
        End::Stopped => ScheduleReason::Stopped,
        End::Circular => ScheduleReason::Circular,
        other => panic!("{other:?}"),
    }
}

fn end_of(ended: impl Future<Output = Result<End, WaitError>>) -> ScheduleReason {
    match block_on(ended) {
        Err(WaitError::Circular) => ScheduleReason::Circular,
        ended => reason_of(ended.unwrap()),
    }
}

fn futures(engine: &Engine) -> [(&'static str, Wait); 4] {
    let (mut sleep, timeout) = (engine.sleep(HOUR), engine.timeout(HOUR, pending::<()>()));
    let (mut interval, mut queue) = (engine.interval_at(HOUR, HOUR), engine.delay_queue());
    queue.insert("item", HOUR);
    [
        ("a sleep", Box::new(move || block_on(sleep.wait()).unwrap_err())),
        ("a timeout", Box::new(move || block_on(timeout).unwrap_err().cause().unwrap())),
        ("an interval", Box::new(move || block_on(interval.try_tick()).unwrap_err())),
        ("a queue", Box::new(move || block_on(queue.try_expired()).unwrap_err())),
    ]
}

fn repeating(engine: &Engine) -> [(&'static str, Wait); 4] {
    let periodic = engine.every(HOUR, compiled::task(|_| ())).unwrap();
    let retry = || Retry::new([HOUR; 2]);
    let paused = retry().run(engine, |_| Err::<(), _>(()), drop).unwrap();
    let (attempts, _kept) = channel();
    let limited = retry().attempt_timeout(HOUR);
    let limited = limited.start::<(), (), _, _>(engine, move |a| attempts.send(a).unwrap(), drop);
    let limited = limited.unwrap();
    let future = retry().run_async(engine, |_| async { Err::<(), _>(()) });
    let of_future = move || match block_on(future) {
        Outcome::Ended { end, attempts: 1 } => reason_of(end),
        other => panic!("{other:?}"),
    };
    [
        ("a periodic", Box::new(move || end_of(periodic.ended()))),
        ("a retry's pause", Box::new(move || end_of(paused.ended()))),
        ("a retry's attempt", Box::new(move || end_of((limited.ended(), _kept).0))),
        ("a retry that is a future", Box::new(of_future)),
    ]
}

fn waits(engine: &Engine) -> Vec<(&'static str, Wait)> {
    futures(engine).into_iter().chain(repeating(engine)).collect()
}

/// Begins a task of the engine that waits; what tells why the wait is over.
fn begin(engine: &Engine, wait: Wait) -> Receiver<ScheduleReason> {
    let ((begin, begun), (end, ended)) = (channel(), channel());
    let task = move || {
        begin.send(()).unwrap();
        end.send(wait()).unwrap();
    };
    engine.schedule_detached(Duration::ZERO, task).unwrap();
    begun.recv_timeout(PATIENCE).unwrap();
    ended
}

/// Has each of the waits of a running task ended by `end`, on a thread of its own.
fn assert_ended_by(end: impl FnOnce(Engine) + Clone + Send + 'static) {
    let of_kind = |kind: usize| {
        let engine = Engine::builder().shards(1).build().unwrap();
        let (what, wait) = waits(&engine).into_iter().nth(kind)?;
        let (ended, end) = (begin(&engine, wait), end.clone());
        let thread = spawn(move || end(engine));
        let reason = ended.recv_timeout(PATIENCE).unwrap_or_else(|_| panic!("{what} lasts"));
        assert_eq!(reason, ScheduleReason::Stopped, "{what}");
        thread.join().unwrap();
        Some(())
    };
    assert_eq!((0..).map_while(of_kind).count(), 8);
}

#[test]
fn a_stop_ends_what_a_running_task_awaits() {
    assert_ended_by(|engine| assert!(engine.stop().unwrap().is_empty(), "it is no caller's"));
}

/// The run of a periodic waits in the batch, behind the task that awaits its end.
#[test]
fn a_stop_ends_what_is_in_hand_behind_the_task_that_awaits_it() {
    let ends: [fn(Engine); 2] = [|engine| assert!(engine.stop().unwrap().is_empty()), drop];
    for end in ends {
        let engine = Engine::builder().shards(1).takeover(HOUR).build().unwrap();
        let (hold, held) = channel::<()>();
        engine.schedule_detached(Duration::ZERO, move || _ = held.recv()).unwrap();
        let later = Schedule::fixed_rate(HOUR).starting(MS * 5);
        let awaited = later.start(&engine, compiled::task(|_| ())).unwrap();
        let ((begin, begun), (tell, told)) = (channel(), channel());
        let task = move || {
            begin.send(()).unwrap();
            tell.send(block_on(awaited.ended())).unwrap();
        };
        engine.schedule_detached(MS, task).unwrap();
        let both_due = engine.now() + MS * 6;
        while engine.now() < both_due {
            thread::yield_now();
        }
        drop(hold);
        begun.recv_timeout(PATIENCE).unwrap();
        let thread = spawn(move || end(engine));
        assert_eq!(told.recv_timeout(PATIENCE), Ok(Ok(End::Stopped)));
        thread.join().unwrap();
    }
}

#[test]
fn dropping_the_engine_ends_what_a_running_task_awaits() {
    assert_ended_by(drop);
}

#[test]
fn a_sleep_of_another_thread_ends_while_the_caller_has_what_a_stop_returned() {
    let engine = Engine::builder().shards(1).build().unwrap();
    let mut sleep = engine.sleep(HOUR);
    engine.schedule_detached(HOUR, || ()).unwrap();
    let sleeper = spawn(move || block_on(sleep.wait()));
    while engine.len() < 2 {
        thread::yield_now();
    }
    let left = engine.stop().unwrap();
    assert!(sleeper.join().unwrap().is_err());
    assert_eq!(left.len(), 1);
}

/// A stop closes a shard before it takes out what is in it. In between a reset has its timer, and
/// no shard takes it.
#[test]
fn a_task_is_woken_though_its_sleep_is_moved_while_the_engine_stops() {
    for _ in 0..scaled(20) {
        let engine = Engine::builder().shards(1).build().unwrap();
        let (bell, waker) = bell();
        let mut sleeps: Vec<_> = (0..2_000).map(|_| engine.sleep(HOUR)).collect();
        for sleep in &mut sleeps {
            assert!(poll(sleep, &waker).is_pending());
            // So that the stop takes a while.
            (0..5).for_each(|_| engine.schedule_detached(HOUR, || ()).unwrap());
        }
        let begin = Barrier::new(2);
        thread::scope(|threads| {
            let mover = threads.spawn(|| {
                begin.wait();
                sleeps.iter_mut().for_each(|sleep| sleep.reset(HOUR / 60));
            });
            begin.wait();
            engine.stop().unwrap();
            // ThreadSanitizer does not see how a scope waits.
            mover.join().unwrap();
        });
        assert_eq!(bell.woken(), 2_000);
    }
}

/// An engine by hand whose shard takes a while to close.
fn full_engine(clock: &ManualClock) -> (Engine, usize) {
    let engine = Engine::builder().manual_clock(clock).shards(1).build().unwrap();
    let timers = scaled(50_000) as usize;
    (0..timers).for_each(|_| engine.schedule_detached(HOUR, || ()).unwrap());
    (engine, timers)
}

/// A task that is due after so many milliseconds and ends when its engine begins to stop; what
/// tells that it runs.
fn until_stopped(engine: &Engine, after_ms: u32) -> Receiver<()> {
    let ((begin, begun), view) = (channel(), engine.clone());
    let task = move || {
        begin.send(()).unwrap();
        while !view.is_stopped() {
            thread::yield_now();
        }
    };
    engine.schedule_detached(MS * after_ms, task).unwrap();
    begun
}

/// The thread that took over has the sleep behind another task, which ends while the stop closes
/// the shard.
#[test]
fn a_stop_ends_what_a_thread_leaves_that_took_over_from_the_task_that_awaits_it() {
    let clock = ManualClock::new();
    let (engine, timers) = full_engine(&clock);
    let mut sleep = engine.sleep(MS * 3);
    let (end, ended) = channel();
    let task = move || end.send(block_on(sleep.wait()).is_ok()).unwrap();
    engine.schedule_detached(Duration::ZERO, task).unwrap();
    let first = engine.clone();
    let first = spawn(move || first.turn(0).is_ok());
    while engine.len() < timers + 1 || engine.stats().fired < 1 {
        thread::yield_now();
    }
    let begun = until_stopped(&engine, 2);
    clock.advance(MS * 3);
    let second = engine.clone();
    let second = spawn(move || second.take_over(0).is_ok() && second.turn(0).is_ok());
    begun.recv_timeout(PATIENCE).unwrap();
    let stopper = spawn(move || engine.stop().unwrap().len());
    ended.recv_timeout(PATIENCE).expect("it lasts");
    assert_eq!(stopper.join().unwrap(), timers);
    assert!(first.join().is_ok() && second.join().is_ok());
}

/// Nobody waits any more when the task ends before the sleep.
#[test]
fn a_sleep_ends_with_a_stop_that_gave_up_although_it_was_in_hand() {
    let clock = ManualClock::new();
    let (engine, timers) = full_engine(&clock);
    let mut sleep = engine.sleep(MS * 2);
    let (end, ended) = channel();
    let sleeper = spawn(move || end.send(block_on(sleep.wait()).is_ok()).unwrap());
    while engine.len() < timers + 1 {
        thread::yield_now();
    }
    let begun = until_stopped(&engine, 1);
    clock.advance(MS * 2);
    let turner = engine.clone();
    let turner = spawn(move || turner.turn(0).is_ok());
    begun.recv_timeout(PATIENCE).unwrap();
    engine.stop_within(Duration::ZERO).unwrap();
    ended.recv_timeout(PATIENCE).expect("it lasts");
    sleeper.join().unwrap();
    turner.join().unwrap();
    drop(engine);
}

/// A handler whose drop waits for a thread of its own.
struct Joins(Option<thread::JoinHandle<bool>>);

impl Handler<Task> for Joins {
    fn fire(&self, batch: Batch<'_, Task>) {
        batch.for_each(Task::run);
    }
}

impl Drop for Joins {
    fn drop(&mut self) {
        assert!(self.0.take().unwrap().join().unwrap(), "the sleep ends with the engine");
    }
}

/// Nothing is due, so a stop ends all roles itself.
#[test]
fn a_handler_may_wait_in_its_drop_for_what_the_stop_ends() {
    let ends: [fn(Engine); 2] = [|engine| assert!(engine.stop().unwrap().is_empty()), drop];
    for end in ends {
        let (give, sleep) = channel::<Sleep>();
        let sleeper = spawn(move || {
            let mut sleep = sleep.recv().unwrap();
            block_on(sleep.wait()).is_err()
        });
        let builder = Engine::builder().shards(2);
        let engine = builder.build_with_handler(Joins(Some(sleeper))).unwrap();
        give.send(engine.sleep(HOUR)).unwrap();
        wait_until("it sleeps", || engine.len() == 1);
        let (tell, told) = channel();
        let ender = spawn(move || {
            end(engine);
            tell.send(()).unwrap();
        });
        assert_eq!(told.recv_timeout(PATIENCE), Ok(()), "it lasts");
        ender.join().unwrap();
    }
}

/// The stop waits for what it drops.
#[test]
fn what_a_stop_drops_cannot_stop_the_engine() {
    struct Stops(Engine, Sender<Option<StopError>>);

    impl Drop for Stops {
        fn drop(&mut self) {
            self.1.send(self.0.stop().err()).unwrap();
        }
    }

    let engine = Engine::builder().shards(1).build().unwrap();
    let (tell, told) = channel();
    let captured = Stops(engine.clone(), tell);
    let _periodic = engine.every(HOUR, compiled::task(move |_| _ = &captured)).unwrap();
    let stopper = spawn(move || engine.stop().unwrap().len());
    assert_eq!(told.recv_timeout(PATIENCE), Ok(Some(StopError::InsideTask)));
    assert_eq!(stopper.join().unwrap(), 0);
}

/// Nobody would fire the timers of the task's shard, whichever shard that is.
#[test]
fn without_takeovers_a_task_does_not_wait_for_its_own_engine() {
    for shards in [1, 4] {
        let engine = Engine::builder().shards(shards).takeover(None).build().unwrap();
        for (what, wait) in waits(&engine) {
            let reason = begin(&engine, wait).recv_timeout(PATIENCE);
            assert_eq!(reason, Ok(ScheduleReason::Circular), "{what} of {shards}");
        }
        assert!(engine.stop().unwrap().is_empty());
    }
}

/// Each has a task that awaits a timer of the other, and no thread fires either. When one of them
/// stops, its timers end; so does the other's task, whose thread fires what the first one awaits.
#[test]
fn a_stop_ends_a_circle_of_two_engines_without_takeovers() {
    let engine = || Engine::builder().shards(1).takeover(None).build().unwrap();
    let [one, two] = [(); 2].map(|()| engine());
    let (all, (end, ended)) = (Arc::new(Barrier::new(3)), channel());
    for [of, other] in [[&one, &two], [&two, &one]] {
        let (other, all, end) = (other.clone(), all.clone(), end.clone());
        let task = move || {
            all.wait();
            let result = block_on(other.sleep(Duration::from_millis(100)).wait());
            drop(other);
            end.send(result).unwrap();
        };
        of.schedule_detached(Duration::ZERO, task).unwrap();
    }
    // The tasks run, and then their sleeps are all that is pending. (If one polls its sleep when
    // that is over already, both tasks end.)
    all.wait();
    let mut ended_early = 0;
    while (one.is_empty() || two.is_empty()) && ended_early == 0 {
        ended_early = ended.try_recv().into_iter().count();
        thread::yield_now();
    }
    let stopper = spawn(move || one.stop().unwrap().len());
    (ended_early..2).for_each(|_| _ = ended.recv_timeout(PATIENCE).expect("a wait lasts"));
    // The one who awaits the first gets its sleep back with the stop, or dropped by it.
    assert!(stopper.join().unwrap() <= 1);
    two.stop().unwrap();
}

/// The engine cannot tell the timer of a periodic from the other payloads, and its stop returns it
/// after the running tasks.
#[test]
fn a_task_of_an_engine_of_other_payloads_does_not_wait_for_a_periodic_of_it() {
    let each_runs = |batch: Batch<'_, Boxed>| batch.for_each(Boxed::run);
    let engine: Engine<Boxed> = Engine::typed(each_runs).unwrap();
    let (keep, kept) = channel();
    let start = |schedule: Schedule, task: Box<dyn FnMut(&Run) + Send>| {
        let keep = keep.clone();
        schedule.start_with(&engine, task, move |periodic| keep.send(periodic).unwrap()).unwrap();
        kept.recv().unwrap()
    };
    let awaited = start(Schedule::fixed_rate(HOUR), Box::new(|_| ()));
    let (end, ended) = channel();
    let others = awaited.clone();
    let task = move |run: &Run| {
        run.cancel();
        end.send(block_on(others.ended())).unwrap();
    };
    let at_once = Schedule::fixed_rate(HOUR).starting(Duration::ZERO);
    let waiting = start(at_once, Box::new(task));
    assert_eq!(ended.recv_timeout(PATIENCE), Ok(Err(WaitError::Circular)));
    assert_eq!(block_on(waiting.ended()), Ok(End::Cancelled), "others may wait");
    assert_eq!(engine.stop().unwrap().len(), 1);
    assert_eq!(awaited.end(), Some(End::Stopped));
}
