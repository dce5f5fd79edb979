//! Many operations that wait in a purgatory.

use std::sync::Arc;
use std::time::Duration;

use tickless_purgatory::Purgatory;

use super::waiting::wait;
use support::operation::Op;

/// So many that wait under a key and the next, for an hour, and do nothing.
pub(crate) fn crowd(purgatory: &Purgatory<u32, Op>, many: usize, key: u32) -> Vec<Arc<Op>> {
    let one = |_| {
        let op = Op::new();
        wait(purgatory, &op, &[key, key + 1], Duration::from_secs(3600));
        op
    };
    (0..many).map(one).collect()
}
