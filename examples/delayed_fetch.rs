//! Kafka's case, two of its delayed operations: a fetch, which waits for enough bytes, and a
//! delete, which waits for every replica. (`delayed_ack` has a third, the produce.)
//!
//! A fetch reads from several partitions and wants at least so many bytes. It waits in a purgatory
//! under each partition, and each append checks the partition that has grown. The append after
//! which there is enough completes the fetch. At its timeout, a fetch returns what there is.
//! Deletes wait in a second purgatory, on the same engine. Its clock is moved by hand.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use tickless::{Engine, ManualClock};
use tickless_purgatory::{Decision, Operation, Purgatory};

const PARTITIONS: [usize; 3] = [0, 1, 2];
const MS: Duration = Duration::from_millis(1);

/// A fetch of all that the partitions have: these are their sizes.
struct Fetch {
    bytes: Arc<[AtomicU64; PARTITIONS.len()]>,
    min_bytes: u64,
    client: mpsc::Sender<(u64, u64)>,
}

impl Fetch {
    fn available(&self) -> u64 {
        self.bytes.iter().map(|bytes| bytes.load(Ordering::Acquire)).sum()
    }
}

impl Operation for Fetch {
    fn try_complete(&self) -> bool {
        self.available() >= self.min_bytes
    }

    /// Called when there is enough, and at the timeout.
    fn on_complete(&self) {
        let _ = self.client.send((self.min_bytes, self.available()));
    }
}

/// The delete of a partition, and how many of its replicas are still running.
struct Delete(AtomicU64);

impl Operation for Delete {
    fn try_complete(&self) -> bool {
        self.0.load(Ordering::Acquire) == 0
    }
    fn on_complete(&self) {}
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let engine = Engine::builder().manual_clock(&ManualClock::new()).build()?;
    let (fetches, deletes) = (Purgatory::with_engine(&engine), Purgatory::with_engine(&engine));
    let (bytes, (client, fetched)) = (Arc::<[AtomicU64; 3]>::default(), mpsc::channel());
    let fetch = |min_bytes| {
        let fetch = Fetch { bytes: bytes.clone(), min_bytes, client: client.clone() };
        fetches.try_complete_else_watch(fetch.into(), PARTITIONS, 500 * MS).map(drop)
    };
    let append = |partition: usize| {
        // The change comes before the check, so that no fetch misses it.
        bytes[partition].fetch_add(1, Ordering::Release);
        fetches.check_and_complete(&partition);
    };

    // 200 fetches want 1 to 200 bytes. Three producers append 150 bytes, all at the same time.
    (1..=200).try_for_each(fetch)?;
    std::thread::scope(|scope| {
        for partition in PARTITIONS {
            scope.spawn(move || (0..50).for_each(|_| append(partition)));
        }
    });
    let mut in_time: Vec<_> = fetched.try_iter().collect();
    in_time.sort_unstable();
    assert!(in_time.iter().map(|(wanted, _)| *wanted).eq(1..=150), "each of these ends once");
    assert!(in_time.iter().all(|(wanted, got)| got >= wanted), "nobody gets too little");
    // Their timers are cancelled. The other 50 end at their timeout, with all that there is.
    assert_eq!((engine.len(), engine.advance(499 * MS)?, engine.advance(MS)?), (50, 0, 50));
    let late: Vec<_> = fetched.try_iter().collect();
    assert!(late.len() == 50 && late.iter().all(|(wanted, got)| *wanted > 150 && *got == 150));

    // A delete cancels the fetches of its partition: each leaves all its keys.
    fetch(1_000)?;
    assert_eq!((fetches.cancel_for_key(&1).len(), fetches.watched()), (1, 0));
    // Then it waits until the last replica has stopped, but no longer than its timeout.
    for (stopped, end) in [(3, Decision::Completed), (2, Decision::Expired)] {
        let delete = Arc::new(Delete(AtomicU64::new(3)));
        let arrival = deletes.try_complete_else_watch(delete.clone(), [1], 30_000 * MS)?;
        for _ in 0..stopped {
            delete.0.fetch_sub(1, Ordering::Release);
            deletes.check_and_complete(&1);
        }
        engine.advance(30_000 * MS)?;
        assert_eq!(arrival.into_delayed().expect("it waits").decision(), Some(end));
    }
    println!("fetches: {:?}\ndeletes: {:?}", fetches.stats(), deletes.stats());
    Ok(())
}
