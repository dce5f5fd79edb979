//! The search for an order of a history's operations that a model accepts.
//!
//! This is the algorithm of Wing and Gong with the memory of Lowe: it extends an order by each
//! operation that may come next, and remembers pairs of a set of operations and a state from which
//! it found no way on. An operation may come next if no operation that is left had returned before
//! it began. Histories are checked timer by timer and key by key: a history is linearizable if
//! each of its objects is.
//!
//! *Tested by*: `proofs/histories/tests/checker.rs`, against all permutations.

use std::collections::{BTreeMap, HashSet};
use std::fmt;

use crate::history::{Model, Operation, table};

/// The most operations on one timer or key.
pub const MAX_OPERATIONS: usize = 128;

/// Operations on one timer or key that no order explains.
#[derive(Debug)]
pub struct Rejected<C> {
    /// All of them, in order of invocation.
    pub operations: Vec<Operation<C>>,
    /// The same without observers that the rejection does not need.
    pub shrunk: Vec<Operation<C>>,
}

/// Checks each timer or key of a history by itself.
///
/// # Errors
/// The operations on one that are not linearizable.
pub fn check<M: Model>(history: &[Operation<M::Call>]) -> Result<(), Rejected<M::Call>> {
    let mut parts: BTreeMap<u32, Vec<Operation<M::Call>>> = BTreeMap::new();
    for operation in history {
        parts.entry(operation.id).or_default().push(operation.clone());
    }
    for (_, mut operations) in parts {
        operations.sort_by_key(|operation| (operation.begin, operation.end));
        if !is_linearizable::<M>(&operations) {
            let shrunk = shrink::<M>(&operations);
            return Err(Rejected { operations, shrunk });
        }
    }
    Ok(())
}

/// Whether an order explains the operations on one timer or key.
///
/// # Panics
/// There are more than [`MAX_OPERATIONS`].
pub fn is_linearizable<M: Model>(operations: &[Operation<M::Call>]) -> bool {
    assert!(operations.len() <= MAX_OPERATIONS, "{} operations on one id", operations.len());
    let all = (1_u128.checked_shl(operations.len() as u32).unwrap_or(0)).wrapping_sub(1);
    let mut search = Search::<M> { operations, dead_ends: HashSet::new() };
    search.finds(all, &M::State::default())
}

struct Search<'a, M: Model> {
    operations: &'a [Operation<M::Call>],
    dead_ends: HashSet<(u128, M::State)>,
}

impl<M: Model> Search<'_, M> {
    /// Whether an order of the operations in the set `left` goes on from `state`.
    fn finds(&mut self, left: u128, state: &M::State) -> bool {
        let members = (0..self.operations.len()).filter(|&i| left & (1 << i) != 0);
        let Some(first_end) = members.clone().map(|i| self.operations[i].end).min() else {
            return true;
        };
        if self.dead_ends.contains(&(left, state.clone())) {
            return false;
        }
        for i in members {
            if first_end < self.operations[i].begin {
                continue;
            }
            let next = M::step(state, &self.operations[i]);
            if next.is_some_and(|next| self.finds(left & !(1 << i), &next)) {
                return true;
            }
        }
        self.dead_ends.insert((left, state.clone()));
        false
    }
}

/// Leaves out observers one after another, as long as the rest is rejected. What changes the state
/// stays: without it, the rest might be rejected for another reason.
fn shrink<M: Model>(operations: &[Operation<M::Call>]) -> Vec<Operation<M::Call>> {
    let mut left = operations.to_vec();
    let mut at = 0;
    while at < left.len() {
        let mut fewer = left.clone();
        let removed = fewer.remove(at);
        if M::is_observer(&removed.call) && !is_linearizable::<M>(&fewer) {
            left = fewer;
        } else {
            at += 1;
        }
    }
    left
}

impl<C: fmt::Debug> fmt::Display for Rejected<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let id = self.operations.first().map_or(0, |operation| operation.id);
        writeln!(f, "no order explains the operations on number {id} (times in ns):")?;
        writeln!(f, "{}", table(&self.shrunk))?;
        writeln!(f, "with all observers:\n{}", table(&self.operations))
    }
}
