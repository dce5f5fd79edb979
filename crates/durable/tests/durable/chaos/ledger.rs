//! What instances have said, and what has to hold of it.
//!
//! All of them append to one file, each saying with one write, so its lines are in an order that
//! was:
//!
//! | line | who | when |
//! |---|---|---|
//! | `asked N DUE` | who schedules timer `N` | before |
//! | `acked N ID` | the same | when its ticket is ready |
//! | `cancelling N` | the same | before it cancels it |
//! | `cancelled N NOW AT` | the same | when the reply says that it was cancelled |
//! | `began N ATTEMPT FLAG NOW SHARD FENCE AT` | the handler | first of all |
//! | `failed KIND TEXT` | who uses the store | it is told so, and was not just before |
//! | `poisoned N` | who schedules it | before: no handler can succeed with it |
//! | `dead N` | who finds that nothing is pending any more | it is a dead letter |
//! | `behind` | the test | a copy of the store is made, which takes its place later |
//! | `replaced` | the test | it has, before anybody opens it |
//! | `back AT UNTIL SHOWS` | the test | the clock was set back to `SHOWS`; all know it by `UNTIL` |
//!
//! Times are in microseconds: `AT` and `UNTIL` since this machine was started, `DUE`, `NOW` and
//! `SHOWS` by the clock that timers go by, which may be set. `FLAG` is `may_be_repeat()`. Where
//! programs of two versions run, which need not know of `AT`, they leave it out.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

/// A number of which every seventh fails at its first attempt.
pub(crate) fn fails(number: u64, attempt: u32) -> bool {
    number.is_multiple_of(7) && attempt == 1
}

/// The microseconds of a time, rounded down.
pub(crate) fn micros(time: SystemTime) -> u64 {
    time.duration_since(UNIX_EPOCH).unwrap().as_micros() as u64
}

/// The microseconds since this machine was started, which all processes count alike.
pub(crate) fn since_start_us() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the pointer is to a value of that type, which the call writes.
    assert_eq!(unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time) }, 0);
    time.tv_sec as u64 * 1_000_000 + time.tv_nsec as u64 / 1000
}

/// Where lines are added.
pub(crate) struct Pen(File);

/// A handler began.
#[derive(Clone, Debug)]
struct Begin {
    line: usize,
    attempt: u32,
    may_be_repeat: bool,
    /// By the clock that timers go by.
    now_us: u64,
    /// Since this machine was started.
    at_us: u64,
    shard: u32,
    fence: u64,
}

/// The clock was set back.
#[derive(Clone, Copy, Debug)]
struct Back {
    at_us: u64,
    /// Until then, timers could go by the time before.
    until_us: u64,
    shows_us: u64,
}

/// What is known of a timer; `usize` are numbers of lines.
#[derive(Clone, Debug, Default)]
struct Known {
    asked: usize,
    due_us: u64,
    acked: Option<usize>,
    cancelling: Option<usize>,
    cancelled: Option<(usize, u64)>,
    begun: Vec<Begin>,
    is_poisoned: bool,
    is_dead: bool,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Ledger {
    lines: usize,
    timers: BTreeMap<u64, Known>,
    ids: BTreeMap<String, Vec<u64>>,
    /// From which line to which what was durable could be undone.
    gaps: Vec<(usize, usize)>,
    backs: Vec<Back>,
    /// By shard and fence, when the first handler and when the last one began.
    held: BTreeMap<(u32, u64), (u64, u64)>,
    strangers: Vec<u64>,
    /// How often which kind of failure was told.
    pub(crate) failed: BTreeMap<String, u64>,
}

/// What a ledger comes to.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Sums {
    pub(crate) acked: usize,
    pub(crate) cancelled: usize,
    /// Timers whose handler has succeeded.
    pub(crate) fired: usize,
    /// Timers of which an attempt was made again.
    pub(crate) repeated: usize,
    /// Timers that were repeated in a time that came again, so that nobody knew.
    pub(crate) again: usize,
    /// Timers that a copy of an earlier time did not have.
    pub(crate) undone: usize,
    pub(crate) dead: usize,
}

// === impl Pen ===

impl Pen {
    pub(crate) fn new(path: &Path) -> Pen {
        Pen(OpenOptions::new().create(true).append(true).open(path).unwrap())
    }

    /// Adds lines with one write, so that a kill cuts none.
    pub(crate) fn add(&self, lines: &str) {
        (&self.0).write_all(lines.as_bytes()).unwrap();
    }
}

// === impl Ledger ===

impl Ledger {
    pub(crate) fn read(text: &str) -> Ledger {
        let mut ledger = Ledger::default();
        text.lines().for_each(|line| ledger.add(line));
        ledger
    }

