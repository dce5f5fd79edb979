//! What a cluster costs the server, as rows of `PERF.md`. `SECONDS_EACH` is how long each is
//! counted.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use postgres::Client;
use tickless_durable::Cluster;
use tickless_durable::cluster::{Firing, Ticket};

use super::server::Place;
use crate::common::limit::LIMIT;
use crate::common::until::wait_until;

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

/// Three instances with that many shards.
struct Scene {
    clusters: [Cluster<String>; 3],
    fired: Receiver<()>,
    client: Client,
    seconds: u64,
}

impl Scene {
    fn new(shards: u32) -> Option<Scene> {
        Some(Scene::at(&Place::new()?, shards))
    }

    fn at(place: &Place, shards: u32) -> Scene {
        let seconds = std::env::var("SECONDS_EACH").map_or(1, |text| text.parse().unwrap());
        let (sender, fired) = channel();
        let start = || -> Cluster<String> {
            let sender = sender.clone();
            let handler = move |_: &Firing<'_, String>| sender.send(());
            let builder = Cluster::builder(&place.url).schema(&place.schema);
            builder.shards(shards).start(handler).unwrap()
        };
        let clusters = [start(), start(), start()];
        wait_until("they share the shards", || {
            let held = clusters.each_ref().map(|cluster| cluster.shards().len() as u32);
            let is_fair = |held: &u32| (shards / 3..=shards.div_ceil(3)).contains(held);
            held.iter().sum::<u32>() == shards && held.iter().all(is_fair)
        });
        Scene { clusters, fired, client: place.client(), seconds }
    }

    /// A trickle of 100 timers per second from the first instance, each due a second later.
    fn trickle(&mut self, keyed: bool) {
        let (timers, cluster, begun) = (self.seconds * 100, &self.clusters[0], Instant::now());
        for n in 0..timers {
            let at = Duration::from_millis(n * 10).saturating_sub(begun.elapsed());
            thread::sleep(at);
            let due = cluster.now() + Duration::from_secs(1);
            if keyed {
                drop(cluster.schedule_keyed(n.to_string(), due, "x".to_owned()).unwrap());
            } else {
                drop(cluster.schedule(due, "x".to_owned()).unwrap());
            }
        }
        for _ in 0..timers {
            self.fired.recv_timeout(LIMIT).expect("all of them fire");
        }
        let left = "SELECT count(*) FROM records";
        let client = &mut self.client;
        wait_until("they are over", || client.query_one(left, &[]).unwrap().get::<_, i64>(0) == 0);
    }

    /// Waits until each instance has renewed its leases for a lease. Returns how many renewals
    /// there were, and how many questions this has asked.
    fn renewals(&mut self) -> (i64, i64) {
        let (mut seen, mut asked) = (BTreeMap::<i64, BTreeSet<SystemTime>>::new(), 0);
        wait_until("they renew their leases", || {
            thread::sleep(Duration::from_millis(200));
            asked += 1;
            for row in self.client.query("SELECT instance, expires FROM instances", &[]).unwrap() {
                seen.entry(row.get(0)).or_default().insert(row.get(1));
            }
            seen.len() == 3 && seen.values().all(|times| times.len() > 3)
        });
        (seen.values().map(|times| times.len() as i64).sum(), asked)
    }

    /// Returns how many transactions were made meanwhile.
    fn count(&mut self, what: &str, work: impl FnOnce(&mut Scene)) -> i64 {
        let before = cost(&mut self.client);
        work(self);
        let after = cost(&mut self.client);
        let transactions = after.transactions - before.transactions;
        let ticks = after.ticks - before.ticks;
        println!("{what}: {transactions} transactions and {ticks} ticks of 10 ms");
        transactions
    }
}

#[test]
fn what_idling_and_a_trickle_of_timers_cost_the_server() {
    for shards in [8, 3] {
        let Some(mut scene) = Scene::new(shards) else { return };
        for what in ["right after they came", "idle"] {
            let what = format!("{shards} shards, {what}");
            scene.count(&what, |scene| thread::sleep(Duration::from_secs(scene.seconds)));
        }
        scene.count(&format!("{shards} shards, without keys"), |scene| scene.trickle(false));
        scene.count(&format!("{shards} shards, with keys"), |scene| scene.trickle(true));
    }
}

