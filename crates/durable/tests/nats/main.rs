//! The store on NATS JetStream, and instances that share it.

#[path = "../common/history.rs"]
mod checks;
mod faults;
#[path = "../common/fixture.rs"]
mod fixture;
#[path = "../common/instance.rs"]
mod instance;
mod letters;
#[path = "../common/limit.rs"]
mod limit;
mod scene;
mod server;
#[path = "../common/nats.rs"]
mod servers;
mod share;
mod store;
#[path = "../common/until.rs"]
mod until;
mod versions;
