//! The tests that compare the wheels with oracles, and with what was written down. They do
//! nothing to memory that those of `wheels.rs` do not do, so that a stage of `ci/` leaves them
//! out.

#[path = "../../../fuzz/geometry_model.rs"]
mod geometry_model;
#[path = "../../../fuzz/histories.rs"]
mod histories;
#[path = "../../../fuzz/ops_model.rs"]
mod ops_model;
#[path = "../../../fuzz/when.rs"]
mod when;

mod corpus;
mod golden_placement;
mod oracle;
