//! The parts that are measured, and how.

use std::process::{Command, Stdio};

use indicatif::{ProgressBar, ProgressStyle};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use super::matrix::{Effort, Matrix};
use crate::child;
use crate::error::BenchError;
use crate::host;
use crate::kind::Workload;
use crate::record::Record;

/// What is measured in one go, contenders in turn.
#[derive(Debug)]
pub(crate) struct Part {
    pub(crate) name: &'static str,
    class: Class,
    load: Load,
}

/// When a part is measured without being named.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Class {
    /// Always.
    Core,
    /// If all are asked for: it takes long.
    Long,
    /// Never: it needs a machine with many processors.
    Cores,
}

/// Who measures.
#[derive(Debug)]
enum Load {
    /// This program.
    Here(Matrix),
    /// Another one.
    Outside(Outside),
}

/// A program that lies beside this one and prints a record: with these words, for each number of
/// workers with each of the timers in turn.
#[derive(Debug)]
struct Outside {
    /// Its name, and that of its package.
    program: &'static str,
    words: &'static [&'static str],
    workers: &'static [usize],
    timers: &'static [&'static str],
}

/// How often each contender is measured, unless said otherwise.
pub(crate) const RUNS: usize = 5;

const ENGINES: &[&str] = &[
    "tickless",
    "tickless-typed",
    "floor-tsc",
    "floor",
    "tokio",
    "tokio-threads",
    "tokio-alt",
    "tokio-alt-threads",
    "delay-queue",
    "hhwt",
    "pingora",
    "async-io",
    "mutex-btreemap",
    "mutex-heap",
    "heap-timerfd",
];
const USUAL: &[&str] = &[
    "tickless",
    "tickless-typed",
    "floor-tsc",
    "tokio",
    "tokio-threads",
    "tokio-alt",
    "tokio-alt-threads",
    "delay-queue",
    "mutex-heap",
];
const THAT_FIRE: &[&str] = &[
    "tickless",
    "tickless-typed",
    "floor-calendar",
    "tokio",
    "tokio-threads",
    "tokio-alt",
    "tokio-alt-threads",
    "delay-queue",
    "pingora",
    "async-io",
    "mutex-heap",
];
const SERVERS: &[&str] =
    &["tickless", "tokio", "tokio-threads", "tokio-alt", "tokio-alt-threads", "mutex-heap"];
const STEADY: &[&str] = &["tickless", "floor-calendar", "tokio", "tokio-alt", "mutex-heap"];
const LOCKED: &[&str] = &["tokio", "tokio-threads", "mutex-heap"];
const PAIR: &[&str] = &[
    "tickless",
    "floor-tsc",
    "tokio",
    "tokio-threads",
    "tokio-alt",
    "tokio-alt-threads",
    "mutex-heap",
];
const UP_TO_16: &[usize] = &[1, 2, 4, 8, 16];
const ALONE: &[&str] = &["tickless", "tokio", "tokio-alt", "mutex-heap"];
const PENDING: &[&str] = &["tickless", "tokio", "tokio-alt", "delay-queue", "mutex-heap"];
const PRECISE: &[&str] =
    &["tickless", "tickless-precise", "tickless-spinning", "tokio", "tokio-alt", "async-io"];
/// Timers in tasks of a runtime.
const IN_TASKS: &[&str] = &["none", "tickless", "tickless-drive", "tokio", "tokio-alt"];
/// Connections that are held for a second each: as many requests as get their answer, and so many.
const HELD: &[&str] = &["--connections=32000", "--delay-ms=1000", "--seconds=10", "--load=closed"];
const HELD_OPEN: &[&str] =
    &["--connections=32000", "--delay-ms=1000", "--seconds=10", "--load=open", "--rate=25000"];
/// Without *none*, which waits for nothing.
const THAT_WAIT: &[&str] = &["tickless", "tickless-drive", "tokio", "tokio-alt"];
const WHEELS: &[&str] = &["tickless-wheel", "hhwt-quad", "nexus-timer", "delay-queue", "btreemap"];
const PURGATORIES: &[&str] = &["tickless-purgatory", "mutex-purge", "purgatory-floor"];

