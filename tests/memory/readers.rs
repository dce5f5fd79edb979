//! Waiting: what is freed waits for readers, and for no others. A reader that stands still holds
//! back little, however long it stays.

use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use support::alone::alone;
use support::counting::{live, made_here};
use support::until::wait_until;
use tickless::{Engine, ManualClock};
use tickless_core::entry::{read, waiting};

/// More timers than a thread's free list and the depot of one shard have room for, by far.
const MANY: usize = 50_000;

const HOUR: Duration = Duration::from_secs(3600);

fn engine_by_hand() -> Engine {
    Engine::builder().shards(1).manual_clock(&ManualClock::new()).build().unwrap()
}

/// Gives the memory of many timers back: their handles are the last to hold it.
fn litter(engine: &Engine) {
    let handles: Vec<_> = (0..MANY).map(|_| engine.schedule(HOUR, || ()).unwrap()).collect();
    assert_eq!(engine.advance(HOUR).unwrap(), MANY);
    drop(handles);
}

/// How often `MANY` timers come and go meanwhile.
const TIMES: i64 = 6;

/// What a reader holds back at most, while others schedule and fire: in entries. (With
/// AddressSanitizer an entry has a block of its own, which no list keeps for other timers.)
const HELD_BACK: i64 = if cfg!(asan) { TIMES } else { 1 } * MANY as i64;

/// Schedules and fires while a reader stands still, and after it. Returns by how much what lives
/// has grown since before it: in entries and in bytes.
fn growth(engine: &Engine, hold: impl FnOnce(&dyn Fn())) -> (i64, i64) {
    litter(engine);
    let before = live();
    assert!(made_here() > 0, "the allocator that counts is in use");
    hold(&|| {
        let held = live();
        (0..TIMES).for_each(|_| litter(engine));
        let kept = live().entries - held.entries;
        assert!(waiting() > 0, "a reader is in the way");
        assert!(kept < HELD_BACK + MANY as i64 / 10, "{kept} entries are held back");
    });
    litter(engine);
    engine.turn(0).unwrap();
    assert_eq!(waiting(), 0);
    let after = live();
    (after.entries - before.entries, after.bytes - before.bytes)
}

fn assert_little((entries, bytes): (i64, i64)) {
    assert!(entries.abs() < MANY as i64 / 10, "{entries} entries more");
    assert!(bytes.abs() < 256 * 1024, "{bytes} bytes more");
}

#[test]
fn a_reader_that_stands_still_holds_back_as_much_as_lived_at_a_time_and_gives_it_back() {
    let _alone = alone();
    let engine = engine_by_hand();
    let grown = growth(&engine, |meanwhile| {
        let _reader = read();
        meanwhile();
    });
    assert_little(grown);
}

/// It may read anything, also another engine.
#[test]
fn what_two_readers_held_back_is_given_back_when_the_last_goes() {
    let _alone = alone();
    let engine = engine_by_hand();
    let grown = growth(&engine, |meanwhile| {
        let reader = read();
        let ((tell, is_there), (release, is_released)) = (mpsc::channel(), mpsc::channel());
        let other = thread::spawn(move || {
            let reader = read();
            tell.send(()).unwrap();
            is_released.recv().unwrap();
            drop(reader);
        });
        is_there.recv().unwrap();
        meanwhile();
        drop(reader);
        assert!(waiting() > 0, "the other is still there");
        release.send(()).unwrap();
        other.join().unwrap();
        assert_eq!(waiting(), 0, "the last one frees what waits");
    });
    assert_little(grown);
}

/// Nobody else has to come by.
#[test]
fn what_no_reader_sees_is_freed_at_once() {
    let _alone = alone();
    let engine = engine_by_hand();
    for _ in 0..3 {
        litter(&engine);
        assert_eq!(waiting(), 0);
    }
}

/// The reaper has gone to sleep meanwhile, or frees it before it does.
#[test]
fn what_a_reader_holds_back_while_the_reaper_falls_asleep_is_freed_when_it_goes() {
    let _alone = alone();
    let engine = Engine::builder().shards(1).build().unwrap();
    let reader = read();
    (0..MANY).for_each(|_| engine.schedule_detached(Duration::ZERO, || ()).unwrap());
    let handles: Vec<_> = (0..MANY).map(|_| engine.schedule(HOUR, || ()).unwrap()).collect();
    handles.into_iter().for_each(|handle| assert!(handle.cancel()));
    wait_until("it has nothing to do", || engine.is_empty() && engine.stats().dead < 4096);
    drop(reader);
    wait_until("nothing waits", || waiting() == 0);
}

#[test]
fn a_reaper_frees_what_waits_before_it_sleeps() {
    let _alone = alone();
    let engine = Engine::builder().shards(1).build().unwrap();
    (0..MANY).for_each(|_| engine.schedule_detached(Duration::ZERO, || ()).unwrap());
    wait_until("nothing is left", || engine.is_empty() && waiting() == 0);
}
