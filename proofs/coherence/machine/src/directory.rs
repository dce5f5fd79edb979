//! The directory: which cores hold each cache line, and in which state (MESI).
//!
//! A line is *modified* or *exclusive* if one core holds it (`is_dirty` or not), *shared* if
//! several do, *invalid* everywhere if none does. Caches are infinite: a core loses a line to
//! another core alone.
//!
//! | access | the core holds the line alone | it shares the line | others hold it | nobody holds it |
//! |---|---|---|---|---|
//! | read | nothing | nothing | a *fetch*: all share it | a cold miss |
//! | write | nothing | an *upgrade*: others lose it | a *steal*: others lose it | a cold miss |
//!
//! A *transfer* is a fetch, an upgrade or a steal: each takes a message to another core and its
//! answer. An *invalidation* is a core that loses a line. Cold misses come from memory, not from a
//! core: they are counted apart.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::panic::Location;

use crate::{Plan, Site};

const WORDS: usize = Plan::MAX_CORES / 64;

/// The lines of a machine.
pub(crate) struct Directory {
    line_bits: u32,
    lines: HashMap<usize, Line, BuildHasherDefault<ByAddress>>,
    /// By the address of the site, which is a static.
    sites: HashMap<usize, (Key, Tally), BuildHasherDefault<ByAddress>>,
    is_counting: bool,
    accesses: u64,
    cold: u64,
}

#[derive(Default)]
struct Line {
    held: Cores,
    is_dirty: bool,
    is_ignored: bool,
    /// Since the beginning of the count: which sites caused how many transfers.
    causes: Vec<(usize, u64)>,
}

#[derive(Clone, Copy, Default)]
struct Cores([u64; WORDS]);

#[derive(Clone, Copy)]
enum Key {
    Known(&'static Location<'static>),
    Code(usize),
}

/// What was counted, of one site or in all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Lines that came to be read.
    pub fetches: u64,
    /// Shared lines that became the writer's alone.
    pub upgrades: u64,
    /// Lines that came to be written.
    pub steals: u64,
    /// Cores that lost a line.
    pub invalidations: u64,
}

/// A line, and the sites that took it from another core, with how often each did.
#[derive(Clone, Debug)]
pub struct HotLine {
    /// All its transfers.
    pub transfers: u64,
    /// The sites, from the most frequent on.
    pub sites: Vec<(String, u64)>,
}

/// What a machine has counted.
#[derive(Clone, Debug)]
pub struct Counts {
    /// Accesses of all cores, each line of each.
    pub accesses: u64,
    /// Accesses to lines that no core had.
    pub cold: u64,
    /// By site, from the most frequent on. A site is named as `file:line:column`, or by the address
    /// of its code.
    pub sites: Vec<(String, Tally)>,
    /// Lines with transfers, from the most frequent on.
    pub lines: Vec<HotLine>,
}

/// Addresses are spread well enough by one multiplication.
#[derive(Default)]
struct ByAddress(u64);

impl Hasher for ByAddress {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_usize(usize::from(*byte) ^ self.0 as usize);
        }
    }

    fn write_usize(&mut self, address: usize) {
        let product = (address as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = product ^ (product >> 32);
    }
}

// === impl Directory ===

impl Directory {
    pub(crate) fn new(line: usize) -> Directory {
        assert!(line.is_power_of_two(), "lines of {line} bytes");
        Directory {
            line_bits: line.ilog2(),
            lines: HashMap::default(),
            sites: HashMap::default(),
            is_counting: false,
            accesses: 0,
            cold: 0,
        }
    }

    /// Counts from now on. Who holds what stays as it is.
    pub(crate) fn begin(&mut self) {
        self.is_counting = true;
    }

    /// Does not count the line of this address from now on.
    pub(crate) fn ignore(&mut self, at: usize) {
        self.lines.entry(at >> self.line_bits).or_default().is_ignored = true;
    }

    pub(crate) fn access(
        &mut self,
        core: usize,
        at: usize,
        bytes: usize,
        writes: bool,
        site: &Site,
    ) {
        if bytes == 0 {
            return;
        }
        for line in at >> self.line_bits..=(at + bytes - 1) >> self.line_bits {
            let held = self.lines.entry(line).or_default();
            let is_cold = held.held.is_empty();
            let tally = held.access(core, writes);
            if !self.is_counting || held.is_ignored {
                continue;
            }
            self.accesses += 1;
            self.cold += u64::from(is_cold);
            if tally.transfers() > 0 {
                let (id, key) = site.key();
                held.blame(id);
                let counted = &mut self.sites.entry(id).or_insert((key, Tally::default())).1;
                *counted = counted.plus(tally);
            }
        }
    }

    /// What was counted; the lines are forgotten.
    pub(crate) fn take(&mut self) -> Counts {
        let name = |id: &usize| self.sites[id].0.name();
        let mut lines: Vec<HotLine> = self
            .lines
            .values()
            .filter(|line| !line.causes.is_empty())
            .map(|line| {
                let mut sites: Vec<_> = line.causes.iter().map(|(id, n)| (name(id), *n)).collect();
                sites.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
                HotLine { transfers: line.causes.iter().map(|(_, n)| n).sum(), sites }
            })
            .collect();
        lines.sort_by(|a, b| b.transfers.cmp(&a.transfers).then_with(|| a.sites.cmp(&b.sites)));
        let mut by_name: HashMap<String, Tally> = HashMap::new();
        for (key, tally) in self.sites.values() {
            // The same place has several addresses if it was compiled several times.
            let sum = by_name.entry(key.name()).or_default();
            *sum = sum.plus(*tally);
        }
        let mut sites: Vec<_> = by_name.into_iter().collect();
        let most = |tally: &Tally| u64::MAX - tally.transfers();
        sites.sort_by(|a, b| most(&a.1).cmp(&most(&b.1)).then_with(|| a.0.cmp(&b.0)));
        self.lines = HashMap::default();
        Counts { accesses: self.accesses, cold: self.cold, sites, lines }
    }
}

