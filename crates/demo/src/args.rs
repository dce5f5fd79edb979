//! The command line: its options, and one line for the user where it does not fit them.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::error::ErrorKind;
use clap::{Arg, ArgAction, ArgMatches, value_parser};

const AFTER_HELP: &str = "\
Exit status: 0 all well; 1 the audit found a violation; 2 bad arguments;
3 the program could not run (too few file descriptors, a socket error).";

/// What the user asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Args {
    pub(crate) seconds: u64,
    pub(crate) connections: usize,
    /// Idle timers beside the load.
    pub(crate) timers: u64,
    pub(crate) engine: EngineName,
    /// Run on each engine in turn.
    pub(crate) compare: bool,
    /// Where to write the page.
    pub(crate) report: Option<PathBuf>,
    pub(crate) json: bool,
}

/// Whose timers the service uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EngineName {
    Tickless,
    Tokio,
}

/// Either a run or a text to show.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Command {
    Run(Args),
    /// Help or the version.
    Show(String),
}

impl Command {
    /// Reads the arguments, program name included. The error is one line for the user.
    pub(crate) fn parse(raw: impl IntoIterator<Item = OsString>) -> Result<Command, String> {
        match command().try_get_matches_from(raw) {
            Ok(matches) => Ok(Command::Run(Args::of(&matches))),
            Err(error) => match error.kind() {
                ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => {
                    Ok(Command::Show(error.to_string()))
                }
                _ => {
                    let text = error.to_string();
                    let line = text.lines().next().unwrap_or_default();
                    Err(line.strip_prefix("error: ").unwrap_or(line).to_owned())
                }
            },
        }
    }
}

impl Args {
    fn of(matches: &ArgMatches) -> Args {
        let number = |name: &str| *matches.get_one::<u64>(name).expect("it has a default");
        let engine = matches.get_one::<String>("engine").map(String::as_str);
        Args {
            seconds: number("seconds"),
            connections: number("connections") as usize,
            timers: number("timers"),
            engine: if engine == Some("tokio") { EngineName::Tokio } else { EngineName::Tickless },
            compare: matches.get_flag("compare"),
            report: matches.get_one::<PathBuf>("report").cloned(),
            json: matches.get_flag("json"),
        }
    }
}

fn command() -> clap::Command {
    clap::Command::new("tickless-demo")
        .version(env!("CARGO_PKG_VERSION"))
        .about(
            "A TCP server and its clients in one process, every time-out of which is a timer of\n\
             one tickless engine, and an audit of what becomes of each of them.",
        )
        .after_help(AFTER_HELP)
        .args([
            // An hour: long enough for a soak, short enough that a slip of the finger is noticed.
            number("seconds", "10", 1..=3_600, "How long to issue requests"),
            // A connection takes two descriptors and one local port; loopback has about 28,000.
            number("connections", "2000", 1..=10_000, "How many connections to keep open"),
            // The last count takes some gigabytes.
            number("timers", "0", 0..=20_000_000, "How many idle timers to keep beside the load"),
            Arg::new("engine")
                .long("engine")
                .value_name("NAME")
                .value_parser(["tickless", "tokio"])
                .default_value("tickless")
                .help("Whose timers to use"),
            flag("compare", "Run on tickless and then on tokio, and print a table of both")
                .conflicts_with("engine"),
            Arg::new("report")
                .long("report")
                .value_name("FILE")
                .value_parser(value_parser!(PathBuf))
                .help("Write the report with plots to this file, as one page of HTML"),
            flag("json", "Print the report as a line of JSON for each run, and nothing else"),
        ])
}

fn number(
    name: &'static str,
    default: &'static str,
    bounds: std::ops::RangeInclusive<u64>,
    about: &str,
) -> Arg {
    let about = format!("{about}, {} to {}", bounds.start(), bounds.end());
    Arg::new(name)
        .long(name)
        .value_name("N")
        .default_value(default)
        .value_parser(value_parser!(u64).range(bounds))
        .help(about)
        // `-1` is a value that is refused, not an option.
        .allow_negative_numbers(true)
}

fn flag(name: &'static str, about: &'static str) -> Arg {
    Arg::new(name).long(name).action(ArgAction::SetTrue).help(about)
}
