//! Periodics against a naive list, through random histories on a manual clock: schedules of every
//! kind, tasks that take time, cancels from outside and inside, leaps of the clock.
//!
//! Within a tick the order is open, so runs are judged in the order in which they say that they
//! ran. All else must be as the list says: which runs there were, for which deadline and on which
//! tick, what each was told, what each cancel answered, and what is pending after every step.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use proptest::collection::vec;
use proptest::prelude::*;
use support::hold::hold;
use tickless::periodic::{Periodic, Run, Schedule};
use tickless::{Engine, ManualClock};

const CASES: u64 = 300;

const STEPS: usize = 60;

/// What is asked of an engine.
#[derive(Clone, Debug)]
enum Op {
    Start(Plan),
    Cancel { pick: u16 },
    Advance { ns: u32 },
    Leap { ns: u32 },
}

/// A periodic.
#[derive(Clone, Debug)]
struct Plan {
    kind: Kind,
    period_ns: u32,
    first_ns: Option<u32>,
    /// How long its runs take, from the first on; others take no time.
    takes_ns: Vec<u32>,
    /// The run in which it is cancelled.
    cancels_in: u64,
}

#[derive(Clone, Copy, Debug)]
enum Kind {
    Rate,
    CatchUp,
    Delay,
    /// Until so many runs are over.
    From(u8),
}

/// What a run says of itself.
#[derive(Clone, Copy, Debug)]
struct Said {
    who: usize,
    number: u64,
    missed: u64,
    deadline_ns: u64,
    began_ns: u64,
    ended_ns: u64,
}

/// How a periodic ought to be.
#[derive(Debug)]
struct Naive {
    plan: Plan,
    /// `None`: it is over.
    due_ns: Option<u64>,
    runs: u64,
    missed: u64,
}

struct World {
    tick_ns: u64,
    clock: ManualClock,
    engine: Engine,
    log: Arc<Mutex<Vec<Said>>>,
    all: Vec<(Periodic, Naive)>,
    /// When somebody moved the clock last, but for the engine.
    moved_ns: u64,
}

// === impl Naive ===

impl Naive {
    fn new(plan: &Plan, now_ns: u64) -> Naive {
        let first_ns = plan.first_ns.unwrap_or(plan.period_ns);
        let due_ns = Some(now_ns + u64::from(first_ns));
        Naive { plan: plan.clone(), due_ns, runs: 0, missed: 0 }
    }

    /// It has run, from when it was due to this time.
    fn has_run(&mut self, ended_ns: u64, tick_ns: u64) {
        let (due_ns, period_ns) = (self.due_ns.unwrap(), u64::from(self.plan.period_ns));
        self.runs += 1;
        let mut next_ns = due_ns + period_ns;
        let is_last = match self.plan.kind {
            Kind::Rate => {
                // Where several times share a tick, one of them has a run.
                let is_fine = period_ns < tick_ns;
                while next_ns < ended_ns || is_fine && next_ns == ended_ns {
                    next_ns += period_ns;
                    self.missed += u64::from(self.runs != self.plan.cancels_in);
                }
                false
            }
            Kind::CatchUp => false,
            Kind::Delay => {
                next_ns = ended_ns + period_ns;
                false
            }
            Kind::From(runs) => self.runs > u64::from(runs),
        };
        self.due_ns = Some(next_ns).filter(|_| !is_last && self.runs != self.plan.cancels_in);
    }
}

// === impl World ===

impl World {
    fn new(tick_ns: u64) -> World {
        let clock = ManualClock::new();
        let builder = Engine::builder().tick(Duration::from_nanos(tick_ns)).shards(2);
        let engine = builder.manual_clock(&clock).build().unwrap();
        World { tick_ns, clock, engine, log: Arc::default(), all: Vec::new(), moved_ns: 0 }
    }

    fn now_ns(&self) -> u64 {
        self.clock.elapsed().as_nanos() as u64
    }

    fn step(&mut self, op: &Op) {
        match op {
            Op::Start(plan) => self.start(plan),
            Op::Cancel { pick } => self.cancel(*pick),
            Op::Advance { ns } => {
                self.engine.advance(Duration::from_nanos(u64::from(*ns))).unwrap();
            }
            Op::Leap { ns } => {
                self.clock.advance(Duration::from_nanos(u64::from(*ns)));
                self.moved_ns = self.now_ns();
                self.engine.advance(Duration::ZERO).unwrap();
            }
        }
        // What a start leaves due at once.
        self.engine.advance(Duration::ZERO).unwrap();
        self.judge();
        self.compare();
    }

