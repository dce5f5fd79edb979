//! The pages of tickless whose programs use other crates: their doctests run here, so that those
//! crates are nobody's dependencies but of these tests. The feature `rivals` switches them on.

#[doc = include_str!("../../../docs/adapters.md")]
pub mod adapters {}
#[doc = include_str!("../../../docs/compare.md")]
pub mod compare {}
