//! Size: very many timers, very many at one time, and time that goes on in leaps. Every payload
//! is accounted for and none is early.
//!
//! `TICKLESS_TEST_SCALE=200` in a release build is ten million pending timers (2 GB).

use std::time::Duration;

use support::account::{Book, Item, Sums, Timer, run_all};
use support::random::Random;
use support::scaled;
use tickless::{Builder, Engine, ManualClock};

const MS: Duration = Duration::from_millis(1);

const SECOND: Duration = Duration::from_secs(1);

const HOUR: Duration = Duration::from_secs(3600);

fn by_hand(shards: usize, most: u64) -> (Engine<Item>, ManualClock, Book) {
    let clock = ManualClock::new();
    let builder = Builder::new().shards(shards).manual_clock(&clock);
    let book = Book::by_hand(&clock, most);
    (builder.build_with_handler(run_all).unwrap(), clock, book)
}

/// Runs turns of a shard until it has nothing to do, and answers how many timers they fired.
fn turns(engine: &Engine<Item>, shard: usize) -> u64 {
    let mut fired = 0;
    loop {
        let turn = engine.turn(shard).unwrap();
        fired += turn.fired as u64;
        if !turn.more {
            return fired;
        }
    }
}

#[test]
fn ten_million_pending_timers_are_held_fired_cancelled_and_returned() {
    let many = scaled(50_000);
    let (engine, clock, book) = by_hand(2, many);
    let random = &mut Random::new(1);
    let mut timers: Vec<Timer> = Vec::new();
    for n in 0..many {
        engine.bind_thread(n as usize % 2).unwrap();
        // Within three hours, of which one goes by.
        let delay = MS * random.below(3 * 3_600_000) as u32;
        match n % 4 {
            0 => timers.push(book.schedule(&engine, delay).unwrap()),
            _ => book.schedule_detached(&engine, delay).unwrap(),
        }
    }
    assert_eq!(engine.len() as u64, many, "all at a time");
    let mut fired = 0;
    for _ in 0..60 {
        clock.advance(SECOND * 60);
        fired += (0..2).map(|shard| turns(&engine, shard)).sum::<u64>();
    }
    let cancelled = timers.into_iter().filter(|_| random.below(2) == 0).map(Timer::cancel);
    let cancelled = cancelled.filter(|&won| won).count() as u64;
    engine.check().unwrap();
    let returned = book.stop(&engine);
    let sums = Sums { made: many, ran: fired, cancelled, returned, ..Sums::default() };
    assert_eq!(book.close(), sums);
    sums.agree_with(engine.stats());
    assert!(fired > many / 4 && returned > many / 4 && cancelled > many / 40, "{sums:?}");
}

#[test]
fn millions_of_timers_that_are_due_at_one_time_fire_then_and_not_before() {
    let many = scaled(25_000);
    let (engine, _clock, book) = by_hand(2, 2 * many);
    for delay in [HOUR, Duration::ZERO] {
        let timers: Vec<Timer> = (0..many)
            .map(|n| {
                engine.bind_thread(n as usize % 2).unwrap();
                book.schedule(&engine, delay).unwrap()
            })
            .collect();
        engine.check().unwrap();
        // Every fifth is cancelled, every other handle is dropped before or after the time.
        let (mut kept, mut cancelled) = (Vec::new(), 0);
        for (n, timer) in timers.into_iter().enumerate() {
            match n % 5 {
                0 => cancelled += u64::from(timer.cancel()),
                1 => drop(timer),
                _ => kept.push(timer),
            }
        }
        if !delay.is_zero() {
            assert_eq!(engine.advance(delay - MS), Ok(0));
        }
        assert_eq!(engine.advance(MS).unwrap() as u64, many - cancelled);
        assert!(kept.into_iter().all(|timer| !timer.cancel()));
        engine.check().unwrap();
    }
    assert_eq!(book.stop(&engine), 0);
    book.close().agree_with(engine.stats());
}

#[test]
fn a_burst_after_a_long_idle_is_fired_in_time() {
    let each = scaled(5000);
    let (engine, clock, book) = by_hand(1, 4 * 2 * each);
    let random = &mut Random::new(2);
    for idle in [SECOND, HOUR, HOUR * 24 * 30, HOUR * 24 * 365 * 10] {
        // No turn meanwhile: the shard's clock stays where it was, as while a reaper sleeps.
        clock.advance(idle);
        for _ in 0..each {
            let delay = Duration::from_micros(random.below(50_000));
            book.schedule_detached(&engine, delay).unwrap();
            book.schedule_detached(&engine, idle).unwrap();
        }
        engine.check().unwrap();
        assert_eq!(engine.advance(MS * 51).unwrap() as u64, each);
        assert_eq!(engine.len() as u64, each);
        // The rest comes down from wherever it was, in one leap.
        clock.advance(idle);
        assert_eq!(turns(&engine, 0), each, "after {idle:?}");
        assert!(engine.is_empty());
    }
    let sums = book.close();
    sums.agree_with(engine.stats());
    assert_eq!(sums.ran, 8 * each);
}

#[test]
fn a_clock_that_leaps_by_hours_skips_nothing_on_any_level() {
    let leaps = scaled(20);
    for (slots, reach) in [(2, 2), (64, 32), (1024, 1024)] {
        const EACH: u64 = 250;
        let clock = ManualClock::new();
        let builder = Builder::new().slots(slots).reach(reach).shards(2).manual_clock(&clock);
        let engine = builder.build_with_handler(run_all).unwrap();
        let book = Book::by_hand(&clock, leaps * EACH);
        let random = &mut Random::new(u64::from(slots));
        let mut timers: Vec<Timer> = Vec::new();
        for _ in 0..leaps {
            for n in 0..EACH {
                engine.bind_thread(n as usize % 2).unwrap();
                // Of every length from a microsecond to a year, so that all levels have some.
                let longest_us = 1 << (1 + random.below(44));
                let delay = Duration::from_micros(random.below(longest_us));
                timers.push(book.schedule(&engine, delay).unwrap());
            }
            for _ in 0..EACH / 4 {
                let at = random.below(timers.len() as u64) as usize;
                match random.below(3) {
                    0 => _ = timers.swap_remove(at).cancel(),
                    1 => drop(timers.swap_remove(at)),
                    _ => _ = timers[at].reset(HOUR * random.below(100) as u32),
                }
            }
            clock
                .advance(HOUR * random.below(48) as u32 + Duration::from_nanos(random.below(1000)));
            // Some leaps pass without a turn, and some turns are cut short.
            for shard in 0..random.below(3) as usize {
                match random.below(2) {
                    0 => drop(engine.turn_at_most(shard, 10).unwrap()),
                    _ => _ = turns(&engine, shard),
                }
            }
            engine.check().unwrap();
        }
        drop(timers);
        engine.advance(HOUR * 24 * 366).unwrap();
        assert_eq!(book.stop(&engine), 0);
        let sums = book.close();
        sums.agree_with(engine.stats());
        assert!(sums.ran > sums.cancelled && sums.cancelled > 0, "{sums:?}");
    }
}
