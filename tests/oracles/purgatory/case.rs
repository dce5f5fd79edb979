//! What a history of a purgatory is made of, and what the two that live through it have to do.

use std::mem;
use support::operation::Call;

/// A history.
#[derive(Clone, Debug)]
pub(crate) struct Case {
    pub(crate) steps: Vec<Step>,
}

#[derive(Clone, Debug)]
pub(crate) enum Step {
    /// Registers an operation that does something inside calls: once each.
    Register(Spec, Vec<(Call, Act)>),
    /// Registers so many alike.
    Burst(u8, Spec),
    Act(Act),
    /// Moves time on by so many units.
    Advance(u8),
    StopEngine,
}

/// An operation to be.
#[derive(Clone, Debug)]
pub(crate) struct Spec {
    pub(crate) keys: Vec<u8>,
    /// In so many units; `None`: never.
    pub(crate) timeout: Option<u8>,
    pub(crate) may_complete: bool,
}

/// What can be done to a purgatory, from outside and from inside its callbacks. A `u16` picks one
/// of the operations that there were.
#[derive(Clone, Debug)]
pub(crate) enum Act {
    Register(Spec),
    Allow(u16),
    Check(u8),
    Force(u16),
    Cancel(u16),
    CancelForKey(u8),
    Stop,
    Panic,
}

/// What happened, as both tell it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Line {
    /// An operation was called, at that tick, when so many were watched.
    Called {
        number: usize,
        call: Call,
        tick: u64,
        watched: usize,
    },
    Arrived(Arrived),
    Checked(usize),
    Decided(bool),
    Cancelled(Vec<usize>),
    Panicked,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Arrived {
    Completed,
    Delayed,
    NoKeys,
    Stopped,
}

/// One that lives through histories.
pub(crate) trait World {
    fn register(&mut self, spec: &Spec, deeds: Vec<(Call, Act)>) -> Arrived;
    fn allow(&mut self, pick: u16);
    fn check(&mut self, key: u8) -> usize;
    fn force(&mut self, pick: u16) -> bool;
    fn cancel(&mut self, pick: u16) -> bool;
    fn cancel_for_key(&mut self, key: u8) -> Vec<usize>;
    fn stop(&mut self) -> Vec<usize>;
    /// As far as it can be planned.
    fn panic(&mut self);
    fn tell(&mut self, line: Line);

    /// Acts, and tells what came of it.
    fn act(&mut self, act: &Act) {
        let line = match act {
            Act::Register(spec) => Line::Arrived(self.register(spec, Vec::new())),
            Act::Allow(pick) => return self.allow(*pick),
            Act::Check(key) => Line::Checked(self.check(*key)),
            Act::Force(pick) => Line::Decided(self.force(*pick)),
            Act::Cancel(pick) => Line::Decided(self.cancel(*pick)),
            Act::CancelForKey(key) => Line::Cancelled(self.cancel_for_key(*key)),
            Act::Stop => Line::Cancelled(self.stop()),
            Act::Panic => {
                self.tell(Line::Panicked);
                return self.panic();
            }
        };
        self.tell(line);
    }
}

/// Time goes on in units of so many ticks, and no two operations are due at one tick of a unit.
pub(crate) const UNIT: u64 = 1 << 16;

/// When an operation is due that comes at `now` and has this number.
pub(crate) fn due(now: u64, timeout: Option<u8>, number: usize) -> Option<u64> {
    let number = number as u64 + 1;
    assert!(number < UNIT, "a history of so many operations");
    timeout.map(|units| (now / UNIT + 1 + u64::from(units)) * UNIT + number)
}

/// Takes out the first deed that is for `call`.
pub(crate) fn take_deed(deeds: &mut Vec<(Call, Act)>, call: Call) -> Option<Act> {
    let (these, others) = mem::take(deeds).into_iter().partition(|(when, _)| *when == call);
    let (mut these, others): (Vec<_>, Vec<_>) = (these, others);
    let act = (!these.is_empty()).then(|| these.remove(0).1);
    *deeds = these.into_iter().chain(others).collect();
    act
}
