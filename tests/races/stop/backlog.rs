//! Stop with a backlog: from the call on no task begins that was not handed over already, what was
//! due comes back with the rest, and schedules are refused, whatever the reapers are doing.
//!
//! Nothing here goes by time. That `stop` was called shows when a schedule is refused: until then
//! the task in hand blocks its reaper.

use std::mem;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

use super::row::{Control, Job, Row};
use support::boxed::Boxed;
use support::planned::quietly;
use support::scaled;
use tickless::dispatch::{Full, Pool};
// One that ThreadSanitizer can follow.
use support::patience::PATIENCE;
use support::threads::spawn;
use support::token::{Fates, Token};
use support::until::wait_until;
use tickless::{
    Batch, Builder, Driver, Engine, Handler, ManualClock, ResetError, State, Task, When,
};
use tickless_sync::Mutex;

const HOUR: Duration = Duration::from_secs(3600);

const MS: Duration = Duration::from_millis(1);

/// How many are due when `stop` is called: less than a batch has room for.
const DUE: usize = 200;

/// Runs each job where the reaper hands it over.
fn run_all(batch: Batch<'_, Boxed>) {
    batch.for_each(Job::run);
}

fn threaded(shards: usize, handler: impl Handler<Boxed> + 'static) -> Engine<Boxed> {
    Builder::new()
        .tick(Duration::from_micros(10))
        .shards(shards)
        .takeover(None)
        .build_with_handler(handler)
        .unwrap()
}

/// An engine of one shard, whose caller moves the clock.
fn by_hand() -> (Engine<Boxed>, ManualClock) {
    let clock = ManualClock::new();
    (Builder::new().shards(1).manual_clock(&clock).build_with_handler(run_all).unwrap(), clock)
}

/// Blocks the reaper of `shard` in a job of another row, lets it have `numbers` to do next, and
/// lets it go on until the third of them blocks.
fn backlog(
    engine: &Engine<Boxed>,
    shard: usize,
    fates: &Fates,
    numbers: std::ops::Range<usize>,
) -> Control {
    let (door, third) = (Row::that_blocks_at(1), Row::that_blocks_at(3));
    let fates_of_door = Fates::new(1);
    engine.bind_thread(shard).unwrap();
    engine.schedule_detached(Duration::ZERO, door.job(fates_of_door.token(0))).unwrap();
    door.blocks();
    for number in numbers {
        engine.schedule_detached(Duration::ZERO, third.job(fates.token(number))).unwrap();
    }
    // All are due when the clock shows the next tick.
    let due = engine.now() + MS;
    wait_until("all are due", || engine.now() > due);
    door.open();
    third.blocks();
    third
}

/// Asks until a schedule is refused. Answers how many were not.
fn until_refused<T>(schedule: impl Fn() -> Result<(), T>) -> usize {
    let begin = Instant::now();
    let mut accepted = 0;
    while schedule().is_ok() {
        accepted += 1;
        let elapsed = begin.elapsed();
        assert!(elapsed < PATIENCE, "{accepted} schedules accepted {elapsed:?} after the stop");
        // Nothing else tells; and each question stays in the engine.
        thread::sleep(Duration::from_micros(100));
    }
    accepted
}

/// Stops `engine` on another thread, lets `rows` go on as soon as schedules are refused, and
/// answers what came back.
fn stop_while_blocked(engine: &Engine<Boxed>, rows: &[Control]) -> Vec<Token> {
    let of_stopper = engine.clone();
    let stopper = spawn(move || of_stopper.stop().unwrap());
    let accepted =
        until_refused(|| engine.schedule_detached(HOUR, Job::asks(&rows[0].row)).map_err(drop));
    rows.iter().for_each(Control::open);
    let mut returned = stopper.join().unwrap();
    let tokens: Vec<Token> =
        returned.iter_mut().filter_map(|job| job.get_mut::<Job>().token.take()).collect();
    assert_eq!(returned.len() - tokens.len(), accepted, "what was accepted comes back");
    tokens
}

