//! The watch over reapers that are busy: when somebody looks whether a task takes too long.
//!
//! A *watcher* sleeps until a time that it has published. A reaper that begins to hand payloads
//! over looks at that time, and calls the watcher if it comes too late. So a reaper that never
//! hands over is not watched, and while reapers are quick the watcher wakes up now and then: at
//! most once per time that a task may take, and not at all while no timer fires.
//!
//! If the engine has one group and the system has alarms, nobody is called while the engine is
//! idle. The leader sets the watcher's alarm before a turn, if the watcher would look too late, and
//! takes it back before a sleep that lasts longer: two system calls for each turn of an idle
//! engine. While reapers are busy, the alarm goes off and the watcher looks; then it looks again
//! after the next of their wake-ups, so that they need neither set the alarm nor call it. If
//! nothing was handed over since it looked before, it sleeps until the alarm or a call. Whether it
//! is called is a hint: a hand-over trusts only the time that the watcher has published.
//!
//! *Owner*: one thread at a time is the watcher; any thread calls it, without a lock. The alarm is
//! the leader's: it sets it, and takes it back, while it keeps the lead and has not lent it. In a
//! turn for which it has lent the lead it may rely on the alarm, and nobody else may. (A thread
//! that takes the lead has taken over what the leader had in hand.)
//!
//! *Orderings*: TAKEOVER, a store-load handshake with a fence on both sides. Reaper: open the
//! hand-over of what it has in hand, fence, read the time. Watcher: publish the time, fence, look
//! at the hand-overs. Whichever fence comes first, the other side sees: the watcher finds the open
//! hand-over before it sleeps, or the reaper finds the time. In the same way a new watcher finds
//! the hand-over of a reaper that has called the one before.
//!
//! With the alarm it is the same. The leader marks the alarm, then sets it. A watcher that wakes
//! up, for whatever reason, takes the mark off, fences, looks at the lines. A leader that has
//! opened its hand-over and fenced relies on the alarm if the mark is there: the thread that takes
//! it off looks after that. If the mark is gone, the alarm may have gone off, so it calls. A mark
//! that was taken off while the alarm was being set costs a call, and a wake-up for nothing.
//!
//! *Tested by*: the unit tests below, `loom-tests/tests/takeover.rs`,
//! `tests/races/engine/stuck.rs`.

use std::time::Duration;

use crate::doorbell::{Alarm, Parker};
use crate::sync::{AtomicBool, AtomicU64, Ordering, fence};
use crate::time::saturating_ns;

/// Until the watcher is called.
pub const NEVER_NS: u64 = u64::MAX;

/// Who watches, and when that thread looks next. Times are those of the engine's clock.
pub struct Watch {
    /// How long a task may take.
    after_ns: u64,
    /// When the watcher looks next.
    at_ns: AtomicU64,
    /// A hand-over has begun since the watcher asked last.
    is_wanted: AtomicBool,
    /// The mark: when the alarm goes off. Zero: it is not set, or the watcher looks after that.
    alarm_ns: AtomicU64,
    /// The watcher sleeps here, unless there is an alarm.
    parker: Parker,
    /// The watcher sleeps by this, if there is one.
    alarm: Option<Box<dyn Alarm>>,
}

// === impl Watch ===

impl Watch {
    /// A time that is no different from never, and can be added to the present.
    pub const LONGEST: Duration = Duration::from_nanos(NEVER_NS / 4);

    /// A watch over tasks that may take as long as `after`, which is [`LONGEST`](Watch::LONGEST) at
    /// most, by a thread that is about to begin.
    pub fn new(after: Duration) -> Watch {
        debug_assert!(after <= Watch::LONGEST, "it is added to the present");
        Watch {
            after_ns: saturating_ns(after),
            at_ns: AtomicU64::new(0),
            is_wanted: AtomicBool::new(false),
            alarm_ns: AtomicU64::new(0),
            parker: Parker::new(),
            alarm: None,
        }
    }

    /// The same, with an alarm for the leader of the engine's only group.
    pub fn with_alarm(self, alarm: Option<Box<dyn Alarm>>) -> Watch {
        Watch { alarm, ..self }
    }

    /// Closes the files of the alarm, which nobody needs any more.
    pub fn close(&self) {
        self.alarm.iter().for_each(|alarm| alarm.close());
    }

    /// When somebody has to look at the latest at a hand-over that begins at `now_ns`.
    fn latest_ns(&self, now_ns: u64) -> u64 {
        now_ns + self.after_ns + self.after_ns / 2
    }

    /// Makes sure that the watcher looks soon if a hand-over begins in a turn at `now_ns`. For the
    /// leader, before it lends the lead.
    #[inline]
    pub fn set_alarm(&self, now_ns: u64) {
        let Some(alarm) = &self.alarm else { return };
        // ORDER(TAKEOVER): Relaxed, all - `begun` decides.
        let looks_ns = self.at_ns.load(Ordering::Relaxed);
        let is_set = self.alarm_ns.load(Ordering::Relaxed) != 0;
        let latest_ns = self.latest_ns(now_ns);
        if looks_ns > latest_ns && !is_set {
            self.alarm_ns.store(latest_ns, Ordering::Relaxed);
            alarm.set(Some(latest_ns));
        }
    }

