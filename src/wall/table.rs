//! The timers that wait, in the order of their times. *The table decides*: who takes a timer out of
//! it has it.
//!
//! *Owner*: any thread, under the lock of `keeper`. Nothing foreign runs there: what leaves the
//! table is returned, and dropped by the caller without the lock.
//!
//! *Invariants*
//! - A number is in `numbers` with a time if and only if the timer waits under both in `waiting`.
//! - A number without a time is that of a repeating task that runs, or will soon: it was handed to
//!   the engine. The task comes back under its number, unless that was taken away meanwhile.

use std::collections::{BTreeMap, HashMap};
use std::mem;
use std::time::SystemTime;

use crate::dispatch::{Runs, Task};

/// The timers that wait.
#[derive(Default)]
pub(super) struct Table {
    waiting: BTreeMap<(SystemTime, u64), Item>,
    numbers: HashMap<u64, Option<SystemTime>>,
    last: u64,
    /// What the engine has refused.
    refused: Vec<Task>,
    is_closed: bool,
}

/// What is to be done.
pub(super) enum Item {
    Once(Task),
    Repeat(Box<Repeat>),
}

/// A task that repeats, and its times.
pub(super) struct Repeat {
    pub(super) next: Box<dyn FnMut(SystemTime) -> Option<SystemTime> + Send>,
    pub(super) task: Box<dyn FnMut(SystemTime) + Send>,
}

/// A timer that has left the table because it is due.
pub(super) struct Left {
    pub(super) number: u64,
    pub(super) due: SystemTime,
    pub(super) item: Item,
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
        let number = self.last;
        self.numbers.insert(number, Some(time));
        self.waiting.insert((time, number), item);
        Ok(number)
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
        match self.numbers.get_mut(&number) {
            Some(place @ None) if !self.is_closed => *place = Some(time),
            _ => return Err(item),
        }
        self.waiting.insert((time, number), item);
        Ok(())
    }

    /// Forgets a number that has no time.
    pub(super) fn finish(&mut self, number: u64) {
        if self.numbers.get(&number) == Some(&None) {
            self.numbers.remove(&number);
        }
    }

    /// Cancels a timer. `None`: it is over. Returns the item, unless that runs.
    pub(super) fn cancel(&mut self, number: u64) -> Option<Option<Item>> {
        let time = self.numbers.remove(&number)?;
        Some(time.and_then(|time| self.waiting.remove(&(time, number))))
    }

    /// Moves a timer that waits. Returns `false` if it does not.
    pub(super) fn reset(&mut self, number: u64, to: SystemTime) -> bool {
        let Some(Some(time)) = self.numbers.get_mut(&number) else { return false };
        let from = mem::replace(time, to);
        let item = self.waiting.remove(&(from, number)).expect("it waits under its time");
        self.waiting.insert((to, number), item);
        true
    }

    /// Returns the time of a timer. `None`: it is over. `Some(None)`: its task runs.
    pub(super) fn time_of(&self, number: u64) -> Option<Option<SystemTime>> {
        self.numbers.get(&number).copied()
    }

    /// Takes out the first timer, if that is due by `now`.
    pub(super) fn take_due(&mut self, now: SystemTime) -> Option<Left> {
        let first = self.waiting.first_entry().filter(|first| first.key().0 <= now)?;
        let ((due, number), item) = first.remove_entry();
        match item {
            Item::Once(_) => self.numbers.remove(&number),
            Item::Repeat(_) => self.numbers.insert(number, None),
        };
        Some(Left { number, due, item })
    }

    /// Keeps what the engine has refused.
    pub(super) fn keep_refused(&mut self, task: Task) {
        self.refused.push(task);
    }

    pub(super) fn first(&self) -> Option<SystemTime> {
        self.waiting.first_key_value().map(|(&(time, _), _)| time)
    }

    pub(super) fn len(&self) -> usize {
        self.waiting.len()
    }

    pub(super) fn is_closed(&self) -> bool {
        self.is_closed
    }

    /// Closes the table. Returns what was refused, and what waits.
    pub(super) fn close(&mut self) -> (Vec<Task>, Vec<(SystemTime, Item)>) {
        self.is_closed = true;
        self.numbers.clear();
        let waiting = mem::take(&mut self.waiting);
        let waiting = waiting.into_iter().map(|((time, _), item)| (time, item)).collect();
        (mem::take(&mut self.refused), waiting)
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
