//! What a handler gets, and how it is called: the types of payloads and of errors are known here,
//! and not to the workers.
//!
//! *Owner*: the thread that calls the handler.
//!
//! *Tested by*: here, `tests/durable/service.rs`.

use std::sync::Arc;
use std::time::SystemTime;

use crate::error::StoreError;
#[cfg(feature = "tracing")]
use crate::events;
use crate::foreign;
use crate::payload::Payload;
#[cfg(feature = "postgres")]
use crate::position::Position;
use crate::position::TimerId;
use crate::record::Record;

use super::core::Core;
use super::durable::Durable;
use super::retry::Retry;
use super::worker::{Failure, Run};

/// A timer that is due, as its handler gets it.
#[derive(Debug)]
pub struct Firing<P> {
    payload: P,
    record: Record,
    is_repeat: bool,
    durable: Durable<P>,
}

/// Hides the types of a handler.
pub(super) fn erase<P: Payload, E: Into<Retry>>(
    handler: impl Fn(&Firing<P>) -> Result<(), E> + Send + Sync + 'static,
) -> Arc<Run> {
    Arc::new(move |core, record| {
        // All foreign code is called in here, destructors included.
        let called = foreign::call(|| match firing(core, &record)? {
            Ok(firing) => {
                #[cfg(feature = "tracing")]
                let _span = events::attempt(&core.config.thread_name, &record).entered();
                handler(&firing).map(Ok).map_err(Failure::of_handler)
            }
            Err(error) => Ok(Err(error)),
        });
        core.over(&record, called.unwrap_or_else(|text| Err(Failure::panicked(&text))));
    })
}

/// What a handler gets, unless it must not be called any more. This calls foreign code.
pub(super) fn firing<P: Payload>(
    core: &Arc<Core>,
    record: &Record,
) -> Result<Result<Firing<P>, StoreError>, Failure> {
    let is_repeat = core.may_have_begun(&core.state().numbers, record);
    let durable = Durable::borrowed(core);
    let payload = P::from_bytes(&record.payload).map_err(|error| Failure::of_payload(&error))?;
    let firing = Firing { payload, record: record.clone(), is_repeat, durable };
    // At last: all that comes before this can wait for a lock, or be suspended.
    Ok(core.may_fire().map(|()| firing))
}

// === impl Firing ===

impl<P> Firing<P> {
    /// What the timer carries.
    pub fn payload(&self) -> &P {
        &self.payload
    }

    /// The timer's number. It is the same at each attempt, so whatever the handler changes
    /// elsewhere is changed once only if it is done together with a note of this number, and not
    /// done where that note is found.
    pub fn id(&self) -> TimerId {
        self.record.id()
    }

    /// The timer's key, if it has one.
    pub fn key(&self) -> Option<&[u8]> {
        self.record.key.as_deref()
    }

    /// Which attempt this is, from 1 on. Attempts that ended with the process are not counted: see
    /// [`crashes`](Firing::crashes) and [`may_be_repeat`](Firing::may_be_repeat).
    pub fn attempt(&self) -> u32 {
        self.record.attempt
    }

    /// How many attempts in a row before this one may have been cut off by the end of their
    /// process, mostly without the first one: see [`crashes`](crate::Builder::crashes). A handler
    /// of something dangerous can be more careful if this is not zero.
    pub fn crashes(&self) -> u32 {
        self.record.crashes
    }

    /// Whether a handler may have begun for this timer before: at an earlier attempt, or in an
    /// earlier process, which has died before the end of the timer was durable. Of the timers that
    /// earlier processes have scheduled, those have that were due when the service was opened, up
    /// to a second later. If the wall clock was set back by more than that between the two
    /// processes, some are missed.
    pub fn may_be_repeat(&self) -> bool {
        self.is_repeat
    }

    /// When the timer was scheduled to be due, before it was put off for any reason.
    pub fn due(&self) -> SystemTime {
        self.record.first_due()
    }

    /// Where the timer is in its store, at this attempt.
    #[cfg(feature = "postgres")]
    pub(crate) fn position(&self) -> Position {
        self.record.position
    }

    /// The service, to schedule and cancel other timers. It does not keep the service open.
    pub fn timers(&self) -> &Durable<P> {
        &self.durable
    }
}

#[cfg(all(test, any(feature = "postgres", feature = "nats")))]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::time::Duration;

    use super::*;
    use crate::error::StoreErrorKind;
    use crate::service::{Builder, Share};
    use crate::store::Disk;

    /// A lease that is over after so many looks.
    struct Lease(AtomicU32);

    impl Share for Lease {
        fn now(&self) -> SystemTime {
            SystemTime::now() + Duration::from_secs(1)
        }

        fn served_ms(&self) -> u64 {
            0
        }

        fn may_fire(&self) -> Result<(), StoreError> {
            let less = |left: u32| left.checked_sub(1);
            let left = self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
            left.map(drop).map_err(|_| StoreError::new(StoreErrorKind::Fenced, "it is over"))
        }
    }

    /// One timer is due, and the lease is over after so many looks: how often the handler ran, how
    /// many have fired by the statistics, and how often it was told that the service has failed.
    fn fired_after(looks: u32) -> (u32, u64, u32) {
        let now = SystemTime::now();
        let (calls, lease) = (Arc::new(AtomicU32::new(0)), Arc::new(Lease(looks.into())));
        let called = calls.clone();
        let handler = move |_: &Firing<String>| {
            called.fetch_add(1, Ordering::Relaxed);
            Ok::<(), StoreError>(())
        };
        let told = Arc::new(AtomicU32::new(0));
        let failed = told.clone();
        let service = Builder::new().share(lease, Duration::ZERO).on_failure(move |error| {
            assert_eq!(error.kind(), StoreErrorKind::Fenced);
            failed.fetch_add(1, Ordering::Relaxed);
        });
        let mut service = service.open_by_hand(Disk::default().open(), now, handler).unwrap();
        drop(service.timers().schedule(now, "text".to_owned()).unwrap());
        service.step().unwrap();
        service.step().unwrap();
        service.advance(Duration::from_millis(20));
        for _ in 0..2 {
            service.worker()();
        }
        let fired = service.timers().stats().fired;
        (calls.load(Ordering::Relaxed), fired, told.load(Ordering::Relaxed))
    }

    #[test]
    fn no_handler_begins_after_the_last_look_at_the_lease() {
        assert_eq!(fired_after(0), (0, 0, 1));
        // It is over while the worker takes the timer out of the window.
        assert_eq!(fired_after(1), (0, 0, 1));
        assert_eq!(fired_after(3), (1, 1, 0));
    }
}
