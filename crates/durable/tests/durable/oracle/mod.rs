//! Random histories of a service, by hand and with crashes, compared with a model.
//!
//! Things happen side by side here as well, though there is one thread: while the store commits or
//! reads, callers call and handlers run, and while a handler runs, the writer writes.
//!
//! The model knows two states: what callers were told, and what was durable at the last batch. A
//! crash takes it back to the second one. Whatever fires has to be alive in the model, due by the
//! wall clock and durable; whatever is due has to fire; and in the end nothing is left.

mod model;
mod shared;
mod world;

use std::time::{Duration, SystemTime};

use proptest::prelude::*;
use tickless_durable::store::Fault;

use model::{ATTEMPTS, Plan, Step};
use world::World;

use crate::common;

fn plans() -> impl Strategy<Value = Plan> {
    prop_oneof![
        6 => Just(Plan::Succeed),
        3 => (1..=ATTEMPTS).prop_map(Plan::Fail),
        1 => Just(Plan::CancelItself),
        1 => (0..3_u8).prop_map(Plan::CancelKey),
        1 => (0..3_u8).prop_map(Plan::Replace),
        2 => any::<bool>().prop_map(|cancels| Plan::Write { cancels }),
    ]
}

/// What callers and workers do.
fn calls() -> impl Strategy<Value = Step> {
    let key = || proptest::option::weighted(0.5, 0..3_u8);
    prop_oneof![
        10 => (-50..400_i64, key(), plans())
            .prop_map(|(due_in, key, plan)| Step::Schedule { due_in, key, plan }),
        3 => any::<prop::sample::Index>().prop_map(Step::Cancel),
        2 => (0..3_u8).prop_map(Step::CancelKey),
        4 => Just(Step::Work),
    ]
}

fn steps() -> impl Strategy<Value = Step> {
    let fault = || prop_oneof![Just(None), Just(Some(Fault::Lost)), Just(Some(Fault::Kept))];
    let meanwhile = || proptest::collection::vec(calls(), 0..4);
    prop_oneof![
        16 => calls(),
        6 => (any::<bool>(), meanwhile())
            .prop_map(|(commits, meanwhile)| Step::Write { commits, meanwhile }),
        4 => (1..200_u64).prop_map(Step::Advance),
        1 => (1..200_u64).prop_map(Step::AdvanceEngine),
        2 => (-300..300_i64).prop_map(Step::SetWall),
        4 => Just(Step::Drain),
        2 => fault().prop_map(Step::Die),
        1 => Just(Step::Reopen),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: common::scale::cases(1000.0),
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn whatever_is_durable_fires_in_time_and_nothing_else_does(
        window in prop_oneof![Just(1_usize), Just(3), Just(1000)],
        span_ms in prop_oneof![Just(0_u64), Just(120), Just(3_600_000)],
        steps in proptest::collection::vec(steps(), 1..80),
    ) {
        let world = World::new(window, span_ms);
        steps.iter().for_each(|step| world.run(step));
        world.end();
    }
}

#[test]
fn time_is_counted_from_the_clock_that_is_set() {
    let now = World::new(10, 1000).with(|service| service.now());
    assert_eq!(now, SystemTime::UNIX_EPOCH + Duration::from_secs(1000));
}
