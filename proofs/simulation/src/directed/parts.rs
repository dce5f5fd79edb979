//! Directed tests of the engine's parts, put together without an engine.

use std::slice;
use std::sync::atomic::Ordering;

use tickless::local::Geometry;
use tickless::{Batch, Tick};
use tickless_core::bench::Bench;
use tickless_core::dispatch::InHand;
use tickless_core::doorbell::Bell;
use tickless_core::memory::Shared;
use tickless_core::producer::{self, Moved};
use tickless_core::reaper::Ending;
use tickless_core::sync::AtomicBool;

/// A shard with a thread's producer.
fn bench() -> Bench<u32> {
    // SAFETY: what is built on it keeps to it; the bench closes its shard.
    let shared = unsafe { Shared::new(1, 1, None) };
    Bench::new(shared, Geometry::default(), Bell::None, Tick::ZERO)
}

/// A reset to an earlier time reads the clock between the old entry and the new one: the shard is
/// closed just then. The timer stays with its handle, and a turn finds the shard closed.
pub(super) fn a_shard_is_closed_in_a_reset() {
    let mut bench = bench();
    let entry = bench.schedule([50_000, 0], 7, true);
    let Bench { shard, producer, shared, around } = &mut bench;
    let close = || {
        let mut owner = shard.owner().lock().expect("nothing panics here");
        assert!(shard.close(&mut owner, shared).is_empty(), "the timer is in neither entry");
        Tick::ZERO
    };
    // SAFETY: the handle is ours.
    let moved = unsafe { producer.reset(shared, shard, entry, Tick::new(5), close) };
    let Moved::Stranded(entry) = moved else { panic!("the shard was closed: {moved:?}") };
    let lent = (&mut *producer, &*shared, slice::from_ref(&*shard));
    // SAFETY: the handle is given up here.
    assert_eq!(unsafe { producer::take::<_, _, false>(entry, lent) }, Some(7));
    let handler = |batch: Batch<'_, u32>| batch.for_each(drop);
    let stopping = AtomicBool::new(false);
    let reaper = around.reaper(shard, shared, &handler, &stopping);
    assert!(reaper.turn(&mut InHand::new(), Tick::new(9), usize::MAX).is_none());
    assert!(!reaper.stopping.load(Ordering::Relaxed));
}

/// A thread that let go of seats does not wait for the owner.
pub(super) fn a_sweep_finds_the_shard_taken() {
    let Bench { shard, shared, .. } = &bench();
    let owner = shard.owner().lock().expect("nothing panics here");
    shard.help_sweep(shared);
    drop(owner);
}

/// A watcher has seen a hand-over that is over when it takes the shard over.
pub(super) fn a_takeover_is_late() {
    let ending = Ending::<u32, ()>::new(1, ());
    let mut turns = ending.take(0).expect("nobody has the role");
    let (_, in_hand) = turns.parts();
    in_hand.fill(&mut vec![(Tick::ZERO, 7)], None);
    in_hand.open(1, 0);
    let seen = ending.progress(0).expect("the line is open");
    assert_eq!(in_hand.close(), Ok(()));
    assert!(ending.take_over(0, seen, || panic!("nothing is lost")).is_none());
    assert_eq!(in_hand.take(), [(Tick::ZERO, 7)]);
}