/// All there are, in the order in which they are measured.
pub(crate) const ALL: &[Part] = &[
    Part::core("cancel-heavy", Matrix::of(Workload::CancelHeavy, ENGINES).on(&[1, 2])),
    Part::core("reset", Matrix::of(Workload::Reset, USUAL).on(&[1, 2])),
    Part::core("reset-earlier", Matrix::of(Workload::ResetEarlier, USUAL).on(&[1, 2])),
    Part::core("handoff", Matrix::of(Workload::Handoff, USUAL)),
    Part::core("service", Matrix::of(Workload::Service, SERVERS).on(&[1, 2, 4]).vary(&[0])),
    Part::core("fire-all", Matrix::of(Workload::FireAll, THAT_FIRE)),
    Part::core("fire-all-100us", Matrix::of(Workload::FireAll, THAT_FIRE).tick(100)),
    Part::core("steady", Matrix::of(Workload::Steady, STEADY)),
    Part::core_of(
        "http-closed",
        Outside::of("http-bench", &["--load", "closed"]).on(&[1, 2]).with(IN_TASKS),
    ),
    Part::core_of(
        "http-open",
        Outside::of("http-bench", &["--load", "open"]).on(&[1]).with(IN_TASKS),
    ),
    Part::core_of(
        "async-timeout",
        Outside::of_tasks(&["--record", "--workload", "timeout"]).on(&[1, 2]),
    ),
    Part::core_of("async-idle", Outside::of_tasks(&["--record", "--workload", "idle"]).on(&[1, 2])),
    Part::core_of(
        "async-short",
        Outside::of_tasks(&["--record", "--workload", "short"]).on(&[1, 2]),
    ),
    Part::core_of("async-lone", Outside::of_tasks(&["--record", "--workload", "lone"]).on(&[1])),
    Part::core("single", Matrix::of(Workload::Single, ALONE)),
    Part::long("wakeups", Matrix::of(Workload::Wakeups, PENDING).vary(&[0])),
    Part::long("scale", Matrix::of(Workload::Scale, USUAL)),
    Part::long("burst", Matrix::of(Workload::Burst, THAT_FIRE)),
    Part::long("precise", Matrix::of(Workload::Precise, PRECISE)),
    Part::long("stall", Matrix::of(Workload::Stall, PENDING)),
    Part::long("idle", Matrix::of(Workload::Idle, PENDING)),
    Part::long("paced", Matrix::of(Workload::Paced, USUAL).on(&[1, 2])),
    Part::long("wheel", Matrix::of(Workload::Wheel, WHEELS)),
    Part::long("purgatory-short", Matrix::of(Workload::PurgatoryShort, PURGATORIES).pinned()),
    Part::long("purgatory-long", Matrix::of(Workload::PurgatoryLong, PURGATORIES).pinned()),
    Part::cores("cores-pair", Matrix::of(Workload::CancelHeavy, PAIR).on(UP_TO_16).once(LOCKED)),
    Part::cores("cores-reset", Matrix::of(Workload::Reset, PAIR).on(UP_TO_16).once(LOCKED)),
    Part::cores(
        "cores-service",
        Matrix::of(Workload::Service, SERVERS).on(UP_TO_16).vary(&[0]).once(LOCKED),
    ),
    Part::cores("cores-fire-all", Matrix::of(Workload::FireAll, SERVERS).on(&[1, 4, 16])),
    Part::cores("cores-stall", Matrix::of(Workload::Stall, ALONE)),
    Part::cores("cores-single", Matrix::of(Workload::Single, ALONE)),
    Part::cores_of(
        "cores-http",
        Outside::of("http-bench", &["--load", "closed", "--connections", "1024"])
            .on(&[1, 2, 4, 8])
            .with(IN_TASKS),
    ),
    Part::cores_of("cores-http-delay", Outside::of("http-bench", HELD).on(&[8]).with(THAT_WAIT)),
    Part::cores_of(
        "cores-http-delay-open",
        Outside::of("http-bench", HELD_OPEN).on(&[8]).with(THAT_WAIT),
    ),
    Part::cores_of(
        "cores-timeout",
        Outside::of_tasks(&["--record", "--workload", "timeout"]).on(UP_TO_16),
    ),
    Part::cores_of(
        "cores-idle",
        Outside::of_tasks(&["--record", "--workload", "idle"]).on(UP_TO_16),
    ),
    Part::cores_of(
        "cores-short",
        Outside::of_tasks(&["--record", "--workload", "short"]).on(UP_TO_16),
    ),
];

