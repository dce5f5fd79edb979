//! The end of a run: when all that the producers handed over has been dealt with.

use std::time::Duration;

use crate::contender::{Contender, Producer};
use crate::drive::Section;
use crate::error::BenchError;
use crate::machine::memory;
use crate::machine::usage::Usage;
use crate::plan::Plan;
use crate::sink;
use crate::slots::Slots;

/// What a run cost up to the moment when a last short timer had fired.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Drained {
    /// Since the start of the measured part.
    pub(crate) wall: Duration,
    /// CPU time since then.
    pub(crate) cpu_ns: u64,
    /// By how much resident memory grew since then.
    pub(crate) growth_bytes: i64,
}

/// Schedules a timer for a millisecond from now and waits for it: a contender that puts work off
/// until later has done most of it by then.
pub(crate) fn drain<C: Contender>(
    contender: &C,
    plan: &Plan,
    section: &Section,
) -> Result<Drained, BenchError> {
    if C::FIRES {
        flush(contender, plan)?;
    }
    let used = Usage::of_process() - section.usage_before;
    Ok(Drained {
        wall: section.begun.elapsed(),
        cpu_ns: used.cpu_ns,
        growth_bytes: memory::resident_bytes() as i64 - section.resident_before as i64,
    })
}

/// Waits for a timer of a millisecond.
pub(crate) fn flush<C: Contender>(contender: &C, plan: &Plan) -> Result<(), BenchError> {
    let mut last = Slots::<C::Timer>::new(1);
    contender.inside(|| {
        contender.producer().schedule(last.at(0), Duration::from_millis(1), sink::FLUSH);
        if !sink::wait_for_flush(plan.patience()) {
            return Err(plan.wrong("the last timer did not fire"));
        }
        drop(last);
        Ok(())
    })
}
