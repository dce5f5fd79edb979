//! Random histories of a service, by hand and with crashes, compared with a model.
//!
//! The model knows two states: what callers were told, and what was durable at the last batch. A
//! crash takes it back to the second one. Whatever fires has to be alive in the model, due by the
//! wall clock and durable; whatever is due has to fire; and in the end nothing is left.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use proptest::prelude::*;
use tickless_durable::store::{Disk, Fault, Memory};
use tickless_durable::{
    Backoff, Builder, ByHand, Cancelled, Durable, Firing, Reply, Store, Ticket, TimerId,
};

/// How often a timer is tried, and the pause between two attempts.
const ATTEMPTS: u32 = 3;
const PAUSE_MS: u64 = 40;

/// How late a timer may be after a step of the clock: the grain of the service's alarm.
const GRAIN_MS: u64 = 100;

/// What the handler does with a timer.
#[derive(Clone, Copy, Debug)]
enum Plan {
    Succeed,
    /// Fails that often, then succeeds.
    Fail(u32),
    /// Cancels itself, and fails.
    CancelItself,
    /// Cancels the timer with that key, and succeeds.
    CancelKey(u8),
    /// Schedules another one under that key, which succeeds, and fails itself.
    Replace(u8),
}

#[derive(Clone, Debug)]
enum Step {
    Schedule {
        due_in: i64,
        key: Option<u8>,
        plan: Plan,
    },
    Cancel(prop::sample::Index),
    CancelKey(u8),
    /// The writer makes a step.
    Write,
    /// Time passes by both clocks, or by the engine's alone, or the wall clock is set.
    Advance(u64),
    AdvanceEngine(u64),
    SetWall(i64),
    /// Everything that is due is handled.
    Drain,
    /// The process dies: before a batch, or in the middle of one that is lost or kept.
    Die(Option<Fault>),
    /// The service stops and is opened again.
    Reopen,
}

fn plans() -> impl Strategy<Value = Plan> {
    prop_oneof![
        6 => Just(Plan::Succeed),
        3 => (1..=ATTEMPTS).prop_map(Plan::Fail),
        1 => Just(Plan::CancelItself),
        1 => (0..3_u8).prop_map(Plan::CancelKey),
        1 => (0..3_u8).prop_map(Plan::Replace),
    ]
}

fn steps() -> impl Strategy<Value = Step> {
    let key = || proptest::option::weighted(0.5, 0..3_u8);
    prop_oneof![
        10 => (-50..400_i64, key(), plans())
            .prop_map(|(due_in, key, plan)| Step::Schedule { due_in, key, plan }),
        3 => any::<prop::sample::Index>().prop_map(Step::Cancel),
        2 => (0..3_u8).prop_map(Step::CancelKey),
        6 => Just(Step::Write),
        4 => (1..200_u64).prop_map(Step::Advance),
        1 => (1..200_u64).prop_map(Step::AdvanceEngine),
        2 => (-300..300_i64).prop_map(Step::SetWall),
        4 => Just(Step::Drain),
        2 => prop_oneof![
            Just(None), Just(Some(Fault::Lost)), Just(Some(Fault::Kept))
        ].prop_map(Step::Die),
        1 => Just(Step::Reopen),
    ]
}

// === the model ===

#[derive(Clone, Debug)]
struct Timer {
    id: TimerId,
    due_ms: u64,
    attempt: u32,
    key: Option<u8>,
    plan: Plan,
    /// Which process has scheduled it.
    process: u32,
}

/// Timers by the number in their payloads.
#[derive(Clone, Debug, Default)]
struct View {
    alive: BTreeMap<u64, Timer>,
    keys: HashMap<u8, u64>,
    dead: BTreeSet<u64>,
}

#[derive(Default)]
struct Model {
    told: View,
    durable: View,
    scheduled: u64,
    fired: BTreeSet<u64>,
    process: u32,
    now_ms: u64,
    tickets: Vec<(u64, Ticket)>,
    cancels: Vec<(Cancelled, Reply<Cancelled>)>,
    violation: Option<String>,
}

impl View {
    fn take(&mut self, number: u64) -> Option<Timer> {
        let timer = self.alive.remove(&number)?;
        if let Some(key) = timer.key {
            self.keys.remove(&key);
        }
        Some(timer)
    }

    fn take_key(&mut self, key: u8) -> Option<Timer> {
        let number = *self.keys.get(&key)?;
        self.take(number)
    }
}

impl Model {
    /// What was told is durable now.
    fn written(&mut self) {
        self.durable = self.told.clone();
        for (number, ticket) in self.tickets.drain(..) {
            match ticket.try_get() {
                Some(Ok(id)) => assert_eq!(id, ticket.id()),
                Some(Err(_)) => {
                    assert!(!self.told.alive.contains_key(&number), "{number} was not written");
                }
                None => panic!("{number} is neither durable nor refused"),
            }
        }
        for (expected, reply) in self.cancels.drain(..) {
            assert_eq!(reply.try_get().expect("it was written").expect("it worked"), expected);
        }
    }

    /// The process is dead.
    fn died(&mut self) {
        self.told = self.durable.clone();
        self.tickets.clear();
        self.cancels.clear();
    }

