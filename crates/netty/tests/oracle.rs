//! The hashed wheel against a list, through random histories on a manual clock.
//!
//! Within a tick the order is open, so what tasks do to each other is judged in the order in which
//! they say that they did it; all else must be as the list says after every step: what ran and
//! when, what each cancel answered, who was told, how each timeout calls itself, and the count.

use std::sync::Arc;
use std::time::Duration;

use models::histories::when;
use models::when::When;
use proptest::collection::vec;
use proptest::prelude::*;
use support::hold::hold;
use support::planned::{panic_as_planned, quietly};
use tickless::local::Geometry;
use tickless::{ManualClock, Tick};
use tickless_netty::{HashedWheelTimer, Timeout, TimerTask};
use tickless_sync::Mutex;

const CASES: u64 = 300;

const STEPS: usize = 80;

/// How a timer is built.
#[derive(Clone, Copy, Debug)]
struct Config {
    tick_ns: u64,
    ticks_per_wheel: u32,
    shards: usize,
    max: Option<u64>,
}

/// What is asked of a timer, or by a task of its own.
#[derive(Clone, Copy, Debug)]
enum Op {
    Make { at: When, nudge_ns: i32, deed: Deed },
    Cancel { pick: u16 },
    Advance { to: When, nudge_ns: i32 },
}

/// What a task does besides saying that it runs.
#[derive(Clone, Copy, Debug)]
enum Deed {
    Nothing,
    Panic,
    Cancel { pick: u16 },
    Make { ticks: u16 },
}

/// What has happened, in order.
#[derive(Clone, Copy, Debug)]
enum Event {
    Made {
        delay: Duration,
        at_ns: u64,
        is_accepted: bool,
        is_inside: bool,
    },
    Ran {
        number: usize,
        at_ns: u64,
    },
    Cancelled {
        number: usize,
        answer: bool,
    },
    /// By the callback.
    Told {
        number: usize,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Waiting,
    Ran,
    Cancelled,
}

/// A timeout as the list has it. `None`: it is never due.
struct Line {
    due_ns: Option<u64>,
    fate: Fate,
    told: u32,
}

/// What tasks share with the history.
struct Stage {
    clock: ManualClock,
    tick: Duration,
    made: Mutex<Vec<Timeout>>,
    events: Mutex<Vec<Event>>,
}

struct Task {
    stage: Arc<Stage>,
    number: usize,
    deed: Deed,
}

// === the timer's side ===

impl Stage {
    fn now_ns(&self) -> u64 {
        self.clock.elapsed().as_nanos() as u64
    }

    fn say(&self, event: Event) {
        self.events.lock().unwrap().push(event);
    }

    fn make(
        self: &Arc<Stage>,
        timer: &HashedWheelTimer,
        delay: Duration,
        deed: Deed,
        inside: bool,
    ) {
        let number = self.made.lock().unwrap().len();
        let task = Task { stage: self.clone(), number, deed };
        let made = timer.new_timeout(task, delay);
        let (at_ns, is_accepted) = (self.now_ns(), made.is_ok());
        self.say(Event::Made { delay, at_ns, is_accepted, is_inside: inside });
        match made {
            Ok(timeout) => self.made.lock().unwrap().push(timeout),
            Err(error) => assert!(error.is_full()),
        }
    }

    fn cancel(&self, pick: u16) {
        let (number, timeout) = {
            let made = self.made.lock().unwrap();
            let Some(number) = usize::from(pick).checked_rem(made.len()) else { return };
            (number, made[number].clone())
        };
        let answer = timeout.cancel();
        self.say(Event::Cancelled { number, answer });
    }
}

impl TimerTask for Task {
    fn run(&self, timeout: &Timeout) {
        self.stage.say(Event::Ran { number: self.number, at_ns: self.stage.now_ns() });
        match self.deed {
            Deed::Nothing => {}
            Deed::Panic => panic_as_planned(),
            Deed::Cancel { pick } => self.stage.cancel(pick),
            Deed::Make { ticks } => {
                let (timer, delay) = (timeout.timer().unwrap(), self.stage.tick * ticks.into());
                self.stage.make(&timer, delay, Deed::Nothing, true);
            }
        }
    }

