//! A turn: everything that a reaper does, without the thread.
//!
//! ```text
//! begin_turn(now)   the shard's clock moves on, before any bucket is opened
//! read_notices      buckets that producers armed go on the agenda
//! is_due            usually nothing is: then on to run_background
//! let_pass          a crowded bucket that had its share is parked if something else is due
//! open_due → flush  each due bucket, in order of expiration: fire, re-file, release the dead
//! hand_over         the fired payloads, in batches; first what a takeover left in hand; after each
//!                   full batch, the counts are published, and a part of a sweep follows
//! run_background    a chunk of an eager cascade or a sweep; if buckets are due, of the sweep only
//! next_wake         when to come back
//! collect           if there is no background work: free some blocks that waited for readers
//! ```
//!
//! *Owner*: the thread that holds the role of the shard (`role`). It holds the owner lock during
//! the steps, and releases it while a batch is handed over; others may then close the shard, or
//! take the role over (TAKEOVER). A turn that has lost the role touches nothing of the shard any
//! more.
//!
//! *Orderings*: BUCKET-ARM, through the shard's steps; DOORBELL, in `look_ahead`.

use crate::dispatch::InHand;
use crate::entry;
use crate::memory::{Count, Counters};
use crate::shard::{Owner, batch};
use crate::sync::MutexGuard;
use crate::time::Tick;

use super::{TurnContext, handover};

/// What a turn did, and when the next one is needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Report {
    /// Payloads handed over.
    pub fired: usize,
    /// There is more to do at once.
    pub busy: bool,
    /// There is nothing else to do at once, but a further turn may free memory.
    pub collects: bool,
    /// When the shard needs its next turn; [`Tick::NEVER`]: when the doorbell rings.
    pub next: Tick,
    /// Another thread has taken the shard over, and runs its turns.
    pub taken_over: bool,
}

/// Why a turn ends before its time, and how many payloads it has fired.
enum CutShort {
    ByStop(usize),
    ByTakeover(usize),
}

// === impl TurnContext ===

impl<'a, T> TurnContext<'a, T> {
    /// Runs a turn at `now` that fires at most `max_fired` timers. What a takeover left in hand
    /// comes first. Afterwards nothing is in hand unless a stop intervenes: then it is left for the
    /// stopper, and the report counts only what fired. Returns `None` if the shard is closed, or if
    /// a stop intervened before anything fired.
    ///
    /// A timer that the turn's own tasks schedule for the present fires in a later turn, so that a
    /// turn ends. Exception: it fires in this turn if it lands in a bucket that is due and that the
    /// turn has yet to open. A turn opens each such bucket once.
    ///
    /// The caller holds the owner lock. The turn visits no more than `budget` entries, also of
    /// those that do not fire.
    #[inline]
    pub fn turn(
        &self,
        mut owner: MutexGuard<'a, Owner<T>>,
        in_hand: &mut InHand<T>,
        now: Tick,
        max_fired: usize,
        budget: usize,
    ) -> Option<Report> {
        owner.set_budget(budget);
        if owner.is_closed() {
            // A stop came between a takeover and this turn.
            owner.count(Count::Returned, in_hand.payloads().len() as u64);
            return None;
        }
        let now = self.shard.begin_turn(now);
        self.shard.read_notices(&mut owner, self.shared);
        debug_assert!(owner.batch().is_empty(), "each turn hands over all that it collects");
        let is_idle = in_hand.payloads().is_empty() && !self.shard.is_due(&owner, now);
        let done =
            if is_idle { Ok((owner, 0)) } else { self.fire_due(owner, in_hand, now, max_fired) };
        let (fired, taken_over) = match done {
            Ok((owner, fired)) => return Some(self.report(owner, now, fired)),
            // The next turn finds the shard closed.
            Err(CutShort::ByStop(fired)) => (fired, false),
            Err(CutShort::ByTakeover(fired)) => (fired, true),
        };
        let report = Report { fired, busy: true, collects: false, next: now, taken_over };
        (fired > 0 || taken_over).then_some(report)
    }

    /// To be called by a thread that has taken the role over, before its first turn. Gives the
    /// shard new counters; the thread before keeps the old ones for its last batch.
    pub fn succeed(&self) {
        let mut owner = self.lock();
        owner.change_counters(self.shared);
        owner.count(Count::TakenOver, 1);
    }

