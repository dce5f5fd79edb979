//! The audit: a ledger of every timer that the program armed and of the fate that it met.
//!
//! The ledger never asks the engine. It knows three things only: what the program asked for (and
//! what its own clock said just *before* it asked), what the engine answered to a cancel or a
//! reset, and which tasks ran and when. From these it finds every timer that fired early, twice,
//! after a cancel that succeeded, or not at all.
//!
//! *Owner*: the loop that arms the timers; the ledger is not shared.
//!
//! *Invariants*: a timer leaves `Pending` once; whatever happens to it afterwards is a violation.
//!
//! *Tested by*: `tests/demo_audit.rs`, which commits each offence once.

use std::collections::VecDeque;
use std::fmt::{self, Display, Formatter};
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;

/// So many settled timers keep their place in the ledger before it goes to a new timer, so that
/// even a task that runs a whole timeout after its cancel can be told for what it is.
const QUARANTINE: usize = 1 << 16;

/// Violations told in words; the rest is counted only.
const NOTES_MAX: usize = 10;

/// Latenesses are recorded up to a minute, to three digits.
const LATENESS_MAX_NS: u64 = 60_000_000_000;

/// Names one timer, for as long as the ledger lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TimerId {
    place: u32,
    generation: u32,
}

/// Follows every timer from arming to its fate.
#[derive(Debug)]
pub(crate) struct Ledger {
    /// Whose ledger it is, for the notes.
    name: &'static str,
    entries: Vec<Entry>,
    /// Places whose timer has met its fate, the longest settled first.
    settled: VecDeque<u32>,
    books: Books,
}

#[derive(Debug)]
struct Entry {
    generation: u32,
    fate: Fate,
    /// Which connection the timer is for.
    owner: usize,
    /// The earliest moment at which it may fire, by the clock of the thread that armed it.
    due: Instant,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Pending,
    Cancelled,
    Fired,
}

/// The sums of a ledger.
#[derive(Clone, Debug)]
pub(crate) struct Books {
    pub(crate) scheduled: u64,
    /// Cancels that the engine confirmed; the others lost the race against the fire.
    pub(crate) cancelled: u64,
    /// Resets that the engine confirmed.
    pub(crate) reset: u64,
    pub(crate) fired: u64,
    /// Fired before the deadline, or at an old deadline after a confirmed reset.
    pub(crate) early: u64,
    /// Neither fired nor cancelled when the books were closed.
    pub(crate) lost: u64,
    /// Fired a second time.
    pub(crate) duplicate: u64,
    /// Fired although the engine confirmed its cancel, or cancelled or reset after it had fired.
    pub(crate) contradicted: u64,
    /// From the deadline to the first instruction of the task.
    pub(crate) lateness_ns: Histogram<u64>,
    /// The first violations, in words.
    pub(crate) notes: Vec<String>,
}

// === impl TimerId ===

impl Display for TimerId {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "timer {}.{}", self.place, self.generation)
    }
}

// === impl Ledger ===

impl Ledger {
    pub(crate) fn new(name: &'static str) -> Self {
        Ledger { name, entries: Vec::new(), settled: VecDeque::new(), books: Books::new() }
    }

    /// Enters a timer that is about to be scheduled. `due` is a clock reading from before that
    /// call, plus the delay.
    pub(crate) fn arm(&mut self, owner: usize, due: Instant) -> TimerId {
        self.books.scheduled += 1;
        let fate = Fate::Pending;
        if self.settled.len() > QUARANTINE {
            let place = self.settled.pop_front().expect("longer than the quarantine");
            let entry = &mut self.entries[place as usize];
            let generation = entry.generation.wrapping_add(1);
            *entry = Entry { generation, fate, owner, due };
            return TimerId { place, generation };
        }
        let place = u32::try_from(self.entries.len()).expect("fewer than 2^32 timers at once");
        self.entries.push(Entry { generation: 0, fate, owner, due });
        TimerId { place, generation: 0 }
    }

    /// The engine confirmed a reset. `due` as for [`arm`](Ledger::arm).
    pub(crate) fn reset(&mut self, id: TimerId, due: Instant) {
        let name = self.name;
        self.books.reset += 1;
        match self.pending(id) {
            Some(entry) => entry.due = due,
            None => self.books.contradict(|| format!("{name} {id} reset after it had fired")),
        }
    }

