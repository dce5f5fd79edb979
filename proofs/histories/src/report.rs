//! How often each outcome occurred, and each pair of outcomes that overlapped.

use std::collections::BTreeMap;
use std::fmt;

use crate::history::{Model, Operation};

/// Counts over many histories.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// Histories.
    pub histories: u64,
    /// Operations.
    pub operations: u64,
    /// Operations that overlapped another one on the same timer or key.
    pub overlapping: u64,
    outcomes: BTreeMap<&'static str, u64>,
    pairs: BTreeMap<(&'static str, &'static str), u64>,
}

impl Report {
    /// Adds a history.
    pub fn add<M: Model>(&mut self, history: &[Operation<M::Call>]) {
        self.histories += 1;
        let mut parts = BTreeMap::<u32, Vec<_>>::new();
        for operation in history {
            if let Some(label) = M::label(&operation.call) {
                *self.outcomes.entry(label).or_default() += 1;
                self.operations += 1;
                parts.entry(operation.id).or_default().push((operation, label));
            }
        }
        for part in parts.values() {
            for (i, (operation, label)) in part.iter().enumerate() {
                let mut has_overlap = false;
                for (j, (other, other_label)) in part.iter().enumerate() {
                    let is_one = i == j || M::are_one_event(&operation.call, &other.call);
                    if is_one || !operation.overlaps(other) {
                        continue;
                    }
                    has_overlap = true;
                    if i < j {
                        let pair = (*label.min(other_label), *label.max(other_label));
                        *self.pairs.entry(pair).or_default() += 1;
                    }
                }
                self.overlapping += u64::from(has_overlap);
            }
        }
    }

    /// How often an outcome occurred.
    pub fn outcome(&self, label: &str) -> u64 {
        self.outcomes.get(label).copied().unwrap_or(0)
    }

    /// How often two outcomes overlapped.
    pub fn pair(&self, one: &str, other: &str) -> u64 {
        let pair = (one.min(other), one.max(other));
        let found = self.pairs.iter().find(|(key, _)| **key == pair);
        found.map_or(0, |(_, count)| *count)
    }

    /// Adds the counts of another report.
    pub fn merge(&mut self, other: &Report) {
        self.histories += other.histories;
        self.operations += other.operations;
        self.overlapping += other.overlapping;
        for (label, count) in &other.outcomes {
            *self.outcomes.entry(label).or_default() += count;
        }
        for (pair, count) in &other.pairs {
            *self.pairs.entry(*pair).or_default() += count;
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{} histories, {} operations, of which {} overlapped another on the same number",
            self.histories, self.operations, self.overlapping
        )?;
        for (label, count) in &self.outcomes {
            writeln!(f, "{count:>12}  {label}")?;
        }
        writeln!(f, "pairs that overlapped:")?;
        for ((one, other), count) in &self.pairs {
            writeln!(f, "{count:>12}  {one} | {other}")?;
        }
        Ok(())
    }
}
