//! A thread that is stopped in the middle of a call, as by a debugger, while all others go on.
//!
//! The scheduler here lets another one decide, and takes two choices from it. A thread that is
//! parked stays so until it is unparked: a wake-up that comes without cause would hide one that
//! was lost. And the one thread of a body that is within a suspendable call gets no step beyond
//! the given one, until it is resumed. If all others wait then, the body fails.

use std::cell::{Cell, RefCell};

use shuttle::current;
use shuttle::scheduler::{Schedule, Scheduler, Task, TaskId};

/// The call that may be suspended, in the run under way.
#[derive(Debug, Default)]
struct Stand {
    /// Who is within it.
    victim: Option<TaskId>,
    /// Steps that the call was allowed so far.
    steps: usize,
    /// Steps that it is allowed before it is resumed; `None`: all.
    stop_at: Option<usize>,
    /// Whether the victim gets to where it is stopped before anybody else goes on.
    hurries: bool,
    is_resumed: bool,
    /// All others waited while it was suspended.
    is_awaited: bool,
}

thread_local! {
    // All threads of a body are run by one thread of the system.
    static STAND: RefCell<Stand> = RefCell::new(Stand::default());
    /// The most steps that a call of this body took.
    static LONGEST: Cell<usize> = const { Cell::new(0) };
    /// The threads of this body.
    static THREADS: Cell<usize> = const { Cell::new(0) };
}

/// Marks this thread as the victim while it lives.
pub(super) struct Within(());

/// A scheduler that suspends the victim at a step of its call.
pub(super) struct Steered<S> {
    inner: S,
    stop_at: Option<usize>,
    runs: usize,
}

// === impl Within ===

impl Within {
    pub(super) fn begin() -> Within {
        STAND.with_borrow_mut(|stand| {
            assert!(stand.victim.is_none(), "one thread at a time is within such a call");
            stand.victim = Some(current::me());
            stand.steps = 0;
        });
        Within(())
    }
}

impl Drop for Within {
    fn drop(&mut self) {
        let steps = STAND.with_borrow_mut(|stand| {
            stand.victim = None;
            stand.steps
        });
        LONGEST.set(longest().max(steps));
    }
}

/// Lets the victim go on.
pub(super) fn resume() {
    STAND.with_borrow_mut(|stand| stand.is_resumed = true);
}

/// The most steps that a call of this body took.
pub(super) fn longest() -> usize {
    LONGEST.get()
}

/// How many threads this body was seen to have.
pub(super) fn threads() -> usize {
    THREADS.get()
}

/// Another body is next.
pub(super) fn forget() {
    LONGEST.set(0);
    THREADS.set(0);
}

/// Ends a run of the body.
pub(super) fn settle() {
    STAND.with_borrow(|stand| {
        assert!(!stand.is_awaited, "all others wait for a thread that is suspended: {stand:?}");
    });
}

// === impl Steered ===

impl<S> Steered<S> {
    pub(super) fn new(inner: S, stop_at: Option<usize>) -> Steered<S> {
        Steered { inner, stop_at, runs: 0 }
    }
}

impl<S: Scheduler> Scheduler for Steered<S> {
    fn new_execution(&mut self) -> Option<Schedule> {
        self.runs += 1;
        // In every other run the others may have gone anywhere when the victim is stopped.
        let hurries = self.runs % 2 == 0;
        STAND.set(Stand { stop_at: self.stop_at, hurries, ..Stand::default() });
        self.inner.new_execution()
    }

    fn next_task(
        &mut self,
        runnable: &[&Task],
        current: Option<TaskId>,
        is_yielding: bool,
    ) -> Option<TaskId> {
        let mut choice: Vec<&Task> = runnable.iter().copied().filter(|t| t.runnable()).collect();
        STAND.with_borrow_mut(|stand| stand.restrict(&mut choice));
        let next = self.inner.next_task(&choice, current, is_yielding)?;
        // They are numbered as they are spawned, from the one that runs the body.
        THREADS.set(threads().max(usize::from(next) + 1));
        STAND.with_borrow_mut(|stand| stand.steps += usize::from(stand.victim == Some(next)));
        Some(next)
    }

    fn next_u64(&mut self) -> u64 {
        self.inner.next_u64()
    }
}

// === impl Stand ===

impl Stand {
    /// Takes the victim out of the choice if it is suspended, and all others while it hurries.
    fn restrict(&mut self, choice: &mut Vec<&Task>) {
        let (Some(victim), Some(stop_at)) = (self.victim, self.stop_at) else { return };
        if self.is_resumed || !choice.iter().any(|task| task.id() == victim) {
            return;
        }
        if self.steps < stop_at {
            if self.hurries {
                choice.retain(|task| task.id() == victim);
            }
        } else if choice.len() == 1 {
            // Nobody else can go on. The body ends, and fails.
            (self.is_awaited, self.is_resumed) = (true, true);
        } else {
            choice.retain(|task| task.id() != victim);
        }
    }
}
