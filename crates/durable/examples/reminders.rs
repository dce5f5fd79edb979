//! A hundred thousand reminders survive a kill.
//!
//! ```text
//! cargo run --release -p tickless-durable --example reminders
//! ```
//!
//! A child process schedules reminders in a temporary directory, and is killed when half of them
//! have been sent. A second child opens the same store and sends the rest. This process then checks
//! that each reminder was sent, and none before its time. "Sending" is a line in a file.
//!
//! `--json` prints the report as JSON, `--reminders N` sets how many there are. The report says how
//! many were sent twice: those whose end was not durable yet when the process was killed. A sender
//! that must not do that remembers their numbers, as [`Firing::id`] says.

use std::collections::HashMap;
use std::env;
use std::error::Error;
use std::fs::{self, File, OpenOptions};
use std::io::{BufRead, BufReader, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use tickless_durable::{Durable, Firing, RedbStore, ScheduleError, ScheduleReason, Ticket};

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// How long after the first one is scheduled the first one is due.
const LEAD: Duration = Duration::from_secs(2);

/// Over which time the reminders are due.
const SPAN: Duration = Duration::from_secs(6);

/// After which time without progress a child hangs.
const PATIENCE: Duration = Duration::from_secs(60);

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let outcome = match words[..] {
        ["--help" | "-h"] => {
            println!("reminders [--reminders N] [--json]");
            Ok(true)
        }
        ["child", place, reminders, schedules] => {
            let count = reminders.parse().expect("it comes from the parent");
            child(Path::new(place), count, schedules == "schedule").map(|()| true)
        }
        _ => Options::parse(&words).and_then(|options| parent(&options)),
    };
    match outcome {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("reminders: {error}");
            ExitCode::from(2)
        }
    }
}

// === the child ===

/// Schedules the reminders or goes on with those that are in the store, until it is killed or all
/// are over.
fn child(place: &Path, reminders: u64, schedules: bool) -> Result<()> {
    let sent = OpenOptions::new().create(true).append(true).open(place.join("sent"))?;
    let store = RedbStore::open(place.join("timers.redb"))?;
    let timers = Durable::builder().open(store, move |firing: &Firing<String>| {
        let line = format!("{} {}\n", firing.payload(), millis(SystemTime::now()));
        // One write, which a kill does not cut.
        (&sent).write_all(line.as_bytes())
    })?;
    if schedules {
        let mut scheduled = File::create(place.join("scheduled"))?;
        let begun = SystemTime::now();
        let mut tickets = Vec::new();
        for number in 0..reminders {
            // In an order that is not that of their times.
            let place = number.wrapping_mul(7919) % reminders;
            let due = begun + LEAD + SPAN.mul_f64(place as f64 / reminders as f64);
            let mut ticket = timers.schedule(due, number.to_string());
            while let Err(ScheduleError { payload, reason: ScheduleReason::Busy, .. }) = ticket {
                // A million wait for the disk. When the last one is there, so are those before it.
                let (.., last): &(u64, SystemTime, Ticket) = tickets.last().ok_or("busy")?;
                last.wait()?;
                ticket = timers.schedule(due, payload);
            }
            tickets.push((number, due, ticket?));
        }
        for (number, due, ticket) in tickets {
            ticket.wait()?;
            writeln!(scheduled, "{number} {}", millis_up(due))?;
        }
        fs::rename(place.join("scheduled"), place.join("all-scheduled"))?;
    }
    loop {
        thread::park();
    }
}

fn millis(time: SystemTime) -> u128 {
    time.duration_since(UNIX_EPOCH).unwrap_or_default().as_millis()
}

fn millis_up(time: SystemTime) -> u128 {
    time.duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos().div_ceil(1_000_000)
}

// === the parent ===

struct Options {
    reminders: u64,
    json: bool,
}

impl Options {
    fn parse(words: &[&str]) -> Result<Options> {
        let mut options = Options { reminders: 100_000, json: false };
        let mut words = words.iter();
        while let Some(word) = words.next() {
            match *word {
                "--json" => options.json = true,
                "--reminders" => {
                    let number = words.next().and_then(|number| number.parse().ok());
                    options.reminders = number
                        .filter(|number| *number > 0)
                        .ok_or("--reminders needs a number from 1 on")?;
                }
                other => return Err(format!("{other} is not an option").into()),
            }
        }
        Ok(options)
    }
}

/// What a run comes to.
#[derive(Debug, Default)]
struct Report {
    reminders: u64,
    sent_before_kill: u64,
    sent: u64,
    lost: u64,
    early: u64,
    twice: u64,
    late_p50_ms: u64,
    late_p99_ms: u64,
    schedule_seconds: f64,
    total_seconds: f64,
}

fn parent(options: &Options) -> Result<bool> {
    let place = tempfile::tempdir()?;
    let path = place.path();
    let begun = Instant::now();
    let progress = Progress::new(options);
    let mut report = Report { reminders: options.reminders, ..Report::default() };

    progress.say(&format!("a child schedules {} reminders", options.reminders));
    let mut first = start(path, options, "schedule")?;
    wait_for(&mut first, &progress, path, || path.join("all-scheduled").exists())?;
    report.schedule_seconds = begun.elapsed().as_secs_f64();
    progress.say(&format!("all are durable after {:.1} s", report.schedule_seconds));
    let half = options.reminders / 2;
    wait_for(&mut first, &progress, path, || count(path) >= half)?;
    first.kill()?;
    first.wait()?;
    report.sent_before_kill = count(path);
    let at = report.sent_before_kill;
    progress.say(&format!("the child was killed after {at} reminders; another one goes on"));

    let mut second = start(path, options, "go-on")?;
    // A reminder that is sent twice is a line more.
    wait_for(&mut second, &progress, path, || {
        count(path) >= options.reminders && distinct(path) >= options.reminders
    })?;
    second.kill()?;
    second.wait()?;
    progress.end();
    report.total_seconds = begun.elapsed().as_secs_f64();
    check(path, &mut report)?;
    print(&report, options.json);
    Ok(report.lost == 0 && report.early == 0)
}

