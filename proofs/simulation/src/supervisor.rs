//! The process that searches: it has strands run histories, and tells the one that fails.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use crate::arguments::{Arguments, Limit};
use crate::history::History;
use crate::shrink::shrink;
use tickless_sync::events::EVENTS;

/// A strand and what is known of it.
struct Strand {
    child: Child,
    /// The history that it runs, and since when.
    runs: Option<(u64, Instant)>,
    is_done: bool,
}

/// What a search has found.
#[derive(Default)]
struct Found {
    histories: u64,
    events: BTreeMap<String, u64>,
    /// The first history that failed.
    failed: Option<u64>,
}

/// A line of a strand, or its end.
type News = (usize, Option<String>);

/// Runs histories in several processes until the limit, or until one fails.
pub(crate) fn many(arguments: &Arguments) -> ExitCode {
    let (begin, (tell, news)) = (Instant::now(), channel());
    let spawn = |number: u64| Strand::spawn(arguments, number, &tell);
    let mut strands: Vec<Strand> = (0..arguments.jobs).map(spawn).collect();
    let mut found = Found::default();
    while found.failed.is_none() && !strands.iter().all(|strand| strand.is_done) {
        found.listen(&mut strands, &news, arguments.patience);
    }
    for strand in &mut strands {
        // One that has ended cannot be killed, and need not be.
        let _ = strand.child.kill();
        strand.child.wait().expect("it is our child");
    }
    println!("{} histories in {:.1} s", found.histories, begin.elapsed().as_secs_f64());
    if let Some(seed) = found.failed {
        report(seed, arguments.patience);
        return ExitCode::FAILURE;
    }
    found.report_events(arguments.events.as_deref())
}

// === impl Strand ===

impl Strand {
    fn spawn(arguments: &Arguments, number: u64, tell: &Sender<News>) -> Strand {
        let mut command = this_program();
        let Arguments { from, jobs, .. } = arguments;
        let (limit, most) = match arguments.limit {
            Limit::Time(time) => ("--seconds", time.as_secs()),
            Limit::Count(count) => ("--count", count),
        };
        let options =
            [("--strand", from + number), ("--from", *from), ("--jobs", *jobs), (limit, most)];
        for (option, value) in options {
            command.arg(option).arg(value.to_string());
        }
        // What fails is run again, and then says why.
        let child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn();
        let mut child = child.expect("this program runs");
        let out = child.stdout.take().expect("it is piped");
        let (tell, number) = (tell.clone(), number as usize);
        thread::spawn(move || {
            let lines = BufReader::new(out).lines().map_while(Result::ok);
            let news = lines.map(Some).chain([None]);
            // Nobody listens any more once something was found.
            news.map(|line| tell.send((number, line))).find(Result::is_err)
        });
        Strand { child, runs: None, is_done: false }
    }
}

// === impl Found ===

impl Found {
    /// Takes one piece of news, or notices that there is none for too long.
    fn listen(&mut self, strands: &mut [Strand], news: &Receiver<News>, patience: Duration) {
        match news.recv_timeout(patience.min(Duration::from_secs(1))) {
            Ok((number, line)) => self.hear(&mut strands[number], line.as_deref()),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => panic!("a strand ended without its end"),
        }
        let runs = strands.iter().filter(|strand| !strand.is_done).filter_map(|strand| strand.runs);
        let hung = runs.filter(|(_, since)| since.elapsed() > patience).map(|(seed, _)| seed).min();
        self.failed = self.failed.or(hung);
    }

    fn hear(&mut self, strand: &mut Strand, line: Option<&str>) {
        let mut words = line.unwrap_or_default().split(' ');
        match words.next().unwrap_or_default() {
            "run" => {
                let seed = words.next().and_then(|word| word.parse().ok());
                strand.runs = Some((seed.expect("a seed"), Instant::now()));
                self.histories += 1;
            }
            "event" => {
                let (name, count) = (words.next(), words.next());
                let count: u64 = count.and_then(|word| word.parse().ok()).expect("a count");
                *self.events.entry(name.expect("a name").to_owned()).or_default() += count;
            }
            "done" => strand.is_done = true,
            _ if line.is_none() && !strand.is_done => {
                // It has ended in the middle of a history.
                let (seed, _) = strand.runs.expect("a strand begins with a history");
                self.failed = Some(self.failed.map_or(seed, |before| before.min(seed)));
            }
            _ => {}
        }
    }

