//! Each of the wheels and a sorted map side by side: the body of the fuzz target
//! `wheel_vs_oracle`, of `crates/wheel/tests/oracle.rs` and of the corpus replay.
//!
//! After every step both must agree on everything that can be observed, and the wheel must pass
//! its own `check`. Every history is run on the hierarchical wheel and on the hashed one.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::rc::Rc;

use arbitrary::Arbitrary;
use tickless_wheel::{Geometry, HashedWheel, Key, Tick, TimingWheel, Wheel};

use crate::when::When;

/// The geometries that are tried: slots and reach, of which a hashed wheel has the slots only.
pub const SHAPES: [(u32, u32); 8] =
    [(2, 2), (3, 3), (3, 2), (20, 20), (64, 32), (256, 256), (512, 512), (1000, 999)];

/// A history of one wheel.
#[derive(Arbitrary, Clone, Debug)]
pub struct Case {
    /// Which of [`SHAPES`], going round.
    pub shape: u8,
    /// Where time starts.
    pub start: When,
    pub ops: Vec<Op>,
}

/// One step. A `u16` picks a timer from all that there ever were, so that stale keys are tried.
#[derive(Arbitrary, Clone, Debug)]
pub enum Op {
    Insert(When),
    Cancel(u16),
    Reset(u16, When),
    Advance(When),
    /// To the next expiration.
    AdvanceToNext,
    /// To just before the next expiration: nothing may happen.
    AdvanceShort,
    /// Popping so many of those that are due then, one by one.
    Pop(When, u8),
    /// With a sink that panics at the call of this number; from [`LIMITED`] on, within a limit.
    /// (One variant for both: with another, the corpus would mean something else.)
    AdvanceInterrupted(When, u8),
    /// Taking out so many, and dropping the rest.
    Drain(u8),
    Clear,
    Shrink,
}

/// An advance that is interrupted looks at no more than so many timers less than its number.
pub const LIMITED: u8 = 128;

/// Runs a history on each wheel.
pub fn run(case: &Case) {
    run_on::<Wheel<Token>>(case);
    run_on::<HashedWheel<Token>>(case);
}

/// Runs a history and then time to its end.
fn run_on<W: Subject>(case: &Case) {
    let mut pair = Pair::<W>::new(case);
    for op in &case.ops {
        pair.step(op);
        pair.compare();
    }
    pair.run_dry();
    pair.step(&Op::Clear);
    pair.compare();
}

/// A wheel, and what the model needs of it beyond what the wheels have in common.
trait Subject: TimingWheel<Token> {
    /// Whether the next expiration is that of the earliest timer itself.
    const EXACT: bool;

