//! Replays the fuzzing corpus: inputs that fuzzers found worth keeping, as ordinary tests.

use std::fs;
use std::path::Path;

use arbitrary::{Arbitrary, Unstructured};

/// Runs `body` on every input kept for `target` in `corpus`, decoded as the fuzz target decodes it.
pub fn replay<C: for<'a> Arbitrary<'a>>(corpus: &Path, target: &str, body: fn(&C)) {
    let folder = corpus.join(target);
    let inputs = fs::read_dir(&folder).expect("a corpus is part of the repository");
    let mut replayed = 0;
    for input in inputs {
        let bytes = fs::read(input.expect("a readable folder").path()).expect("a readable file");
        if let Ok(case) = C::arbitrary_take_rest(Unstructured::new(&bytes)) {
            body(&case);
            replayed += 1;
        }
    }
    assert!(replayed >= 10, "only {replayed} inputs of {} could be decoded", folder.display());
}