    fn schedule(&mut self, timers: &Durable, due_ms: u64, key: Option<u8>, plan: Plan) {
        let number = self.scheduled;
        self.scheduled += 1;
        let due = UNIX_EPOCH + Duration::from_millis(due_ms);
        let payload = number.to_le_bytes().to_vec();
        let ticket = match key {
            Some(key) => timers.schedule_keyed([key], due, payload),
            None => timers.schedule(due, payload),
        };
        let ticket = ticket.expect("the service runs");
        if let Some(key) = key {
            self.told.take_key(key);
            self.told.keys.insert(key, number);
        }
        let (id, process) = (ticket.id(), self.process);
        let timer = Timer { id, due_ms, attempt: 1, key, plan, process };
        self.told.alive.insert(number, timer);
        self.tickets.push((number, ticket));
    }

    /// `running` is the timer whose handler makes this call.
    fn cancel(&mut self, timers: &Durable, number: u64, id: TimerId, running: Option<u64>) {
        let reply = timers.cancel(id);
        let taken = self.told.take(number).map(|_| number);
        self.cancels.push((expected(taken, running), reply));
    }

    fn cancel_key(&mut self, timers: &Durable, key: u8, running: Option<u64>) {
        let reply = timers.cancel_key([key]);
        let holder = self.told.keys.get(&key).copied();
        self.told.take_key(key);
        self.cancels.push((expected(holder, running), reply));
    }

    /// A handler is called.
    fn fire(&mut self, firing: &Firing<Vec<u8>>) -> Result<(), String> {
        let bytes = firing.payload().as_slice().try_into().expect("it is a number");
        let number = u64::from_le_bytes(bytes);
        let now_ms = self.now_ms;
        let timer = self.told.alive.get(&number);
        let timer = timer.unwrap_or_else(|| panic!("{number} fires, and is over")).clone();
        assert!(timer.due_ms <= now_ms, "{number} is early: {timer:?} at {now_ms}");
        assert!(self.durable.alive.contains_key(&number), "{number} fires, and is not durable");
        assert_eq!((firing.id(), firing.attempt()), (timer.id, timer.attempt));
        let is_repeat = !self.fired.insert(number);
        assert!(firing.may_be_repeat() || !is_repeat, "{number} comes again as if it did not");
        assert!(firing.may_be_repeat() == (timer.attempt > 1 || timer.process < self.process));
        let timers = firing.timers();
        let result = match timer.plan {
            Plan::Succeed => Ok(()),
            Plan::Fail(times) if timer.attempt > times => Ok(()),
            Plan::Fail(_) => Err("on purpose".to_owned()),
            Plan::CancelItself => {
                self.cancel(timers, number, timer.id, Some(number));
                Err("cancelled".to_owned())
            }
            Plan::CancelKey(key) => {
                self.cancel_key(timers, key, Some(number));
                Ok(())
            }
            Plan::Replace(key) => {
                self.schedule(timers, now_ms + 10, Some(key), Plan::Succeed);
                Err("replaced".to_owned())
            }
        };
        self.finish(number, &result);
        result
    }

    fn finish(&mut self, number: u64, result: &Result<(), String>) {
        // It may have cancelled or replaced itself.
        let Some(timer) = self.told.alive.get_mut(&number) else { return };
        if result.is_ok() {
            self.told.take(number);
        } else if timer.attempt == ATTEMPTS {
            self.told.take(number);
            self.told.dead.insert(number);
        } else {
            timer.attempt += 1;
            timer.due_ms = self.now_ms + PAUSE_MS;
        }
    }
}

fn expected(taken: Option<u64>, running: Option<u64>) -> Cancelled {
    match taken {
        None => Cancelled::NotFound,
        Some(_) if taken == running => Cancelled::Running,
        Some(_) => Cancelled::Cancelled,
    }
}

// === a run ===

type Service = ByHand<Vec<u8>, Memory>;

struct World {
    disk: Disk,
    model: Arc<Mutex<Model>>,
    service: Option<Service>,
    window: usize,
    span: Duration,
}

impl World {
    fn new(window: usize, span_ms: u64) -> World {
        let mut world = World {
            disk: Disk::default(),
            model: Arc::default(),
            service: None,
            window,
            span: Duration::from_millis(span_ms),
        };
        world.model().now_ms = 1_000_000;
        world.open();
        world
    }