/// Asserts that three of each `row` began and that the rest came back, each of them once.
fn assert_three_of_each(
    engine: &Engine<Boxed>,
    rows: &[Control],
    returned: Vec<Token>,
    fates: &Fates,
    made: usize,
) {
    rows.iter().for_each(|row| assert_eq!(row.begun(), 3, "no fourth begins"));
    assert_eq!(returned.len(), made - 3 * rows.len(), "the rest comes back");
    let mut is_back = vec![false; made];
    returned.iter().for_each(|token| assert!(!mem::replace(&mut is_back[token.number], true)));
    drop(returned);
    for (number, &is_back) in is_back.iter().enumerate() {
        assert_eq!(fates.of(number), (u32::from(!is_back), 1), "token {number}: {is_back}");
    }
    let stats = engine.stats();
    assert_eq!(stats.scheduled, stats.fired + stats.returned + stats.cancelled, "{stats:?}");
    assert_eq!(stats.pending, 0);
}

// === one shard ===

/// Stops an engine of one shard in the third of so many that are due.
fn stop_in_the_third_of(due: usize, handler: impl Handler<Boxed> + 'static) {
    let (engine, fates) = (threaded(1, handler), Fates::new(due));
    let rows = [backlog(&engine, 0, &fates, 0..due)];
    let returned = stop_while_blocked(&engine, &rows);
    assert_three_of_each(&engine, &rows, returned, &fates, due);
}

#[test]
fn of_a_batch_whose_third_task_runs_when_stop_is_called_no_fourth_begins() {
    stop_in_the_third_of(DUE, run_all);
}

#[test]
fn a_handler_that_asks_for_one_payload_after_the_other_gets_no_more_than_run_all_does() {
    stop_in_the_third_of(DUE, |mut batch: Batch<'_, Boxed>| {
        while let Some(due) = batch.next_due() {
            Job::run(due.payload);
        }
    });
    stop_in_the_third_of(DUE, |mut batch: Batch<'_, Boxed>| {
        while !batch.is_empty() {
            batch.by_ref().take(2).for_each(Job::run);
        }
    });
}

#[test]
fn a_backlog_of_many_batches_comes_back_as_well() {
    stop_in_the_third_of(scaled(2000) as usize, run_all);
}

#[test]
fn a_batch_that_the_stop_has_ended_is_empty_in_every_respect() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let log = seen.clone();
    stop_in_the_third_of(DUE, move |mut batch: Batch<'_, Boxed>| {
        let most = batch.len();
        let ran = batch.by_ref().map(Job::run).count();
        let is_over = batch.next().is_none() && batch.next_due().is_none();
        let is_empty = (batch.len(), batch.size_hint()) == (0, (0, Some(0))) && batch.is_empty();
        log.lock().unwrap().push((ran < most, is_over, is_empty));
    });
    assert_eq!(seen.lock().unwrap().last(), Some(&(true, true, true)));
}

#[test]
fn what_a_handler_has_taken_out_of_its_batch_counts_as_handed_over() {
    let engine = threaded(1, |batch: Batch<'_, Boxed>| {
        batch.collect::<Vec<Boxed>>().into_iter().for_each(Job::run);
    });
    let fates = Fates::new(DUE);
    let rows = [backlog(&engine, 0, &fates, 0..DUE)];
    let returned = stop_while_blocked(&engine, &rows);
    // One batch has them all, but those that were due a turn earlier or later.
    assert_eq!(rows[0].begun() + returned.len(), DUE);
    assert!(rows[0].begun() > 3, "what it took out it ran");
    drop(returned);
    assert!((0..DUE).all(|number| fates.of(number).1 == 1));
}

#[test]
fn after_a_panic_that_follows_the_stop_nothing_is_handed_over_again() {
    quietly();
    let (engine, fates) = (threaded(1, run_all), Fates::new(DUE));
    let rows = [backlog(&engine, 0, &fates, 0..DUE)];
    rows[0].row.panics.store(true, Ordering::SeqCst);
    let returned = stop_while_blocked(&engine, &rows);
    assert_three_of_each(&engine, &rows, returned, &fates, DUE);
    assert_eq!(engine.stats().panicked, 1);
}

