//! The programs of others talk over sockets, with timers of ours. Those programs are large, so this
//! is a crate of its own, which a plain `cargo test` of the engine does not build:
//! `cargo test -p client-tests`.

mod on_axum;
mod on_hyper;
mod on_quinn;
mod on_tower;
/// The page shows it.
#[expect(dead_code, unreachable_pub, reason = "it is a program, whose `main` serves for ever")]
#[path = "../../docs/server.rs"]
mod server;
