//! Things that are run and armed again: who has one, and how it ends.
//!
//! Who races: the thread that starts it, the reaper (or a dispatcher's thread) that runs it and
//! arms it again, threads that cancel, the task that cancels from inside, the engine that stops,
//! the thread that brings the answer to an attempt.
//! Asserted: nothing that was armed is lost; the body is touched by one thread at a time (the
//! checker's cell sees to that) and freed once, by the one that the word names; no run begins once
//! a cancel has returned; how it ended is what was decided first; what is brought is seen.
//!
//! The engine is played: it has room for the one timer that is armed, under a lock as its lists
//! are, and gives it to one who runs it or to the one who stops it.

use std::sync::Arc;

use loom_tests::{check, on_thread};
use tickless_sync::protocol::End::{self, Cancelled, Finished, Full, Stopped};
use tickless_sync::protocol::hold::{Came, Decided, HoldWord, Released};
use tickless_sync::{Counter, Mutex, Ordering::Relaxed, UnsafeCell, thread};

/// A thing that runs so many times.
struct Rig {
    word: HoldWord<End>,
    most: u64,
    /// Whether a run cancels from inside: the run of that number.
    cancels_in: u64,
    engine: Mutex<Played>,
    /// The holder's alone.
    kept: UnsafeCell<Kept>,
    /// Something that is done before the word is exchanged.
    deed: UnsafeCell<u32>,
    /// As a closure would count; no part of the model.
    runs: Counter,
    ended: Counter,
    told_yes: Counter,
}

#[derive(Default)]
struct Played {
    is_armed: bool,
    is_stopped: bool,
}

struct Kept {
    runs: u64,
    body: Option<End>,
}

// SAFETY: what is kept is the holder's, which is what the models are about.
unsafe impl Sync for Rig {}

impl Rig {
    fn new(most: u64, cancels_in: u64) -> Arc<Rig> {
        Arc::new(Rig {
            word: HoldWord::new_held(),
            most,
            cancels_in,
            engine: Mutex::new(Played::default()),
            kept: UnsafeCell::new(Kept { runs: 0, body: None }),
            deed: UnsafeCell::new(0),
            runs: Counter::new(0),
            ended: Counter::new(0),
            told_yes: Counter::new(0),
        })
    }

    /// One that waits for its first run.
    fn started(most: u64, cancels_in: u64) -> Arc<Rig> {
        let rig = Rig::new(most, cancels_in);
        assert!(rig.wait());
        rig
    }

    /// The holder's part: arms it and lets go, or finishes it. Whether it waits.
    fn wait(&self) -> bool {
        loop {
            let mut engine = self.engine.lock().unwrap();
            if engine.is_stopped {
                drop(engine);
                self.conclude(Stopped);
                return false;
            }
            assert!(!engine.is_armed, "one timer at a time");
            engine.is_armed = true;
            drop(engine);
            match self.word.release() {
                Released::Free => return true,
                Released::Again => {}
                Released::Finish { how, .. } => {
                    self.finish(how);
                    return false;
                }
            }
        }
    }

    /// The engine's: runs what is armed, if anything is.
    fn turn(&self) {
        let mut engine = self.engine.lock().unwrap();
        let is_due = std::mem::take(&mut engine.is_armed);
        drop(engine);
        if is_due && self.word.come(|| false) == Came::Hold {
            self.run();
        }
    }

    fn run(&self) {
        let number = self.touch(None);
        if number == self.cancels_in {
            self.cancel();
        }
        match self.word.end() {
            Some(end) => self.finish(end),
            None if number == self.most => self.conclude(Finished),
            None => drop(self.wait()),
        }
    }

    /// The engine's end: what is armed is dropped.
    fn stop(&self) {
        let mut engine = self.engine.lock().unwrap();
        engine.is_stopped = true;
        let was_armed = std::mem::take(&mut engine.is_armed);
        drop(engine);
        if was_armed {
            self.decide(Stopped);
        }
    }

    /// Whether this cancelled it; no run begins from here on.
    fn cancel(&self) -> bool {
        let cancelled = self.decide(Cancelled);
        let runs = self.word.count();
        assert!(self.word.end().is_some());
        thread::yield_now();
        assert_eq!(self.word.count(), runs, "no run begins");
        self.told_yes.fetch_add(u64::from(cancelled), Relaxed);
        cancelled
    }

    fn decide(&self, how: End) -> bool {
        match self.word.decide(how, || false) {
            Decided::Finish => {
                self.finish(how);
                true
            }
            Decided::Noted => true,
            Decided::Late => false,
        }
    }

    /// The holder's: decides, unless that is done, and finishes it.
    fn conclude(&self, end: End) {
        if let Released::Finish { how, .. } = self.word.conclude(end) {
            self.finish(how);
        }
    }

    fn finish(&self, end: End) {
        // First what is kept, so that no lock orders what the word has to order; then what is
        // still armed is taken back, or the thread that has it finds the word.
        self.touch(Some(end));
        self.engine.lock().unwrap().is_armed = false;
    }

