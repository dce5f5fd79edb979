//! Operations of the purgatory: who tries one, and how it ends.
//!
//! Who races: the thread that registers an operation, threads that change what it waits for and
//! then check, one that forces it, its timer, one that cancels it.
//! Asserted: a check is never lost; an operation that can complete does, and ends once, as the
//! first decision says; what is kept beside the word is touched by one thread at a time (the
//! checker's cell sees to that), as are tries and the end.
//!
//! What the purgatory does around the word is small enough to be played here: a flag says whether
//! the lists lead to the operation yet, under a lock as theirs is.

use std::sync::Arc;

use loom_tests::{check, on_thread};
use tickless_sync::protocol::Decision::{self, Cancelled, Completed, Expired};
use tickless_sync::protocol::hold::{Came, Decided, HoldWord, Released};
use tickless_sync::{AtomicU32, Counter, Mutex, Ordering::Relaxed, UnsafeCell};

/// The holder's own try completed the operation.
const COMPLETED: Released<Decision> = Released::Finish { how: Completed, by_holder: true };

/// An operation that completes when so many things have happened.
struct Rig {
    word: HoldWord<Decision>,
    needed: u32,
    happened: AtomicU32,
    /// What each of its tries decides.
    decides: Option<Decision>,
    /// Whether the lists lead to the operation.
    is_watched: Mutex<bool>,
    /// The holder's alone: how often it ended, and how.
    kept: UnsafeCell<(u32, Option<Decision>)>,
    /// As the callbacks would count; no part of the model.
    ended: Counter,
}

// SAFETY: what is kept is the holder's, which is what the models are about.
unsafe impl Sync for Rig {}

impl Rig {
    /// One whose tries decide it, by its ticket. Its maker holds it.
    fn new_deciding(decision: Decision) -> Arc<Rig> {
        Arc::new(Rig { decides: Some(decision), ..Rig::unshared(u32::MAX) })
    }

    /// An operation that its maker holds.
    fn new_held(needed: u32) -> Arc<Rig> {
        Arc::new(Rig::unshared(needed))
    }

    fn unshared(needed: u32) -> Rig {
        Rig {
            word: HoldWord::new_held(),
            needed,
            happened: AtomicU32::new(0),
            decides: None,
            is_watched: Mutex::new(false),
            kept: UnsafeCell::new((0, None)),
            ended: Counter::new(0),
        }
    }

    /// One that waits.
    fn new_waiting(needed: u32) -> Arc<Rig> {
        let rig = Rig::new_held(needed);
        *rig.is_watched.lock().unwrap() = true;
        assert!(!rig.work());
        rig
    }

    /// The rest of a registration: the operation was tried once by now.
    fn register(&self) -> bool {
        *self.is_watched.lock().unwrap() = true;
        self.work()
    }

    /// The holder's part; whether its own try completed the operation.
    fn work(&self) -> bool {
        let released = self.word.work(Completed, || {
            self.touch(None);
            if let Some(decision) = self.decides {
                assert_ne!(self.word.decide(decision, || true), Decided::Finish, "it is held");
            }
            self.can_complete()
        });
        if let Released::Finish { how, .. } = released {
            self.touch(Some(how));
        }
        released == COMPLETED
    }

    fn can_complete(&self) -> bool {
        self.happened.load(Relaxed) == self.needed
    }

    fn touch(&self, decision: Option<Decision>) {
        self.kept.with_mut(|kept| {
            // SAFETY: only the holder gets here.
            let (ends, how) = unsafe { &mut *kept };
            *ends += u32::from(decision.is_some());
            *how = how.or(decision);
        });
        if decision.is_some() {
            self.ended.fetch_add(1, Relaxed);
        }
    }

    /// Something happens, and the key is checked; whether that completed the operation.
    fn happens(&self) -> bool {
        self.happened.fetch_add(1, Relaxed);
        self.check()
    }

    fn check(&self) -> bool {
        let is_watched = *self.is_watched.lock().unwrap();
        is_watched && self.word.come(|| false) == Came::Hold && self.work()
    }

    fn decide(&self, decision: Decision) -> bool {
        match self.word.decide(decision, || false) {
            Decided::Finish => {
                self.touch(Some(decision));
                true
            }
            Decided::Noted => true,
            Decided::Late => false,
        }
    }

    /// How it ended. To be asked when all threads have returned.
    fn end(&self) -> Option<Decision> {
        let decision = self.word.end();
        assert_eq!(self.ended.load(Relaxed), u64::from(decision.is_some()), "it ends once");
        self.kept.with_mut(|kept| {
            // SAFETY: all other threads have returned.
            assert_eq!(unsafe { *kept }.1, decision, "it ends as was decided first");
        });
        decision
    }
}