// === impl Part ===

impl Part {
    const fn core(name: &'static str, matrix: Matrix) -> Part {
        Part { name, class: Class::Core, load: Load::Here(matrix) }
    }

    const fn core_of(name: &'static str, outside: Outside) -> Part {
        Part { name, class: Class::Core, load: Load::Outside(outside) }
    }

    const fn long(name: &'static str, matrix: Matrix) -> Part {
        Part { name, class: Class::Long, load: Load::Here(matrix) }
    }

    const fn cores(name: &'static str, matrix: Matrix) -> Part {
        Part { name, class: Class::Cores, load: Load::Here(matrix) }
    }

    const fn cores_of(name: &'static str, outside: Outside) -> Part {
        Part { name, class: Class::Cores, load: Load::Outside(outside) }
    }

    /// That this build has every contender. What other programs have, they say themselves.
    pub(super) fn is_in_build(&self) -> Result<(), BenchError> {
        match &self.load {
            Load::Here(matrix) => matrix.is_in_build(),
            Load::Outside(_) => Ok(()),
        }
    }

    /// Whether it is measured without being named, as one of the core or of all.
    pub(crate) fn is_usual(&self, all: bool) -> bool {
        self.class == Class::Core || (all && self.class == Class::Long)
    }

    /// The part of that name.
    pub(crate) fn named(name: &str) -> Result<&'static Part, BenchError> {
        ALL.iter().find(|part| part.name == name).ok_or_else(|| {
            let known: Vec<_> = ALL.iter().map(|part| part.name).collect();
            BenchError::Usage(format!(
                "no part is called `{name}`; there are: {}",
                known.join(", ")
            ))
        })
    }

    /// Measures it: all runs, and how many failed.
    pub(super) fn measure(&self, effort: &Effort) -> Result<(Vec<Record>, usize), BenchError> {
        match &self.load {
            Load::Here(matrix) => {
                let plans = matrix.plans(effort)?;
                let _pin = matrix.is_pinned.then(Pin::to_first).transpose()?;
                Ok(in_turn(self.name, &plans, child::measure_elsewhere))
            }
            Load::Outside(outside) => {
                let turns = outside.turns(effort.runs);
                Ok(in_turn(self.name, &turns, |turn| outside.measure(turn, effort)))
            }
        }
    }
}

/// Measures one after the other, and notes the load of the machine before each. One that fails is
/// told and tried once more. Returns what came out, and how many did not.
fn in_turn<T>(
    name: &'static str,
    turns: &[T],
    measure: impl Fn(&T) -> Result<Record, BenchError>,
) -> (Vec<Record>, usize) {
    let style = ProgressStyle::with_template("{bar:30} {pos}/{len} {msg}").expect("a template");
    let bar = ProgressBar::new(turns.len() as u64).with_style(style).with_message(name);
    let mut records = Vec::new();
    let mut failures = 0;
    for turn in turns {
        let load = host::load();
        let tell = |error: BenchError| bar.suspend(|| eprintln!("rivals: {name}: {error}"));
        let measured = measure(turn).or_else(|error| {
            tell(error);
            measure(turn)
        });
        match measured {
            Ok(mut record) => {
                record.extra.insert("load_before".to_owned(), load.into());
                records.push(record);
            }
            Err(error) => {
                tell(error);
                failures += 1;
            }
        }
        bar.inc(1);
    }
    bar.finish_and_clear();
    (records, failures)
}

// === impl Outside ===

impl Outside {
    const fn of(program: &'static str, words: &'static [&'static str]) -> Outside {
        Outside { program, words, workers: &[1], timers: &[] }
    }

    const fn of_tasks(words: &'static [&'static str]) -> Outside {
        Outside::of("async-scale", words).with(IN_TASKS)
    }

    const fn on(self, workers: &'static [usize]) -> Outside {
        Outside { workers, ..self }
    }

