//! Crowds: very many timers in one bucket let others pass, and none of them is lost or early.
//! (`tests/realtime/crowds.rs` has a crowd on an engine with threads.)

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Waker};
use std::time::Duration;

use support::random::Random;
use support::token::{Fates, Token};
use tickless::local::Geometry;
use tickless::{Batch, Builder, Engine, Handle, ManualClock, Tick};
use tickless_core::bench::Bench;
use tickless_core::dispatch::InHand;
use tickless_core::doorbell::Bell;
use tickless_core::memory::{Count, SHARE, Shared};
use tickless_core::reaper::Report;
use tickless_keyed::KeyedTimers;

const TICK: Duration = Duration::from_millis(1);

/// 40 shares: the crowd lasts longer than the `TICKS` turns that a test looks at.
const CROWD: usize = 40 * SHARE;

/// How many timers are moved beside a crowd, one per tick.
const TICKS: u64 = 20;

/// Timers of one tick that keep their place whatever is due beside them.
const FIRST: usize = 4 * SHARE;

/// The deadlines of what was handed over, in ticks and in order.
type Log = Arc<Mutex<Vec<u64>>>;

fn engine(builder: Builder) -> (Engine<u64>, ManualClock, Log) {
    let (clock, log) = (ManualClock::new(), Log::default());
    let its = log.clone();
    let builder = builder.tick(TICK).shards(1).manual_clock(&clock);
    let engine =
        builder.build_typed(move |batch: Batch<'_, u64>| its.lock().unwrap().extend(batch));
    (engine.unwrap(), clock, log)
}

fn take(log: &Log) -> Vec<u64> {
    std::mem::take(&mut log.lock().unwrap())
}

fn schedule(engine: &Engine<u64>, timers: usize, due: u64, now: u64) {
    for _ in 0..timers {
        engine.schedule_detached(TICK * (due - now) as u32, due).unwrap();
    }
}

/// A crowd is due at one tick, and something else at each tick after that.
#[test]
fn what_becomes_due_while_a_crowd_fires_waits_for_two_shares_at_most() {
    for at_most in [100, SHARE, 2 * FIRST] {
        let (engine, clock, log) = engine(Builder::new());
        schedule(&engine, CROWD, 10, 0);
        clock.advance(TICK * 10);
        let (mut now, mut left, mut handed_over) = (10, CROWD, 0);
        // By tick: how many were handed over before it was due.
        let mut before = BTreeMap::new();
        while left > 0 {
            now += 1;
            schedule(&engine, 1, now, now - 1);
            clock.advance(TICK);
            before.insert(now, handed_over);
            engine.turn_at_most(0, at_most).unwrap();
            if now % 50 == 0 {
                engine.check().unwrap();
            }
            for due in take(&log) {
                if due == 10 {
                    left -= 1;
                } else {
                    let before = before.remove(&due).expect("each fires once");
                    let most = if before < FIRST { FIRST + SHARE } else { 2 * SHARE };
                    let waited = handed_over - before;
                    assert!(waited <= most.max(at_most), "{waited} before {due}");
                    assert!(handed_over >= FIRST, "the first share is in one piece");
                }
                handed_over += 1;
            }
        }
        while engine.turn(0).unwrap().more {}
        assert!(engine.is_empty());
    }
}

/// As many others become due in each turn as it may fire.
#[test]
fn a_crowd_goes_on_though_others_are_always_due() {
    let (engine, clock, log) = engine(Builder::new());
    let crowd = FIRST + 20 * SHARE;
    schedule(&engine, crowd, 10, 0);
    clock.advance(TICK * 10);
    let (mut left, mut turns) = (crowd, 0);
    for now in 11.. {
        schedule(&engine, SHARE, now, now - 1);
        clock.advance(TICK);
        assert_eq!(engine.turn_at_most(0, SHARE).unwrap().fired, SHARE);
        left -= take(&log).into_iter().filter(|&due| due == 10).count();
        turns += 1;
        if left == 0 {
            break;
        }
    }
    // Every other turn is the crowd's, after the first four.
    assert!(turns <= 4 + 2 * 20 + 2, "{turns} turns");
    assert_eq!(
        engine.advance(Duration::ZERO).unwrap(),
        engine.stats().fired as usize - turns * SHARE
    );
}

/// Two crowds and others: all go on.
#[test]
fn crowds_take_turns() {
    let (engine, clock, log) = engine(Builder::new());
    for due in 1..=3 {
        schedule(&engine, FIRST + 5 * SHARE, due, 0);
    }
    let mut last = [0; 4];
    for now in 1.. {
        clock.advance(TICK);
        schedule(&engine, 1, now, now);
        let turn = engine.turn_at_most(0, SHARE).unwrap();
        let fired = take(&log);
        // Each has had its first share by then, and the first two another one.
        assert!(now <= 4 * 3 + 3 || fired.contains(&now), "the one that is due at {now} waits");
        fired.into_iter().filter(|&due| due <= 3).for_each(|due| last[due as usize] = now);
        engine.check().unwrap();
        if !turn.more {
            break;
        }
    }
    assert!(engine.is_empty());
    // In the order of their ticks each would end nine turns after the one before.
    assert!(last[2] - last[1] <= 8 && last[3] - last[2] <= 8, "{last:?}");
}

fn is_in_order_though_turns_are_bounded(timers_of_a_tick: usize) -> bool {
    let (engine, clock, log) = engine(Builder::new().share(8));
    let random = &mut Random::new(7);
    for due in 1..=50 {
        schedule(&engine, timers_of_a_tick, due, 0);
    }
    clock.advance(TICK);
    for _ in 0.. {
        let turn = engine.turn_at_most(0, random.below(40) as usize).unwrap();
        engine.check().unwrap();
        if engine.is_empty() {
            break;
        }
        if random.below(3) == 0 || !turn.more {
            clock.advance(TICK);
        }
    }
    let log = take(&log);
    assert_eq!(log.len(), 50 * timers_of_a_tick);
    log.is_sorted()
}

#[test]
fn bounded_turns_keep_the_order_of_ticks_unless_there_is_a_crowd() {
    assert!(is_in_order_though_turns_are_bounded(32));
    assert!(!is_in_order_though_turns_are_bounded(64));
}

#[test]
fn turns_without_a_bound_keep_the_order_of_ticks_in_any_crowd() {
    let (engine, clock, log) = engine(Builder::new().share(1));
    for due in 1..=100 {
        schedule(&engine, 300, due, 0);
    }
    clock.advance(TICK * 60);
    assert_eq!(engine.turn(0).unwrap().fired, 60 * 300);
    assert_eq!(engine.advance(TICK * 40).unwrap(), 40 * 300);
    let log = take(&log);
    assert!(log.len() == 100 * 300 && log.is_sorted());
}

/// An engine in which a crowd is parked, with handles of its timers.
fn parked() -> (Engine<Token>, ManualClock, Fates, Vec<Handle<Token>>) {
    let (clock, fates) = (ManualClock::new(), Fates::new(200));
    let builder = Builder::new().tick(TICK).shards(1).manual_clock(&clock).share(1);
    let engine = builder.build_each(|token: Token| token.run()).unwrap();
    let handles = (0..100).map(|n| engine.schedule(TICK, fates.token(n)).unwrap()).collect();
    engine.schedule_detached(TICK * 2, fates.token(100)).unwrap();
    clock.advance(TICK);
    assert_eq!(engine.turn_at_most(0, 10).unwrap().fired, 10);
    clock.advance(TICK);
    assert_eq!(engine.turn_at_most(0, 1).unwrap().fired, 1);
    assert_eq!(fates.of(100).0, 1, "it has passed the crowd");
    engine.check().unwrap();
    (engine, clock, fates, handles)
}

fn runs(fates: &Fates) -> usize {
    (0..200).filter(|&number| fates.of(number).0 > 0).count()
}

#[test]
fn a_stop_returns_what_is_parked() {
    let (engine, _clock, fates, handles) = parked();
    let returned = engine.stop().unwrap();
    assert_eq!((returned.len(), runs(&fates)), (90, 11));
    drop((returned, handles, engine));
    assert!((0..=100).all(|number| fates.of(number).1 == 1), "each was dropped, once");
}

#[test]
fn what_is_parked_is_dropped_with_the_engine() {
    let (engine, _clock, fates, handles) = parked();
    drop((engine, handles));
    assert_eq!(runs(&fates), 11);
    assert!((0..=100).all(|number| fates.of(number).1 == 1), "each was dropped, once");
}

#[test]
fn what_is_parked_can_be_cancelled_and_moved_and_its_seats_are_left() {
    let (engine, clock, fates, handles) = parked();
    let (mut cancelled, mut moved, mut kept) = (Vec::new(), Vec::new(), Vec::new());
    for (number, mut handle) in handles.into_iter().enumerate().filter(|&(n, _)| fates.of(n).0 == 0)
    {
        match number % 3 {
            0 => {
                assert!(handle.cancel());
                cancelled.push(number);
            }
            1 => {
                assert!(handle.reset(TICK * 5).is_ok());
                moved.push(number);
                kept.push(handle);
            }
            _ => kept.push(handle),
        }
    }
    engine.check().unwrap();
    // They do not take the seats of those that were cancelled, in the parked hand.
    let before = engine.stats().seated;
    for number in 101..111 {
        engine.schedule_detached(TICK * 5, fates.token(number)).unwrap();
    }
    assert_eq!(engine.stats().seated - before, 0);
    while engine.turn_at_most(0, 7).unwrap().more {
        engine.check().unwrap();
    }
    let due_later = moved.len() + 10;
    assert_eq!(runs(&fates), 101 - cancelled.len() - moved.len());
    assert!(cancelled.iter().all(|&number| fates.of(number) == (0, 1)));
    assert_eq!(engine.advance(TICK * 4).unwrap(), 0);
    assert_eq!(engine.advance(TICK).unwrap(), due_later);
    assert!(engine.is_empty());
    drop((kept, clock));
}

/// Each of the doors that move a timer by its word alone. `fired`: so many timers of the crowd have
/// fired before.
fn doors_take_their_timers_out_of_a_crowd(fired: usize) {
    let (clock, runs) = (ManualClock::new(), Arc::new(Mutex::new(Vec::new())));
    let builder = Builder::new().tick(TICK).shards(1).manual_clock(&clock).share(1);
    let engine = builder.build().unwrap();
    let note = |name: &'static str| {
        let runs = runs.clone();
        move || runs.lock().unwrap().push(name)
    };
    let timers = KeyedTimers::with_engine(&engine);
    timers.schedule_keyed("key", TICK, note("keyed")).unwrap();
    let mut sleep = engine.sleep(TICK);
    let mut queue = engine.delay_queue();
    let item = queue.insert("item", TICK);
    let waker = &mut Context::from_waker(Waker::noop());
    assert!(Pin::new(&mut sleep).poll(waker).is_pending());
    assert!(queue.poll_expired(waker).is_pending());
    // The lists are LIFO: these fire before the others.
    (0..100).for_each(|_| engine.schedule_detached(TICK, note("crowd")).unwrap());
    clock.advance(TICK);
    assert_eq!(engine.turn_at_most(0, fired).unwrap().fired, fired);
    timers.reset("key", TICK).unwrap();
    sleep.reset(TICK);
    assert!(queue.reset(item, TICK));
    assert!(Pin::new(&mut sleep).poll(waker).is_pending());
    assert!(queue.poll_expired(waker).is_pending());
    clock.advance(TICK);
    for _ in fired..20 {
        assert!(engine.turn_at_most(0, 1).unwrap().more, "the crowd has not ended");
    }
    assert!(runs.lock().unwrap().contains(&"keyed"));
    assert!(Pin::new(&mut sleep).poll(waker).is_ready());
    assert!(queue.poll_expired(waker).is_ready());
}

