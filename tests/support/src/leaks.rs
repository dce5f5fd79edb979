//! Whether something that lived for a while has left memory behind.

use crate::counting::Live;

/// Whether no more lives than `before`, except for what the epoch keeps: a bag or two, of two
/// kibibytes each.
pub fn is_no_more_than(left: Live, before: Live) -> bool {
    let (blocks, bytes) = (left.blocks - before.blocks, left.bytes - before.bytes);
    left.entries <= before.entries && blocks <= 4 && bytes < 10_000
}
