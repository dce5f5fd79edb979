//! A toy replicated log, whose producers wait until every replica has what they wrote.
//!
//! ```text
//! cargo run --release --example delayed_ack
//! ```
//!
//! A leader appends records to two partitions of a topic. Three followers, each on a thread, copy
//! them, and one of the three stalls now and then. A produce request (`acks=all`) waits in a
//! purgatory under its topic and partition. Whenever a follower has got further, the leader checks
//! that key, and the requests whose records are on every replica by now are answered. Those whose
//! records are not within the timeout are told so.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use tickless_purgatory::{Operation, Purgatory};

const TOPIC: &str = "orders";
const PARTITIONS: u64 = 2;
const FOLLOWERS: usize = 3;

const REQUESTS: u64 = 3_000;
const BETWEEN_REQUESTS: Duration = Duration::from_micros(500);
const TIMEOUT: Duration = Duration::from_millis(50);

const BETWEEN_FETCHES: Duration = Duration::from_millis(2);
/// One fetch in so many of the last follower stalls.
const FETCHES_PER_STALL: u32 = 100;
const STALL: Duration = Duration::from_millis(120);

/// What requests wait under: topic and partition.
type Key = (&'static str, u64);

/// How far each replica of a partition has got. (The records themselves do not matter here.)
#[derive(Default)]
struct Partition {
    end: AtomicU64,
    followers: [AtomicU64; FOLLOWERS],
}

/// A produce request: its record is to be on every replica.
struct Produce {
    partition: Arc<Partition>,
    offset: u64,
    sent: Instant,
    answers: Arc<Answers>,
}

/// What producers were told.
#[derive(Default)]
struct Answers {
    acknowledged: AtomicU64,
    timed_out: AtomicU64,
    latest_ns: AtomicU64,
}

/// Whom producers write to, and followers fetch from.
struct Leader {
    partitions: [Arc<Partition>; PARTITIONS as usize],
    purgatory: Purgatory<Key, Produce>,
}

impl Partition {
    fn append(&self) -> u64 {
        self.end.fetch_add(1, Ordering::AcqRel)
    }

    fn is_replicated(&self, offset: u64) -> bool {
        self.followers.iter().all(|follower| follower.load(Ordering::Acquire) > offset)
    }
}

impl Operation for Produce {
    fn try_complete(&self) -> bool {
        self.partition.is_replicated(self.offset)
    }

    /// The answer is sent, whatever brought it about: also at a timeout all may be well just then.
    fn on_complete(&self) {
        let count = match self.partition.is_replicated(self.offset) {
            true => &self.answers.acknowledged,
            false => &self.answers.timed_out,
        };
        count.fetch_add(1, Ordering::Release);
    }

    fn on_expire(&self) {
        let late = self.sent.elapsed().checked_sub(TIMEOUT).expect("no timeout comes early");
        self.answers.latest_ns.fetch_max(late.as_nanos() as u64, Ordering::Relaxed);
    }
}

impl Answers {
    fn sent(&self) -> u64 {
        self.acknowledged.load(Ordering::Acquire) + self.timed_out.load(Ordering::Acquire)
    }
}

impl Leader {
    /// Appends a record, and answers when it is on every replica or the time is up.
    fn produce(&self, key: Key, answers: &Arc<Answers>) -> Result<(), Box<dyn std::error::Error>> {
        let partition = self.partitions[key.1 as usize].clone();
        let (offset, sent, answers) = (partition.append(), Instant::now(), answers.clone());
        let request = Produce { partition, offset, sent, answers };
        self.purgatory.try_complete_else_watch(Arc::new(request), [key], TIMEOUT)?;
        Ok(())
    }

    /// A follower copies all that there is of every partition.
    fn fetch(&self, follower: usize) {
        for (number, partition) in (0..).zip(&self.partitions) {
            let end = partition.end.load(Ordering::Acquire);
            // The change first, then the check: a request that looks in between sees the change,
            // and one that has looked before is checked.
            partition.followers[follower].store(end, Ordering::Release);
            self.purgatory.check_and_complete(&(TOPIC, number));
        }
    }
}

/// Fetches until there is nothing more to come.
fn follow(leader: &Leader, follower: usize, is_over: &AtomicBool) {
    let is_slow = follower == FOLLOWERS - 1;
    let mut fetches = 0;
    while !is_over.load(Ordering::Acquire) {
        fetches += 1;
        let stalls = is_slow && fetches % FETCHES_PER_STALL == 0;
        thread::sleep(if stalls { STALL } else { BETWEEN_FETCHES });
        leader.fetch(follower);
    }
}

/// Sends all requests and waits for all answers.
fn produce_all(
    leader: &Leader,
    answers: &Arc<Answers>,
) -> Result<usize, Box<dyn std::error::Error>> {
    let mut most = 0;
    for request in 0..REQUESTS {
        leader.produce((TOPIC, request % PARTITIONS), answers)?;
        most = most.max(leader.purgatory.len());
        thread::sleep(BETWEEN_REQUESTS);
    }
    while answers.sent() < REQUESTS {
        thread::sleep(BETWEEN_FETCHES);
    }
    Ok(most)
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let leader = Leader { partitions: Default::default(), purgatory: Purgatory::new()? };
    let answers = Arc::new(Answers::default());
    let is_over = AtomicBool::new(false);
    let most_waited = thread::scope(|scope| {
        for follower in 0..FOLLOWERS {
            let (leader, is_over) = (&leader, &is_over);
            scope.spawn(move || follow(leader, follower, is_over));
        }
        let produced = produce_all(&leader, &answers);
        is_over.store(true, Ordering::Release);
        produced
    })?;

    // Once the engine has stopped, all callbacks have returned.
    leader.purgatory.engine().stop()?;
    let acknowledged = answers.acknowledged.load(Ordering::Acquire);
    let timed_out = answers.timed_out.load(Ordering::Acquire);
    let stats = leader.purgatory.stats();
    println!("{REQUESTS} produced: {acknowledged} acknowledged, {timed_out} timed out");
    println!("{most_waited} waited at most, {} wait now", stats.delayed);
    if stats.expired > 0 {
        let latest = Duration::from_nanos(answers.latest_ns.load(Ordering::Acquire));
        println!("the latest timeout came {latest:.1?} late");
    }
    assert_eq!(acknowledged + timed_out, REQUESTS, "each request has one answer");
    assert_eq!((stats.delayed, stats.panicked), (0, 0), "nobody waits, nothing went wrong");
    Ok(())
}
