//! Hands payloads to the handler. Panics of the handler and of payloads are caught here.

use std::any::Any;

use crate::dispatch::{Batch, HandOver, InHand, contained_or};
use crate::memory::{Count, Counters};
use crate::sync::{Counter, add_alone};

use super::{TurnContext, tracing_events};

/// Gives at most `at_most` of the payloads in hand to the handler, and counts what happens. (Only
/// the holder of the role writes these counts.) Returns how many have fired.
///
/// After a panic the handler gets the payloads that it had not taken yet. If it panicked before it
/// took any, the first payload is dropped, so that the batch gets shorter each time.
///
/// The caller closes the hand-over. Payloads are left then if there are more than `at_most`, if the
/// engine is stopping, or if another thread has taken over, which has them.
pub(super) fn hand_over<T>(
    context: &TurnContext<'_, T>,
    in_hand: &mut InHand<T>,
    counters: &Counters,
    at_most: usize,
) -> usize {
    let now_ns = context.clock.now_ns();
    record_lateness(context, in_hand, now_ns);
    let fired = counters.counter(Count::Fired);
    let hand_over = in_hand.open(at_most, now_ns);
    if let Some(watch) = context.watch {
        watch.begun(now_ns, context.leads);
    }
    let panicked = hand_all_over(context, hand_over, fired);
    if panicked > 0 {
        counters.add(Count::Panicked, panicked);
    }
    hand_over.claimed()
}

fn hand_all_over<T>(context: &TurnContext<'_, T>, hand_over: &HandOver<T>, fired: &Counter) -> u64 {
    let mut panicked = 0;
    while hand_over.left() > 0 && !context.is_stopping() {
        let before = hand_over.left();
        let rest = Batch::new(hand_over, context.clock, context.scale, context.stopping, fired);
        let fire = || {
            let (engine, shard) = (context.observer.name(), context.observer.shard());
            tracing_events::in_batch(engine, shard, before, || pass_on(context, rest))
        };
        let returned = contained_or(fire, |panic| {
            hand_over.end_patience(context.clock.now_ns());
            context.observer.panicked(panic);
        });
        if returned {
            return panicked + drop_all(context, hand_over, fired);
        }
        panicked += 1;
        if hand_over.left() == before && !context.is_stopping() {
            let dropped = drop_next(hand_over, fired, |panic| context.observer.panicked(panic));
            panicked += u64::from(!dropped);
        }
    }
    panicked
}

/// Runs what is the engine's own, and gives the rest to the handler.
fn pass_on<T>(context: &TurnContext<'_, T>, mut batch: Batch<'_, T>) {
    if let Some(own) = &context.own {
        batch.run_own(own.run);
        if batch.is_empty() {
            return;
        }
    }
    context.handler.fire(batch);
}

fn record_lateness<T>(context: &TurnContext<'_, T>, in_hand: &InHand<T>, now_ns: u64) {
    // They are in order: payloads that are due at one tick are adjacent.
    for due in in_hand.payloads().chunk_by(|(one, _), (next, _)| one == next) {
        let (deadline, n) = (due[0].0, due.len() as u64);
        let due_ns = context.scale.start_ns(deadline).unwrap_or(now_ns);
        if let Some(before_ns) = in_hand.handed_ns() {
            // They have waited since, and count once.
            context.observer.lateness().forget(before_ns.saturating_sub(due_ns), n);
        }
        context.observer.lateness().record(now_ns.saturating_sub(due_ns), n);
    }
}

/// Drops the payloads that the handler left behind, and returns how many of them panicked when
/// dropped. Once the engine is stopping the rest stays: nobody can tell whether the handler would
/// have taken it.
fn drop_all<T>(context: &TurnContext<'_, T>, hand_over: &HandOver<T>, fired: &Counter) -> u64 {
    let mut panicked = 0;
    while hand_over.left() > 0 && !context.is_stopping() {
        let dropped = drop_next(hand_over, fired, |panic| context.observer.panicked(panic));
        panicked += u64::from(!dropped);
    }
    panicked
}

/// Drops the next payload, unless another thread has taken over. Returns whether it did not panic.
fn drop_next<T>(
    hand_over: &HandOver<T>,
    fired: &Counter,
    report: impl FnMut(&(dyn Any + Send)),
) -> bool {
    let Some(payload) = hand_over.claim() else { return true };
    add_alone(fired, 1);
    contained_or(|| drop(payload), report)
}
