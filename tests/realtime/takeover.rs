//! A reaper that waits for room, as it was told to, is not taken over, for four times as long as a
//! task may take. (A reaper that the system suspends for so long is taken over with reason.)
//! `tests/races/engine/takeover.rs` has the other tests of takeovers.

use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use tickless::Engine;
use tickless::dispatch::{Channel, Full, Pool};
use tickless_sync::Mutex;

use crate::attempts::succeeds_at_last;
use support::patience::PATIENCE;

const MS: Duration = Duration::from_millis(1);

/// Longer than the system mostly keeps a thread from running. One that it keeps for longer is taken
/// over, and the attempt says nothing then.
const LONG: Duration = Duration::from_millis(250);

/// Lets a reaper hand a hundred payloads to what has room for one, and `take` them all after four
/// times as long as a task may take. Returns whether they came in order and nothing was taken over.
fn waits_for_room(
    handler: impl tickless::Handler<u64> + 'static,
    take: impl FnOnce() -> Vec<u64>,
) -> bool {
    let builder = Engine::builder().shards(1).tick(MS / 20).takeover(LONG);
    let engine = builder.build_with_handler(handler).unwrap();
    // So late that all are scheduled by then.
    let at = engine.now() + MS * 200;
    for n in 0..100 {
        engine.schedule_detached(at + MS / 20 * n, u64::from(n)).unwrap();
    }
    thread::sleep(4 * LONG);
    let mut all = take();
    let is_in_order = all.is_sorted();
    all.sort_unstable();
    assert!(all.into_iter().eq(0..100));
    is_in_order && engine.stats().takeovers == 0
}

#[test]
fn a_reaper_that_waits_for_room_is_not_taken_over() {
    succeeds_at_last("a pool whose thread is busy", || {
        let ((release, released), (sender, ran)) = (mpsc::channel::<()>(), mpsc::channel());
        let released = Mutex::new(released);
        // The first task is the one that is busy; then its end is closed.
        let work = move |n: u64| {
            let _ = released.lock().unwrap().recv();
            sender.send(n).unwrap();
        };
        let pool = Pool::builder(Full::Block).threads(1).queue_bound(1).build_typed(work).unwrap();
        waits_for_room(pool, move || {
            drop(release);
            (0..100).map(|_| ran.recv_timeout(PATIENCE).unwrap()).collect()
        })
    });
    succeeds_at_last("a channel that is full", || {
        let (sender, receiver) = crossbeam_channel::bounded::<u64>(1);
        waits_for_room(Channel::blocking(sender), move || receiver.iter().take(100).collect())
    });
}