#[test]
fn a_door_takes_its_timer_out_of_a_crowd() {
    doors_take_their_timers_out_of_a_crowd(10);
}

#[test]
fn a_door_takes_its_timer_out_of_a_crowd_that_is_due_and_not_open_yet() {
    doors_take_their_timers_out_of_a_crowd(0);
}

#[test]
fn a_snapshot_has_what_is_parked() {
    let (engine, _clock, _fates, handles) = parked();
    assert_eq!((engine.len(), engine.snapshot().len()), (90, 90));
    drop(handles);
}

/// A crowd has begun to fire, 1,024 timers in a turn. In each tick, `move_one` makes one
/// of its timers, the one that was filed first, due a tick later. Returns how many of those have
/// fired when the last of them is due.
fn fired_beside_the_crowd(
    mut move_one: impl FnMut(&Engine<u64>, Handle<u64>, u64) -> Option<Handle<u64>>,
) -> u64 {
    let (engine, clock, log) = engine(Builder::new());
    let handles = (0..CROWD as u64).map(|n| engine.schedule(TICK * 10, n).unwrap());
    let (mut handles, mut kept) = (handles.collect::<Vec<_>>().into_iter(), Vec::new());
    clock.advance(TICK * 10);
    engine.turn_at_most(0, SHARE).unwrap();
    for number in 0..TICKS {
        kept.extend(move_one(&engine, handles.next().unwrap(), number));
        clock.advance(TICK);
        engine.turn_at_most(0, SHARE).unwrap();
    }
    engine.check().unwrap();
    // The turns under way when they became due: one of the crowd's, and their own.
    (0..2).for_each(|_| _ = engine.turn_at_most(0, SHARE).unwrap());
    assert!(engine.len() > CROWD / 3, "the crowd has not ended");
    drop(handles);
    take(&log).into_iter().filter(|&number| number < TICKS).count() as u64
}

