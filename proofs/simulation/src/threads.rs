//! Histories of an engine with threads of its own: producers race with reapers and with each other,
//! tasks are stuck and lose their shards, leads are passed on, a stop comes in the middle.
//!
//! A seed decides what each thread does, and not in which order. So these histories are judged by
//! what holds in any: each timer ends once, none fires early, and nothing is lost at the end. (One
//! that fails may not fail again.)

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::task::{Context, Wake};
use std::thread;
use std::time::{Duration, Instant};

use tickless::{Engine, Handle};
use tickless_keyed::KeyedTimers;

use crate::draw::Draw;

/// Timers of one history.
const MOST: usize = 6000;

/// A history of an engine with threads.
#[derive(Clone, Debug)]
pub(crate) struct Case {
    tick_us: u64,
    shape: (u32, u32),
    shards: usize,
    reapers: (usize, usize),
    /// After so many microseconds a task is stuck.
    takeover_us: u64,
    spares: usize,
    exact_below: u64,
    producers: u8,
    /// Whether the engine is stopped while the producers work.
    pub(crate) stops_early: bool,
    /// What the producers do: each the steps of its number.
    pub(crate) ops: Vec<(u8, Op)>,
}

/// One step of a producer.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Op {
    /// Timers that are due so many microseconds later, one after the other.
    Schedule {
        after_us: u32,
        apart_us: u8,
        count: u16,
        owned: bool,
    },
    Cancel {
        pick: u16,
    },
    CancelAll,
    Reset {
        pick: u16,
        after_us: u32,
    },
    Detach {
        pick: u16,
    },
    /// A task that keeps its thread for so long.
    Stuck {
        after_us: u32,
        for_us: u16,
    },
    /// The producer freezes.
    Pause {
        for_us: u16,
    },
    /// It binds itself to a shard.
    Bind {
        shard: u8,
    },
    Keyed {
        key: u8,
        after_us: u32,
    },
    KeyedReset {
        key: u8,
        after_us: u32,
    },
    KeyedCancel {
        key: u8,
    },
    /// A sleep that several tasks poll.
    Sleep {
        after_us: u32,
        polls: u8,
    },
}

/// What is known of a timer.
#[derive(Default)]
struct Timer {
    /// It must not fire before, in nanoseconds since the begin.
    due_ns: AtomicU64,
    /// Runs, cancels and returns.
    ends: AtomicU32,
    drops: AtomicU32,
    /// It ends by a run or by its own producer, and not because of another timer.
    is_owned: AtomicBool,
}

struct World {
    begin: Instant,
    next: AtomicU32,
    timers: Vec<Timer>,
}

/// A payload that tells of its end.
struct Token {
    number: usize,
    world: Arc<World>,
}

struct Producer {
    engine: Engine,
    keyed: KeyedTimers<u8>,
    world: Arc<World>,
    handles: Vec<(usize, Handle)>,
}

/// A task that nobody runs again.
struct Nobody;

/// A history of up to so many steps.
pub(crate) fn case(draw: &mut Draw, most: u64) -> Case {
    let shapes = [(2, 2), (3, 3), (20, 7), (64, 32), (512, 512)];
    let shards = 1 + draw.below(3) as usize;
    let least = 1 + draw.below(shards as u64) as usize;
    let mut case = Case {
        tick_us: [20, 100, 1000][draw.below(3) as usize],
        shape: shapes[draw.below(5) as usize],
        shards,
        reapers: (least, shards),
        takeover_us: [200, 1000, 5000][draw.below(3) as usize],
        spares: draw.below(4) as usize,
        exact_below: [0, 64][draw.below(2) as usize],
        producers: 1 + draw.below(4) as u8,
        stops_early: draw.percent(40),
        ops: Vec::new(),
    };
    let (length, storms) = (1 + draw.below(most), draw.percent(20));
    case.ops = (0..length).map(|_| (draw.byte(), op(draw, storms))).collect();
    case
}

