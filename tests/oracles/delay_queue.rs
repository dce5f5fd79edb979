//! A delay queue against a list of what it should hold: random inserts, removals, resets, polls and
//! steps of time. Each item that comes out was due, the order is the one that `DelayQueue`
//! promises, and a task that waits is woken as soon as there is a reason.

use std::collections::BTreeMap;
use std::task::Poll;
use std::time::Duration;

use support::queued::{Queued, ms, queued};
use support::random::Random;
use support::scaled;
use tickless::future::delay_queue::Key;

/// What the task was told when it polled last.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Told {
    Nothing,
    Pending,
    Empty,
}

#[derive(Clone, Copy)]
struct Item {
    key: Key,
    /// `None` is never.
    due: Option<u64>,
    /// When it was inserted, or reset for the last time.
    filed: u64,
}

struct Case {
    queued: Queued<u64>,
    random: Random,
    now: u64,
    /// By number.
    pending: BTreeMap<u64, Item>,
    /// Keys of what is out.
    stale: Vec<Key>,
    made: u64,
    told: Told,
    /// It has been woken, or was told to poll again.
    may_poll: bool,
}

impl Case {
    fn new(seed: u64) -> Case {
        Case {
            queued: queued(),
            random: Random::new(seed),
            now: 0,
            pending: BTreeMap::new(),
            stale: Vec::new(),
            made: 0,
            told: Told::Nothing,
            may_poll: true,
        }
    }

    /// Some millisecond: near, at the border of a level, far away, past, or never.
    fn due(&mut self) -> Option<u64> {
        let border = [64, 256, 512, 65_536][self.random.below(4) as usize];
        match self.random.below(12) {
            0 => Some(self.now),
            1 => Some(self.now.saturating_sub(self.random.below(300))),
            2 => Some((self.now / border + 1) * border),
            3 => Some(self.now + self.random.below(200_000)),
            4 => None,
            5..=7 => Some(self.now + 300 + self.random.below(8)),
            _ => Some(self.now + self.random.below(600)),
        }
    }

    fn any(&mut self) -> Option<(u64, Key)> {
        let count = self.pending.len() as u64;
        let at = self.random.below(count.max(1)) as usize;
        self.pending.iter().nth(at).map(|(number, item)| (*number, item.key))
    }

    fn insert(&mut self) {
        let (due, number) = (self.due(), self.made);
        self.made += 1;
        let key = match due {
            None => self.queued.queue.insert(number, Duration::MAX),
            // By a delay, too, where that is possible.
            Some(due) if due >= self.now && number % 2 == 0 => {
                self.queued.queue.insert(number, ms(due - self.now))
            }
            Some(due) => self.queued.queue.insert_at(number, self.queued.at(due)),
        };
        self.pending.insert(number, Item { key, due, filed: self.now });
    }

    fn reset(&mut self) {
        let Some((number, key)) = self.any() else { return };
        let due = self.due();
        let is_there = match due {
            None => self.queued.queue.reset(key, Duration::MAX),
            Some(due) => self.queued.queue.reset_at(key, self.queued.at(due)),
        };
        assert!(is_there);
        self.pending.insert(number, Item { key, due, filed: self.now });
    }

    fn remove(&mut self) {
        let Some((number, key)) = self.any() else { return };
        assert_eq!(self.queued.queue.remove(key), Some(number));
        self.pending.remove(&number);
        self.stale.push(key);
    }

    fn first(&self) -> Option<u64> {
        self.pending.values().filter_map(|item| item.due).min()
    }

    /// That an item due at `due` may come out before all that are pending. An item whose deadline
    /// had passed when it was filed has its place anywhere between that deadline and that moment.
    fn assert_may_come_first(&self, due: u64) {
        for other in self.pending.values() {
            let latest_place = other.due.map(|due| due.max(other.filed));
            assert!(latest_place.is_none_or(|place| due <= place), "{due} before {:?}", other.due);
        }
    }

    fn poll(&mut self) {
        self.may_poll = false;
        match self.queued.poll_whole() {
            Poll::Pending => {
                let first = self.first();
                assert!(!self.pending.is_empty() && first.is_none_or(|due| due > self.now));
                self.told = Told::Pending;
            }
            Poll::Ready(None) => {
                assert!(self.pending.is_empty());
                self.told = Told::Empty;
            }
            Poll::Ready(Some(expired)) => {
                let Item { key, due, .. } =
                    self.pending.remove(expired.get_ref()).expect("it was there");
                let due = due.expect("it is not for never");
                assert_eq!((expired.key(), expired.deadline()), (key, self.queued.at(due)));
                assert!(due <= self.now, "early");
                self.assert_may_come_first(due);
                self.stale.push(key);
                self.told = Told::Nothing;
                self.may_poll = true;
            }
        }
    }

    /// A task that waits was woken if there is a reason.
    fn check(&mut self) {
        self.may_poll |= self.queued.is_woken();
        let is_due = self.first().is_some_and(|due| due <= self.now);
        let has_reason = match self.told {
            Told::Nothing => false,
            Told::Pending => is_due || self.pending.is_empty(),
            Told::Empty => self.first().is_some(),
        };
        assert!(!has_reason || self.may_poll, "at {}: lost", self.now);
        let queue = &self.queued.queue;
        assert_eq!((queue.len(), queue.is_empty()), (self.pending.len(), self.pending.is_empty()));
        let peeked = queue.peek();
        assert_eq!(peeked.is_some(), self.first().is_some());
        if let Some(next) = self.pending.values().find(|item| Some(item.key) == peeked) {
            let due = next.due.expect("it is not for never");
            self.assert_may_come_first(due);
            assert_eq!(queue.deadline(next.key), Some(self.queued.at(due)));
        }
        assert!(self.queued.engine.len() <= 1, "one timer");
    }

    fn step(&mut self, shy: bool) {
        match self.random.below(16) {
            0..=3 => self.insert(),
            4 | 5 => self.reset(),
            6 => self.remove(),
            7 => {
                let by = [1, 2, 5, 40, 300, 70_000][self.random.below(6) as usize];
                self.now += by;
                self.queued.pass_to(self.now);
            }
            8 if self.random.below(40) == 0 => {
                self.queued.queue.clear();
                self.stale.extend(self.pending.values().map(|item| item.key));
                self.pending.clear();
            }
            9 => self.queued.queue.shrink_to_fit(),
            10 => {
                let Some(key) = self.stale.pop() else { return };
                assert_eq!(self.queued.queue.remove(key), None);
                assert!(!self.queued.queue.reset(key, ms(1)) && !self.queued.queue.contains(key));
            }
            // A shy task polls when it is woken, and at no other time.
            _ if !shy || self.may_poll => self.poll(),
            _ => {}
        }
        self.check();
    }

    /// By polls on wake-ups alone, everything comes out.
    fn run_dry(&mut self) {
        let last = self.pending.values().filter_map(|item| item.due).max().unwrap_or(0);
        while self.first().is_some() {
            self.check();
            while self.may_poll {
                self.poll();
                self.check();
            }
            let Some(first) = self.first() else { break };
            self.now = first.max(self.now);
            self.queued.pass_to(self.now);
        }
        assert!(
            self.now <= last.max(self.now) && self.pending.values().all(|item| item.due.is_none())
        );
    }
}

#[test]
fn a_queue_does_what_a_list_of_its_items_would() {
    for seed in 0..scaled(60) {
        let mut case = Case::new(seed);
        (0..1_000).for_each(|_| case.step(seed % 2 == 0));
        case.poll();
        case.run_dry();
    }
}
