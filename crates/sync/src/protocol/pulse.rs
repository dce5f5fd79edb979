//! One word that holds the time of the last beat, and how the beats ended.
//!
//! - A *beat* stores its time, unless a later time is there or the beats have ended. If the timeout
//!   after the last beat has passed, it ends the beats: whether a beat is in time depends on the
//!   clock alone, and not on whether the engine is late.
//! - The *timer* comes when the timeout after some beat has passed, and asks whether that beat was
//!   the last. If there was a later beat, it is told when to come again. Otherwise the same CAS
//!   ends the beats: of a beat and a timer that meet, one is first and the other is told so.
//! - A *stop* ends the beats too. One that waits for the timer's task *revokes* as well what a late
//!   beat has left, so that nobody waits for a task that has not begun.
//!
//! Ends are stored as times that no clock shows, above all others. Nothing replaces them, except
//! that the timer takes note of a late beat, or a revocation does. (A timer that may not run its
//! task where it is due *looks* first: to the task, silence is then as after a late beat.)
//!
//! *Orderings*: HEARTBEAT. The CAS that ends the beats acquires what each beat before it released.
//! Each beat is a CAS, also with an earlier time than the one that is stored, so they form one
//! sequence.
//!
//! *Tested by*: the unit test below, `loom-tests/tests/heartbeat.rs`,
//! `tests/races/periodic/heartbeat.rs`.

use crate::{AtomicU64, Ordering};

/// The beats fell silent, and the timer noticed.
const SILENT: u64 = u64::MAX;

/// The beats were stopped: nobody listens any more.
const STOPPED: u64 = u64::MAX - 1;

/// The beats fell silent, as a late one or a look of the timer has found, and the timer's task has
/// still to notice.
const LATE: u64 = u64::MAX - 2;

/// When the last beat was.
pub struct Pulse {
    last_ns: AtomicU64,
}

/// The result of [`Pulse::expire`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// There was a later beat, whose timeout passes at this time.
    Until(u64),
    /// The beats have ended: by this call, by a late one, or by a look before.
    Silent,
    /// They had ended before.
    Over,
}

// === impl Pulse ===

impl Pulse {
    /// A pulse with a first beat, at `now_ns`.
    pub fn new(now_ns: u64) -> Pulse {
        Pulse { last_ns: AtomicU64::new(clamped(now_ns)) }
    }

    /// Whether a beat at `now_ns` would come too late after the last one.
    #[inline]
    pub fn would_be_late(&self, now_ns: u64, timeout_ns: u64) -> bool {
        // ORDER: Relaxed - the CAS of the beat decides; the last beat can only become a later one.
        has_passed(timeout_ns, self.last_ns.load(Ordering::Relaxed), clamped(now_ns))
    }

    /// A beat at `now_ns`. Returns `false` if the beats have ended, or if it ends them:
    /// `timeout_ns` or more have passed since the last one.
    #[inline]
    pub fn beat(&self, now_ns: u64, timeout_ns: u64) -> bool {
        let now_ns = clamped(now_ns);
        let is_late = |last: u64| has_passed(timeout_ns, last, now_ns);
        let later = |last: u64| if is_late(last) { LATE } else { last.max(now_ns) };
        // A CAS even if a later time is stored: see the orderings above. (Not `fetch_max`, into
        // which ThreadSanitizer cannot see.)
        let next = |last: u64| (last < LATE).then(|| later(last));
        // ORDER(HEARTBEAT): Release - to the CAS that ends the beats; beats in between are CASes as
        // well, and break no release sequence. Acquire - a beat that is too late sees what was done
        // before the end.
        let last = self.last_ns.fetch_update(Ordering::Release, Ordering::Acquire, next);
        last.is_ok_and(|last| !is_late(last))
    }

    /// Ends the beats if the last one was `timeout_ns` or more before `now_ns`, or if a late one
    /// has done so. The timer's task runs now.
    pub fn expire(&self, now_ns: u64, timeout_ns: u64) -> Verdict {
        self.end_if_silent(SILENT, now_ns, timeout_ns)
    }