    /// Prints how often each event was reached, and by which directed test, if there is one. With
    /// `directed`, each has to be reached: often by the search, or by its test.
    fn report_events(&self, directed: Option<&str>) -> ExitCode {
        let told = directed.map(|path| fs::read_to_string(path).expect("the file is there"));
        let told = told.unwrap_or_default();
        let tests: BTreeMap<&str, &str> =
            told.lines().filter_map(|line| line.split_once(' ')).collect();
        let mut missing = 0;
        for (name, meaning) in EVENTS {
            let (count, test) = (self.events.get(*name).unwrap_or(&0), tests.get(name));
            let by = test.map_or(String::new(), |test| format!(" [{test}]"));
            println!("{count:>12}  {name:<17} {meaning}{by}");
            missing += u32::from(*count == 0 && test.is_none());
        }
        if missing == 0 || directed.is_none() {
            return ExitCode::SUCCESS;
        }
        eprintln!("{missing} of {} events were not reached", EVENTS.len());
        ExitCode::FAILURE
    }
}

/// Tells why a history fails, and the smallest part of it that does.
fn report(seed: u64, patience: Duration) {
    println!("\nseed {seed} fails:\n  {}\n", command_line(seed, None));
    let Some(complaint) = failure(seed, None, patience) else {
        return println!("it does not fail again: it depends on the order of its threads");
    };
    println!("{complaint}\n");
    let length = History::of(seed).len();
    let steps = shrink(length, |steps| failure(seed, Some(steps), patience).is_some());
    let complaint = failure(seed, Some(&steps), patience).unwrap_or_default();
    println!("{} of its {length} steps are enough:", steps.len());
    println!("  {}\n\n{complaint}", command_line(seed, Some(&steps)));
    let mut small = History::of(seed);
    small.keep(&steps);
    print!("{}", small.steps());
}

/// Runs a history in a process of its own; what it says if it fails.
fn failure(seed: u64, keep: Option<&[usize]>, patience: Duration) -> Option<String> {
    let mut command = this_program();
    command.args(options(seed, keep).split(' ')).env("RUST_BACKTRACE", "0");
    let child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn();
    let mut child = child.expect("this program runs");
    let mut err = child.stderr.take().expect("it is piped");
    let reader = thread::spawn(move || {
        let mut text = Vec::new();
        let _ = err.read_to_end(&mut text);
        String::from_utf8_lossy(&text).into_owned()
    });
    let begin = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait().expect("it is our child") {
            break Some(status);
        }
        if begin.elapsed() > patience {
            let _ = child.kill();
            child.wait().expect("it is our child");
            break None;
        }
        thread::sleep(Duration::from_millis(1));
    };
    let text = reader.join().expect("reading does not panic");
    match status {
        Some(status) if status.success() => None,
        Some(status) => Some(format!("{}\n({status})", text.trim())),
        None => Some(format!("{}\n(hung for {} s)", text.trim(), patience.as_secs())),
    }
}

fn this_program() -> Command {
    Command::new(std::env::current_exe().expect("this program has a path"))
}

fn options(seed: u64, keep: Option<&[usize]>) -> String {
    let mut options = format!("--seed {seed}");
    if let Some(steps) = keep {
        let steps: Vec<String> = steps.iter().map(usize::to_string).collect();
        write!(options, " --keep {}", steps.join(",")).expect("a string takes all");
    }
    options
}

fn command_line(seed: u64, keep: Option<&[usize]>) -> String {
    format!("proofs/simulation/run.sh {}", options(seed, keep))
}
