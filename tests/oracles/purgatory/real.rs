//! The purgatory itself, on an engine that is driven by hand, as one that lives through histories.

use std::hash::{BuildHasherDefault, Hasher};
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use tickless::{Engine, ManualClock};
use tickless_purgatory::{Arrival, Decision, Delayed, Purgatory, WatchReason};

use super::case::{Act, Arrived, Line, Spec, World, due, take_deed};
use support::operation::{Call, Op};
use support::planned::panic_as_planned;

const TICK: Duration = Duration::from_millis(1);

/// A purgatory and what happened in it. Clones share it.
#[derive(Clone)]
pub(crate) struct Real(Arc<Shared>);

pub(crate) struct Shared {
    pub(crate) purgatory: Purgatory<u8, Op, BuildHasherDefault<Close>>,
    pub(crate) engine: Engine,
    clock: ManualClock,
    ops: Mutex<Vec<Known>>,
    log: Mutex<Vec<Line>>,
}

/// Puts all keys into one part of the purgatory, two of them under each hash: else few would
/// ever meet.
#[derive(Default)]
pub(crate) struct Close(u64);

/// An operation, and its ticket if it had to wait.
type Known = (Arc<Op>, Option<Delayed<u8, Op>>);

// === impl Close ===

impl Hasher for Close {
    fn write(&mut self, bytes: &[u8]) {
        self.0 = bytes.iter().map(|&byte| u64::from(byte)).sum();
    }

    fn finish(&self) -> u64 {
        self.0 / 2
    }
}

// === impl Real ===

impl Real {
    pub(crate) fn new() -> Real {
        let clock = ManualClock::new();
        let engine = Engine::builder().tick(TICK).shards(1).manual_clock(&clock).build().unwrap();
        let purgatory = Purgatory::with_hasher(&engine, BuildHasherDefault::default());
        let (ops, log) = (Mutex::default(), Mutex::default());
        Real(Arc::new(Shared { purgatory, engine, clock, ops, log }))
    }

    pub(crate) fn shared(&self) -> &Shared {
        &self.0
    }

    /// Takes what happened since it was asked last.
    pub(crate) fn take_log(&self) -> Vec<Line> {
        std::mem::take(&mut *self.0.log.lock().unwrap())
    }

    /// How each operation that had to wait has ended.
    pub(crate) fn decisions(&self) -> Vec<Option<Option<Decision>>> {
        let ops = self.0.ops.lock().unwrap();
        ops.iter().map(|(_, ticket)| ticket.as_ref().map(Delayed::decision)).collect()
    }

    /// How many own each operation: this, its ticket or the purgatory, and nobody else.
    pub(crate) fn owners(&self) -> Vec<usize> {
        self.0.ops.lock().unwrap().iter().map(|(op, _)| Arc::strong_count(op)).collect()
    }

    pub(crate) fn operations(&self) -> Vec<Weak<Op>> {
        self.0.ops.lock().unwrap().iter().map(|(op, _)| Arc::downgrade(op)).collect()
    }

    pub(crate) fn advance(&self, to: u64) {
        let by = to - self.tick();
        // A stopped engine moves nothing.
        if self.0.engine.advance(TICK * by as u32).is_err() {
            self.0.clock.advance(TICK * by as u32);
        }
    }

    fn tick(&self) -> u64 {
        (self.0.clock.elapsed().as_nanos() / TICK.as_nanos()) as u64
    }

    /// An operation that tells of its calls, and does in them what it is to do.
    fn operation(&self, number: usize, deeds: Vec<(Call, Act)>) -> Arc<Op> {
        let (shared, deeds) = (Arc::downgrade(&self.0), Mutex::new(deeds));
        Op::with(move |_, call| {
            let mut real = Real(shared.upgrade().expect("nothing is called after the end"));
            let (tick, watched) = (real.tick(), real.0.purgatory.watched());
            real.tell(Line::Called { number, call, tick, watched });
            let act = take_deed(&mut deeds.lock().unwrap(), call);
            if let Some(act) = act {
                real.act(&act);
            }
        })
    }

    fn pick<R>(&self, pick: u16, f: impl FnOnce(&Known) -> R) -> Option<R> {
        let ops = self.0.ops.lock().unwrap();
        let number = usize::from(pick).checked_rem(ops.len())?;
        Some(f(&ops[number]))
    }

    fn ticket(&self, pick: u16) -> Option<Delayed<u8, Op>> {
        self.pick(pick, |(_, ticket)| ticket.clone()).flatten()
    }

    fn numbers(&self, operations: &[Arc<Op>]) -> Vec<usize> {
        let ops = self.0.ops.lock().unwrap();
        let number = |op| ops.iter().position(|(known, _)| Arc::ptr_eq(known, op));
        operations.iter().map(|op| number(op).expect("one of ours")).collect()
    }
}

impl World for Real {
    fn register(&mut self, spec: &Spec, deeds: Vec<(Call, Act)>) -> Arrived {
        let number = self.0.ops.lock().unwrap().len();
        let op = self.operation(number, deeds);
        self.0.ops.lock().unwrap().push((op.clone(), None));
        if spec.may_complete {
            op.allow();
        }
        let now = self.tick();
        let due = due(now, spec.timeout, number);
        let timeout = due.map_or(Duration::MAX, |due| TICK * (due - now) as u32);
        let keys = spec.keys.iter().copied();
        match self.0.purgatory.try_complete_else_watch(op, keys, timeout) {
            Ok(Arrival::Completed) => Arrived::Completed,
            Ok(Arrival::Delayed(ticket)) => {
                self.0.ops.lock().unwrap()[number].1 = Some(ticket);
                Arrived::Delayed
            }
            Err(error) if error.reason() == WatchReason::NoKeys => Arrived::NoKeys,
            Err(error) => {
                assert_eq!(error.reason(), WatchReason::Stopped);
                Arrived::Stopped
            }
        }
    }

    fn allow(&mut self, pick: u16) {
        self.pick(pick, |(op, _)| op.allow());
    }

    fn check(&mut self, key: u8) -> usize {
        self.0.purgatory.check_and_complete(&key)
    }

    fn force(&mut self, pick: u16) -> bool {
        self.ticket(pick).is_some_and(|ticket| ticket.force_complete())
    }

    fn cancel(&mut self, pick: u16) -> bool {
        self.ticket(pick).is_some_and(|ticket| ticket.cancel())
    }

    fn cancel_for_key(&mut self, key: u8) -> Vec<usize> {
        self.numbers(&self.0.purgatory.cancel_for_key(&key))
    }

    fn stop(&mut self) -> Vec<usize> {
        let mut numbers = self.numbers(&self.0.purgatory.stop());
        numbers.sort_unstable();
        numbers
    }

    fn panic(&mut self) {
        panic_as_planned();
    }

    fn tell(&mut self, line: Line) {
        self.0.log.lock().unwrap().push(line);
    }
}
