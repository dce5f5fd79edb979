//! The store on NATS JetStream, and instances that share it.

mod faults;
#[path = "../shared/instance.rs"]
mod instance;
mod letters;
mod scene;
mod server;
mod share;
mod store;
mod versions;
