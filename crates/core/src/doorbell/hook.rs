//! The hook of an engine that its caller drives: a callback that wakes the caller's loop.
//!
//! A hook may use the engine, and so may ring again. A ring from inside the hook does not call it
//! again at once. The hook runs once more when it returns if the loop slept meanwhile (it was
//! woken, took a turn, and may have missed what came after its turn), or if the ring insists (a
//! stop, a sweep). Otherwise the loop still has its turn before it, and finds everything then. So
//! each further call needs a turn in between. A hook that is told the time (`earliest.rs`) makes
//! the loop come then, and not at once. So it also runs once more for a ring for an earlier time;
//! such times get earlier, and end.
//!
//! A loop may *ask* when it needs its next turn, before it sleeps. From then on it is not called
//! back by itself: what its own thread schedules it finds when it asks again, or in its next turn.
//! That holds until another thread publishes a sleep. (A shard has one loop. If another thread
//! takes a turn, it knows when the next one is needed, and the loop is not told.)
//!
//! *Owner*: any thread calls; the loop counts its sleeps as it publishes them, and says that it has
//! asked, while it holds the shard's role.
//!
//! *Orderings*: DOORBELL. The sleeps are counted before the fence of `publish`, and read after the
//! fence of `ring_before`. So is whether the loop has asked: a thread that schedules and reads that
//! it has, although another one has published a sleep since, comes before the look at the notices
//! that follows the other one's fence.
//!
//! *Tested by*: `tests/races/engine/hooks.rs`, `loom-tests/tests/doorbell.rs`.

use std::cell::Cell;

use crate::sync::{AtomicU64, AtomicUsize, Nesting, Ordering, assert_outside, per_thread};
use crate::time::Tick;

/// The callback, how often its loop went to sleep, and whether that asks.
pub struct Hook {
    call: Box<dyn Fn(Tick) + Send + Sync>,
    /// Whether the loop comes when it is told to, and not at once.
    tells_due: bool,
    sleeps: AtomicU64,
    /// The number of the thread that has asked when it needs the next turn, unless another one has
    /// published a sleep since; or [`NOBODY`].
    asked_by: AtomicUsize,
}

const NOBODY: usize = 0;

/// A call of a hook that is under way on this thread.
struct Call {
    hook: *const Hook,
    again: Cell<Again>,
    /// The earliest time for which it is called, or was rung meanwhile.
    due: Cell<Tick>,
}

/// Whether a hook was rung inside its own call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Again {
    No,
    IfTurned,
    Yes,
}

per_thread! {
    /// The hooks that the thread is inside.
    static CALLS: Nesting<Call> = Nesting::new();
}

/// The number of the calling thread, which no other one has that is alive.
fn this_thread() -> usize {
    CALLS.with(|calls| std::ptr::from_ref(calls) as usize)
}

// === impl Hook ===

impl Hook {
    /// A hook that runs `call`, which must not panic.
    pub fn new(call: impl Fn() + Send + Sync + 'static) -> Hook {
        Hook { tells_due: false, ..Hook::for_due(move |_| call()) }
    }

    /// The same for a `call` that is told when the loop is to come.
    pub fn for_due(call: impl Fn(Tick) + Send + Sync + 'static) -> Hook {
        Hook {
            call: Box::new(call),
            tells_due: true,
            sleeps: AtomicU64::new(0),
            asked_by: AtomicUsize::new(NOBODY),
        }
    }

    /// Calls the hook for what is due then. If this thread is inside a call of it already, leaves
    /// the ring to that call and returns `false`. Must be called where foreign code may run, after
    /// the ring's fence.
    pub(super) fn call(&self, due: Tick) -> bool {
        self.is_by_who_asks() || self.call_or(due, Again::IfTurned)
    }

    /// Calls the hook now or, inside its own call, once more afterwards.
    pub(super) fn insist(&self) -> bool {
        self.call_or(Tick::ZERO, Again::Yes)
    }

    /// Counts a sleep: the loop is about to publish its wake-up time. Only the shard's owner may
    /// call this.
    pub(super) fn count_sleep(&self) {
        // ORDER(DOORBELL): Relaxed - ordered by the fence in `publish`.
        self.sleeps.fetch_add(1, Ordering::Relaxed);
        // ORDER(DOORBELL): Relaxed, both - the role orders the read, and the fence what is written.
        let asked_by = self.asked_by.load(Ordering::Relaxed);
        if asked_by != NOBODY && asked_by != this_thread() {
            self.asked_by.store(NOBODY, Ordering::Relaxed);
        }
    }

    /// The calling thread has asked when it needs the next turn, and will ask again before it
    /// sleeps. Only the holder of the shard's role may call this.
    pub(super) fn has_asked(&self) {
        // ORDER(DOORBELL): Relaxed - this thread alone acts on what is written.
        self.asked_by.store(this_thread(), Ordering::Relaxed);
    }

    /// Whether the calling thread takes the turns, and will ask for the next.
    fn is_by_who_asks(&self) -> bool {
        // ORDER(DOORBELL): Relaxed - ordered by the fences; see the header.
        self.asked_by.load(Ordering::Relaxed) == this_thread()
    }

    fn call_or(&self, due: Tick, later: Again) -> bool {
        let is_this = |call: &Call| std::ptr::eq(call.hook, self);
        let leave = |call: &Call| {
            call.again.set(call.again.get().max(later));
            call.due.set(call.due.get().min(due));
        };
        if CALLS.with(|calls| calls.find(is_this, leave)).is_some() {
            return false;
        }
        assert_outside();
        let mut due = due;
        loop {
            // ORDER(DOORBELL): Relaxed - a stale number costs a call.
            let before = self.sleeps.load(Ordering::Relaxed);
            let call = Call { hook: self, again: Cell::new(Again::No), due: Cell::new(due) };
            let (again, earliest) = CALLS.with(|calls| {
                calls.inside_of(call, |call| {
                    (self.call)(due);
                    (call.again.get(), call.due.get())
                })
            });
            let is_told = !self.tells_due || earliest == due;
            let is_heard = match again {
                Again::No => true,
                // ORDER(DOORBELL): Relaxed - after the fence of the ring inside.
                Again::IfTurned => is_told && self.sleeps.load(Ordering::Relaxed) == before,
                Again::Yes => false,
            };
            if is_heard {
                return true;
            }
            due = earliest;
        }
    }
}

debug! { impl[] Hook[] {} }
