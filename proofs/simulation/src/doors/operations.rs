//! Operations that wait for an event or a deadline, and the hashed wheel.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};

use tickless::ScheduleReason;
use tickless_netty::Timeout;
use tickless_purgatory::{Arrival, Operation, WatchReason};

use super::case::Deed;
use super::stage::{Stage, picked};
use super::world::{Token, What, lock};
use models::engine_model::case::At;

/// An operation of the purgatory.
pub(crate) struct Op {
    token: Token,
    keys: [u8; 2],
    may_complete: AtomicBool,
    /// Whether a call decides, and not its timer.
    is_decided: AtomicBool,
    completions: AtomicUsize,
    expiries: AtomicUsize,
}

// === impl Op ===

impl Operation for Op {
    fn try_complete(&self) -> bool {
        self.may_complete.load(Ordering::Relaxed)
    }

    fn on_complete(&self) {
        let world = self.token.world();
        let before = self.completions.fetch_add(1, Ordering::Relaxed);
        world.expect(before == 0, || format!("{} completes twice", self.token.number));
        if !self.is_decided.load(Ordering::Relaxed) {
            world.fire(self.token.number);
        }
    }

    fn on_expire(&self) {
        let world = self.token.world();
        let before = self.expiries.fetch_add(1, Ordering::Relaxed);
        let is_right = before == 0 && self.completions.load(Ordering::Relaxed) == 1;
        world.expect(is_right, || format!("{} expires twice", self.token.number));
        let is_decided = self.is_decided.load(Ordering::Relaxed);
        world.expect(!is_decided, || format!("{} expires, and is complete", self.token.number));
    }
}

impl Stage {
    pub(super) fn watch(&self, keys: [u8; 2], at: At, allowed: bool) {
        let (world, number) = (&self.world, self.world.add(What::Operation));
        let (at_ns, delay) = world.after(at);
        let op = Arc::new(Op {
            token: world.token(number),
            keys,
            may_complete: allowed.into(),
            is_decided: true.into(),
            completions: AtomicUsize::new(0),
            expiries: AtomicUsize::new(0),
        });
        match self.purgatory.try_complete_else_watch(op.clone(), keys, delay) {
            Ok(Arrival::Completed) => assert!(allowed, "{number} may not complete"),
            Ok(Arrival::Delayed(ticket)) => {
                assert!(!allowed, "{number} may complete");
                self.expect_accepted();
                world.file(number, at_ns);
                op.is_decided.store(false, Ordering::Relaxed);
                lock(&self.operations).push((op, ticket));
            }
            Err(error) => match error.reason() {
                WatchReason::Full => self.expect_reason(ScheduleReason::Full),
                _ => self.expect_reason(ScheduleReason::Stopped),
            },
        }
    }

    pub(super) fn allow(&self, pick: u16) {
        let operations = lock(&self.operations);
        if let Some(index) = picked(pick, operations.len()) {
            operations[index].0.may_complete.store(true, Ordering::Relaxed);
        }
    }

    /// Something has happened to a key: what may complete there does.
    pub(super) fn check(&self, key: u8) {
        let operations: Vec<Arc<Op>> =
            lock(&self.operations).iter().map(|(op, _)| op.clone()).collect();
        let completes = |op: &&Arc<Op>| {
            let may = op.may_complete.load(Ordering::Relaxed) && op.keys.contains(&key);
            may && self.world.is_pending(op.token.number)
        };
        let complete: Vec<_> = operations.iter().filter(completes).collect();
        complete.iter().for_each(|op| op.is_decided.store(true, Ordering::Relaxed));
        assert_eq!(self.purgatory.check_and_complete(&key), complete.len(), "under {key}");
        complete.iter().for_each(|op| self.world.ended(op.token.number, true));
    }

    pub(super) fn decide(&self, pick: u16, cancels: bool) {
        let mut operations = lock(&self.operations);
        let Some(index) = picked(pick, operations.len()) else { return };
        let (op, ticket) = operations.swap_remove(index);
        if self.world.is_pending(op.token.number) {
            op.is_decided.store(true, Ordering::Relaxed);
        }
        let done = if cancels { ticket.cancel() } else { ticket.force_complete() };
        if !self.is_stopped() {
            self.world.ended(op.token.number, done);
        }
    }

    pub(super) fn timeout(self: &Arc<Stage>, at: At, deed: Deed) {
        let (world, number) = (&self.world, self.world.add(What::Timeout));
        let (at_ns, delay) = world.after(at);
        let (stage, token) = (Arc::downgrade(self), world.token(number));
        let task = move |_: &Timeout| run(&stage, &token, deed);
        match self.wheel.new_timeout(task, delay) {
            Ok(timeout) => {
                self.expect_accepted();
                world.file(number, at_ns);
                lock(&self.timeouts).push((number, timeout));
            }
            // The wheel has no limit.
            Err(error) => {
                assert_eq!(error.reason(), ScheduleReason::Stopped);
                self.expect_reason(error.reason());
            }
        }
    }

    pub(super) fn timeout_cancel(&self, pick: u16) {
        let mut timeouts = lock(&self.timeouts);
        let Some(index) = picked(pick, timeouts.len()) else { return };
        let (number, timeout) = timeouts.swap_remove(index);
        self.world.ended(number, timeout.cancel());
        assert_ne!(timeout.is_cancelled(), timeout.is_expired(), "it is over");
    }
}

fn run(stage: &Weak<Stage>, token: &Token, deed: Deed) {
    let stage = stage.upgrade().expect("tasks run while there is a stage");
    stage.world.fire(token.number);
    stage.act(deed);
}
