//! The purgatory against one that is as simple as can be, through random histories of one thread
//! on a clock that is moved by hand; what is done from inside callbacks is part of them.
//!
//! Both tell every call on an operation and every answer, and after each step they agree on who
//! waits, where, and how the others have ended.

mod case;
mod naive;
mod real;

use std::collections::BTreeSet;

use case::{Act, Arrived, Case, Line, Spec, Step, UNIT, World};
use naive::Naive;
use proptest::collection::vec;
use proptest::prelude::*;
use real::Real;
use support::hold::hold;
use support::operation::Call;
use support::planned::quietly;

// === histories ===

/// So few keys that lists become long.
const KEYS: u8 = 5;

fn spec(may_complete: f64) -> impl Strategy<Value = Spec> {
    let keys = prop_oneof![1 => Just(Vec::new()), 40 => vec(0..KEYS, 1..=6)];
    let timeout = prop::option::weighted(0.8, 0..6_u8);
    (keys, timeout, prop::bool::weighted(may_complete))
        .prop_map(|(keys, timeout, may_complete)| Spec { keys, timeout, may_complete })
}

/// What can be done from outside.
fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        4 => any::<u16>().prop_map(Act::Allow),
        6 => (0..KEYS).prop_map(Act::Check),
        3 => any::<u16>().prop_map(Act::Force),
        3 => any::<u16>().prop_map(Act::Cancel),
        1 => (0..KEYS).prop_map(Act::CancelForKey),
    ]
}

/// What can be done from inside: the same, to register, to panic, and rarely to stop.
fn deed() -> impl Strategy<Value = (Call, Act)> {
    let call =
        prop_oneof![3 => Just(Call::Try), 2 => Just(Call::Complete), 1 => Just(Call::Expire)];
    let act = prop_oneof![
        30 => act(),
        10 => spec(0.1).prop_map(Act::Register),
        5 => Just(Act::Panic),
        1 => Just(Act::Stop),
    ];
    (call, act)
}

fn step(stops: u32) -> impl Strategy<Value = Step> {
    prop_oneof![
        300 => (spec(0.1), vec(deed(), 0..6)).prop_map(|(spec, deeds)| Step::Register(spec, deeds)),
        30 => (1..80_u8, spec(0.0)).prop_map(|(count, spec)| Step::Burst(count, spec)),
        400 => act().prop_map(Step::Act),
        60 => (0..3_u8).prop_map(Step::Advance),
        stops => Just(Step::Act(Act::Stop)),
        stops => Just(Step::StopEngine),
    ]
}

/// Histories in which stops are as frequent as that.
fn case(stops: u32, steps: usize) -> impl Strategy<Value = Case> {
    vec(step(stops), 1..steps).prop_map(|steps| Case { steps })
}

// === the two side by side ===

struct Pair {
    real: Real,
    naive: Naive,
}

impl Pair {
    fn step(&mut self, step: &Step) {
        let Pair { real, naive } = self;
        match step {
            Step::Register(spec, deeds) => {
                let arrived = real.register(spec, deeds.clone());
                assert_eq!(arrived, naive.register(spec, deeds.clone()));
            }
            Step::Burst(count, spec) => {
                for _ in 0..*count {
                    assert_eq!(real.register(spec, vec![]), naive.register(spec, vec![]));
                }
            }
            Step::Act(act) => {
                real.act(act);
                naive.act(act);
            }
            Step::Advance(units) => {
                // To a unit's end, which is nobody's tick.
                let to = (naive.now / UNIT + 1 + u64::from(*units)) * UNIT;
                real.advance(to);
                naive.advance(to);
            }
            Step::StopEngine => {
                drop(real.shared().engine.stop().unwrap());
                naive.stop_engine();
            }
        }
    }

    /// Asserts that they agree on everything that can be seen.
    fn compare(&mut self) {
        let Pair { real, naive } = self;
        assert_eq!(real.take_log(), std::mem::take(&mut naive.log));
        let shared = real.shared();
        shared.purgatory.check();
        let stats = shared.purgatory.stats();
        let keys: BTreeSet<u8> = naive.watches.iter().map(|watch| watch.0).collect();
        let waiting: BTreeSet<usize> = naive.watches.iter().map(|watch| watch.1).collect();
        let sizes = (stats.delayed, stats.watched, stats.keys);
        assert_eq!(sizes, (waiting.len(), naive.watches.len(), keys.len()));
        assert_eq!((shared.purgatory.len(), shared.purgatory.watched()), (sizes.0, sizes.1));
        assert_eq!([stats.completed, stats.expired, stats.cancelled], naive.counts);
        assert_eq!(stats.panicked, naive.panicked);
        let timers = naive.ops.iter().filter(|op| op.has_timer).count();
        assert_eq!(shared.engine.len(), timers);
        let decisions = naive.ops.iter().map(|op| op.has_ticket.then_some(op.decision));
        assert!(real.decisions().into_iter().eq(decisions));
        let owned = |(number, op): (usize, &naive::NaiveOp)| {
            // The world's, and that of the ticket or the purgatory.
            1 + usize::from(op.has_ticket || waiting.contains(&number))
        };
        assert!(real.owners().into_iter().eq(naive.ops.iter().enumerate().map(owned)));
    }
}

fn run(case: &Case) {
    quietly();
    let mut pair = Pair { real: Real::new(), naive: Naive::default() };
    for step in &case.steps {
        pair.step(step);
        pair.compare();
    }
    let Pair { real, mut naive } = pair;
    if !naive.is_engine_stopped {
        let to = (naive.now / UNIT + 300) * UNIT;
        real.advance(to);
        naive.advance(to);
        assert_eq!(real.take_log(), naive.log);
    }
    // Nobody keeps anything: what never times out goes with the purgatory.
    let operations = real.operations();
    drop(real);
    assert!(operations.iter().all(|operation| operation.strong_count() == 0));
}

// === the tests ===

#[test]
fn a_purgatory_does_as_the_oracle_says() {
    hold("short", 600, case(1, 60), run);
}

#[test]
fn a_purgatory_does_as_the_oracle_says_for_long() {
    hold("long", 12, case(0, 1500), run);
}

#[test]
fn a_purgatory_that_is_stopped_in_the_middle_does_as_the_oracle_says() {
    hold("stopped", 300, case(30, 40), run);
}

#[test]
fn the_oracle_tells_what_happened() {
    let mut naive = Naive::default();
    let spec = Spec { keys: vec![1, 2], timeout: Some(0), may_complete: false };
    let deeds = vec![(Call::Expire, Act::Check(2)), (Call::Complete, Act::Panic)];
    assert_eq!(naive.register(&spec, deeds), Arrived::Delayed);
    naive.act(&Act::Check(1));
    naive.advance(2 * UNIT);
    let called = |call, tick, watched| Line::Called { number: 0, call, tick, watched };
    let due = UNIT + 1;
    let told = [
        called(Call::Try, 0, 0),
        called(Call::Try, 0, 2),
        called(Call::Try, 0, 2),
        Line::Checked(0),
        called(Call::Complete, due, 0),
        Line::Panicked,
        called(Call::Expire, due, 0),
        Line::Checked(0),
    ];
    assert_eq!(naive.log, told);
    assert_eq!((naive.counts, naive.panicked), ([0, 1, 0], 1));
}
