//! The command line.

use std::ffi::OsString;
use std::fmt::Display;
use std::path::PathBuf;
use std::str::FromStr;

use clap::Parser;

use crate::error::BenchError;
use crate::registry::{self, Entry};
use crate::workload::Workload;

/// Measures tickless beside other timers, each workload written once for all.
///
/// Each measurement has a process of its own. Within a run the contenders take turns; the table
/// shows the median of the runs, the least and the most, and the ratio to tickless. Figures mean
/// something only from a build with --release (better: --profile bench, which has fat LTO) on a
/// quiet machine.
///
/// Exit status: 0 all well; 1 a measurement failed, or a contender did not do what it was asked
/// to; 2 bad arguments.
#[derive(Parser)]
#[command(name = "rivals", version)]
struct Arguments {
    #[command(flatten)]
    request: Request,
    /// Print the workloads, the contenders, and which can do which
    #[arg(long, exclusive = true)]
    list: bool,
    /// Draw figures from the file of --json, and measure nothing
    #[arg(long, conflicts_with = "workload_names")]
    plots: bool,
    /// Folder for the figures
    #[arg(long, value_name = "DIR", default_value = FOLDER)]
    out: PathBuf,
    /// Append a line of JSON per measurement; with --plots, the file to draw from [default:
    /// results.jsonl in the folder of the figures that are checked in]
    #[arg(short, long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Measure once, in this process
    #[arg(long, exclusive = true, hide = true)]
    measure_one: Option<String>,
}

/// What to measure.
#[derive(clap::Args)]
pub(crate) struct Request {
    /// One or several, separated by commas, or `all`
    #[arg(id = "workload_names", short, long = "workload", value_name = "NAMES",
        value_parser = workloads, required_unless_present_any = ["list", "plots", "measure_one"])]
    workload_names: Vec<List<Workload>>,
    /// One or several, separated by commas, or `all` that can do the workload
    #[arg(short, long = "contenders", value_name = "NAMES", value_parser = contenders,
        default_value = "all")]
    contender_names: Vec<List<&'static Entry>>,
    /// Threads that schedule; some workloads have a fixed number
    #[arg(short, long, value_name = "COUNTS", value_delimiter = ',', default_value = "1",
        value_parser = whole(1, 256_usize))]
    pub(crate) threads: Vec<usize>,
    /// How often to measure each contender
    #[arg(short, long, value_name = "N", default_value = "3", value_parser = whole(1, 1_000_usize))]
    pub(crate) runs: usize,
    /// Shrink counts and lengths of time: a number above 0 and at most 1
    #[arg(long, value_name = "X", default_value = "1", value_parser = scale)]
    pub(crate) scale: f64,
    /// The tick of contenders that have one to set, in microseconds (default for `single` and
    /// `precise`: 100); with another than the default, the others are left out
    #[arg(long, value_name = "N", default_value_t = registry::DEFAULT_TICK_US,
        value_parser = whole(1, 1_000_000_u64))]
    pub(crate) tick_us: u64,
    /// For `scale`: how many timers are pending [default: 1000,100000,1000000,10000000]
    #[arg(long, value_name = "COUNTS", value_delimiter = ',',
        value_parser = whole(1, 100_000_000_u64))]
    pub(crate) pending: Vec<u64>,
    /// For `purgatory-..`, `service` and `paced`: how many operations come per second, which for
    /// `service` may be 0: as many as can [default: 10000,50000,100000,500000,1000000; 0,1000000;
    /// 1000000]
    #[arg(long, value_name = "RATES", value_delimiter = ',',
        value_parser = whole(0, 100_000_000_u64))]
    pub(crate) rates: Vec<u64>,
    /// For `purgatory-..`: how many come
    #[arg(long, value_name = "N", default_value = "1000000",
        value_parser = whole(1, 100_000_000_u64))]
    pub(crate) operations: u64,
    /// Stop a measurement after so many seconds
    #[arg(long, value_name = "N", default_value = "300", value_parser = whole(1, 86_400_u64))]
    pub(crate) limit_s: u64,
}

/// The things that the names of one argument stand for.
#[derive(Clone)]
struct List<T>(Vec<T>);

/// What to do.
pub(crate) enum Task {
    /// Measure, and append to that file.
    Measure(Request, Option<PathBuf>),
    /// Draw figures.
    Plot { json: PathBuf, out: PathBuf },
    /// Say what there is.
    List,
    /// Measure once, in this process: only for this program itself.
    MeasureOne(String),
}

/// Where the figures that are checked in lie.
const FOLDER: &str = "benches/rivals/plots";

// === impl Task ===

