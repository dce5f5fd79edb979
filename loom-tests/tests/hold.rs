//! HOLD: who may touch a thing that many threads lead to, and how it ends.
//!
//! The models have three kinds of things: one that waits for an answer here, operations of the
//! purgatory in `tried`, things that are run and armed again in `armed`. All stand on one word.
//!
//! Who races: the thread that asks and then lets go, the one that brings the answer, one that
//! cancels.
//! Asserted: an answer is heard whether it comes while the question is still being asked or after;
//! where it comes too late it stays with the thread that brought it, and nobody else touches it
//! (the checker's cell sees to that).

use std::sync::Arc;

use loom_tests::{check, on_thread};
use tickless_sync::UnsafeCell;
use tickless_sync::protocol::End::{self, Cancelled, Finished};
use tickless_sync::protocol::hold::{Came, Decided, HoldWord, Released};

#[path = "hold/armed.rs"]
mod armed;
#[path = "hold/tried.rs"]
mod tried;

/// The holder's own end stands.
const FINISHED: Released<End> = Released::Finish { how: Finished, by_holder: true };

/// A thing that waits for an answer, which is brought by another thread: once.
struct Asked {
    word: HoldWord<End>,
    /// The bringer's until it has come, then the holder's.
    answer: UnsafeCell<Option<u32>>,
    /// The holder's.
    body: UnsafeCell<Option<u32>>,
}

// SAFETY: what is kept is the holder's, which is what the models are about.
unsafe impl Sync for Asked {}

impl Asked {
    fn new() -> Arc<Asked> {
        let (answer, body) = (UnsafeCell::new(None), UnsafeCell::new(None));
        Arc::new(Asked { word: HoldWord::new_held(), answer, body })
    }

    /// The bringer's part. `false`: it was over, and the answer was taken out again.
    fn bring(&self) -> bool {
        // SAFETY: nothing has come yet.
        self.answer.with_mut(|answer| unsafe { *answer = Some(7) });
        match self.word.come(|| false) {
            Came::Hold => self.hear(),
            Came::Noted => {}
            Came::Over => {
                // SAFETY: it is over, and the answer is still the bringer's.
                assert_eq!(self.answer.with_mut(|answer| unsafe { (*answer).take() }), Some(7));
                return false;
            }
        }
        true
    }

    /// The holder's part, when an answer has come.
    fn hear(&self) {
        // SAFETY: this is the holder.
        let answer = self.answer.with_mut(|answer| unsafe { (*answer).take() });
        let is_heard = self.word.conclude(Finished) == FINISHED;
        self.finish(answer.filter(|_| is_heard).unwrap_or(0));
    }

    /// The holder's part, after it has asked.
    fn release(&self) {
        match self.word.release() {
            Released::Free => {}
            Released::Again => self.hear(),
            Released::Finish { .. } => self.finish(0),
        }
    }

    fn cancel(&self) -> bool {
        let decided = self.word.decide(Cancelled, || false);
        if decided == Decided::Finish {
            self.finish(0);
        }
        decided != Decided::Late
    }

    fn finish(&self, heard: u32) {
        if self.word.is_noted() {
            // SAFETY: the answer has come, and nobody has heard it.
            assert_eq!(self.answer.with_mut(|answer| unsafe { (*answer).take() }), Some(7));
        }
        // SAFETY: the thread that finishes gets here.
        let before = self.body.with_mut(|body| unsafe { (*body).replace(heard) });
        assert_eq!(before, None, "it is over once");
    }

    fn heard(&self) -> Option<u32> {
        // SAFETY: all other threads have returned.
        let left = self.answer.with_mut(|answer| unsafe { (*answer).take() });
        assert_eq!(left, None, "each answer is heard, or dropped by one side");
        // SAFETY: as above.
        self.body.with_mut(|body| unsafe { *body })
    }
}

#[test]
fn an_answer_is_heard_whether_it_comes_during_the_question_or_after() {
    check(3, || {
        let asked = Asked::new();
        let bringer = on_thread(&asked, Asked::bring);
        asked.release();
        assert!(bringer.join().unwrap());
        assert_eq!((asked.heard(), asked.word.end()), (Some(7), Some(Finished)));
    });
}

#[test]
fn an_answer_that_comes_too_late_stays_with_its_bringer() {
    check(3, || {
        let asked = Asked::new();
        let bringer = on_thread(&asked, Asked::bring);
        let canceller = on_thread(&asked, Asked::cancel);
        asked.release();
        bringer.join().unwrap();
        let cancelled = canceller.join().unwrap();
        let end = if cancelled { Cancelled } else { Finished };
        assert_eq!(asked.heard(), Some(if cancelled { 0 } else { 7 }));
        assert_eq!(asked.word.end(), Some(end));
    });
}
