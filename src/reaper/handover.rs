//! Handing payloads over, so that no panic of theirs gets further than here.

use std::iter;

use crate::dispatch::{Batch, Queue, contained};

use super::Reaper;

/// Gives the whole batch to the handler and answers how many payloads panicked.
///
/// After a panic the handler gets what it had not taken yet. One that panics before it takes
/// anything loses the first payload, so that the batch gets shorter each time.
pub(super) fn hand_over<T>(reaper: &Reaper<'_, T>, batch: &mut Queue<T>) -> u64 {
    record_lateness(reaper, batch);
    let mut panicked = 0;
    while !batch.is_empty() {
        let before = batch.len();
        if contained(|| reaper.handler.fire(Batch::new(batch, reaper.clock, reaper.scale))) {
            return panicked + drop_all(batch);
        }
        panicked += 1;
        if batch.len() == before {
            contained(|| drop(batch.pop_front()));
        }
    }
    panicked
}

fn record_lateness<T>(reaper: &Reaper<'_, T>, batch: &Queue<T>) {
    let now_ns = reaper.clock.now_ns();
    let mut rest = batch.iter().map(|&(deadline, _)| deadline).peekable();
    while let Some(deadline) = rest.next() {
        // They come in order: what is due at one tick stands together.
        let more = iter::from_fn(|| rest.next_if_eq(&deadline)).count();
        let due_ns = reaper.scale.start_ns(deadline).unwrap_or(now_ns);
        reaper.lateness.record(now_ns.saturating_sub(due_ns), 1 + more as u64);
    }
}

/// Drops what the handler left behind, and answers how many payloads panicked at that.
fn drop_all<T>(batch: &mut Queue<T>) -> u64 {
    let mut panicked = 0;
    while !batch.is_empty() {
        panicked += u64::from(!contained(|| drop(batch.pop_front())));
    }
    panicked
}