    fn with_start(geometry: Geometry, now: Tick) -> Self;
    fn advance_within(&mut self, now: Tick, most: usize, sink: Sink<'_>) -> usize;
    fn clear(&mut self);
    fn shrink_to_fit(&mut self);
    fn check(&self);
}

type Sink<'a> = &'a mut dyn FnMut(Key, Tick, Token);

struct Pair<W> {
    wheel: W,
    geometry: Geometry,
    now: Tick,
    /// Everything that was ever inserted; payloads are positions in here.
    timers: Vec<Timer>,
    /// What is pending, by the tick at which it is due.
    pending: BTreeSet<(Tick, usize)>,
    /// Payloads that exist.
    alive: Rc<Cell<usize>>,
}

struct Timer {
    key: Key,
    deadline: Tick,
    /// The deadline, or the time of the insertion if that was later. `None` once it has left.
    due: Option<Tick>,
}

/// A payload that counts itself.
#[derive(Debug)]
struct Token {
    timer: usize,
    alive: Rc<Cell<usize>>,
}

/// What panicking sinks throw.
struct Injected;

// === impl Subject ===

macro_rules! subject {
    ($wheel:ident, exact: $exact:expr, with_start: $start:expr, advance_within: $within:expr) => {
        impl Subject for $wheel<Token> {
            const EXACT: bool = $exact;

            fn with_start(geometry: Geometry, now: Tick) -> Self {
                $start(geometry, now)
            }

            fn advance_within(&mut self, now: Tick, most: usize, sink: Sink<'_>) -> usize {
                $within(self, now, most, sink)
            }

            fn clear(&mut self) {
                $wheel::clear(self);
            }

            fn shrink_to_fit(&mut self) {
                $wheel::shrink_to_fit(self);
            }

            fn check(&self) {
                $wheel::check(self);
            }
        }
    };
}

subject!(
    Wheel,
    exact: false,
    with_start: Wheel::with_start,
    advance_within: |wheel: &mut Wheel<Token>, now, most, sink: Sink<'_>| {
        if most % 2 == 0 {
            return wheel.advance_within(now, most, sink);
        }
        // The other call with a limit comes to the same.
        let mut left = most;
        let due = std::iter::from_fn(|| wheel.pop_within(now, &mut left));
        due.map(|(key, deadline, token)| sink(key, deadline, token)).count()
    }
);
subject!(
    HashedWheel,
    exact: true,
    with_start: |geometry: Geometry, now| {
        HashedWheel::with_start(geometry.slots(), now).expect("the shapes are valid")
    },
    // It has none, and nothing in it comes down.
    advance_within: |wheel: &mut HashedWheel<Token>, now, most: usize, sink: Sink<'_>| {
        let due = std::iter::from_fn(|| wheel.pop_due(now));
        due.take(most).map(|(key, deadline, token)| sink(key, deadline, token)).count()
    }
);

// === impl Token ===

impl Token {
    fn new(timer: usize, alive: &Rc<Cell<usize>>) -> Token {
        alive.set(alive.get() + 1);
        Token { timer, alive: Rc::clone(alive) }
    }
}

impl Drop for Token {
    fn drop(&mut self) {
        self.alive.set(self.alive.get() - 1);
    }
}

// === impl Pair ===

impl<W: Subject> Pair<W> {
    fn new(case: &Case) -> Pair<W> {
        let (slots, reach) = SHAPES[usize::from(case.shape) % SHAPES.len()];
        let geometry = Geometry::new(slots, reach).expect("the shapes are valid");
        let now = case.start.resolve(&geometry, Tick::ZERO).min(Tick::LAST);
        let wheel = W::with_start(geometry, now);
        let (timers, pending, alive) = (vec![], BTreeSet::new(), Rc::default());
        Pair { wheel, geometry, now, timers, pending, alive }
    }

    fn step(&mut self, op: &Op) {
        match *op {
            Op::Insert(when) => self.insert(when),
            Op::Cancel(pick) => self.cancel(pick),
            Op::Reset(pick, when) => self.reset(pick, when),
            Op::Advance(when) => self.advance(self.at(when)),
            Op::AdvanceToNext => {
                if let Some(next) = self.wheel.next_expiration() {
                    self.advance(next);
                }
            }
            Op::AdvanceShort => self.advance_short(),
            Op::Pop(when, count) => self.pop(self.at(when), count),
            Op::AdvanceInterrupted(when, number) => match number.checked_sub(LIMITED) {
                None => self.advance_panicking(self.at(when), number),
                Some(most) => self.advance_within(self.at(when), most.into()),
            },
            Op::Drain(count) => self.drain(usize::from(count)),
            Op::Clear => {
                self.wheel.clear();
                self.forget_all();
            }
            Op::Shrink => self.wheel.shrink_to_fit(),
        }
    }

    fn at(&self, when: When) -> Tick {
        when.resolve(&self.geometry, self.now)
    }

    fn pick(&self, pick: u16) -> Option<usize> {
        usize::from(pick).checked_rem(self.timers.len())
    }

    fn insert(&mut self, when: When) {
        let deadline = self.at(when);
        let timer = self.timers.len();
        let key = self.wheel.insert(deadline, Token::new(timer, &self.alive));
        let due = deadline.max(self.now);
        assert!(self.timers.iter().all(|other| other.key != key), "{key:?} was given out before");
        self.timers.push(Timer { key, deadline, due: Some(due) });
        self.pending.insert((due, timer));
    }

