//! The timers and what is to be done. *The table decides*: what a timer does stays here until the
//! engine begins to run it. So a cancel, a reset or a stop wins until then.
//!
//! ```text
//!            due             begin             come back
//!   waits ────────► handed ────────► runs ───────────────► waits
//!     ▲               │  the engine has stopped: refused
//!     └──── reset ────┘
//! ```
//!
//! *Owner*: any thread, under the lock of `keeper`. Nothing foreign runs there: what leaves the
//! table is returned, and dropped by the caller without the lock.
//!
//! *Invariants*
//! - A timer is in `waiting` if and only if its stage is `Waits`, with the same time.
//! - Each handing over has a number of its own. The engine's task begins only what was handed over
//!   under that number and is still in that stage.
//! - A timer has no item while it runs. One thread at a time has that.

use std::collections::{BTreeSet, HashMap};
use std::mem;
use std::time::SystemTime;

use crate::dispatch::{Runs, Task};

/// The timers.
#[derive(Default)]
pub(super) struct Table {
    timers: HashMap<u64, Timer>,
    waiting: BTreeSet<(SystemTime, u64)>,
    /// The numbers that were given out last: of a timer, and of a handing over.
    last: u64,
    last_run: u64,
    is_closed: bool,
}

struct Timer {
    stage: Stage,
    item: Option<Item>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    Waits(SystemTime),
    /// The engine has it, as the run of that number.
    Handed(SystemTime, u64),
    /// The engine has stopped.
    Refused(SystemTime),
    Runs,
}

/// The work of a timer.
pub(super) enum Item {
    Once(Task),
    Repeat(Box<Repeat>),
}

/// A task that repeats, and its times.
pub(super) struct Repeat {
    pub(super) next: Box<dyn FnMut(SystemTime) -> Option<SystemTime> + Send>,
    pub(super) task: Box<dyn FnMut(SystemTime) + Send>,
}

/// A timer that is due, handed over under a number of its own.
#[derive(Clone, Copy)]
pub(super) struct DueTimer {
    pub(super) number: u64,
    run: u64,
}

/// A repeating task that runs once.
struct OneRun {
    due: SystemTime,
    repeat: Box<Repeat>,
}

// === impl Table ===

impl Table {
    /// Enters a timer. Returns its number.
    ///
    /// # Errors
    /// The table is closed: returns the item.
    pub(super) fn enter(&mut self, time: SystemTime, item: Item) -> Result<u64, Item> {
        if self.is_closed {
            return Err(item);
        }
        self.last += 1;
        let (number, stage) = (self.last, Stage::Waits(time));
        self.timers.insert(number, Timer { stage, item: Some(item) });
        self.waiting.insert((time, number));
        Ok(number)
    }

    /// The first timer, if that is due by `now`. It is to be handed over.
    pub(super) fn take_due(&mut self, now: SystemTime) -> Option<DueTimer> {
        let &(due, number) = self.waiting.first().filter(|(due, _)| *due <= now)?;
        self.last_run += 1;
        self.put(number, Stage::Handed(due, self.last_run));
        Some(DueTimer { number, run: self.last_run })
    }

    /// What was handed over comes back, because the engine has stopped.
    pub(super) fn refuse(&mut self, due_timer: DueTimer) {
        if let Some(due) = self.handed(due_timer) {
            self.put(due_timer.number, Stage::Refused(due));
        }
    }

    /// The engine begins what was handed to it. `None`: it was cancelled or moved meanwhile.
    pub(super) fn begin_due(&mut self, due_timer: DueTimer) -> Option<(SystemTime, Item)> {
        let due = self.handed(due_timer)?;
        let timer = self.timers.get_mut(&due_timer.number).expect("it was found");
        timer.stage = Stage::Runs;
        let item = timer.item.take().expect("it does not run");
        if matches!(item, Item::Once(_)) {
            self.timers.remove(&due_timer.number);
        }
        Some((due, item))
    }

