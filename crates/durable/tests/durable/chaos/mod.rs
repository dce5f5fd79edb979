//! Everything that can go wrong, at random, at the same time, on each store; and a ledger of what
//! was said, which is checked: nothing that was acknowledged is lost, nothing fires early, and no
//! timer is repeated without a word.
//!
//! `DURABLE_KILLS` is how many processes are killed on each store (12), `DURABLE_SEED` decides
//! which faults come when and where, and `DURABLE_STORES` names the stores. The last lines say what
//! came to pass:
//!
//! ```text
//! DURABLE_KILLS=10000 cargo test --release -p tickless-durable --features sqlite,postgres,nats \
//!     --test durable chaos:: -- --nocapture
//! ```
//!
//! A long run can be several, with seeds of their own, which can also run side by side.

#![cfg(unix)]

#[cfg(any(feature = "postgres", feature = "nats"))]
mod cluster;
mod files;
mod ledger;
#[cfg(feature = "nats")]
mod nats;
mod poison;
#[cfg(all(feature = "postgres", target_os = "linux", target_env = "gnu"))]
mod postgres;
#[cfg(all(feature = "postgres", target_os = "linux", target_env = "gnu"))]
mod versions;
mod worker;

use std::collections::BTreeMap;
use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;

use ledger::Ledger;

use crate::common;
use crate::common::random::Random;

/// A run on the store of that name; `None`, and a word about it, if there is no server.
type OnStore = (&'static str, Box<dyn FnOnce(Run) -> Option<String>>);

/// One run on one store.
struct Run {
    name: &'static str,
    random: Random,
    kills: u64,
    /// Where the ledger is, and what belongs to the store.
    directory: PathBuf,
    /// What was done to it, and how often.
    faults: BTreeMap<&'static str, u64>,
}

fn setting(name: &str, usual: u64) -> u64 {
    std::env::var(name).ok().and_then(|number| number.parse().ok()).unwrap_or(usual)
}

// === impl Run ===

impl Run {
    fn new(name: &'static str) -> Run {
        let random = Random(setting("DURABLE_SEED", 1));
        let kills = setting("DURABLE_KILLS", 12);
        let directory = tempfile::tempdir().unwrap().keep();
        Run { name, random, kills, directory, faults: BTreeMap::new() }
    }

    fn ledger(&self) -> PathBuf {
        self.directory.join("ledger")
    }

    fn count(&mut self, fault: &'static str) {
        *self.faults.entry(fault).or_default() += 1;
    }

    /// All faults in turn, each time in another order.
    fn shuffled<T: Clone>(&mut self, all: &[T]) -> Vec<T> {
        let mut all = all.to_vec();
        for last in (1..all.len()).rev() {
            all.swap(last, self.random.below(last as u64 + 1) as usize);
        }
        all
    }

    /// Checks what the ledger says, when nothing is pending any more.
    fn check(self) -> String {
        let ledger = Ledger::read(&fs::read_to_string(self.ledger()).unwrap());
        let complaints = ledger.complaints();
        let (name, place) = (self.name, self.directory.display());
        let sums = ledger.sums();
        let count = |what: &str| complaints.iter().filter(|text| text.contains(what)).count();
        let (lost, early) = (count("was lost"), count("was early"));
        let unflagged = count("without a word");
        let others = complaints.len() - lost - early - unflagged;
        let listed = |found: Vec<String>| found.join(", ");
        let faults = self.faults.iter().map(|(fault, count)| format!("{count} {fault}"));
        let told = ledger.failed.iter().map(|(kind, count)| format!("{count} {kind}"));
        let said = format!(
            "{name}: {} timers acked, {} cancelled, {} fired, {} of them repeated, {} dead \
             letters; {lost} lost, {early} early, {unflagged} repeats without a word, {others} \
             other complaints; {} undone by copies of an earlier time, {} repeated in a time that \
             came again\n    {}\n    told: {}",
            sums.acked,
            sums.cancelled,
            sums.fired,
            sums.repeated,
            sums.dead,
            sums.undone,
            sums.again,
            listed(faults.collect()),
            listed(told.collect()),
        );
        let shown = &complaints[..complaints.len().min(20)];
        assert!(complaints.is_empty(), "{said}\n{}\nsee {place}", shown.join("\n"));
        assert!(sums.acked > 0 && sums.fired > 0, "{said}");
        fs::remove_dir_all(self.directory).unwrap();
        said
    }
}

#[test]
fn child() {
    if let Some(role) = common::role() {
        worker::child(&role);
    }
}

/// Runs `in_file` on each embedded store, and the others on the servers that this build has: on
/// those that are asked for, each to its end also if one fails. Then says what came to pass.
fn on_all(what: &str, in_file: fn(Run, common::Open) -> String, on_servers: Vec<OnStore>) {
    if common::role().is_some() {
        return;
    }
    let files = common::stores()
        .into_iter()
        .map(|(name, open)| -> OnStore { (name, Box::new(move |run| Some(in_file(run, open)))) });
    let asked = std::env::var("DURABLE_STORES").unwrap_or("redb,sqlite,postgres,nats".to_owned());
    let is_asked = |(name, _): &OnStore| asked.split(',').any(|one| one == *name);
    let (mut said, mut failed) = (Vec::new(), Vec::new());
    for (name, run) in files.chain(on_servers).filter(is_asked) {
        match catch_unwind(AssertUnwindSafe(|| run(Run::new(name)))) {
            Ok(line) => said.extend(line),
            Err(_) => failed.push(name),
        }
    }
    println!("{what}, seed {}:\n{}", setting("DURABLE_SEED", 1), said.join("\n"));
    assert!(failed.is_empty(), "failed, as is said above: {failed:?}");
}

#[test]
fn nothing_that_was_acknowledged_is_lost_early_or_repeated_without_a_word() {
    let servers: Vec<OnStore> = vec![
        #[cfg(all(feature = "postgres", target_os = "linux", target_env = "gnu"))]
        ("postgres", Box::new(postgres::run)),
        #[cfg(feature = "nats")]
        ("nats", Box::new(nats::run)),
    ];
    on_all("chaos", files::run, servers);
}

/// Payloads that end the process, that are no text, and that are large.
#[test]
fn poisoned_timers_are_dead_letters_and_harm_no_other() {
    let servers: Vec<OnStore> = vec![
        #[cfg(all(feature = "postgres", target_os = "linux", target_env = "gnu"))]
        ("postgres", Box::new(poison::on_postgres)),
        #[cfg(feature = "nats")]
        ("nats", Box::new(poison::on_nats)),
    ];
    on_all("poison", poison::in_file, servers);
}