#[test]
fn closures_that_are_due_and_did_not_begin_come_back() {
    let (engine, fates) =
        (Engine::builder().shards(1).takeover(None).build().unwrap(), Fates::new(DUE + 1));
    let (door, third) = (Row::that_blocks_at(1), Row::that_blocks_at(3));
    let task = |control: &Control, number| {
        let (row, token) = (control.row.clone(), fates.token(number));
        move || row.begin(&token)
    };
    engine.schedule_detached(Duration::ZERO, task(&door, DUE)).unwrap();
    door.blocks();
    for number in 0..DUE {
        engine.schedule_detached(Duration::ZERO, task(&third, number)).unwrap();
    }
    let due = engine.now() + 2 * MS;
    wait_until("all are due", || engine.now() > due);
    door.open();
    third.blocks();
    let of_stopper = engine.clone();
    let stopper = spawn(move || of_stopper.stop().unwrap());
    let accepted = until_refused(|| engine.schedule_detached(HOUR, || ()).map_err(drop));
    third.open();
    let returned: Vec<Task> = stopper.join().unwrap();
    assert_eq!((third.begun(), returned.len()), (3, DUE - 3 + accepted));
    // They are whole: the caller may run them.
    returned.into_iter().for_each(Task::run);
    assert!((0..=DUE).all(|number| fates.of(number) == (1, 1)));
}

// === several shards, and what is not due ===

#[test]
fn of_every_shard_whose_third_task_runs_when_stop_is_called_no_fourth_begins() {
    const SHARDS: usize = 3;
    let (engine, fates) = (threaded(SHARDS, run_all), Fates::new(SHARDS * (DUE + 10)));
    let rows: Vec<Control> = (0..SHARDS)
        .map(|shard| backlog(&engine, shard, &fates, shard * DUE..(shard + 1) * DUE))
        .collect();
    for number in SHARDS * DUE..SHARDS * (DUE + 10) {
        engine.bind_thread(number % SHARDS).unwrap();
        engine.schedule_detached(HOUR, rows[0].job(fates.token(number))).unwrap();
    }
    let returned = stop_while_blocked(&engine, &rows);
    assert_three_of_each(&engine, &rows, returned, &fates, SHARDS * (DUE + 10));
}

#[test]
fn every_way_to_schedule_is_refused_while_a_task_still_blocks_its_reaper() {
    let (engine, fates) = (threaded(2, run_all), Fates::new(DUE + 40));
    let third = backlog(&engine, 0, &fates, 0..DUE);
    // This thread has seats of cancelled timers, and a timer that it could move.
    let numbers = &mut (DUE..DUE + 40);
    let mut job = || third.job(fates.token(numbers.next().unwrap()));
    let timers: Vec<_> = (0..20).map(|_| engine.schedule(HOUR, job()).unwrap()).collect();
    let mut moved = engine.schedule(HOUR, job()).unwrap();
    assert!(timers.into_iter().all(|timer| timer.cancel()));
    let of_stopper = engine.clone();
    let stopper = spawn(move || of_stopper.stop().unwrap());
    let (of_asker, row) = (engine.clone(), third.row.clone());
    let ask = move || Job::asks(&row);
    let asker = spawn(move || {
        // One that never used the engine before; and on each shard.
        let both = [0, 1].map(|shard| {
            of_asker.bind_thread(shard).unwrap();
            until_refused(|| of_asker.schedule_detached(HOUR, ask()).map_err(drop))
        });
        both.iter().sum::<usize>()
    });
    let accepted = asker.join().unwrap();
    // The stopper may still be busy with the last buckets: a second stop closes what is open.
    let others = engine.stop_within(Duration::ZERO).unwrap().returned.len();
    for shard in [0, 1] {
        engine.bind_thread(shard).unwrap();
        for delay in [Duration::ZERO, MS, HOUR, 2 * HOUR, Duration::MAX] {
            assert!(engine.schedule(delay, job()).is_err_and(|error| error.is_stopped()));
        }
    }
    assert!(
        engine
            .schedule(When::after(HOUR).slack(HOUR), job())
            .is_err_and(|error| error.is_stopped())
    );
    // It is on its way to the stopper already, or comes back here.
    assert_eq!(moved.reset(MS), Err(ResetError::Stopped));
    assert_eq!(moved.state(), State::Stopped);
    let is_taken = moved.take().is_none();
    assert_eq!(third.begun(), 3, "the third still runs");
    third.open();
    let returned = stopper.join().unwrap().len() + others;
    assert_eq!(returned, DUE - 3 + accepted + usize::from(is_taken));
    assert!((0..DUE + 32).all(|number| fates.of(number).1 == 1));
}