impl Task {
    /// Reads the arguments, the program's name first. The error also stands for a wish for help.
    pub(crate) fn parse(words: impl IntoIterator<Item = OsString>) -> Result<Task, clap::Error> {
        let arguments = Arguments::try_parse_from(words)?;
        Ok(match arguments {
            Arguments { list: true, .. } => Task::List,
            Arguments { measure_one: Some(plan), .. } => Task::MeasureOne(plan),
            Arguments { plots: true, json, out, .. } => {
                let json = json.unwrap_or_else(|| PathBuf::from(FOLDER).join("results.jsonl"));
                Task::Plot { json, out }
            }
            Arguments { request, json, .. } => Task::Measure(request, json),
        })
    }
}

// === impl Request ===

impl Request {
    pub(crate) fn workloads(&self) -> Vec<Workload> {
        self.workload_names.iter().flat_map(|list| list.0.clone()).collect()
    }

    pub(crate) fn contenders(&self) -> Vec<&'static Entry> {
        self.contender_names.iter().flat_map(|list| list.0.clone()).collect()
    }
}

fn workloads(names: &str) -> Result<List<Workload>, BenchError> {
    let named = match names {
        "all" => Workload::ALL.to_vec(),
        names => names.split(',').map(Workload::named).collect::<Result<_, _>>()?,
    };
    Ok(List(named))
}

fn contenders(names: &str) -> Result<List<&'static Entry>, BenchError> {
    let named = match names {
        "all" => registry::ALL.iter().collect(),
        names => names.split(',').map(Entry::named).collect::<Result<Vec<_>, _>>()?.concat(),
    };
    Ok(List(named))
}

fn whole<N>(least: N, most: N) -> impl Fn(&str) -> Result<N, String> + Clone
where
    N: FromStr + PartialOrd + Display + Copy,
{
    move |text| {
        let number = text.parse().ok().filter(|number| (least..=most).contains(number));
        number.ok_or_else(|| format!("a whole number from {least} to {most} is wanted"))
    }
}

fn scale(text: &str) -> Result<f64, String> {
    let scale = text.parse().ok().filter(|scale| *scale > 0.0 && *scale <= 1.0);
    scale.ok_or_else(|| "a number above 0 and at most 1 is wanted".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;
    use std::iter;

    fn parse(line: &str) -> Result<Task, String> {
        let words = iter::once("rivals").chain(line.split_whitespace());
        Task::parse(words.map(OsString::from)).map_err(|error| error.to_string())
    }

    fn request(line: &str) -> Request {
        match parse(line) {
            Ok(Task::Measure(request, _)) => request,
            _ => panic!("{line}: not a measurement"),
        }
    }

    #[test]
    fn a_workload_alone_is_enough() {
        let request = request("--workload reset");
        assert_eq!(request.workloads(), [Workload::Reset]);
        assert_eq!(request.contenders().len(), registry::ALL.len());
        assert_eq!((request.threads, request.runs), (vec![1], 3));
        assert_eq!((request.scale, request.tick_us), (1.0, 1_000));
    }

    #[test]
    fn every_option_is_heard() {
        let line = "-w all -c tokio,floor -t 1,2 -r 5 --scale 0.25 --tick-us 100 \
                    --pending 10,20 --rates 30 --operations 40 --limit-s 9 -j a.jsonl";
        let request = request(line);
        assert_eq!(request.workloads(), Workload::ALL);
        let names: Vec<_> = request.contenders().iter().map(|entry| entry.name).collect();
        assert_eq!(names, ["tokio", "floor"]);
        assert_eq!((request.threads, request.runs), (vec![1, 2], 5));
        assert_eq!((request.scale, request.tick_us), (0.25, 100));
        assert_eq!((request.pending, request.rates), (vec![10, 20], vec![30]));
        assert_eq!((request.operations, request.limit_s), (40, 9));
        let Ok(Task::Measure(_, json)) = parse(line) else { panic!("not a measurement") };
        assert_eq!(json, Some("a.jsonl".into()));
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
        assert!(refused("").contains("--workload <NAMES>"));
        assert!(refused("--frobnicate").contains("--frobnicate"));
        assert!(refused("-w reset -t 1,x").contains("a whole number from 1 to 256"));
        assert!(refused("-w reset --runs 0").contains("a whole number from 1 to 1000"));
        assert!(refused("-w reset --scale 2").contains("above 0 and at most 1"));
        assert!(refused("-w reset --json").contains("--json"));
        let workload = refused("-w rest");
        assert!(workload.contains("`rest`") && workload.contains("cancel-heavy"), "{workload}");
        let contender = refused("-w reset -c tokyo");
        assert!(contender.contains("`tokyo`") && contender.contains("delay-queue"), "{contender}");
    }

    #[test]
    fn the_definition_holds() {
        Arguments::command().debug_assert();
    }
}