#[test]
fn a_timer_that_takes_a_place_in_a_crowd_does_not_wait_for_it() {
    let fired = fired_beside_the_crowd(|engine, handle, number| {
        assert!(handle.cancel(), "it waits in the crowd");
        engine.schedule_detached(TICK, number).unwrap();
        None
    });
    assert_eq!(fired, TICKS);
}

#[test]
fn a_timer_that_leaves_a_crowd_for_later_does_not_wait_for_it() {
    let fired = fired_beside_the_crowd(|_, mut handle, _| {
        assert_eq!(handle.reset(TICK), Ok(()), "it waits in the crowd");
        Some(handle)
    });
    assert_eq!(fired, TICKS);
}

/// Five crowds are due, and the first of them has begun to fire, 1,024 in a turn. `join` makes
/// something due in the next tick, with the help of a timer that was filed first in the last crowd,
/// and returns its number. Returns how many turns later it has fired.
fn turns_beside_due_crowds(
    join: impl FnOnce(&Engine<u64>, Handle<u64>) -> (u64, Option<Handle<u64>>),
) -> usize {
    const LAST: u64 = 14;
    let (engine, clock, log) = engine(Builder::new());
    let last = engine.schedule(TICK * LAST as u32, 1_000).unwrap();
    (10..=LAST).for_each(|due| schedule(&engine, FIRST + 4 * SHARE, due, 0));
    clock.advance(TICK * 20);
    engine.turn_at_most(0, SHARE).unwrap();
    let (number, _kept) = join(&engine, last);
    let turn = |_: &usize| {
        clock.advance(TICK);
        engine.turn_at_most(0, SHARE).unwrap();
        take(&log).contains(&number)
    };
    (1..=200).find(turn).expect("it fires")
}

