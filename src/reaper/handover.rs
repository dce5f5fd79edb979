//! Hands payloads to the handler. Panics of the handler and of payloads are caught here.

use std::iter;

use crate::dispatch::{Batch, Queue, Sample, Stopwatch, contained, contained_or};
use crate::memory::{Count, Counters};
use crate::sync::{Counter, add_alone};
use crate::time::Tick;

use super::{Reaper, events};

/// Gives the whole batch to the handler, and counts what happens. The first payload comes from a
/// bucket that was due to open at `opened`. (Only the holder of the role writes these counts.)
///
/// After a panic the handler gets the payloads that it had not taken yet. If it panicked before it
/// took any, the first payload is dropped, so that the batch gets shorter each time.
///
/// Payloads are left in the batch at the end only if the engine is stopping.
pub(super) fn hand_over<T>(
    reaper: &Reaper<'_, T>,
    batch: &mut Queue<T>,
    counters: &Counters,
    opened: Option<Tick>,
) {
    let now_ns = reaper.clock.now_ns();
    record_lateness(reaper, batch, now_ns);
    let opened_ns = opened.and_then(|opened| reaper.scale.start_ns(opened)).unwrap_or(now_ns);
    let saturates = reaper.observer.hands_over(now_ns, opened_ns);
    let mut stopwatch = reaper.observer.stopwatch();
    let fired = counters.counter(Count::Fired);
    let panicked = hand_all_over(reaper, batch, fired, stopwatch.as_mut());
    let slow = stopwatch.map_or(0, |stopwatch| stopwatch.slow());
    let counts = [Count::Panicked, Count::Slow, Count::Saturated];
    for (count, n) in counts.into_iter().zip([panicked, slow, u64::from(saturates)]) {
        if n > 0 {
            counters.add(count, n);
        }
    }
}

fn hand_all_over<T>(
    reaper: &Reaper<'_, T>,
    batch: &mut Queue<T>,
    fired: &Counter,
    mut stopwatch: Option<&mut Stopwatch>,
) -> u64 {
    let mut panicked = 0;
    while !batch.is_empty() && !reaper.is_stopping() {
        let before = batch.len();
        let (clock, scale) = (reaper.clock, reaper.scale);
        let rest =
            Batch::new(batch, clock, scale, stopwatch.as_deref_mut(), reaper.stopping, fired);
        let fire = || events::in_batch(reaper.observer, before, || reaper.handler.fire(rest));
        let returned = contained_or(fire, |panic| reaper.observer.panicked(panic));
        if let Some(stopwatch) = stopwatch.as_deref_mut() {
            let sample = Sample { next: None, waiting: batch.len(), panicked: !returned };
            stopwatch.sample(reaper.clock, reaper.scale, sample);
        }
        if returned {
            return panicked + drop_all(reaper, batch, fired);
        }
        panicked += 1;
        if batch.len() == before && !reaper.is_stopping() {
            add_alone(fired, 1);
            contained(|| drop(batch.pop_front()));
        }
    }
    panicked
}

fn record_lateness<T>(reaper: &Reaper<'_, T>, batch: &Queue<T>, now_ns: u64) {
    let mut rest = batch.iter().map(|&(deadline, _)| deadline).peekable();
    while let Some(deadline) = rest.next() {
        // The batch is in order: payloads that are due at one tick are adjacent.
        let more = iter::from_fn(|| rest.next_if_eq(&deadline)).count();
        let due_ns = reaper.scale.start_ns(deadline).unwrap_or(now_ns);
        reaper.observer.lateness().record(now_ns.saturating_sub(due_ns), 1 + more as u64);
    }
}

/// Drops the payloads that the handler left behind, and returns how many of them panicked when
/// dropped. Once the engine is stopping the rest stays: nobody can tell whether the handler would
/// have taken it.
fn drop_all<T>(reaper: &Reaper<'_, T>, batch: &mut Queue<T>, fired: &Counter) -> u64 {
    let mut panicked = 0;
    while !batch.is_empty() && !reaper.is_stopping() {
        add_alone(fired, 1);
        let drop_one = || drop(batch.pop_front());
        let dropped = contained_or(drop_one, |panic| reaper.observer.panicked(panic));
        panicked += u64::from(!dropped);
    }
    panicked
}
