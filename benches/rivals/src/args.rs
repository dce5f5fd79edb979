//! The command line.

use std::ffi::OsString;
use std::fmt::Display;
use std::path::PathBuf;
use std::str::FromStr;

use clap::Parser;

use crate::error::BenchError;
use crate::kind::Workload;
use crate::perf::{self, Effort, Extent, Part, Places};
use crate::registry::{self, Entry};

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
    /// Measure what the documents show, keep it, and draw tables and plots anew: the core of it,
    /// or what --only or --all say
    #[arg(long, conflicts_with = "workload_names")]
    perf: bool,
    /// With --perf: these parts
    #[arg(long, value_name = "PARTS", value_delimiter = ',', requires = "perf",
        value_parser = part)]
    only: Vec<&'static Part>,
    /// With --perf: also the parts that take long, but not those that need 16 processors
    #[arg(long, requires = "perf", conflicts_with = "only")]
    all: bool,
    /// Draw the tables and plots from what is kept, and measure nothing
    #[arg(long, conflicts_with_all = ["workload_names", "perf"])]
    redraw: bool,
    /// Fail if a table, a figure in the text or a plot is not what is kept gives
    #[arg(long, conflicts_with_all = ["workload_names", "perf", "redraw"])]
    check: bool,
    /// Folder for the plots
    #[arg(long, value_name = "DIR", default_value = FOLDER)]
    out: PathBuf,
    /// Documents with tables and figures
    #[arg(
        long,
        value_name = "FILES",
        value_delimiter = ',',
        default_value = "PERF.md,README.md,benches/RESULTS.md"
    )]
    documents: Vec<PathBuf>,
    /// Append a line of JSON per measurement; with --perf, --redraw and --check, the file of what
    /// is kept [default: benches/rivals/perf.json]
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
        value_parser = workloads,
        required_unless_present_any = ["list", "perf", "redraw", "check", "measure_one"])]
    workload_names: Vec<List<Workload>>,
    /// One or several, separated by commas, or `all` that can do the workload
    #[arg(short, long = "contenders", value_name = "NAMES", value_parser = contenders,
        default_value = "all")]
    contender_names: Vec<List<&'static Entry>>,
    /// Threads that schedule; some workloads have a fixed number
    #[arg(short, long, value_name = "COUNTS", value_delimiter = ',', default_value = "1",
        value_parser = whole(1, 256_usize))]
    pub(crate) threads: Vec<usize>,
    /// How often to measure each contender [default: 3, with --perf 5]
    #[arg(short, long, value_name = "N", value_parser = whole(1, 1_000_usize))]
    runs: Option<usize>,
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
    /// Measure what stands in the documents.
    Perf(Extent, Places),
    /// Draw what is kept.
    Redraw(Places),
    /// Check that it is drawn.
    Check(Places),
    /// Say what there is.
    List,
    /// Measure once, in this process: only for this program itself.
    MeasureOne(String),
}

/// Where the plots that are checked in lie, and what is kept of the measurements.
const FOLDER: &str = "benches/rivals/plots";
const PAGES: &str = "docs";
const KEPT: &str = "benches/rivals/perf.json";

// === impl Task ===

impl Task {
    /// Reads the arguments, the program's name first. The error also stands for a wish for help.
    pub(crate) fn parse(words: impl IntoIterator<Item = OsString>) -> Result<Task, clap::Error> {
        let arguments = Arguments::try_parse_from(words)?;
        Ok(match arguments {
            Arguments { list: true, .. } => Task::List,
            Arguments { measure_one: Some(plan), .. } => Task::MeasureOne(plan),
            Arguments { perf, redraw, check, .. } if perf || redraw || check => {
                let extent = arguments.extent();
                let places = Places {
                    json: arguments.json.unwrap_or_else(|| KEPT.into()),
                    plots: arguments.out,
                    pages: PAGES.into(),
                    documents: arguments.documents,
                };
                match (perf, redraw) {
                    (true, _) => Task::Perf(extent, places),
                    (_, true) => Task::Redraw(places),
                    _ => Task::Check(places),
                }
            }
            Arguments { request, json, .. } => Task::Measure(request, json),
        })
    }
}

// === impl Arguments ===

impl Arguments {
    fn extent(&self) -> Extent {
        let parts = match &*self.only {
            [] => perf::PARTS.iter().filter(|part| part.is_usual(self.all)).collect(),
            only => only.to_vec(),
        };
        Extent {
            parts,
            effort: Effort {
                runs: self.request.runs.unwrap_or(perf::RUNS),
                scale: self.request.scale,
                limit_s: self.request.limit_s,
            },
        }
    }
}

// === impl Request ===

impl Request {
    pub(crate) fn runs(&self) -> usize {
        self.runs.unwrap_or(3)
    }

    pub(crate) fn workloads(&self) -> Vec<Workload> {
        self.workload_names.iter().flat_map(|list| list.0.clone()).collect()
    }

    pub(crate) fn contenders(&self) -> Vec<&'static Entry> {
        self.contender_names.iter().flat_map(|list| list.0.clone()).collect()
    }
}

fn part(name: &str) -> Result<&'static Part, BenchError> {
    Part::named(name)
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
        assert_eq!((request.threads.clone(), request.runs()), (vec![1], 3));
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
        assert_eq!((request.threads.clone(), request.runs()), (vec![1, 2], 5));
        assert_eq!((request.scale, request.tick_us), (0.25, 100));
        assert_eq!((request.pending, request.rates), (vec![10, 20], vec![30]));
        assert_eq!((request.operations, request.limit_s), (40, 9));
        let Ok(Task::Measure(_, json)) = parse(line) else { panic!("not a measurement") };
        assert_eq!(json, Some("a.jsonl".into()));
    }

    #[test]
    fn what_is_kept_has_a_file_a_folder_and_documents() {
        match parse("--redraw --json a --out b --documents c,d") {
            Ok(Task::Redraw(places)) => {
                assert_eq!((places.json, places.plots), ("a".into(), "b".into()));
                assert_eq!(places.documents, [PathBuf::from("c"), "d".into()]);
            }
            _ => panic!("no drawing"),
        }
        assert!(matches!(parse("--check"), Ok(Task::Check(places)) if places.json == *KEPT));
    }

    #[test]
    fn the_core_is_measured_or_all_or_some() {
        let extent = |line| match parse(line) {
            Ok(Task::Perf(extent, _)) => extent,
            _ => panic!("{line}: not measured"),
        };
        let (core, all) = (extent("--perf"), extent("--perf --all --runs 7 --scale 0.5"));
        let of = |extent: &Extent| (extent.effort.runs, extent.effort.scale);
        assert_eq!((of(&core), of(&all)), ((5, 1.0), (7, 0.5)));
        assert!(core.parts.len() < all.parts.len());
        let names: Vec<_> =
            extent("--perf --only reset,http-open").parts.iter().map(|part| part.name).collect();
        assert_eq!(names, ["reset", "http-open"]);
        for refused in ["--only reset", "--perf -w reset", "--perf --only rest", "--check --redraw"]
        {
            assert!(parse(refused).is_err(), "{refused}");
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