    /// Takes the alarm back if it would go off before the leader wakes up at `wakes_ns`. For the
    /// leader, which has the lead, and hands nothing over until it wakes up.
    #[inline]
    pub fn take_alarm_back(&self, wakes_ns: u64) {
        let Some(alarm) = &self.alarm else { return };
        // ORDER(TAKEOVER): Relaxed, both - the leader's own mark, or the watcher has taken it off.
        let alarm_ns = self.alarm_ns.load(Ordering::Relaxed);
        if alarm_ns != 0 && alarm_ns < wakes_ns {
            self.alarm_ns.store(0, Ordering::Relaxed);
            alarm.set(None);
        }
    }

    /// A reaper has begun to hand over at `now_ns`: makes sure that the watcher looks soon.
    /// `leads`: the thread has lent the lead.
    #[inline]
    pub fn begun(&self, now_ns: u64, leads: bool) {
        // ORDER: Relaxed, both - a hint, as the header says.
        if !self.is_wanted.load(Ordering::Relaxed) {
            self.is_wanted.store(true, Ordering::Relaxed);
        }
        // ORDER(TAKEOVER): SeqCst fence - pairs with the one in `publish`; see the header.
        fence(Ordering::SeqCst);
        // ORDER(TAKEOVER): Relaxed, both - ordered by the fence.
        if self.at_ns.load(Ordering::Relaxed) > self.latest_ns(now_ns)
            && !(leads && self.alarm_ns.load(Ordering::Relaxed) != 0)
        {
            self.call();
        }
    }

    /// Whether a hand-over has begun since this was asked last. For the watcher.
    pub fn was_wanted(&self) -> bool {
        // ORDER: Relaxed - a hint, as the header says.
        self.is_wanted.swap(false, Ordering::Relaxed)
    }

    /// Ends the watcher's sleep, or else the next one, whichever thread watches then. That thread
    /// sees what came before the call.
    #[cold]
    pub fn call(&self) {
        match &self.alarm {
            Some(alarm) => alarm.ring(),
            None => self.parker.ring(),
        }
    }

    /// The watcher sleeps until called, until the alarm goes off or until `timeout` has passed. It
    /// may also return for no reason.
    pub fn sleep(&self, timeout: Option<Duration>) {
        match &self.alarm {
            Some(alarm) => alarm.sleep(timeout),
            None => self.parker.sleep(timeout),
        }
    }

    /// The calling thread watches no longer; another one is about to begin, and looks before it
    /// sleeps. No hand-over calls until that one has published.
    pub fn end(&self) {
        self.publish(0);
    }

    /// The watcher publishes when it looks next. It looks once more *after* this, and only then
    /// sleeps.
    pub fn publish(&self, looks_at_ns: u64) {
        // ORDER(TAKEOVER): Relaxed, SeqCst fence - pairs with the one in `begun`.
        self.alarm_ns.store(0, Ordering::Relaxed);
        self.at_ns.store(looks_at_ns, Ordering::Relaxed);
        fence(Ordering::SeqCst);
    }
}

debug! { impl[] Watch[] { after_ns = |this| this.after_ns } }

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;
    use crate::sync::{Arc, AtomicUsize};

    /// Notes what is done to it.
    #[derive(Default)]
    struct Noted {
        set_to: AtomicU64,
        sets: AtomicUsize,
        rings: AtomicUsize,
    }

    impl Alarm for Arc<Noted> {
        fn set(&self, at_ns: Option<u64>) {
            self.set_to.store(at_ns.unwrap_or(0), Ordering::Relaxed);
            self.sets.fetch_add(1, Ordering::Relaxed);
        }

        fn ring(&self) {
            self.rings.fetch_add(1, Ordering::Relaxed);
        }

        fn sleep(&self, _: Option<Duration>) {}
    }

    impl Noted {
        fn is(&self, set_to: u64, sets: usize, rings: usize) -> bool {
            let [counted, rung] = [&self.sets, &self.rings].map(|it| it.load(Ordering::Relaxed));
            (self.set_to.load(Ordering::Relaxed), counted, rung) == (set_to, sets, rings)
        }
    }

    #[test]
    fn on_an_idle_engine_the_leader_sets_the_alarm_and_takes_it_back_and_calls_nobody() {
        let alarm = Arc::new(Noted::default());
        let watch = Watch::new(Duration::from_nanos(100));
        let watch = watch.with_alarm(Some(Box::new(alarm.clone())));
        watch.set_alarm(1000);
        assert!(alarm.is(0, 0, 0), "a watcher is about to begin, and looks first");
        watch.publish(NEVER_NS);
        watch.set_alarm(1000);
        watch.begun(1000, true);
        assert!(alarm.is(1150, 1, 0));
        // It stays if the leader comes back before it goes off.
        watch.take_alarm_back(1150);
        watch.set_alarm(1100);
        watch.begun(1100, true);
        assert!(alarm.is(1150, 1, 0));
        watch.take_alarm_back(1151);
        assert!(alarm.is(0, 2, 0));
        watch.take_alarm_back(NEVER_NS);
        assert!(alarm.is(0, 2, 0), "once is enough");
        // Another thread does not rely on it, nor does the leader after a look.
        watch.set_alarm(2000);
        watch.begun(2000, false);
        assert!(alarm.is(2150, 3, 1));
        watch.publish(NEVER_NS);
        watch.begun(2000, true);
        assert!(alarm.is(2150, 3, 2));
        // While the watcher looks soon by itself, nobody does anything.
        watch.publish(3000);
        watch.set_alarm(2900);
        watch.begun(2900, true);
        assert!(alarm.is(2150, 3, 2));
    }
}
