//! Wheels for one thread: no clock, no atomics, driven by their owner.
//!
//! For event loops that already know the time and only need to be told what is due. There are
//! two, of the two classic designs: [`Wheel`], a hierarchy of rings, and [`HashedWheel`], one ring
//! that long timers go round several times. [`TimingWheel`] is what both can do, and says when
//! which is the better one; when in doubt, `Wheel` is.
//!
//! The loop asks [`Wheel::next_expiration`] how long it may sleep and calls [`Wheel::advance`]
//! when it wakes. Time is a [`Tick`](crate::Tick): what a tick means is the caller's business.
//!
//! ```
//! use tickless::local::Wheel;
//! use tickless::Tick;
//!
//! let mut wheel = Wheel::default();
//! let ping = wheel.insert(Tick::new(30), "ping");
//! wheel.insert(Tick::new(70), "close");
//!
//! // The peer spoke: the ping is put off.
//! assert!(wheel.reset(ping, Tick::new(50)));
//!
//! let mut log = Vec::new();
//! while let Some(wake_up) = wheel.next_expiration() {
//!     // Sleep until `wake_up`, read the clock, then:
//!     wheel.advance(wake_up, |_, deadline, what| log.push((deadline.get(), what)));
//! }
//! assert_eq!(log, [(50, "ping"), (70, "close")]);
//! ```

mod advance;
mod blocks;
mod check;
mod drain;
mod entry;
mod filing;
mod hashed;
mod key;
mod lists;
mod lookup;
mod occupancy;
mod prefetch;
mod rings;
mod rounds;
mod timing_wheel;
mod view;
mod walk;
mod wheel;

pub use drain::Drain;
pub use hashed::HashedWheel;
pub use key::Key;
pub use timing_wheel::TimingWheel;
pub use wheel::Wheel;