    /// Takes back a repeating task that has run.
    ///
    /// # Errors
    /// It was cancelled meanwhile, or the table is closed: returns the item.
    pub(super) fn come_back(
        &mut self,
        number: u64,
        time: SystemTime,
        item: Item,
    ) -> Result<(), Item> {
        if self.is_closed {
            self.timers.remove(&number);
            return Err(item);
        }
        let Some(timer) = self.timers.get_mut(&number) else { return Err(item) };
        timer.item = Some(item);
        self.put(number, Stage::Waits(time));
        Ok(())
    }

    /// Ends a timer. Returns its item, unless that runs. `None`: it was over.
    pub(super) fn end(&mut self, number: u64) -> Option<Option<Item>> {
        let timer = self.timers.remove(&number)?;
        if let Stage::Waits(time) = timer.stage {
            self.waiting.remove(&(time, number));
        }
        Some(timer.item)
    }

    /// Moves a timer. Returns `false` if it runs or is over, or the table is closed: nobody would
    /// hand it over at its new time.
    pub(super) fn reset(&mut self, number: u64, to: SystemTime) -> bool {
        let is_here = self.timers.get(&number).is_some_and(|timer| timer.stage != Stage::Runs);
        let moves = is_here && !self.is_closed;
        if moves {
            self.put(number, Stage::Waits(to));
        }
        moves
    }

    /// Returns the time that a timer waits for.
    pub(super) fn time_of(&self, number: u64) -> Option<SystemTime> {
        match self.timers.get(&number)?.stage {
            Stage::Waits(time) => Some(time),
            _ => None,
        }
    }

    pub(super) fn is_over(&self, number: u64) -> bool {
        !self.timers.contains_key(&number)
    }

    pub(super) fn first(&self) -> Option<SystemTime> {
        self.waiting.first().map(|&(time, _)| time)
    }

    pub(super) fn len(&self) -> usize {
        self.waiting.len()
    }

    pub(super) fn is_closed(&self) -> bool {
        self.is_closed
    }

    /// From here on, nothing is entered, comes back or becomes due.
    pub(super) fn close(&mut self) {
        self.is_closed = true;
        for (_, number) in mem::take(&mut self.waiting) {
            let timer = self.timers.get_mut(&number).expect("what waits is there");
            if let Stage::Waits(time) = timer.stage {
                timer.stage = Stage::Refused(time);
            }
        }
    }

    /// Takes out what will not run any more, in the order of time; of a closed table. With `all`,
    /// what the engine has not begun is among it.
    pub(super) fn take_left(&mut self, all: bool) -> Vec<(SystemTime, Item)> {
        let is_left = |timer: &Timer| match timer.stage {
            Stage::Refused(time) => Some(time),
            Stage::Handed(time, _) if all => Some(time),
            _ => None,
        };
        let mut left: Vec<(SystemTime, u64)> = Vec::new();
        for (&number, timer) in &self.timers {
            left.extend(is_left(timer).map(|time| (time, number)));
        }
        left.sort_unstable();
        let take = |(time, number)| Some((time, self.timers.remove(&number)?.item?));
        left.into_iter().filter_map(take).collect()
    }

    /// When a timer was due, if it is handed over, and that is the last time that it was.
    fn handed(&self, due_timer: DueTimer) -> Option<SystemTime> {
        match self.timers.get(&due_timer.number)?.stage {
            Stage::Handed(due, run) if run == due_timer.run => Some(due),
            _ => None,
        }
    }

    fn put(&mut self, number: u64, to: Stage) {
        let to = match to {
            Stage::Waits(time) if self.is_closed => Stage::Refused(time),
            to => to,
        };
        let timer = self.timers.get_mut(&number).expect("a timer that is there is put");
        let from = mem::replace(&mut timer.stage, to);
        if let Stage::Waits(time) = from {
            self.waiting.remove(&(time, number));
        }
        if let Stage::Waits(time) = to {
            self.waiting.insert((time, number));
        }
    }
}

// === impl Item, OneRun ===

impl Item {
    /// A task that does what was to be done at `due`, once.
    pub(super) fn into_task(self, due: SystemTime) -> Task {
        match self {
            Item::Once(task) => task,
            Item::Repeat(repeat) => Task::of(OneRun { due, repeat }),
        }
    }
}

impl Runs for OneRun {
    fn run(mut self) {
        (self.repeat.task)(self.due);
    }
}
