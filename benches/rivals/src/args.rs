//! The command line: what may be asked for, and a clear answer when it is something else.

use std::ffi::OsString;
use std::path::PathBuf;
use std::str::FromStr;

use lexopt::prelude::*;

use crate::child;
use crate::error::BenchError;
use crate::registry::{self, Entry};
use crate::workload::Workload;

pub(crate) const HELP: &str = "\
Measures tickless beside other timers, each workload written once for all.

Usage: rivals --workload NAMES [OPTIONS]
       rivals --plots [--json FILE] [--out DIR]
       rivals --list

Each measurement has a process of its own. Within a run the contenders take
turns; the table shows the median of the runs, the least and the most, and the
ratio to tickless. Figures mean something only from a build with --release
(better: --profile bench, which has fat LTO) on a quiet machine.

What to measure:
  -w, --workload NAMES    one or several, separated by commas, or `all`
  -c, --contenders NAMES  likewise (default all that can do the workload)
  -t, --threads COUNTS    threads that schedule, such as 1,2 (default 1);
                          some workloads have a fixed number
  -r, --runs N            how often to measure each contender (default 3)
      --scale X           shrink counts and lengths of time, such as 0.01
                          (default 1; above 0, at most 1)
      --tick-us N         the tick of contenders that have one to set, in
                          microseconds (default 1000; `single` always has 100);
                          with another than the default, others are left out
      --pending COUNTS    for `scale`: how many timers are pending
                          (default 1000,100000,1000000,10000000)
      --rates RATES       for `purgatory-..`: how many operations come per second
                          (default 10000,50000,100000,500000,1000000)
      --operations N      for `purgatory-..`: how many come (default 1000000)
      --limit-s N         stop a measurement after so long (default 300)

What to do with it:
  -j, --json FILE         append a line of JSON per measurement; with --plots,
                          the file to draw from (default
                          benches/rivals/plots/results.jsonl)
      --plots             draw figures from such a file, measure nothing
      --out DIR           where to put them (default benches/rivals/plots)
      --list              the workloads, the contenders, and which can do which
  -h, --help              print this help

Exit status: 0 all well; 1 a measurement failed, or a contender did not do what
it was asked to; 2 bad arguments.
";

/// What to measure.
pub(crate) struct Request {
    pub(crate) workloads: Vec<Workload>,
    pub(crate) contenders: Vec<&'static Entry>,
    pub(crate) threads: Vec<usize>,
    pub(crate) runs: usize,
    pub(crate) scale: f64,
    pub(crate) tick_us: u64,
    pub(crate) pending: Vec<u64>,
    pub(crate) rates: Vec<u64>,
    pub(crate) operations: u64,
    pub(crate) limit_s: u64,
    pub(crate) json: Option<PathBuf>,
}

/// What to do.
pub(crate) enum Task {
    /// Measure.
    Measure(Request),
    /// Draw figures.
    Plot { json: PathBuf, out: PathBuf },
    /// Say what there is.
    List,
    /// Print the help text.
    Help,
    /// Measure once, in this process: only for this program itself.
    MeasureOne(String),
}

/// The options as they stand.
struct Raw {
    workloads: Option<String>,
    contenders: String,
    request: Request,
    out: Option<PathBuf>,
    is_plots: bool,
}

// === impl Task ===

impl Task {
    /// Reads the arguments, program name excluded.
    pub(crate) fn parse(args: impl IntoIterator<Item = OsString>) -> Result<Task, BenchError> {
        let mut raw = Raw::default();
        let mut parser = lexopt::Parser::from_args(args);
        while let Some(arg) = parser.next().map_err(usage)? {
            match arg {
                Long("list") => return Ok(Task::List),
                Long("help") | Short('h') => return Ok(Task::Help),
                Long(child::OPTION) => return Ok(Task::MeasureOne(text(&mut parser)?)),
                other => raw.take(&other_name(&other), &mut parser)?,
            }
        }
        raw.into_task()
    }
}

