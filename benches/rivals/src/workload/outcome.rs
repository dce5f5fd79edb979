//! What a workload hands back.

use std::time::Duration;

use serde_json::Value;

use crate::plan::Plan;
use crate::record::{Extra, Record};

/// The common numbers, and what the workload adds.
#[derive(Debug)]
pub(crate) struct Outcome {
    ops: u64,
    wall: Duration,
    cpu_ns: u64,
    extra: Extra,
}

// === impl Outcome ===

impl Outcome {
    /// `ops` operations that took `wall` and cost `cpu_ns`.
    pub(crate) fn new(ops: u64, wall: Duration, cpu_ns: u64) -> Outcome {
        Outcome { ops, wall, cpu_ns, extra: Extra::new() }
    }

    /// Adds a number or whatever else.
    pub(crate) fn add(&mut self, name: &str, value: impl Into<Value>) {
        self.extra.insert(name.to_owned(), value.into());
    }

    /// For what adds several.
    pub(crate) fn extra(&mut self) -> &mut Extra {
        &mut self.extra
    }

    /// As a line of results.
    pub(crate) fn into_record(self, plan: &Plan) -> Record {
        let by_ops = |ns: f64| ns / (self.ops as f64).max(1.0);
        Record {
            contender: plan.contender.clone(),
            workload: plan.workload.name().to_owned(),
            threads: plan.threads,
            n: self.ops,
            ns_per_op: by_ops(self.wall.as_nanos() as f64),
            cpu_ns_per_op: by_ops(self.cpu_ns as f64),
            extra: self.extra,
        }
    }
}
