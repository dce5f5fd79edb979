//! A system that refuses threads or fences after the engine was built: a task that is stuck is told
//! of, and its shard is taken over once the system gives what that takes. A thread that waits long
//! for the system to make another holds up no other group.
//!
//! (Without AddressSanitizer, which reports the stack of a thread that it does not know.)

#![cfg(all(target_os = "linux", not(any(elsewhere, asan))))]

use std::ffi::{c_int, c_void};
use std::mem;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use support::child::in_a_child;
use support::on_shard::schedule_on;
use support::refuse::refuse;
use support::until::wait_until;
use tickless::{Batch, Builder, Engine, StuckTask};

const MS: Duration = Duration::from_millis(1);
/// Less than a child process may take.
const PATIENCE: Duration = Duration::from_secs(20);

/// Whether threads are refused: in a child process, so that nobody else meets that.
static REFUSES: AtomicBool = AtomicBool::new(false);

/// Whether who makes a thread stands still; and whether one does.
static HOLDS: AtomicBool = AtomicBool::new(false);
static IS_HELD: AtomicBool = AtomicBool::new(false);

type Create = unsafe extern "C" fn(
    *mut libc::pthread_t,
    *const libc::pthread_attr_t,
    extern "C" fn(*mut c_void) -> *mut c_void,
    *mut c_void,
) -> c_int;

/// Stands before that of the C library.
///
/// # Safety
/// As there.
#[unsafe(no_mangle)]
unsafe extern "C" fn pthread_create(
    thread: *mut libc::pthread_t,
    attributes: *const libc::pthread_attr_t,
    main: extern "C" fn(*mut c_void) -> *mut c_void,
    argument: *mut c_void,
) -> c_int {
    if REFUSES.load(Ordering::SeqCst) {
        return libc::EAGAIN;
    }
    while HOLDS.load(Ordering::SeqCst) {
        IS_HELD.store(true, Ordering::SeqCst);
        thread::sleep(MS / 10);
    }
    // SAFETY: the name ends with a zero.
    let create = unsafe { libc::dlsym(libc::RTLD_NEXT, c"pthread_create".as_ptr()) };
    // SAFETY: the C library's function has this type.
    let create = unsafe { mem::transmute::<*mut c_void, Create>(create) };
    // SAFETY: passed on to the caller.
    unsafe { create(thread, attributes, main, argument) }
}

/// An engine of one shard, and what it tells of tasks that are stuck.
fn engine(builder: impl FnOnce(Builder) -> Builder) -> (Engine, mpsc::Receiver<StuckTask>) {
    let (tell, told) = mpsc::channel();
    let builder = builder(Engine::builder().shards(1).takeover(MS));
    // The engine may outlive the test.
    let builder = builder.on_stuck(move |task: &StuckTask| _ = tell.send(task.clone()));
    (builder.build().unwrap(), told)
}

/// Schedules a task that runs until the sender is dropped, and many others that tell of themselves.
fn get_stuck(engine: &Engine) -> (mpsc::Sender<()>, mpsc::Receiver<u32>) {
    let (release, released) = mpsc::channel::<()>();
    let (fire, fired) = mpsc::channel();
    let (begin, begun) = mpsc::channel();
    let task = move || {
        begin.send(()).unwrap();
        _ = released.recv();
    };
    engine.schedule_detached(Duration::ZERO, task).unwrap();
    begun.recv_timeout(PATIENCE).unwrap();
    for n in 0..198 {
        let fire = fire.clone();
        engine.schedule_detached(MS, move || fire.send(n).unwrap()).unwrap();
    }
    (release, fired)
}

#[test]
fn a_takeover_that_gets_no_thread_is_told_of_and_tried_again() {
    in_a_child("no thread for a while", || {
        for spares in [1, 16] {
            let (engine, told) = engine(|builder| builder.spares(spares));
            REFUSES.store(true, Ordering::SeqCst);
            let (release, fired) = get_stuck(&engine);
            let task = told.recv_timeout(PATIENCE);
            REFUSES.store(false, Ordering::SeqCst);
            assert_eq!(task.map(|task| task.shard), Ok(0), "nobody is told of the task");
            for n in 0..198 {
                assert!(fired.recv_timeout(PATIENCE).is_ok(), "{n} of 198 fire beside the task");
            }
            drop(release);
            engine.stop().unwrap();
        }
    });
}

