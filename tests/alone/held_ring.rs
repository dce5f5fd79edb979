//! Held in a ring: a thread that stands still where it is about to wake another one, the reaper or
//! a thread that waits for its turn of a shard, leaves nobody else without a wake-up. (The system
//! stops it there: it calls a handler in place of the wake-up.)

#![cfg(all(target_os = "linux", not(elsewhere)))]

use std::ffi::c_int;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use support::child::in_a_child;
use support::refuse::refuse_wakeups;
use tickless::{Driver, Engine};

const MS: Duration = Duration::from_millis(1);
/// Less than a child process may take.
const PATIENCE: Duration = Duration::from_secs(20);

/// Where the thread that stands still says so.
static SAYS: AtomicI32 = AtomicI32::new(-1);
static MAY_GO: AtomicBool = AtomicBool::new(false);

/// Called by the thread that was about to wake another one. The wake-up is left out.
extern "C" fn stand_still(_: c_int) {
    // SAFETY: the file is open until the process ends, and one byte is there.
    unsafe { libc::write(SAYS.load(Ordering::SeqCst), [1_u8].as_ptr().cast(), 1) };
    while !MAY_GO.load(Ordering::SeqCst) {
        // SAFETY: it takes nothing.
        unsafe { libc::sched_yield() };
    }
}

/// A file from which can be read when a thread stands still.
fn stands() -> c_int {
    let mut ends = [0; 2];
    // SAFETY: there is place for two, and the handler calls only what a handler may.
    unsafe {
        assert_eq!(libc::pipe(ends.as_mut_ptr()), 0);
        let handler: extern "C" fn(c_int) = stand_still;
        assert_ne!(libc::signal(libc::SIGSYS, handler as libc::sighandler_t), libc::SIG_ERR);
    }
    SAYS.store(ends[1], Ordering::SeqCst);
    ends[0]
}

#[test]
fn a_ring_that_stands_still_does_not_swallow_those_of_others() {
    in_a_child("a ring", || {
        let stands = stands();
        let engine = Engine::builder().shards(1).build().unwrap();
        let ringer = engine.clone();
        let held = thread::spawn(move || {
            refuse_wakeups(libc::SECCOMP_RET_TRAP);
            // Until the reaper was asleep.
            for n in 1.. {
                static FIRED: AtomicU32 = AtomicU32::new(0);
                let fire = || _ = FIRED.fetch_add(1, Ordering::SeqCst);
                ringer.schedule_detached(MS, fire).unwrap();
                if MAY_GO.load(Ordering::SeqCst) {
                    return;
                }
                while FIRED.load(Ordering::SeqCst) < n {
                    thread::yield_now();
                }
            }
        });
        // SAFETY: there is place for a byte.
        assert_eq!(unsafe { libc::read(stands, [0_u8].as_mut_ptr().cast(), 1) }, 1);
        for n in 0..10 {
            let (fire, fired) = mpsc::channel();
            let other = engine.clone();
            let other =
                thread::spawn(move || other.schedule_detached(MS, move || _ = fire.send(())));
            other.join().unwrap().unwrap();
            assert!(fired.recv_timeout(PATIENCE).is_ok(), "timer {n} waits for a held thread");
        }
        MAY_GO.store(true, Ordering::SeqCst);
        held.join().unwrap();
        engine.stop().unwrap();
    });
}

/// Whether that thread of the process is asleep.
fn is_asleep(thread: libc::pid_t) -> bool {
    let status = std::fs::read_to_string(format!("/proc/self/task/{thread}/status")).unwrap();
    status.lines().any(|line| line.starts_with("State:\tS"))
}

/// A thread that runs turns, and counts them before and after; and its number. (Nothing here takes
/// memory, whose lock would wake a thread as well.)
static OTHER: AtomicI32 = AtomicI32::new(0);
static BEGUN: AtomicU32 = AtomicU32::new(0);
static ENDED: AtomicU32 = AtomicU32::new(0);

#[test]
fn a_thread_that_stands_still_where_it_gives_a_shard_back_leaves_nobody_waiting() {
    in_a_child("giving back", || {
        let stands = stands();
        let engine = Engine::builder().driver(Driver::Caller).shards(1).build().unwrap();
        let second = engine.clone();
        let waits = thread::spawn(move || {
            // SAFETY: it takes nothing.
            OTHER.store(unsafe { libc::gettid() }, Ordering::SeqCst);
            while !MAY_GO.load(Ordering::SeqCst) {
                BEGUN.fetch_add(1, Ordering::SeqCst);
                second.turn(0).unwrap();
                ENDED.fetch_add(1, Ordering::SeqCst);
            }
        });
        let first = engine.clone();
        let held = thread::spawn(move || {
            refuse_wakeups(libc::SECCOMP_RET_TRAP);
            let this = thread::current().id();
            // Until the other one has waited for the shard: it may sleep for another reason.
            while !MAY_GO.load(Ordering::SeqCst) {
                let inside = move || {
                    while thread::current().id() == this
                        && (OTHER.load(Ordering::SeqCst) == 0
                            || BEGUN.load(Ordering::SeqCst) == ENDED.load(Ordering::SeqCst)
                            || !is_asleep(OTHER.load(Ordering::SeqCst)))
                    {
                        thread::yield_now();
                    }
                };
                first.schedule_detached(Duration::ZERO, inside).unwrap();
                first.turn(0).unwrap();
            }
        });
        // SAFETY: there is place for a byte.
        assert_eq!(unsafe { libc::read(stands, [0_u8].as_mut_ptr().cast(), 1) }, 1);
        let waiting = BEGUN.load(Ordering::SeqCst);
        // A third one has the shard, and gives it back.
        engine.turn(0).unwrap();
        let begin = Instant::now();
        while ENDED.load(Ordering::SeqCst) < waiting {
            assert!(begin.elapsed() < PATIENCE, "it waits for a held thread");
            thread::yield_now();
        }
        MAY_GO.store(true, Ordering::SeqCst);
        held.join().unwrap();
        waits.join().unwrap();
    });
}
