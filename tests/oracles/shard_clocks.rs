//! A shard against a sorted map, while the clocks of those who use it do not agree.
//!
//! The model is `tests/models/src/shard_model.rs`; here histories are drawn at random and made
//! small.

use models::histories::when;
use models::shard_model::{Case, Op, SHAPES, run, run_in_crowds};
use models::when::When;
use proptest::collection::vec;
use proptest::prelude::*;
use support::hold::hold;

const CASES: u64 = 200;
const STEPS: usize = 80;

fn op(bounded: f64) -> impl Strategy<Value = Op> {
    let turn_at =
        prop_oneof![1 => (0..9_u16).prop_map(When::Ago), 6 => (0..60_u16).prop_map(When::Ahead)];
    let (producer, pick, skew) = (any::<bool>(), any::<u16>(), any::<i8>());
    prop_oneof![
        8 => (producer, when(), skew, any::<bool>()).prop_map(|(producer, deadline, skew, owned)| {
            Op::Schedule { producer, deadline, skew, owned }
        }),
        3 => (producer, pick).prop_map(|(producer, pick)| Op::Cancel { producer, pick }),
        4 => (any::<bool>(), any::<u16>(), when(), any::<i8>()).prop_map(
            |(producer, pick, deadline, skew)| Op::Reset { producer, pick, deadline, skew }
        ),
        1 => (any::<bool>(), any::<u16>())
            .prop_map(|(producer, pick)| Op::Detach { producer, pick }),
        6 => (turn_at, prop::option::weighted(bounded, 0..4_u8))
            .prop_map(|(now, at_most)| Op::Turn { now, at_most }),
    ]
}

fn agree(bounded: f64, run: fn(&Case)) {
    let start = prop_oneof![
        2 => Just(When::Absolute(0)),
        2 => any::<u64>().prop_map(|count| When::Absolute(count >> 12)),
        1 => (1..200_u8).prop_map(When::End),
    ];
    let case = (0..SHAPES.len() as u8, start, vec(op(bounded), 1..STEPS));
    let case = case.prop_map(|(shape, start, ops)| Case { shape, start, ops });
    hold("a shard", CASES, case, run);
}

#[test]
fn a_shard_loses_nothing_and_fires_in_order_whatever_its_users_clocks_show() {
    agree(0.2, run);
}

#[test]
fn a_shard_loses_nothing_where_each_bucket_is_a_crowd_whatever_its_users_clocks_show() {
    agree(0.7, run_in_crowds);
}
