//! Detects circular waits for the end of engines and pools: a circle is an error, not a deadlock.
//!
//! An engine ends when its reapers have returned from their tasks, a pool when its workers have.
//! Such a task may itself wait for the end of another engine or pool. If that one cannot end before
//! this task returns, directly or through others, all of them would wait for ever. The wait that
//! would close the circle is refused.
//!
//! Only waits of this crate are known here. A task that waits for another by other means (a
//! channel, a lock) may still be part of a circle that is not detected.
//!
//! *Owner*: each thread has the list of parties that it works for. The waits in progress are behind
//! one lock. A thread takes it only if it works for a party, and calls nothing else under it.
//!
//! *Tested by*: `tests/stop_cycles.rs`.

use std::mem;

use crate::sync::{Mutex, MutexGuard, Nesting};

/// An engine or a pool: its end waits for threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Party {
    /// An engine, by its number: it waits for the threads that run its turns.
    Engine(u32),
    /// A pool of threads, by its number: it waits for its workers.
    Pool(u64),
}

/// A thread waits for `awaited`, and so do all parties that cannot end before it continues.
struct Wait {
    waiting: Vec<Party>,
    awaited: Party,
}

/// A wait in progress. It ends when this guard is dropped.
#[derive(Debug)]
pub(crate) struct Waiting {
    wait: Option<(Vec<Party>, Party)>,
}

thread_local! {
    /// The parties whose ends wait for the task that this thread is running.
    static WORKS_FOR: Nesting<Party> = const { Nesting::new() };
}

static WAITS: Mutex<Vec<Wait>> = Mutex::new(Vec::new());

/// Runs `f` as work that `party` waits for when it ends.
pub(crate) fn work_for<R>(party: Party, f: impl FnOnce() -> R) -> R {
    WORKS_FOR.with(|parties| parties.inside(party, f))
}

/// Whether the end of `party` waits for the task that the calling thread is running.
pub(crate) fn works_for(party: Party) -> bool {
    WORKS_FOR.with(|parties| parties.is_inside(&party))
}

/// Registers that the calling thread is about to wait for the end of `party`. Returns `None` if
/// `party` waits for this thread, directly or not.
pub(crate) fn wait_for(party: Party) -> Option<Waiting> {
    let waiting = WORKS_FOR.with(Nesting::keys);
    if waiting.is_empty() {
        return Some(Waiting { wait: None });
    }
    let mut waits = lock();
    if closes_a_circle(&waits, &waiting, party) {
        return None;
    }
    waits.push(Wait { waiting: waiting.clone(), awaited: party });
    Some(Waiting { wait: Some((waiting, party)) })
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

fn lock() -> MutexGuard<'static, Vec<Wait>> {
    WAITS.lock().expect("nothing panics under this lock")
}

impl Drop for Waiting {
    fn drop(&mut self) {
        let Some((waiting, awaited)) = mem::take(&mut self.wait) else { return };
        let mut waits = lock();
        let at = waits.iter().position(|w| w.awaited == awaited && w.waiting == waiting);
        waits.swap_remove(at.expect("a wait that was entered is there"));
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;

    #[test]
    fn whoever_would_close_a_circle_is_refused() {
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
