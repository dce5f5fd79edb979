//! A purgatory that is as simple as can be: operations in a row, and who waits where in another.

use tickless_purgatory::Decision;

use super::case::{Act, Arrived, Line, Spec, World, due, take_deed};
use support::operation::Call;

/// A purgatory of one thread.
#[derive(Default)]
pub(crate) struct Naive {
    pub(crate) now: u64,
    pub(crate) ops: Vec<NaiveOp>,
    /// Keys and numbers, in the order in which they came.
    pub(crate) watches: Vec<(u8, usize)>,
    pub(crate) is_stopped: bool,
    pub(crate) is_engine_stopped: bool,
    pub(crate) counts: [u64; 3],
    pub(crate) panicked: u64,
    pub(crate) log: Vec<Line>,
    /// Whether the innermost callback has panicked.
    panics: bool,
}

/// An operation, whatever became of it.
#[derive(Debug)]
pub(crate) struct NaiveOp {
    pub(crate) may_complete: bool,
    pub(crate) is_held: bool,
    pub(crate) has_ticket: bool,
    pub(crate) decision: Option<Decision>,
    /// When its timer is due, if it has one.
    pub(crate) due: Option<u64>,
    pub(crate) has_timer: bool,
    deeds: Vec<(Call, Act)>,
}

// === impl Naive ===

impl Naive {
    /// Moves time on, and expires what is due on the way.
    pub(crate) fn advance(&mut self, to: u64) {
        let is_next = |op: &NaiveOp| op.due.filter(|&due| op.has_timer && due <= to);
        while let Some(due) = self.ops.iter().filter_map(is_next).min() {
            self.now = due;
            let number = self.ops.iter().position(|op| op.has_timer && op.due == Some(due));
            let number = number.expect("just found");
            self.ops[number].has_timer = false;
            self.decide(number, Decision::Expired);
        }
        self.now = to;
    }

    /// The engine stops, and what it returns is dropped.
    pub(crate) fn stop_engine(&mut self) {
        self.is_engine_stopped = true;
        self.ops.iter_mut().for_each(|op| op.has_timer = false);
    }

    /// Who waits under a key, once for each time that it was given.
    fn waiting(&self, key: u8) -> Vec<usize> {
        self.watches.iter().filter(|watch| watch.0 == key).map(|watch| watch.1).collect()
    }

    fn decide(&mut self, number: usize, decision: Decision) -> bool {
        let op = &mut self.ops[number];
        if op.decision.is_some() {
            return false;
        }
        op.decision = Some(decision);
        if !op.is_held {
            self.finish(number, decision);
        }
        true
    }

    /// Tries an operation that is free or new; whether that completed it.
    fn work(&mut self, number: usize) -> bool {
        let answer = self.try_complete(number);
        let decided = self.ops[number].decision;
        match decided {
            Some(decision) => self.finish(number, decision),
            None if answer => {
                self.ops[number].decision = Some(Decision::Completed);
                self.finish(number, Decision::Completed);
            }
            None => {}
        }
        // One that is forced inside its own try is as one whose try succeeded.
        decided.map_or(answer, |decision| decision == Decision::Completed)
    }

    fn try_complete(&mut self, number: usize) -> bool {
        let may_complete = self.ops[number].may_complete;
        self.ops[number].is_held = true;
        let panics = self.call(number, Call::Try);
        self.ops[number].is_held = false;
        may_complete && !panics
    }

    fn finish(&mut self, number: usize, decision: Decision) {
        self.let_go(number);
        self.counts[decision as usize - 1] += 1;
        if decision != Decision::Cancelled {
            self.call(number, Call::Complete);
        }
        if decision == Decision::Expired {
            self.call(number, Call::Expire);
        }
    }

    fn let_go(&mut self, number: usize) {
        self.watches.retain(|watch| watch.1 != number);
        self.ops[number].has_timer = false;
    }

    /// Calls an operation; whether that panicked.
    fn call(&mut self, number: usize, call: Call) -> bool {
        let (tick, watched) = (self.now, self.watches.len());
        self.log.push(Line::Called { number, call, tick, watched });
        let Some(act) = take_deed(&mut self.ops[number].deeds, call) else { return false };
        self.act(&act);
        let panics = std::mem::take(&mut self.panics);
        self.panicked += u64::from(panics);
        panics
    }

    fn cancel_all(&mut self, numbers: Vec<usize>) -> Vec<usize> {
        let mut cancelled = numbers;
        cancelled.retain(|&number| self.decide(number, Decision::Cancelled));
        cancelled
    }

    fn with_ticket(&self, pick: u16) -> Option<usize> {
        let number = usize::from(pick).checked_rem(self.ops.len())?;
        self.ops[number].has_ticket.then_some(number)
    }
}

impl World for Naive {
    fn register(&mut self, spec: &Spec, deeds: Vec<(Call, Act)>) -> Arrived {
        let number = self.ops.len();
        self.ops.push(NaiveOp {
            may_complete: spec.may_complete,
            is_held: false,
            has_ticket: false,
            decision: None,
            due: due(self.now, spec.timeout, number),
            has_timer: false,
            deeds,
        });
        if spec.keys.is_empty() {
            return Arrived::NoKeys;
        }
        if self.try_complete(number) {
            self.call(number, Call::Complete);
            return Arrived::Completed;
        }
        if self.is_stopped || self.is_engine_stopped {
            return Arrived::Stopped;
        }
        self.watches.extend(spec.keys.iter().map(|&key| (key, number)));
        self.ops[number].has_timer = true;
        if self.work(number) {
            return Arrived::Completed;
        }
        self.ops[number].has_ticket = true;
        Arrived::Delayed
    }

    fn allow(&mut self, pick: u16) {
        if let Some(number) = usize::from(pick).checked_rem(self.ops.len()) {
            self.ops[number].may_complete = true;
        }
    }

    fn check(&mut self, key: u8) -> usize {
        let mut completed = 0;
        for number in self.waiting(key) {
            let NaiveOp { decision, is_held, .. } = self.ops[number];
            if decision.is_none() && !is_held {
                completed += usize::from(self.work(number));
            }
        }
        completed
    }

    fn force(&mut self, pick: u16) -> bool {
        self.with_ticket(pick).is_some_and(|number| self.decide(number, Decision::Completed))
    }

    fn cancel(&mut self, pick: u16) -> bool {
        self.with_ticket(pick).is_some_and(|number| self.decide(number, Decision::Cancelled))
    }

    fn cancel_for_key(&mut self, key: u8) -> Vec<usize> {
        let waiting = self.waiting(key);
        self.cancel_all(waiting)
    }

    fn stop(&mut self) -> Vec<usize> {
        self.is_stopped = true;
        let mut all: Vec<usize> = self.watches.iter().map(|watch| watch.1).collect();
        all.sort_unstable();
        self.cancel_all(all)
    }

    fn panic(&mut self) {
        self.panics = true;
    }

    fn tell(&mut self, line: Line) {
        self.log.push(line);
    }
}
