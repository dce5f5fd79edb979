//! The words that decide the races of the higher-level APIs: small state machines over one atomic
//! each, which the models build as they are.
//!
//! - [`hold`]: which thread may touch an operation of the purgatory or a thing that repeats, and
//!   how it ended (HOLD); [`ends`] has the ways to end.
//! - [`pulse`]: between the beats of a heartbeat and its timer (HEARTBEAT).
//! - [`gate`]: between the thread that schedules a keyed timer and the thread that finds it due
//!   (KEYED).
//! - [`latch`]: between the thread that ends something and those that wait for that (LATCH).
//! - [`revocable`]: between the thread that begins a task and the one that cancels it (REVOKE).
//! - [`twin`]: between the two ends of a timer that share its memory (TWIN).
//! - [`closable`]: between threads that use a value and the one that takes it away (CLOSABLE).
//! - [`stops`]: between the thread that stops an engine and those that keep a part of it (STOP).

pub mod closable;
pub mod ends;
pub mod gate;
pub mod hold;
pub mod latch;
pub mod pulse;
pub mod revocable;
pub mod stops;
pub mod twin;

pub use ends::{Decision, End};