// === impl Line ===

impl Line {
    /// Changes hands, if it has to.
    fn access(&mut self, core: usize, writes: bool) -> Tally {
        let mut tally = Tally::default();
        let others = self.held.count() - u64::from(self.held.has(core));
        match (self.held.has(core), writes) {
            (true, false) => return tally,
            (true, true) => tally.upgrades = u64::from(others > 0),
            (false, true) => tally.steals = u64::from(others > 0),
            (false, false) => tally.fetches = u64::from(others > 0),
        }
        if writes {
            tally.invalidations = others;
            self.held = Cores::default();
        }
        self.held.add(core);
        // A dirty line that is fetched goes to memory as well.
        self.is_dirty = writes;
        tally
    }

    fn blame(&mut self, id: usize) {
        match self.causes.iter_mut().find(|(known, _)| *known == id) {
            Some((_, n)) => *n += 1,
            None => self.causes.push((id, 1)),
        }
    }
}

// === impl Cores ===

impl Cores {
    fn has(&self, core: usize) -> bool {
        self.0[core / 64] >> (core % 64) & 1 == 1
    }

    fn add(&mut self, core: usize) {
        self.0[core / 64] |= 1 << (core % 64);
    }

    fn count(&self) -> u64 {
        self.0.iter().map(|word| u64::from(word.count_ones())).sum()
    }

    fn is_empty(&self) -> bool {
        self.0.iter().all(|word| *word == 0)
    }
}

// === impl Site ===

impl Site {
    fn key(&self) -> (usize, Key) {
        match *self {
            Site::Known(location) => (std::ptr::from_ref(location).addr(), Key::Known(location)),
            Site::Code(address) => (address, Key::Code(address)),
        }
    }
}

// === impl Key ===

impl Key {
    fn name(&self) -> String {
        match self {
            Key::Known(location) => location.to_string(),
            Key::Code(address) => format!("{address:#x}"),
        }
    }
}

// === impl Tally ===

impl Tally {
    /// Lines that came from another core, or became a core's own through a message to others.
    pub fn transfers(&self) -> u64 {
        self.fetches + self.upgrades + self.steals
    }

    /// Both together.
    #[must_use]
    pub fn plus(self, other: Tally) -> Tally {
        Tally {
            fetches: self.fetches + other.fetches,
            upgrades: self.upgrades + other.upgrades,
            steals: self.steals + other.steals,
            invalidations: self.invalidations + other.invalidations,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Plays accesses `(core, writes)` of one line; returns the tally of the last.
    fn last(accesses: &[(usize, bool)]) -> Tally {
        let mut line = Line::default();
        accesses.iter().map(|&(core, writes)| line.access(core, writes)).last().unwrap()
    }

    const READ: bool = false;
    const WRITE: bool = true;

    #[test]
    fn a_line_that_one_core_uses_moves_nowhere() {
        for first in [READ, WRITE] {
            for then in [READ, WRITE] {
                assert_eq!(last(&[(0, first), (0, then)]), Tally::default());
            }
        }
        assert_eq!(last(&[(200, WRITE)]), Tally::default(), "a cold miss is no transfer");
    }

    #[test]
    fn a_reader_fetches_once() {
        let fetch = Tally { fetches: 1, ..Tally::default() };
        assert_eq!(last(&[(0, WRITE), (1, READ)]), fetch);
        assert_eq!(last(&[(0, READ), (255, READ)]), fetch);
        assert_eq!(last(&[(0, WRITE), (1, READ), (1, READ)]), Tally::default());
        assert_eq!(last(&[(0, WRITE), (1, READ), (0, READ)]), Tally::default(), "it has it still");
    }

    #[test]
    fn a_writer_takes_the_line_from_all() {
        let readers = [(0, WRITE), (1, READ), (70, READ)];
        let upgrade = Tally { upgrades: 1, invalidations: 2, ..Tally::default() };
        assert_eq!(last(&[&readers[..], &[(70, WRITE)]].concat()), upgrade);
        let steal = Tally { steals: 1, invalidations: 3, ..Tally::default() };
        assert_eq!(last(&[&readers[..], &[(130, WRITE)]].concat()), steal);
        let own = [&readers[..], &[(130, WRITE), (130, WRITE)]].concat();
        assert_eq!(last(&own), Tally::default());
    }

    #[test]
    fn an_access_across_lines_counts_for_each() {
        let mut directory = Directory::new(64);
        directory.begin();
        directory.access(0, 60, 8, true, &Site::Code(1));
        directory.access(1, 0, 64, false, &Site::Code(1));
        directory.access(1, 64, 1, true, &Site::Code(2));
        let counts = directory.take();
        assert_eq!((counts.accesses, counts.cold, counts.lines.len()), (4, 2, 2));
        let (first, second) = (&counts.sites[0], &counts.sites[1]);
        assert_eq!((first.0.as_str(), first.1.fetches, first.1.steals), ("0x1", 1, 0));
        assert_eq!((second.0.as_str(), second.1.fetches, second.1.steals), ("0x2", 0, 1));
    }
}
