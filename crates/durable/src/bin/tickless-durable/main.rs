//! A command line for those who operate durable timers: what is pending, what is late, what died
//! and why, and how it runs again.
//!
//! *Tested by*: `tests/durable/cli.rs`.

mod file;
#[cfg(any(feature = "postgres", feature = "nats"))]
mod login;
mod page;
mod place;
mod salvage;
#[cfg(any(feature = "postgres", feature = "nats"))]
mod servers;

use std::error::Error;
use std::io::{self, IsTerminal, Write};
use std::net::SocketAddr;
use std::panic;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::thread;
use std::time::{Duration, SystemTime};

use clap::{Args, Parser, Subcommand};
use serde_json::{Value, json};

use place::{Answer, Place, Row, Which};
use salvage::Salvaged;
use tickless_durable::{Key, Position};

/// Looks at durable timers, and changes some. It fires no timer itself.
#[derive(Parser)]
#[command(version)]
struct Command {
    /// A file of redb's or SQLite's, or the address of a server: postgres://user@host/database,
    /// nats://host. A file of SQLite's can be looked at while a service has it open; otherwise, no
    /// service may have the file open
    place: String,
    /// The schema of a cluster.
    #[arg(long, default_value = "tickless", global = true)]
    schema: String,
    /// A file with credentials for NATS; otherwise, the one that NATS_CREDS names.
    #[arg(long, global = true)]
    credentials: Option<String>,
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
        /// Those that are due by now, by this machine's clock. A cluster goes by its server's.
        #[arg(long)]
        late: bool,
    },
    /// Shows a timer or a dead letter.
    Show {
        /// As `ls` and `dead` show it.
        id: String,
    },
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
        /// As `dead` shows it.
        #[arg(required_unless_present = "all")]
        id: Option<String>,
        /// All dead letters.
        #[arg(long, conflicts_with = "id")]
        all: bool,
        #[command(flatten)]
        when: When,
    },
    /// Throws dead letters away: one, all, or those whose last attempts were due long ago.
    Forget {
        /// As `dead` shows it.
        #[arg(required_unless_present_any = ["all", "older_than"])]
        id: Option<String>,
        /// All dead letters.
        #[arg(long, conflicts_with_all = ["id", "older_than"])]
        all: bool,
        /// Those whose last attempts were due longer ago than this, such as 30d.
        #[arg(long, conflicts_with = "id", value_parser = humantime::parse_duration)]
        older_than: Option<Duration>,
    },
    /// Cancels a timer by its number or by its key.
    Cancel {
        /// As `ls` shows it.
        #[arg(required_unless_present = "key")]
        id: Option<String>,
        /// The timer's key, instead of its number.
        #[arg(long, conflicts_with = "id")]
        key: Option<String>,
    },
    /// Pauses timers whose keys begin like that, on all instances of a cluster, until `resume`.
    /// Of a file, no service may have it open.
    Pause {
        /// The beginning of the keys, such as mail/.
        #[arg(required_unless_present = "all")]
        prefix: Option<String>,
        /// All timers, those without keys among them.
        #[arg(long, conflicts_with = "prefix")]
        all: bool,
    },
    /// Ends a pause: what is due fires.
    Resume {
        /// As it was paused.
        #[arg(required_unless_present = "all")]
        prefix: Option<String>,
        /// The pause of all timers.
        #[arg(long, conflicts_with = "prefix")]
        all: bool,
    },
    /// Lists what is paused.
    Pauses,
    /// Has a timer due at another time.
    Reschedule {
        id: String,
        #[command(flatten)]
        when: When,
    },
    /// Reads everything, and lists the timers of a file that cannot be read. Anything else that
    /// cannot be read is an error.
    Check,
    /// Reads out of a damaged file what can be read, and lists the rest. No service may have the
    /// file open.
    Salvage {
        /// A new file, for what can be read.
        #[arg(long)]
        to: PathBuf,
    },
    /// Makes of a store that an earlier version has written one of this version, which the earlier
    /// one does not use any more. Nothing may use it meanwhile: of a cluster, no instance may run.
    Migrate,
    /// Counts again and again, until it is ended.
    Watch {
        /// How long it waits in between.
        #[arg(long, default_value = "2s", value_parser = humantime::parse_duration)]
        every: Duration,
        /// How often it counts, if not for ever.
        #[arg(long)]
        times: Option<u64>,
    },
    /// Serves a page for browsers of this machine, until it is ended: what is pending, late, dead
    /// and paused, and who holds which shard. The address that it prints ends with a token: who has
    /// it sees everything.
    Page {
        /// A loopback address.
        #[arg(long, default_value = "127.0.0.1:0")]
        listen: SocketAddr,
        /// Dead letters can be revived and forgotten there, and timers paused.
        #[arg(long)]
        allow_changes: bool,
    },
    /// Prints the statements that make a cluster's tables in PostgreSQL.
    #[cfg(feature = "postgres")]
    Ddl {
        /// How many shards a new cluster has.
        #[arg(long, default_value_t = 8)]
        shards: u32,
    },
}

