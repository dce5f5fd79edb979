//! The command line.

use std::time::Duration;

pub(crate) const USAGE: &str = "\
simulation [--seconds N | --minutes N | --count N] [--from SEED] [--jobs N]
simulation --seed SEED [--keep STEP,..] [--tell]

  --seconds, --minutes   run histories for so long; 30 seconds by default
  --count                run so many histories
  --from                 the first seed; 0 by default
  --jobs                 processes side by side; as many as there are processors by default
  --patience             seconds after which a history counts as hung; 60 by default
  --seed                 run one history
  --keep                 leave out all of its steps but these
  --tell                 print its steps first
  --events FILE          fail if an event is reached neither here nor by the tests in the file
  --directed             run the tests of single events, and tell which reach what
  --pairs N              run each call in the middle of each other one, at N of its accesses (0: at each)";

/// What is asked for.
#[derive(Debug)]
pub(crate) struct Arguments {
    pub(crate) mode: Mode,
    pub(crate) limit: Limit,
    pub(crate) from: u64,
    pub(crate) jobs: u64,
    pub(crate) patience: Duration,
    pub(crate) tells: bool,
    /// The file with what the tests of single events have reached, if every event has to be.
    pub(crate) events: Option<String>,
}

/// Which part this process plays.
#[derive(Debug)]
pub(crate) enum Mode {
    /// Runs one history, with these of its steps.
    One { seed: u64, keep: Option<Vec<usize>> },
    /// Runs each `stride`th history from the first on, for a supervisor.
    Strand { first: u64, stride: u64 },
    /// Runs the tests of single events.
    Directed,
    /// Runs each call in the middle of each other one, at so many of its accesses, or at each.
    Pairs { most: Option<usize> },
    /// Supervises strands.
    Many,
}

/// When a search is over.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Limit {
    Time(Duration),
    Count(u64),
}

// === impl Arguments ===

impl Arguments {
    pub(crate) fn parse(mut words: impl Iterator<Item = String>) -> Result<Arguments, String> {
        let jobs = std::thread::available_parallelism().map_or(1, usize::from);
        let mut arguments = Arguments {
            mode: Mode::Many,
            limit: Limit::Time(Duration::from_secs(30)),
            from: 0,
            jobs: jobs as u64,
            patience: Duration::from_secs(60),
            tells: false,
            events: None,
        };
        let (mut seed, mut keep, mut strand) = (None, None, None);
        while let Some(word) = words.next() {
            let mut number = || number(&word, words.next());
            match word.as_str() {
                "--seconds" => arguments.limit = Limit::Time(Duration::from_secs(number()?)),
                "--minutes" => arguments.limit = Limit::Time(Duration::from_secs(60 * number()?)),
                "--count" => arguments.limit = Limit::Count(number()?),
                "--from" => arguments.from = number()?,
                "--jobs" => arguments.jobs = number()?.max(1),
                "--patience" => arguments.patience = Duration::from_secs(number()?),
                "--seed" => seed = Some(number()?),
                "--strand" => strand = Some(number()?),
                "--keep" => keep = Some(steps(&words.next().unwrap_or_default())?),
                "--tell" => arguments.tells = true,
                "--events" => arguments.events = Some(words.next().unwrap_or_default()),
                "--directed" => arguments.mode = Mode::Directed,
                "--pairs" => {
                    let most = Some(number()? as usize).filter(|&most| most > 0);
                    arguments.mode = Mode::Pairs { most };
                }
                _ => return Err(format!("{word} is not an option")),
            }
        }
        match (seed, strand) {
            (Some(seed), _) => arguments.mode = Mode::One { seed, keep },
            (None, Some(first)) => arguments.mode = Mode::Strand { first, stride: arguments.jobs },
            (None, None) => {}
        }
        Ok(arguments)
    }
}

fn number(option: &str, word: Option<String>) -> Result<u64, String> {
    let word = word.ok_or_else(|| format!("{option} wants a number"))?;
    word.parse().map_err(|_| format!("{option} wants a number, not {word}"))
}

fn steps(list: &str) -> Result<Vec<usize>, String> {
    let numbers = list.split(',').filter(|word| !word.is_empty());
    numbers.map(|word| word.parse().map_err(|_| format!("{word} is not a step"))).collect()
}
