//! Waiting in user space: the last stretch before a wake-up, without going to sleep.
//!
//! A thread that sleeps wakes up late, by what the system needs for it. A reaper may instead end
//! its sleep a *margin* before the time, and wait for the rest in a loop that reads the clock. To
//! others, such a reaper is awake as in a turn: nobody rings it, and so it looks itself whether
//! there is a notice, a request for a sweep, or a stop.
//!
//! *Invariant*: over any stretch of time, a reaper waits in user space no longer than its share of
//! that stretch and of a `WINDOW`. It earns credit as time passes, and begins to wait only with
//! credit for all of it. Without credit it sleeps until the time itself, so its timers are as late
//! as a wake-up.
//!
//! *Owner*: the reaper's thread.
//!
//! *Orderings*: DOORBELL. The reaper waits between the end of a sleep and the next publication of
//! one, while it counts as awake. So whatever it misses here it finds in the turn after that, or by
//! the look that follows the publication.
//!
//! *Tested by*: the unit tests below, `loom-tests/tests/spin.rs`, `tests/suite/engine/precise.rs`.

use std::time::Duration;

use crate::sync::spin_loop;
use crate::time::{Clock, saturating_ns};

/// The time whose share a reaper may use up at once.
const WINDOW: Duration = Duration::from_millis(100);
/// The same in nanoseconds.
pub const WINDOW_NS: u64 = WINDOW.as_nanos() as u64;

/// Pauses between two looks at the clock. A pause takes from some ten to some hundred cycles.
const PAUSES: u32 = if crate::sync::IS_CHECKED { 1 } else { 4 };

/// Shares are kept in this fraction.
pub const WHOLE: u64 = 1 << 16;

/// How a reaper waits in user space, and how much of that it may still do.
#[derive(Clone, Debug)]
pub struct Spin {
    /// How long before the time a sleep ends; zero: the reaper does not wait in user space.
    margin_ns: u64,
    /// Of a core, in parts of `WHOLE`.
    share: u64,
    /// How long it may wait now.
    credit_ns: u64,
    /// Up to when credit was earned.
    earned_ns: u64,
}

/// How to wait for a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpinOrSleep {
    /// In user space, until then.
    Spin(u64),
    /// Asleep, until then or until rung.
    Sleep(u64),
}

// === impl Spin ===

impl Spin {
    /// For a reaper that always sleeps.
    pub const NEVER: Spin = Spin { margin_ns: 0, share: 0, credit_ns: 0, earned_ns: 0 };

    /// For a reaper that waits in user space from `before` the time on, with at most this share of
    /// a core (0 to 1). `before` is at most that share of a `WINDOW`: there is no credit for
    /// more.
    pub fn before(before: Duration, share: f64) -> Spin {
        let share = (share.clamp(0.0, 1.0) * WHOLE as f64) as u64;
        let credit_ns = part(WINDOW_NS, share);
        let margin_ns = saturating_ns(before).min(credit_ns);
        Spin { margin_ns, share, credit_ns, earned_ns: 0 }
    }

    /// How to wait at `now_ns` for `due_ns`.
    #[inline]
    pub fn plan(&mut self, now_ns: u64, due_ns: u64) -> SpinOrSleep {
        if self.margin_ns == 0 {
            return SpinOrSleep::Sleep(due_ns);
        }
        self.plan_within(now_ns, due_ns)
    }

    fn plan_within(&mut self, now_ns: u64, due_ns: u64) -> SpinOrSleep {
        self.earn(now_ns);
        let left_ns = due_ns.saturating_sub(now_ns);
        let asleep_ns = left_ns.saturating_sub(self.margin_ns);
        let awake_ns = left_ns - asleep_ns;
        match self.credit_after(asleep_ns) >= awake_ns {
            false => SpinOrSleep::Sleep(due_ns),
            true if asleep_ns == 0 => SpinOrSleep::Spin(due_ns),
            true => SpinOrSleep::Sleep(due_ns - awake_ns),
        }
    }

