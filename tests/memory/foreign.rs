//! Foreign code: what other crates leave to the epoch crate's default collector never runs in our
//! calls or on our threads, and a pin of theirs keeps none of our memory.
//!
//! In each test an engine gives much memory back to the allocator, which is when it collects. What
//! was planted on the default collector is ripe by then, and runs as soon as the test asks for it.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use support::alone::alone;
use support::counting::{free_what_waits_for_readers, live, made_here};
use tickless::{Engine, Handle, ManualClock};

/// More timers than a thread's free list and the depot of one shard have room for, by far.
const MANY: usize = 10_000;

const HOUR: Duration = Duration::from_secs(3600);

const PATIENCE: Duration = Duration::from_secs(60);

/// Destructors of somebody else, on the default collector.
struct Foreign {
    planted: u32,
    run: Arc<AtomicU32>,
}

// === impl Foreign ===

impl Foreign {
    fn new() -> Foreign {
        Foreign { planted: 0, run: Arc::new(AtomicU32::new(0)) }
    }

    /// Leaves `destructor` to the default collector, for the next thread that comes by.
    fn plant(&mut self, destructor: impl FnOnce() + Send + 'static) {
        let run = self.run.clone();
        let guard = crossbeam_epoch::pin();
        guard.defer(move || {
            run.fetch_add(1, Ordering::SeqCst);
            destructor();
        });
        guard.flush();
        self.planted += 1;
    }

    /// None has run so far; now all do.
    fn assert_untouched(self) {
        let run = || self.run.load(Ordering::SeqCst);
        assert_eq!(run(), 0, "a foreign destructor ran in a call of ours");
        while run() < self.planted {
            let collect = || crossbeam_epoch::pin().flush();
            let _ = catch_unwind(AssertUnwindSafe(collect));
        }
    }
}

fn engine_by_hand() -> (Engine, ManualClock) {
    let clock = ManualClock::new();
    (Engine::builder().shards(1).manual_clock(&clock).build().unwrap(), clock)
}

/// Handles of timers that have fired: the last to hold their memory.
fn fired(engine: &Engine) -> Vec<Handle> {
    let handles = (0..MANY).map(|_| engine.schedule(HOUR, || ()).unwrap()).collect();
    assert_eq!(engine.advance(HOUR).unwrap(), MANY);
    handles
}

#[test]
fn what_a_foreign_destructor_cancels_on_another_engine_does_not_free_what_is_lent() {
    let _alone = alone();
    let mut foreign = Foreign::new();
    let [(stopped, _), (other, _)] = [engine_by_hand(), engine_by_hand()];
    let handles: Vec<Handle> = (0..MANY).map(|_| stopped.schedule(HOUR, || ()).unwrap()).collect();
    let timer = other.schedule(HOUR, || ()).unwrap().cancel_on_drop();
    assert_eq!(stopped.stop().unwrap().len(), MANY);
    foreign.plant(|| drop(timer));
    drop(handles);
    assert_eq!(other.len(), 1);
    foreign.assert_untouched();
    assert_eq!(other.len(), 0);
}

#[test]
fn what_a_foreign_destructor_schedules_on_the_same_engine_finds_no_part_of_it_lent() {
    let _alone = alone();
    let mut foreign = Foreign::new();
    let (engine, _) = engine_by_hand();
    let handles = fired(&engine);
    let user = engine.clone();
    foreign.plant(move || user.schedule_detached(HOUR, || ()).unwrap());
    drop(handles);
    assert_eq!(engine.len(), 0);
    foreign.assert_untouched();
    assert_eq!(engine.len(), 1);
}

#[test]
fn a_foreign_destructor_that_panics_ends_no_reaper() {
    let _alone = alone();
    let mut foreign = Foreign::new();
    let engine = Engine::builder().shards(1).build().unwrap();
    let (sender, receiver) = mpsc::channel();
    for _ in 0..2 {
        foreign.plant(|| panic!("planned"));
        for _ in 0..MANY {
            let sender = sender.clone();
            engine.schedule_detached(Duration::ZERO, move || sender.send(()).unwrap()).unwrap();
        }
        assert!((0..MANY).all(|_| receiver.recv_timeout(PATIENCE).is_ok()));
    }
    assert!(engine.stop().unwrap().is_empty());
    foreign.assert_untouched();
}

#[test]
fn a_foreign_destructor_that_stops_an_engine_meets_no_stop_of_it() {
    let _alone = alone();
    let mut foreign = Foreign::new();
    let (done, is_done) = mpsc::channel();
    let (engine, _) = engine_by_hand();
    let user = engine.clone();
    foreign.plant(move || assert!(user.stop().is_ok_and(|left| left.is_empty())));
    (0..MANY).for_each(|_| engine.schedule_detached(HOUR, || ()).unwrap());
    // On a thread of its own: it would never come back.
    let stop = thread::spawn(move || done.send(engine.stop().unwrap().len()).unwrap());
    assert_eq!(is_done.recv_timeout(PATIENCE), Ok(MANY));
    stop.join().unwrap();
    foreign.assert_untouched();
}

#[test]
fn a_foreign_destructor_that_blocks_delays_no_call() {
    let _alone = alone();
    let mut foreign = Foreign::new();
    let (engine, _) = engine_by_hand();
    let handles = fired(&engine);
    let (release, is_released) = mpsc::channel();
    foreign.plant(move || is_released.recv_timeout(PATIENCE).expect("nobody waits for it"));
    drop(handles);
    let handles: Vec<Handle> = (0..MANY).map(|_| engine.schedule(HOUR, || ()).unwrap()).collect();
    assert!(handles.into_iter().all(|handle| handle.cancel()));
    release.send(()).unwrap();
    foreign.assert_untouched();
}

#[test]
fn a_foreign_pin_keeps_none_of_our_memory() {
    let _alone = alone();
    let pin = crossbeam_epoch::pin();
    let (engine, _) = engine_by_hand();
    drop(fired(&engine));
    let first = live();
    assert!(made_here() > 0, "the allocator that counts is in use");
    for _ in 0..8 {
        drop(fired(&engine));
    }
    let last = live();
    let kept = last.entries - first.entries;
    // (What waits in depots is of more and more blocks, whose other entries serve the next timers.
    // Were it kept, it would be as much in each round.)
    assert!(kept < MANY as i64, "{kept} more entries than after the first round");
    drop((engine, pin));
    free_what_waits_for_readers();
}
