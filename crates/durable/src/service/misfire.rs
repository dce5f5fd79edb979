//! What becomes of timers that were missed while no service ran: before the service begins.
//!
//! Skipped timers are taken out and spread ones are put off in the store itself, so that what the
//! service then finds is simply a list of timers, and a crash in between does no harm.
//!
//! *Tested by*: `tests/durable/service.rs`.

use std::ops::Range;
use std::sync::Arc;

use crate::error::StoreError;
use crate::position::{Position, last_at_most};
use crate::record::{Key, Record};
use crate::store::{Op, Store};

use super::config::{Config, Misfire};
use super::pauses::is_paused;
use super::unreadable;

/// How many timers are changed in a batch.
const PAGE: usize = 4096;

/// `served_ms` is until when a service had the store: what was due before waited for that one, and
/// was not missed. Zero: nobody knows.
pub(super) fn settle(
    store: &mut impl Store,
    config: &Config,
    now_ms: u64,
    served_ms: u64,
    pauses: &[Key],
) -> Result<(), StoreError> {
    let after_ms = u64::try_from(config.misfire_after.as_millis()).unwrap_or(u64::MAX);
    let missed = served_ms..now_ms.saturating_sub(after_ms);
    if missed.is_empty() {
        return Ok(());
    }
    match config.misfire {
        Misfire::FireAll => Ok(()),
        Misfire::Skip => change(store, &missed, pauses, |_, record| Op::Remove(record.position)),
        Misfire::Spread(over) => {
            let mut count = 0_u64;
            each_page(store, &missed, pauses, |_, records| {
                count += records.len() as u64;
                Ok(())
            })?;
            // So that its product with a number of timers is a number.
            let over_ms = u128::from(last_at_most(over.as_millis()));
            change(store, &missed, pauses, |index, record| {
                let pause_ms = over_ms * u128::from(index) / u128::from(count.max(1));
                let due_ms = last_at_most(u128::from(now_ms) + pause_ms);
                let position = Position { due_ms, number: record.position.number };
                let to = Arc::new(Record { position, ..record.clone() });
                Op::Move { from: record.position, to }
            })
        }
    }
}

/// Makes a change of each timer that was missed.
fn change(
    store: &mut impl Store,
    missed: &Range<u64>,
    pauses: &[Key],
    op: impl Fn(u64, &Record) -> Op,
) -> Result<(), StoreError> {
    let mut index = 0;
    each_page(store, missed, pauses, |store, records| {
        let batch: Vec<Op> = records.iter().zip(index..).map(|(record, i)| op(i, record)).collect();
        index += records.len() as u64;
        store.commit(&batch).map(drop)
    })
}

/// Calls `page` with the timers that were missed, in order.
fn each_page<S: Store>(
    store: &mut S,
    missed: &Range<u64>,
    pauses: &[Key],
    mut page: impl FnMut(&mut S, &[Record]) -> Result<(), StoreError>,
) -> Result<(), StoreError> {
    let first = Position { due_ms: missed.start, number: 0 };
    let mut after = (missed.start > 0).then(|| first.before());
    loop {
        let (mut records, _) = unreadable::scan(store, after, PAGE)?;
        let is_last = records.len() < PAGE;
        after = records.last().map(|record| record.position);
        let read = records.len();
        // Those that are put off to this moment are not: they would be put off again, to the end.
        records.retain(|record| record.position.due_ms < missed.end);
        let is_over = is_last || records.len() < read;
        // One that was tried before was not missed, nor one that is paused.
        records.retain(|record| !record.tried && !is_paused(pauses, record));
        if !records.is_empty() {
            page(store, &records)?;
        }
        if is_over {
            return Ok(());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::{Disk, Memory};

    /// What is left of timers that are due at these times, at the time 100,000, if those that were
    /// missed are skipped and a service had the store until `served_ms`.
    fn left(dues: &[u64], served_ms: u64) -> Vec<u64> {
        let disk = Disk::default();
        let mut store: Memory = disk.open();
        let record = |(due_ms, number)| {
            Op::Put(Arc::new(Record::new(Position { due_ms, number }, None, [].into())))
        };
        let batch: Vec<Op> = dues.iter().copied().zip(1..).map(record).collect();
        store.commit(&batch).unwrap();
        let config = Config { misfire: Misfire::Skip, ..Config::default() };
        settle(&mut store, &config, 100_000, served_ms, &[]).unwrap();
        disk.timers().iter().map(|record| record.position.due_ms).collect()
    }

    #[test]
    fn what_waited_for_a_service_that_was_there_was_not_missed() {
        let dues = [10_000, 49_999, 50_000, 90_000, 98_999, 99_000, 100_000, 200_000];
        assert_eq!(left(&dues, 0), [99_000, 100_000, 200_000]);
        assert_eq!(left(&dues, 50_000), [10_000, 49_999, 99_000, 100_000, 200_000]);
        for served_ms in [99_000, 100_000, u64::MAX] {
            assert_eq!(left(&dues, served_ms), dues, "another one has just had the shard");
        }
    }
}
