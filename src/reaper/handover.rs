//! Handing payloads over, so that no panic of theirs gets further than here.

use std::iter;

use crate::dispatch::{Batch, Queue, Sample, Stopwatch, contained, contained_or};
use crate::sync::{Counter, add_alone};
use crate::time::Tick;

use super::{Reaper, events};

/// How handing over a batch went.
#[derive(Clone, Copy, Debug)]
pub(super) struct Handed {
    /// Payloads that panicked.
    pub(super) panicked: u64,
    /// Payloads that were slow.
    pub(super) slow: u64,
    /// With this batch the shard has become saturated.
    pub(super) saturates: bool,
}

/// Gives the whole batch to the handler. The first of it comes from a bucket that was to be
/// opened at `opened`.
///
/// After a panic the handler gets what it had not taken yet. One that panics before it takes
/// anything loses the first payload, so that the batch gets shorter each time.
///
/// What is left in the batch in the end is so because the engine is stopping.
pub(super) fn hand_over<T>(
    reaper: &Reaper<'_, T>,
    batch: &mut Queue<T>,
    fired: &Counter,
    opened: Option<Tick>,
) -> Handed {
    let now_ns = reaper.clock.now_ns();
    record_lateness(reaper, batch, now_ns);
    let opened_ns = opened.and_then(|opened| reaper.scale.start_ns(opened)).unwrap_or(now_ns);
    let saturates = reaper.observer.hands_over(now_ns, opened_ns);
    let mut stopwatch = reaper.observer.stopwatch();
    let panicked = hand_all_over(reaper, batch, fired, stopwatch.as_mut());
    Handed { panicked, slow: stopwatch.map_or(0, |stopwatch| stopwatch.slow()), saturates }
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
        // They come in order: what is due at one tick stands together.
        let more = iter::from_fn(|| rest.next_if_eq(&deadline)).count();
        let due_ns = reaper.scale.start_ns(deadline).unwrap_or(now_ns);
        reaper.observer.lateness().record(now_ns.saturating_sub(due_ns), 1 + more as u64);
    }
}

/// Drops what the handler left behind, and answers how many payloads panicked at that. Once the
/// engine is stopping nobody can tell whether the handler would have taken it: it stays then.
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