    fn add(&mut self, text: &str) {
        let line = self.lines;
        self.lines += 1;
        let words: Vec<&str> = text.split(' ').collect();
        let number = |index: usize| words[index].parse::<u64>().unwrap();
        match words[0] {
            "behind" => return self.gaps.push((line, usize::MAX)),
            "replaced" => return self.gaps.last_mut().expect("it was behind").1 = line,
            "back" => {
                let (at_us, until_us, shows_us) = (number(1), number(2), number(3));
                return self.backs.push(Back { at_us, until_us, shows_us });
            }
            "failed" => return *self.failed.entry(words[1].to_owned()).or_default() += 1,
            "asked" => {
                let known = Known { asked: line, due_us: number(2), ..Known::default() };
                return drop(self.timers.insert(number(1), known));
            }
            _ => {}
        }
        let Some(known) = self.timers.get_mut(&number(1)) else {
            return self.strangers.push(number(1));
        };
        match words[0] {
            "acked" => {
                known.acked = Some(line);
                self.ids.entry(words[2].to_owned()).or_default().push(number(1));
            }
            "cancelling" => known.cancelling = Some(line),
            "cancelled" => known.cancelled = Some((line, number(words.len() - 1))),
            "poisoned" => known.is_poisoned = true,
            "dead" => known.is_dead = true,
            "began" => {
                let (shard, fence) = (number(5) as u32, number(6));
                let at_us = number(if words.len() > 7 { 7 } else { 4 });
                let (first_us, last_us) = self.held.entry((shard, fence)).or_insert((at_us, at_us));
                (*first_us, *last_us) = (at_us.min(*first_us), at_us.max(*last_us));
                known.begun.push(Begin {
                    line,
                    attempt: number(2) as u32,
                    may_be_repeat: words[3] == "true",
                    now_us: number(4),
                    at_us,
                    shard,
                    fence,
                });
            }
            other => panic!("not a line of the ledger: {other}"),
        }
    }

    /// Whether what was asked for at one line and done at another may have been undone.
    fn may_be_undone(&self, asked: usize, done: usize) -> bool {
        self.gaps.iter().any(|(behind, replaced)| asked < *replaced && done > *behind)
    }

    /// What is wrong with it, if nothing is pending any more.
    pub(crate) fn complaints(&self) -> Vec<String> {
        let mut complaints = Vec::new();
        for (number, known) in &self.timers {
            let mut complain = |what: &str| complaints.push(format!("{number} {what}: {known:?}"));
            if self.is_missing(*number, known) && !self.is_undone(known) {
                complain("was lost");
            }
            if known.begun.iter().any(|begin| self.is_early(known, begin)) {
                complain("was early");
            }
            if known.is_dead != (known.is_poisoned && known.acked.is_some()) {
                complain(if known.is_dead { "is a dead letter" } else { "is no dead letter" });
            }
            let mut unsaid = unsaid_repeats(known);
            if unsaid.any(|(before, begin)| !self.is_unknown(known, before, begin)) {
                complain("was repeated without a word");
            }
            if known.begun.iter().any(|begin| self.is_after_its_cancel(known, begin)) {
                complain("was cancelled");
            }
        }
        let twice = self.ids.iter().filter(|(_, numbers)| numbers.len() > 1);
        complaints.extend(twice.map(|(id, numbers)| format!("{numbers:?} have the number {id}")));
        complaints.extend(self.strangers.iter().map(|number| format!("nobody asked for {number}")));
        complaints.extend(self.stale());
        complaints
    }

    /// Its handler has not succeeded, and has to.
    fn is_missing(&self, number: u64, known: &Known) -> bool {
        let has_to = known.acked.is_some() && known.cancelling.is_none() && !known.is_poisoned;
        has_to && !has_succeeded(number, known)
    }

    fn is_early(&self, known: &Known, begin: &Begin) -> bool {
        let by_another = |back: &Back| (back.at_us..back.until_us).contains(&begin.at_us);
        begin.now_us < known.due_us && !self.backs.iter().any(by_another)
    }

    fn is_undone(&self, known: &Known) -> bool {
        known.acked.is_some_and(|acked| self.may_be_undone(known.asked, acked))
    }

    fn is_after_its_cancel(&self, known: &Known, begin: &Begin) -> bool {
        known.cancelled.is_some_and(|(line, at_us)| {
            let asked = known.cancelling.unwrap_or(line);
            begin.line > line && begin.at_us > at_us && !self.may_be_undone(asked, line)
        })
    }

