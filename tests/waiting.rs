//! Waiting: memory that a reader holds back is given back when the reader goes, and what is left
//! to the collector is freed while nothing else is to be done.

#[path = "common/alone.rs"]
mod alone;
#[path = "common/counting.rs"]
mod counting;

use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use alone::alone;
use counting::{Counting, Live, live, made_here};
use tickless::entry::{collect, read, waiting};
use tickless::{Engine, ManualClock};

#[global_allocator]
static COUNTING: Counting = Counting;

/// More timers than a thread's free list and the depot of one shard have room for, by far.
const MANY: usize = 10_000;

const HOUR: Duration = Duration::from_secs(3600);

const PATIENCE: Duration = Duration::from_secs(60);

fn engine_by_hand() -> Engine {
    Engine::builder().shards(1).manual_clock(&ManualClock::new()).build().unwrap()
}

/// Gives the memory of many timers back: their handles are the last to hold it.
fn litter(engine: &Engine) {
    let handles: Vec<_> = (0..MANY).map(|_| engine.schedule(HOUR, || ()).unwrap()).collect();
    assert_eq!(engine.advance(HOUR).unwrap(), MANY);
    drop(handles);
}

/// Collects until that is of no more use.
fn settled() -> Live {
    while collect() {}
    live()
}

/// What lives after a reader was there for some rounds, compared to what lived before: in entries
/// and in bytes.
fn growth(engine: &Engine, hold: impl FnOnce(&dyn Fn())) -> (i64, i64) {
    litter(engine);
    let before = settled();
    assert!(made_here() > 0, "the allocator that counts is in use");
    hold(&|| {
        let held = live();
        (0..10).for_each(|_| litter(engine));
        let kept = live().entries - held.entries;
        assert!(kept > 7 * MANY as i64, "only {kept} entries are held back");
        assert!(!collect(), "a reader is in the way");
    });
    let after = live();
    (after.entries - before.entries, after.bytes - before.bytes)
}

fn assert_little((entries, bytes): (i64, i64)) {
    assert!(entries.abs() < MANY as i64 / 10, "{entries} entries more");
    assert!(bytes.abs() < 256 * 1024, "{bytes} bytes more");
}

#[test]
fn what_a_reader_held_back_is_given_back_when_it_goes() {
    let _alone = alone();
    let engine = engine_by_hand();
    let grown = growth(&engine, |meanwhile| {
        let _reader = read();
        meanwhile();
    });
    assert_little(grown);
}

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
        assert!(waiting() > 100, "the other is still there");
        release.send(()).unwrap();
        other.join().unwrap();
    });
    assert_little(grown);
}

#[test]
fn a_look_at_what_is_pending_frees_what_it_held_back() {
    let _alone = alone();
    let engine = engine_by_hand();
    litter(&engine);
    assert!(waiting() > 0, "the last batch waits for somebody to come by");
    assert!(engine.snapshot().is_empty());
    assert_eq!(waiting(), 0);
}

#[test]
fn a_turn_with_nothing_to_do_frees_what_waits() {
    let _alone = alone();
    let engine = engine_by_hand();
    litter(&engine);
    assert!(waiting() > 0, "the last batch waits for somebody to come by");
    assert_eq!(engine.turn(0).unwrap().fired, 0);
    assert_eq!(waiting(), 0);
}

#[test]
fn a_reaper_frees_what_waits_before_it_sleeps() {
    let _alone = alone();
    let engine = Engine::builder().shards(1).build().unwrap();
    (0..MANY).for_each(|_| engine.schedule_detached(Duration::ZERO, || ()).unwrap());
    let began = Instant::now();
    while !engine.is_empty() || waiting() > 0 {
        assert!(began.elapsed() < PATIENCE, "{} batches wait", waiting());
        thread::yield_now();
    }
}
