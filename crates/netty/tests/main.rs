//! The tests of the hashed wheel timer. (`wakes.rs` is a program of its own, since its verdict
//! depends on real time.)

mod calls;
mod ends;
mod faults;
mod oracle;
mod printed;
mod races;
mod waits;
