//! What becomes of timers that were missed while no service ran: before the service begins.
//!
//! Skipped timers are taken out and spread ones are put off in the store itself, so that what the
//! service then finds is simply a list of timers, and a crash in between does no harm.
//!
//! *Tested by*: `durable/tests/service.rs`.

use std::sync::Arc;

use crate::error::StoreError;
use crate::position::{Position, last_at_most};
use crate::record::Record;
use crate::store::{Op, Store};

use super::config::{Config, Misfire};

/// How many timers are changed in a batch.
const PAGE: usize = 4096;

pub(super) fn settle(
    store: &mut impl Store,
    config: &Config,
    now_ms: u64,
) -> Result<(), StoreError> {
    let after_ms = u64::try_from(config.misfire_after.as_millis()).unwrap_or(u64::MAX);
    let Some(until_ms) = now_ms.checked_sub(after_ms) else { return Ok(()) };
    match config.misfire {
        Misfire::FireAll => Ok(()),
        Misfire::Skip => change(store, until_ms, |_, record| Op::Remove(record.position)),
        Misfire::Spread(over) => {
            let mut missed = 0_u64;
            each_page(store, until_ms, |_, records| {
                missed += records.len() as u64;
                Ok(())
            })?;
            // So that its product with a number of timers is a number.
            let over_ms = u128::from(last_at_most(over.as_millis()));
            change(store, until_ms, |index, record| {
                let pause_ms = over_ms * u128::from(index) / u128::from(missed.max(1));
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
    until_ms: u64,
    op: impl Fn(u64, &Record) -> Op,
) -> Result<(), StoreError> {
    let mut index = 0;
    each_page(store, until_ms, |store, records| {
        let batch: Vec<Op> = records.iter().zip(index..).map(|(record, i)| op(i, record)).collect();
        index += records.len() as u64;
        store.commit(&batch).map(drop)
    })
}

/// Calls `page` with the timers that were missed, in order.
fn each_page<S: Store>(
    store: &mut S,
    until_ms: u64,
    mut page: impl FnMut(&mut S, &[Record]) -> Result<(), StoreError>,
) -> Result<(), StoreError> {
    let mut after = None;
    loop {
        let mut records = store.scan(after, PAGE)?;
        let is_last = records.len() < PAGE;
        after = records.last().map(|record| record.position);
        let read = records.len();
        // Those that are put off to this moment are not: they would be put off again, to the end.
        records.retain(|record| record.position.due_ms < until_ms);
        let is_over = is_last || records.len() < read;
        // One that was tried before was not missed.
        records.retain(|record| !record.tried);
        if !records.is_empty() {
            page(store, &records)?;
        }
        if is_over {
            return Ok(());
        }
    }
}
