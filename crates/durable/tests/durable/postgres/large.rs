//! What is large: a transaction with very many timers, and a snapshot that keeps the server from
//! taking out what is over. (The long run has a million timers, and more seconds.)

use std::fs;
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use postgres::Client;
use tickless_durable::Cluster;
use tickless_durable::cluster::Firing;

use super::server::Place;
use crate::common::limit::LIMIT;
use crate::common::scale::cases;
use crate::common::until::wait_until;

/// The memory of this process in MiB: at most until now, since it was asked for last.
fn most_mib() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<u64>().ok());
    let _ = fs::write("/proc/self/clear_refs", "5");
    kib.unwrap_or(0) / 1024
}

/// A handler has begun: with which number, whether it may be a repeat, and how late.
type Begun = (u32, bool, Duration);

fn start(place: &Place, shards: u32) -> (impl Fn() -> Cluster<String>, Receiver<Begun>) {
    let (sender, fired) = channel();
    let (url, schema) = (place.url.clone(), place.schema.clone());
    let start = move || {
        let sender = sender.clone();
        let handler = move |firing: &Firing<'_, String>| {
            let late = SystemTime::now().duration_since(firing.due()).unwrap_or_default();
            sender.send((firing.payload().parse().unwrap(), firing.may_be_repeat(), late))
        };
        let builder = Cluster::builder(&url).schema(&schema).shards(shards);
        builder.start(handler).unwrap()
    };
    (start, fired)
}

/// All of them are there at once, most of them due, and each holder is told of each.
#[test]
fn all_timers_of_a_large_transaction_fire_and_only_a_window_of_them_is_in_memory() {
    let Some(place) = Place::new() else { return };
    let (place, count) = (place.alone(), cases(200_000.0));
    let (start, fired) = start(&place, 4);
    let clusters = [start(), start()];
    wait_until("they share the shards", || clusters.iter().all(|one| one.shards().len() == 2));
    let mut client = place.client();
    client.batch_execute("SET statement_timeout = 0").unwrap();
    let before = most_mib();
    let begun = Instant::now();
    let all = "SELECT count(schedule(now() + n % 100 * interval '100 milliseconds', n::text))
        FROM generate_series(0, $1::int - 1) AS n";
    client.query_one(all, &[&count.cast_signed()]).unwrap();
    let (took, after) = (begun.elapsed(), most_mib());
    let mut seen = vec![false; count as usize];
    let mut near = 0;
    for n in 0..count {
        let (number, may_be_repeat, _) = fired.recv_timeout(LIMIT).expect("all of them fire");
        let was_seen = std::mem::replace(&mut seen[number as usize], true);
        assert!(!was_seen || may_be_repeat, "{number} comes twice, and nobody says so");
        if n % 1000 == 0 {
            let stats = clusters.iter().flat_map(|one| one.stats());
            near = near.max(stats.map(|work| work.stats.near).sum());
        }
    }
    println!(
        "{count} timers in one transaction of {took:.1?}, and all have fired {:.1?} later; {near} \
         of them in memory at most; {before} MiB before, {after} with the transaction, {} at most",
        begun.elapsed() - took,
        most_mib(),
    );
    assert!(seen.iter().all(|seen| *seen), "each has come");
    assert!(near <= 2 * 65_536, "{near} are in memory");
    assert_eq!(clusters.iter().filter_map(Cluster::failure).count(), 0);
}

/// What the server's statistics say of the table of timers: rows that are dead, and MiB.
fn bloat(client: &mut Client) -> (i64, i64) {
    let row = "SELECT n_dead_tup, pg_total_relation_size(relid) / 1048576 FROM pg_stat_user_tables
        WHERE schemaname = current_schema AND relname = 'records'";
    let row = client.query_one(row, &[]).unwrap();
    (row.get(0), row.get(1))
}

/// A thousand timers a second, each a second ahead; in the second third of the time, somebody keeps
/// a snapshot. `SECONDS_EACH` is how long a third is.
#[test]
fn a_snapshot_that_is_held_keeps_rows_of_timers_that_are_over_until_it_ends() {
    let Some(place) = Place::new() else { return };
    let place = place.alone();
    let seconds = std::env::var("SECONDS_EACH").map_or(1, |text| text.parse().unwrap());
    let (start, fired) = start(&place, 1);
    let cluster = start();
    wait_until("it has the shard", || cluster.shards().len() == 1);
    let mut client = place.client();
    let mut holder = None::<Client>;
    for (stage, what) in ["before", "with the snapshot", "after"].into_iter().enumerate() {
        match stage {
            1 => {
                let mut client = place.client();
                let hold = "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM records";
                client.batch_execute(hold).unwrap();
                holder = Some(client);
            }
            _ => drop(holder.take()),
        }
        let (begun, timers) = (Instant::now(), seconds * 1000);
        for n in 0..timers {
            thread::sleep(Duration::from_millis(n).saturating_sub(begun.elapsed()));
            let due = cluster.now() + Duration::from_secs(1);
            drop(cluster.schedule(due, n.to_string()).unwrap());
        }
        let late = |_| fired.recv_timeout(LIMIT).expect("all of them fire").2;
        let mut late: Vec<Duration> = (0..timers).map(late).collect();
        late.sort_unstable();
        let left = "SELECT count(*) FROM records";
        wait_until("they are over", || client.query_one(left, &[]).unwrap().get::<_, i64>(0) == 0);
        if stage == 1 {
            // Nothing that was over after it began can be taken out.
            client.batch_execute("VACUUM records").unwrap();
        }
        let (dead, mib) = bloat(&mut client);
        let p99 = late[late.len() * 99 / 100].as_millis();
        println!("{what}: {dead} dead rows, {mib} MiB, p99 {p99} ms late");
    }
    client.batch_execute("VACUUM records").unwrap();
    let (dead, mib) = bloat(&mut client);
    println!("and after a vacuum: {dead} dead rows, {mib} MiB");
    assert!(dead <= 100, "{dead} rows stay for no reason");
}
