//! A task that serves an engine, and a thread that schedules just when another one begins a turn:
//! the system decides whether that comes about. `tests/suite/drive/attacks.rs` has the other
//! attacks.

use std::future::{Future, pending};
use std::hint::spin_loop;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::task::Poll;
use std::thread;
use std::time::{Duration, Instant};

use support::polling::{bell, poll};
use tickless::{Engine, ManualClock, TurnError};

const MS: Duration = Duration::from_millis(1);

type Driving = Pin<Box<dyn Future<Output = Result<(), TurnError>> + Send>>;

/// A turn that takes a shard over published an earlier time than the task sleeps for, and did not
/// tell it: it took the time that the lost turn had withdrawn for the one that others sleep for.
#[test]
fn a_task_hears_of_what_a_takeover_leaves() {
    let engine = Engine::builder().shards(1).manual_clock(&ManualClock::new()).build().unwrap();
    let (bell, waker) = bell();
    // Its sleeps never end by themselves: only rings wake it.
    let mut task: Driving = Box::pin(engine.drive(|_| pending::<()>()));
    // A timer that comes while a thread's turn begins is fired there, and the task is not rung. The
    // scheduler brings that about: no code of the test runs inside the turn. Threads that do not
    // run at the same time hardly come to it, and the test shows nothing then.
    let ends = Instant::now() + Duration::from_secs(10);
    for attempt in 0.. {
        if Instant::now() > ends {
            println!("no timer came while a turn began, {attempt} times");
            return;
        }
        assert_eq!(poll(&mut task, &waker), Poll::Pending);
        let woken = bell.woken();
        let (begin, begun) = mpsc::channel();
        let (release, released) = mpsc::channel::<()>();
        let deed = move || {
            begin.send(()).unwrap();
            let _ = released.recv();
        };
        let (go, ready) = (AtomicBool::new(false), AtomicBool::new(false));
        let heard = thread::scope(|threads| {
            let turning = threads.spawn(|| {
                ready.store(true, Ordering::SeqCst);
                while !go.load(Ordering::SeqCst) {
                    wait_a_little(attempt);
                }
                while engine.turn(0).unwrap().fired == 0 {}
            });
            while !ready.load(Ordering::SeqCst) {
                wait_a_little(attempt);
            }
            go.store(true, Ordering::SeqCst);
            engine.schedule_detached(Duration::ZERO, deed).unwrap();
            begun.recv().unwrap();
            let mut heard = None;
            if bell.woken() == woken {
                let _sooner = engine.schedule(MS, || ()).unwrap();
                assert_eq!(bell.woken(), woken, "a turn is under way");
                let turn = engine.take_over(0).unwrap().expect("a task is under way");
                assert!(turn.next.is_some());
                heard = Some(bell.woken() > woken);
            }
            drop(release);
            turning.join().unwrap();
            heard
        });
        if let Some(heard) = heard {
            assert!(heard, "the task sleeps for ever");
            return;
        }
    }
}

/// Spins, or lets another thread of this processor run.
fn wait_a_little(attempt: u32) {
    if attempt % 2 == 0 { spin_loop() } else { thread::yield_now() }
}
