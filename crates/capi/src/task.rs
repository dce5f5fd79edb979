//! What a timer carries: a callback with its user data, and how to release that.
//!
//! *Owner*: one thread at a time. It goes from thread to thread, as any payload of an engine.
//!
//! *Invariants*: the user data is released when the task is dropped, unless it was taken out. So it
//! is released once, however the timer ends.

use std::ffi::c_void;
use std::mem::ManuallyDrop;

use tickless::periodic::DueRun;
use tickless::wait::Guarded;

/// A callback, or a `drop_fn`.
pub type TicklessFn = Option<unsafe extern "C-unwind" fn(user_data: *mut c_void)>;

/// The callback of a timer.
pub(crate) type Run = unsafe extern "C-unwind" fn(user_data: *mut c_void);

/// A function that threads of the engine call, and what they pass to it.
pub(crate) struct Hook<F> {
    pub(crate) call: F,
    pub(crate) data: *mut c_void,
}

/// A callback with its user data.
#[derive(Debug)]
pub(crate) struct Task {
    run: Run,
    user_data: UserData,
}

/// The user data of a timer, which `drop_fn` releases.
#[derive(Debug)]
pub(crate) struct UserData {
    address: *mut c_void,
    drop_fn: TicklessFn,
}

/// The payload of an engine.
#[derive(Debug)]
pub(crate) enum Payload {
    Plain(Task),
    /// In one variant, for which a callback that cannot be null has room: no tag is written.
    Elsewhere(Elsewhere),
}

/// A task that does not lie in the entry.
#[derive(Debug)]
pub(crate) enum Elsewhere {
    /// It lies beside the timer, where its waiter reaches it.
    Waitable(Guarded<Task>),
    /// It is that of a periodic.
    Repeating(DueRun),
}

const _: () = assert!(size_of::<Payload>() == size_of::<Task>(), "it lies in the entry");

// SAFETY: the address is passed to the callbacks and not used otherwise. That they may be called on
// any thread is what the header says.
unsafe impl Send for UserData {}
// SAFETY: as above. For hooks, the caller of `tickless_engine_new` promises it.
unsafe impl<F> Send for Hook<F> {}
// SAFETY: as above.
unsafe impl<F> Sync for Hook<F> {}

// === impl Task ===

impl Task {
    #[inline]
    pub(crate) fn new(run: Run, user_data: UserData) -> Task {
        Task { run, user_data }
    }

    /// Calls the callback, then releases the user data.
    #[inline]
    pub(crate) fn run(self) {
        self.call();
    }

    /// Calls the callback.
    #[inline]
    pub(crate) fn call(&self) {
        // SAFETY: the caller of the call that scheduled has promised that this may be called: once,
        // or again and again if the timer repeats.
        unsafe { (self.run)(self.user_data.address) }
    }

    /// The callback and the address of its user data.
    pub(crate) fn parts(&self) -> (Run, *mut c_void) {
        (self.run, self.user_data.address)
    }

    /// Takes the user data out: it is not released.
    pub(crate) fn into_user_data(self) -> *mut c_void {
        ManuallyDrop::new(self.user_data).address
    }
}

// === impl UserData ===

impl UserData {
    #[inline]
    pub(crate) fn new(address: *mut c_void, drop_fn: TicklessFn) -> UserData {
        UserData { address, drop_fn }
    }
}

impl Drop for UserData {
    #[inline]
    fn drop(&mut self) {
        if let Some(drop_fn) = self.drop_fn {
            // SAFETY: as in `Task::run`; a value is dropped once.
            unsafe { drop_fn(self.address) }
        }
    }
}

// === impl Payload ===

impl Payload {
    /// The timer is due.
    #[inline]
    pub(crate) fn fire(self) {
        match self {
            Payload::Plain(task) => task.run(),
            Payload::Elsewhere(Elsewhere::Waitable(guarded)) => _ = guarded.run(Task::run),
            Payload::Elsewhere(Elsewhere::Repeating(due)) => due.run(),
        }
    }

    /// Passes the task to `f`, unless it was cancelled, or repeats and ends here.
    pub(crate) fn pass_to(self, f: impl FnOnce(Task)) {
        match self {
            Payload::Plain(task) => f(task),
            Payload::Elsewhere(Elsewhere::Waitable(guarded)) => _ = guarded.run(f),
            Payload::Elsewhere(Elsewhere::Repeating(due)) => drop(due),
        }
    }

    /// Takes the task of a timer that cannot be waited for.
    pub(crate) fn into_plain(self) -> Option<Task> {
        match self {
            Payload::Plain(task) => Some(task),
            _ => None,
        }
    }
}

impl From<Guarded<Task>> for Payload {
    fn from(guarded: Guarded<Task>) -> Payload {
        Payload::Elsewhere(Elsewhere::Waitable(guarded))
    }
}

impl From<DueRun> for Payload {
    fn from(due: DueRun) -> Payload {
        Payload::Elsewhere(Elsewhere::Repeating(due))
    }
}
