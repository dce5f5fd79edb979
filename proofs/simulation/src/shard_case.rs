//! Histories of one shard whose producers' clocks run ahead of it and behind it: draws for
//! `tests/models/src/shard_model.rs`, which has the oracle.

use crate::draw::Draw;
use models::shard_model::{Case, Op};

/// A history of up to so many steps.
pub(crate) fn case(draw: &mut Draw, most: u64) -> Case {
    let (shape, start, length) = (draw.byte(), draw.start(), 1 + draw.below(most));
    let leaps = [5, 30, 200][draw.below(3) as usize];
    // In some histories the reaper starves.
    let turns = [20, 4, 1][draw.below(3) as usize];
    let mut op = || {
        let (producer, pick) = (draw.percent(50), draw.word());
        let skew = if draw.percent(50) { 0 } else { draw.between(-70, 70) as i8 };
        match draw.weighted(&[30, 12, 14, 2, turns]) {
            0 => {
                let owned = draw.percent(80);
                Op::Schedule { producer, deadline: draw.when(), skew, owned }
            }
            1 => Op::Cancel { producer, pick },
            2 => Op::Reset { producer, pick, deadline: draw.when(), skew },
            3 => Op::Detach { producer, pick },
            _ => {
                let now = draw.step(leaps);
                Op::Turn { now, at_most: draw.percent(50).then(|| draw.below(9) as u8) }
            }
        }
    };
    let ops = (0..length).map(|_| op()).collect();
    Case { shape, start, ops }
}
