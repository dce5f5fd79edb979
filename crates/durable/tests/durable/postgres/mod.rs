//! The store in a database of PostgreSQL's, and instances that share it.

#[cfg(feature = "tracing")]
mod events;
mod faults;
mod figures;
mod history;
#[path = "../shared/instance.rs"]
mod instance;
mod large;
mod letters;
#[cfg(feature = "tls")]
mod login;
mod looking;
mod network;
mod operating;
mod people;
mod pooler;
mod scene;
mod server;
mod share;
mod store;
mod versions;
