//! The store in a database of PostgreSQL's, and instances that share it.

#[path = "../common/history.rs"]
mod checks;
#[cfg(feature = "tracing")]
mod events;
mod faults;
mod figures;
#[path = "../common/fixture.rs"]
mod fixture;
mod history;
#[path = "../common/initdb.rs"]
mod initdb;
#[path = "../common/instance.rs"]
mod instance;
mod letters;
#[path = "../common/limit.rs"]
mod limit;
#[cfg(feature = "tls")]
mod login;
mod looking;
mod network;
mod operating;
mod people;
mod pooler;
#[path = "../common/proxy.rs"]
mod proxy;
mod scene;
mod server;
mod share;
mod store;
#[path = "../common/until.rs"]
mod until;
mod versions;
