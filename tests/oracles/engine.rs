//! The engine against a sorted map, through random histories on a manual clock.
//!
//! The model and its comparisons are `tests/models/src/engine_model/mod.rs`; here histories are
//! drawn so that every geometry and every tick get their share, and failures are made small.

use models::engine_model::case::{
    At, By, Call, Case, Config, Manner, Op, SHAPES, STORMY, TICKS_NS, Task, Way,
};
use models::engine_model::{run, run_in_crowds};
use models::histories::when;
use models::when::When;
use proptest::collection::vec;
use proptest::prelude::*;
use support::hold::hold;

/// How many histories a test draws, times the environment's TICKLESS_TEST_SCALE, and how long they
/// are at most.
const MANY: (u64, usize) = (50, 100);
const LONG: (u64, usize) = (2, 1500);
/// Where each step has many buckets to check.
const FEW: (u64, usize) = (20, 100);

// === times ===

/// Where to go: mostly not far, and now and then over everything that is pending.
fn near() -> impl Strategy<Value = When> {
    prop_oneof![
        2 => Just(When::Ahead(0)),
        10 => (0..40_u16).prop_map(|half| When::Ahead(2 * half + 1)),
        4 => (0..4_u8, 0..40_u8, -1..=1_i8)
            .prop_map(|(level, buckets, offset)| When::Edge { level, buckets, offset }),
        1 => any::<u16>().prop_map(When::Ahead),
    ]
}

fn nudged(when: impl Strategy<Value = When>) -> impl Strategy<Value = At> {
    let nudge_ns = prop_oneof![3 => Just(0), 2 => -1..=1_i8, 1 => any::<i8>()];
    (when, nudge_ns).prop_map(|(when, nudge_ns)| At { when, nudge_ns })
}

fn at() -> impl Strategy<Value = At> {
    nudged(when())
}

fn step() -> impl Strategy<Value = At> {
    nudged(prop_oneof![12 => near(), 1 => when()])
}

fn start() -> impl Strategy<Value = At> {
    nudged(prop_oneof![
        2 => Just(When::Absolute(0)),
        1 => any::<u64>().prop_map(|count| When::Absolute(count >> 12)),
        1 => any::<u64>().prop_map(|count| When::Absolute(count >> 44)),
        1 => (1..4_u8).prop_map(When::End),
    ])
}

// === what is asked of the engine ===

fn by() -> impl Strategy<Value = By> {
    prop_oneof![3 => Just(By::Delay), 1 => Just(By::Instant)]
}

fn way() -> impl Strategy<Value = Way> {
    prop_oneof![Just(Way::Cancel), Just(Way::Take), Just(Way::Guard)]
}

fn task() -> impl Strategy<Value = Task> {
    prop_oneof![
        8 => Just(Task::Nothing),
        2 => (at(), any::<bool>()).prop_map(|(at, owned)| Task::Schedule { at, owned }),
        2 => (any::<u16>(), way()).prop_map(|(pick, way)| Task::Cancel { pick, way }),
        2 => (any::<u16>(), at()).prop_map(|(pick, at)| Task::Reset { pick, at }),
        1 => any::<u16>().prop_map(|pick| Task::Detach { pick }),
        1 => any::<u16>().prop_map(|by_ns| Task::Clock { by_ns }),
        1 => Just(Task::Panic),
        1 => Just(Task::Meddle),
    ]
}

fn call() -> impl Strategy<Value = Call> {
    prop_oneof![
        16 => (at(), by(), prop::bool::weighted(0.8), task())
            .prop_map(|(at, by, owned, task)| Call::Schedule { at, by, owned, task }),
        8 => (any::<u16>(), way()).prop_map(|(pick, way)| Call::Cancel { pick, way }),
        10 => (any::<u16>(), at(), by()).prop_map(|(pick, at, by)| Call::Reset { pick, at, by }),
        1 => any::<u16>().prop_map(|pick| Call::Detach { pick }),
        1 => any::<u8>().prop_map(|shard| Call::Bind { shard }),
    ]
}

fn manner() -> impl Strategy<Value = Manner> {
    prop_oneof![
        8 => Just(Manner::TakesAll),
        1 => (0..9_u8).prop_map(Manner::Leaves),
        1 => (0..4_u8).prop_map(Manner::Panics),
    ]
}

fn config() -> impl Strategy<Value = Config> {
    let max_pending = prop_oneof![3 => Just(None), 1 => any::<u8>().prop_map(Some)];
    (any::<u8>(), any::<u8>(), 0..3_u8, max_pending, any::<bool>()).prop_map(
        |(shape, tick, shards, max_pending, hook)| Config {
            shape,
            tick,
            shards,
            max_pending,
            hook,
            free: None,
        },
    )
}