    fn model(&self) -> MutexGuard<'_, Model> {
        self.model.lock().unwrap()
    }

    fn service(&mut self) -> &mut Service {
        self.service.as_mut().expect("a service is open")
    }

    fn open(&mut self) {
        self.service = None;
        let now = {
            let mut model = self.model();
            model.process += 1;
            UNIX_EPOCH + Duration::from_millis(model.now_ms)
        };
        let model = self.model.clone();
        let service = Builder::new()
            .window(self.window)
            .span(self.span)
            .attempts(ATTEMPTS)
            .backoff(Backoff::new(Duration::from_millis(PAUSE_MS)).factor(1.0))
            .open_by_hand(self.disk.open(), now, move |firing: &Firing<Vec<u8>>| {
                let mut model = model.lock().unwrap();
                // The service would take it for a failed attempt.
                let fired = catch_unwind(AssertUnwindSafe(|| model.fire(firing)));
                fired.unwrap_or_else(|panic| {
                    model.violation = Some(*panic.downcast::<String>().expect("it has a text"));
                    Err("a violation".to_owned())
                })
            });
        self.service = Some(service.unwrap());
    }

    fn write(&mut self) {
        self.service().step().unwrap();
        self.model().written();
    }

    /// Handles all that is due, and sees that nothing is left out.
    fn drain(&mut self) {
        loop {
            let before = self.service().timers().stats();
            self.write();
            let now = self.service().now();
            self.service().set_wall(now);
            while self.service().work_once() {}
            assert_eq!(self.model().violation, None);
            if self.service().timers().stats() == before {
                break;
            }
        }
        let model = self.model();
        let is_late = |timer: &&Timer| timer.due_ms + GRAIN_MS <= model.now_ms;
        let late: Vec<&Timer> = model.durable.alive.values().filter(is_late).collect();
        assert!(late.is_empty(), "at {} these have not fired: {late:?}", model.now_ms);
    }

    fn die(&mut self, fault: Option<Fault>) {
        if let Some(fault) = fault {
            self.disk.fail_next(fault);
            // A batch without anything in it is not written.
            let result = self.service().step();
            if result.is_ok() || fault == Fault::Kept {
                let mut model = self.model();
                model.durable = model.told.clone();
            }
            if result.is_err() {
                assert!(self.service().timers().failure().is_some());
                assert!(self.service().timers().schedule(UNIX_EPOCH, vec![]).is_err());
                assert!(!self.service().work_once());
            }
        }
        self.model().died();
        self.open();
    }

    fn run(&mut self, step: Step) {
        let model = self.model.clone();
        let mut model = model.lock().unwrap();
        match step {
            Step::Schedule { due_in, key, plan } => {
                let due_ms = model.now_ms.strict_add_signed(due_in);
                model.schedule(self.service().timers(), due_ms, key, plan);
            }
            Step::Cancel(index) if model.scheduled > 0 => {
                let number = index.index(model.scheduled as usize) as u64;
                let id = model.told.alive.get(&number).map(|timer| timer.id);
                let Some(id) = id else { return };
                model.cancel(self.service().timers(), number, id, None);
            }
            Step::Cancel(_) => {}
            Step::CancelKey(key) => model.cancel_key(self.service().timers(), key, None),
            Step::Advance(ms) => {
                model.now_ms += ms;
                drop(model);
                self.service().advance(Duration::from_millis(ms));
            }
            Step::AdvanceEngine(ms) => {
                drop(model);
                self.service().advance_engine(Duration::from_millis(ms));
            }
            Step::SetWall(by) => {
                model.now_ms = model.now_ms.strict_add_signed(by);
                let now = UNIX_EPOCH + Duration::from_millis(model.now_ms);
                drop(model);
                self.service().set_wall(now);
            }
            Step::Write => {
                drop(model);
                self.write();
            }
            Step::Drain => {
                drop(model);
                self.drain();
            }
            Step::Die(fault) => {
                drop(model);
                self.die(fault);
            }
            Step::Reopen => {
                drop(model);
                let service = self.service.take().expect("a service is open");
                drop(service.stop().unwrap());
                self.model().written();
                self.open();
            }
        }
    }

    /// Waits for everything, and sees that all of it is over.
    fn end(&mut self) {
        for _ in 0..30 {
            self.run(Step::Advance(200));
            self.drain();
            if self.disk.timers().is_empty() {
                break;
            }
        }
        let timers = self.disk.timers();
        assert!(timers.is_empty(), "left in the store: {timers:?}");
        let model = self.model();
        assert!(model.told.alive.is_empty(), "left in the model: {:?}", model.told);
        let letters = self.disk.open().dead_letters(None, usize::MAX).unwrap();
        let number = |bytes: &[u8]| u64::from_le_bytes(bytes.try_into().unwrap());
        let dead = letters.iter().map(|letter| number(&letter.record.payload));
        assert_eq!(dead.collect::<BTreeSet<_>>(), model.durable.dead);
    }
}

fn cases() -> u32 {
    let scale = std::env::var("TICKLESS_TEST_SCALE").ok().and_then(|scale| scale.parse().ok());
    (1000.0 * scale.unwrap_or(1.0_f64)) as u32
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: cases(),
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn whatever_is_durable_fires_in_time_and_nothing_else_does(
        window in prop_oneof![Just(1_usize), Just(3), Just(1000)],
        span_ms in prop_oneof![Just(0_u64), Just(120), Just(3_600_000)],
        steps in proptest::collection::vec(steps(), 1..80),
    ) {
        let mut world = World::new(window, span_ms);
        for step in steps {
            world.run(step);
        }
        world.end();
    }
}

#[test]
fn time_is_counted_from_the_clock_that_is_set() {
    let mut world = World::new(10, 1000);
    assert_eq!(world.service().now(), SystemTime::UNIX_EPOCH + Duration::from_secs(1000));
}