fn turns_of_a_fresh_timer() -> usize {
    turns_beside_due_crowds(|engine, handle| {
        engine.schedule_detached(TICK, 2_000).unwrap();
        (2_000, Some(handle))
    })
}

#[test]
fn a_timer_does_not_take_a_place_in_a_crowd_that_is_due_and_not_open_yet() {
    let turns = turns_beside_due_crowds(|engine, handle| {
        assert!(handle.cancel(), "it waits in the last crowd");
        engine.schedule_detached(TICK, 2_000).unwrap();
        (2_000, None)
    });
    assert_eq!(turns, turns_of_a_fresh_timer());
}

#[test]
fn a_timer_that_is_moved_leaves_a_crowd_that_is_due_and_not_open_yet() {
    let turns = turns_beside_due_crowds(|_, mut handle| {
        assert_eq!(handle.reset(TICK), Ok(()), "it waits in the last crowd");
        (1_000, Some(handle))
    });
    assert_eq!(turns, turns_of_a_fresh_timer());
}

/// A shard with a thread's producer, whose turns are those of an engine's threads.
struct Shard {
    bench: Bench<u64>,
    in_hand: InHand<u64>,
}

impl Shard {
    fn new(share: usize) -> Shard {
        // SAFETY: what is built on it keeps to it; the bench closes its shard.
        let shared = unsafe { Shared::new(0, 1, None) }.with_share(share);
        let bench = Bench::new(shared, Geometry::default(), Bell::None, Tick::ZERO);
        Shard { bench, in_hand: InHand::default() }
    }