    /// A run, or the end. Which run it is.
    fn touch(&self, end: Option<End>) -> u64 {
        match end {
            None => self.runs.fetch_add(1, Relaxed),
            Some(_) => self.ended.fetch_add(1, Relaxed),
        };
        self.kept.with_mut(|kept| {
            // SAFETY: only the holder gets here, and the one who finishes.
            let Kept { runs, body } = unsafe { &mut *kept };
            assert_eq!(*body, None, "it is over once, and nothing runs then");
            *runs += u64::from(end.is_none());
            *body = end;
            *runs
        })
    }

    /// How it ended; asked when all threads have returned.
    fn end(&self) -> Option<End> {
        let end = self.word.end();
        let engine = self.engine.lock().unwrap();
        assert_eq!(self.ended.load(Relaxed), u64::from(end.is_some()), "it ends once");
        assert_eq!(engine.is_armed, end.is_none(), "it waits for its timer, or is over");
        self.kept.with_mut(|kept| {
            // SAFETY: all other threads have returned.
            let kept = unsafe { &*kept };
            assert_eq!(kept.body, end, "it ends as was decided first");
            assert_eq!(kept.runs, self.runs.load(Relaxed));
            assert_eq!(kept.runs, self.word.count(), "each run was counted");
        });
        end
    }
}

#[test]
fn a_timer_that_comes_while_it_is_being_armed_is_not_lost() {
    check(3, || {
        let rig = Rig::new(u64::MAX, 0);
        let reaper = on_thread(&rig, |rig| {
            rig.turn();
            rig.turn();
        });
        assert!(rig.wait());
        reaper.join().unwrap();
        assert_eq!(rig.end(), None);
        let before = rig.word.count();
        rig.turn();
        assert_eq!(rig.word.count(), before + 1, "it is free, and its timer brings it on");
    });
}

#[test]
fn two_reapers_run_it_one_after_the_other() {
    check(3, || {
        let rig = Rig::started(u64::MAX, 0);
        let reaper = on_thread(&rig, |rig| {
            rig.turn();
            rig.turn();
        });
        rig.turn();
        rig.turn();
        reaper.join().unwrap();
        assert_eq!(rig.end(), None);
    });
}

#[test]
fn of_a_cancel_and_a_run_the_word_says_who_frees_it() {
    check(3, || {
        let rig = Rig::started(u64::MAX, 0);
        let canceller = on_thread(&rig, Rig::cancel);
        rig.turn();
        rig.turn();
        assert!(canceller.join().unwrap());
        assert_eq!(rig.end(), Some(Cancelled));
    });
}

#[test]
fn of_two_who_cancel_from_outside_and_one_from_inside_one_is_told_yes() {
    check(3, || {
        let rig = Rig::started(u64::MAX, 1);
        let cancellers = [on_thread(&rig, Rig::cancel), on_thread(&rig, Rig::cancel)];
        rig.turn();
        for canceller in cancellers {
            canceller.join().unwrap();
        }
        assert_eq!(rig.told_yes.load(Relaxed), 1);
        assert_eq!(rig.end(), Some(Cancelled));
    });
}

#[test]
fn a_run_a_cancel_and_the_engines_end_at_once() {
    check(3, || {
        let rig = Rig::started(2, 0);
        let canceller = on_thread(&rig, Rig::cancel);
        let stopper = on_thread(&rig, Rig::stop);
        rig.turn();
        rig.turn();
        let cancelled = canceller.join().unwrap();
        stopper.join().unwrap();
        let end = rig.end().expect("the engine's end is its end");
        assert_eq!(cancelled, end == Cancelled);
        assert!(matches!(end, Cancelled | Stopped | Finished), "{end:?}");
    });
}

#[test]
fn an_engine_that_ends_while_it_is_being_started_is_noticed_there() {
    check(3, || {
        let rig = Rig::new(u64::MAX, 0);
        let stopper = on_thread(&rig, Rig::stop);
        let reaper = on_thread(&rig, Rig::turn);
        rig.wait();
        stopper.join().unwrap();
        reaper.join().unwrap();
        assert_eq!(rig.end(), Some(Stopped));
    });
}

#[test]
fn who_sees_an_end_or_a_run_counted_sees_what_was_done_before() {
    for is_end in [true, false] {
        check(3, move || {
            let rig = Rig::started(u64::MAX, 0);
            let reader = on_thread(&rig, move |rig| {
                let has_come = match is_end {
                    true => rig.word.end().is_some(),
                    false => rig.word.count() == 2,
                };
                if has_come {
                    // SAFETY: the word orders this after what was done.
                    assert_eq!(rig.deed.with_mut(|deed| unsafe { *deed }), 1);
                }
            });
            rig.turn();
            // SAFETY: nobody else touches it before the word says so.
            rig.deed.with_mut(|deed| unsafe { *deed = 1 });
            if is_end {
                assert_eq!(rig.word.decide(Cancelled, || false), Decided::Finish);
                rig.finish(Cancelled);
            } else {
                rig.turn();
            }
            reader.join().unwrap();
        });
    }
}

#[test]
fn a_thing_that_finds_no_room_is_over() {
    check(3, || {
        let rig = Rig::new(u64::MAX, 0);
        let canceller = on_thread(&rig, Rig::cancel);
        rig.conclude(Full);
        let cancelled = canceller.join().unwrap();
        assert_eq!(rig.end(), Some(if cancelled { Cancelled } else { Full }));
    });
}