    fn cancelled(&self, _timeout: &Timeout) {
        self.stage.say(Event::Told { number: self.number });
    }
}

// === the list's side ===

/// A timer and its list.
struct Pair {
    config: Config,
    timer: HashedWheelTimer,
    stage: Arc<Stage>,
    lines: Vec<Line>,
}

impl Pair {
    fn new(config: Config) -> Pair {
        let (clock, tick) = (ManualClock::new(), Duration::from_nanos(config.tick_ns));
        let mut builder = HashedWheelTimer::builder()
            .tick_duration(tick)
            .ticks_per_wheel(config.ticks_per_wheel)
            .shards(config.shards)
            .manual_clock(&clock);
        if let Some(max) = config.max {
            builder = builder.max_pending_timeouts(max);
        }
        let (made, events) = (Mutex::default(), Mutex::default());
        let stage = Arc::new(Stage { clock, tick, made, events });
        Pair { config, timer: builder.build().unwrap(), stage, lines: Vec::new() }
    }

    fn step(&mut self, op: Op) {
        match op {
            Op::Make { at, nudge_ns, deed } => {
                let delay = self.until(at, nudge_ns);
                self.stage.make(&self.timer, delay, deed, false);
            }
            Op::Cancel { pick } => self.stage.cancel(pick),
            Op::Advance { to, nudge_ns } => {
                self.timer.advance(self.until(to, nudge_ns)).unwrap();
            }
        }
        self.judge();
    }

    /// How long it is until `when`, give or take some nanoseconds.
    fn until(&self, when: When, nudge_ns: i32) -> Duration {
        let slots = self.config.ticks_per_wheel.next_power_of_two().max(2);
        let geometry = Geometry::new(slots, (slots / 2).max(2)).unwrap();
        let now_ns = self.stage.now_ns();
        let at = when.resolve(&geometry, Tick::new(now_ns / self.config.tick_ns));
        let Some(at_ns) = at.get().checked_mul(self.config.tick_ns) else { return Duration::MAX };
        let delay_ns = at_ns.saturating_add_signed(nudge_ns.into()).saturating_sub(now_ns);
        Duration::from_nanos(delay_ns)
    }

    /// Goes through what was said, then compares.
    fn judge(&mut self) {
        let events = std::mem::take(&mut *self.stage.events.lock().unwrap());
        for event in events {
            self.hear(event);
        }
        let waiting = self.lines.iter().filter(|line| line.fate == Fate::Waiting).count();
        assert_eq!(self.timer.pending_timeouts(), waiting);
        assert!(self.config.max.is_none_or(|max| waiting as u64 <= max));
        let now_ns = self.stage.now_ns();
        let made = self.stage.made.lock().unwrap();
        assert_eq!(made.len(), self.lines.len());
        for (number, (line, timeout)) in self.lines.iter().zip(made.iter()).enumerate() {
            let named = (timeout.is_expired(), timeout.is_cancelled());
            assert_eq!(named, (line.fate == Fate::Ran, line.fate == Fate::Cancelled), "{number}");
            assert_eq!(line.told, u32::from(line.fate == Fate::Cancelled), "{number}");
            // What is due at this very moment may have been made after the last turn.
            let is_late = line.due_ns.is_some_and(|due_ns| due_ns < now_ns);
            assert!(!(is_late && line.fate == Fate::Waiting), "{number} is lost at {now_ns}");
        }
    }