    /// The engine confirmed a cancel.
    pub(crate) fn cancel(&mut self, id: TimerId) {
        let name = self.name;
        self.books.cancelled += 1;
        match self.pending(id) {
            Some(_) => self.settle(id, Fate::Cancelled),
            None => self.books.contradict(|| format!("{name} {id} cancelled after it had fired")),
        }
    }

    /// The task of a timer ran at `at`. Returns whose it was and how late it was; `None` if it had
    /// no right to run.
    pub(crate) fn fire(&mut self, id: TimerId, at: Instant) -> Option<(usize, Duration)> {
        let Some(entry) = self.pending(id) else {
            self.second_fate(id);
            return None;
        };
        let (owner, due) = (entry.owner, entry.due);
        self.settle(id, Fate::Fired);
        self.books.fired += 1;
        match at.checked_duration_since(due) {
            Some(late) => {
                let late_ns = u64::try_from(late.as_nanos()).unwrap_or(u64::MAX);
                self.books.lateness_ns.saturating_record(late_ns);
            }
            None => {
                let name = self.name;
                self.books.early += 1;
                self.books.note(|| format!("{name} {id} fired {:?} early", due - at));
            }
        }
        Some((owner, at.saturating_duration_since(due)))
    }

    /// How many timers have not met their fate.
    pub(crate) fn pending_count(&self) -> usize {
        self.entries.len() - self.settled.len()
    }

    /// Closes the books: who is still pending now is lost.
    pub(crate) fn close(mut self) -> Books {
        let name = self.name;
        let now = Instant::now();
        for (place, entry) in self.entries.iter().enumerate() {
            if entry.fate == Fate::Pending {
                let overdue = now.saturating_duration_since(entry.due);
                self.books.lost += 1;
                self.books.note(|| format!("{name} timer {place} lost, overdue by {overdue:?}"));
            }
        }
        self.books
    }

    fn pending(&mut self, id: TimerId) -> Option<&mut Entry> {
        let entry = &mut self.entries[id.place as usize];
        (entry.generation == id.generation && entry.fate == Fate::Pending).then_some(entry)
    }

    fn settle(&mut self, id: TimerId, fate: Fate) {
        self.entries[id.place as usize].fate = fate;
        self.settled.push_back(id.place);
    }

    fn second_fate(&mut self, id: TimerId) {
        let name = self.name;
        let entry = &self.entries[id.place as usize];
        if entry.generation == id.generation && entry.fate == Fate::Cancelled {
            self.books.contradict(|| format!("{name} {id} fired after a confirmed cancel"));
        } else {
            // Past the quarantine it may have been cancelled as well: an offence either way.
            self.books.duplicate += 1;
            self.books.note(|| format!("{name} {id} fired a second time"));
        }
    }
}

// === impl Books ===

impl Books {
    pub(crate) fn new() -> Self {
        let lateness_ns = Histogram::new_with_max(LATENESS_MAX_NS, 3).expect("sound bounds");
        Books {
            scheduled: 0,
            cancelled: 0,
            reset: 0,
            fired: 0,
            early: 0,
            lost: 0,
            duplicate: 0,
            contradicted: 0,
            lateness_ns,
            notes: Vec::new(),
        }
    }

    /// Adds the books of another ledger to these.
    pub(crate) fn add(&mut self, other: Books) {
        self.scheduled += other.scheduled;
        self.cancelled += other.cancelled;
        self.reset += other.reset;
        self.fired += other.fired;
        self.early += other.early;
        self.lost += other.lost;
        self.duplicate += other.duplicate;
        self.contradicted += other.contradicted;
        self.lateness_ns.add(other.lateness_ns).expect("same bounds");
        self.notes.extend(other.notes);
    }

    /// How many timers met a fate that they should not have met.
    pub(crate) fn violations(&self) -> u64 {
        self.early + self.lost + self.duplicate + self.contradicted
    }

    fn contradict(&mut self, text: impl FnOnce() -> String) {
        self.contradicted += 1;
        self.note(text);
    }

    fn note(&mut self, text: impl FnOnce() -> String) {
        if self.notes.len() < NOTES_MAX {
            self.notes.push(text());
        }
    }
}