fn start(place: &Path, options: &Options, how: &str) -> Result<Child> {
    let mut command = Command::new(env::current_exe()?);
    let place: PathBuf = place.into();
    let child = command.arg("child").arg(place).arg(options.reminders.to_string()).arg(how);
    Ok(child.spawn()?)
}

/// Waits until a child has come that far, and shows how far it is.
fn wait_for(
    child: &mut Child,
    progress: &Progress,
    place: &Path,
    is_there: impl Fn() -> bool,
) -> Result<()> {
    let (mut last, mut moved) = (0, Instant::now());
    while !is_there() {
        if let Some(status) = child.try_wait()? {
            return Err(format!("the child ended with {status}").into());
        }
        let sent = count(place);
        if sent != last {
            (last, moved) = (sent, Instant::now());
        }
        if moved.elapsed() > PATIENCE {
            let _ = child.kill();
            return Err("nothing is sent any more".into());
        }
        progress.at(sent);
        thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}

/// How many lines were written.
fn count(place: &Path) -> u64 {
    let sent = fs::read(place.join("sent")).unwrap_or_default();
    sent.iter().filter(|byte| **byte == b'\n').count() as u64
}

fn distinct(place: &Path) -> u64 {
    let sent = fs::read_to_string(place.join("sent")).unwrap_or_default();
    let numbers = sent.lines().filter_map(|line| line.split(' ').next());
    numbers.collect::<std::collections::HashSet<_>>().len() as u64
}

/// Compares what was scheduled with what was sent.
fn check(place: &Path, report: &mut Report) -> Result<()> {
    let read = |name| -> Result<Vec<(u64, u64)>> {
        let lines = BufReader::new(File::open(place.join(name))?).lines();
        lines
            .map(|line| {
                let line = line?;
                let (number, time) = line.split_once(' ').ok_or("a line is cut")?;
                Ok((number.parse()?, time.parse()?))
            })
            .collect()
    };
    let due: HashMap<u64, u64> = read("all-scheduled")?.into_iter().collect();
    let mut times: HashMap<u64, Vec<u64>> = HashMap::new();
    for (number, time) in read("sent")? {
        times.entry(number).or_default().push(time);
    }
    let mut late = Vec::new();
    for (number, due) in &due {
        let Some(times) = times.get(number) else {
            report.lost += 1;
            continue;
        };
        report.sent += 1;
        report.early += u64::from(times.iter().any(|time| time < due));
        report.twice += u64::from(times.len() > 1);
        late.extend(times.iter().min().map(|time| time.saturating_sub(*due)));
    }
    late.sort_unstable();
    let share = |share: usize| late.get(late.len() * share / 100).copied().unwrap_or_default();
    (report.late_p50_ms, report.late_p99_ms) = (share(50), share(99));
    Ok(())
}

// === what is shown ===

/// A bar on a terminal, lines elsewhere, nothing beside JSON.
struct Progress {
    bar: ProgressBar,
    says: bool,
}

impl Progress {
    fn new(options: &Options) -> Progress {
        let is_shown = std::io::stderr().is_terminal() && !options.json;
        let target =
            if is_shown { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
        let style = "{bar:40} {human_pos} of {human_len} sent";
        let style = ProgressStyle::with_template(style).expect("the template is right");
        let bar = ProgressBar::with_draw_target(Some(options.reminders), target).with_style(style);
        Progress { bar, says: !options.json }
    }

    fn at(&self, sent: u64) {
        self.bar.set_position(sent);
    }

    fn say(&self, text: &str) {
        if self.says {
            self.bar.suspend(|| eprintln!("{text}"));
        }
    }

    fn end(&self) {
        self.bar.finish_and_clear();
    }
}

fn print(report: &Report, json: bool) {
    if json {
        let json = serde_json::json!({
            "reminders": report.reminders,
            "sent_before_kill": report.sent_before_kill,
            "sent": report.sent,
            "lost": report.lost,
            "early": report.early,
            "sent_twice": report.twice,
            "late_p50_ms": report.late_p50_ms,
            "late_p99_ms": report.late_p99_ms,
            "schedule_seconds": report.schedule_seconds,
            "total_seconds": report.total_seconds,
        });
        println!("{json:#}");
        return;
    }
    println!(
        "{} reminders were scheduled and durable after {:.1} s.",
        report.reminders, report.schedule_seconds
    );
    println!(
        "The process was killed after {}; its successor sent the rest. All took {:.1} s.",
        report.sent_before_kill, report.total_seconds
    );
    println!(
        "Sent: {}. Lost: {}. Early: {}. Sent twice: {}, because their end was not durable yet.",
        report.sent, report.lost, report.early, report.twice
    );
    println!(
        "Late, those included that were due meanwhile: half of them up to {} ms, 99 % up to {} ms.",
        report.late_p50_ms, report.late_p99_ms
    );
}
