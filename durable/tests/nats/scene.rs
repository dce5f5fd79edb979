//! A history of instances: what their handlers say, and what the logs of the shards have.

use std::collections::BTreeSet;
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use tickless_durable::store::nats;

use crate::checks::{Change, History, Start, Taking};
use crate::instance::Instance;
use crate::limit::LIMIT;
use crate::server::{Place, patiently};

/// How long until it looks again at what nobody tells.
const PAUSE: Duration = Duration::from_millis(50);

/// What handlers have said that they began.
#[derive(Clone, Default)]
pub(crate) struct Starts(Arc<(Mutex<Vec<Start>>, Condvar)>);

/// A place, and its history.
pub(crate) struct Scene {
    pub(crate) place: Place,
    pub(crate) shards: u32,
    pub(crate) starts: Starts,
}

/// The time by this machine's clock, which is that of the servers.
pub(crate) fn now_us() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_micros() as i64
}

// === impl Starts ===

impl Starts {
    /// A handler has said so, just now or before: `TIMER SHARD FENCE INSTANCE DUE BEGUN`.
    pub(crate) fn add(&self, told: &str) {
        let words: Vec<&str> = told.split(' ').collect();
        let number = |at: usize| words[at].parse::<i64>().unwrap();
        let start = Start {
            timer: words[0].to_owned(),
            shard: i32::try_from(number(1)).unwrap(),
            fence: number(2),
            instance: number(3),
            due_us: number(4),
            begun_us: number(5),
            at_us: now_us(),
        };
        self.0.0.lock().unwrap().push(start);
        self.0.1.notify_all();
    }

    /// Waits until so many are as asked for.
    #[track_caller]
    pub(crate) fn wait_for(&self, count: usize, is_one: impl Fn(&Start) -> bool) {
        let are_too_few =
            |all: &mut Vec<Start>| all.iter().filter(|start| is_one(start)).count() < count;
        let all = self.0.0.lock().unwrap();
        let (all, waited) = self.0.1.wait_timeout_while(all, LIMIT, are_too_few).unwrap();
        assert!(!waited.timed_out(), "too few have begun of {count}: {all:?}");
    }

    fn all(&self) -> Vec<Start> {
        self.0.0.lock().unwrap().clone()
    }
}

// === impl Scene ===

impl Scene {
    pub(crate) fn new(place: Place, shards: u32) -> Scene {
        Scene { place, shards, starts: Starts::default() }
    }

    /// Waits until an instance has begun so many timers.
    #[track_caller]
    pub(crate) fn wait_for_starts_of(&self, instance: &Instance, count: usize) {
        let number = instance.number;
        self.starts.wait_for(count, |start| start.instance == number);
    }

    /// Waits until these instances have the shards, as evenly as can be.
    #[track_caller]
    pub(crate) fn wait_for_holders(&self, instances: &mut [&mut Instance]) {
        let begun = Instant::now();
        loop {
            let held: Vec<Vec<u32>> = instances.iter_mut().map(|one| one.shards()).collect();
            let all: BTreeSet<u32> = held.iter().flatten().copied().collect();
            let most = held.iter().map(Vec::len).max().unwrap_or(0);
            let least = held.iter().map(Vec::len).min().unwrap_or(0);
            let count: usize = held.iter().map(Vec::len).sum();
            if all.len() == self.shards as usize && count == all.len() && most - least <= 1 {
                return;
            }
            assert!(begun.elapsed() < LIMIT, "they hold {held:?}");
            std::thread::sleep(PAUSE);
        }
    }

    /// Waits until there are no timers.
    #[track_caller]
    pub(crate) fn wait_for_the_end(&self) {
        let begun = Instant::now();
        loop {
            let left: Vec<String> = self.left();
            if left.is_empty() {
                return;
            }
            assert!(begun.elapsed() < LIMIT, "{} are left: {left:?}", left.len());
            std::thread::sleep(PAUSE);
        }
    }

    /// The timers that are in the logs.
    pub(crate) fn left(&self) -> Vec<String> {
        let mut left = BTreeSet::new();
        for change in self.read().changes {
            if change.is_put {
                left.insert(change.timer);
            } else {
                left.remove(&change.timer);
            }
        }
        left.into_iter().collect()
    }

    pub(crate) fn read(&self) -> History {
        let mut history = History { starts: self.starts.all(), ..History::default() };
        for shard in 0..self.shards {
            let log = patiently(|| nats::history(&self.place.url, &self.place.name, shard));
            let log = log.unwrap_or_else(|error| panic!("{error}"));
            let mut fence = 0;
            for noted in log {
                if noted.is_taking {
                    fence = noted.fence.cast_signed();
                    let shard = shard.cast_signed();
                    history.takings.push(Taking { shard, fence, at_us: noted.at_us });
                }
                history.changes.extend(noted.changes.iter().map(|(position, is_put)| Change {
                    timer: format!("{shard}-{}", position.number),
                    is_put: *is_put,
                    under: Some(noted.fence.cast_signed()),
                    fence,
                    at_us: noted.at_us,
                }));
            }
        }
        history
    }
}
