//! The store in a database of PostgreSQL's, and instances that share it.

mod server;
mod store;