// === turns of the caller's ===

/// Runs `turns` on a thread, and stops `engine` in the third of the jobs that are due in them.
fn stop_in_turns<R: Send + 'static>(
    engine: &Engine<Boxed>,
    jobs: &[Duration],
    turns: impl FnOnce(&Engine<Boxed>) -> R + Send + 'static,
) {
    let (third, fates) = (Row::that_blocks_at(3), Fates::new(jobs.len()));
    engine.bind_thread(0).unwrap();
    for (number, &delay) in jobs.iter().enumerate() {
        engine.schedule_detached(delay, third.job(fates.token(number))).unwrap();
    }
    let of_driver = engine.clone();
    let driver = spawn(move || drop(turns(&of_driver)));
    third.blocks();
    let returned = stop_while_blocked(engine, std::slice::from_ref(&third));
    driver.join().unwrap();
    assert_three_of_each(engine, &[third], returned, &fates, jobs.len());
    assert!(engine.turn(0).is_err(), "there are no more turns");
}

#[test]
fn a_turn_of_the_callers_ends_with_the_task_in_which_stop_was_called() {
    let (engine, clock) = by_hand();
    stop_in_turns(&engine, &[MS; DUE], move |engine| {
        clock.advance(MS);
        engine.turn(0)
    });
    let builder = Builder::new().shards(1).driver(Driver::Caller);
    let engine = builder.build_with_handler(run_all).unwrap();
    stop_in_turns(&engine, &[Duration::ZERO; DUE], |engine| while engine.turn(0).is_ok() {});
}

#[test]
fn a_bounded_turn_returns_what_it_had_in_hand_and_what_it_had_not() {
    let (engine, clock) = by_hand();
    stop_in_turns(&engine, &[MS; DUE], move |engine| {
        clock.advance(MS);
        engine.turn_at_most(0, 10)
    });
}

#[test]
fn an_advance_ends_with_the_task_in_which_stop_was_called() {
    let each_ms: Vec<Duration> = (1..=DUE as u32).map(|n| MS * n).collect();
    stop_in_turns(&by_hand().0, &each_ms, |engine| engine.advance(HOUR));
    stop_in_turns(&by_hand().0, &[MS; DUE], |engine| engine.advance(HOUR));
}

// === a pool ===

/// Stops an engine whose jobs run on a pool with one thread and a queue with so much room. Answers
/// how many began and how many came back.
fn stop_before_a_pool(queue_bound: usize) -> (usize, usize) {
    let pool = Pool::builder(Full::Block).threads(1).queue_bound(queue_bound);
    let pool = pool.build_typed(Job::run).unwrap();
    let (engine, fates, third) =
        (threaded(1, pool.clone()), Fates::new(DUE), Row::that_blocks_at(3));
    for number in 0..DUE {
        engine.schedule_detached(Duration::ZERO, third.job(fates.token(number))).unwrap();
    }
    third.blocks();
    // Where there is not room for all, the reaper waits until there is some.
    let is_full = || pool.stats().queued >= (queue_bound / 2).min(DUE - 3);
    wait_until("the queue is as full as it gets", is_full);
    let returned = stop_while_blocked(&engine, std::slice::from_ref(&third)).len();
    pool.shutdown().unwrap();
    assert!((0..DUE).all(|number| fates.of(number).1 == 1));
    let stats = engine.stats();
    assert_eq!(stats.scheduled, stats.fired + stats.returned, "{stats:?}");
    (third.begun(), returned)
}

#[test]
fn what_was_pushed_to_a_pool_counts_as_handed_over_and_what_waits_for_room_does_not() {
    assert_eq!(stop_before_a_pool(2 * DUE), (DUE, 0), "the pool had them all");
    let (begun, returned) = stop_before_a_pool(10);
    assert_eq!(begun + returned, DUE);
    assert!((3..=3 + 10).contains(&begun), "{begun}: those that ran or were in the queue");
}