/// Whatever the number of shards: what is ready in any of them is written together. What it takes
/// to open and to leave them is another matter, and so is what an idle instance asks.
#[test]
fn the_shards_of_an_instance_share_their_transactions() {
    const SECONDS: u64 = 3;
    let Some(place) = Place::new() else { return };
    let place = place.alone();
    let mut client = place.client();
    let mut transactions = |rate: u64| -> i64 {
        let (sender, fired) = channel();
        let handler = move |_: &Firing<'_, String>| sender.send(());
        let builder = Cluster::builder(&place.url).schema(&place.schema).shards(8);
        let before = cost(&mut client);
        let cluster: Cluster<String> = builder.start(handler).unwrap();
        wait_until("it has all shards", || cluster.shards().len() == 8);
        let begun = Instant::now();
        for n in 0..SECONDS * rate {
            let at = Duration::from_millis(n * 1000 / rate).saturating_sub(begun.elapsed());
            thread::sleep(at);
            drop(cluster.schedule(cluster.now() + Duration::from_secs(1), "x".into()).unwrap());
        }
        (0..SECONDS * rate).for_each(|_| fired.recv_timeout(LIMIT).expect("all of them fire"));
        thread::sleep(Duration::from_secs(SECONDS + 1).saturating_sub(begun.elapsed()));
        // The sessions tell the server's counters when they are over.
        cluster.stop().unwrap();
        cost(&mut client).transactions - before.transactions
    };
    transactions(0); // It makes the tables.
    let idle = transactions(0);
    for (rate, most) in [(100, 0.4), (1000, 0.2)] {
        let more = transactions(rate) - idle;
        let per_timer = more as f64 / (SECONDS * rate) as f64;
        println!("{rate} timers per second in 8 shards: {per_timer:.3} transactions for each");
        assert!(per_timer <= most, "{per_timer}, and {most} was expected");
    }
    println!("{idle} transactions without any");
}

/// Three times in each lease, an instance renews what it has and looks at the others.
#[test]
fn an_idle_cluster_costs_the_server_its_renewals_and_no_more() {
    let Some(place) = Place::new() else { return };
    let mut scene = Scene::at(&place.alone(), 8);
    // The server counts what a session has done up to ten seconds later: so does this.
    scene.renewals();
    let before = cost(&mut scene.client);
    let (renewals, asked) = scene.renewals();
    let after = cost(&mut scene.client);
    let transactions = after.transactions - before.transactions - asked;
    let cpu_ms = (after.ticks - before.ticks) * 10;
    println!("{renewals} renewals: {transactions} transactions and {cpu_ms} ms");
    // Three to six for each, and the questions of this test.
    let most = 6 * renewals + 50;
    assert!(transactions < most, "{transactions} transactions, and less than {most} were expected");
    // It takes a tenth of that, and ten times as much if statements are compiled.
    let most_ms = 50 + 4 * most.unsigned_abs();
    assert!(cpu_ms < most_ms, "{cpu_ms} ms for {transactions} transactions");
}

/// What nobody waits for shares its transactions: with others of its shard and, on the way to other
/// instances, with others of all shards.
#[test]
fn timers_that_nobody_waits_for_share_their_transactions() {
    let Some(mut scene) = Scene::new(8) else { return };
    let cluster = scene.clusters[0].clone();
    let hour = cluster.now() + Duration::from_secs(3600);
    let mut transactions = |name: &str, waits: bool| -> i64 {
        let tickets: Vec<Ticket> = (0..300)
            .map(|n| {
                let ticket = cluster.schedule_keyed(format!("{name} {n}"), hour, "x".to_owned());
                let ticket = ticket.unwrap();
                if waits {
                    ticket.wait().unwrap();
                }
                ticket
            })
            .collect();
        wait_until("they are durable", || {
            tickets.iter().all(|ticket| ticket.try_get().is_some_and(|told| told.is_ok()))
        });
        // Each row has the number of the transaction that has made it.
        let count = "SELECT count(DISTINCT xmin::text) FROM records
            WHERE convert_from(key, 'UTF8') LIKE $1 || ' %'";
        scene.client.query_one(count, &[&name]).unwrap().get(0)
    };
    let (apart, together) = (transactions("apart", true), transactions("together", false));
    assert_eq!(apart, 300, "each that is waited for has its own");
    // One for each shard of this instance, and one for all shards of others, at most for each
    // moment in which this thread was held up.
    assert!(together < 100, "{together} transactions for 300 timers");
}