    /// Opens the due buckets and hands their payloads over. Returns how many payloads have fired.
    #[inline(never)]
    fn fire_due(
        &self,
        mut owner: MutexGuard<'a, Owner<T>>,
        in_hand: &mut InHand<T>,
        now: Tick,
        max_fired: usize,
    ) -> Result<(MutexGuard<'a, Owner<T>>, usize), CutShort> {
        let mut fired = 0;
        if !in_hand.payloads().is_empty() {
            (owner, fired) = self.hand_over_rest(owner, in_hand, max_fired)?;
            self.shard.read_notices(&mut owner, self.shared);
        }
        if self.shard.is_open(&owner) {
            self.shard.let_pass(&mut owner, now);
        }
        while fired + owner.batch().len() < max_fired {
            if !self.shard.is_open(&owner) && !self.shard.open_due(&mut owner, now) {
                break;
            }
            self.shard.flush(&mut owner, self.shared, batch::<T>().min(max_fired - fired));
            if owner.has_spent_budget() {
                break;
            }
            if owner.batch().len() >= const { batch::<T>() } {
                (owner, fired) = self.hand_over(owner, in_hand, fired)?;
            }
        }
        self.hand_over(owner, in_hand, fired)
    }

    /// Reads the notices, and publishes when the shard needs its next turn. The report is `busy` if
    /// a notice came meanwhile. Returns `None`, and publishes nothing, if there is something to do:
    /// the shard needs a turn.
    ///
    /// A task that serves a shard calls this after a ring: most rings announce a timer that is the
    /// earliest, but not due yet. Unlike a turn it leaves the time before in place until it
    /// publishes (DOORBELL): a producer that reads that one rings, or has posted its notice before
    /// the fence of `publish`.
    #[inline]
    pub fn look_ahead(&self, in_hand: &InHand<T>) -> Option<Report> {
        let mut owner = self.lock();
        let has_left = !in_hand.payloads().is_empty() || owner.is_closed();
        if has_left || self.shard.may_sweep(&owner, self.shared) {
            return None;
        }
        self.shard.read_notices(&mut owner, self.shared);
        if self.shard.is_due(&owner, self.shard.clock()) {
            return None;
        }
        let next = self.shard.next_wake(&owner, self.shared, owner.next_opening());
        drop(owner);
        self.shard.doorbell().publish(next);
        let busy = self.shard.has_notices();
        Some(Report { fired: 0, busy, collects: false, next, taken_over: false })
    }

