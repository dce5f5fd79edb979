//! The tables of the README, as Markdown.

use std::collections::HashMap;
use std::fs;
use std::process::ExitCode;

use crate::names;
use crate::simulate::{Manner, Outcome, count};
use crate::timers::Contender;
use crate::workload::{Amount, Workload};

const CORES: [usize; 8] = [1, 2, 4, 8, 16, 32, 64, 128];

/// The time of a transfer: between cores that share a cache, in one socket, between sockets.
const TRANSFER_NS: [f64; 3] = [20.0, 60.0, 120.0];

/// All that was counted.
type Outcomes = HashMap<(usize, usize, usize), Outcome>;

/// What was measured: the lines of `measure`, by workload, contender and threads.
pub(crate) struct Base(HashMap<(String, String, usize), f64>);

fn manner(workload: Workload, cores: usize) -> Manner {
    // Seats and free memory settle down after some thousands of timers; a reset has nothing to
    // settle. Many cores need fewer operations each for as good a mean.
    let warm_up = match workload {
        Workload::Reset => 100,
        Workload::Own => 3_000,
        _ => (64_000 / cores).clamp(800, 4_000),
    };
    let ops = (16_000 / cores).clamp(200, 2_000);
    let amount = match workload {
        // Several bursts of each core.
        Workload::Bursts => Amount { warm_up: 6_000, ops: 4_000 },
        _ => Amount { warm_up, ops },
    };
    Manner { seed: 1, slice: 16, line: 64, amount, is_planted: false }
}

/// Counts one workload of all contenders, and prints where the transfers come from.
pub(crate) fn count_one(workload: &str, cores: &str) -> ExitCode {
    let named = Workload::ALL.into_iter().find(|it| it.name() == workload);
    let (Some(workload), Ok(cores)) = (named, cores.parse::<usize>()) else {
        eprintln!("one of {:?}, and a number", Workload::ALL.map(Workload::name));
        return ExitCode::FAILURE;
    };
    for contender in Contender::ALL.into_iter().filter(|it| workload.suits(*it)) {
        let mut manner = manner(workload, cores);
        let from = |name: &str, default: u64| {
            std::env::var(name).ok().and_then(|value| value.parse().ok()).unwrap_or(default)
        };
        manner.slice = from("SLICE", manner.slice);
        manner.seed = from("SEED", manner.seed);
        manner.line = from("LINE", manner.line as u64) as usize;
        let outcome = count(contender, workload, cores, manner);
        let per_op = |n: u64| n as f64 / outcome.ops as f64;
        println!(
            "{} {} {cores}: {:.3} transfers, {:.3} invalidations, {:.3} of the hottest line, \
             {:.3} of the queue, {:.1} accesses, {:.3} cold",
            workload.name(),
            contender.name(),
            outcome.transfers,
            outcome.invalidations,
            outcome.hottest,
            outcome.harness,
            per_op(outcome.counts.accesses),
            per_op(outcome.counts.cold),
        );
        for (name, tally) in names::by_name(&outcome.counts.sites).iter().take(14) {
            println!("    {:8.4}  {name}", per_op(tally.transfers()));
        }
        for line in outcome.counts.lines.iter().take(3) {
            let mut sites: Vec<_> = line.sites.iter().map(|(site, _)| names::name(site)).collect();
            sites.dedup();
            println!("    {:8.4}  a line: {}", per_op(line.transfers), sites.join(", "));
        }
    }
    ExitCode::SUCCESS
}

/// Counts everything.
pub(crate) fn run(base: &str) -> ExitCode {
    let Ok(text) = fs::read_to_string(base) else {
        eprintln!("{base} cannot be read");
        return ExitCode::FAILURE;
    };
    let base = Base::of(&text);
    let mut outcomes = Outcomes::new();
    for (w, workload) in Workload::ALL.into_iter().enumerate() {
        for (c, contender) in Contender::ALL.into_iter().enumerate() {
            for cores in CORES.into_iter().filter(|_| workload.suits(contender)) {
                let outcome = count(contender, workload, cores, manner(workload, cores));
                eprintln!(
                    "{}, {}, {cores}: {}",
                    workload.name(),
                    contender.name(),
                    outcome.transfers
                );
                outcomes.insert((w, c, cores), outcome);
            }
        }
    }
    transfers(&outcomes);
    lines(&outcomes);
    predictions(&outcomes, &base);
    validation(&outcomes, &base);
    ExitCode::SUCCESS
}

fn header(first: &str, columns: &[String]) {
    println!("| {first} | {} |", columns.join(" | "));
    println!("|---|{}", "---:|".repeat(columns.len()));
}

/// Each workload and contender, with its outcomes.
fn each(outcomes: &Outcomes, mut row: impl FnMut(Workload, Contender, &dyn Fn(usize) -> Outcome)) {
    for (w, workload) in Workload::ALL.into_iter().enumerate() {
        for (c, contender) in Contender::ALL.into_iter().enumerate() {
            if workload.suits(contender) {
                row(workload, contender, &|cores| outcomes[&(w, c, cores)].clone());
            }
        }
    }
}

