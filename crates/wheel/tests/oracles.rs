//! The tests that compare the wheels with oracles, and with what was written down. They do
//! nothing to memory that those of `wheels.rs` do not do, so that a stage of `ci/` leaves them
//! out.

mod corpus;
mod golden_placement;
mod oracle;
