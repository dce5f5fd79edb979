//! The near window: the timers that are due first, which the engine fires.
//!
//! All timers of the store up to the *frontier* are here, and what is beyond it may be. The rest
//! stays on the disk. So memory is bounded, whatever the store holds.
//!
//! A timer here waits for its time, or it is *busy*: it is due and waits for a handler, or for the
//! note that its handler is about to run (`suspects.rs`), or a handler runs it, or what became of
//! it is not written yet. A busy timer stays until that is durable, so that a refill which meets
//! its record does not fire it again.
//!
//! *Owner*: under the service's lock.
//!
//! *Invariants*: a position is here once. No timer of the store that is at or before the frontier
//! is missing, unless a change that takes it out is on its way to the store, or a page is being
//! read.
//!
//! *Tested by*: `tests/durable/oracle`, `tests/durable/told.rs`.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;

use crate::position::{Position, TimerId};
use crate::record::{Key, Record};

use super::suspects::{Alone, Suspects};
use super::unseen::{Told, Unseen};

/// `T` is the timer of the engine, which is cancelled when it is dropped.
pub(super) struct Window<T> {
    waiting: BTreeMap<Position, Waiting<T>>,
    busy: HashMap<Position, Busy>,
    /// Those of the busy ones that no handler has yet.
    ready: VecDeque<Position>,
    suspects: Suspects,
    keys: HashMap<Key, Position>,
    /// Where those are that are tried again, by their numbers.
    moved: HashMap<TimerId, Position>,
    /// How many there may be.
    max: usize,
    frontier: Position,
    /// When to look beyond the frontier, if it is too early for that.
    next_look_ms: Option<u64>,
    /// From half empty until full.
    is_filling: bool,
    /// What others tell meanwhile.
    pub(super) told: Told,
}

pub(super) struct Waiting<T> {
    pub(super) record: Arc<Record>,
    pub(super) timer: T,
}

struct Busy {
    record: Arc<Record>,
    stage: Stage,
    /// Among how suspicious ones it was counted when it was noted.
    level: Option<usize>,
    /// The store has a note that its handler is about to run, or may have.
    is_noted: bool,
    /// It was cancelled or replaced: what becomes of it is of no interest.
    is_void: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    Ready,
    /// A note is being written that its handler is about to run.
    Noting,
    Noted,
    Running,
    /// The handler is done with it.
    Leaving,
}

/// What a cancel finds.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// It was taken out, and no handler has it.
    Idle,
    /// A handler has it.
    Running,
    /// It is not here, or a handler is done with it: the store decides.
    Unknown,
}

/// The next timer for a handler.
#[derive(Debug)]
pub(super) enum Next {
    Run(Arc<Record>),
    /// First a note has to be written.
    Note(Arc<Record>),
}

// === impl Window ===

impl<T> Window<T> {
    pub(super) fn new(max: usize, workers: usize, alone: Alone) -> Window<T> {
        Window {
            waiting: BTreeMap::new(),
            busy: HashMap::new(),
            ready: VecDeque::new(),
            suspects: Suspects::new(workers, alone),
            keys: HashMap::new(),
            moved: HashMap::new(),
            max,
            frontier: Position::FIRST,
            next_look_ms: None,
            is_filling: true,
            told: Told::default(),
        }
    }

    pub(super) fn len(&self) -> usize {
        self.waiting.len() + self.busy.len()
    }

    pub(super) fn busy(&self) -> usize {
        self.busy.len()
    }

    /// How many timers there may be from now on: those that are due last leave, or more come.
    #[cfg(any(feature = "postgres", feature = "nats"))]
    pub(super) fn set_max(&mut self, max: usize) {
        self.is_filling |= max > self.max;
        self.max = max;
        while self.len() > max
            && let Some((&last, _)) = self.waiting.last_key_value()
        {
            self.take_waiting(last);
            self.leave(last, None);
        }
    }

    // --- what is here ---

