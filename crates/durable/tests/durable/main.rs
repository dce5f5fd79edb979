//! Durable timers, on each store. Tests that need a server say so and pass if there is none.
//!
//! One program, so that it is linked once. What looks at all that the program tells by `tracing`
//! is another one: `seen`.

#![cfg_attr(
    all(feature = "nats", feature = "postgres"),
    expect(clippy::duplicate_mod, reason = "each kind of servers has types of its own")
)]

mod absent;
mod beside;
mod chaos;
#[cfg(feature = "sqlite")]
mod cli;
mod common;
mod crashes;
mod eio;
mod ends;
mod faults;
mod kill;
mod looking;
#[cfg(feature = "nats")]
mod nats;
mod oracle;
#[cfg(feature = "sqlite")]
mod page;
#[cfg(feature = "postgres")]
mod postgres;
mod recurring;
mod service;
mod stores;
mod tasks;
mod told;
mod torn;