    /// Whether the second of these could not know of the first one, because the clock was set back.
    /// The first one went by a time that came again, and its holder lost the shard at once, before
    /// the end was durable. The next one had it in that time.
    fn is_unknown(&self, known: &Known, before: &Begin, begin: &Begin) -> bool {
        let Begin { shard, fence, at_us, now_us, .. } = *before;
        let (_, last_us) = self.held[&(shard, fence)];
        let next = self.held.range((shard, fence + 1)..(shard + 1, 0));
        let next_us = next.map(|(_, (first_us, _))| *first_us).min().unwrap_or(u64::MAX);
        let is_so = |back: &Back| {
            let comes_again = back.shows_us < known.due_us;
            let by_time_before = at_us < back.at_us || now_us < known.due_us;
            let changed_hands = last_us < back.until_us && back.at_us < next_us;
            comes_again && by_time_before && changed_hands
        };
        // A failure is noted, and so says the attempt after it.
        begin.attempt == 1 && fence < begin.fence && self.backs.iter().any(is_so)
    }

    /// Handlers that began under a fence when one of that shard had begun under a later one.
    fn stale(&self) -> Vec<String> {
        let mut begun: Vec<&Begin> =
            self.timers.values().flat_map(|known| &known.begun).filter(|b| b.fence > 0).collect();
        begun.sort_by_key(|begin| begin.line);
        // The latest fence of each shard, and when a handler first began under it.
        let mut latest: BTreeMap<u32, (u64, u64)> = BTreeMap::new();
        let mut complaints = Vec::new();
        for begin in begun {
            let last = latest.entry(begin.shard).or_insert((begin.fence, begin.at_us));
            if begin.fence > last.0 {
                *last = (begin.fence, begin.at_us);
            } else if begin.fence < last.0 && begin.at_us > last.1 {
                complaints.push(format!("under an old fence, beside {last:?}: {begin:?}"));
            }
        }
        complaints
    }

    pub(crate) fn sums(&self) -> Sums {
        let mut sums = Sums::default();
        for (number, known) in &self.timers {
            sums.acked += usize::from(known.acked.is_some());
            sums.cancelled += usize::from(known.cancelled.is_some());
            sums.fired += usize::from(has_succeeded(*number, known));
            let mut attempts: Vec<u32> = known.begun.iter().map(|begin| begin.attempt).collect();
            attempts.sort_unstable();
            let all = attempts.len();
            attempts.dedup();
            sums.repeated += usize::from(attempts.len() < all);
            let mut unsaid = unsaid_repeats(known);
            let is_unknown = unsaid.any(|(before, begin)| self.is_unknown(known, before, begin));
            sums.again += usize::from(is_unknown);
            sums.undone += usize::from(self.is_missing(*number, known));
            sums.dead += usize::from(known.is_dead);
        }
        sums
    }
}

fn has_succeeded(number: u64, known: &Known) -> bool {
    known.begun.iter().any(|begin| !fails(number, begin.attempt))
}

/// What began, and what began before it, if it was not said that it may have. (An instance that was
/// held up can be late to write that it began.)
fn unsaid_repeats(known: &Known) -> impl Iterator<Item = (&Begin, &Begin)> {
    let unsaid = known.begun.iter().filter(|begin| !begin.may_be_repeat);
    let before =
        |begin: &Begin, other: &Begin| other.line < begin.line && other.at_us < begin.at_us;
    unsaid.flat_map(move |begin| {
        let all = known.begun.iter().filter(move |other| before(begin, other));
        all.map(move |other| (other, begin))
    })
}

// === each check finds what it is for ===

/// The second one is cancelled; the third fails at first, and is repeated.
const SOUND: &str = "asked 1 100\nasked 2 100\nasked 7 100\nacked 1 a\nacked 2 b\nacked 7 c\n\
    cancelling 2\ncancelled 2 90\nbegan 1 1 false 101 1 3\nbegan 7 1 false 102 1 3\n\
    began 7 2 true 103 1 3\nbegan 7 2 true 104 1 4\n";

/// The clock is set back from 100 to 50, and the timer fires by the time before all the same. Then
/// its instance dies, and another one has the shard when the clock shows 100 again.
const AGAIN: &str = "asked 1 100\nacked 1 a\nback 20 29 50\nbegan 1 1 false 51 0 3 21\n\
    began 1 1 false 100 0 5 60\n";

#[track_caller]
fn assert_finds(from: &str, to: &str, complaint: &str) {
    assert_finds_in(SOUND, from, to, complaint);
}

#[track_caller]
fn assert_finds_in(text: &str, from: &str, to: &str, complaint: &str) {
    assert!(text.contains(from), "{from}");
    let complaints = Ledger::read(&text.replacen(from, to, 1)).complaints();
    assert!(complaints.iter().any(|found| found.contains(complaint)), "{complaints:?}");
}

