//! Whatever is asked of a builder, it answers with an engine that works or with an error that says
//! why not: the body of the fuzz target `builder`.

use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::time::Duration;

use arbitrary::Arbitrary;
use tickless::local::MAX_SLOTS;
use tickless::{
    Batch, BuildError, Builder, Clock, Driver, Engine, ManualClock, ScheduleReason, TurnError,
};

/// A configuration. Numbers may be of any size.
#[derive(Arbitrary, Clone, Debug)]
pub struct Case {
    tick: Option<Span>,
    slots: Option<Size>,
    reach: Option<Size>,
    shards: Option<Size>,
    max_pending: Option<u64>,
    thread_name: Option<String>,
    pinned: Option<bool>,
    clock: Option<Time>,
    driver: Option<Who>,
    hook: bool,
    /// Where a manual clock stands when the engine is built.
    start: Span,
    /// When the timers are due.
    delays: [Span; 3],
    threads: Threads,
}

/// The settings for an engine's threads.
#[derive(Arbitrary, Clone, Debug)]
struct Threads {
    reapers: Option<[Size; 2]>,
    takeover: Option<Option<Span>>,
    spares: Option<u16>,
    tells_of_stuck: bool,
    /// A share of a core: any number.
    precise: Option<f32>,
    spin_before: Option<Span>,
    spin_share: Option<f32>,
    exact_below: Option<Size>,
    crowd: Option<Size>,
}

/// A length of time, any scale as likely as another.
#[derive(Arbitrary, Clone, Copy, Debug)]
enum Span {
    Nanos(u16),
    Scaled { nanos: u64, shift: u8 },
    Seconds(u64),
}

/// A number, any scale as likely as another.
#[derive(Arbitrary, Clone, Copy, Debug)]
enum Size {
    Small(u8),
    Scaled { size: u32, shift: u8 },
}

#[derive(Arbitrary, Clone, Copy, Debug)]
enum Time {
    System,
    Instant,
    Manual,
}

#[derive(Arbitrary, Clone, Copy, Debug)]
enum Who {
    Threads,
    Caller,
}

/// Threads that a case may start: more take long and show nothing new.
const MOST_THREADS: usize = 4;

/// Buckets that a case may make in all: of more, only what is refused is of interest.
const MOST_BUCKETS: u64 = 1 << 20;

const PATIENCE: Duration = Duration::from_secs(60);

/// Builds an engine as the case says. If it is built, it has to work.
pub fn run(case: &Case) {
    let clock = ManualClock::new();
    clock.advance(case.start.duration());
    let (fired, receiver) = mpsc::channel();
    let fired = Mutex::new(fired);
    let handler = move |batch: Batch<'_, u8>| {
        let fired = fired.lock().unwrap_or_else(PoisonError::into_inner);
        batch.for_each(|payload| fired.send(payload).expect("the test listens to the end"));
    };
    let called = Arc::new(Mutex::new(Vec::new()));
    match case.builder(&clock, &called).build_with_handler(handler) {
        Ok(engine) => {
            assert_eq!(case.complaint(), None, "{case:?}");
            case.use_engine(&engine, &clock, &receiver);
            let mut called = called.lock().unwrap_or_else(PoisonError::into_inner);
            assert!(called.iter().all(|shard| *shard < engine.shards()));
            assert!(case.hook || called.is_empty());
            called.clear();
        }
        // What the system says to a thread that wants a CPU is not ours.
        Err(BuildError::Thread(_)) if case.pinned == Some(true) => {}
        Err(error) => assert_eq!(Some(name_of(&error)), case.complaint(), "{error}: {case:?}"),
    }
}

/// What kind of error it is; it can also be printed.
fn name_of(error: &BuildError) -> &'static str {
    assert!(!error.to_string().is_empty() && !format!("{error:?}").is_empty());
    match error {
        BuildError::Tick { .. } => "tick",
        BuildError::Geometry(_) => "geometry",
        BuildError::Shards { .. } => "shards",
        BuildError::MaxPending => "max_pending",
        BuildError::Share { .. } => "share",
        BuildError::Reapers { .. } => "reapers",
        BuildError::ThreadName { .. } => "thread_name",
        BuildError::ManualClockWithThreads => "manual clock",
        BuildError::HookWithThreads => "hook",
        error => panic!("{error}"),
    }
}

