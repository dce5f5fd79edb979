//! A shard and a sorted map side by side, with clocks that do not agree: the body of the fuzz
//! target `shard_clocks`.
//!
//! An engine's threads read one clock, but not at one moment: a thread that was interrupted files
//! by a reading that is behind the shard's clock, and one may be ahead of the shard, whose clock
//! stands still between turns. Here each call brings a reading of its own.

use std::collections::BTreeMap;
use std::ptr::NonNull;
use std::slice;
use std::sync::{Mutex, PoisonError};

use arbitrary::Arbitrary;
use tickless::local::Geometry;
use tickless::{Batch, Tick};
use tickless_core::bench::Around;
use tickless_core::dispatch::InHand;
use tickless_core::doorbell::{Bell, Doorbell};
use tickless_core::entry::Entry;
use tickless_core::memory::Shared;
use tickless_core::producer::{self, Moved, Producer};
use tickless_core::shard::Shard;
use tickless_sync::AtomicBool;

use crate::when::When;

/// The geometries that are tried: slots and reach.
pub const SHAPES: [(u32, u32); 6] = [(2, 2), (3, 3), (3, 2), (20, 7), (64, 32), (512, 512)];

/// A history of one shard.
#[derive(Arbitrary, Clone, Debug)]
pub struct Case {
    /// Which of [`SHAPES`], going round.
    pub shape: u8,
    pub start: When,
    pub ops: Vec<Op>,
}

/// One step, by one of two producers. `skew` is how far its clock is from the shard's, in ticks.
#[derive(Arbitrary, Clone, Copy, Debug)]
pub enum Op {
    Schedule {
        producer: bool,
        deadline: When,
        skew: i8,
        owned: bool,
    },
    Cancel {
        producer: bool,
        pick: u16,
    },
    Reset {
        producer: bool,
        pick: u16,
        deadline: When,
        skew: i8,
    },
    Detach {
        producer: bool,
        pick: u16,
    },
    /// A turn at a time that may be before the last one's.
    Turn {
        now: When,
        at_most: Option<u8>,
    },
}

/// Runs a history, then turns to the end of time.
pub fn run(case: &Case) {
    run_in_shares(case, None);
}

/// The same, where each bucket that a turn does not finish is a crowd. A bounded turn is bounded as
/// those of an engine's threads are: it goes through no more entries than it may fire.
pub fn run_in_crowds(case: &Case) {
    run_in_shares(case, Some(0));
}

fn run_in_shares(case: &Case, share: Option<usize>) {
    let mut pair = Pair::new(case, share);
    for op in &case.ops {
        pair.step(*op);
        pair.check();
    }
    pair.turn(Tick::LAST, None);
    pair.end();
}

struct Pair {
    // The shard goes before the shared: what it gives up in its end goes there.
    shard: Shard<usize>,
    producers: [Producer<usize>; 2],
    shared: Shared<usize>,
    around: Around,
    handles: Vec<(usize, NonNull<Entry<usize>>)>,
    has_crowds: bool,
    /// What is pending: the tick of the deadline, and the tick by which it has to fire.
    pending: BTreeMap<usize, (Tick, Tick)>,
    scheduled: usize,
    /// What fires is not before this.
    reached: Tick,
    /// The latest reading of any clock: there is one engine clock, and nobody is ahead of it.
    latest_now: Tick,
}

// === impl Pair ===

impl Pair {
    fn new(case: &Case, share: Option<usize>) -> Pair {
        let (slots, reach) = SHAPES[usize::from(case.shape) % SHAPES.len()];
        let geometry = Geometry::new(slots, reach).expect("the shapes are valid");
        let now = case.start.resolve(&geometry, Tick::ZERO).min(Tick::LAST);
        // SAFETY: what is built on it keeps to it, and is closed before it goes.
        let shared = unsafe { Shared::new(1, 1, None) };
        let shared = match share {
            Some(share) => shared.with_share(share),
            None => shared,
        };
        let shard = Shard::new(0, geometry, Doorbell::new(Bell::None), now, &shared);
        Pair {
            shard,
            producers: [0, 1].map(|home| Producer::new(&shared, home)),
            shared,
            around: Around::default(),
            handles: Vec::new(),
            has_crowds: share.is_some(),
            pending: BTreeMap::new(),
            scheduled: 0,
            reached: Tick::ZERO,
            latest_now: now,
        }
    }

    fn step(&mut self, op: Op) {
        match op {
            Op::Schedule { producer, deadline, skew, owned } => {
                self.schedule(producer, self.at(deadline), self.skewed(skew), owned);
            }
            Op::Cancel { producer, pick } => self.cancel(producer, pick),
            Op::Reset { producer, pick, deadline, skew } => {
                self.reset(producer, pick, self.at(deadline), self.skewed(skew));
            }
            Op::Detach { producer, pick } => {
                let Some((_, entry)) = self.pick(pick) else { return };
                // SAFETY: the handle is given up here.
                unsafe { producer::let_go(entry, self.lend(producer.into())) };
            }
            Op::Turn { now, at_most } => self.turn(self.at(now), at_most),
        }
    }

    fn at(&self, when: When) -> Tick {
        when.resolve(self.shard.wheel().geometry(), self.shard.clock())
    }

    /// What a clock shows that is `skew` ticks ahead of the shard's, or behind it.
    fn skewed(&self, skew: i8) -> Tick {
        let shown = self.shard.clock().get().saturating_add_signed(skew.into());
        Tick::new(shown).min(Tick::LAST)
    }

    fn pick(&mut self, pick: u16) -> Option<(usize, NonNull<Entry<usize>>)> {
        let at = usize::from(pick).checked_rem(self.handles.len())?;
        Some(self.handles.swap_remove(at))
    }

