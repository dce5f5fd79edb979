//! Shards that share threads, in real time: how few wake-ups they take, and that a shard whose
//! turns have taken long holds no other up. (`tests/races/engine/groups.rs` has all else.)

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use tickless::{Builder, Engine};

use crate::attempts::succeeds_at_last;
use support::on_shard::schedule_on;
use support::patience::PATIENCE;

const MS: Duration = Duration::from_millis(1);

fn builder(shards: usize) -> Builder {
    Engine::builder().shards(shards)
}

#[test]
fn timers_of_one_tick_take_one_wake_up_on_however_many_shards() {
    // Unless a thread is suspended so that some are late, or that another has to help.
    succeeds_at_last("fewer than 32 wake-ups for 64 timers of one tick", || {
        let engine = builder(64).build().unwrap();
        let fired = Arc::new(AtomicUsize::new(0));
        let deadline = engine.now() + 200 * MS;
        for shard in 0..64 {
            let fired = fired.clone();
            engine.bind_thread(shard).unwrap();
            engine
                .schedule_detached(deadline, move || _ = fired.fetch_add(1, Ordering::Relaxed))
                .unwrap();
        }
        while fired.load(Ordering::Relaxed) < 64 {
            thread::sleep(MS);
        }
        engine.stats().wake_ups < 32
    });
}

#[test]
fn a_shard_whose_turns_take_long_holds_no_other_up() {
    let engine = builder(2).reapers(1, 2).takeover(None).build().unwrap();
    let holds_none_up = || {
        let (sender, learned) = mpsc::channel();
        schedule_on(&engine, 0, Duration::ZERO, move || {
            thread::sleep(200 * MS);
            sender.send(()).unwrap();
        });
        learned.recv_timeout(PATIENCE).unwrap();
        // Until the thread that ran it has looked at the other shard and leads alone. Another would
        // lead meanwhile, and expects nothing of a shard that is served.
        thread::sleep(100 * MS);
        // The first task waits for the second, which is due soon after it, on the other shard.
        let (sender, receiver) = mpsc::channel();
        let (end, ended) = mpsc::channel();
        schedule_on(&engine, 1, 40 * MS, move || _ = sender.send(()));
        schedule_on(&engine, 0, 20 * MS, move || {
            end.send(receiver.recv_timeout(Duration::from_secs(1)).is_ok()).unwrap();
        });
        ended.recv_timeout(PATIENCE).unwrap()
    };
    // (The system may keep a thread from running for longer than any of these times.)
    assert!((0..20).any(|_| holds_none_up()));
    engine.stop().unwrap();
}