fn transfers(outcomes: &Outcomes) {
    println!("### Transfers (and invalidations) per operation\n");
    header("workload, contender", &CORES.map(|cores| cores.to_string()));
    each(outcomes, |workload, contender, of| {
        let cells = CORES.map(|cores| {
            let outcome = of(cores);
            format!("{} ({})", short(outcome.transfers), short(outcome.invalidations))
        });
        println!("| {}, {} | {} |", workload.name(), contender.name(), cells.join(" | "));
    });
    println!();
}

fn lines(outcomes: &Outcomes) {
    println!("### Which variables carry them, on 64 cores\n");
    println!("| workload, contender | transfers per operation, by the variable that is accessed |");
    println!("|---|---|");
    each(outcomes, |workload, contender, of| {
        let outcome = of(64);
        let named = names::by_name(&outcome.counts.sites);
        let per_op = |n: u64| n as f64 / outcome.ops as f64;
        let cells: Vec<_> = named
            .iter()
            .filter(|(name, tally)| {
                !name.starts_with("queue:") && per_op(tally.transfers()) >= 0.005
            })
            .take(6)
            .map(|(name, tally)| format!("`{name}` {}", short(per_op(tally.transfers()))))
            .collect();
        let cells = if cells.is_empty() { "none".to_owned() } else { cells.join(", ") };
        println!("| {}, {} | {cells} |", workload.name(), contender.name());
    });
    println!();
}

fn predictions(outcomes: &Outcomes, base: &Base) {
    println!("### Predicted throughput, in millions of operations per second\n");
    let columns = [1, 8, 32, 128].map(|cores| format!("{cores} cores"));
    header("workload, contender (processor time of one thread)", &columns);
    each(outcomes, |workload, contender, of| {
        // Of what is fired, all of the work was measured where a thread fires its own.
        let measured = match workload {
            Workload::OwnInTime => Workload::Own,
            Workload::Fire if contender != Contender::Heap => Workload::FireOwn,
            other => other,
        };
        let Some(base_ns) = base.ns(measured, contender, 1) else { return };
        let cells = [1, 8, 32, 128].map(|cores| {
            let (outcome, setup) = (of(cores), workload.setup(cores, false));
            let threads = setup.workers + setup.reapers;
            TRANSFER_NS
                .map(|ns| short(predict(contender, threads, base_ns, &outcome, ns)))
                .join(" / ")
        });
        let (workload, contender) = (workload.name(), contender.name());
        println!("| {workload}, {contender} ({base_ns:.0} ns) | {} |", cells.join(" | "));
    });
    println!();
}

/// Millions of operations per second: the lesser of what the cores have time for, and of how often
/// the hottest line can change hands. What a heap does, it does under its lock, one core at a time.
fn predict(
    contender: Contender,
    cores: usize,
    base_ns: f64,
    of: &Outcome,
    transfer_ns: f64,
) -> f64 {
    let at_a_time = if contender == Contender::Heap { 1 } else { cores };
    let by_cores = at_a_time as f64 / (base_ns + of.transfers * transfer_ns);
    let by_line = 1.0 / (of.hottest * transfer_ns);
    by_cores.min(by_line) * 1e3
}

fn validation(outcomes: &Outcomes, base: &Base) {
    let Some(transfer_ns) = base.transfer_ns() else { return };
    println!(
        "### Predicted and measured: from one thread to two, a transfer takes {transfer_ns:.0} ns\n"
    );
    let columns = ["1 thread", "transfers", "2 threads, predicted", "2 threads, measured"];
    header("workload, contender: ns per operation", &columns.map(str::to_owned));
    each(outcomes, |workload, contender, of| {
        let ns = |threads| base.ns(workload, contender, threads);
        let (Some(one), Some(two)) = (ns(1), ns(2)) else { return };
        let outcome = of(2);
        // The queue is the program's, but its transfers take time as well.
        let transfers = outcome.transfers + outcome.harness;
        let predicted = one + transfers * transfer_ns;
        let (workload, contender) = (workload.name(), contender.name());
        println!(
            "| {workload}, {contender} | {one:.0} | {transfers:.2} | {predicted:.0} | {two:.0} |"
        );
    });
    println!();
}

/// Three digits, as far as they mean something.
fn short(value: f64) -> String {
    match value {
        0.0 => "0".to_owned(),
        value if value < 0.0005 => "<0.001".to_owned(),
        value if value < 0.995 => format!("{value:.3}"),
        value if value < 99.95 => format!("{value:.1}"),
        value => format!("{value:.0}"),
    }
}

// === impl Base ===

impl Base {
    fn of(text: &str) -> Base {
        let line = |line: &str| {
            let mut parts = line.split('\t');
            let mut part = || parts.next();
            let key = (part()?.to_owned(), part()?.to_owned(), part()?.parse().ok()?);
            Some((key, part()?.parse().ok()?))
        };
        Base(text.lines().filter_map(line).collect())
    }

    fn ns(&self, workload: Workload, contender: Contender, threads: usize) -> Option<f64> {
        self.0.get(&(workload.name().to_owned(), contender.name().to_owned(), threads)).copied()
    }

    fn transfer_ns(&self) -> Option<f64> {
        self.0.get(&("transfer".to_owned(), "-".to_owned(), 2)).copied()
    }
}