// === impl Case ===

impl Case {
    fn builder(&self, clock: &ManualClock, called: &Arc<Mutex<Vec<usize>>>) -> Builder {
        let mut builder = Builder::new();
        // A preset: what is set after it counts.
        if let Some(share) = self.threads.precise {
            builder = builder.precise(share.into());
        }
        if let Some(tick) = self.tick {
            builder = builder.tick(tick.duration());
        }
        if let Some(slots) = self.slots {
            builder = builder.slots(slots.size());
        }
        if let Some(reach) = self.reach {
            builder = builder.reach(reach.size());
        }
        if let Some(shards) = self.shards() {
            builder = builder.shards(shards);
        }
        if let Some(max_pending) = self.max_pending {
            builder = builder.max_pending(max_pending);
        }
        if let Some(name) = &self.thread_name {
            builder = builder.thread_name(name.as_str());
        }
        if let Some(pinned) = self.pinned {
            builder = builder.pinned(pinned);
        }
        builder = match self.clock {
            None => builder,
            Some(Time::System) => builder.clock(Clock::system()),
            Some(Time::Instant) => builder.clock(Clock::instant()),
            Some(Time::Manual) => builder.manual_clock(clock),
        };
        builder = match self.driver {
            None => builder,
            Some(Who::Threads) => builder.driver(Driver::Threads),
            Some(Who::Caller) => builder.driver(Driver::Caller),
        };
        builder = self.threads.set(builder);
        let called = called.clone();
        let hook = move |shard| {
            called.lock().unwrap_or_else(PoisonError::into_inner).push(shard);
        };
        if self.hook { builder.on_earlier(hook) } else { builder }
    }

    /// What is wrong with the configuration: the first of what a builder looks at.
    fn complaint(&self) -> Option<&'static str> {
        let (tick, slots) = (self.tick(), self.slots());
        let reach = if self.threads.precise.is_some() { 256 } else { (slots / 2).max(2) };
        let reach = self.reach.map_or(reach, Size::size);
        let is_wheel = (2..=MAX_SLOTS).contains(&slots) && (2..=slots).contains(&reach);
        let shards = self.shards().unwrap_or(1);
        let name = self.thread_name.as_deref().unwrap_or_default();
        let wrong = [
            ("tick", tick.is_zero() || u64::try_from(tick.as_nanos()).is_err()),
            ("geometry", !is_wheel),
            ("shards", !(1..=Builder::MAX_SHARDS).contains(&shards)),
            ("manual clock", self.is_manual() && matches!(self.driver, Some(Who::Threads))),
            ("hook", self.hook && self.has_threads()),
            ("max_pending", self.max_pending == Some(0)),
            ("thread_name", name.contains('\0')),
            ("share", self.threads.has_bad_share()),
            ("reapers", self.threads.has_bad_reapers()),
        ];
        wrong.into_iter().find(|(_, is_wrong)| *is_wrong).map(|(name, _)| name)
    }

    fn is_manual(&self) -> bool {
        matches!(self.clock, Some(Time::Manual))
    }

    fn has_threads(&self) -> bool {
        match self.driver {
            Some(Who::Threads) => true,
            Some(Who::Caller) => false,
            None => !self.is_manual(),
        }
    }

    fn tick(&self) -> Duration {
        let usual = if self.threads.precise.is_some() { 1 } else { 1000 };
        self.tick.map_or(Duration::from_micros(usual), Span::duration)
    }

    fn slots(&self) -> u32 {
        self.slots.map_or(if self.threads.precise.is_some() { 512 } else { 64 }, Size::size)
    }

    /// Not too many, where each is a thread.
    fn shards(&self) -> Option<usize> {
        let shards = self.shards?.size() as usize;
        let is_valid = (1..=Builder::MAX_SHARDS).contains(&shards);
        Some(if is_valid && self.has_threads() { shards.min(MOST_THREADS) } else { shards })
    }

    fn use_engine(&self, engine: &Engine<u8>, clock: &ManualClock, fired: &mpsc::Receiver<u8>) {
        let last = engine.shards() - 1;
        assert_eq!(last + 1, self.shards().unwrap_or(last + 1));
        if !self.has_threads() {
            engine.bind_thread(last).unwrap();
        }
        let max = self.max_pending.unwrap_or(u64::MAX).min(3);
        let mut handles = Vec::new();
        // Each may need a level of its own, and so may the last one below.
        let most = (MOST_BUCKETS / u64::from(self.slots())).clamp(1, 4) as usize - 1;
        for (n, delay) in (0..).zip(self.delays.iter().take(most)) {
            match engine.schedule(delay.duration(), n) {
                Ok(handle) => handles.push(handle),
                Err(error) => {
                    assert_eq!(error.reason(), ScheduleReason::Full);
                    assert_eq!(error.into_payload(), n);
                    assert!(self.max_pending.is_some());
                }
            }
        }
        if self.is_manual() {
            let moved = engine.advance(Duration::MAX);
            assert_eq!(moved, Ok(fired.try_iter().count()));
            engine.check().expect("every invariant holds");
            assert_eq!(clock.elapsed(), Duration::from_nanos(u64::MAX));
        }
        let pending = handles.into_iter().filter_map(tickless::Handle::take).count();
        assert!(pending as u64 <= max);
        // One that has fired may still be on its way to the handler, and count.
        let begin = std::time::Instant::now();
        while engine.schedule_detached(Duration::ZERO, 9).is_err() {
            assert!(begin.elapsed() < PATIENCE, "there is room again");
            std::thread::yield_now();
        }
        self.expect_one(engine, last, fired);
        assert!(engine.overdue().shards <= engine.shards());
        engine.stop().expect("it is not a task that asks");
        assert_eq!(engine.len(), 0);
        let refused = engine.schedule_detached(Duration::ZERO, 10);
        let refused = refused.expect_err("the engine has stopped");
        assert_eq!(refused.reason(), ScheduleReason::Stopped);
        assert_eq!(refused.into_payload(), 10);
    }

    /// A timer without a delay fires, if its tick comes in a time that one can wait for.
    fn expect_one(&self, engine: &Engine<u8>, last: usize, fired: &mpsc::Receiver<u8>) {
        let tick = self.tick();
        if self.has_threads() {
            assert_eq!(engine.turn(0), Err(TurnError::Driven));
            if tick < Duration::from_millis(20) {
                while fired.recv_timeout(PATIENCE) != Ok(9) {}
            }
        } else if !self.is_manual() {
            assert_eq!(engine.advance(Duration::ZERO), Err(TurnError::NotManual));
            let turn = engine.turn(last).expect("a turn of a shard that is there");
            assert!(turn.fired <= 4);
        }
    }
}

