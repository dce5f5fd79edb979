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
//! | `back AT UNTIL` | the test | the clock was set back, as all know at the latest then |
//!
//! Times are in microseconds: `AT` and `UNTIL` since this machine was started, `DUE` and `NOW` by
//! the clock that timers go by, which may be set. `FLAG` is `may_be_repeat()`. Where programs of
//! two versions run, which need not know of `AT`, they leave it out.

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
    /// From when to when timers could go by a clock that was set back meanwhile.
    backs: Vec<(u64, u64)>,
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
            "back" => return self.backs.push((number(1), number(2))),
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
            "began" => known.begun.push(Begin {
                line,
                attempt: number(2) as u32,
                may_be_repeat: words[3] == "true",
                now_us: number(4),
                at_us: number(if words.len() > 7 { 7 } else { 4 }),
                shard: number(5) as u32,
                fence: number(6),
            }),
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
            if known.begun.iter().any(|begin| !begin.may_be_repeat && is_repeat(known, begin)) {
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
        let by_another = |(from, to): &(u64, u64)| (*from..*to).contains(&begin.at_us);
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
            sums.undone += usize::from(self.is_missing(*number, known));
            sums.dead += usize::from(known.is_dead);
        }
        sums
    }
}

fn has_succeeded(number: u64, known: &Known) -> bool {
    known.begun.iter().any(|begin| !fails(number, begin.attempt))
}

/// Whether another attempt began before it. (An instance that was held up can be late to say so.)
fn is_repeat(known: &Known, begin: &Begin) -> bool {
    known.begun.iter().any(|other| other.line < begin.line && other.at_us < begin.at_us)
}

// === each check finds what it is for ===

/// The second one is cancelled; the third fails at first, and is repeated.
const SOUND: &str = "asked 1 100\nasked 2 100\nasked 7 100\nacked 1 a\nacked 2 b\nacked 7 c\n\
    cancelling 2\ncancelled 2 90\nbegan 1 1 false 101 1 3\nbegan 7 1 false 102 1 3\n\
    began 7 2 true 103 1 3\nbegan 7 2 true 104 1 4\n";

#[track_caller]
fn assert_finds(from: &str, to: &str, complaint: &str) {
    assert!(SOUND.contains(from), "{from}");
    let complaints = Ledger::read(&SOUND.replacen(from, to, 1)).complaints();
    assert!(complaints.iter().any(|found| found.contains(complaint)), "{complaints:?}");
}

#[test]
fn a_sound_ledger_is_found_so() {
    let ledger = Ledger::read(SOUND);
    assert_eq!(ledger.complaints(), Vec::<String>::new());
    let Sums { acked, cancelled, fired, repeated, undone, dead } = ledger.sums();
    assert_eq!((acked, cancelled, fired, repeated, undone, dead), (3, 1, 2, 1, 0, 0));
    // By a clock that is set back by 50 in the middle.
    let set =
        SOUND.replacen("began 1 1 false 101 1 3\n", "back 5 9\nbegan 1 1 false 51 1 3 7\n", 1);
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
        "back 5 9\nbegan 1 1 false 51 1 3 9\n",
        "1 was early",
    );
    // Before the copy was made, or after it took the store's place.
    let behind = "acked 1 a\nbehind\nreplaced\n";
    let text =
        SOUND.replacen("acked 1 a\n", behind, 1).replacen("began 1 1 false 101 1 3\n", "", 1);
    assert!(Ledger::read(&text).complaints()[0].contains("1 was lost"));
}