    const fn with(self, timers: &'static [&'static str]) -> Outside {
        Outside { timers, ..self }
    }

    /// Every measurement: workers and timers.
    fn turns(&self, runs: usize) -> Vec<(usize, &'static str)> {
        let with_each = |&workers: &usize| self.timers.iter().map(move |&timers| (workers, timers));
        let of_all = |workers| with_each(workers).collect::<Vec<_>>().repeat(runs);
        self.workers.iter().flat_map(of_all).collect()
    }

    /// Has the program measure once.
    fn measure(
        &self,
        &(workers, timers): &(usize, &str),
        effort: &Effort,
    ) -> Result<Record, BenchError> {
        let program = self.program;
        let what = format!("{program} with {timers} on {workers}");
        let failed = |cause: String| BenchError::Child { what: what.clone(), cause };
        let this = std::env::current_exe().map_err(|error| failed(error.to_string()))?;
        let path = this.with_file_name(program);
        if !path.exists() {
            return Err(failed(format!("there is no {}: see benches/measure.sh", path.display())));
        }
        let output = Command::new(path)
            .args(self.words)
            .args(["--workers", &workers.to_string(), "--timers", timers])
            .args(["--scale", &effort.scale.to_string()])
            .stdin(Stdio::null())
            .output()
            .map_err(|error| failed(error.to_string()))?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr);
            return Err(failed(format!("{}: {}", output.status, said.trim())));
        }
        serde_json::from_slice(&output.stdout).map_err(|error| failed(error.to_string()))
    }
}

/// Keeps this process and those that it starts on the first processor that it may use.
struct Pin(CpuSet);

// === impl Pin ===

impl Pin {
    fn to_first() -> Result<Pin, BenchError> {
        let failed = |error| BenchError::Usage(format!("not pinned to a processor: {error}"));
        let before = sched_getaffinity(None).map_err(failed)?;
        let mut first = CpuSet::new();
        first.set((0..CpuSet::MAX_CPU).find(|&cpu| before.is_set(cpu)).unwrap_or(0));
        sched_setaffinity(None, &first).map_err(failed)?;
        Ok(Pin(before))
    }
}

impl Drop for Pin {
    fn drop(&mut self) {
        // It was allowed before.
        let _ = sched_setaffinity(None, &self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_part_has_a_name_of_its_own_and_contenders_that_can_do_it() {
        let mut names: Vec<_> = ALL.iter().map(|part| part.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), ALL.len());
        let effort = Effort { runs: 1, scale: 0.5, limit_s: 9 };
        for part in ALL {
            let count = match &part.load {
                Load::Here(matrix) => matrix.plans(&effort).unwrap().len(),
                Load::Outside(outside) => outside.turns(effort.runs).len(),
            };
            assert!(count > 1, "{}", part.name);
        }
        assert!(Part::named("rest").unwrap_err().to_string().contains("cancel-heavy"));
    }

    #[test]
    fn what_needs_many_processors_is_measured_if_it_is_named() {
        let usual = |all| ALL.iter().filter(|part| part.is_usual(all)).count();
        assert!(0 < usual(false) && usual(false) < usual(true) && usual(true) < ALL.len());
    }

    #[test]
    fn timers_take_turns_within_a_number_of_workers() {
        let outside = Outside::of("x", &[]).on(&[1, 2]).with(&["a", "b"]);
        let turns =
            [(1, "a"), (1, "b"), (1, "a"), (1, "b"), (2, "a"), (2, "b"), (2, "a"), (2, "b")];
        assert_eq!(outside.turns(2), turns);
    }

    #[test]
    fn what_fails_is_tried_once_more_and_then_left_out() {
        let tries = std::cell::Cell::new(0);
        let (records, failures) = in_turn("x", &[0, 1, 5], |&bad| {
            tries.set(tries.get() + 1);
            if tries.get() > bad + 1 {
                let text = r#"{"contender": "a", "workload": "b", "threads": 1, "n": 1,
                    "ns_per_op": 1.0, "cpu_ns_per_op": 1.0, "extra": {}}"#;
                return Ok(serde_json::from_str(text).unwrap());
            }
            Err(BenchError::Failures(1))
        });
        assert_eq!((records.len(), failures, tries.get()), (2, 1, 5));
        assert!(records.iter().all(|record| record.number("load_before").is_some()));
    }

    #[test]
    fn a_pin_holds_until_it_is_dropped() {
        let before = sched_getaffinity(None).unwrap();
        let pin = Pin::to_first().unwrap();
        assert_eq!(sched_getaffinity(None).unwrap().count(), 1);
        drop(pin);
        assert_eq!(sched_getaffinity(None).unwrap().count(), before.count());
    }
}
