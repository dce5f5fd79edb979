//! Codes and messages of failures, and the door through which each call comes in.
//!
//! The message lies in a thread-local buffer of fixed size: a failure allocates nothing, and the
//! buffer outlives the thread's other thread-locals.

use std::any::Any;
use std::cell::UnsafeCell;
use std::ffi::{c_char, c_int};
use std::fmt::{self, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Success.
pub const TICKLESS_OK: c_int = 0;
/// An argument is NULL.
pub const TICKLESS_E_NULL: c_int = -1;
/// The engine was freed; or the timer or scope was ended, or never made.
pub const TICKLESS_E_HANDLE: c_int = -2;
/// An argument, an option or the size of a struct is out of its range.
pub const TICKLESS_E_ARGUMENT: c_int = -3;
/// `max_pending` timers are pending.
pub const TICKLESS_E_FULL: c_int = -4;
/// The engine was stopped.
pub const TICKLESS_E_STOPPED: c_int = -5;
/// The timer has fired.
pub const TICKLESS_E_TOO_LATE: c_int = -6;
/// The call would wait for the callback that makes it.
pub const TICKLESS_E_INSIDE_TASK: c_int = -7;
/// It would wait for another call for it, which this thread is in the middle of.
pub const TICKLESS_E_CIRCULAR: c_int = -8;
/// The limit has passed, and a callback still runs.
pub const TICKLESS_E_TIMED_OUT: c_int = -9;
/// It belongs to the parent process: see FORK.
pub const TICKLESS_E_FORKED: c_int = -10;
/// The engine has threads of its own.
pub const TICKLESS_E_DRIVEN: c_int = -11;
/// There is no such shard.
pub const TICKLESS_E_NO_SHARD: c_int = -12;
/// The clock is not moved by hand.
pub const TICKLESS_E_NOT_MANUAL: c_int = -13;
/// The timer was scheduled without TICKLESS_WAITABLE.
pub const TICKLESS_E_NOT_WAITABLE: c_int = -14;
/// The calling thread is ending.
pub const TICKLESS_E_THREAD_ENDS: c_int = -15;
/// The system refused a thread or a descriptor.
pub const TICKLESS_E_SYSTEM: c_int = -16;
/// Rust code panicked.
pub const TICKLESS_E_PANIC: c_int = -17;
/// There is no memory: see MEMORY.
pub const TICKLESS_E_NOMEM: c_int = -18;

/// A call failed: the code. The message was left for the calling thread.
#[derive(Debug)]
pub(crate) struct Failure(c_int);

/// A failure whose message was put aside.
pub(crate) struct KeptFailure {
    code: c_int,
    text: Text,
}

/// What a call returns: a number that is not negative, or why it failed.
pub(crate) type Outcome = Result<c_int, Failure>;

/// A text that ends with a zero, and is cut where the room ends.
struct Message(UnsafeCell<Text>);

#[derive(Clone, Copy)]
struct Text {
    bytes: [u8; ROOM],
    len: usize,
}

const ROOM: usize = 256;

thread_local! {
    static MESSAGE: Message =
        const { Message(UnsafeCell::new(Text { bytes: [0; ROOM], len: 0 })) };
}

/// What a code means. Never NULL, static.
#[unsafe(no_mangle)]
pub extern "C" fn tickless_strerror(code: c_int) -> *const c_char {
    let text = match code {
        TICKLESS_E_NULL => c"an argument is NULL",
        TICKLESS_E_HANDLE => c"the engine was freed, or the timer or scope is not one",
        TICKLESS_E_ARGUMENT => c"an argument is out of its range",
        TICKLESS_E_FULL => c"as many timers as allowed are pending",
        TICKLESS_E_STOPPED => c"the engine was stopped",
        TICKLESS_E_TOO_LATE => c"the timer has fired",
        TICKLESS_E_INSIDE_TASK => c"a callback cannot wait for itself",
        TICKLESS_E_CIRCULAR => c"the call waits for one that this thread is in the middle of",
        TICKLESS_E_TIMED_OUT => c"a callback still runs",
        TICKLESS_E_FORKED => c"the engine belongs to the parent process",
        TICKLESS_E_DRIVEN => c"the engine has threads of its own",
        TICKLESS_E_NO_SHARD => c"the engine has no such shard",
        TICKLESS_E_NOT_MANUAL => c"the clock is not moved by hand",
        TICKLESS_E_NOT_WAITABLE => c"the timer cannot be waited for",
        TICKLESS_E_THREAD_ENDS => c"the thread is ending",
        TICKLESS_E_SYSTEM => c"the system refused a thread or a file descriptor",
        TICKLESS_E_PANIC => c"Rust code panicked",
        TICKLESS_E_NOMEM => c"there is not enough memory",
        0.. => c"success",
        _ => c"unknown code",
    };
    text.as_ptr()
}

/// What happened when a call last failed on this thread. Never NULL; valid until the next failure.
#[unsafe(no_mangle)]
pub extern "C" fn tickless_last_error() -> *const c_char {
    MESSAGE.with(|message| message.0.get().cast::<c_char>().cast_const())
}

/// Makes a call from C: returns its number, or the code of its failure.
#[inline]
pub(crate) fn enter(call: impl FnOnce() -> Outcome) -> c_int {
    match catch_unwind(AssertUnwindSafe(call)) {
        Ok(Ok(number)) => number,
        Ok(Err(Failure(code))) => code,
        Err(panic) => panicked(panic),
    }
}

#[cold]
fn panicked(panic: Box<dyn Any + Send>) -> c_int {
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    let Failure(code) =
        Failure::new(TICKLESS_E_PANIC, format_args!("panic: {}", text.unwrap_or("of no text")));
    discard(panic);
    code
}

/// Drops what was thrown, which may panic in turn.
pub(crate) fn discard(panic: Box<dyn Any + Send>) {
    if let Err(another) = catch_unwind(AssertUnwindSafe(|| drop(panic))) {
        std::mem::forget(another);
    }
}

// === impl Failure ===

impl Failure {
    /// Leaves the message for the calling thread.
    #[cold]
    pub(crate) fn new(code: c_int, message: fmt::Arguments<'_>) -> Failure {
        MESSAGE.with(|place| {
            // SAFETY: the place is this thread's. What is formatted are numbers, names and texts of
            // errors: nothing that comes by here again, or that reads the last message.
            let text = unsafe { &mut *place.0.get() };
            text.len = 0;
            // Writing to memory does not fail.
            let _ = text.write_fmt(message);
        });
        Failure(code)
    }

    pub(crate) fn code(&self) -> c_int {
        self.0
    }

    /// Puts the message aside, before foreign code may leave another.
    pub(crate) fn keep(self) -> KeptFailure {
        // SAFETY: the place is this thread's, and nothing else runs meanwhile.
        KeptFailure { code: self.0, text: MESSAGE.with(|place| unsafe { *place.0.get() }) }
    }

    /// An argument that must not be is NULL.
    #[cold]
    pub(crate) fn null(name: &str) -> Failure {
        Failure::new(TICKLESS_E_NULL, format_args!("{name} is NULL"))
    }
}

// === impl KeptFailure ===

impl KeptFailure {
    /// Leaves the message again.
    pub(crate) fn leave(self) -> Failure {
        // SAFETY: as in `Failure::keep`.
        MESSAGE.with(|place| unsafe { *place.0.get() = self.text });
        Failure(self.code)
    }
}

// === impl Text ===

impl fmt::Write for Text {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let mut end = text.len().min(ROOM - 1 - self.len);
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        self.bytes[self.len..self.len + end].copy_from_slice(&text.as_bytes()[..end]);
        self.len += end;
        self.bytes[self.len] = 0;
        Ok(())
    }
}