// === impl Raw ===

impl Raw {
    fn take(&mut self, option: &str, parser: &mut lexopt::Parser) -> Result<(), BenchError> {
        let request = &mut self.request;
        match option {
            "-w" | "--workload" => self.workloads = Some(text(parser)?),
            "-c" | "--contenders" => self.contenders = text(parser)?,
            "-t" | "--threads" => request.threads = numbers(option, &text(parser)?, 1, 256)?,
            "-r" | "--runs" => request.runs = number(option, &text(parser)?, 1, 1_000)?,
            "--scale" => request.scale = scale(&text(parser)?)?,
            "--tick-us" => request.tick_us = number(option, &text(parser)?, 1, 1_000_000)?,
            "--pending" => request.pending = numbers(option, &text(parser)?, 1, 100_000_000)?,
            "--rates" => request.rates = numbers(option, &text(parser)?, 1, 100_000_000)?,
            "--operations" => request.operations = number(option, &text(parser)?, 1, 100_000_000)?,
            "--limit-s" => request.limit_s = number(option, &text(parser)?, 1, 86_400)?,
            "-j" | "--json" => request.json = Some(text(parser)?.into()),
            "--out" => self.out = Some(text(parser)?.into()),
            "--plots" => self.is_plots = true,
            other => return Err(BenchError::Usage(format!("there is no `{other}`"))),
        }
        Ok(())
    }

    fn into_task(self) -> Result<Task, BenchError> {
        let Raw { workloads, contenders, mut request, out, is_plots } = self;
        if is_plots {
            let folder = PathBuf::from("benches/rivals/plots");
            let json = request.json.unwrap_or_else(|| folder.join("results.jsonl"));
            return Ok(Task::Plot { json, out: out.unwrap_or(folder) });
        }
        let Some(workloads) = workloads else {
            return Err(BenchError::Usage("which --workload?".to_owned()));
        };
        request.workloads = match workloads.as_str() {
            "all" => Workload::ALL.to_vec(),
            names => names.split(',').map(Workload::named).collect::<Result<_, _>>()?,
        };
        request.contenders = match contenders.as_str() {
            "all" => registry::ALL.iter().collect(),
            names => {
                let named: Result<Vec<_>, _> = names.split(',').map(Entry::named).collect();
                named?.concat()
            }
        };
        Ok(Task::Measure(request))
    }
}

impl Default for Raw {
    fn default() -> Raw {
        Raw {
            workloads: None,
            contenders: "all".to_owned(),
            request: Request {
                workloads: Vec::new(),
                contenders: Vec::new(),
                threads: vec![1],
                runs: 3,
                scale: 1.0,
                tick_us: registry::DEFAULT_TICK_US,
                pending: Vec::new(),
                rates: Vec::new(),
                operations: 1_000_000,
                limit_s: 300,
                json: None,
            },
            out: None,
            is_plots: false,
        }
    }
}

fn other_name(arg: &lexopt::Arg<'_>) -> String {
    match arg {
        Long(name) => format!("--{name}"),
        Short(letter) => format!("-{letter}"),
        Value(value) => value.to_string_lossy().into_owned(),
    }
}

fn text(parser: &mut lexopt::Parser) -> Result<String, BenchError> {
    parser.value().and_then(|value| value.string()).map_err(usage)
}

fn number<N>(option: &str, text: &str, least: N, most: N) -> Result<N, BenchError>
where
    N: FromStr + PartialOrd + std::fmt::Display,
{
    let number = text.parse().ok().filter(|n| (&least..=&most).contains(&n));
    number.ok_or_else(|| {
        let wanted = format!("{option} takes whole numbers from {least} to {most}, not `{text}`");
        BenchError::Usage(wanted)
    })
}

