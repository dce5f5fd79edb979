//! HEARTBEAT: when the last beat was, and whether it was the last.
//!
//! Who races: threads that beat, the timer that asks whether they have stopped, one that stops it.
//! Asserted: the timer ends the beats only when the timeout after each beat that was in time has
//! passed; of the timer and a stop one ends them; what a thread did before its beat in time is seen
//! by the thread that ends them, and the end by a beat that comes too late (the checker's cells see
//! to that).

use std::sync::Arc;

use loom_tests::{check, on_thread};
use tickless_sync::protocol::pulse::{Pulse, Verdict};
use tickless_sync::{Counter, Ordering::Relaxed, UnsafeCell};

const TIMEOUT: u64 = 10;

/// Beats by two threads, and what each did before its beat.
struct Rig {
    pulse: Pulse,
    deeds: [UnsafeCell<u32>; 2],
    /// Who has been told that its beat was in time; no part of the model.
    in_time: [Counter; 2],
    /// Written by the timer, before it asks.
    end: UnsafeCell<u32>,
}

// SAFETY: who may look at what when is what the models are about.
unsafe impl Sync for Rig {}

impl Rig {
    fn new() -> Arc<Rig> {
        Arc::new(Rig {
            pulse: Pulse::new(0),
            deeds: [(); 2].map(|()| UnsafeCell::new(0)),
            in_time: [(); 2].map(|()| Counter::new(0)),
            end: UnsafeCell::new(0),
        })
    }

    /// Thread number `who` does something, and beats.
    fn beat(&self, who: usize, now: u64) -> bool {
        // SAFETY: nobody else touches it until this thread has beaten.
        self.deeds[who].with_mut(|deed| unsafe { *deed += 1 });
        let in_time = self.pulse.beat(now, TIMEOUT);
        self.in_time[who].fetch_add(u64::from(in_time), Relaxed);
        in_time
    }

    /// Looks at what was done before each beat that was in time: for the thread that ended the
    /// beats.
    fn look(&self) {
        for (deed, in_time) in self.deeds.iter().zip(&self.in_time) {
            if in_time.load(Relaxed) == 1 {
                // SAFETY: its beat, which is in time, orders this after it.
                assert_eq!(deed.with_mut(|deed| unsafe { *deed }), 1);
            }
        }
    }

    /// The timer: at `now`, and then for as long as it is told of later beats.
    fn expire(&self, mut now: u64) -> (u64, Verdict) {
        loop {
            match self.pulse.expire(now, TIMEOUT) {
                Verdict::Until(next) => {
                    assert!(next > now, "it is armed for a time to come");
                    now = next;
                }
                verdict => return (now, verdict),
            }
        }
    }
}

#[test]
fn a_beat_in_time_is_waited_for_and_one_too_late_is_told_so() {
    check(3, || {
        let rig = Rig::new();
        let timer = on_thread(&rig, |rig| rig.expire(TIMEOUT));
        let in_time = [rig.beat(0, 4), rig.beat(0, 7)];
        let (fired, verdict) = timer.join().unwrap();
        assert_eq!(verdict, Verdict::Silent);
        let last = in_time.into_iter().zip([4, 7]).filter(|(in_time, _)| *in_time);
        assert_eq!(fired, TIMEOUT + last.map(|(_, at)| at).max().unwrap_or(0));
    });
}

#[test]
fn of_two_who_beat_the_later_counts() {
    check(3, || {
        let rig = Rig::new();
        let others = [on_thread(&rig, |rig| rig.beat(1, 9)), on_thread(&rig, |rig| rig.beat(0, 5))];
        let (fired, _) = rig.expire(TIMEOUT);
        let [late, early] = others.map(|other| other.join().unwrap());
        let last = if late { 9 } else { u64::from(early) * 5 };
        assert_eq!(fired, TIMEOUT + last);
    });
}

#[test]
fn what_was_done_before_each_beat_is_seen_when_the_beats_end() {
    check(3, || {
        let rig = Rig::new();
        // The beat of the earlier time may come second: it leaves the word as it is, and counts.
        let others = [on_thread(&rig, |rig| rig.beat(0, 5)), on_thread(&rig, |rig| rig.beat(1, 9))];
        rig.expire(TIMEOUT);
        rig.look();
        for other in others {
            other.join().unwrap();
        }
    });
}