    /// Notes that the reaper waited in user space.
    fn spend(&mut self, begin_ns: u64, end_ns: u64) {
        self.credit_ns = self.credit_ns.saturating_sub(end_ns.saturating_sub(begin_ns));
    }

    /// Waits in user space from `begin_ns` until the clock shows `due_ns`, or until the reaper is
    /// called: there is something else to do.
    #[cold]
    pub fn wait(
        &mut self,
        clock: &Clock,
        begin_ns: u64,
        due_ns: u64,
        is_called: impl Fn() -> bool,
    ) {
        let mut now_ns = begin_ns;
        while now_ns < due_ns && !is_called() {
            (0..PAUSES).for_each(|_| spin_loop());
            now_ns = clock.now_ns();
        }
        self.spend(begin_ns, now_ns);
    }

    fn earn(&mut self, now_ns: u64) {
        self.credit_ns = self.credit_after(now_ns.saturating_sub(self.earned_ns));
        self.earned_ns = self.earned_ns.max(now_ns);
    }

    /// The credit after so much more time.
    fn credit_after(&self, ns: u64) -> u64 {
        self.credit_ns.saturating_add(part(ns, self.share)).min(part(WINDOW_NS, self.share))
    }
}

/// So much of `ns`.
fn part(ns: u64, share: u64) -> u64 {
    ((u128::from(ns) * u128::from(share)) / u128::from(WHOLE)) as u64
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;
    use crate::sync::thread;
    use crate::time::{Clock, ManualClock};

    const US: u64 = 1_000;
    const MS: u64 = 1_000_000;

    /// Waits for `due_ns` as a reaper does that nobody calls, whose sleeps end `late_ns` too late.
    /// Returns when it is over, and how long of that the reaper was awake.
    fn wait(spin: &mut Spin, mut now_ns: u64, due_ns: u64, late_ns: u64) -> (u64, u64) {
        let mut awake_ns = 0;
        while now_ns < due_ns {
            match spin.plan(now_ns, due_ns) {
                SpinOrSleep::Spin(until_ns) => {
                    assert_eq!(until_ns, due_ns);
                    spin.spend(now_ns, until_ns);
                    awake_ns += until_ns - now_ns;
                    now_ns = until_ns;
                }
                SpinOrSleep::Sleep(ends_ns) => {
                    assert!(ends_ns > now_ns && ends_ns <= due_ns, "{now_ns} {ends_ns} {due_ns}");
                    now_ns = ends_ns + late_ns;
                }
            }
        }
        (now_ns, awake_ns)
    }

    #[test]
    fn a_reaper_that_never_waits_in_user_space_sleeps_until_the_time() {
        let mut spin = Spin::NEVER;
        assert_eq!(spin.plan(7, 1000), SpinOrSleep::Sleep(1000));
        assert_eq!(spin.plan(1000, 1000), SpinOrSleep::Sleep(1000));
        let mut none = Spin::before(Duration::from_secs(1), 0.0);
        assert_eq!(none.plan(7, 1000), SpinOrSleep::Sleep(1000), "no share of a core");
    }

    #[test]
    fn a_sleep_ends_a_margin_before_the_time_and_the_rest_is_waited_for_in_user_space() {
        let mut spin = Spin::before(Duration::from_micros(50), 0.5);
        assert_eq!(spin.plan(0, MS), SpinOrSleep::Sleep(MS - 50 * US));
        assert_eq!(spin.plan(MS - 50 * US, MS), SpinOrSleep::Spin(MS));
        assert_eq!(spin.plan(MS - US, MS), SpinOrSleep::Spin(MS));
        assert_eq!(spin.plan(MS, MS), SpinOrSleep::Spin(MS), "which is over at once");
        assert_eq!(spin.plan(0, u64::MAX), SpinOrSleep::Sleep(u64::MAX - 50 * US));
    }

    #[test]
    fn without_credit_a_reaper_sleeps_until_the_time() {
        let mut spin = Spin::before(Duration::from_millis(30), 0.25);
        // A quarter of the window, at once.
        assert_eq!(spin.plan(0, 25 * MS), SpinOrSleep::Spin(25 * MS));
        assert_eq!(spin.plan(0, 26 * MS), SpinOrSleep::Sleep(MS), "there is never credit for more");
        spin.spend(0, 25 * MS);
        assert_eq!(spin.plan(24 * MS, 31 * MS), SpinOrSleep::Sleep(31 * MS), "six have come back");
        assert_eq!(spin.plan(24 * MS, 30 * MS), SpinOrSleep::Spin(30 * MS));
        assert_eq!(spin.plan(500 * MS, 525 * MS), SpinOrSleep::Spin(525 * MS), "all has come back");
        spin.spend(500 * MS, 525 * MS);
        assert_eq!(
            spin.plan(525 * MS, 624 * MS),
            SpinOrSleep::Sleep(624 * MS),
            "not all has, by 599"
        );
        assert_eq!(spin.plan(525 * MS, 650 * MS), SpinOrSleep::Sleep(625 * MS));
        // What is earned during the sleep counts.
        let mut spin = Spin::before(Duration::from_millis(10), 0.25);
        spin.spend(0, 25 * MS);
        assert_eq!(spin.plan(0, 50 * MS), SpinOrSleep::Sleep(40 * MS), "it has earned 10 by then");
        assert_eq!(spin.plan(0, 49 * MS), SpinOrSleep::Sleep(49 * MS), "it has not");
    }

    /// Waits until the hand has come to 5 ms, from 2 ms on. Returns how long it has waited.
    fn wait_by_hand(is_called: bool) -> u64 {
        let hand = ManualClock::new();
        hand.advance(Duration::from_millis(2));
        let clock = Clock::manual(&hand);
        let mut spin = Spin::before(Duration::from_millis(10), 1.0);
        let mover = thread::spawn(move || {
            (0..300).for_each(|_| hand.advance(Duration::from_micros(10)));
        });
        spin.wait(&clock, 2 * MS, 5 * MS, || is_called);
        mover.join().unwrap();
        WINDOW_NS - spin.credit_ns
    }

    #[test]
    fn a_wait_lasts_until_the_time_or_a_call_and_is_counted() {
        assert_eq!(wait_by_hand(false), 3 * MS, "it is the last step that ends it");
        assert_eq!(wait_by_hand(true), 0);
    }

    #[test]
    fn no_stretch_of_time_has_more_than_its_share() {
        let cases = [(0.2, 100), (0.2, 2_000), (0.05, 300), (0.5, 10_000), (1.0, 50)];
        for (share, margin_us) in cases {
            let mut spin = Spin::before(Duration::from_micros(margin_us), share);
            let (mut now_ns, mut seed) = (0, 1_u64);
            // When each wait was over, and how long the reaper was awake up to then.
            let mut waits = vec![(0, 0)];
            for _ in 0..2_000 {
                seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                let (end_ns, awake_ns) =
                    wait(&mut spin, now_ns, now_ns + (seed >> 40) % MS, (seed >> 33) % 60 * US);
                let before = waits.last().map_or(0, |(_, awake_ns)| *awake_ns);
                waits.push((end_ns, before + awake_ns));
                now_ns = end_ns;
            }
            for from in (0..waits.len()).step_by(97) {
                for to in (from..waits.len()).step_by(89) {
                    let [(begin, before), (end, after)] = [waits[from], waits[to]];
                    let most = part(end - begin + WINDOW_NS, spin.share) + 1;
                    assert!(after - before <= most, "{share} {margin_us}: {from} to {to}");
                }
            }
            assert!(waits.last().is_some_and(|(_, awake_ns)| *awake_ns > 0));
        }
    }
}