    /// The owner lock.
    pub fn lock(&self) -> MutexGuard<'a, Owner<T>> {
        self.shard.owner().lock().expect("nothing panics under this lock")
    }

    /// The counters of the present owner. They remain when another thread has taken the shard over,
    /// and has other ones.
    #[inline]
    fn counters(&self, owner: &Owner<T>) -> &'a Counters {
        // SAFETY: owners claim them there, and are used with the same `Shared` (`Shared::new`).
        unsafe { self.shared.all_counters.lasting(owner.counters()) }
    }

    /// Reports what is left after a turn: more due buckets, background work, or a sleep.
    fn report(&self, mut owner: MutexGuard<'a, Owner<T>>, now: Tick, fired: usize) -> Report {
        self.shard.read_notices(&mut owner, self.shared);
        self.shard.publish_counts(&owner, self.shared);
        let first = owner.next_opening();
        self.shard.publish_first(first);
        let is_due = owner.has_open() || first <= now;
        let busy = if is_due {
            self.shard.sweep_beside_work(&mut owner, self.shared);
            true
        } else {
            self.shard.run_background(&mut owner, self.shared, now)
        };
        let next = if busy { now } else { self.shard.next_wake(&owner, self.shared, first) };
        drop(owner);
        let collects = !busy && (entry::collect() | self.shared.trim(now, &self.scale));
        Report { fired, busy, collects, next, taken_over: false }
    }

    /// Hands over the collected payloads, without the owner lock. `before` payloads of this turn
    /// have fired already. Returns how many payloads this turn has fired.
    fn hand_over(
        &self,
        mut owner: MutexGuard<'a, Owner<T>>,
        in_hand: &mut InHand<T>,
        before: usize,
    ) -> Result<(MutexGuard<'a, Owner<T>>, usize), CutShort> {
        let due = owner.batch().len();
        if due == 0 {
            return Ok((owner, before));
        }
        self.shared.discharge_all(owner.batch().iter().map(|(_, payload)| payload));
        owner.count_held();
        let own = self.own.as_ref().map_or(0, |own| own.put_first(owner.batch()));
        in_hand.fill(owner.batch(), own);
        self.shard.publish_first(owner.next_opening());
        let counters = self.counters(&owner);
        drop(owner);
        let fired = before + self.pass_on(in_hand, counters, usize::MAX, before)?;
        let mut owner = self.lock();
        if due == const { batch::<T>() } && !owner.is_closed() {
            self.shard.publish_counts(&owner, self.shared);
            self.shard.sweep_beside_work(&mut owner, self.shared);
        }
        self.end_hand_over(owner, in_hand, fired)
    }

    /// Hands over what a takeover left in hand.
    #[cold]
    fn hand_over_rest(
        &self,
        owner: MutexGuard<'a, Owner<T>>,
        in_hand: &mut InHand<T>,
        max_fired: usize,
    ) -> Result<(MutexGuard<'a, Owner<T>>, usize), CutShort> {
        let counters = self.counters(&owner);
        drop(owner);
        let fired = self.pass_on(in_hand, counters, max_fired, 0)?;
        let owner = self.lock();
        if !owner.is_closed() {
            self.shard.publish_counts(&owner, self.shared);
        }
        self.end_hand_over(owner, in_hand, fired)
    }

    /// Gives at most `at_most` of the payloads in hand to the handler. Returns how many have fired.
    fn pass_on(
        &self,
        in_hand: &mut InHand<T>,
        counters: &Counters,
        at_most: usize,
        before: usize,
    ) -> Result<usize, CutShort> {
        let fired = handover::hand_over(self, in_hand, counters, at_most);
        if in_hand.close().is_err() {
            self.shared.end_counting(counters, self.shard.index());
            return Err(CutShort::ByTakeover(before + fired));
        }
        Ok(fired)
    }

    /// The end of a hand-over that was not taken over. Payloads are left in hand if a stop
    /// intervened, or if there were more than may fire.
    fn end_hand_over(
        &self,
        owner: MutexGuard<'a, Owner<T>>,
        in_hand: &InHand<T>,
        fired: usize,
    ) -> Result<(MutexGuard<'a, Owner<T>>, usize), CutShort> {
        let left = in_hand.payloads().len();
        if self.is_stopping() && left > 0 {
            owner.count(Count::Returned, left as u64);
        }
        if owner.is_closed() || self.is_stopping() && left > 0 {
            return Err(CutShort::ByStop(fired));
        }
        Ok((owner, fired))
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use std::sync::Mutex;

    use super::*;
    use crate::bench::Bench;
    use crate::dispatch::Batch;
    use crate::doorbell::Bell;
    use crate::memory::alone;
    use crate::shard::BATCH;
    use crate::sync::AtomicBool;
    use crate::time::Geometry;

    /// Sweeps rest on the figure: a turn by hand may fire millions, and its tasks may cancel.
    #[test]
    fn while_the_tasks_of_a_turn_run_the_living_are_off_by_one_batch_at_most() {
        const TIMERS: u64 = 4 * BATCH as u64;
        let mut bench = Bench::new(alone(1), Geometry::default(), Bell::None, Tick::ZERO);
        (0..TIMERS).for_each(|timer| _ = bench.schedule([5, 0], timer, false));
        let Bench { shard, shared, around, .. } = &bench;
        assert!(shared.balance.living() >= TIMERS - 64, "the producer publishes each 64");
        let off_by = Mutex::new(Vec::new());
        let handler = |batch: Batch<'_, u64>| {
            batch.for_each(drop);
            let off = shared.balance.living().saturating_sub(shared.all_counters.pending());
            off_by.lock().unwrap().push(off);
        };
        let stopping = AtomicBool::new(false);
        let context = around.turn_context(shard, shared, &handler, &stopping);
        // What a takeover leaves: payloads that were collected, and that nobody has claimed.
        let mut in_hand = InHand::default();
        {
            let owner = &mut *context.lock();
            let now = shard.begin_turn(Tick::new(5));
            shard.read_notices(owner, shared);
            assert!(shard.open_due(owner, now) && !shard.flush(owner, shared, BATCH - 1));
            in_hand.fill(owner.batch(), 0);
        }
        let report =
            context.turn(context.lock(), &mut in_hand, Tick::new(5), usize::MAX, usize::MAX);
        assert_eq!(report.map(|report| report.fired as u64), Some(TIMERS));
        let off_by = off_by.into_inner().unwrap();
        assert!(off_by.len() >= 4 && off_by.iter().all(|off| *off <= BATCH as u64), "{off_by:?}");
    }
}
