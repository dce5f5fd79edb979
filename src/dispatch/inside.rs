//! Which engines, pools and tasks the calling thread is inside of, so that none waits for itself.
//!
//! An engine ends when its reapers have returned from their tasks, a pool when its workers have,
//! and a stop joins these threads, with the destructors of their thread-locals. So a task or such a
//! destructor that would wait for the end of its own engine, pool or task is refused: see
//! [`works_for`].
//!
//! Nothing is known of circles through others. Two engines that tasks of each other stop wait for
//! each other for ever.
//!
//! *Yielding*: a reaper may wait for a pool's workers (`Full::Block`, or the drop of a handler). A
//! task on such a worker that stops an engine, or runs its turns, waits for a reaper. So all code
//! that waits for a reaper does so inside [`yield_while`]: there a worker tells its pool that it
//! will not take payloads, and if it was the last one, reapers stop waiting.
//!
//! *Owner*: each thread has the list of parties that it works for, and its post, if it has one.
//!
//! *Tested by*: `tests/races/stop/cycles.rs`, `tests/races/dispatch/inside.rs`.

use std::cell::{Cell, RefCell};

use crate::sync::{Arc, Nesting};

/// An engine, a pool or a task: its end waits for threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Party {
    /// An engine, by its number: it waits for the threads that run its turns.
    Engine(u32),
    /// A pool of threads, by its number: it waits for its workers.
    Pool(u64),
    /// A task that can be waited for, by its address: its end comes after what it runs.
    Task(usize),
}

/// A thread's post: work that reapers may be waiting for. A worker's post is its pool.
pub(crate) trait Post: Send + Sync {
    /// The thread leaves the post for a while.
    fn leave(&self);
    /// The thread is back.
    fn resume(&self);
}

thread_local! {
    /// The parties whose ends wait for the task that this thread is running.
    static WORKS_FOR: Nesting<Party> = const { Nesting::new() };
    /// The party whose end waits for the end of this thread, with the destructors of its
    /// thread-locals.
    static EMPLOYER: Cell<Option<Party>> = const { Cell::new(None) };
    static POST: RefCell<Option<Arc<dyn Post>>> = const { RefCell::new(None) };
}

/// Runs `f` as work that `party` waits for when it ends.
pub fn work_for<R>(party: Party, f: impl FnOnce() -> R) -> R {
    WORKS_FOR.with(|parties| parties.inside(party, f))
}

/// Runs `f` as work that `party` waits for when it ends, and so is all that this thread does from
/// now on: `party` joins it.
pub(crate) fn work_to_the_end_for<R>(party: Party, f: impl FnOnce() -> R) -> R {
    EMPLOYER.set(Some(party));
    f()
}

/// Whether the end of `party` waits for the task that the calling thread is running.
pub(crate) fn works_for(party: Party) -> bool {
    EMPLOYER.get() == Some(party) || WORKS_FOR.with(|parties| parties.is_inside(&party))
}

/// Whether the end of any party waits for the task that the calling thread is running.
#[inline]
pub(crate) fn works_for_any() -> bool {
    EMPLOYER.get().is_some() || !WORKS_FOR.with(Nesting::is_empty)
}

/// Runs `f` with the calling thread at `post`.
pub(crate) fn at_post<R>(post: Arc<dyn Post>, f: impl FnOnce() -> R) -> R {
    POST.set(Some(post));
    let result = f();
    POST.take();
    result
}

/// Runs `f`, which may wait for a reaper. The thread leaves its post meanwhile, if it has one.
pub(crate) fn yield_while<R>(f: impl FnOnce() -> R) -> R {
    struct Back(Option<Arc<dyn Post>>);
    impl Drop for Back {
        fn drop(&mut self) {
            if let Some(post) = self.0.take() {
                post.resume();
                POST.set(Some(post));
            }
        }
    }
    // The post is taken out, so that a nested call does not leave it twice. A thread that is
    // ending has left its post.
    let post = POST.try_with(RefCell::take).unwrap_or_default();
    if let Some(post) = &post {
        post.leave();
    }
    let _back = Back(post);
    f()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_works_for_a_party_while_it_runs_its_work() {
        let party = Party::Engine(u32::MAX);
        work_for(party, || assert!(works_for(party) && works_for_any()));
        assert!(!works_for(party) && !works_for_any());
    }
}
