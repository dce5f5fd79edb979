//! The command line: what may be asked for, and a clear answer when it is something else.

use std::ffi::OsString;
use std::ops::RangeInclusive;
use std::str::FromStr;

use lexopt::prelude::*;

/// An hour: long enough for a soak, short enough that a slip of the finger is noticed.
const SECONDS: RangeInclusive<u64> = 1..=3_600;

/// A connection takes two descriptors and one local port; loopback has about 28,000 ports.
const CONNECTIONS: RangeInclusive<usize> = 1..=10_000;

pub(crate) const HELP: &str = "\
A TCP server and its clients in one process, every time-out of which is a timer
of one tickless engine, and an audit of the fate of each of them.

Usage: service [OPTIONS]

Options:
      --seconds N       how long to issue requests, 1 to 3600 (default 10)
      --connections N   how many connections to keep open, 1 to 10000 (default 2000)
      --json            print the report as one line of JSON
  -h, --help            print this help

Exit status: 0 all well; 1 the audit found a violation; 2 bad arguments;
3 the program could not run (too few file descriptors, a socket error).
";

/// What the user asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Args {
    pub(crate) seconds: u64,
    pub(crate) connections: usize,
    pub(crate) json: bool,
}

/// Either a run or a request for the help text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Command {
    Run(Args),
    Help,
}

impl Command {
    /// Reads the arguments, program name excluded. The error is one line for the user.
    pub(crate) fn parse(raw: impl IntoIterator<Item = OsString>) -> Result<Command, String> {
        let mut args = Args { seconds: 10, connections: 2_000, json: false };
        let mut parser = lexopt::Parser::from_args(raw);
        while let Some(arg) = parser.next().map_err(|e| e.to_string())? {
            match arg {
                Long("seconds") => args.seconds = number("--seconds", &mut parser, &SECONDS)?,
                Long("connections") => {
                    args.connections = number("--connections", &mut parser, &CONNECTIONS)?;
                }
                Long("json") => args.json = true,
                Long("help") | Short('h') => return Ok(Command::Help),
                other => return Err(other.unexpected().to_string()),
            }
        }
        Ok(Command::Run(args))
    }
}

fn number<N>(
    option: &str,
    parser: &mut lexopt::Parser,
    bounds: &RangeInclusive<N>,
) -> Result<N, String>
where
    N: FromStr + PartialOrd + std::fmt::Display,
{
    let value = parser.value().map_err(|e| e.to_string())?;
    let wanted = || {
        let (least, most) = (bounds.start(), bounds.end());
        format!("{option} takes a whole number from {least} to {most}, not {value:?}")
    };
    let number = value.to_str().and_then(|text| text.parse().ok()).ok_or_else(wanted)?;
    if bounds.contains(&number) { Ok(number) } else { Err(wanted()) }
}
