//! Freed early: what is large of an engine goes with the last who has it, whatever the threads that
//! used it keep.
//!
//! One test alone in its binary: every block that any thread allocates is counted.

use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use support::counting::{Counting, free_what_waits_for_readers, live, made_here};
use tickless::{Engine, Handle, ManualClock};

#[global_allocator]
static COUNTING: Counting = Counting;

const HOUR: Duration = Duration::from_secs(3600);

/// What one thread may keep of an engine that has ended: its seats, free entries and counters, and
/// the engine's frame.
const KEPT_AT_MOST: i64 = 64 << 10;

/// A thread that has used an engine, and keeps a part of it until it is let go.
struct User {
    let_go: mpsc::Sender<()>,
    thread: thread::JoinHandle<()>,
}

impl User {
    /// Answers when the user is idle, with what it has of the engine.
    fn of(engine: &Engine) -> (User, Vec<Handle>) {
        let engine = engine.clone();
        let (let_go, wait) = mpsc::channel();
        let (idle, is_idle) = mpsc::channel();
        let thread = thread::spawn(move || {
            let mut handles = Vec::new();
            for n in 0..8_000_u32 {
                let delay = [HOUR, HOUR * 30, HOUR * 900, HOUR / 3600][n as usize % 4];
                handles.push(engine.schedule(delay, || ()).unwrap());
            }
            for handle in handles.split_off(2000) {
                // On a busy machine, some of the shortest have fired by now.
                let _ = handle.cancel();
            }
            drop(engine);
            idle.send(handles).unwrap();
            let _ = wait.recv();
        });
        let handles = is_idle.recv().unwrap();
        (User { let_go, thread }, handles)
    }
}

fn bytes() -> i64 {
    free_what_waits_for_readers();
    live().bytes
}

/// What is left of an engine with so many slots when three idle threads have used it, and when
/// they have ended.
fn left_of(slots: u32, is_stopped: bool, is_manual: bool) -> [i64; 2] {
    let before = bytes();
    let builder = Engine::builder().slots(slots).shards(2);
    let builder = if is_manual { builder.manual_clock(&ManualClock::new()) } else { builder };
    let engine = builder.build().unwrap();
    let users = [(); 3].map(|()| User::of(&engine));
    let large = bytes() - before;
    assert!(large > 8 * KEPT_AT_MOST, "{large} bytes are nothing to speak of");
    if is_stopped {
        drop(engine.stop().unwrap());
    }
    drop(engine);
    let users = users.map(|(user, handles)| {
        drop(handles);
        user
    });
    let kept = bytes() - before;
    for user in users {
        drop(user.let_go);
        user.thread.join().unwrap();
    }
    [kept, bytes() - before]
}

#[test]
fn what_idle_threads_keep_of_an_engine_that_ended_is_small() {
    let in_a_thread = |slots, is_stopped, is_manual| {
        thread::spawn(move || left_of(slots, is_stopped, is_manual)).join().unwrap()
    };
    // The first round is for what the process makes once and keeps.
    in_a_thread(64, true, true);
    assert!(made_here() > 0, "the allocator that counts is in use");
    for slots in [64, 1 << 14] {
        for (is_stopped, is_manual) in [(true, true), (false, true), (true, false), (false, false)]
        {
            let [kept, left] = in_a_thread(slots, is_stopped, is_manual);
            assert!(kept <= 3 * KEPT_AT_MOST, "{slots} slots: idle threads keep {kept} bytes");
            // (Less than before, if a block that was there before goes back meanwhile.)
            assert!(left < 1024, "{slots} slots: {left} bytes are left");
        }
    }
}