    fn start(&mut self, plan: &Plan) {
        let period = Duration::from_nanos(u64::from(plan.period_ns));
        let schedule = match plan.kind {
            Kind::Rate => Schedule::fixed_rate(period),
            Kind::CatchUp => Schedule::fixed_rate(period).catching_up(),
            Kind::Delay => Schedule::fixed_delay(period),
            Kind::From(runs) => {
                // The first answer is for the first run, where no time was chosen for that.
                let mut left = u64::from(runs) + u64::from(plan.first_ns.is_none());
                Schedule::from_fn(move |last| {
                    left = left.checked_sub(1)?;
                    Some(last + period)
                })
            }
        };
        let first = plan.first_ns.map(|ns| Duration::from_nanos(u64::from(ns)));
        let schedule = match first {
            None => schedule,
            Some(first) if first.as_nanos() % 2 == 0 => schedule.starting(first),
            Some(first) => schedule.starting(self.engine.now() + first),
        };
        let (log, clock, plan_of_task) = (self.log.clone(), self.clock.clone(), plan.clone());
        let (who, begin) = (self.all.len(), self.engine.now() - self.clock.elapsed());
        let task = move |run: &Run| {
            let began_ns = clock.elapsed().as_nanos() as u64;
            let takes = plan_of_task.takes_ns.get(run.number() as usize - 1);
            clock.advance(Duration::from_nanos(takes.copied().unwrap_or(0).into()));
            if run.number() == plan_of_task.cancels_in {
                assert!(run.cancel());
            }
            log.lock().unwrap().push(Said {
                who,
                number: run.number(),
                missed: run.missed(),
                deadline_ns: (run.deadline() - begin).as_nanos() as u64,
                began_ns,
                ended_ns: clock.elapsed().as_nanos() as u64,
            });
        };
        let periodic = schedule.start(&self.engine, task).unwrap();
        self.all.push((periodic, Naive::new(plan, self.now_ns())));
    }

    fn cancel(&mut self, pick: u16) {
        let many = self.all.len();
        let Some((periodic, naive)) = self.all.get_mut(usize::from(pick) % many.max(1)) else {
            return;
        };
        assert_eq!(periodic.cancel(), naive.due_ns.take().is_some());
    }

    fn tick_at(&self, ns: u64) -> u64 {
        ns.div_ceil(self.tick_ns) * self.tick_ns
    }

    /// Looks at what ran since the last time.
    fn judge(&mut self) {
        for said in std::mem::take(&mut *self.log.lock().unwrap()) {
            let due_ns = self.all[said.who].1.due_ns.expect("what is over does not run");
            let tick_ns = self.tick_at(due_ns);
            assert_eq!(said.deadline_ns, due_ns, "{said:?}");
            assert!(said.began_ns >= tick_ns, "early: {said:?}");
            let is_late = said.began_ns > tick_ns;
            assert!(!is_late || said.began_ns == self.moved_ns, "late by the engine: {said:?}");
            if said.ended_ns > said.began_ns {
                self.moved_ns = said.ended_ns;
            }
            let naive = &mut self.all[said.who].1;
            assert_eq!((said.number, said.missed), (naive.runs + 1, naive.missed));
            naive.has_run(said.ended_ns, self.tick_ns);
        }
    }

    /// Nothing that is due is left, and everything is as the list says.
    fn compare(&self) {
        let now_ns = self.now_ns();
        let mut pending = 0;
        for (periodic, naive) in &self.all {
            assert_eq!((periodic.runs(), periodic.missed()), (naive.runs, naive.missed));
            assert_eq!(periodic.is_running(), naive.due_ns.is_some(), "{naive:?}");
            let Some(due_ns) = naive.due_ns else { continue };
            pending += 1;
            let from_now = Duration::from_nanos(due_ns.saturating_sub(now_ns));
            assert!(self.tick_at(due_ns) > now_ns, "left over: {naive:?}");
            // What was due within the present tick is still to come.
            let is_past = due_ns < now_ns;
            assert!(is_past || periodic.next_deadline() == Some(self.engine.now() + from_now));
        }
        assert_eq!((self.engine.len(), self.engine.stats().panicked), (pending, 0));
    }
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        3 => plan().prop_map(Op::Start),
        2 => any::<u16>().prop_map(|pick| Op::Cancel { pick }),
        4 => (0..20_000_u32).prop_map(|ns| Op::Advance { ns }),
        1 => (0..30_000_u32).prop_map(|ns| Op::Leap { ns }),
    ]
}

fn plan() -> impl Strategy<Value = Plan> {
    let kind = prop_oneof![
        3 => Just(Kind::Rate),
        1 => Just(Kind::CatchUp),
        2 => Just(Kind::Delay),
        2 => (0..9_u8).prop_map(Kind::From),
    ];
    let takes = vec(prop_oneof![2 => Just(0), 1 => 1..9_000_u32], 0..4);
    let first = proptest::option::of(0..9_000_u32);
    (kind, 200..9_000_u32, first, takes, 0..20_u64).prop_map(
        |(kind, period_ns, first_ns, takes_ns, cancels_in)| Plan {
            kind,
            period_ns,
            first_ns,
            takes_ns,
            cancels_in,
        },
    )
}

#[test]
fn periodics_run_as_a_naive_list_says() {
    let case = (prop_oneof![Just(1_u64), Just(700), Just(1000), 1..3_000_u64], vec(op(), 1..STEPS));
    hold("a history", CASES, case, |(tick_ns, ops)| {
        let mut world = World::new(*tick_ns);
        ops.iter().for_each(|op| world.step(op));
        // To an end: nothing is left over.
        world.engine.advance(Duration::from_micros(50)).unwrap();
        world.judge();
        world.compare();
        for (periodic, naive) in &world.all {
            assert_eq!(periodic.cancel(), naive.due_ns.is_some());
        }
        assert!(world.engine.is_empty());
    });
}
