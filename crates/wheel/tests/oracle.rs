//! The wheels against a sorted map, through random histories.
//!
//! The model and its comparisons are `tests/models/src/ops_model.rs`; here histories are drawn so
//! that every geometry gets its share and failures are made small.

use models::histories::when;
use models::ops_model::{Case, LIMITED, Op, SHAPES, run};
use models::when::When;
use proptest::collection::vec;
use proptest::prelude::*;
use support::hold::hold;

const CASES: u64 = 100;
const STEPS: usize = 120;

/// Where to go: mostly not far, and now and then over everything that is pending.
fn step() -> impl Strategy<Value = When> {
    prop_oneof![
        8 => (0..40_u16).prop_map(|half| When::Ahead(2 * half + 1)),
        3 => (0..4_u8, 0..40_u8, -1..=1_i8)
            .prop_map(|(level, buckets, offset)| When::Edge { level, buckets, offset }),
        1 => when(),
    ]
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        24 => when().prop_map(Op::Insert),
        6 => any::<u16>().prop_map(Op::Cancel),
        6 => (any::<u16>(), when()).prop_map(|(pick, when)| Op::Reset(pick, when)),
        8 => step().prop_map(Op::Advance),
        4 => (step(), 0..6_u8).prop_map(|(when, count)| Op::Pop(when, count)),
        3 => Just(Op::AdvanceToNext),
        2 => Just(Op::AdvanceShort),
        1 => (step(), 0..4_u8).prop_map(|(when, call)| Op::AdvanceInterrupted(when, call)),
        4 => (step(), LIMITED..LIMITED + 6)
            .prop_map(|(when, limit)| Op::AdvanceInterrupted(when, limit)),
        1 => any::<u8>().prop_map(Op::Drain),
        1 => Just(Op::Shrink),
    ]
}

fn start() -> impl Strategy<Value = When> {
    prop_oneof![
        2 => Just(When::Absolute(0)),
        1 => any::<u64>().prop_map(|count| When::Absolute(count >> 12)),
        1 => (1..4_u8).prop_map(When::End),
    ]
}

fn agree(slots: u32, reach: u32) {
    let shape = SHAPES.iter().position(|shape| *shape == (slots, reach));
    let shape = shape.expect("a shape of the model") as u8;
    let case = (start(), vec(op(), 1..STEPS));
    let case = case.prop_map(move |(start, ops)| Case { shape, start, ops });
    hold(&format!("{slots} slots, reach {reach}"), CASES, case, run);
}

#[test]
fn the_smallest_wheel_agrees_with_the_oracle() {
    agree(2, 2);
}

#[test]
fn three_slots_agree_with_the_oracle() {
    agree(3, 3);
}

#[test]
fn three_slots_of_which_two_are_reached_agree_with_the_oracle() {
    agree(3, 2);
}

#[test]
fn twenty_slots_agree_with_the_oracle() {
    agree(20, 20);
}

#[test]
fn sixty_four_slots_of_which_half_are_reached_agree_with_the_oracle() {
    agree(64, 32);
}

#[test]
fn the_default_wheel_agrees_with_the_oracle() {
    agree(256, 256);
}

#[test]
fn five_hundred_and_twelve_slots_agree_with_the_oracle() {
    agree(512, 512);
}

#[test]
fn a_thousand_slots_of_which_all_but_one_are_reached_agree_with_the_oracle() {
    agree(1000, 999);
}
