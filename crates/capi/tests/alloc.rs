//! C allocates what Rust allocates: nothing for a timer, one piece for one that can be waited for
//! or repeats.

use std::cell::Cell;
use std::ffi::{c_int, c_void};
use std::mem::MaybeUninit;
use std::ptr;

use tickless_c::*;

thread_local! {
    static MADE_HERE: Cell<u64> = const { Cell::new(0) };
}

// The C library's functions under their other names. (The allocator of Rust is the library's.)
unsafe extern "C" {
    fn __libc_malloc(size: usize) -> *mut c_void;
    fn __libc_calloc(count: usize, size: usize) -> *mut c_void;
    fn __libc_realloc(memory: *mut c_void, size: usize) -> *mut c_void;
    fn __libc_memalign(align: usize, size: usize) -> *mut c_void;
}

/// Counts what each thread allocates.
fn count() {
    MADE_HERE.set(MADE_HERE.get() + 1);
}

#[unsafe(no_mangle)]
unsafe extern "C" fn malloc(size: usize) -> *mut c_void {
    count();
    // SAFETY: passed on to the caller.
    unsafe { __libc_malloc(size) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn calloc(number: usize, size: usize) -> *mut c_void {
    count();
    // SAFETY: passed on to the caller.
    unsafe { __libc_calloc(number, size) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn realloc(memory: *mut c_void, size: usize) -> *mut c_void {
    count();
    // SAFETY: passed on to the caller.
    unsafe { __libc_realloc(memory, size) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn posix_memalign(to: *mut *mut c_void, align: usize, size: usize) -> c_int {
    count();
    // SAFETY: passed on to the caller.
    let memory = unsafe { __libc_memalign(align, size) };
    // SAFETY: as above.
    unsafe { to.write(memory) };
    if memory.is_null() { libc::ENOMEM } else { 0 }
}

const HOUR_NS: u64 = 3_600_000_000_000;
const MS_NS: u64 = 1_000_000;

unsafe extern "C-unwind" fn nothing(_user_data: *mut c_void) {}

fn manual_engine() -> *mut TicklessEngine {
    let options =
        TicklessOptions { clock: TICKLESS_CLOCK_MANUAL, shards: 1, ..TicklessOptions::default() };
    let mut engine = ptr::null_mut();
    // SAFETY: they are options, and a place for an engine.
    assert_eq!(unsafe { tickless_engine_new(&raw const options, &raw mut engine) }, TICKLESS_OK);
    engine
}

/// Asserts that a thousand steps make so many allocations each, after a thousand others. A few more
/// may come from what an engine does now and then.
fn allocates(what: &str, each: u64, mut step: impl FnMut()) {
    let before = MADE_HERE.get();
    drop(std::hint::black_box(Box::new([what; 9])));
    assert!(MADE_HERE.get() > before, "allocations are counted");
    (0..1000).for_each(|_| step());
    let attempt = || {
        let before = MADE_HERE.get();
        (0..1000).for_each(|_| step());
        MADE_HERE.get() - before
    };
    let least = std::iter::repeat_with(attempt).take(5).min();
    assert_eq!(least, Some(each * 1000), "{what}");
}

/// A timer whose callback starts it again.
struct Ticker {
    engine: *mut TicklessEngine,
    timer: TicklessTimer,
}

unsafe extern "C-unwind" fn tick(ticker: *mut c_void) {
    let ticker: *mut Ticker = ticker.cast();
    // SAFETY: the ticker outlives its engine, and its fields are only looked at here.
    let (engine, timer) = unsafe { ((*ticker).engine, &raw mut (*ticker).timer) };
    // SAFETY: it is an engine and a timer.
    let code =
        unsafe { tickless_timer_restart(engine, timer, MS_NS, Some(tick), ticker.cast(), None) };
    assert_eq!(code, TICKLESS_OK);
}

#[test]
fn a_timer_that_is_started_again_by_its_callback_takes_no_memory() {
    let engine = manual_engine();
    let mut ticker = Ticker { engine, timer: TicklessTimer { private_words: [0; 4] } };
    // SAFETY: the engine lives, and the ticker outlives it.
    unsafe { tick((&raw mut ticker).cast()) };
    allocates("start it again", 0, || {
        let mut fired = 0;
        // SAFETY: the engine lives.
        assert_eq!(unsafe { tickless_advance(engine, MS_NS, &raw mut fired) }, TICKLESS_OK);
        assert_eq!(fired, 1);
    });
    // SAFETY: it is a timer, and nobody uses the engine any more.
    unsafe {
        assert_eq!(tickless_timer_cancel(&raw mut ticker.timer), 1);
        assert_eq!(tickless_engine_free(engine), TICKLESS_OK);
    }
}

#[test]
fn a_timer_of_c_allocates_what_one_of_rust_does() {
    let engine = manual_engine();
    let mut memory = MaybeUninit::<TicklessTimer>::uninit();
    let timer = memory.as_mut_ptr();
    let data = ptr::null_mut();
    let (run, release): (TicklessFn, TicklessFn) = (Some(nothing), Some(nothing));
    allocates("schedule and cancel", 0, || {
        // SAFETY: the engine lives, and the timer is ended before it is used again.
        unsafe {
            let code = tickless_schedule(engine, HOUR_NS, run, data, release, timer);
            assert_eq!(code, TICKLESS_OK);
            assert_eq!(tickless_timer_cancel(timer), 1);
        }
    });
    allocates("schedule, reset and take", 0, || {
        let mut taken = data;
        // SAFETY: as above.
        unsafe {
            let code = tickless_schedule(engine, HOUR_NS, run, data, release, timer);
            assert_eq!(code, TICKLESS_OK);
            assert_eq!(tickless_timer_reset(timer, 2 * HOUR_NS), TICKLESS_OK);
            assert_eq!(tickless_timer_take(timer, &raw mut taken), 1);
        }
    });
    allocates("schedule and fire", 0, || {
        let mut fired = 0;
        // SAFETY: as above.
        unsafe {
            let code = tickless_schedule(engine, 3 * MS_NS, run, data, release, ptr::null_mut());
            assert_eq!(code, TICKLESS_OK);
            assert_eq!(tickless_advance(engine, 3 * MS_NS, &raw mut fired), TICKLESS_OK);
        }
        assert_eq!(fired, 1);
    });
    let when = TicklessWhen { time_ns: HOUR_NS, slack_ns: 0, flags: TICKLESS_WAITABLE };
    allocates("schedule and wait", 1, || {
        // SAFETY: as above.
        unsafe {
            let when = &raw const when;
            let code = tickless_schedule_when(engine, when, run, data, release, timer);
            assert_eq!(code, TICKLESS_OK);
            assert_eq!(tickless_timer_cancel_wait(timer, TICKLESS_NEVER), 1);
        }
    });
    allocates("repeat and cancel", 1, || {
        // SAFETY: as above; there is no first time.
        unsafe {
            let first = ptr::null();
            let code =
                tickless_schedule_repeating(engine, first, HOUR_NS, run, data, release, timer);
            assert_eq!(code, TICKLESS_OK);
            assert_eq!(tickless_timer_cancel(timer), 1);
        }
    });
    allocates("failures", 0, || {
        // SAFETY: as above; the timer was ended, which is an error.
        assert_eq!(unsafe { tickless_timer_cancel(timer) }, TICKLESS_E_HANDLE);
    });
    // SAFETY: nobody uses the engine any more.
    assert_eq!(unsafe { tickless_engine_free(engine) }, TICKLESS_OK);
}