    fn lend(&mut self, producer: usize) -> (&mut Producer<usize>, &Shared<usize>, &[Shard<usize>]) {
        (&mut self.producers[producer], &self.shared, slice::from_ref(&self.shard))
    }

    fn schedule(&mut self, producer: bool, deadline: Tick, now: Tick, owned: bool) {
        let (producer, number) = (&mut self.producers[usize::from(producer)], self.scheduled);
        let (shared, shard) = (&self.shared, &self.shard);
        // SAFETY: nothing is kept.
        let entry = unsafe {
            producer.schedule::<false, false>(
                shared,
                shard,
                deadline,
                || now,
                || now,
                number,
                owned,
                |_| (),
            )
        };
        let (entry, deferred) = entry.expect("the shard is open");
        assert!(deferred.is_nothing(), "there is no hook");
        self.scheduled += 1;
        self.file(number, deadline, now);
        if owned {
            self.handles.push((number, entry));
        }
    }

    /// What is past by the later of two clocks is due by that one.
    fn file(&mut self, number: usize, deadline: Tick, now: Tick) {
        let latest = deadline.max(now).max(self.shard.clock());
        self.latest_now = self.latest_now.max(now);
        self.pending.insert(number, (deadline, latest));
    }

    fn cancel(&mut self, producer: bool, pick: u16) {
        let Some((number, entry)) = self.pick(pick) else { return };
        let producer = self.lend(producer.into());
        // SAFETY: the handle is given up here.
        let payload = unsafe { producer::cancel_and_take::<_, _, false>(entry, producer) };
        let was_pending = self.pending.remove(&number).is_some();
        assert_eq!(payload, was_pending.then_some(number));
    }

    fn reset(&mut self, producer: bool, pick: u16, deadline: Tick, now: Tick) {
        let Some((number, mut entry)) = self.pick(pick) else { return };
        let producer = &mut self.producers[usize::from(producer)];
        // SAFETY: the handle is ours; if the timer moved to another entry, so does the handle.
        let moved = unsafe {
            let (before, keep) = (entry, |other| entry = other);
            producer.reset(&self.shared, &self.shard, before, deadline, || now, || now, keep)
        };
        match moved {
            Moved::Here | Moved::Elsewhere(_) => self.moved(number, deadline, now),
            Moved::Gone => assert!(!self.pending.contains_key(&number), "{number} is not gone"),
            Moved::Stranded => panic!("the shard is open"),
        }
        self.handles.push((number, entry));
    }

    fn moved(&mut self, number: usize, deadline: Tick, now: Tick) {
        assert!(self.pending.contains_key(&number), "moved {number}, which is not pending");
        self.file(number, deadline, now);
    }

    fn turn(&mut self, now: Tick, at_most: Option<u8>) {
        let (now, log) = (now.min(Tick::LAST), Mutex::new(Vec::new()));
        let handler = |batch: Batch<'_, usize>| {
            log.lock().unwrap_or_else(PoisonError::into_inner).extend(batch);
        };
        let stopping = AtomicBool::new(false);
        let context = self.around.turn_context(&self.shard, &self.shared, &handler, &stopping);
        let before = self.shard.clock();
        let most = at_most.map_or(usize::MAX, usize::from);
        let mut in_hand = InHand::default();
        let looks = if self.has_crowds { most } else { usize::MAX };
        let report = context.turn(context.lock(), &mut in_hand, now, most, looks);
        let report = report.expect("the shard is open");
        let fired = log.into_inner().unwrap_or_else(PoisonError::into_inner);
        assert_eq!(report.fired, fired.len());
        assert!(fired.len() <= most);
        let now = self.shard.clock();
        assert!(now >= before, "a shard's clock goes back");
        for number in fired {
            let (deadline, latest) = self.pending.remove(&number).expect("it was pending");
            assert!(deadline <= now, "{number} is early");
            self.reached = self.reached.max(deadline);
            let is_in_order = self.has_crowds || self.reached <= latest;
            assert!(is_in_order, "{number} comes too late in the order");
        }
        let first = self.pending.values().map(|&(_, latest)| latest).min();
        let is_due = first.is_some_and(|latest| latest <= now);
        let is_cut = report.fired == most || self.has_crowds && at_most.is_some();
        assert!(!is_due || (report.busy && is_cut), "left behind at {now:?}");
        let is_covered = first.is_none_or(|latest| report.next <= latest);
        assert!(is_covered || report.busy, "asleep until {:?}, due at {first:?}", report.next);
    }

    fn check(&self) {
        let mut owner = self.shard.owner().lock().expect("a turn does not panic");
        let counted = self.shard.check(&mut owner, &self.shared, self.latest_now);
        let counted = counted.unwrap_or_else(|violation| panic!("{violation}"));
        assert_eq!(counted.pending, self.pending.len() as u64);
        assert_eq!(self.shared.all_counters.pending(), counted.pending);
    }

    fn end(mut self) {
        assert!(self.pending.values().all(|&(deadline, _)| deadline == Tick::NEVER));
        let mut owner = self.shard.owner().lock().expect("a turn does not panic");
        let mut returned = self.shard.close(&mut owner, &self.shared);
        drop(owner);
        returned.sort_unstable();
        assert!(returned.iter().eq(self.pending.keys()), "{returned:?}");
        for (_, entry) in std::mem::take(&mut self.handles) {
            // SAFETY: the handle is given up here.
            unsafe { producer::let_go(entry, self.lend(0)) };
        }
        for producer in &mut self.producers {
            let _ = producer.clear(&self.shared);
            producer.hand_back(&self.shared);
        }
    }
}