    fn hear(&mut self, event: Event) {
        match event {
            Event::Made { delay, at_ns, is_accepted, is_inside } => {
                let waiting = self.lines.iter().filter(|l| l.fate == Fate::Waiting).count() as u64;
                // Inside a batch some of those that wait are counted off already.
                let is_full = self.config.max.is_some_and(|max| waiting >= max);
                assert!(is_accepted || is_full);
                assert!(is_inside || is_accepted != is_full);
                if is_accepted {
                    let due_ns = self.due_ns(at_ns, delay);
                    self.lines.push(Line { due_ns, fate: Fate::Waiting, told: 0 });
                }
            }
            Event::Ran { number, at_ns } => {
                let line = &mut self.lines[number];
                assert_eq!((line.fate, line.due_ns), (Fate::Waiting, Some(at_ns)), "{number}");
                line.fate = Fate::Ran;
            }
            Event::Cancelled { number, answer } => {
                let line = &mut self.lines[number];
                assert_eq!(answer, line.fate == Fate::Waiting, "{number}");
                if answer {
                    line.fate = Fate::Cancelled;
                }
            }
            Event::Told { number } => self.lines[number].told += 1,
        }
    }

    fn due_ns(&self, now_ns: u64, delay: Duration) -> Option<u64> {
        let delay_ns = u64::try_from(delay.as_nanos()).ok()?;
        now_ns.checked_add(delay_ns)?.checked_next_multiple_of(self.config.tick_ns)
    }

    /// Stops, and finds returned what the list has waiting.
    fn stop(mut self) {
        let returned = self.timer.stop().unwrap();
        // Taken out: tasks know the stage, and are kept by what it keeps.
        let made = std::mem::take(&mut *self.stage.made.lock().unwrap());
        let waiting = self.lines.iter_mut().zip(made.iter());
        let waiting = waiting.filter(|(line, _)| line.fate == Fate::Waiting);
        let expected: Vec<_> = waiting.map(|(_, timeout)| timeout).collect();
        assert_eq!(returned.len(), expected.len());
        assert!(expected.iter().all(|&timeout| returned.contains(timeout)));
        assert!(returned.iter().all(Timeout::is_cancelled));
        assert_eq!(self.timer.pending_timeouts(), 0);
        assert!(self.stage.events.lock().unwrap().is_empty(), "nobody is told of a stop");
    }
}

// === histories ===

fn config() -> impl Strategy<Value = Config> {
    let tick_ns = prop_oneof![Just(1_000_000), Just(7), Just(100_000_003)];
    let ticks_per_wheel = prop_oneof![Just(1), Just(3), Just(8), Just(512)];
    let max = prop_oneof![2 => Just(None), 1 => (1..6_u64).prop_map(Some)];
    (tick_ns, ticks_per_wheel, 1..3_usize, max).prop_map(
        |(tick_ns, ticks_per_wheel, shards, max)| Config { tick_ns, ticks_per_wheel, shards, max },
    )
}

fn deed() -> impl Strategy<Value = Deed> {
    prop_oneof![
        4 => Just(Deed::Nothing),
        1 => Just(Deed::Panic),
        3 => any::<u16>().prop_map(|pick| Deed::Cancel { pick }),
        3 => (0..20_u16).prop_map(|ticks| Deed::Make { ticks }),
    ]
}

fn near() -> impl Strategy<Value = When> {
    (0..12_u16).prop_map(When::Ahead)
}

fn op() -> impl Strategy<Value = Op> {
    let nudge_ns = || prop_oneof![3 => Just(0), 1 => -2..=2_i32, 1 => any::<i32>()];
    let at = prop_oneof![3 => near(), 2 => when()];
    let to = prop_oneof![9 => near(), 1 => any::<u16>().prop_map(When::Ahead)];
    prop_oneof![
        5 => (at, nudge_ns(), deed())
            .prop_map(|(at, nudge_ns, deed)| Op::Make { at, nudge_ns, deed }),
        2 => any::<u16>().prop_map(|pick| Op::Cancel { pick }),
        2 => (to, nudge_ns()).prop_map(|(to, nudge_ns)| Op::Advance { to, nudge_ns }),
    ]
}

fn run((config, ops): &(Config, Vec<Op>)) {
    quietly();
    let mut pair = Pair::new(*config);
    for op in ops {
        pair.step(*op);
    }
    pair.stop();
}

#[test]
fn a_timer_agrees_with_a_list_after_every_step_of_any_history() {
    hold("hashed wheel", CASES, (config(), vec(op(), 1..STEPS)), run);
}
