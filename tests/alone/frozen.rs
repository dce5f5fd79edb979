//! Frozen: a thread that looks at an engine, and stands still after any of its instructions, holds
//! up no takeover, no turn and no stop.
//!
//! The processor traps after each instruction of the thread that looks, which counts them and
//! stands still after the one that the test names.
//!
//! Each thread that looks has looked before: by its first call a thread registers what it keeps
//! with the C library, under a lock of that library, which the first calls of other threads take as
//! well.

#![cfg(all(target_os = "linux", target_arch = "x86_64"))]

use std::alloc::{GlobalAlloc, Layout};
use std::arch::asm;
use std::ffi::{c_int, c_void};
use std::hint::black_box;
use std::ptr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::SeqCst};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use support::patience::PATIENCE;
use support::scaled;
use tickless::dispatch::{Full, Pool};
use tickless::{Driver, Engine, ManualClock, Task};

const MS: Duration = Duration::from_millis(1);

/// A call that looks at an engine.
type Look = fn(&Engine<u64>);

const OVERDUE: Look = |engine| _ = black_box(engine.overdue());

const STATS: Look = |engine| _ = black_box(engine.stats());

/// Instructions of the thread that looks so far.
static STEPS: AtomicU64 = AtomicU64::new(0);

/// After so many it stands still.
static STOP_AT: AtomicU64 = AtomicU64::new(u64::MAX);

/// Whether it does.
static STAND: AtomicUsize = AtomicUsize::new(LOOKING);

const EFLAGS: usize = libc::REG_EFL as usize;

const LOOKING: usize = 0;
const STILL: usize = 1;
const OVER: usize = 2;

/// An allocator without a lock, which a thread might hold that stands still. It frees nothing.
#[global_allocator]
static MEMORY: Bump = Bump { begin: AtomicUsize::new(0), used: AtomicUsize::new(0) };

/// Addresses, of which few are ever touched.
const SPACE: usize = 1 << 36;

struct Bump {
    begin: AtomicUsize,
    used: AtomicUsize,
}

impl Bump {
    fn begin(&self) -> usize {
        let begin = self.begin.load(SeqCst);
        if begin != 0 {
            return begin;
        }
        let (access, flags) = (
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
        );
        // SAFETY: new memory, at an address that the system chooses.
        let made = unsafe { libc::mmap(ptr::null_mut(), SPACE, access, flags, -1, 0) };
        if made == libc::MAP_FAILED {
            return 0;
        }
        // Of two threads that make one, the other's stays untouched.
        let other = self.begin.compare_exchange(0, made as usize, SeqCst, SeqCst);
        other.map_or_else(|other| other, |_| made as usize)
    }
}

// SAFETY: each call gets addresses of its own, in memory that stays.
unsafe impl GlobalAlloc for Bump {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let begin = self.begin();
        let at = self.used.fetch_add(layout.size() + layout.align(), SeqCst);
        if begin == 0 || at + layout.size() + layout.align() > SPACE {
            return ptr::null_mut();
        }
        ptr::with_exposed_provenance_mut((begin + at).next_multiple_of(layout.align()))
    }

    unsafe fn dealloc(&self, _: *mut u8, _: Layout) {}
}

/// Each instruction of the thread that looks ends here.
extern "C" fn on_step(_signal: c_int, _info: *mut libc::siginfo_t, context: *mut c_void) {
    if STEPS.fetch_add(1, SeqCst) == STOP_AT.load(SeqCst) {
        STAND.store(STILL, SeqCst);
        while STAND.load(SeqCst) == STILL {
            // SAFETY: a call of the system, without a condition.
            unsafe { libc::usleep(20) };
        }
        // SAFETY: the system passes this to such a handler, and reads it when that returns. From
        // then on, nothing traps any more.
        unsafe { (*context.cast::<libc::ucontext_t>()).uc_mcontext.gregs[EFLAGS] &= !0x100 };
    }
}

fn watch_steps() {
    // SAFETY: all zeros are a value of this type.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    action.sa_sigaction = on_step as *const () as usize;
    action.sa_flags = libc::SA_SIGINFO;
    // SAFETY: the handler only uses atomics and a call of the system, so it may interrupt anything.
    assert_eq!(unsafe { libc::sigaction(libc::SIGTRAP, &action, ptr::null_mut()) }, 0);
}

/// Calls `f`, and has the processor trap after each instruction.
fn step_by_step(f: impl FnOnce()) {
    // SAFETY: the flag that is set makes the processor trap, for which there is a handler.
    unsafe { asm!("pushfq", "or qword ptr [rsp], 0x100", "popfq") };
    f();
    // SAFETY: this takes the flag back.
    unsafe { asm!("pushfq", "and qword ptr [rsp], -0x101", "popfq") };
}

