//! Which threads wait for which, so that no wait is a deadlock.
//!
//! *Circles*: an engine ends when its reapers have returned from their tasks, a pool when its
//! workers have, and a stop joins these threads, with the destructors of their thread-locals. Such
//! a task or destructor may itself wait for the end of another engine or pool. If that one cannot
//! end before this task returns, directly or through others, all of them would wait for ever. The
//! wait that would close the circle is refused: it is an error, not a deadlock.
//!
//! Only waits of this crate are known here. A task that waits for another by other means (a
//! channel, a lock) may still be part of a circle that is not detected.
//!
//! *Yielding*: a reaper may wait for a pool's workers (`Full::Block`). A task on such a worker that
//! stops an engine, or runs its turns, waits for a reaper. So all code of the engine that waits for
//! a reaper waits inside [`yield_while`]: there a worker tells its pool that it will not take
//! payloads, and if it was the last one, reapers stop waiting for room.
//!
//! *Owner*: each thread has the list of parties that it works for, and its post, if it has one. The
//! waits in progress are behind one lock. A thread takes it only if it works for a party, and calls
//! nothing else under it. A child process has a list and a lock of its own: the parent's may be
//! locked for ever there, and none of the parent's waits goes on.
//!
//! *Tested by*: `tests/races/stop/cycles.rs`, `tests/races/dispatch/inside.rs`,
//! `tests/alone/fork/main.rs`.

use std::cell::{Cell, RefCell};

use crate::sync::{Arc, Global, Mutex, MutexGuard, Nesting};

use super::Process;

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

/// A thread waits for `awaited`, and so do all parties that cannot end before it continues.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Wait {
    waiting: Vec<Party>,
    awaited: Party,
}

/// The waits in progress of a process.
#[derive(Debug)]
struct WaitGraph {
    process: Process,
    // LOCK(WAITS): engine: wait_for, drop; stopper: wait_for, drop; worker: wait_for, drop;
    // caller: wait_for, drop; through: lock.
    list: Mutex<Vec<Wait>>,
}

/// A wait in progress. It ends when this guard is dropped.
#[derive(Debug)]
pub(crate) struct WaitGuard(Option<(&'static WaitGraph, Wait)>);

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

static WAIT_GRAPH: Global<WaitGraph> = Global::empty();

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

/// Registers that the calling thread is about to wait for the end of `party`. Returns `None` if
/// `party` waits for this thread, directly or not.
pub(crate) fn wait_for(party: Party) -> Option<WaitGuard> {
    let mut waiting = WORKS_FOR.with(Nesting::keys);
    waiting.extend(EMPLOYER.get());
    if waiting.is_empty() {
        return Some(WaitGuard(None));
    }
    let waits = WAIT_GRAPH.get_or_make(WaitGraph::are_ours, WaitGraph::none);
    let mut list = waits.lock();
    if closes_a_circle(&list, &waiting, party) {
        return None;
    }
    let wait = Wait { waiting, awaited: party };
    list.push(wait.clone());
    Some(WaitGuard(Some((waits, wait))))
}

/// Whether the end of `party` waits, directly or not, for one of `waiting`.
fn closes_a_circle(waits: &[Wait], waiting: &[Party], party: Party) -> bool {
    let mut reached = vec![party];
    let mut next = 0;
    while let Some(&party) = reached.get(next) {
        next += 1;
        if waiting.contains(&party) {
            return true;
        }
        for wait in waits.iter().filter(|wait| wait.waiting.contains(&party)) {
            if !reached.contains(&wait.awaited) {
                reached.push(wait.awaited);
            }
        }
    }
    false
}

impl WaitGraph {
    fn none() -> WaitGraph {
        WaitGraph { process: Process::current(), list: Mutex::new(Vec::new()) }
    }

    fn are_ours(&self) -> bool {
        self.process.is_current()
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Wait>> {
        self.list.lock().expect("nothing panics under this lock")
    }
}

impl Drop for WaitGuard {
    fn drop(&mut self) {
        let Some((waits, wait)) = &self.0 else { return };
        if !waits.are_ours() {
            return;
        }
        let mut list = waits.lock();
        let at = list.iter().position(|other| other == wait);
        list.swap_remove(at.expect("a wait that was entered is there"));
    }
}

/// Runs `f` with the calling thread at `post`.
pub(crate) fn serve<R>(post: Arc<dyn Post>, f: impl FnOnce() -> R) -> R {
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
    fn a_wait_that_would_close_a_circle_is_refused() {
        let [a, b, c] = [Party::Engine(1), Party::Pool(1), Party::Engine(2)];
        let wait = |from: &[Party], awaited| Wait { waiting: from.to_vec(), awaited };
        let waits = [wait(&[a], b), wait(&[b], c)];
        assert!(closes_a_circle(&waits, &[c], a));
        assert!(closes_a_circle(&waits, &[c], b));
        assert!(closes_a_circle(&waits, &[a], a), "by itself");
        assert!(!closes_a_circle(&waits, &[a], c), "that one waits for nobody");
        assert!(!closes_a_circle(&waits, &[Party::Pool(9)], a), "nobody waits for this one");
    }

    #[test]
    fn a_thread_that_works_for_nobody_may_wait_for_anybody() {
        let party = Party::Engine(u32::MAX);
        assert!(wait_for(party).is_some());
        work_for(party, || assert!(wait_for(party).is_none() && works_for(party)));
        assert!(!works_for(party));
    }
}