    /// Whether a timer at this position would have to be here.
    pub(super) fn covers(&self, position: Position) -> bool {
        position <= self.frontier
    }

    pub(super) fn has(&self, position: Position) -> bool {
        self.waiting.contains_key(&position) || self.busy.contains_key(&position)
    }

    /// Makes room for a timer at this position: the last one has to go if it is due later.
    pub(super) fn make_room(&mut self, position: Position) -> bool {
        if self.len() < self.max {
            return true;
        }
        match self.waiting.last_key_value() {
            Some((&last, _)) if last > position => {
                self.take_waiting(last);
                self.leave(last, None);
                true
            }
            _ => {
                self.leave(position, None);
                false
            }
        }
    }

    /// Leaves the timer at this position, and all after it, to the store: until then, or until
    /// there is room.
    pub(super) fn leave(&mut self, position: Position, until_ms: Option<u64>) {
        if position <= self.frontier {
            self.frontier = position.before();
            // A timer that comes first is looked for first.
            self.next_look_ms = until_ms;
        }
    }

    /// Adds a timer, for which there is room.
    pub(super) fn admit(&mut self, record: Arc<Record>, timer: T) {
        let position = record.position;
        if let Some(key) = &record.key {
            self.keys.insert(key.clone(), position);
        }
        if record.has_moved() {
            self.moved.insert(record.id(), position);
        }
        self.waiting.insert(position, Waiting { record, timer });
    }

    /// There may be timers from this position on that nobody knew of.
    pub(super) fn look_again(&mut self, position: Position) {
        self.told.add(position);
        self.leave(position, None);
    }

    /// Nobody has told what others did to the store for a while: all that no handler has is read
    /// again, also what is about to be noted.
    pub(super) fn read_again(&mut self) {
        self.told.all();
        let waiting = std::mem::take(&mut self.waiting);
        waiting.values().for_each(|waiting| self.forget(&waiting.record));
        let is_ready = |(_, busy): &(&Position, &Busy)| busy.stage == Stage::Ready;
        let ready = self.busy.iter().filter(is_ready).map(|(position, _)| *position);
        let ready: Vec<Position> = ready.collect();
        ready.into_iter().for_each(|position| self.depart(position));
        (self.frontier, self.next_look_ms, self.is_filling) = (Position::FIRST, None, true);
    }

    /// Somebody else has taken this timer out of the store.
    pub(super) fn is_gone(&mut self, position: Position) {
        self.told.take(position);
        self.cancel_at(position);
    }

    /// The timers that wait, for arming them anew.
    pub(super) fn waiting(&mut self) -> impl Iterator<Item = (&Position, &mut Waiting<T>)> {
        self.waiting.iter_mut()
    }

    /// Where the first timer is that waits.
    pub(super) fn first(&self) -> Option<Position> {
        self.waiting.first_key_value().map(|(position, _)| *position)
    }

    /// When there is something to do by the wall clock.
    pub(super) fn next_ms(&self) -> Option<u64> {
        let first = self.first().map(|position| position.due_ms);
        first.into_iter().chain(self.next_look_ms).min()
    }

    /// When the first timer is due, or was, that no handler has had.
    pub(super) fn first_waiting_ms(&self) -> Option<u64> {
        let begun = |busy: &&Busy| matches!(busy.stage, Stage::Running | Stage::Leaving);
        let ready = self.busy.values().filter(|busy| !begun(busy));
        let ready = ready.map(|busy| busy.record.position.due_ms).min();
        self.first().map(|position| position.due_ms).into_iter().chain(ready).min()
    }

    // --- firing ---

    /// A timer that waits is due.
    pub(super) fn fire(&mut self, position: Position) -> bool {
        let Some(Waiting { record, .. }) = self.waiting.remove(&position) else { return false };
        let (stage, level) = (Stage::Ready, None);
        let busy = Busy { record, stage, level, is_noted: false, is_void: false };
        self.busy.insert(position, busy);
        self.ready.push_back(position);
        true
    }