    fn cancel(&mut self, pick: u16) {
        let Some(timer) = self.pick(pick) else { return };
        let payload = self.wheel.cancel(self.timers[timer].key);
        assert_eq!(payload.map(|token| token.timer), self.forget(timer).map(|_| timer));
    }

    fn reset(&mut self, pick: u16, when: When) {
        let Some(timer) = self.pick(pick) else { return };
        let deadline = self.at(when);
        let was_pending = self.forget(timer).is_some();
        assert_eq!(self.wheel.reset(self.timers[timer].key, deadline), was_pending);
        if was_pending {
            let due = deadline.max(self.now);
            let entry = &mut self.timers[timer];
            (entry.deadline, entry.due) = (deadline, Some(due));
            self.pending.insert((due, timer));
        }
    }

    fn advance(&mut self, now: Tick) {
        let mut fired = Vec::new();
        let count = self.wheel.advance(now, |key, deadline, token| {
            fired.push((key, deadline, token.timer));
        });
        assert_eq!(count, fired.len());
        self.settle(now, &fired);
        assert!(self.pending.first().is_none_or(|(due, _)| now < self.now || *due > self.now));
    }

    fn advance_short(&mut self) {
        let next = self.wheel.next_expiration();
        let Some(now) = next.filter(|next| *next > self.now) else { return };
        self.advance(now.saturating_sub(1));
        assert_eq!(self.wheel.next_expiration(), next);
    }

    /// Each pop leaves a wheel that agrees with the oracle; with the last, time gets there.
    fn pop(&mut self, now: Tick, count: u8) {
        for _ in 0..count {
            let first = self.pending.first().map(|(due, _)| *due);
            let reached = self.now.max(now.min(Tick::LAST));
            let is_due = |due: &Tick| now >= self.now && *due <= now && *due < Tick::NEVER;
            let popped = self.wheel.pop_due(now);
            assert_eq!(popped.is_some(), first.filter(is_due).is_some());
            let Some((key, deadline, token)) = popped else {
                self.now = reached;
                break;
            };
            self.settle(self.wheel.now(), &[(key, deadline, token.timer)]);
            assert_eq!(Some(self.wheel.now()), first, "time is when the last one was due");
            drop(token);
            self.compare();
        }
    }

    fn advance_panicking(&mut self, now: Tick, call: u8) {
        let mut fired = Vec::new();
        let result = catch_unwind(AssertUnwindSafe(|| {
            self.wheel.advance(now, |key, deadline, token| {
                fired.push((key, deadline, token.timer));
                if fired.len() > usize::from(call) {
                    // Unlike `panic!` this asks no hook, and fuzzers end the process in theirs.
                    resume_unwind(Box::new(Injected));
                }
            })
        }));
        assert_eq!(result.is_err(), fired.len() > usize::from(call));
        let reached = if result.is_err() { self.wheel.now() } else { now };
        self.settle(reached, &fired);
    }

    /// An advance with a limit may stop anywhere, and leave a bucket half-way down.
    fn advance_within(&mut self, now: Tick, most: usize) {
        let mut fired = Vec::new();
        let mut sink = |key, deadline, token: Token| fired.push((key, deadline, token.timer));
        let count = self.wheel.advance_within(now, most, &mut sink);
        assert_eq!(count, fired.len());
        assert!(count <= most);
        let reached = self.wheel.now();
        assert!(reached <= self.now.max(now), "time has gone too far");
        self.settle(reached, &fired);
        // What is left to do can be seen.
        let due = self.pending.first().map(|(due, _)| *due).filter(|due| *due <= now);
        assert!(now < self.now || due.is_none_or(|_| self.wheel.next_expiration() <= Some(now)));
    }

    fn drain(&mut self, count: usize) {
        let mut drain = self.wheel.drain();
        assert_eq!(drain.len(), self.pending.len());
        let taken: Vec<(Tick, Token)> = drain.by_ref().take(count).collect();
        assert_eq!(drain.len(), self.pending.len() - taken.len());
        drop(drain);
        for (deadline, token) in taken {
            assert_eq!(self.timers[token.timer].deadline, deadline);
            assert!(self.forget(token.timer).is_some(), "drained what was not pending");
        }
        self.forget_all();
    }