fn op(draw: &mut Draw, storms: bool) -> Op {
    let (pick, key) = (draw.word(), draw.below(3) as u8);
    let after_us = match draw.weighted(&[3, 4, 2, 1]) {
        0 => 0,
        1 => draw.below(400),
        2 => draw.below(5_000),
        _ => draw.below(40_000),
    } as u32;
    match draw.weighted(&[16, 10, 3, 10, 2, 3, 2, 1, 8, 8, 4, 6]) {
        0 => {
            let count = if storms { draw.below(1500) } else { 1 + draw.below(12) } as u16;
            let (apart_us, owned) = (draw.below(4) as u8, draw.percent(80));
            Op::Schedule { after_us, apart_us, count, owned }
        }
        1 => Op::Cancel { pick },
        2 => Op::CancelAll,
        3 => Op::Reset { pick, after_us },
        4 => Op::Detach { pick },
        5 => Op::Stuck { after_us, for_us: draw.below(4_000) as u16 },
        6 => Op::Pause { for_us: draw.below(2_000) as u16 },
        7 => Op::Bind { shard: draw.byte() },
        8 => Op::Keyed { key, after_us },
        9 => Op::KeyedReset { key, after_us },
        10 => Op::KeyedCancel { key },
        _ => Op::Sleep { after_us: after_us.min(2_000), polls: draw.byte() % 40 },
    }
}

impl Case {
    /// It without its steps.
    pub(crate) fn head(&self) -> Case {
        Case { ops: Vec::new(), ..self.clone() }
    }
}

/// Runs a history.
///
/// # Panics
/// A timer ended twice or not at all, or fired early.
pub(crate) fn run(case: &Case) {
    let builder = Engine::builder().tick(Duration::from_micros(case.tick_us)).shards(case.shards);
    let builder = builder.slots(case.shape.0).reach(case.shape.1).exact_below(case.exact_below);
    let builder = builder.reapers(case.reapers.0, case.reapers.1).spares(case.spares);
    let builder = builder.takeover(Duration::from_micros(case.takeover_us));
    let engine = builder.build().expect("the configuration is valid");
    let keyed = KeyedTimers::with_engine(&engine);
    let timers = (0..MOST).map(|_| Timer::default()).collect();
    let world = Arc::new(World { begin: Instant::now(), next: AtomicU32::new(0), timers });
    thread::scope(|scope| {
        for number in 0..case.producers {
            let (engine, keyed, world) = (engine.clone(), keyed.clone(), world.clone());
            scope.spawn(move || {
                let mut producer = Producer { engine, keyed, world, handles: Vec::new() };
                let mine = case.ops.iter().filter(|(who, _)| who % case.producers == number);
                mine.for_each(|(_, op)| producer.step(*op));
            });
        }
        if case.stops_early {
            drop(engine.stop().expect("this is no task"));
        }
    });
    if !case.stops_early {
        // What it waits for has to come; the supervisor is not patient for ever.
        while engine.stats().pending > 0 {
            thread::yield_now();
        }
    }
    let returned = engine.stop().expect("this is no task");
    // Nothing is on its way any more, so what is under a key would wait for ever.
    assert!(
        !returned.is_empty() || case.stops_early || keyed.is_empty(),
        "a key waits for no timer"
    );
    drop((returned, keyed, engine));
    world.assert_all_over(case.stops_early);
}

impl Producer {
    fn step(&mut self, op: Op) {
        match op {
            Op::Schedule { after_us, apart_us, count, owned } => {
                for n in 0..u32::from(count) {
                    self.schedule(us(after_us + n * u32::from(apart_us)), owned, Duration::ZERO);
                }
            }
            Op::Cancel { pick } => self.cancel(pick),
            Op::CancelAll => (0..self.handles.len()).for_each(|_| self.cancel(0)),
            Op::Reset { pick, after_us } => self.reset(pick, us(after_us)),
            Op::Detach { pick } => drop(self.take(pick)),
            Op::Stuck { after_us, for_us } => {
                self.schedule(us(after_us), false, us(for_us.into()));
            }
            // Not in order to wait for something: it is held up.
            Op::Pause { for_us } => thread::sleep(us(for_us.into())),
            Op::Bind { shard } => {
                let shard = usize::from(shard) % self.engine.shards();
                self.engine.bind_thread(shard).expect("there is such a shard");
            }
            Op::Keyed { key, after_us } => {
                if let Some(token) = self.token(None) {
                    let task = move || token.run(Duration::ZERO);
                    // Whether it replaces another or is refused, its task is dropped in the end.
                    drop(self.keyed.schedule_keyed(key, us(after_us), task));
                }
            }
            Op::KeyedReset { key, after_us } => {
                // Which timer it moves is not known, so none under a key is judged by its time.
                let _ = self.keyed.reset(&key, us(after_us));
            }
            Op::KeyedCancel { key } => _ = self.keyed.cancel(&key),
            Op::Sleep { after_us, polls } => self.sleep(us(after_us), polls),
        }
    }