    /// The next timer that is due. Those that are paused leave.
    pub(super) fn begin(
        &mut self,
        is_suspect: impl Fn(&Record) -> bool,
        is_paused: impl Fn(&Record) -> bool,
    ) -> Option<Next> {
        loop {
            let position = self.suspects.next().or_else(|| self.ready.pop_front())?;
            // It may have been cancelled meanwhile, and even have come back.
            let Some(busy) = self.busy.get_mut(&position) else { continue };
            match busy.stage {
                Stage::Ready if is_paused(&busy.record) => self.depart(position),
                Stage::Ready if is_suspect(&busy.record) => {
                    busy.level = self.suspects.enter(&busy.record);
                    if busy.level.is_some() {
                        (busy.stage, busy.is_noted) = (Stage::Noting, true);
                        return Some(Next::Note(busy.record.clone()));
                    }
                }
                Stage::Ready | Stage::Noted => {
                    busy.stage = Stage::Running;
                    return Some(Next::Run(busy.record.clone()));
                }
                Stage::Noting | Stage::Running | Stage::Leaving => {}
            }
        }
    }

    /// The note is durable.
    pub(super) fn noted(&mut self, position: Position, is_there: bool) {
        let Some(busy) = self.busy.get_mut(&position) else { return };
        if busy.stage == Stage::Noting {
            if is_there {
                busy.stage = Stage::Noted;
                self.ready.push_back(position);
            } else {
                self.depart(position);
            }
        }
    }

    /// The timers of which a note says that their handlers run, and that will not run any more.
    pub(super) fn take_back_notes(&mut self) -> Vec<Arc<Record>> {
        let is_noted = |busy: &&mut Busy| matches!(busy.stage, Stage::Noting | Stage::Noted);
        let noted = self.busy.values_mut().filter(is_noted);
        noted
            .map(|busy| {
                busy.stage = Stage::Leaving;
                busy.record.clone()
            })
            .collect()
    }

    /// The timers of which a note says that their handlers run, and whose handlers still do.
    pub(super) fn noted_and_running(&self) -> Vec<Arc<Record>> {
        let is_noted = |busy: &&Busy| busy.stage == Stage::Running && busy.level.is_some();
        let noted = self.busy.values().filter(|busy| is_noted(busy) && !busy.is_void);
        noted.map(|busy| busy.record.clone()).collect()
    }

    /// All timers of which a note says that their handlers run, as they are without it: this
    /// process goes on, so none has ended it. An attempt that is over has not been cut off, and so
    /// neither were those before it.
    pub(super) fn notes(&self) -> Vec<Record> {
        let noted = self.busy.values().filter(|busy| busy.is_noted && !busy.is_void);
        let without = |busy: &Busy| {
            let Record { crashes, tried, .. } = *busy.record;
            let (crashes, tried) = match busy.stage {
                Stage::Ready | Stage::Noting | Stage::Noted => (crashes, tried),
                Stage::Running => (crashes, true),
                Stage::Leaving => (0, true),
            };
            Record { crashes, tried, ..(*busy.record).clone() }
        };
        noted.map(without).collect()
    }

    /// A timer that was to begin is not due after all: the clock was set back meanwhile.
    pub(super) fn put_back(&mut self, position: Position, timer: T) {
        if let Some(Busy { record, level, .. }) = self.busy.remove(&position) {
            self.suspects.leave(level);
            self.waiting.insert(position, Waiting { record, timer });
        }
    }

    pub(super) fn is_anything_ready(&self) -> bool {
        !self.ready.is_empty() || self.suspects.has_next()
    }

    /// A handler is done with a timer. Returns whether what becomes of it has to be written; the
    /// timer then leaves when it is.
    pub(super) fn done(&mut self, position: Position) -> bool {
        match self.busy.get_mut(&position) {
            Some(busy) if !busy.is_void => {
                busy.stage = Stage::Leaving;
                // The note of the next one is written together with the end of this one. If that
                // one is another shard's, as after one that runs alone, it could be written before.
                if !Suspects::is_alone(busy.level) {
                    self.suspects.leave(busy.level.take());
                }
                true
            }
            _ => {
                self.depart(position);
                false
            }
        }
    }

