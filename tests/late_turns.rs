//! A caller that comes back late, after several rounds of the wheel's ring have filled the same
//! bucket, finds all of them and is done in one turn.

use std::time::Duration;

use tickless::{Batch, ManualClock, TypedEngine};

/// Slots of a level in the default geometry; with ticks of 1 ms, a round of level 1.
const ROUND: Duration = Duration::from_millis(64);

/// Rounds that pass without a turn: enough that work which multiplies by each never ends.
const ROUNDS: u64 = 40;

/// Timers of a round: not a multiple of a bucket's lanes, so that the rounds mix.
const TIMERS: u64 = 10;

fn engine(clock: &ManualClock) -> TypedEngine<u64> {
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
    assert_eq!(turn.next, None, "nothing is left on the agenda");
    assert!(engine.is_empty());
    engine.check().expect("every invariant holds");
}
