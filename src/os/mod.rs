//! The operating system, where the standard library does not cover it.
//!
//! `threads` asks for exact wake-ups and for processors; `boottime` reads the clock that counts
//! suspended time; an `alarm` sleeps by that clock; `fork` reports forks to the child.
//!
//! *Invariant*: no other folder of the crate names `libc`, `rustix` or `core_affinity`
//! (`tests/tidy.rs` looks).

mod alarm;
mod boottime;
mod fork;
mod threads;

pub use alarm::Alarm;
pub use boottime::boottime;
pub use fork::tell_of_forks;
pub use threads::{ask_for_exact_wakeups, pin_to};