#[test]
fn a_sound_ledger_is_found_so() {
    let ledger = Ledger::read(SOUND);
    assert_eq!(ledger.complaints(), Vec::<String>::new());
    let Sums { acked, cancelled, fired, repeated, again, undone, dead } = ledger.sums();
    assert_eq!((acked, cancelled, fired, repeated, again, undone, dead), (3, 1, 2, 1, 0, 0, 0));
    // By a clock that is set back by 50 in the middle.
    let set =
        SOUND.replacen("began 1 1 false 101 1 3\n", "back 5 9 50\nbegan 1 1 false 51 1 3 7\n", 1);
    let set = set.replacen("began 7 1 false 102 1 3\n", "began 7 1 false 102 1 3 10\n", 1);
    assert_eq!(Ledger::read(&set).complaints(), Vec::<String>::new());
    // One that no handler can handle.
    let poisoned = SOUND.to_owned() + "asked 8 100\npoisoned 8\nacked 8 d\ndead 8\nfailed Io\n";
    let ledger = Ledger::read(&poisoned);
    assert_eq!((ledger.complaints(), ledger.sums().dead), (Vec::<String>::new(), 1));
    assert_eq!(ledger.failed["Io"], 1);
    // What a copy of an earlier time does not have.
    let text = SOUND.replacen("acked 1 a\n", "behind\nacked 1 a\n", 1);
    let text = text.replacen("began 1 1 false 101 1 3\n", "replaced\n", 1);
    let ledger = Ledger::read(&text);
    assert_eq!((ledger.complaints(), ledger.sums().undone), (Vec::<String>::new(), 1));
    // Said late by an instance that was held up.
    let late = SOUND.replacen("began 7 1 false 102 1 3\n", "", 1) + "began 7 1 false 102 1 3\n";
    assert_eq!(Ledger::read(&late).complaints(), Vec::<String>::new());
}

#[test]
fn what_is_wrong_with_a_ledger_is_found() {
    assert_finds("began 1 1 false 101 1 3\n", "", "1 was lost");
    assert_finds("began 1 1 false 101", "began 1 1 false 99", "1 was early");
    assert_finds("began 7 2 true 104", "began 7 2 false 104", "7 was repeated without a word");
    assert_finds("began 7 1 ", "began 2 1 ", "2 was cancelled");
    assert_finds("acked 2 b", "acked 2 a", "have the number a");
    assert_finds("began 7 2 true 104 1 4\n", "began 8 1 false 104 1 4\n", "nobody asked for 8");
    assert_finds("began 7 2 true 103 1 3", "began 7 2 true 103 1 2", "under an old fence");
    assert_finds("asked 7 100\n", "asked 7 100\ndead 7\n", "7 is a dead letter");
    assert_finds("asked 1 100\n", "asked 1 100\npoisoned 1\n", "1 is no dead letter");
    assert_finds(
        "began 1 1 false 101 1 3\n",
        "back 5 9 50\nbegan 1 1 false 51 1 3 9\n",
        "1 was early",
    );
    // Before the copy was made, or after it took the store's place.
    let behind = "acked 1 a\nbehind\nreplaced\n";
    let text =
        SOUND.replacen("acked 1 a\n", behind, 1).replacen("began 1 1 false 101 1 3\n", "", 1);
    assert!(Ledger::read(&text).complaints()[0].contains("1 was lost"));
}

#[test]
fn a_repeat_in_a_time_that_comes_again_may_be_unsaid_if_nobody_can_know_of_it() {
    // It may have begun before the clock was set back.
    for first in ["51 0 3 21", "100 0 3 19"] {
        let ledger = Ledger::read(&AGAIN.replacen("51 0 3 21", first, 1));
        assert_eq!((ledger.complaints(), ledger.sums().again), (Vec::<String>::new(), 1));
    }
    #[track_caller]
    fn finds(from: &str, to: &str) {
        assert_finds_in(AGAIN, from, to, "1 was repeated without a word");
    }
    finds("back 20 29 50\n", "");
    // That time does not come again, or the first one went by it already, or was after all of it.
    finds("back 20 29 50", "back 20 29 100");
    finds("51 0 3 21", "100 0 3 21");
    finds("51 0 3 21", "51 0 3 29");
    // It is the same instance, or the first one went on, so that the end was durable.
    finds("100 0 5 60", "100 0 3 28");
    finds("acked 1 a\n", "acked 1 a\nasked 2 50\nbegan 2 1 false 59 0 3 29\n");
    // Another one had the shard before the clock was set back, and has noted it.
    finds("51 0 3 21\n", "100 0 3 18\nasked 2 50\nbegan 2 1 false 101 0 4 19\n");
    // A failure was noted.
    finds("began 1 1 false 100 0 5 60", "began 1 2 false 100 0 5 60");
    // A third time, in the time after that.
    finds("100 0 5 60\n", "100 0 5 60\nbegan 1 1 false 101 0 6 61\n");
}
