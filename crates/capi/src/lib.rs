//! tickless for C and C++: functions over [`tickless::Engine`] with a header, `include/tickless.h`,
//! that is made from this crate.
//!
//! # Protocol
//!
//! *User data.* A call that schedules makes a `task::Task` of `fn`, `user_data` and `drop_fn`
//! before anything can fail. From then on the task owns the user data, and its drop calls
//! `drop_fn`: so it is released once, however the timer ends. The engine has the proof that each
//! payload ends once; nothing here counts.
//!
//! *Timers.* A `tickless_timer` is memory of the caller's: a word that says what it is, the handle
//! (one word) and, for a timer that can be waited for, the waiter. So a timer costs no allocation.
//! A call that ends one first moves the handle out and marks the memory as ended, and does not
//! touch it again: the task's `drop_fn` may free it. The mark is how a second cancel is known, also
//! one at the same time. A copy of a timer is not known. A call that schedules fills the memory
//! before the timer can fire, and a call that moves one has written it by then.
//!
//! *Scopes.* A `tickless_scope` is memory of the caller's, too: a mark as a timer's, and Rust's
//! scope. One thread at a time is in it, without foreign code; the others wait.
//!
//! *Engines.* A `tickless_engine` is a *shell* (`shell`) that is never freed but used again, and
//! its address carries a few bits of a generation. So the use of an engine that was freed is an
//! error, until 64 more engines have used the same shell.
//!
//! *Panics.* Each function runs inside `failure::enter`, which turns a panic into a code. What
//! unwinds out of a callback meets `catch_unwind` in the engine or here. If it is not a panic, the
//! process aborts.
//!
//! *Memory.* Calls fail when there is none, where Rust aborts (`memory`).
//!
//! *Sizes.* A struct that may grow begins with its size as the caller knows it (`sized`).
#![expect(clippy::missing_safety_doc, reason = "the docs are a header's, where nothing is safe")]

#[cfg(not(all(target_os = "linux", target_pointer_width = "64")))]
compile_error!(
    "the C API is for 64-bit Linux: a caller's loop is woken through an eventfd, and the structs \
    have no padding there"
);

mod batch;
mod bells;
mod driving;
mod engine;
mod failure;
mod memory;
mod observe;
mod options;
mod process;
mod schedule;
mod scope;
mod shell;
mod signals;
mod sized;
mod task;
mod time;
mod timer;
mod users;
mod when;

pub use batch::*;
pub use driving::*;
pub use engine::*;
pub use failure::*;
pub use observe::*;
pub use options::*;
pub use schedule::*;
pub use scope::*;
pub use shell::TicklessEngine;
pub use task::TicklessFn;
pub use time::TICKLESS_NEVER;
pub use timer::*;
pub use when::{TICKLESS_AT, TICKLESS_FIXED_DELAY, TICKLESS_WAITABLE, TicklessWhen};
