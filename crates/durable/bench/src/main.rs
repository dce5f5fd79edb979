//! Durable timers against others, on the same work: one command makes the table of `../PERF.md`.
//!
//! ```text
//! cargo run --release --manifest-path crates/durable/bench/Cargo.toml              # five rounds
//! cargo run --release --manifest-path crates/durable/bench/Cargo.toml -- 9         # nine
//! cargo run --release --manifest-path crates/durable/bench/Cargo.toml -- 1 quick   # a trial
//! ```
//!
//! Each contender runs in a process of its own, in turn, so that the disk and the load are much
//! the same for all. The medians of the rounds are printed.
//!
//! - *rate*: timers that are due in an hour, with 32 bytes each, until all of them are on the disk.
//! - *one*: the same, one after another, each waited for.
//! - *cycle*: a hundred per second for ten seconds, each due five seconds later: how late they
//!   are handled, and the processor time per timer, of the server as well if there is one.
//!
//! beanstalkd has to be installed (Debian has it), and is left out if it is not.

mod beanstalk;
mod durable;
mod polling;
mod work;

use std::collections::BTreeMap;
use std::error::Error;
use std::process::{Command, Stdio};

use work::{Result, Size, Told};

type Measure = fn(&Size) -> Result<Told>;

/// Their names, and what measures them.
const CONTENDERS: [(&str, Measure); 6] = [
    ("tickless-durable", durable::measure),
    ("apalis-sqlite, polled each second", polling::measure_each_second),
    ("apalis-sqlite, polled each 50 ms", polling::measure_quickly),
    ("apalis-sqlite without syncs", polling::measure_without_syncs),
    ("beanstalkd -f 0", beanstalk::measure_durable),
    ("beanstalkd as it comes", beanstalk::measure_as_it_comes),
];

fn main() -> std::result::Result<(), Box<dyn Error + Send + Sync>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words[..] {
        ["measure", name, size] => {
            let measure = CONTENDERS.iter().find(|(other, _)| *other == name);
            let (_, measure) = measure.ok_or("there is no such contender")?;
            let told = measure(&Size::named(size))?;
            println!("{}", serde_json::to_string(&told)?);
            Ok(())
        }
        [] => compare(5, "full"),
        [rounds] => compare(rounds.parse()?, "full"),
        [rounds, "quick"] => compare(rounds.parse()?, "quick"),
        _ => Err("give a number of rounds, and perhaps `quick`".into()),
    }
}

fn compare(rounds: usize, size: &str) -> Result<()> {
    let mut all: BTreeMap<usize, Vec<Told>> = BTreeMap::new();
    println!("load before: {}", load());
    for round in 1..=rounds {
        for (index, (name, _)) in CONTENDERS.iter().enumerate() {
            if name.starts_with("beanstalkd") && !beanstalk::is_there() {
                continue;
            }
            let mut command = Command::new(std::env::current_exe()?);
            let command = command.args(["measure", name, size]).stderr(Stdio::inherit());
            let output = command.output()?;
            if !output.status.success() {
                return Err(format!("{name} has failed").into());
            }
            let told: Told = serde_json::from_slice(&output.stdout)?;
            eprintln!("round {round}, load {}: {name}: {told:?}", load());
            all.entry(index).or_default().push(told);
        }
    }
    println!("load after: {}\n", load());
    println!(
        "| medians of {rounds} | durable timers/s | one, p50 | late, p50 | late, p99 | early | \
         earliest | CPU per timer |"
    );
    println!("|---|---|---|---|---|---|---|---|");
    for (index, told) in &all {
        let name = CONTENDERS[*index].0;
        println!(
            "| {name} | {:.0} | {:.2} ms | {:.1} ms | {:.1} ms | {:.0} | {:.0} ms | {:.0} us |",
            median(told, |told| told.rate),
            median(told, |told| told.one_ms),
            median(told, |told| told.late_p50_ms),
            median(told, |told| told.late_p99_ms),
            median(told, |told| told.early as f64),
            median(told, |told| told.earliest_ms),
            median(told, |told| told.cpu_us),
        );
    }
    Ok(())
}

fn median(told: &[Told], of: impl Fn(&Told) -> f64) -> f64 {
    let mut values: Vec<f64> = told.iter().map(of).collect();
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// How much else runs on this machine.
fn load() -> String {
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    load.split(' ').next().unwrap_or_default().to_owned()
}
