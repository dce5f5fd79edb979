//! What a step allocates once it has run for a while, without what passes through by chance.

use std::fmt::Debug;

/// Asserts that `measure` returns `expected` in one of four runs. While a thread that ends is not
/// heard of, an idle turn passes on what waits for it in the epoch, which takes memory once.
pub(crate) fn assert_settles<R: Debug + PartialEq>(
    expected: R,
    what: &str,
    mut measure: impl FnMut() -> R,
) {
    let measured = (0..3).map(|_| measure()).find(|measured| *measured == expected);
    assert_eq!(measured.unwrap_or_else(measure), expected, "{what}");
}