    /// What became of the timer is durable.
    pub(super) fn depart(&mut self, position: Position) {
        if let Some(busy) = self.busy.remove(&position) {
            self.suspects.leave(busy.level);
            self.forget(&busy.record);
        }
    }

    // --- cancelling ---

    pub(super) fn cancel(&mut self, id: TimerId) -> Found {
        let moved = self.moved.get(&id).copied();
        self.cancel_at(moved.unwrap_or(id.first_position()))
    }

    pub(super) fn cancel_key(&mut self, key: &[u8]) -> Found {
        let position = self.keys.get(key).copied();
        position.map_or(Found::Unknown, |position| self.cancel_at(position))
    }

    /// Takes the timer out, if it is here and no handler has it.
    pub(super) fn cancel_at(&mut self, position: Position) -> Found {
        if self.take_waiting(position) {
            return Found::Idle;
        }
        let Some(busy) = self.busy.get_mut(&position) else { return Found::Unknown };
        match busy.stage {
            Stage::Ready | Stage::Noting | Stage::Noted => {
                self.depart(position);
                Found::Idle
            }
            Stage::Running if !busy.is_void => {
                busy.is_void = true;
                let record = busy.record.clone();
                self.forget(&record);
                Found::Running
            }
            Stage::Running | Stage::Leaving => Found::Unknown,
        }
    }

    fn take_waiting(&mut self, position: Position) -> bool {
        let Some(Waiting { record, .. }) = self.waiting.remove(&position) else { return false };
        self.forget(&record);
        true
    }

    /// The timer can no longer be found by its key or by its number.
    fn forget(&mut self, record: &Record) {
        let position = record.position;
        if let Some(key) = &record.key
            && self.keys.get(key) == Some(&position)
        {
            self.keys.remove(key);
        }
        if self.moved.get(&record.id()) == Some(&position) {
            self.moved.remove(&record.id());
        }
    }

    // --- refilling ---

    /// After which position to read on, and how many records at most.
    pub(super) fn refill(&mut self, now_ms: u64) -> Option<(Position, usize)> {
        if self.next_look_ms.is_some_and(|look| now_ms < look) {
            return None;
        }
        let mut room = self.max.saturating_sub(self.len());
        let last = self.waiting.last_key_value().map(|(position, _)| *position);
        if self.next_look_ms.is_some() || last.is_some_and(|last| last > self.frontier) {
            // What is beyond the frontier comes before some that is here, which has to make room.
            (self.is_filling, room) = (true, room.max(1));
        }
        self.is_filling |= self.len() <= self.max / 2;
        let is_wanted = self.is_filling && self.frontier != Position::LAST && room > 0;
        is_wanted.then_some((self.frontier, room))
    }

    /// It was read. `None`: the frontier is no longer where that began.
    pub(super) fn end_reading(&mut self, frontier: Position) -> Option<Unseen> {
        let unseen = self.told.end_reading();
        (self.frontier == frontier).then_some(unseen)
    }

    /// What was read is here now. What it may not have shown has to be read again.
    pub(super) fn see(&mut self, unseen: &Unseen) {
        if let Some(first) = unseen.first() {
            self.leave(first, None);
        }
    }

    /// All timers up to this position have been looked at.
    pub(super) fn advance(&mut self, frontier: Position) {
        self.frontier = frontier;
        self.next_look_ms = None;
        self.is_filling &= frontier != Position::LAST && self.len() < self.max;
    }

    /// Forgets everything: the store has failed.
    pub(super) fn clear(&mut self) {
        let alone = self.suspects.alone().clone();
        *self = Window { frontier: Position::LAST, ..Window::new(self.max, 1, alone) };
    }
}
