//! A history: what a seed stands for.

use std::fmt::Debug;

use crate::draw::Draw;
use models::{engine_model, shard_model};

use crate::{doors, engine_case, shard_case, threads};

/// Steps of most histories, and of those that are long.
const SHORT: u64 = 120;
const LONG: u64 = 1200;

/// What happens, and to what.
#[derive(Debug)]
pub(crate) enum History {
    /// An engine, typed, driven by its callers. In crowds each bucket that a turn does not finish
    /// is put behind others.
    Engine { case: engine_model::case::Case, in_crowds: bool },
    /// A shard, whose producers have clocks of their own.
    Shard { case: shard_model::Case, in_crowds: bool },
    /// An engine with all doors to it.
    Doors { case: doors::case::Case },
    /// An engine with threads of its own.
    Threads { case: threads::Case },
}

// === impl History ===

impl History {
    pub(crate) fn of(seed: u64) -> History {
        let draw = &mut Draw::new(seed);
        let most = if draw.below(25) == 0 { LONG } else { SHORT };
        let kind = draw.below(14);
        let in_crowds = draw.below(3) == 0;
        match kind {
            0..=3 => History::Engine { case: engine_case::case(draw, most), in_crowds },
            4..=6 => History::Shard { case: shard_case::case(draw, most), in_crowds },
            7..=11 => History::Doors { case: doors::case::case(draw, most) },
            _ => History::Threads { case: threads::case(draw, most) },
        }
    }

    pub(crate) fn len(&self) -> usize {
        match self {
            History::Engine { case, .. } => case.ops.len(),
            History::Shard { case, .. } => case.ops.len(),
            History::Doors { case } => case.ops.len(),
            History::Threads { case } => case.ops.len(),
        }
    }

    /// Leaves out all steps but these, which are in ascending order.
    pub(crate) fn keep(&mut self, steps: &[usize]) {
        fn keep<T>(ops: &mut Vec<T>, steps: &[usize]) {
            let mut number = 0..;
            ops.retain(|_| steps.binary_search(&number.next().expect("endless")).is_ok());
        }
        match self {
            History::Engine { case, .. } => keep(&mut case.ops, steps),
            History::Shard { case, .. } => keep(&mut case.ops, steps),
            History::Doors { case } => keep(&mut case.ops, steps),
            History::Threads { case } => keep(&mut case.ops, steps),
        }
    }

    /// What it is made of, a step in a line.
    pub(crate) fn steps(&self) -> String {
        fn tell(head: impl Debug, ops: &[impl Debug]) -> String {
            let ops: String = ops.iter().map(|op| format!("    {op:?}\n")).collect();
            format!("{head:?}\n{ops}")
        }
        match self {
            History::Engine { case, in_crowds } => {
                tell(("engine", in_crowds, case.config, case.start, case.helpers), &case.ops)
            }
            History::Shard { case, in_crowds } => {
                tell(("shard", in_crowds, case.shape, case.start), &case.ops)
            }
            History::Doors { case } => tell(
                ("doors", case.in_crowds, case.exact_below, case.config, case.start),
                &case.ops,
            ),
            History::Threads { case } => tell(("threads", case.head()), &case.ops),
        }
    }

    /// Runs it.
    ///
    /// # Panics
    /// The engine and the model disagree.
    pub(crate) fn run(&self) {
        match self {
            History::Engine { case, in_crowds: false } => engine_model::run(case),
            History::Engine { case, in_crowds: true } => engine_model::run_in_crowds(case),
            History::Shard { case, in_crowds: false } => shard_model::run(case),
            History::Shard { case, in_crowds: true } => shard_model::run_in_crowds(case),
            History::Doors { case } => doors::run(case),
            History::Threads { case } => threads::run(case),
        }
    }
}