impl What {
    fn writes(&self) -> bool {
        use What::{Check, Count, Dead, Ls, Page, Pauses, Show, Watch};
        let reads = matches!(self, Ls { .. } | Show { .. } | Count | Dead { .. } | Pauses);
        !reads && !matches!(self, Check | Page { .. } | Watch { .. })
    }
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
    fn time(&self) -> Result<SystemTime, &'static str> {
        let after = self.after.unwrap_or_default();
        let time = self.at.or_else(|| SystemTime::now().checked_add(after));
        time.ok_or("that is too far away for a time")
    }
}

fn main() -> ExitCode {
    match run(Command::parse()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(error) if is_read_no_more(&*error) => ExitCode::from(2),
        Err(error) => {
            eprintln!("tickless-durable: {error}");
            let mut cause = error.source();
            while let Some(error) = cause {
                eprintln!("  because: {error}");
                if error.to_string().starts_with("invalid peer certificate") {
                    eprintln!("  PGSSLROOTCERT can name a file with the certificate of its issuer");
                }
                cause = error.source();
            }
            ExitCode::from(2)
        }
    }
}

/// Whether who reads what is printed has seen enough: `head`, for example.
fn is_read_no_more(error: &(dyn Error + 'static)) -> bool {
    let error = error.downcast_ref::<io::Error>();
    error.is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
}

/// Opens the place that a command names, and brings it up to this version if that is asked for.
fn open(command: &Command) -> Answer<Box<dyn Place>> {
    let migrate = matches!(command.what, What::Migrate);
    let (name, schema) = (&*command.place, &*command.schema);
    let is_nats = name.starts_with("nats://") || name.starts_with("tls://");
    if command.credentials.is_some() && !is_nats {
        return Err("--credentials is for servers of NATS: leave it out".into());
    }
    #[cfg(any(feature = "postgres", feature = "nats"))]
    let at = |builder: tickless_durable::cluster::Builder| -> Answer<servers::Servers> {
        Ok(servers::Servers(builder.schema(schema).migrate(migrate).observe()?))
    };
    if name.starts_with("postgres://") || name.starts_with("postgresql://") {
        #[cfg(feature = "postgres")]
        return Ok(Box::new(at(login::database(name)?)?));
        #[cfg(not(feature = "postgres"))]
        return Err("this program was built without the feature postgres".into());
    }
    if is_nats {
        #[cfg(feature = "nats")]
        {
            let builder = login::nats(name, command.credentials.as_deref())?;
            return Ok(Box::new(at(builder)?));
        }
        #[cfg(not(feature = "nats"))]
        return Err("this program was built without the feature nats".into());
    }
    let _ = schema;
    Ok(Box::new(file::File::open(name, command.what.writes(), migrate)?))
}

/// Whether what was asked for was there.
fn run(command: Command) -> Result<bool, Box<dyn Error>> {
    if let What::Page { listen, allow_changes } = command.what {
        return page(command, listen, allow_changes);
    }
    let command = &command;
    #[cfg(feature = "postgres")]
    if let What::Ddl { shards } = command.what {
        let ddl = tickless_durable::cluster::ddl(&command.schema, shards);
        command.print(&json!({ "ddl": ddl }), ddl.trim_end())?;
        return Ok(true);
    }
    if let What::Salvage { to } = &command.what {
        return salvage(command, to);
    }
    let mut place = open(command)?;
    let place = &mut *place;
    match &command.what {
        What::Ls { limit, from, late } => {
            let before = late.then(SystemTime::now);
            command.print_rows(&place.list(*from, before, *limit)?, place)
        }
        What::Dead { limit } => command.print_rows(&place.dead(*limit)?, place),
        What::Show { id } => {
            let found = place.find(id)?;
            place.let_go();
            found.iter().try_for_each(|row| command.print_whole(row))?;
            Ok(found.is_some())
        }
        What::Count => {
            let counts = place.count()?;
            place.let_go();
            for count in counts {
                command.print(&count.json(), &count.to_string())?;
            }
            Ok(true)
        }
        What::Revive { id, when, .. } => {
            let which = id.as_deref().map_or(Which::All, Which::Id);
            let told = place.revive(&which, when.time()?)?;
            command.tell_all(&which, "revived", &told)
        }
        What::Forget { id, older_than, .. } => {
            let which = Which::new(id.as_deref(), *older_than);
            let told = place.forget(&which)?;
            command.tell_all(&which, "forgotten", &told)
        }
        What::Cancel { id: Some(id), .. } => command.tell(id, "cancelled", place.cancel(id)?),
        What::Cancel { key, .. } => {
            let key = key.as_deref().unwrap_or_default();
            command.tell(key, "cancelled", place.cancel_key(key)?)
        }
        What::Reschedule { id, when } => {
            command.tell(id, "rescheduled", place.reschedule(id, when.time()?)?)
        }
        What::Pause { prefix, .. } => command.set_pause(place, prefix.as_deref(), true),
        What::Resume { prefix, .. } => command.set_pause(place, prefix.as_deref(), false),
        What::Pauses => command.tell_pauses(&place.pauses()?),
        What::Check => check(command, place),
        What::Watch { every, times } => watch(command, place, *every, *times),
        What::Migrate => {
            let text = format!("{} is of this version", command.shown_place());
            command.print(&json!({ "migrated": true }), &text)?;
            Ok(true)
        }
        // These three were run above.
        What::Salvage { .. } | What::Page { .. } => Ok(true),
        #[cfg(feature = "postgres")]
        What::Ddl { .. } => Ok(true),
    }
}

fn page(command: Command, listen: SocketAddr, may_change: bool) -> Result<bool, Box<dyn Error>> {
    // What cannot be opened is told before anything is served.
    let place = open(&command)?;
    let (name, as_json) = (command.shown_place(), command.json);
    let again = move || -> Answer<Box<dyn Place>> {
        match !command.place.contains("://") {
            true => Ok(Box::new(file::File::later(&command.place)?)),
            false => open(&command),
        }
    };
    page::serve((place, Box::new(again)), name, listen, may_change, |address, token| {
        let mut out = io::stdout();
        if as_json {
            writeln!(out, "{}", json!({ "address": address, "token": token }))?;
        } else {
            writeln!(out, "open {address}#{token}")?;
        }
        Ok(out.flush()?)
    })
}

fn check(command: &Command, place: &mut dyn Place) -> Result<bool, Box<dyn Error>> {
    let (unreadable, counted) = (place.unreadable()?, place.count()?);
    place.let_go();
    unreadable.iter().try_for_each(|row| command.print_row(row))?;
    let timers: u64 = counted.iter().map(|count| count.contents.timers).sum();
    let dead: u64 = counted.iter().map(|count| count.contents.dead_letters).sum();
    let count = unreadable.len();
    let text = format!("{timers} timers, {count} of which cannot be read, and {dead} dead letters");
    command.print(&json!({"timers": timers, "unreadable": count, "dead_letters": dead}), &text)?;
    Ok(unreadable.is_empty())
}

fn salvage(command: &Command, to: &Path) -> Result<bool, Box<dyn Error>> {
    // Pages that make redb panic are told below.
    panic::set_hook(Box::new(|_| ()));
    let salvaged = salvage::salvage(Path::new(&command.place), to)?;
    let rows = salvaged.unreadable.iter().chain(&salvaged.replaced);
    rows.into_iter().try_for_each(|row| command.print_row(row))?;
    for (after, up_to) in &salvaged.gaps {
        let time = |at: &Position| Duration::from_millis(at.due_ms.min(place::LAST_MS));
        let due = |at| place::rfc3339(SystemTime::UNIX_EPOCH + time(at));
        let is_end = *up_to == Position::LAST;
        let up_to = if is_end { "the end".to_owned() } else { due(up_to) };
        let text = format!("what is due from {} to {up_to} cannot be read", due(after));
        command.print(&json!({"gap_from": due(after), "gap_to": up_to}), &text)?;
    }
    let Salvaged { timers, dead_letters, .. } = salvaged;
    let (unreadable, gaps) = (salvaged.unreadable.len(), salvaged.gaps.len());
    let replaced = salvaged.replaced.len();
    let missing = salvaged.missing.map_or("an unknown number".to_owned(), |n| n.to_string());
    let text = format!(
        "{timers} timers and {dead_letters} dead letters, {unreadable} of which cannot be read, \
         are in {}; {replaced} are not, because others have their keys, and {missing} of the \
         damaged file are missing",
        to.display()
    );
    let json = json!({
        "timers": timers, "dead_letters": dead_letters, "unreadable": unreadable, "gaps": gaps,
        "replaced": replaced, "missing": salvaged.missing,
    });
    command.print(&json, &text)?;
    Ok(salvaged.is_all())
}

fn watch(
    command: &Command,
    place: &mut dyn Place,
    every: Duration,
    times: Option<u64>,
) -> Result<bool, Box<dyn Error>> {
    let clear = if io::stdout().is_terminal() { "\x1b[2J\x1b[H" } else { "" };
    for round in 1.. {
        let counts = place.count()?;
        place.let_go();
        let now = place::rfc3339(SystemTime::now());
        if !command.json {
            writeln!(io::stdout(), "{clear}{now}")?;
        }
        for count in counts {
            command.print(&count.json(), &count.to_string())?;
        }
        if times == Some(round) {
            break;
        }
        thread::sleep(every);
    }
    Ok(true)
}

// === impl Command ===

impl Command {
    /// The place, without a password.
    fn shown_place(&self) -> String {
        let Some((scheme, rest)) = self.place.split_once("://") else { return self.place.clone() };
        let (login, host) = rest.rsplit_once('@').unwrap_or(("", rest));
        let host = host.split('?').next().unwrap_or(host);
        match login.split_once(':').map_or(login, |(user, _)| user) {
            "" => format!("{scheme}://{host}"),
            user => format!("{scheme}://{user}@{host}"),
        }
    }

    fn print(&self, json: &Value, text: &str) -> io::Result<()> {
        let mut out = io::stdout();
        if self.json { writeln!(out, "{json}") } else { writeln!(out, "{text}") }
    }

    fn print_row(&self, row: &Row) -> io::Result<()> {
        self.print(&row.json(), &row.line())
    }

    /// Who reads them may take any time.
    fn print_rows(&self, rows: &[Row], place: &mut dyn Place) -> Result<bool, Box<dyn Error>> {
        place.let_go();
        rows.iter().try_for_each(|row| self.print_row(row))?;
        Ok(true)
    }

    fn print_whole(&self, row: &Row) -> io::Result<()> {
        self.print(&row.json(), &row.paragraph())
    }

    /// What became of the dead letters that a command was about. One that is named has to be there.
    fn tell_all(
        &self,
        which: &Which<'_>,
        done: &str,
        told: &[(String, bool)],
    ) -> Result<bool, Box<dyn Error>> {
        if let (Which::Id(id), []) = (which, told) {
            return self.tell(id, done, false);
        }
        told.iter()
            .try_fold(true, |all, (id, was_there)| Ok(self.tell(id, done, *was_there)? && all))
    }

    fn set_pause(
        &self,
        place: &mut dyn Place,
        prefix: Option<&str>,
        is_paused: bool,
    ) -> Result<bool, Box<dyn Error>> {
        let prefix = prefix.unwrap_or_default();
        let is_new = place.set_pause(prefix, is_paused)?;
        let done = if is_paused { "paused" } else { "resumed" };
        let what = if prefix.is_empty() { "all timers" } else { prefix };
        let already = if is_new { "" } else { " already" };
        self.print(&json!({ "prefix": prefix, done: is_new }), &format!("{what} {done}{already}"))?;
        Ok(true)
    }

    fn tell_pauses(&self, pauses: &[Key]) -> Result<bool, Box<dyn Error>> {
        for prefix in pauses.iter().map(|prefix| place::shown(prefix)) {
            let text = if prefix.is_empty() { "all timers" } else { &prefix };
            self.print(&json!({ "prefix": prefix }), text)?;
        }
        Ok(true)
    }

    fn tell(&self, what: &str, done: &str, was_there: bool) -> Result<bool, Box<dyn Error>> {
        let text = if was_there { done } else { "not found" };
        self.print(&json!({ "what": what, done: was_there }), &format!("{what} {text}"))?;
        Ok(was_there)
    }
}
