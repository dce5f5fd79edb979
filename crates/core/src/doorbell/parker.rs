//! A place where a thread of the engine sleeps until it is rung: the leader of a group by its bell,
//! and the watcher.
//!
//! The standard library's `unpark` notes that the thread was unparked, and then wakes it. A thread
//! that is preempted between the two leaves the sleeper asleep, and all who unpark it meanwhile
//! find that it was unparked already and do nothing. Here the sleeper alone takes back that it
//! sleeps, when it is awake. Until then each ring wakes it, also if others rang before.
//!
//! ```text
//!  0        -- sleep --> ASLEEP          -- wakes up --> 0
//!  0        -- ring ---> RUNG            -- sleep -----> 0, at once
//!  ASLEEP   -- ring ---> ASLEEP | RUNG, and the ring wakes the sleeper
//!  ASLEEP | RUNG  -- ring: as it is, and this ring wakes the sleeper too
//!           -- wakes up --> 0
//! ```
//!
//! *Owner*: one thread at a time sleeps; any thread rings. A ring that nobody has heard is kept for
//! the next sleep, whichever thread that is.
//!
//! *Orderings*: DOORBELL, TAKEOVER. The word is changed by RMWs alone, so each comes before or
//! after the one in which the sleeper says that it sleeps.
//! - *The ring comes first*: the sleeper finds it, and does not sleep.
//! - *The ring comes after*: it finds that the thread sleeps, and wakes it. If the thread is only
//!   about to sleep, the system finds the word changed, and does not let it.
//!
//! A ring is Release, and the sleeper takes it with Acquire: it sees what came before the ring.
//!
//! *Tested by*: the unit tests below, `loom-tests/tests/{doorbell,suspended}.rs`,
//! `tests/alone/held_ring.rs`.

use std::time::Duration;

use crate::os::Futex;
use crate::sync::{CachePadded, Ordering};

const RUNG: u32 = 1;
const ASLEEP: u32 = 2;

/// A place where one thread at a time sleeps, and others ring.
#[derive(Default)]
pub struct Parker {
    futex: CachePadded<Futex>,
}

// === impl Parker ===

impl Parker {
    /// Nobody sleeps, and nobody has rung.
    pub fn new() -> Parker {
        Parker::default()
    }

    /// Ends the sleep that is under way, or else the next one.
    pub fn ring(&self) {
        // ORDER(DOORBELL): AcqRel - Release pairs with the Acquire in `sleep`; Acquire with the
        // Release there: whom `os/parking.rs` wakes is known.
        if self.futex.word().fetch_or(RUNG, Ordering::AcqRel) & ASLEEP != 0 {
            self.futex.wake();
        }
    }

    /// Sleeps until rung or until `timeout` has passed (`None`: until rung). It may also return for
    /// no reason.
    pub fn sleep(&self, timeout: Option<Duration>) {
        self.futex.enter();
        // ORDER(DOORBELL): Release - pairs with the Acquire in `ring`. A ring that came before this
        // is taken below.
        let was = self.futex.word().fetch_or(ASLEEP, Ordering::Release);
        debug_assert!(was & ASLEEP == 0, "one thread sleeps in a place");
        if was & RUNG == 0 {
            self.futex.wait(ASLEEP, timeout);
        }
        // ORDER(DOORBELL): Acquire - pairs with the Release in `ring`: what it is rung for.
        self.futex.word().swap(0, Ordering::Acquire);
    }
}

debug! { impl[] Parker[] {} }

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;
    use crate::sync::{Arc, thread};

    #[test]
    fn rings_end_the_sleep_that_comes_after_them_and_one_only() {
        let parker = Parker::new();
        for timeout in [None, Some(Duration::MAX), Some(Duration::from_secs(1 << 40))] {
            (0..3).for_each(|_| parker.ring());
            parker.sleep(timeout);
        }
        assert_eq!(parker.futex.word().load(Ordering::Relaxed), 0);
        parker.sleep(Some(Duration::from_millis(1)));
        assert_eq!(parker.futex.word().load(Ordering::Relaxed), 0);
    }

    #[test]
    fn a_ring_ends_the_sleep_that_is_under_way() {
        let [there, back] = [(); 2].map(|()| Arc::new(Parker::new()));
        // What is passed on, since a sleep may end for no reason.
        let word = Arc::new(crate::sync::AtomicU32::new(0));
        let echo = {
            let (there, back, word) = (there.clone(), back.clone(), word.clone());
            thread::spawn(move || {
                for n in 0..1000 {
                    while word.load(Ordering::Relaxed) != 2 * n + 1 {
                        there.sleep(None);
                    }
                    word.store(2 * n + 2, Ordering::Relaxed);
                    back.ring();
                }
            })
        };
        for n in 0..1000 {
            word.store(2 * n + 1, Ordering::Relaxed);
            there.ring();
            while word.load(Ordering::Relaxed) != 2 * n + 2 {
                back.sleep(Some(Duration::from_secs(1 << 40)));
            }
        }
        echo.join().unwrap();
    }
}