    /// A payload of a timer that is due after that time, or of one that others replace and move.
    fn token(&self, after: Option<Duration>) -> Option<Token> {
        let number = self.world.next.fetch_add(1, Ordering::Relaxed) as usize;
        let timer = self.world.timers.get(number)?;
        let due_ns = after.map_or(0, |after| self.world.due_ns(after));
        timer.due_ns.store(due_ns, Ordering::Relaxed);
        timer.is_owned.store(after.is_some(), Ordering::Relaxed);
        Some(Token { number, world: self.world.clone() })
    }

    fn schedule(&mut self, after: Duration, owned: bool, stuck: Duration) {
        let Some(token) = self.token(Some(after)) else { return };
        let number = token.number;
        match self.engine.schedule(after, move || token.run(stuck)) {
            Ok(handle) if owned => self.handles.push((number, handle)),
            Ok(handle) => drop(handle),
            Err(error) => {
                assert!(self.engine.is_stopped(), "{error}");
                self.world.end(number);
            }
        }
    }

    fn take(&mut self, pick: u16) -> Option<(usize, Handle)> {
        let index = usize::from(pick).checked_rem(self.handles.len())?;
        Some(self.handles.swap_remove(index))
    }

    fn cancel(&mut self, pick: u16) {
        let Some((number, handle)) = self.take(pick) else { return };
        if handle.cancel() {
            self.world.end(number);
        }
    }

    fn reset(&mut self, pick: u16, after: Duration) {
        let Some((number, mut handle)) = self.take(pick) else { return };
        let due_ns = &self.world.timers[number].due_ns;
        let (before, after_ns) = (due_ns.load(Ordering::Relaxed), self.world.due_ns(after));
        // The earlier of both times is right until the reset has returned.
        due_ns.store(before.min(after_ns), Ordering::Relaxed);
        let is_moved = handle.reset(after).is_ok();
        due_ns.store(if is_moved { after_ns } else { before }, Ordering::Relaxed);
        self.handles.push((number, handle));
    }

    fn sleep(&self, after: Duration, polls: u8) {
        let due = Instant::now() + after;
        let mut sleep = pin!(self.engine.sleep(after));
        for _ in 0..polls {
            // Each poll is by another task.
            let waker = Arc::new(Nobody).into();
            if sleep.as_mut().poll_elapsed(&mut Context::from_waker(&waker)).is_ready() {
                assert!(Instant::now() >= due || self.engine.is_stopped(), "a sleep is early");
                return;
            }
            thread::yield_now();
        }
    }
}

impl World {
    fn due_ns(&self, after: Duration) -> u64 {
        (self.begin.elapsed() + after).as_nanos() as u64
    }

    fn end(&self, number: usize) {
        let before = self.timers[number].ends.fetch_add(1, Ordering::Relaxed);
        assert_eq!(before, 0, "timer {number} ends twice");
    }

    /// Everything is over; if the engine was not stopped before, nothing was returned.
    fn assert_all_over(&self, stopped_early: bool) {
        let used = (self.next.load(Ordering::Relaxed) as usize).min(MOST);
        for (number, timer) in self.timers[..used].iter().enumerate() {
            let (ends, drops) = (&timer.ends, &timer.drops);
            let drops = drops.load(Ordering::Relaxed);
            assert_eq!(drops, 1, "the payload of {number} is dropped {drops} times");
            let is_lost = timer.is_owned.load(Ordering::Relaxed) && !stopped_early;
            let is_over = ends.load(Ordering::Relaxed) == 1;
            assert!(is_over || !is_lost, "timer {number} was dropped and not fired");
        }
    }
}

impl Token {
    fn run(self, stuck: Duration) {
        let now_ns = self.world.begin.elapsed().as_nanos() as u64;
        let due_ns = self.world.timers[self.number].due_ns.load(Ordering::Relaxed);
        assert!(due_ns <= now_ns, "timer {} is {} ns early", self.number, due_ns - now_ns);
        self.world.end(self.number);
        if !stuck.is_zero() {
            thread::sleep(stuck);
        }
    }
}

impl Drop for Token {
    fn drop(&mut self) {
        self.world.timers[self.number].drops.fetch_add(1, Ordering::Relaxed);
    }
}

impl Wake for Nobody {
    fn wake(self: Arc<Nobody>) {}
}

fn us(count: u32) -> Duration {
    Duration::from_micros(count.into())
}
