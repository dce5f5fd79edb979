//! A ledger of payloads: each meets one fate, none before its time, and is dropped once.
//!
//! The lines are no part of what a test races, or a model explores: plain numbers that order
//! nothing, so that they hide no race. It is read when those who wrote have ended.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};

/// Payloads, by their numbers, and what became of them.
#[derive(Debug)]
pub struct Ledger {
    lines: Box<[Line]>,
    opened: AtomicUsize,
}

#[derive(Debug, Default)]
struct Line {
    due: AtomicU64,
    /// The last one, as `Fate::pack` writes it.
    fate: AtomicU64,
    fates: AtomicU64,
    drops: AtomicU64,
}

/// What becomes of a payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It was handed over, at this time of the ledger's clock.
    Ran(u64),
    /// A cancel returned or dropped it.
    Cancelled,
    /// A stop returned it.
    Returned,
    /// A schedule or a reset gave it back in its error.
    Refused,
}

// === impl Fate ===

impl Fate {
    fn pack(self) -> u64 {
        match self {
            Fate::Ran(at) => at << 2,
            Fate::Cancelled => 1,
            Fate::Returned => 2,
            Fate::Refused => 3,
        }
    }

    fn unpack(bits: u64) -> Fate {
        match bits & 3 {
            0 => Fate::Ran(bits >> 2),
            1 => Fate::Cancelled,
            2 => Fate::Returned,
            _ => Fate::Refused,
        }
    }
}

// === impl Ledger ===

impl Ledger {
    /// Room for `most` payloads.
    pub fn new(most: usize) -> Ledger {
        let lines = (0..most).map(|_| Line::default()).collect();
        Ledger { lines, opened: AtomicUsize::new(0) }
    }

    /// Enters a payload that is due then. Returns its number: they are counted from zero.
    pub fn open(&self, due: u64) -> usize {
        let number = self.opened.fetch_add(1, Relaxed);
        self.lines[number].due.store(due, Relaxed);
        number
    }

    /// How many payloads were entered.
    pub fn opened(&self) -> usize {
        self.opened.load(Relaxed)
    }

    pub fn due(&self, number: usize) -> u64 {
        self.lines[number].due.load(Relaxed)
    }

    /// A payload is due at another time. Returns the old one.
    pub fn moved(&self, number: usize, due: u64) -> u64 {
        self.lines[number].due.swap(due, Relaxed)
    }

    /// A payload may be due at that time already.
    pub fn hastened(&self, number: usize, due: u64) {
        self.lines[number].due.fetch_min(due, Relaxed);
    }

    pub fn meets(&self, number: usize, fate: Fate) {
        let line = &self.lines[number];
        line.fate.store(fate.pack(), Relaxed);
        line.fates.fetch_add(1, Relaxed);
    }

    pub fn dropped(&self, number: usize) {
        self.lines[number].drops.fetch_add(1, Relaxed);
    }

    /// What became of a payload so far.
    pub fn fate(&self, number: usize) -> Option<Fate> {
        let line = &self.lines[number];
        (line.fates.load(Relaxed) > 0).then(|| Fate::unpack(line.fate.load(Relaxed)))
    }

    /// Payloads that met two fates, ran early, or were not dropped, or not once.
    pub fn offences(&self) -> Vec<String> {
        let offence = |number: usize| {
            let line = &self.lines[number];
            let is_early =
                matches!(self.fate(number), Some(Fate::Ran(at)) if at < self.due(number));
            let what = match (line.fates.load(Relaxed), line.drops.load(Relaxed)) {
                (0 | 1, 1) if !is_early => return None,
                (0 | 1, 1) => "ran early",
                (0 | 1, _) => "was not dropped once",
                _ => "met more than one fate",
            };
            Some(format!("payload {number} {what}: {}", self.line(number)))
        };
        (0..self.opened()).filter_map(offence).collect()
    }

    /// All that is known of a payload.
    pub fn line(&self, number: usize) -> String {
        format!("{:?}, {:?}", self.fate(number), self.lines[number])
    }
}