    /// The same for a timer whose task runs later, unless it is revoked: it asks by `expire` then.
    pub fn look(&self, now_ns: u64, timeout_ns: u64) -> Verdict {
        self.end_if_silent(LATE, now_ns, timeout_ns)
    }

    fn end_if_silent(&self, end: u64, now_ns: u64, timeout_ns: u64) -> Verdict {
        let until = |last: u64| last.saturating_add(timeout_ns);
        let is_silent = |last: u64| last == LATE || last < LATE && until(last) <= now_ns;
        match self.end(end, is_silent) {
            Ok(_) => Verdict::Silent,
            Err(last) if last >= STOPPED => Verdict::Over,
            Err(last) => Verdict::Until(until(last)),
        }
    }

    /// Ends the beats. Returns `false` if they had ended before.
    #[inline]
    pub fn stop(&self) -> bool {
        self.end(STOPPED, |last| last < LATE).is_ok()
    }

    /// As `stop`, and takes back what a late beat has left for the timer, too: if this returns
    /// `true`, the timer will find that the beats are over.
    pub fn revoke(&self) -> bool {
        self.end(STOPPED, |last| last <= LATE).is_ok()
    }

    /// Whether beats are still listened to.
    #[inline]
    pub fn is_alive(&self) -> bool {
        self.now() < LATE
    }

    /// Whether the beats fell silent: the timer or a late beat noticed.
    #[inline]
    pub fn is_silent(&self) -> bool {
        matches!(self.now(), SILENT | LATE)
    }

    /// The time of the last beat, or how they ended.
    fn now(&self) -> u64 {
        // ORDER(HEARTBEAT): Acquire - pairs with the CAS that ended the beats.
        self.last_ns.load(Ordering::Acquire)
    }

    /// Stores an end if the word is as it `should_be`; otherwise returns the word as the error.
    fn end(&self, end: u64, should_be: impl Fn(u64) -> bool) -> Result<u64, u64> {
        // ORDER(HEARTBEAT): AcqRel - acquires what was done before each beat, and passes it on to
        // beats that are too late. Acquire - as for those, where no end is stored.
        self.last_ns.fetch_update(Ordering::AcqRel, Ordering::Acquire, |last| {
            should_be(last).then_some(end)
        })
    }
}

debug! { impl[] Pulse[] { is_alive = |this| this.is_alive() } }

/// Whether the timeout after the last beat has passed.
#[inline]
fn has_passed(timeout_ns: u64, last_ns: u64, now_ns: u64) -> bool {
    last_ns.saturating_add(timeout_ns) <= now_ns
}

/// A time that cannot be taken for an end. (The ends lie 584 years ahead.)
fn clamped(now_ns: u64) -> u64 {
    now_ns.min(LATE - 1)
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;

    #[test]
    fn no_time_is_taken_for_an_end() {
        let pulse = Pulse::new(u64::MAX);
        assert!(pulse.beat(u64::MAX, 10) && pulse.is_alive());
        assert_eq!(pulse.expire(u64::MAX - 1, 10), Verdict::Until(u64::MAX));
        assert_eq!(pulse.expire(u64::MAX - 2, 0), Verdict::Silent);
    }

    #[test]
    fn a_late_beat_ends_the_beats_and_the_timer_takes_note() {
        let pulse = Pulse::new(5);
        assert!(!pulse.would_be_late(14, 10) && pulse.would_be_late(15, 10));
        assert!(pulse.beat(14, 10));
        assert!(!pulse.would_be_late(23, 10) && pulse.would_be_late(24, 10));
        assert!(!pulse.beat(24, 10) && !pulse.is_alive() && pulse.is_silent());
        // One that read the clock before is late as well: the end has been told.
        assert!(!pulse.beat(20, 10) && !pulse.stop());
        assert_eq!(pulse.expire(25, 10), Verdict::Silent);
        assert_eq!(pulse.expire(25, 10), Verdict::Over);
    }
}
