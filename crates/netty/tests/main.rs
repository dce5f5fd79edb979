//! The tests of the hashed wheel timer. (`wakes.rs` is a program of its own, since its verdict
//! depends on real time.)

#[path = "../../../fuzz/histories.rs"]
mod histories;
#[path = "../../../fuzz/when.rs"]
mod when;

mod calls;
mod ends;
mod faults;
mod oracle;
mod printed;
mod races;
mod waits;