fn op() -> impl Strategy<Value = Op> {
    let turn = (any::<u8>(), 0..4_u8, prop::option::weighted(0.7, 0..12_u8), manner());
    let burst = (any::<u8>(), any::<u8>(), at(), 0..5_u8, any::<bool>(), task());
    let rebuild = (config(), prop::option::of(start()), any::<bool>(), prop::bool::weighted(0.8));
    prop_oneof![
        500 => (any::<u8>(), call()).prop_map(|(thread, call)| Op::Call { thread, call }),
        10 => burst.prop_map(|(thread, count, at, apart, owned, task)| {
            Op::Burst { thread, count, at, apart, owned, task }
        }),
        10 => (any::<u8>(), any::<u16>(), any::<u8>())
            .prop_map(|(thread, first, count)| Op::CancelMany { thread, first, count }),
        1 => (any::<u8>(), at()).prop_map(|(thread, at)| Op::Storm { thread, at, rarely: STORMY }),
        60 => step().prop_map(Op::Clock),
        60 => (step(), manner()).prop_map(|(to, manner)| Op::Advance { to, manner }),
        40 => Just(Op::ToNext),
        20 => Just(Op::ShortOfNext),
        80 => turn.prop_map(|(thread, shard, at_most, manner)| {
            Op::Turn { thread, shard, at_most, manner }
        }),
        20 => Just(Op::Settle),
        10 => any::<u8>().prop_map(|thread| Op::Replace { thread }),
        2 => Just(Op::Stop),
        4 => rebuild.prop_map(|(config, clock, keeps, stops)| {
            Op::Rebuild { config, clock, keeps, stops }
        }),
    ]
}

/// Many timers at one tick, and a turn that gets through some of them.
fn jam() -> impl Strategy<Value = [Op; 3]> {
    let burst = (any::<u8>(), 1..40_u8, nudged(near()));
    (burst, step(), 0..40_u8).prop_map(|((thread, count, at), to, most)| {
        let (apart, owned, task) = (0, true, Task::Nothing);
        let burst = Op::Burst { thread, count, at, apart, owned, task };
        let (shard, at_most, manner) = (0, Some(most), Manner::TakesAll);
        [burst, Op::Clock(to), Op::Turn { thread, shard, at_most, manner }]
    })
}

// === the tests ===

/// Histories that begin with one geometry, and with each tick in its turn.
fn agree(shape: (u32, u32), sizes: (u64, usize)) {
    agree_in(shape, sizes, run);
}

fn agree_in((slots, reach): (u32, u32), (cases, steps): (u64, usize), run: fn(&Case)) {
    let shape = SHAPES.iter().position(|shape| *shape == (slots, reach));
    let shape = shape.expect("a shape of the model") as u8;
    let config = (config(), 0..TICKS_NS.len() as u8);
    let config = config.prop_map(move |(config, tick)| Config { shape, tick, ..config });
    let case = (config, start(), 0..8_u8, vec(op(), 1..steps), prop::option::of(jam()));
    let case = case.prop_map(|(config, start, helpers, mut ops, jam)| {
        ops.extend(jam.into_iter().flatten());
        Case { config, start, helpers, ops }
    });
    hold(&format!("{slots} slots, reach {reach}"), cases, case, run);
}

#[test]
fn an_engine_of_two_slots_does_as_the_oracle_says() {
    agree((2, 2), MANY);
}

#[test]
fn an_engine_of_three_slots_does_as_the_oracle_says() {
    agree((3, 3), MANY);
}

#[test]
fn an_engine_of_three_slots_of_which_two_are_reached_does_as_the_oracle_says() {
    agree((3, 2), MANY);
}

#[test]
fn an_engine_of_twenty_slots_does_as_the_oracle_says() {
    agree((20, 20), MANY);
}

#[test]
fn an_engine_of_twenty_slots_of_which_seven_are_reached_does_as_the_oracle_says() {
    agree((20, 7), MANY);
}

#[test]
fn an_engine_of_the_default_shape_does_as_the_oracle_says() {
    agree((64, 32), MANY);
}

#[test]
fn an_engine_of_sixty_four_slots_does_as_the_oracle_says() {
    agree((64, 64), MANY);
}

#[test]
fn an_engine_of_five_hundred_and_twelve_slots_does_as_the_oracle_says() {
    agree((512, 512), FEW);
}

#[test]
fn an_engine_of_five_hundred_and_twelve_slots_of_which_half_are_reached_does_as_the_oracle_says() {
    agree((512, 256), FEW);
}

#[test]
fn an_engine_of_the_default_shape_does_as_the_oracle_says_for_long() {
    agree((64, 32), LONG);
}

#[test]
fn an_engine_of_two_slots_does_as_the_oracle_says_for_long() {
    agree((2, 2), LONG);
}

#[test]
fn an_engine_of_twenty_slots_of_which_seven_are_reached_does_as_the_oracle_says_for_long() {
    agree((20, 7), LONG);
}

#[test]
fn engines_where_few_timers_are_a_crowd_do_as_the_oracle_says() {
    for shape in [(2, 2), (3, 2), (20, 7), (64, 32)] {
        agree_in(shape, MANY, run_in_crowds);
    }
}
