//! Timers whose handlers may have ended a process.
//!
//! What a handler that ends its process has run for is not known afterwards: the store has nothing
//! but the timer, as before. So after the next opening, each timer that was due before it is a
//! suspect. A note is written to a suspect's record before its handler runs (its
//! [`crashes`](Record::crashes), one more), and what becomes of the timer takes the note back. So
//! a note that is found says that the handler was about to run, or ran, when a process ended.
//!
//! The notes are written in batches, so that many suspects can run side by side. Those that then
//! have a note run beside few others, and those with two notes alone, in all shards of the process.
//! So a timer that did no harm has at most two notes because of one other, and from the third one
//! on it is the culprit, or the process had an end of another kind. That includes an end by other
//! timers that were less suspicious, and by those that became due after the opening. Not even these
//! wait for a suspect that runs alone: if it hung, nothing would fire any more.
//!
//! A timer that becomes due after the opening costs nothing of this.
//!
//! *Owner*: under the service's lock, as a part of the window.
//!
//! *Tested by*: here, `tests/durable/crashes.rs`, `tests/durable/oracle`.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use crate::position::Position;
use crate::record::Record;

/// How many notes there can be, by the number of crashes before; more for a service with many
/// workers.
const MOST: [usize; LEVELS] = [64, 8, 1];

const LEVELS: usize = 3;

/// By the number of crashes before, the last one for more.
#[derive(Debug)]
pub(super) struct Suspects {
    levels: [Level; LEVELS],
    alone: Alone,
}

/// Whether a suspect runs alone in one of several services that a process has for its shards. Where
/// one has to wait for another service's, it is looked for again when the shared clock was read.
#[derive(Clone, Debug, Default)]
pub(super) struct Alone(Arc<Mutex<bool>>);

#[derive(Debug, Default)]
struct Level {
    most: usize,
    /// How many have a note, and are not over.
    noted: usize,
    /// Those that have to wait for others to be over.
    waiting: VecDeque<Position>,
}

// === impl Alone ===

impl Alone {
    fn is_free(&self) -> bool {
        !*self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take(&self) -> bool {
        !std::mem::replace(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner), true)
    }

    fn release(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = false;
    }
}

// === impl Suspects ===

impl Suspects {
    pub(super) fn new(workers: usize, alone: Alone) -> Suspects {
        let mut levels = MOST.map(|most| Level { most, ..Level::default() });
        levels[0].most = levels[0].most.max(workers.saturating_mul(2));
        Suspects { levels, alone }
    }

    pub(super) fn alone(&self) -> &Alone {
        &self.alone
    }

    /// Returns where the suspect is counted. If there are too many like it, it has to wait.
    pub(super) fn enter(&mut self, record: &Record) -> Option<usize> {
        let level = (record.crashes as usize).min(LEVELS - 1);
        let Level { most, noted, waiting } = &mut self.levels[level];
        if noted < most && (level < LEVELS - 1 || self.alone.take()) {
            *noted += 1;
            return Some(level);
        }
        waiting.push_back(record.position);
        None
    }

    /// Whether one that is counted there runs alone.
    pub(super) fn is_alone(level: Option<usize>) -> bool {
        level == Some(LEVELS - 1)
    }

    /// One that was counted there is over.
    pub(super) fn leave(&mut self, level: Option<usize>) {
        if let Some(level) = level {
            self.levels[level].noted -= 1;
            if Suspects::is_alone(Some(level)) {
                self.alone.release();
            }
        }
    }

    /// One that had to wait and no longer has to. It may have been cancelled meanwhile.
    pub(super) fn next(&mut self) -> Option<Position> {
        let level = (0..LEVELS).find(|level| self.is_next(*level))?;
        self.levels[level].waiting.pop_front()
    }

    pub(super) fn has_next(&self) -> bool {
        (0..LEVELS).any(|level| self.is_next(level))
    }

    fn is_next(&self, level: usize) -> bool {
        let Level { most, noted, waiting } = &self.levels[level];
        noted < most && !waiting.is_empty() && (level < LEVELS - 1 || self.alone.is_free())
    }
}

impl Drop for Suspects {
    fn drop(&mut self) {
        if self.levels[LEVELS - 1].noted > 0 {
            self.alone.release();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn suspect(number: u64, crashes: u32) -> Record {
        let position = Position { due_ms: 1, number };
        Record { crashes, ..Record::new(position, None, [].into()) }
    }

    #[test]
    fn the_more_often_a_timer_was_cut_off_the_fewer_run_beside_it() {
        let mut suspects = Suspects::new(4, Alone::default());
        for (crashes, level, most) in [(0, 0, 64), (1, 1, 8), (2, 2, 1)] {
            for number in 0..most {
                assert_eq!(suspects.enter(&suspect(number, crashes)), Some(level));
            }
            assert_eq!(suspects.enter(&suspect(100 + u64::from(crashes), crashes)), None);
        }
        assert_eq!(suspects.enter(&suspect(200, u32::MAX)), None);
        assert!(!suspects.has_next() && suspects.next().is_none());
        suspects.leave(Some(2));
        assert!(suspects.has_next());
        assert_eq!(suspects.next(), Some(suspect(102, 2).position));
        // Until it is noted, another one could be next.
        assert_eq!(suspects.enter(&suspect(102, 2)), Some(2));
        assert!(!suspects.has_next());
    }

    /// Whichever ends the process, it has no note because of the other.
    #[test]
    fn those_that_run_alone_do_so_in_all_shards_of_a_process() {
        let alone = Alone::default();
        let mut shards = [Suspects::new(4, alone.clone()), Suspects::new(4, alone.clone())];
        assert_eq!(shards[0].enter(&suspect(1, 2)), Some(2));
        assert_eq!(shards[1].enter(&suspect(2, 5)), None);
        assert!(!shards[1].has_next() && shards[1].next().is_none());
        // Less suspicious ones do not wait.
        assert_eq!(shards[1].enter(&suspect(3, 1)), Some(1));
        shards[0].leave(Some(2));
        assert!(shards[1].has_next());
        assert_eq!(shards[1].next(), Some(suspect(2, 5).position));
        assert_eq!(shards[1].enter(&suspect(2, 5)), Some(2));
        assert_eq!(shards[0].enter(&suspect(4, 2)), None);
        // It is lost with its shard.
        drop(std::mem::replace(&mut shards[1], Suspects::new(4, alone)));
        assert!(shards[0].has_next());
    }

    #[test]
    fn many_workers_have_something_to_do() {
        let mut suspects = Suspects::new(100, Alone::default());
        assert!((0..200).all(|number| suspects.enter(&suspect(number, 0)).is_some()));
        assert_eq!(suspects.enter(&suspect(200, 0)), None);
    }
}
