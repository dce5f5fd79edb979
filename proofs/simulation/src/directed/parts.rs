//! Directed tests of the engine's parts, put together without an engine.

use std::slice;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tickless::local::Geometry;
use tickless::{Batch, ManualClock, Tick};
use tickless_core::bench::{Around, Bench};
use tickless_core::dispatch::InHand;
use tickless_core::doorbell::{Bell, Doorbell};
use tickless_core::entry::Entry;
use tickless_core::memory::Shared;
use tickless_core::producer::{self, Moved, Producer};
use tickless_core::reaper::Ending;
use tickless_core::shard::Shard;
use tickless_sync::AtomicBool;

/// A shard with a thread's producer.
fn bench() -> Bench<u32> {
    Bench::new(shared(), Geometry::default(), Bell::None, Tick::ZERO)
}

fn shared() -> Shared<u32> {
    // SAFETY: what is built on it keeps to it, and is closed before it goes.
    unsafe { Shared::new(1, 1, None) }
}

/// A reset to an earlier time reads the clock between the old entry and the new one: the shard is
/// closed just then. The timer stays with its handle, and a turn finds the shard closed.
pub(super) fn a_shard_is_closed_in_a_reset() {
    let mut bench = bench();
    let mut entry = bench.schedule([50_000, 0], 7, true);
    let Bench { shard, producer, shared, around } = &mut bench;
    let close = || {
        let mut owner = shard.owner().lock().expect("nothing panics here");
        assert!(shard.close(&mut owner, shared).is_empty(), "the timer is in neither entry");
        Tick::ZERO
    };
    // SAFETY: the handle is ours.
    let moved = unsafe {
        let (before, keep) = (entry, |other| entry = other);
        producer.reset(shared, shard, before, Tick::new(5), close, || Tick::ZERO, keep)
    };
    assert_eq!(moved, Moved::Stranded, "the shard was closed");
    let lent = (&mut *producer, &*shared, slice::from_ref(&*shard));
    // SAFETY: the handle is given up here.
    assert_eq!(unsafe { producer::take::<_, _, false>(entry, lent) }, Some(7));
    let handler = |batch: Batch<'_, u32>| batch.for_each(drop);
    let stopping = AtomicBool::new(false);
    let context = around.turn_context(shard, shared, &handler, &stopping);
    assert!(context.turn(&mut InHand::default(), Tick::new(9), usize::MAX).is_none());
    assert!(!context.stopping.load(Ordering::Relaxed));
}

/// A sweep has paused in a bucket that opens: the owner finds what lives.
pub(super) fn a_bucket_opens_under_a_sweep() {
    let parts = littered();
    let (shard, shared) = &parts;
    let lock = || shard.owner().lock().expect("nothing panics here");
    assert!(shard.sweep_some(&mut lock(), shared, 5), "a sweep is wanted");
    assert_eq!(turn(&parts, Tick::new(5)), 16);
    let mut owner = lock();
    shard.check(&mut owner, shared, Tick::new(5)).expect("all is in order");
    assert!(shard.close(&mut owner, shared).is_empty());
}

/// A shard with 16 timers in the lists of a bucket, and eight dead entries between them. A sweep is
/// wanted.
fn littered() -> (Shard<u32>, Shared<u32>) {
    let (shared, geometry) = (shared(), Geometry::new(8, 8).expect("a shape that wheels can have"));
    let shard = Shard::new(0, geometry, Doorbell::new(Bell::None), Tick::ZERO, &shared);
    let mut producer = Producer::new(&shared, 0);
    for n in 0..24 {
        let due = Tick::new(5);
        let is_dead = n / 8 == 1;
        let now = Tick::ZERO;
        // SAFETY: nothing is kept.
        let filed = unsafe {
            producer.schedule::<false, false>(
                &shared,
                &shard,
                due,
                || now,
                || now,
                n,
                is_dead,
                |_| (),
            )
        };
        let (entry, _) = filed.expect("the shard is open");
        if is_dead {
            // SAFETY: the handle is ours, and is given up here.
            unsafe {
                entry.as_ref().cancel().expect("it is pending");
                assert!(!Entry::let_go(entry));
            }
        }
    }
    let _ = producer.clear(&shared);
    producer.hand_back(&shared);
    shard.ask_for_sweep();
    (shard, shared)
}

/// Runs a turn at `now`. Returns how many timers have fired.
fn turn((shard, shared): &(Shard<u32>, Shared<u32>), now: Tick) -> usize {
    let handler = |batch: Batch<'_, u32>| batch.for_each(drop);
    let around = Around::new(&ManualClock::new(), Duration::from_millis(1));
    let stopping = AtomicBool::new(false);
    let context = around.turn_context(shard, shared, &handler, &stopping);
    context.turn(&mut InHand::default(), now, usize::MAX).map_or(0, |report| report.fired)
}

/// A watcher has seen a hand-over that is over when it takes the shard over.
pub(super) fn a_takeover_is_late() {
    let ending = Ending::<u32, ()>::new(1, (), |_| false);
    let mut turns = ending.take_role(0).expect("nobody has the role");
    let (_, in_hand) = turns.parts();
    in_hand.fill(&mut vec![(Tick::ZERO, 7)], 0);
    in_hand.open(1, 0);
    let seen = ending.progress(0).expect("the line is open");
    assert_eq!(in_hand.close(), Ok(()));
    assert!(ending.take_over(0, seen, || panic!("nothing is lost")).is_none());
    assert_eq!(in_hand.take(), [(Tick::ZERO, 7)]);
}
