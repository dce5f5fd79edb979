//! Runs and checks many histories, one seed each, and counts what occurred.
//!
//! The environment sets how many there are (`HISTORIES`) and the first seed (`SEED`, which is the
//! only one if `ONLY` is set: threads are not repeatable, but programs are).

use std::env;
use std::fmt::Debug;
use std::time::Instant;

use crate::checker::check;
use crate::history::{Model, Operation};
use crate::report::Report;
use crate::scenario::Scenario;

/// The number in a variable of the environment.
///
/// # Panics
/// It is no number, decimal or (after `0x`) hexadecimal.
pub fn number(name: &str, default: u64) -> u64 {
    let Ok(text) = env::var(name) else { return default };
    let number = match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16),
        None => text.parse(),
    };
    number.unwrap_or_else(|error| panic!("{name}={text}: {error}"))
}

/// Records `count` histories, checks each, and calls `look` with it.
///
/// # Panics
/// No order explains a history. The message has its seed and the operations.
pub fn run<M: Model>(
    name: &str,
    count: u64,
    record: impl Fn(&Scenario) -> Vec<Operation<M::Call>>,
    mut look: impl FnMut(&Scenario, &[Operation<M::Call>]),
) -> Report
where
    M::Call: Debug,
{
    let first = number("SEED", 0x5eed);
    let is_only = env::var_os("ONLY").is_some();
    let mut report = Report::default();
    let begin = Instant::now();
    for n in 0..count {
        let seed = if is_only { first } else { first.wrapping_add(n) };
        let scenario = Scenario::of(seed);
        let history = record(&scenario);
        if let Err(rejected) = check::<M>(&history) {
            let again = format!("ONLY=1 SEED={seed:#x} cargo test -p histories --test {name}");
            panic!("{scenario:?}\nthe same programs again: {again}\n{rejected}");
        }
        look(&scenario, &history);
        report.add::<M>(&history);
        if (n + 1) % 20_000 == 0 {
            let seconds = begin.elapsed().as_secs();
            eprintln!("{name}: {} of {count} histories, {seconds} s", n + 1);
        }
    }
    report
}