#[test]
fn a_check_during_a_try_is_not_lost() {
    check(3, || {
        let rig = Rig::new_waiting(2);
        let other = on_thread(&rig, Rig::happens);
        let completed = [rig.happens(), other.join().unwrap()];
        assert_eq!(rig.end(), Some(Completed));
        assert_eq!(completed.into_iter().filter(|completed| *completed).count(), 1);
    });
}

#[test]
fn three_checks_at_once_are_not_lost() {
    check(2, || {
        let rig = Rig::new_waiting(3);
        let others = [on_thread(&rig, Rig::happens), on_thread(&rig, Rig::happens)];
        let mut completed = u32::from(rig.happens());
        for other in others {
            completed += u32::from(other.join().unwrap());
        }
        assert_eq!((rig.end(), completed), (Some(Completed), 1));
    });
}

#[test]
fn a_check_during_registration_is_not_lost() {
    check(3, || {
        let rig = Rig::new_held(2);
        let checkers = [on_thread(&rig, Rig::happens), on_thread(&rig, Rig::happens)];
        let registered = if rig.can_complete() { None } else { Some(rig.register()) };
        let mut completed = u32::from(registered.unwrap_or_default());
        for checker in checkers {
            completed += u32::from(checker.join().unwrap());
        }
        if registered.is_some() {
            assert_eq!((rig.end(), completed), (Some(Completed), 1));
        }
    });
}

#[test]
fn a_check_a_force_and_the_timer_end_it_once() {
    check(3, || {
        let rig = Rig::new_waiting(1);
        let force = on_thread(&rig, |rig| rig.decide(Completed));
        let timer = on_thread(&rig, |rig| rig.decide(Expired));
        let checked = rig.happens();
        let (forced, expired) = (force.join().unwrap(), timer.join().unwrap());
        assert_eq!(u32::from(checked) + u32::from(forced) + u32::from(expired), 1);
        assert_eq!(rig.end(), Some(if expired { Expired } else { Completed }));
    });
}

#[test]
fn what_is_decided_during_registration_is_finished_there() {
    check(3, || {
        let rig = Rig::new_held(1);
        let timer = on_thread(&rig, |rig| rig.decide(Expired));
        let canceller = on_thread(&rig, |rig| rig.decide(Cancelled));
        let completed = rig.register();
        assert!(!completed);
        let (expired, cancelled) = (timer.join().unwrap(), canceller.join().unwrap());
        assert_ne!(expired, cancelled);
        assert_eq!(rig.end(), Some(if expired { Expired } else { Cancelled }));
    });
}

#[test]
fn a_registration_a_check_a_cancel_and_the_timer_at_once() {
    check(2, || {
        let rig = Rig::new_held(1);
        let checker = on_thread(&rig, Rig::happens);
        let canceller = on_thread(&rig, |rig| rig.decide(Cancelled));
        let timer = on_thread(&rig, |rig| rig.decide(Expired));
        let mut completed = u32::from(rig.register());
        completed += u32::from(checker.join().unwrap());
        let (cancelled, expired) = (canceller.join().unwrap(), timer.join().unwrap());
        assert_eq!(completed + u32::from(cancelled) + u32::from(expired), 1);
        let end = match (cancelled, expired) {
            (true, _) => Cancelled,
            (_, true) => Expired,
            _ => Completed,
        };
        assert_eq!(rig.end(), Some(end));
    });
}

#[test]
fn a_try_that_forces_its_own_operation_has_completed_it_unless_somebody_was_first() {
    check(3, || {
        let rig = Rig::new_deciding(Completed);
        let timer = on_thread(&rig, |rig| rig.decide(Expired));
        let force = on_thread(&rig, |rig| rig.decide(Completed));
        let by_try = rig.register();
        let (expired, forced) = (timer.join().unwrap(), force.join().unwrap());
        assert_eq!(u32::from(by_try) + u32::from(expired) + u32::from(forced), 1);
        assert_eq!(rig.end(), Some(if expired { Expired } else { Completed }));
    });
}

#[test]
fn the_hold_passes_from_thread_to_thread() {
    check(3, || {
        let rig = Rig::new_waiting(u32::MAX);
        let one = on_thread(&rig, Rig::check);
        let other = on_thread(&rig, |rig| rig.decide(Cancelled));
        assert!(!rig.check());
        assert!(!one.join().unwrap());
        assert!(other.join().unwrap());
        assert_eq!(rig.end(), Some(Cancelled));
    });
}

#[test]
fn a_check_that_finds_another_there_already_brings_its_own_news() {
    // Three things happen while the operation is held: two of the checks come while it is being
    // tried, and the second of these must not rely on the first.
    check(2, || {
        let rig = Rig::new_held(2);
        *rig.is_watched.lock().unwrap() = true;
        let others = [on_thread(&rig, Rig::happens), on_thread(&rig, Rig::happens)];
        let mut completed = u32::from(rig.work());
        for other in others {
            completed += u32::from(other.join().unwrap());
        }
        assert_eq!((rig.end(), completed), (Some(Completed), 1));
    });
}