    /// Time went to `now` if that is later, and `fired` was handed out on the way, in order.
    fn settle(&mut self, now: Tick, fired: &[(Key, Tick, usize)]) {
        let now = now.min(Tick::LAST);
        let mut latest = Tick::ZERO;
        for (key, deadline, timer) in fired {
            let entry = &self.timers[*timer];
            assert_eq!((*key, *deadline), (entry.key, entry.deadline));
            let due = self.forget(*timer).expect("fired what was not pending");
            assert!(due <= now, "early");
            assert!(due >= latest, "out of order");
            assert!(self.pending.first().is_none_or(|(first, _)| *first >= due), "left behind");
            latest = due;
        }
        self.now = self.now.max(now);
    }

    fn forget(&mut self, timer: usize) -> Option<Tick> {
        let due = self.timers[timer].due.take()?;
        assert!(self.pending.remove(&(due, timer)));
        Some(due)
    }

    fn forget_all(&mut self) {
        while let Some((_, timer)) = self.pending.pop_first() {
            self.timers[timer].due = None;
        }
    }

    fn compare(&self) {
        self.wheel.check();
        assert_eq!(self.wheel.now(), self.now);
        assert_eq!(self.wheel.len(), self.pending.len());
        assert_eq!(self.wheel.is_empty(), self.pending.is_empty());
        assert_eq!(self.alive.get(), self.pending.len(), "payloads that exist");
        for (number, timer) in self.timers.iter().enumerate() {
            let pending = timer.due.is_some();
            assert_eq!(self.wheel.contains(timer.key), pending);
            assert_eq!(self.wheel.deadline(timer.key), pending.then_some(timer.deadline));
            assert_eq!(self.wheel.get(timer.key).map(|t| t.timer), pending.then_some(number));
        }
        self.compare_views();
        let due = self.pending.first().map(|(due, _)| *due).filter(|due| *due < Tick::NEVER);
        let next = self.wheel.next_expiration();
        assert_eq!(next.is_some(), due.is_some());
        assert!(next <= due, "sleeping until {next:?} is too long for {due:?}");
        assert!(next.is_none_or(|next| next >= self.now));
        assert!(!W::EXACT || next == due, "{next:?} is not {due:?}");
    }

    /// What can be seen without a key.
    fn compare_views(&self) {
        let iter = self.wheel.iter();
        assert_eq!(iter.len(), self.pending.len());
        let mut seen: Vec<usize> = Vec::with_capacity(iter.len());
        for (key, deadline, token) in iter {
            let timer = &self.timers[token.timer];
            assert_eq!((key, deadline), (timer.key, timer.deadline));
            seen.push(token.timer);
        }
        seen.sort_unstable();
        assert!(seen.iter().all(|timer| self.timers[*timer].due.is_some()));
        assert!(seen.is_sorted_by(|one, other| one < other), "seen twice");
        let first = self.pending.first().map(|(due, _)| *due).filter(|due| *due < Tick::NEVER);
        let peeked = self.wheel.peek();
        assert_eq!(peeked.is_some(), first.is_some());
        if let Some((key, deadline)) = peeked {
            let timer = self.timers.iter().find(|timer| timer.key == key).expect("a key of ours");
            assert_eq!((timer.deadline, timer.due), (deadline, first), "not what is due first");
        }
    }

    /// From expiration to expiration until nothing is left that will ever fire.
    fn run_dry(&mut self) {
        let levels = if W::EXACT { 1 } else { self.geometry.levels() };
        let most = self.pending.len() * usize::from(levels);
        for _ in 0..most {
            self.step(&Op::AdvanceToNext);
        }
        assert_eq!(self.wheel.next_expiration(), None, "more than {most} wake-ups");
        assert!(self.pending.iter().all(|(due, _)| *due == Tick::NEVER));
        self.compare();
    }
}
