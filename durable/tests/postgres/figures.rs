//! What a cluster costs the server, as rows of `PERF.md`. `SECONDS_EACH` is how long each is
//! counted.

use std::fs;
use std::sync::mpsc::channel;
use std::thread;
use std::time::{Duration, Instant};

use postgres::Client;
use tickless_durable::Cluster;
use tickless_durable::cluster::Firing;

use crate::limit::LIMIT;
use crate::server::Place;
use crate::until::wait_until;

/// The transactions of the database, and the processor time of the sessions of this cluster.
#[derive(Clone, Copy)]
struct Cost {
    transactions: i64,
    ticks: u64,
}

fn cost(client: &mut Client) -> Cost {
    let flush = "SELECT pg_stat_clear_snapshot()";
    client.query(flush, &[]).unwrap();
    let count = "SELECT xact_commit FROM pg_stat_database WHERE datname = current_database()";
    let transactions = client.query_one(count, &[]).unwrap().get(0);
    let sessions = "SELECT pid FROM pg_stat_activity
        WHERE application_name LIKE 'tickless % in ' || current_schema";
    let sessions = client.query(sessions, &[]).unwrap();
    let ticks = |pid: i32| {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or("").split_whitespace().collect();
        let number = |at: usize| fields.get(at).and_then(|text| text.parse::<u64>().ok());
        number(11).unwrap_or(0) + number(12).unwrap_or(0)
    };
    Cost { transactions, ticks: sessions.iter().map(|row| ticks(row.get(0))).sum() }
}

#[test]
fn what_idling_and_a_trickle_of_timers_cost_the_server() {
    let Some(place) = Place::new() else { return };
    let seconds: u64 = std::env::var("SECONDS_EACH").map_or(1, |seconds| seconds.parse().unwrap());
    let (sender, fired) = channel();
    let start = || -> Cluster<String> {
        let sender = sender.clone();
        let handler = move |_: &Firing<'_, String>| sender.send(());
        Cluster::builder(&place.url).schema(&place.schema).start(handler).unwrap()
    };
    let clusters = [start(), start(), start()];
    wait_until("they share the shards", || {
        let mut held = clusters.each_ref().map(|cluster| cluster.shards().len());
        held.sort_unstable();
        held == [2, 3, 3]
    });
    let mut client = place.client();
    let told = |what: &str, before: Cost, after: Cost, timers: u64| {
        println!(
            "{what}: {} transactions and {} ticks of 10 ms in {seconds} s, {timers} timers",
            after.transactions - before.transactions,
            after.ticks - before.ticks,
        );
    };
    for what in ["idle, right after they came", "idle"] {
        let before = cost(&mut client);
        thread::sleep(Duration::from_secs(seconds));
        told(what, before, cost(&mut client), 0);
    }
    for (what, keyed) in [("without keys", false), ("with keys", true)] {
        let (before, begun) = (cost(&mut client), Instant::now());
        let timers = seconds * 100;
        for n in 0..timers {
            let at = Duration::from_millis(n * 10).saturating_sub(begun.elapsed());
            thread::sleep(at);
            let due = clusters[0].now() + Duration::from_secs(1);
            if keyed {
                drop(clusters[0].schedule_keyed(n.to_string(), due, "x".to_owned()).unwrap());
            } else {
                drop(clusters[0].schedule(due, "x".to_owned()).unwrap());
            }
        }
        for _ in 0..timers {
            fired.recv_timeout(LIMIT).expect("all of them fire");
        }
        let left = "SELECT count(*) FROM records";
        wait_until("they are over", || client.query_one(left, &[]).unwrap().get::<_, i64>(0) == 0);
        told(what, before, cost(&mut client), timers);
    }
}