    fn schedule(&mut self, deadline: u64, now: u64) {
        self.bench.schedule([deadline, now], deadline, false);
    }

    /// A turn that looks at so many entries. Returns the deadlines that fired, in order.
    fn turn(&mut self, now: u64, looks: usize) -> (Report, Vec<u64>) {
        let now = Tick::new(now);
        let turned = self.bench.turn_of(&mut self.in_hand, now, looks);
        self.bench.check(now);
        turned
    }
}

/// The bucket of level 2 from 64 on is due, and so is, in each turn, something else. It was not
/// cascaded ahead of time, because nobody ran a turn.
#[test]
fn what_becomes_due_passes_a_coarse_crowd_that_is_re_filed() {
    const TIMERS: usize = 4_000;
    let (share, looks) = (8, 32);
    let mut shard = Shard::new(share);
    (0..TIMERS).for_each(|_| shard.schedule(95, 0));
    let mut waiting = Vec::new();
    for now in 65..95 {
        // In a bucket of level 1.
        shard.schedule(now, now - 1);
        waiting.push(now);
        let (report, fired) = shard.turn(now, looks);
        assert!(report.busy, "the crowd is not through");
        // Its first share is 16 shares, so four turns.
        let passes = now >= 65 + 4;
        assert_eq!(fired, if passes { std::mem::take(&mut waiting) } else { vec![] }, "at {now}");
    }
    let (_, fired) = shard.turn(95, usize::MAX);
    assert!(fired.len() == TIMERS && fired.iter().all(|&due| due == 95));
}

/// Entries that do not fire count too.
#[test]
fn a_bounded_turn_of_threads_goes_through_no_more_entries_than_it_may() {
    let mut shard = Shard::new(1_000);
    for _ in 0..500 {
        shard.schedule(70, 0);
    }
    let filed = |shard: &Shard| shard.bench.shared.all_counters.sums().get(Count::Cascaded);
    for turn in 1..=5 {
        assert_eq!(shard.turn(66, 100).0.busy, turn < 5);
        assert_eq!(filed(&shard), 100 * turn);
    }
    assert_eq!(shard.turn(70, 499).1.len(), 499);
    assert_eq!(shard.turn(70, 499).1.len(), 1);
}
