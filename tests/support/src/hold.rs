//! Random histories for the oracles: how they are run.

use std::fmt::Debug;

use proptest::prelude::*;
use proptest::test_runner::TestRunner;

use crate::scaled;

/// Runs so many histories, times the environment's `TICKLESS_TEST_SCALE`. One that fails is made
/// small before it is told, beside `what`.
pub fn hold<C: Debug>(what: &str, histories: u64, case: impl Strategy<Value = C>, run: fn(&C)) {
    let config = ProptestConfig {
        cases: scaled(histories) as u32,
        failure_persistence: None,
        ..Default::default()
    };
    TestRunner::new(config)
        .run(&case, |case| {
            run(&case);
            Ok(())
        })
        .unwrap_or_else(|failure| panic!("{what}: {failure}"));
}
