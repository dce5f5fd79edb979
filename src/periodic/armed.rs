//! A thing that is armed on an engine time and again: what periodics, retries and heartbeats share.
//!
//! *Owner*: everybody, by reference count. While it waits for its timer, one reference lies in the
//! engine, inside the task ([`Arming`]). It knows its engine by number and keeps none alive.
//!
//! *Invariants*
//! - What is kept beside the word (`kept`) is touched by whoever holds the thing, or finishes it:
//!   see `protocol/hold.rs`. So the handle of the timer that it waits for is there when it is free.
//! - A closure of the user runs while the thing is held. No other closure of it does meanwhile.
//! - The last reference in the engine is never dropped unseen: a task that is dropped instead of
//!   run (an engine that ends, a dispatcher that gives up) ends the thing.
//! - What is over has no closure any more, and no timer.
//! - A panic of a closure goes on to whoever ran it (the engine counts it), after everything here
//!   has been put in order.
//!
//! *Tested by*: `tests/periodic_ends.rs`, `tests/periodic_races.rs`.

use std::fmt;

use crate::dispatch::{Panics, Task};
use crate::engine::{Engine, EngineRef, Handle};
use crate::protocol::hold::{Came, Decided, HoldWord, Released};
use crate::sync::{Arc, AtomicU64, Ordering, UnsafeCell};
use crate::time::Clock;

use super::End;

/// What such a thing does.
pub(super) trait Body: Sized + Send + 'static {
    /// What anybody may look at, at any time.
    type Shared: Send + Sync + 'static;

    /// What it waited for has come.
    fn fire(&mut self, armed: &Arc<Armed<Self>>);

    /// What it waits for from here on. Also called when `fire` panicked.
    fn next(&mut self, armed: &Armed<Self>) -> Next;

    /// It is over: nothing of it is called any more.
    fn over(self, end: End, shared: &Self::Shared);
}

/// What a thing waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// A time on the engine's clock; `u64::MAX` is never.
    At(u64),
    /// Whoever was given a reference for that.
    Answer,
    /// Nothing: it is over.
    End(End),
}

/// A body, its word, and what both need. In this order, so that what many threads look at lies
/// together at the beginning.
#[repr(C)]
pub(super) struct Armed<B: Body> {
    word: HoldWord<End>,
    pub(super) shared: B::Shared,
    /// When the timer is due that was armed last.
    due_ns: AtomicU64,
    engine: EngineRef,
    clock: Clock,
    kept: UnsafeCell<Kept<B>>,
}

/// The holder's.
struct Kept<B> {
    /// Of the timer that was armed last.
    handle: Option<Handle>,
    /// There until it is over.
    body: Option<B>,
}

/// The engine's reference to a thing. Ends it if it is dropped instead of run.
struct Arming<B: Body>(Option<Arc<Armed<B>>>);

/// An armed thing whose body has been forgotten.
pub(super) trait Arms<S>: Send + Sync {
    /// What anybody may look at.
    fn shared(&self) -> &S;

    /// The engine's clock.
    fn clock(&self) -> &Clock;

    /// The engine.
    fn engine(&self) -> EngineRef;

    /// When the timer is due that was armed last.
    fn due_ns(&self) -> u64;

    /// How it ended, if it has.
    fn end(&self) -> Option<End>;

    /// How often something came to it.
    fn count(&self) -> u64;

    /// Cancels. `true`, for one caller: nothing comes to it any more.
    fn cancel(&self) -> bool;

    /// What it waits for has come: does on this thread what is to be done. `false`: it is over,
    /// and what was brought stays with the caller.
    fn come(self: Arc<Self>) -> bool;
}

// SAFETY: the cell is the one thing here that is not `Sync` by itself. Its content is `Send`, and
// passes from holder to holder through the word (see the file's invariants).
unsafe impl<B: Body> Sync for Armed<B> {}

// === impl Armed ===

impl<B: Body> Armed<B> {
    /// Arms a new thing for a time on the engine's clock. Where that fails, the body comes back.
    pub(super) fn start(
        engine: &Engine,
        at_ns: u64,
        body: B,
        shared: B::Shared,
    ) -> Result<Arc<Armed<B>>, (End, B)> {
        let armed = Arc::new(Armed {
            word: HoldWord::new_held(),
            engine: EngineRef::new(engine),
            clock: engine.clock().clone(),
            due_ns: AtomicU64::new(at_ns),
            shared,
            kept: UnsafeCell::new(Kept { handle: None, body: Some(body) }),
        });
        match armed.wait_until(at_ns) {
            Released::Finish { how, .. } => {
                Err((how, armed.take().1.expect("nobody else has seen it")))
            }
            Released::Free | Released::Again => Ok(armed),
        }
    }