/// Has a thread look, until it stands still after so many instructions, or is over.
fn stand_still(stop_at: u64, look: impl Fn() + Send + 'static) -> thread::JoinHandle<()> {
    STEPS.store(0, SeqCst);
    STOP_AT.store(stop_at, SeqCst);
    STAND.store(LOOKING, SeqCst);
    let looker = thread::spawn(|| {
        look();
        step_by_step(look);
        STAND.store(OVER, SeqCst);
    });
    while STAND.load(SeqCst) == LOOKING {
        thread::yield_now();
    }
    looker
}

/// A thread runs a task that is stuck, with another payload in hand behind it. A second one looks,
/// and stands still after so many instructions. A third takes the shard over, runs a turn, and
/// stops the engine. Returns how many instructions the look took.
fn look(look: Look, stop_at: u64) -> u64 {
    let ((begin, begun), (release, released)) = (mpsc::channel(), mpsc::channel::<()>());
    let released = Mutex::new(released);
    let each = move |n: u64| {
        if n == 0 {
            begin.send(()).unwrap();
            let _ = released.lock().unwrap().recv();
        }
    };
    let clock = ManualClock::new();
    let builder = Engine::builder().driver(Driver::Caller).manual_clock(&clock).shards(1);
    let engine = builder.build_each(each).unwrap();
    (0..2).for_each(|n| engine.schedule_detached(MS, n).unwrap());
    clock.advance(MS);
    let on_thread = |f: Box<dyn FnOnce(Engine<u64>) + Send>| {
        let engine = engine.clone();
        thread::spawn(move || f(engine))
    };
    let stuck = on_thread(Box::new(|engine| _ = engine.turn(0)));
    begun.recv_timeout(PATIENCE).unwrap();
    clock.advance(MS * 20);

    let looking = engine.clone();
    let looker = stand_still(stop_at, move || look(&looking));
    let (tell, told) = mpsc::channel();
    let acting = on_thread(Box::new(move |engine| {
        tell.send(engine.take_over(0).unwrap().is_some_and(|turn| turn.fired == 1)).unwrap();
        tell.send(engine.turn(0).is_ok()).unwrap();
        tell.send(engine.stop_within(Duration::ZERO).is_ok()).unwrap();
    }));
    for what in ["takeover", "turn", "stop"] {
        let told = told.recv_timeout(PATIENCE);
        assert_eq!(told, Ok(true), "a {what} beside a thread that looks, at step {stop_at}");
    }
    STAND.store(OVER, SeqCst);
    drop(release);
    [acting, looker, stuck].into_iter().for_each(|thread| thread.join().unwrap());
    engine.stop().unwrap();
    STEPS.load(SeqCst)
}

/// The same for who looks at a pool: a payload is handed to it, and runs. Returns how many
/// instructions the look took.
fn look_at_a_pool(stop_at: u64) -> u64 {
    let pool = Pool::builder(Full::Block).threads(1).queue_bound(4).build().unwrap();
    let looking = pool.clone();
    let looker = stand_still(stop_at, move || _ = black_box(looking.stats()));
    let (tell, told) = mpsc::channel();
    let handing = pool.clone();
    let acting = thread::spawn(move || {
        handing.submit(Task::new(move || tell.send(()).unwrap())).unwrap();
    });
    let told = told.recv_timeout(PATIENCE);
    assert_eq!(told, Ok(()), "a payload beside a thread that looks, at step {stop_at}");
    STAND.store(OVER, SeqCst);
    [acting, looker].into_iter().for_each(|thread| thread.join().unwrap());
    pool.shutdown().unwrap();
    STEPS.load(SeqCst)
}

#[test]
fn who_looks_and_stands_still_holds_nobody_up() {
    watch_steps();
    let all = look_at_a_pool(u64::MAX);
    let points = scaled(100);
    (0..points).for_each(|n| _ = look_at_a_pool(all * n / points));
    let count = |call| {
        let all = look(call, u64::MAX);
        assert!(all > 1_000, "it was stepped through");
        all
    };
    // At the first instruction, and closer together where it begins: the tasks come before the
    // timers.
    let stand_within = |all, call, points: u64| {
        (0..=points).for_each(|n| _ = look(call, all * n * n / (points + 1).pow(2)));
    };
    let of_overdue = count(OVERDUE);
    stand_within(of_overdue, OVERDUE, scaled(60));
    // That one makes the same looks, and has ten times as many instructions: to count them takes
    // longer than all the rest. So a short test stands still in its first tenth.
    let points = scaled(10);
    let of_stats = if points > 1 { count(STATS) } else { of_overdue };
    stand_within(of_stats, STATS, points);
}