fn numbers<N>(option: &str, text: &str, least: N, most: N) -> Result<Vec<N>, BenchError>
where
    N: FromStr + PartialOrd + std::fmt::Display + Copy,
{
    text.split(',').map(|part| number(option, part, least, most)).collect()
}

fn scale(text: &str) -> Result<f64, BenchError> {
    let scale = text.parse().ok().filter(|scale| *scale > 0.0 && *scale <= 1.0);
    let wanted = || format!("--scale takes a number above 0 and at most 1, not `{text}`");
    scale.ok_or_else(|| BenchError::Usage(wanted()))
}

#[expect(clippy::needless_pass_by_value, reason = "the shape that map_err wants")]
fn usage(error: lexopt::Error) -> BenchError {
    BenchError::Usage(error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Task, String> {
        Task::parse(line.split_whitespace().map(OsString::from)).map_err(|e| e.to_string())
    }

    fn request(line: &str) -> Request {
        match parse(line) {
            Ok(Task::Measure(request)) => request,
            _ => panic!("{line}: not a measurement"),
        }
    }

    #[test]
    fn a_workload_alone_is_enough() {
        let request = request("--workload reset");
        assert_eq!(request.workloads, [Workload::Reset]);
        assert_eq!(request.contenders.len(), registry::ALL.len());
        assert_eq!((request.threads, request.runs), (vec![1], 3));
        assert_eq!((request.scale, request.tick_us), (1.0, 1_000));
    }

    #[test]
    fn every_option_is_heard() {
        let line = "-w all -c tokio,floor -t 1,2 -r 5 --scale 0.25 --tick-us 100 \
                    --pending 10,20 --rates 30 --operations 40 --limit-s 9 -j a.jsonl";
        let request = request(line);
        assert_eq!(request.workloads, Workload::ALL);
        let names: Vec<_> = request.contenders.iter().map(|entry| entry.name).collect();
        assert_eq!(names, ["tokio", "floor"]);
        assert_eq!((request.threads, request.runs), (vec![1, 2], 5));
        assert_eq!((request.scale, request.tick_us), (0.25, 100));
        assert_eq!((request.pending, request.rates), (vec![10, 20], vec![30]));
        assert_eq!((request.operations, request.limit_s), (40, 9));
        assert_eq!(request.json, Some("a.jsonl".into()));
    }

    #[test]
    fn figures_have_a_file_and_a_folder() {
        match parse("--plots --json a --out b") {
            Ok(Task::Plot { json, out }) => assert_eq!((json, out), ("a".into(), "b".into())),
            _ => panic!("not a plot"),
        }
    }

    #[test]
    fn what_makes_no_sense_is_refused_with_a_hint() {
        let refused = |line: &str| parse(line).err().unwrap_or_default();
        assert!(refused("").contains("which --workload?"));
        assert!(refused("--frobnicate").contains("there is no `--frobnicate`"));
        assert!(refused("-w reset -t 1,x").contains("whole numbers from 1 to 256, not `x`"));
        assert!(refused("-w reset --runs 0").contains("from 1 to 1000, not `0`"));
        assert!(refused("-w reset --scale 2").contains("at most 1, not `2`"));
        assert!(refused("-w reset --json").contains("--json"));
        let workload = refused("-w rest");
        assert!(workload.contains("`rest`") && workload.contains("cancel-heavy"), "{workload}");
        let contender = refused("-w reset -c tokyo");
        assert!(contender.contains("`tokyo`") && contender.contains("delay-queue"), "{contender}");
    }

    #[test]
    fn the_help_names_every_option() {
        for option in [
            "--workload",
            "--contenders",
            "--threads",
            "--runs",
            "--scale",
            "--tick-us",
            "--pending",
            "--rates",
            "--operations",
            "--limit-s",
            "--json",
            "--plots",
            "--out",
            "--list",
            "--help",
        ] {
            assert!(HELP.contains(option), "{option}");
        }
    }
}