// === impl Threads ===

impl Threads {
    fn set(&self, mut builder: Builder) -> Builder {
        if let Some([min, max]) = self.reapers {
            builder = builder.reapers(min.size() as usize, max.size() as usize);
        }
        if let Some(after) = self.takeover {
            builder = builder.takeover(after.map(Span::duration));
        }
        if let Some(spares) = self.spares {
            builder = builder.spares(spares.into());
        }
        if self.tells_of_stuck {
            builder = builder.on_stuck(|_| ());
        }
        if let Some(before) = self.spin_before {
            builder = builder.spin_before(before.duration());
        }
        if let Some(share) = self.spin_share {
            builder = builder.spin_share(share.into());
        }
        if let Some(timers) = self.exact_below {
            builder = builder.exact_below(timers.size().into());
        }
        match self.crowd {
            Some(timers) => builder.share(timers.size() as usize),
            None => builder,
        }
    }

    fn has_bad_share(&self) -> bool {
        let share = self.spin_share.or(self.precise);
        share.is_some_and(|share| !(0.0..=1.0).contains(&share))
    }

    fn has_bad_reapers(&self) -> bool {
        let bounds = self.reapers.map(|bounds| bounds.map(Size::size));
        bounds.is_some_and(|[min, max]| min == 0 || min > max)
    }
}

// === impl Span ===

impl Span {
    fn duration(self) -> Duration {
        match self {
            Span::Nanos(ns) => Duration::from_nanos(ns.into()),
            Span::Scaled { nanos, shift } => Duration::from_nanos(nanos >> (shift % 64)),
            Span::Seconds(seconds) => Duration::from_secs(seconds),
        }
    }
}

// === impl Size ===

impl Size {
    fn size(self) -> u32 {
        match self {
            Size::Small(size) => size.into(),
            Size::Scaled { size, shift } => size >> (shift % 32),
        }
    }
}
