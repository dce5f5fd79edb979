//! Histories of one engine with every door to it: timers, scopes, futures, what repeats, keys,
//! operations, a hashed wheel. One thread does all of it, on a clock that it moves by hand, and
//! runs the turns; some of it happens inside of tasks. `world` says what ought to happen.

pub(crate) mod case;
mod futures;
mod keys;
mod operations;
mod repeating;
mod stage;
mod time;
mod timers;
mod world;

use std::sync::Arc;

use case::{Case, Op};
use stage::Stage;

/// Runs a history, then time until the last timer, and the engine's end.
pub(crate) fn run(case: &Case) {
    let stage = Stage::new(case);
    for op in &case.ops {
        step(&stage, *op);
        stage.compare();
    }
    if !stage.is_stopped() {
        stage.run_dry();
        stage.compare();
        stage.stop();
    }
    stage.compare();
    let world = stage.world.clone();
    stage.end();
    drop(stage);
    world.judge();
    assert_eq!(world.alive(), 0, "payloads that nobody has any more");
}

fn step(stage: &Arc<Stage>, op: Op) {
    match op {
        Op::Schedule { at, slack, owned, deed } => stage.schedule(at, slack, owned, deed),
        Op::Cancel { pick, takes } => stage.cancel(pick, takes),
        Op::Reset { pick, at, slack } => stage.reset(pick, at, slack),
        Op::Detach { pick } => stage.detach(pick),
        Op::Wait { at, deed } => stage.wait(at, deed),
        Op::WaitCancel { pick, waits } => stage.wait_cancel(pick, waits),
        Op::WaitReset { pick, at } => stage.wait_reset(pick, at),
        Op::Scoped { at, deed } => stage.scoped(at, deed),
        Op::ScopedCancel { pick } => stage.scoped_cancel(pick),
        Op::ScopedReset { pick, at } => stage.scoped_reset(pick, at),
        Op::ScopeEnds { detaches } => stage.scope_ends(detaches),
        Op::Sleep { at, is_timeout } => stage.sleep(at, is_timeout),
        Op::Poll { pick, by_another } => stage.poll(pick, by_another),
        Op::SleepReset { pick, at } => stage.sleep_reset(pick, at),
        Op::SleepDrop { pick } => stage.sleep_drop(pick),
        Op::Finish { pick } => stage.finish(pick),
        Op::Interval { at, period } => stage.interval(at, period),
        Op::Insert { at } => stage.insert(at),
        Op::Remove { pick } => stage.remove(pick),
        Op::Move { pick, at } => stage.move_item(pick, at),
        Op::PollQueue { by_another } => stage.poll_queue(by_another),
        Op::Every { first, period, kind, runs, deed } => {
            stage.every(first, period, kind, runs, deed);
        }
        Op::EveryCancel { pick } => stage.every_cancel(pick),
        Op::Heartbeat { timeout } => stage.heartbeat(timeout),
        Op::Beat { pick } => stage.beat(pick),
        Op::BeatStop { pick } => stage.beat_stop(pick),
        Op::Retry { pause, fails, attempts } => stage.retry(pause, fails, attempts),
        Op::RetryCancel { pick } => stage.retry_cancel(pick),
        Op::Keyed { key, at, if_absent, deed } => stage.keyed(key, at, if_absent, deed),
        Op::KeyedCancel { key, takes } => stage.keyed_cancel(key, takes),
        Op::KeyedReset { key, at } => stage.keyed_reset(key, at),
        Op::KeyedRetain { divisor } => stage.keyed_retain(divisor),
        Op::Entry { key, at } => stage.entry(key, at),
        Op::EntryGet { key, extends } => stage.entry_get(key, extends),
        Op::EntryRemove { key } => stage.entry_remove(key),
        Op::Watch { keys, at, allowed } => stage.watch(keys, at, allowed),
        Op::Allow { pick } => stage.allow(pick),
        Op::Check { key } => stage.check(key),
        Op::Decide { pick, cancels } => stage.decide(pick, cancels),
        Op::Timeout { at, deed } => stage.timeout(at, deed),
        Op::TimeoutCancel { pick } => stage.timeout_cancel(pick),
        Op::Jump(at) => stage.jump(at),
        Op::Slew { rate, looks } => stage.slew(rate, looks),
        Op::Advance(at) => stage.advance(at),
        Op::ToNext => stage.to_next(),
        Op::Turn { shard, at_most } => stage.turn(shard, at_most),
        Op::Settle => _ = stage.settle(),
        Op::Stop => stage.stop(),
    }
}
