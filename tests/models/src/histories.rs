//! Random histories for the oracles of wheels: the times that they tell of.

use proptest::prelude::*;

use crate::when::When;

/// When something is due: mostly soon, and on every boundary there is.
pub fn when() -> impl Strategy<Value = When> {
    prop_oneof![
        2 => (0..50_u16).prop_map(When::Ago),
        6 => (0..100_u16).prop_map(When::Ahead),
        2 => any::<u16>().prop_map(When::Ahead),
        5 => (0..8_u8, 0..70_u8, -2..=2_i8)
            .prop_map(|(level, buckets, offset)| When::Edge { level, buckets, offset }),
        3 => (0..8_u8, -2..=2_i8).prop_map(|(level, offset)| When::Reach { level, offset }),
        1 => any::<u64>().prop_map(When::Absolute),
        1 => (0..4_u8).prop_map(When::End),
    ]
}