    /// The holder arms it and lets go, unless it is over.
    ///
    /// A timer that comes before the holder let go is armed once more, for a time that has come by
    /// then, rather than run here: this may be a thread of the user, who has only called `start`.
    fn wait_until(self: &Arc<Self>, at_ns: u64) -> Released<End> {
        loop {
            if let Err(over) = self.arm(at_ns) {
                return over;
            }
            match self.word.release() {
                Released::Again => {}
                released => return released,
            }
        }
    }

    /// The holder's part: schedules the timer. Where that fails, it is over.
    fn arm(self: &Arc<Self>, at_ns: u64) -> Result<(), Released<End>> {
        // ORDER: Relaxed - a time to show; who needs more has it from the word.
        self.due_ns.store(at_ns, Ordering::Relaxed);
        let arming = Arming(Some(self.clone()));
        let handle = match self.engine.schedule_at_ns(at_ns, Task::new(move || arming.run())) {
            Ok(handle) => handle,
            Err(error) => {
                // Before the task is dropped, which would have a say in this.
                return Err(self.word.conclude(match error.is_full() {
                    true => End::Full,
                    false => End::Stopped,
                }));
            }
        };
        // SAFETY: this is the holder. The handle before it is of a timer that has come.
        self.kept.with_mut(|kept| unsafe { (*kept).handle = Some(handle) });
        Ok(())
    }

    /// The holder's part when something has come: runs the body, until it waits again or is over.
    fn serve(self: &Arc<Self>) {
        // Of several panics of one hold, the first goes on.
        let mut panics = Panics::none();
        let end = loop {
            panics.run(|| self.with_body(|body| body.fire(self)));
            match self.wait_for_next(&mut panics) {
                Released::Free => break None,
                Released::Again => {}
                Released::Finish { how, .. } => break Some(how),
            }
        };
        if let Some(end) = end {
            panics.run(|| self.finish(end));
        }
        panics.go_on();
    }

    /// The holder asks the body what to wait for, and lets go. A body that panics then is over.
    fn wait_for_next(self: &Arc<Self>, panics: &mut Panics) -> Released<End> {
        if self.word.end().is_some() {
            return self.word.release();
        }
        let next = panics.run(|| self.with_body(|body| body.next(self)));
        match next.unwrap_or(Next::End(End::Panicked)) {
            Next::At(at_ns) => self.wait_until(at_ns),
            Next::Answer => self.word.release(),
            Next::End(end) => self.word.conclude(end),
        }
    }

    /// Takes back the timer, and frees the body: for whoever has it when it is over.
    fn finish(&self, end: End) {
        let (handle, body) = self.take();
        if let Some(handle) = handle {
            // Where it is too late for this, whoever has the task finds the word.
            handle.cancel();
        }
        if let Some(body) = body {
            body.over(end, &self.shared);
        }
    }

    /// What is kept, for whoever has it when it is over.
    fn take(&self) -> (Option<Handle>, Option<B>) {
        // SAFETY: only the holder and the one who finishes get here.
        self.kept.with_mut(|kept| unsafe { ((*kept).handle.take(), (*kept).body.take()) })
    }

    /// Lends the body to the holder.
    fn with_body<R>(&self, f: impl FnOnce(&mut B) -> R) -> R {
        // SAFETY: only the holder gets here, and nothing that `f` calls touches what is kept: it
        // is held already.
        self.kept.with_mut(|kept| unsafe {
            let body: &mut Option<B> = &mut (*kept).body;
            f(body.as_mut().expect("it is not over"))
        })
    }

    fn decide(&self, end: End) -> bool {
        match self.word.decide(end, || false) {
            Decided::Finish => {
                self.finish(end);
                true
            }
            Decided::Noted => true,
            Decided::Late => false,
        }
    }
}

impl<B: Body> Arms<B::Shared> for Armed<B> {
    fn shared(&self) -> &B::Shared {
        &self.shared
    }

    fn clock(&self) -> &Clock {
        &self.clock
    }

    fn engine(&self) -> EngineRef {
        self.engine
    }

    fn due_ns(&self) -> u64 {
        // ORDER: Relaxed - as where it is stored.
        self.due_ns.load(Ordering::Relaxed)
    }

    fn end(&self) -> Option<End> {
        self.word.end()
    }

    fn count(&self) -> u64 {
        self.word.count()
    }

    fn cancel(&self) -> bool {
        self.decide(End::Cancelled)
    }

    fn come(self: Arc<Self>) -> bool {
        // An answer from inside of an attempt is heard like any other.
        match self.word.come(|| false) {
            Came::Hold => {
                self.serve();
                true
            }
            Came::Noted => true,
            Came::Over => false,
        }
    }
}

impl<B: Body> fmt::Debug for Armed<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Armed").field("word", &self.word).finish_non_exhaustive()
    }
}

// === impl Arming ===

impl<B: Body> Arming<B> {
    /// The timer has come.
    fn run(mut self) {
        if let Some(armed) = self.0.take() {
            armed.come();
        }
    }
}

impl<B: Body> Drop for Arming<B> {
    fn drop(&mut self) {
        if let Some(armed) = self.0.take() {
            armed.decide(End::Stopped);
        }
    }
}
