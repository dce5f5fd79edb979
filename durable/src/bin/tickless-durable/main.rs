//! A command line for those who operate durable timers: what is pending, what is late, what died
//! and why, and how it runs again.
//!
//! *Tested by*: `durable/tests/cli.rs`.

mod file;
mod place;
#[cfg(any(feature = "postgres", feature = "nats"))]
mod servers;

use std::error::Error;
use std::process::ExitCode;
use std::time::{Duration, SystemTime};

use clap::{Args, Parser, Subcommand};
use serde_json::{Value, json};

use place::{Place, Row};

/// Looks at durable timers, and changes some. No timer fires because of this.
#[derive(Parser)]
#[command(version, about)]
struct Command {
    /// A file of redb's or SQLite's that no service has open, or the address of a server:
    /// postgres://user@host/database, nats://host
    place: String,
    /// The schema of a cluster.
    #[arg(long, default_value = "tickless", global = true)]
    schema: String,
    /// Writes JSON, one value in a line.
    #[arg(long, global = true)]
    json: bool,
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    /// Lists the timers in the order in which they are due; a cluster's shard by shard.
    Ls {
        /// How many at most.
        #[arg(long, default_value_t = 100)]
        limit: usize,
        /// Those that are due then or later.
        #[arg(long, value_parser = humantime::parse_rfc3339_weak)]
        from: Option<SystemTime>,
    },
    /// Shows a timer or a dead letter.
    Show { id: String },
    /// Counts timers and dead letters, and says how late the first timer is.
    Count,
    /// Lists the dead letters.
    Dead {
        /// How many at most.
        #[arg(long, default_value_t = 100)]
        limit: usize,
    },
    /// Makes timers of dead letters again: of one, or of all.
    Revive {
        #[arg(required_unless_present = "all")]
        id: Option<String>,
        #[arg(long, conflicts_with = "id")]
        all: bool,
        #[command(flatten)]
        when: When,
    },
    /// Throws a dead letter away.
    Forget { id: String },
    /// Cancels a timer by its number or by its key.
    Cancel {
        #[arg(required_unless_present = "key")]
        id: Option<String>,
        #[arg(long, conflicts_with = "id")]
        key: Option<String>,
    },
    /// Has a timer due at another time.
    Reschedule {
        id: String,
        #[command(flatten)]
        when: When,
    },
    /// Reads everything, and lists what cannot be read.
    Check,
    /// Prints the statements that make a cluster's tables in PostgreSQL.
    #[cfg(feature = "postgres")]
    Ddl {
        #[arg(long, default_value_t = 8)]
        shards: u32,
    },
}

/// When a timer is due: now, if nothing is said.
#[derive(Args)]
struct When {
    /// A time, such as 2026-11-26T20:00:00Z.
    #[arg(long, value_parser = humantime::parse_rfc3339_weak)]
    at: Option<SystemTime>,
    /// A time from now on, such as 90s or 2h.
    #[arg(long = "in", conflicts_with = "at", value_parser = humantime::parse_duration)]
    after: Option<Duration>,
}

impl When {
    fn time(&self) -> SystemTime {
        let now = SystemTime::now();
        self.at.unwrap_or_else(|| now + self.after.unwrap_or_default())
    }
}

fn main() -> ExitCode {
    match run(&Command::parse()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(error) => {
            eprintln!("tickless-durable: {error}");
            let mut cause = error.source();
            while let Some(error) = cause {
                eprintln!("  because: {error}");
                cause = error.source();
            }
            ExitCode::from(2)
        }
    }
}

/// Whether what was asked for was there.
fn run(command: &Command) -> Result<bool, Box<dyn Error>> {
    #[cfg(feature = "postgres")]
    if let What::Ddl { shards } = command.what {
        print!("{}", tickless_durable::cluster::ddl(&command.schema, shards));
        return Ok(true);
    }
    let mut place = place::open(&command.place, &command.schema)?;
    let place = &mut *place;
    match &command.what {
        What::Ls { limit, from } => {
            place.list(*from, *limit)?.iter().for_each(|row| command.print_row(row));
            Ok(true)
        }
        What::Dead { limit } => {
            place.dead(*limit)?.iter().for_each(|row| command.print_row(row));
            Ok(true)
        }
        What::Show { id } => {
            let found = match place.get(id)? {
                Some(row) => Some(row),
                None => place.dead(usize::MAX)?.into_iter().find(|row| row.id == *id),
            };
            found.iter().for_each(|row| command.print_whole(row));
            Ok(found.is_some())
        }
        What::Count => {
            for count in place.count()? {
                command.print(&count.json(), &count.to_string());
            }
            Ok(true)
        }
        What::Revive { id, when, .. } => {
            let at = when.time();
            let ids = match id {
                Some(id) => vec![id.clone()],
                None => place.dead(usize::MAX)?.into_iter().map(|row| row.id).collect(),
            };
            let mut all = true;
            for id in ids {
                all &= command.tell(&id, "revived", place.revive(&id, at)?);
            }
            Ok(all)
        }
        What::Forget { id } => Ok(command.tell(id, "forgotten", place.forget(id)?)),
        What::Cancel { id: Some(id), .. } => Ok(command.tell(id, "cancelled", place.cancel(id)?)),
        What::Cancel { key, .. } => {
            let key = key.as_deref().unwrap_or_default();
            Ok(command.tell(key, "cancelled", place.cancel_key(key)?))
        }
        What::Reschedule { id, when } => {
            Ok(command.tell(id, "rescheduled", place.reschedule(id, when.time())?))
        }
        What::Check => check(command, place),
        #[cfg(feature = "postgres")]
        What::Ddl { .. } => Ok(true),
    }
}

fn check(command: &Command, place: &mut dyn Place) -> Result<bool, Box<dyn Error>> {
    let unreadable = place.unreadable()?;
    unreadable.iter().for_each(|row| command.print_row(row));
    let counted = place.count()?;
    let timers: u64 = counted.iter().map(|count| count.contents.timers).sum();
    let dead: u64 = counted.iter().map(|count| count.contents.dead_letters).sum();
    let count = unreadable.len();
    let text = format!("{timers} timers, {count} of which cannot be read, and {dead} dead letters");
    command.print(&json!({"timers": timers, "unreadable": count, "dead_letters": dead}), &text);
    Ok(unreadable.is_empty())
}

// === impl Command ===

impl Command {
    fn print(&self, json: &Value, text: &str) {
        if self.json { println!("{json}") } else { println!("{text}") }
    }

    fn print_row(&self, row: &Row) {
        self.print(&row.json(), &row.line());
    }

    fn print_whole(&self, row: &Row) {
        self.print(&row.json(), &row.paragraph());
    }

    fn tell(&self, what: &str, done: &str, was_there: bool) -> bool {
        let text = if was_there { done } else { "not found" };
        self.print(&json!({ "what": what, done: was_there }), &format!("{what} {text}"));
        was_there
    }
}