#[test]
fn an_engine_whose_watcher_gets_no_thread_is_not_built() {
    in_a_child("no thread", || {
        REFUSES.store(true, Ordering::SeqCst);
        assert!(Engine::builder().build().is_err());
    });
}

/// The first task began when fences were light: its shard is not taken over. Those after it fence
/// in full.
#[test]
fn without_fences_after_the_build_the_first_stuck_task_is_told_of_and_the_next_are_replaced() {
    in_a_child("no fence", || {
        // Longer than a busy machine keeps a thread from running: each takeover is that of a task.
        let (engine, told) = engine(|builder| builder.takeover(MS * 200));
        let deny = libc::SECCOMP_RET_ERRNO | libc::EPERM as u32;
        refuse(libc::SYS_membarrier, deny, true);
        let (release, fired) = get_stuck(&engine);
        assert_eq!(told.recv_timeout(PATIENCE).map(|task| task.shard), Ok(0));
        assert_eq!(engine.stats().takeovers, 0);
        drop(release);
        assert_eq!((0..198).filter(|_| fired.recv_timeout(PATIENCE).is_ok()).count(), 198);
        for takeovers in 1..=3 {
            let (release, fired) = get_stuck(&engine);
            let fire = (0..198).all(|_| fired.recv_timeout(PATIENCE).is_ok());
            assert!(fire, "198 fire beside stuck task number {takeovers}");
            assert_eq!(engine.stats().takeovers, takeovers);
            drop(release);
        }
        engine.stop().unwrap();
    });
}

#[test]
fn without_fences_a_stop_returns_what_is_behind_a_task() {
    in_a_child("no fence for a stop", || {
        let deny = libc::SECCOMP_RET_ERRNO | libc::EPERM as u32;
        let stop_beside_a_task = || {
            let (begin, begun) = mpsc::channel();
            let (release, released) = mpsc::channel::<()>();
            let released = Mutex::new(released);
            let hand_over = move |batch: Batch<'_, u64>| {
                for n in batch {
                    begin.send(n).unwrap();
                    _ = released.lock().unwrap().recv();
                }
            };
            let builder = Engine::builder().shards(1).spares(0);
            let engine = builder.build_typed(hand_over).unwrap();
            refuse(libc::SYS_membarrier, deny, true);
            engine.schedule_detached(Duration::ZERO, 0).unwrap();
            assert_eq!(begun.recv_timeout(PATIENCE), Ok(0));
            // All are due when the task returns, and are handed over together.
            (1..=8).for_each(|n| engine.schedule_detached(Duration::ZERO, n).unwrap());
            let later = Instant::now() + 2 * MS;
            while Instant::now() < later {}
            release.send(()).unwrap();
            begun.recv_timeout(PATIENCE).unwrap();
            let stopped = engine.stop_within(MS).unwrap();
            drop(release);
            let later = engine.stop().unwrap();
            (stopped.returned.len(), later.len())
        };
        // The first stop is the first to be refused.
        assert_eq!(stop_beside_a_task(), (0, 7));
        assert_eq!(stop_beside_a_task(), (7, 0));
    });
}

/// Schedules tasks on two shards of a group that take so long that its leader wants another thread
/// to lead. Returns how many there are, and the receiver of their ends.
fn keep_busy(engine: &Engine, first: usize) -> (usize, mpsc::Receiver<()>) {
    let (end, ended) = mpsc::channel();
    let rounds = 40;
    for round in 0..rounds {
        for shard in [first, first + 1] {
            let end = end.clone();
            let task = move || {
                thread::sleep(MS * 3);
                let _ = end.send(());
            };
            schedule_on(engine, shard, MS * round, task);
        }
    }
    (2 * rounds as usize, ended)
}

#[test]
fn a_group_goes_on_while_a_thread_of_another_one_makes_a_thread() {
    in_a_child("a thread is not made for long", || {
        let builder = Engine::builder().shards(4).reapers(2, 4).takeover(None);
        let engine = builder.build().unwrap();
        HOLDS.store(true, Ordering::SeqCst);
        let _busy = keep_busy(&engine, 0);
        wait_until("the first group wants a thread", || IS_HELD.load(Ordering::SeqCst));
        let (tasks, ended) = keep_busy(&engine, 2);
        for n in 0..tasks {
            assert!(ended.recv_timeout(PATIENCE / 2).is_ok(), "{n} of {tasks} have ended");
        }
        HOLDS.store(false, Ordering::SeqCst);
        engine.stop().unwrap();
    });
}
