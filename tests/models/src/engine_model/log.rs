//! What happened, in order: written by whoever does something, judged by the oracle afterwards.
//!
//! Nothing is asserted where it happens: the engine catches what its tasks panic with, and a
//! failure there would go unnoticed.

use std::mem;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use super::case::Task;

/// Something that happened. Payloads are told by their numbers.
#[derive(Clone, Debug)]
pub(crate) enum Event {
    /// `asked_ns` is the time that was asked for, `u64::MAX` for never; `now_ns` the clock.
    Scheduled {
        number: usize,
        asked_ns: u64,
        now_ns: u64,
        outcome: Scheduled,
    },
    /// `back`: the payload that came back.
    Cancelled {
        number: usize,
        done: bool,
        back: Option<usize>,
    },
    /// `None`: the payload came back.
    Reset {
        number: usize,
        asked_ns: u64,
        now_ns: u64,
        moved: bool,
    },
    /// A payload goes on under another number.
    Renamed {
        number: usize,
    },
    Dropped {
        number: usize,
    },
    /// The handler was called with so many payloads.
    Began {
        left: usize,
        now_ns: u64,
    },
    Handed {
        number: usize,
        deadline: Instant,
    },
    /// The handler returns, or panics before it took anything.
    Left {
        all: bool,
    },
    /// A task moved the clock.
    MovedClock,
    /// A payload is about to panic.
    Panics,
    /// A task tried what it may not.
    Meddled {
        refused: bool,
    },
    /// The hook was called.
    Rang {
        shard: usize,
    },
}

/// What became of a schedule. A refused payload comes back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scheduled {
    Done,
    Full { back: usize },
    Stopped { back: usize },
}

/// All that happened since it was last taken.
#[derive(Debug, Default)]
pub(crate) struct Log {
    events: Mutex<Vec<Event>>,
    numbers: Mutex<usize>,
}

/// A payload: it says when it is dropped.
#[derive(Debug)]
pub(crate) struct Token {
    pub(crate) number: usize,
    pub(crate) task: Option<Box<Task>>,
    log: Arc<Log>,
}

// === impl Log ===

impl Log {
    pub(crate) fn add(&self, event: Event) {
        self.events.lock().unwrap_or_else(PoisonError::into_inner).push(event);
    }

    pub(crate) fn take(&self) -> Vec<Event> {
        mem::take(&mut *self.events.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// How many numbers were given out.
    pub(crate) fn numbers(&self) -> usize {
        *self.numbers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn token(self: &Arc<Log>, task: Task) -> Token {
        let task = (!matches!(task, Task::Nothing)).then(|| Box::new(task));
        Token { number: self.next_number(), task, log: self.clone() }
    }

    fn next_number(&self) -> usize {
        let mut numbers = self.numbers.lock().unwrap_or_else(PoisonError::into_inner);
        *numbers += 1;
        *numbers - 1
    }
}

// === impl Token ===

impl Token {
    /// Goes on as a new payload.
    pub(crate) fn rename(&mut self) {
        self.log.add(Event::Renamed { number: self.number });
        self.number = self.log.next_number();
    }
}

impl Drop for Token {
    fn drop(&mut self) {
        self.log.add(Event::Dropped { number: self.number });
    }
}
