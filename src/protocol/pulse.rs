//! One word that says when the last beat was, and how the beats ended.
//!
//! - A *beat* puts its time there, unless a later one stands there or the beats have ended.
//! - The *timer* comes when the timeout after some beat has passed, and asks whether that was the
//!   last: if there were later ones it is told when to come again; else the same exchange ends the
//!   beats, so that of a beat and a timer that meet one is first and the other is told so.
//! - A *stop* ends them too.
//!
//! Ends are written as times that no clock shows, above all others, and nothing replaces them.
//!
//! *Orderings*: HEARTBEAT. Whatever ends the beats acquires what was released by each beat before:
//! each is an exchange, also one of an earlier time than stands there, so they form one sequence.
//!
//! *Tested by*: the unit tests below, `loom-tests/tests/heartbeat.rs`, `tests/heartbeat.rs`.

use std::fmt;

use crate::sync::{AtomicU64, Ordering};

/// The beats stopped, and that was noticed.
const SILENT: u64 = u64::MAX;

/// Nobody listens any more.
const STOPPED: u64 = u64::MAX - 1;

/// When the last beat was.
pub struct Pulse {
    last_ns: AtomicU64,
}

/// What a timer is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// There was a later beat: the timeout after it passes then.
    Until(u64),
    /// The beats have ended, by this call.
    Silent,
    /// They had ended before.
    Over,
}

// === impl Pulse ===

impl Pulse {
    /// A first beat, at that time.
    pub fn new(now_ns: u64) -> Pulse {
        Pulse { last_ns: AtomicU64::new(clamped(now_ns)) }
    }

    /// A beat at `now_ns`. `false`: it comes too late, they have ended.
    #[inline]
    pub fn beat(&self, now_ns: u64) -> bool {
        // Exchanged also where a later time stands there: see the orderings above. (Not by
        // `fetch_max`, into which ThreadSanitizer cannot see.)
        let later = |last: u64| (last < STOPPED).then_some(last.max(clamped(now_ns)));
        // ORDER(HEARTBEAT): Release - to the exchange that ends the beats; those between are
        // exchanges as well, and break no release sequence. Acquire - one that is too late sees
        // what was done before the end.
        self.last_ns.fetch_update(Ordering::Release, Ordering::Acquire, later).is_ok()
    }

    /// Ends the beats if at `now_ns` the last was `timeout_ns` ago.
    pub fn expire(&self, now_ns: u64, timeout_ns: u64) -> Verdict {
        let until = |last: u64| last.saturating_add(timeout_ns);
        let is_silent = |last: u64| last < STOPPED && until(last) <= now_ns;
        match self.end(SILENT, is_silent) {
            Ok(_) => Verdict::Silent,
            Err(last) if last >= STOPPED => Verdict::Over,
            Err(last) => Verdict::Until(until(last)),
        }
    }

    /// Ends the beats. `false`: they had ended before.
    pub fn stop(&self) -> bool {
        self.end(STOPPED, |last| last < STOPPED).is_ok()
    }

    /// Whether beats are still listened to.
    pub fn is_alive(&self) -> bool {
        self.now() < STOPPED
    }

    /// Whether the beats stopped, and that was noticed.
    pub fn is_silent(&self) -> bool {
        self.now() == SILENT
    }

    /// The time of the last beat, or how they ended.
    fn now(&self) -> u64 {
        // ORDER(HEARTBEAT): Acquire - pairs with the exchange that ended them.
        self.last_ns.load(Ordering::Acquire)
    }

    /// Puts an end there where the word is as it `should_be`; else answers with the word.
    fn end(&self, end: u64, should_be: impl Fn(u64) -> bool) -> Result<u64, u64> {
        // ORDER(HEARTBEAT): AcqRel - acquires what was done before each beat, and passes it on to
        // beats that are too late. Acquire - as for those, where nothing is exchanged.
        self.last_ns.fetch_update(Ordering::AcqRel, Ordering::Acquire, |last| {
            should_be(last).then_some(end)
        })
    }
}

impl fmt::Debug for Pulse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pulse").field("is_alive", &self.is_alive()).finish_non_exhaustive()
    }
}

/// A time that is not taken for an end. (Those that are lie 584 years ahead.)
fn clamped(now_ns: u64) -> u64 {
    now_ns.min(STOPPED - 1)
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;

    #[test]
    fn a_timer_is_told_of_later_beats_until_there_are_none() {
        let pulse = Pulse::new(5);
        assert_eq!(pulse.expire(14, 10), Verdict::Until(15));
        assert!(pulse.beat(12) && pulse.beat(7), "one that comes late is older");
        assert_eq!(pulse.expire(15, 10), Verdict::Until(22));
        assert_eq!(pulse.expire(22, 10), Verdict::Silent);
        assert!(!pulse.beat(23) && !pulse.beat(u64::MAX) && !pulse.stop());
        assert_eq!(pulse.expire(99, 10), Verdict::Over);
        assert!(pulse.is_silent() && !pulse.is_alive());
    }

    #[test]
    fn beats_that_were_stopped_never_fall_silent() {
        let pulse = Pulse::new(5);
        assert!(pulse.is_alive());
        assert!(pulse.stop() && !pulse.stop());
        assert!(!pulse.beat(6));
        assert_eq!(pulse.expire(u64::MAX, 10), Verdict::Over);
        assert!(!pulse.is_silent() && !pulse.is_alive());
    }

    #[test]
    fn no_time_is_taken_for_an_end() {
        let pulse = Pulse::new(u64::MAX);
        assert!(pulse.beat(u64::MAX) && pulse.is_alive());
        assert_eq!(pulse.expire(u64::MAX - 1, 10), Verdict::Until(u64::MAX));
        assert_eq!(pulse.expire(u64::MAX - 2, 0), Verdict::Silent);
    }
}