/// `TIMERS` is how many there are, of 100 bytes, without keys and with them.
#[test]
fn what_a_timer_takes_on_the_disk_of_the_server() {
    let Some(place) = Place::new() else { return };
    let timers: u64 = std::env::var("TIMERS").map_or(200, |text| text.parse().unwrap());
    let handler = |_: &Firing<'_, String>| Ok::<(), String>(());
    let builder = Cluster::builder(&place.url).schema(&place.schema).shards(1);
    let cluster: Cluster<String> = builder.start(handler).unwrap();
    wait_until("it has the shard", || cluster.shards().len() == 1);
    let mut client = place.client();
    let mut reader = place.client();
    let mut number = |sql: &str| -> i64 { reader.query_one(sql, &[]).unwrap().get(0) };
    let disk = "SELECT pg_total_relation_size('records')";
    let wal = "SELECT (pg_current_wal_insert_lsn() - '0/0')::bigint";
    for (what, keyed) in [("without keys", false), ("with keys of 8 bytes", true)] {
        let before = (number(disk), number(wal));
        let hour = cluster.now() + Duration::from_secs(3600);
        let tickets: Vec<Ticket> = (0..timers)
            .map(|n| {
                let payload = "x".repeat(100);
                let key = format!("{n:08}");
                let ticket = match keyed {
                    true => cluster.schedule_keyed(key, hour, payload),
                    false => cluster.schedule(hour, payload),
                };
                ticket.unwrap()
            })
            .collect();
        tickets.iter().for_each(|ticket| assert!(ticket.wait().is_ok()));
        let made = (number(disk), number(wal));
        let replies: Vec<_> = tickets.iter().map(|ticket| cluster.cancel(ticket.id())).collect();
        replies.iter().for_each(|reply| assert!(reply.wait().is_ok()));
        let per = |bytes: i64| bytes / timers.cast_signed();
        println!(
            "{what}: {} bytes on the disk, {} bytes of WAL to make one, {} to take it out",
            per(made.0 - before.0),
            per(made.1 - before.1),
            per(number(wal) - made.1),
        );
        client.batch_execute("VACUUM records").unwrap();
    }
}

/// A database that lets nobody in for a second, and has lost all who were.
fn lose_connections(admin: &mut Client, database: &str) {
    let allow = |is| format!("ALTER DATABASE {database} ALLOW_CONNECTIONS {is}");
    admin.batch_execute(&allow(false)).unwrap();
    let lose = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = $1";
    admin.query(lose, &[&database]).unwrap();
    thread::sleep(Duration::from_secs(1));
    admin.batch_execute(&allow(true)).unwrap();
}

/// Two instances, one shard, and 25 timers per second that are due at once. From a sixth of the
/// time to five of them a transaction stays open that has cancelled a timer of the shard; or there
/// is a second without connections, and a handler that runs all the time.
#[test]
fn how_late_timers_are_beside_a_transaction_that_stays_open_and_without_connections() {
    for trouble in ["no trouble", "a transaction that stays open", "a second without connections"] {
        let (Some(place), Some(admin)) = (Place::new(), Place::new()) else { return };
        let (place, mut admin) = (place.alone(), admin.client());
        let seconds = std::env::var("SECONDS_EACH").map_or(3, |text| text.parse().unwrap());
        let (sender, fired) = channel();
        let (end, ended) = channel::<()>();
        let ended = Arc::new(Mutex::new(ended));
        let start = || -> Cluster<String> {
            let (sender, ended) = (sender.clone(), ended.clone());
            let handler = move |firing: &Firing<'_, String>| {
                if firing.payload() == "long" {
                    // An error is the end.
                    let _ = ended.lock().unwrap().recv();
                    return Ok(());
                }
                let late = SystemTime::now().duration_since(firing.due()).unwrap_or_default();
                sender.send((firing.payload().clone(), late))
            };
            let builder = Cluster::builder(&place.url).schema(&place.schema).shards(1);
            builder.lease(Duration::from_secs(10)).start(handler).unwrap()
        };
        let clusters = [start(), start()];
        wait_until("one has the shard", || clusters.iter().any(|one| !one.shards().is_empty()));
        let cluster = &clusters[0];
        let hour = cluster.now() + Duration::from_secs(3600);
        cluster.schedule_keyed("k", hour, String::new()).unwrap().wait().unwrap();
        if trouble == "a second without connections" {
            cluster.schedule(cluster.now(), "long".to_owned()).unwrap().wait().unwrap();
        }
        let (timers, mut open, mut tickets) = (seconds * 25, None::<Client>, Vec::new());
        let begun = Instant::now();
        for n in 0..timers {
            thread::sleep(Duration::from_millis(n * 40).saturating_sub(begun.elapsed()));
            if n == timers / 6 && trouble == "a transaction that stays open" {
                let mut client = place.client();
                client.batch_execute("BEGIN; SELECT cancel('k')").unwrap();
                open = Some(client);
            }
            if n == timers / 6 && trouble == "a second without connections" {
                lose_connections(&mut admin, &place.schema);
            }
            if n == timers * 5 / 6
                && let Some(mut client) = open.take()
            {
                client.batch_execute("ROLLBACK").unwrap();
            }
            tickets.extend(cluster.schedule(cluster.now(), n.to_string()));
        }
        let acknowledged = tickets.iter().filter(|ticket| ticket.wait().is_ok()).count();
        let (mut latest, mut runs, mut distinct) = (Duration::ZERO, 0, BTreeSet::new());
        while distinct.len() < acknowledged {
            let (name, late) = fired.recv_timeout(LIMIT).expect("all of them fire");
            (latest, runs) = (latest.max(late), runs + 1);
            distinct.insert(name);
        }
        drop(end);
        println!(
            "{trouble}, {seconds} s: {acknowledged} of {timers} acknowledged, latest {} ms, \
                {} runs repeated",
            latest.as_millis(),
            runs - distinct.len(),
        );
    }
}
