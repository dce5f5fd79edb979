//! Wheels for one thread, without clock, threads or atomics: the crate `tickless-wheel`.
//!
//! They are for event loops that own all their timers, read the clock themselves and only ask
//! which timers have expired. There are two, of the two classic designs: [`Wheel`], a hierarchy of
//! rings, and [`HashedWheel`], one ring that long timers go round several times. [`TimingWheel`]
//! compares their costs; when in doubt, take `Wheel`.
//!
//! Programs that need nothing else of this crate can depend on `tickless-wheel` alone, which works
//! without the standard library. Its items are the same as those here.
//!
//! ```
//! use tickless::local::{Tick, Wheel};
//!
//! let mut wheel = Wheel::default();
//! let ping = wheel.insert(Tick::new(30), "ping");
//! assert!(wheel.reset(ping, Tick::new(50)));
//!
//! let wake_up = wheel.next_expiration();
//! assert_eq!(wake_up, Some(Tick::new(50)));
//! assert_eq!(wheel.advance(Tick::new(50), |_key, _deadline, what| assert_eq!(what, "ping")), 1);
//! ```

#[doc(inline)]
pub use tickless_wheel::{
    Drain, Geometry, GeometryError, HashedWheel, Iter, Key, MAX_LEVELS, MAX_SLOTS, Place, Tick,
    TimingWheel, Wheel,
};
