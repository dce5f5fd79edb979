//! A caller that comes back late, after several rounds of the wheel's ring have filled the same
//! bucket, finds all of them and is done in one turn.

use std::time::Duration;

use support::mpsc::{self, Receiver};
use tickless::{Batch, Engine, ManualClock};

/// Slots of a level in the default geometry; with ticks of 1 ms, a round of level 1.
const ROUND: Duration = Duration::from_millis(64);

/// Rounds that pass without a turn: enough that work which multiplies by each never ends.
const ROUNDS: u64 = 40;

/// Timers of a round: not a multiple of a bucket's lanes, so that the rounds mix.
const TIMERS: u64 = 10;

fn engine(clock: &ManualClock) -> Engine<u64> {
    let builder = tickless::Builder::new().manual_clock(clock).shards(1);
    builder.build_typed(|batch: Batch<'_, u64>| batch.for_each(drop)).expect("it is valid")
}

#[test]
fn many_rounds_in_one_bucket_are_fired_in_one_turn() {
    let clock = ManualClock::new();
    let engine = engine(&clock);
    for round in 0..ROUNDS {
        for _ in 0..TIMERS {
            engine.schedule_detached(Duration::from_millis(1), round).expect("the engine runs");
        }
        clock.advance(ROUND);
    }
    let turn = engine.turn(0).expect("the caller drives");
    assert_eq!(turn.fired as u64, ROUNDS * TIMERS);
    assert_eq!(turn.next, None, "nothing is left on the heap");
    assert!(engine.is_empty());
    engine.check().expect("every invariant holds");
}

/// An engine that tells each payload that it fires.
fn telling_engine(clock: &ManualClock) -> (Engine<u64>, Receiver<u64>) {
    let (sender, receiver) = mpsc::channel();
    let builder = tickless::Builder::new().manual_clock(clock).shards(1);
    let engine = builder
        .build_typed(move |batch: Batch<'_, u64>| {
            batch.for_each(|payload| sender.send(payload).expect("the test listens"));
        })
        .expect("it is valid");
    (engine, receiver)
}

/// Schedules timers 1 to 90 ms ahead for a minute, every 5 ms, in which nobody runs a turn: a
/// thousand rounds of the ring, mixed in every bucket of level 1, and several of level 2. The
/// payload is the deadline in milliseconds.
fn a_minute_of_timers(clock: &ManualClock, engine: &Engine<u64>) -> usize {
    let mut count = 0;
    for now in (0..60_000).step_by(5) {
        for ahead in [1, 30, 90] {
            engine.schedule_detached(Duration::from_millis(ahead), now + ahead).expect("it runs");
            count += 1;
        }
        clock.advance(Duration::from_millis(5));
    }
    clock.advance(Duration::from_millis(90));
    count
}

#[test]
fn a_turn_that_is_a_minute_late_fires_all_in_order() {
    let clock = ManualClock::new();
    let (engine, fired) = telling_engine(&clock);
    let count = a_minute_of_timers(&clock, &engine);
    assert_eq!(engine.turn(0).expect("the caller drives").fired, count);
    let order: Vec<u64> = fired.try_iter().collect();
    assert_eq!(order.len(), count);
    assert!(order.is_sorted());
    engine.check().expect("every invariant holds");
}

#[test]
fn late_turns_that_are_bounded_go_on_in_order_and_a_stop_returns_the_rest() {
    let clock = ManualClock::new();
    let (engine, fired) = telling_engine(&clock);
    let count = a_minute_of_timers(&clock, &engine);
    let mut order: Vec<u64> = Vec::new();
    for _ in 0..20 {
        let turn = engine.turn_at_most(0, 1000).expect("the caller drives");
        assert!(turn.fired == 1000 && turn.more);
        order.extend(fired.try_iter());
        // What comes late takes its place among what is later still.
        engine.schedule_detached(Duration::ZERO, 60_090).expect("it runs");
    }
    engine.check().expect("every invariant holds");
    let mut rest = engine.stop().expect("no task asks");
    assert_eq!(order.len() + rest.len(), count + 20);
    assert!(order.is_sorted());
    rest.sort_unstable();
    assert!(order.last() <= rest.first());
}

#[test]
fn handles_of_later_rounds_work_while_they_wait_for_their_place() {
    let clock = ManualClock::new();
    let (engine, fired) = telling_engine(&clock);
    let mut handles = Vec::new();
    for round in 0..ROUNDS {
        for _ in 0..TIMERS {
            handles.push(engine.schedule(Duration::from_millis(1), round).expect("it runs"));
        }
        clock.advance(ROUND);
    }
    assert!(engine.turn_at_most(0, 5).expect("the caller drives").more);
    engine.check().expect("what waits is counted");
    let mut later = handles.pop().expect("many");
    assert!(later.reset(Duration::from_secs(5)).is_ok(), "not fired yet");
    assert!(handles.pop().expect("many").cancel(), "not fired yet");
    let mut again = handles.pop().expect("many");
    assert!(again.reset(Duration::ZERO).is_ok(), "not fired yet");
    while engine.turn(0).expect("the caller drives").more {}
    engine.check().expect("every invariant holds");
    assert_eq!(fired.try_iter().count() as u64, ROUNDS * TIMERS - 2);
    assert_eq!(engine.advance(Duration::from_secs(5)).expect("it is manual"), 1);
    assert!(engine.is_empty());
}

#[test]
fn what_belongs_to_a_later_round_stays_where_it_is_filed() {
    for more_ms in [0, 60] {
        let clock = ManualClock::new();
        let engine = engine(&clock);
        engine.schedule_detached(Duration::from_millis(5), 0).expect("the engine runs");
        clock.advance(Duration::from_millis(40));
        // Due at 69 ms: the slot is that of 5 ms, which has not been opened yet.
        engine.schedule_detached(Duration::from_millis(29), 1).expect("the engine runs");
        clock.advance(Duration::from_millis(more_ms));
        let fired = engine.turn(0).expect("the caller drives").fired;
        assert_eq!(fired, if more_ms == 0 { 1 } else { 2 });
        engine.check().expect("every invariant holds");
        assert_eq!(engine.advance(Duration::from_millis(29)), Ok(2 - fired));
        assert_eq!(engine.stats().cascaded, 0, "nothing was re-filed");
    }
}