#[test]
fn what_was_done_before_each_beat_is_seen_by_who_stops_them() {
    check(3, || {
        let rig = Rig::new();
        let others = [on_thread(&rig, |rig| rig.beat(0, 5)), on_thread(&rig, |rig| rig.beat(1, 9))];
        assert!(rig.pulse.stop());
        rig.look();
        for other in others {
            other.join().unwrap();
        }
    });
}

#[test]
fn a_timer_that_is_told_of_a_beat_sees_what_was_done_before_it() {
    check(3, || {
        let rig = Rig::new();
        let other = on_thread(&rig, |rig| rig.beat(0, 5));
        if rig.pulse.expire(TIMEOUT, TIMEOUT) == Verdict::Until(TIMEOUT + 5) {
            // SAFETY: the beat orders this after it.
            assert_eq!(rig.deeds[0].with_mut(|deed| unsafe { *deed }), 1);
        }
        other.join().unwrap();
    });
}

#[test]
fn a_beat_that_comes_too_late_sees_what_was_done_before_the_end() {
    check(3, || {
        let rig = Rig::new();
        let late = on_thread(&rig, |rig| {
            if !rig.pulse.beat(5, TIMEOUT) || !rig.pulse.is_alive() {
                // SAFETY: the end orders this after what the timer did.
                assert_eq!(rig.end.with_mut(|end| unsafe { *end }), 1);
            }
        });
        // SAFETY: nobody else touches it before the beats have ended.
        rig.end.with_mut(|end| unsafe { *end = 1 });
        rig.expire(TIMEOUT);
        late.join().unwrap();
    });
}

#[test]
fn a_late_beat_ends_the_beats_for_all_who_come_after_it() {
    check(3, || {
        let rig = Rig::new();
        let late = on_thread(&rig, |rig| {
            let first = rig.beat(0, TIMEOUT + 2);
            // The timeout after a beat at 5, which another may have made in between, has not
            // passed.
            let second = rig.pulse.beat(TIMEOUT + 3, TIMEOUT);
            let is_over = !first;
            assert!(!(is_over && second), "it was told that the beats are over");
            assert!(!(is_over && rig.pulse.stop()), "so there is nothing to stop");
        });
        let stopper = on_thread(&rig, |rig| rig.pulse.stop());
        rig.beat(1, 5);
        let (_, verdict) = rig.expire(2 * TIMEOUT);
        late.join().unwrap();
        let stopped = stopper.join().unwrap();
        assert_eq!(verdict, if stopped { Verdict::Over } else { Verdict::Silent });
    });
}

#[test]
fn what_a_late_beat_leaves_is_the_timers_or_is_revoked() {
    check(3, || {
        let rig = Rig::new();
        let late = on_thread(&rig, |rig| rig.beat(0, TIMEOUT + 2));
        let revoker = on_thread(&rig, |rig| {
            // A plain stop may have been too late.
            rig.pulse.stop() || rig.pulse.revoke()
        });
        let (_, verdict) = rig.expire(TIMEOUT);
        assert!(!late.join().unwrap());
        let revoked = revoker.join().unwrap();
        assert_eq!(verdict, if revoked { Verdict::Over } else { Verdict::Silent });
        assert_eq!(rig.pulse.is_silent(), !revoked);
    });
}

#[test]
fn of_the_timer_and_a_stop_one_ends_the_beats() {
    check(3, || {
        let rig = Rig::new();
        let stopper = on_thread(&rig, |rig| rig.pulse.stop());
        let beat = on_thread(&rig, |rig| rig.beat(0, 5));
        let (_, verdict) = rig.expire(TIMEOUT);
        let stopped = stopper.join().unwrap();
        beat.join().unwrap();
        assert_eq!(verdict, if stopped { Verdict::Over } else { Verdict::Silent });
        assert_eq!(rig.pulse.is_silent(), !stopped);
        assert!(!rig.pulse.is_alive() && !rig.beat(1, 99));
    });
}

/// The timer looks first, and then asks whether the task is still to run.
#[test]
fn what_a_look_has_found_is_told_to_the_task_or_revoked() {
    check(3, || {
        let rig = Rig::new();
        let other = on_thread(&rig, |rig| rig.pulse.revoke());
        let is_late = rig.pulse.look(TIMEOUT, TIMEOUT) == Verdict::Silent;
        let verdict = rig.pulse.expire(TIMEOUT, TIMEOUT);
        let runs = is_late && verdict == Verdict::Silent;
        assert!(other.join().unwrap() != runs);
        assert!(!rig.beat(0, TIMEOUT - 1));
    });
}
