//! Callbacks that are written in Rust and panic: no call unwinds, and each says what happened.

use std::ffi::{CStr, c_void};
use std::mem::MaybeUninit;
use std::ptr;

use tickless_c::*;

const HOUR_NS: u64 = 3_600_000_000_000;

unsafe extern "C-unwind" fn nothing(_user_data: *mut c_void) {}

unsafe extern "C-unwind" fn panics(user_data: *mut c_void) {
    let text = if user_data.is_null() { "out of tea" } else { "out of coffee" };
    // It does not call the hook, which would print it.
    std::panic::resume_unwind(Box::new(text.to_owned()));
}

/// Runs all timers of a batch, and notes that it was called to its end.
unsafe extern "C-unwind" fn run_all(calls: *mut c_void, batch: *mut TicklessBatch) {
    // SAFETY: it is called with this batch.
    while unsafe { tickless_batch_run(batch) } == 1 {}
    // SAFETY: the options say so.
    unsafe { *calls.cast::<u32>() += 1 };
}

fn engine() -> *mut TicklessEngine {
    engine_with(TicklessOptions::default())
}

fn engine_with(options: TicklessOptions) -> *mut TicklessEngine {
    let options = TicklessOptions { clock: TICKLESS_CLOCK_MANUAL, shards: 1, ..options };
    let mut engine = ptr::null_mut();
    // SAFETY: they are options, and a place for an engine.
    assert_eq!(unsafe { tickless_engine_new(&raw const options, &raw mut engine) }, TICKLESS_OK);
    engine
}

fn last_error() -> String {
    // SAFETY: it is a C string until the next failure on this thread.
    unsafe { CStr::from_ptr(tickless_last_error()) }.to_str().unwrap().to_owned()
}

#[test]
fn a_release_that_panics_in_a_cancel_is_an_error_and_the_timer_is_ended() {
    let engine = engine();
    let mut memory = MaybeUninit::<TicklessTimer>::uninit();
    let timer = memory.as_mut_ptr();
    let data = ptr::null_mut();
    for flags in [0, TICKLESS_WAITABLE] {
        let when = TicklessWhen { time_ns: HOUR_NS, slack_ns: 0, flags };
        let (run, release): (TicklessFn, TicklessFn) = (Some(nothing), Some(panics));
        // SAFETY: the engine lives, and the memory is a timer's.
        unsafe {
            let code = tickless_schedule_when(engine, &raw const when, run, data, release, timer);
            assert_eq!(code, TICKLESS_OK);
            assert_eq!(tickless_timer_cancel(timer), TICKLESS_E_PANIC);
            assert_eq!(last_error(), "panic: out of tea");
            assert_eq!(tickless_timer_cancel(timer), TICKLESS_E_HANDLE);
            assert_eq!(last_error(), "the timer was ended before");
        }
    }
    // SAFETY: nobody uses the engine any more.
    assert_eq!(unsafe { tickless_engine_free(engine) }, TICKLESS_OK);
}

#[test]
fn a_release_that_panics_in_a_refused_schedule_is_an_error() {
    let data = ptr::dangling_mut::<u8>().cast();
    let timer = ptr::null_mut();
    // SAFETY: no engine is an error.
    let code =
        unsafe { tickless_schedule(ptr::null(), 0, Some(nothing), data, Some(panics), timer) };
    assert_eq!(code, TICKLESS_E_PANIC);
    assert_eq!(last_error(), "panic: out of coffee");
}

#[test]
fn callbacks_that_panic_are_counted_and_the_others_run() {
    count_panics(engine());
}

#[test]
fn callbacks_that_panic_in_a_batch_are_counted_and_the_others_run() {
    let mut calls = 0_u32;
    count_panics(engine_with(TicklessOptions {
        on_batch: Some(run_all),
        on_batch_data: (&raw mut calls).cast(),
        ..TicklessOptions::default()
    }));
    // After each it returns, and is called again if something is left.
    assert!((6..=7).contains(&calls), "{calls}");
}

/// Of nine timers, six panic.
fn count_panics(engine: *mut TicklessEngine) {
    let mut fired = 0;
    let mut stats: TicklessStats = {
        // SAFETY: all zeroes are numbers.
        unsafe { std::mem::zeroed() }
    };
    stats.size = size_of::<TicklessStats>();
    let (data, timer) = (ptr::null_mut(), ptr::null_mut());
    // SAFETY: the engine lives; nobody keeps the timers.
    unsafe {
        for _ in 0..3 {
            assert_eq!(
                tickless_schedule(engine, 0, Some(panics), data, Some(nothing), timer),
                TICKLESS_OK
            );
            assert_eq!(
                tickless_schedule(engine, 0, Some(nothing), data, Some(panics), timer),
                TICKLESS_OK
            );
            assert_eq!(
                tickless_schedule(engine, 0, Some(nothing), data, Some(nothing), timer),
                TICKLESS_OK
            );
        }
        assert_eq!(tickless_advance(engine, 0, &raw mut fired), TICKLESS_OK);
        assert_eq!(tickless_stats(engine, &raw mut stats), TICKLESS_OK);
        assert_eq!((fired, stats.fired, stats.panicked), (9, 9, 6));
        // What panics while an engine is freed is swallowed: the rest is released.
        assert_eq!(
            tickless_schedule(engine, HOUR_NS, Some(nothing), data, Some(panics), timer),
            TICKLESS_OK
        );
        assert_eq!(
            tickless_schedule(engine, HOUR_NS, Some(nothing), data, Some(panics), timer),
            TICKLESS_OK
        );
        assert_eq!(tickless_engine_free(engine), TICKLESS_OK);
    }
}

#[test]
fn a_long_message_is_cut_between_letters() {
    unsafe extern "C-unwind" fn long(_user_data: *mut c_void) {
        std::panic::resume_unwind(Box::new("\u{e9}".repeat(1000)));
    }
    let timer = ptr::null_mut();
    // SAFETY: no engine is an error.
    let code = unsafe {
        tickless_schedule(ptr::null(), 0, Some(nothing), ptr::null_mut(), Some(long), timer)
    };
    assert_eq!(code, TICKLESS_E_PANIC);
    let message = last_error();
    assert!(message.starts_with("panic: \u{e9}") && message.ends_with('\u{e9}'), "{message}");
    assert!((250..256).contains(&message.len()));
}
