//! The models that tests and fuzz targets compare the wheels and the engine with: naive ones, each
//! with the histories that it runs.
//!
//! A fuzz target draws a history from bytes, a test at random or from the corpus. So each model is
//! written once.
#![expect(missing_docs, reason = "a history is read where it is run")]

#[cfg(feature = "engine")]
pub mod builder_model;
#[cfg(feature = "engine")]
pub mod engine_model;
pub mod geometry_model;
#[cfg(feature = "proptest")]
pub mod histories;
pub mod ops_model;
#[cfg(feature = "engine")]
pub mod shard_model;
pub mod when;
