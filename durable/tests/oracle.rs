//! Random histories of a service, by hand and with crashes, compared with a model.
//!
//! Things happen side by side here as well, though there is one thread: while the store commits or
//! reads, callers call and handlers run, and while a handler runs, the writer writes.
//!
//! The model knows two states: what callers were told, and what was durable at the last batch. A
//! crash takes it back to the second one. Whatever fires has to be alive in the model, due by the
//! wall clock and durable; whatever is due has to fire; and in the end nothing is left.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use proptest::prelude::*;
use tickless_durable::store::{Disk, Fault, Memory};
use tickless_durable::{
    Backoff, Builder, ByHand, Cancelled, DeadLetter, Durable, Firing, Op, Position, Record, Reply,
    Store, StoreError, Ticket, TimerId,
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
    /// Lets the writer write, before or after it has cancelled itself, and fails.
    Write {
        cancels: bool,
    },
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
    /// A handler is called.
    Work,
    /// The writer makes a step, and these happen while the store commits, or else reads.
    Write {
        commits: bool,
        meanwhile: Vec<Step>,
    },
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
        2 => any::<bool>().prop_map(|cancels| Plan::Write { cancels }),
    ]
}

/// What callers and workers do.
fn calls() -> impl Strategy<Value = Step> {
    let key = || proptest::option::weighted(0.5, 0..3_u8);
    prop_oneof![
        10 => (-50..400_i64, key(), plans())
            .prop_map(|(due_in, key, plan)| Step::Schedule { due_in, key, plan }),
        3 => any::<prop::sample::Index>().prop_map(Step::Cancel),
        2 => (0..3_u8).prop_map(Step::CancelKey),
        4 => Just(Step::Work),
    ]
}

fn steps() -> impl Strategy<Value = Step> {
    let fault = || prop_oneof![Just(None), Just(Some(Fault::Lost)), Just(Some(Fault::Kept))];
    let meanwhile = || proptest::collection::vec(calls(), 0..4);
    prop_oneof![
        16 => calls(),
        6 => (any::<bool>(), meanwhile())
            .prop_map(|(commits, meanwhile)| Step::Write { commits, meanwhile }),
        4 => (1..200_u64).prop_map(Step::Advance),
        1 => (1..200_u64).prop_map(Step::AdvanceEngine),
        2 => (-300..300_i64).prop_map(Step::SetWall),
        4 => Just(Step::Drain),
        2 => fault().prop_map(Step::Die),
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
    /// What the batch comes to that is being written.
    in_flight: Option<View>,
    scheduled: u64,
    fired: BTreeSet<u64>,
    process: u32,
    now_ms: u64,
    tickets: Vec<(u64, Ticket)>,
    cancels: Vec<(Cancelled, Reply<Cancelled>)>,
    violation: Option<String>,
}

/// A state that is on its way to the store, and who waits for that.
struct Snapshot {
    told: View,
    tickets: Vec<(u64, Ticket)>,
    cancels: Vec<(Cancelled, Reply<Cancelled>)>,
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
    /// What is about to be written.
    fn snapshot(&mut self) -> Snapshot {
        let tickets = std::mem::take(&mut self.tickets);
        self.in_flight = Some(self.told.clone());
        Snapshot { told: self.told.clone(), tickets, cancels: std::mem::take(&mut self.cancels) }
    }

    /// It is durable now.
    fn written(&mut self, snapshot: Snapshot) {
        for (number, ticket) in snapshot.tickets {
            match ticket.try_get() {
                Some(Ok(id)) => assert_eq!(id, ticket.id()),
                Some(Err(_)) => {
                    let is_alive = snapshot.told.alive.contains_key(&number);
                    assert!(!is_alive, "{number} was not written");
                }
                None => panic!("{number} is neither durable nor refused"),
            }
        }
        for (expected, reply) in snapshot.cancels {
            assert_eq!(reply.try_get().expect("it was written").expect("it worked"), expected);
        }
        self.durable = snapshot.told;
    }

    /// The process is dead.
    fn died(&mut self) {
        self.in_flight = None;
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
    fn begin(&mut self, firing: &Firing<Vec<u8>>) -> (u64, Timer) {
        let number = number_of(firing.payload());
        let now_ms = self.now_ms;
        let timer = self.told.alive.get(&number);
        let timer = timer.unwrap_or_else(|| panic!("{number} fires, and is over")).clone();
        assert!(timer.due_ms <= now_ms, "{number} is early: {timer:?} at {now_ms}");
        assert!(self.durable.alive.contains_key(&number), "{number} fires, and is not durable");
        assert_eq!((firing.id(), firing.attempt()), (timer.id, timer.attempt));
        let is_repeat = !self.fired.insert(number);
        assert!(firing.may_be_repeat() || !is_repeat, "{number} comes again as if it did not");
        assert!(firing.may_be_repeat() == (timer.attempt > 1 || timer.process < self.process));
        (number, timer)
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

fn number_of(payload: &[u8]) -> u64 {
    u64::from_le_bytes(payload.try_into().expect("it is a number"))
}

// === what happens side by side ===

type Service = ByHand<Vec<u8>, Hooked>;
type Hook = Box<dyn FnOnce() + Send>;

/// A store with something that happens in the middle of a commit or of a reading.
struct Hooked {
    store: Memory,
    hooks: Arc<Mutex<Hooks>>,
    model: Arc<Mutex<Model>>,
}

#[derive(Default)]
struct Hooks {
    commit: Option<Hook>,
    scan: Option<Hook>,
}

impl Store for Hooked {
    fn begin(&mut self) -> Result<u64, StoreError> {
        self.store.begin()
    }

    fn commit(&mut self, batch: &[Op]) -> Result<Vec<Option<Position>>, StoreError> {
        let result = self.store.commit(batch);
        if result.is_ok() {
            let mut model = self.model.lock().unwrap();
            model.durable = model.in_flight.take().expect("a batch is written");
        }
        let hook = self.hooks.lock().unwrap().commit.take();
        hook.into_iter().for_each(|hook| hook());
        result
    }

    fn scan(&mut self, after: Option<Position>, limit: usize) -> Result<Vec<Record>, StoreError> {
        let result = self.store.scan(after, limit);
        let hook = self.hooks.lock().unwrap().scan.take();
        hook.into_iter().for_each(|hook| hook());
        result
    }

    fn dead_letters(
        &mut self,
        after: Option<Position>,
        limit: usize,
    ) -> Result<Vec<DeadLetter>, StoreError> {
        self.store.dead_letters(after, limit)
    }
}

/// What calls and handlers need.
#[derive(Clone)]
struct Shared {
    model: Arc<Mutex<Model>>,
    /// Locked while the writer makes a step.
    service: Arc<Mutex<Option<Service>>>,
}

impl Shared {
    fn model(&self) -> MutexGuard<'_, Model> {
        self.model.lock().unwrap()
    }

    /// The handler.
    fn fire(&self, firing: &Firing<Vec<u8>>) -> Result<(), String> {
        let mut model = self.model();
        let (number, timer) = model.begin(firing);
        let timers = firing.timers();
        let result = match timer.plan {
            Plan::Succeed => Ok(()),
            Plan::Fail(times) if timer.attempt > times => Ok(()),
            Plan::Fail(_) => Err("on purpose".to_owned()),
            Plan::CancelItself => {
                model.cancel(timers, number, timer.id, Some(number));
                Err("cancelled".to_owned())
            }
            Plan::CancelKey(key) => {
                model.cancel_key(timers, key, Some(number));
                Ok(())
            }
            Plan::Replace(key) => {
                let due_ms = model.now_ms + 10;
                model.schedule(timers, due_ms, Some(key), Plan::Succeed);
                Err("replaced".to_owned())
            }
            Plan::Write { cancels } => {
                if cancels {
                    model.cancel(timers, number, timer.id, Some(number));
                }
                drop(model);
                self.write();
                model = self.model();
                Err("written".to_owned())
            }
        };
        model.finish(number, &result);
        result
    }

    /// A step of the writer, unless it is in the middle of one.
    fn write(&self) {
        let Ok(mut service) = self.service.try_lock() else { return };
        let snapshot = self.model().snapshot();
        service.as_mut().expect("a service is open").step().unwrap();
        self.model().written(snapshot);
    }

    /// What callers and workers do.
    fn call(&self, timers: &Durable, work: &(dyn Fn() -> bool + Send), step: &Step) {
        let mut model = self.model();
        match *step {
            Step::Schedule { due_in, key, plan } => {
                let due_ms = model.now_ms.checked_add_signed(due_in).unwrap();
                model.schedule(timers, due_ms, key, plan);
            }
            Step::Cancel(index) if model.scheduled > 0 => {
                let number = index.index(model.scheduled as usize) as u64;
                let id = model.told.alive.get(&number).map(|timer| timer.id);
                let Some(id) = id else { return };
                model.cancel(timers, number, id, None);
            }
            Step::CancelKey(key) => model.cancel_key(timers, key, None),
            Step::Work => {
                drop(model);
                work();
            }
            _ => {}
        }
    }
}

// === a run ===

struct World {
    disk: Disk,
    shared: Shared,
    hooks: Arc<Mutex<Hooks>>,
    window: usize,
    span: Duration,
}

impl World {
    fn new(window: usize, span_ms: u64) -> World {
        let world = World {
            disk: Disk::default(),
            shared: Shared { model: Arc::default(), service: Arc::default() },
            hooks: Arc::default(),
            window,
            span: Duration::from_millis(span_ms),
        };
        world.model().now_ms = 1_000_000;
        world.open();
        world
    }

    fn model(&self) -> MutexGuard<'_, Model> {
        self.shared.model()
    }

    fn with<T>(&self, call: impl FnOnce(&mut Service) -> T) -> T {
        call(self.shared.service.lock().unwrap().as_mut().expect("a service is open"))
    }

    fn timers(&self) -> Durable {
        self.with(|service| service.timers().clone())
    }

    fn worker(&self) -> Box<dyn Fn() -> bool + Send> {
        Box::new(self.with(|service| service.worker()))
    }

    fn open(&self) {
        let now = {
            let mut model = self.model();
            model.process += 1;
            UNIX_EPOCH + Duration::from_millis(model.now_ms)
        };
        *self.hooks.lock().unwrap() = Hooks::default();
        let store = Hooked {
            store: self.disk.open(),
            hooks: self.hooks.clone(),
            model: self.shared.model.clone(),
        };
        let shared = self.shared.clone();
        let service = Builder::new()
            .window(self.window)
            .span(self.span)
            .attempts(ATTEMPTS)
            .backoff(Backoff::new(Duration::from_millis(PAUSE_MS)).factor(1.0))
            .open_by_hand(store, now, move |firing: &Firing<Vec<u8>>| {
                // The service would take a panic for a failed attempt.
                let fired = catch_unwind(AssertUnwindSafe(|| shared.fire(firing)));
                fired.unwrap_or_else(|panic| {
                    let mut model = shared.model.lock().unwrap_or_else(PoisonError::into_inner);
                    let text = panic.downcast::<String>().expect("it has a text");
                    model.violation.get_or_insert(*text);
                    Err("a violation".to_owned())
                })
            });
        *self.shared.service.lock().unwrap() = Some(service.unwrap());
    }

    /// Handles all that is due, and sees that nothing is left out.
    fn drain(&self) {
        let (timers, work) = (self.timers(), self.worker());
        loop {
            let before = timers.stats();
            self.shared.write();
            self.with(|service| service.set_wall(service.now()));
            while work() {}
            if timers.stats() == before {
                break;
            }
        }
        let model = self.model();
        let is_late = |timer: &&Timer| timer.due_ms + GRAIN_MS <= model.now_ms;
        let late: Vec<&Timer> = model.durable.alive.values().filter(is_late).collect();
        assert!(late.is_empty(), "at {} these have not fired: {late:?}", model.now_ms);
    }

    fn die(&self, fault: Option<Fault>) {
        if let Some(fault) = fault {
            self.disk.fail_next(fault);
            let timers = self.timers();
            // A batch without anything in it is not written.
            drop(self.model().snapshot());
            let result = self.with(|service| service.step());
            if result.is_ok() || fault == Fault::Kept {
                let mut model = self.model();
                model.durable = model.told.clone();
            }
            if result.is_err() {
                assert!(timers.failure().is_some());
                assert!(timers.schedule(UNIX_EPOCH, vec![]).is_err());
                assert!(!self.worker()());
            }
        }
        self.model().died();
        self.open();
    }

    fn run(&self, step: &Step) {
        match step {
            Step::Advance(ms) => {
                self.model().now_ms += ms;
                self.with(|service| service.advance(Duration::from_millis(*ms)));
            }
            Step::AdvanceEngine(ms) => {
                self.with(|service| service.advance_engine(Duration::from_millis(*ms)));
            }
            Step::SetWall(by) => {
                let mut model = self.model();
                model.now_ms = model.now_ms.checked_add_signed(*by).unwrap();
                let now = UNIX_EPOCH + Duration::from_millis(model.now_ms);
                drop(model);
                self.with(|service| service.set_wall(now));
            }
            Step::Write { commits, meanwhile } => {
                let (shared, meanwhile) = (self.shared.clone(), meanwhile.clone());
                let (timers, work) = (self.timers(), self.worker());
                let hook: Hook = Box::new(move || {
                    meanwhile.iter().for_each(|step| shared.call(&timers, &work, step));
                });
                {
                    let mut hooks = self.hooks.lock().unwrap();
                    let place = if *commits { &mut hooks.commit } else { &mut hooks.scan };
                    *place = Some(hook);
                }
                self.shared.write();
                *self.hooks.lock().unwrap() = Hooks::default();
            }
            Step::Drain => self.drain(),
            Step::Die(fault) => self.die(*fault),
            Step::Reopen => {
                let service = self.shared.service.lock().unwrap().take();
                let snapshot = self.model().snapshot();
                drop(service.expect("a service is open").stop().unwrap());
                self.model().written(snapshot);
                self.open();
            }
            call => self.shared.call(&self.timers(), &self.worker(), call),
        }
        let violation = self.shared.model.lock().unwrap_or_else(PoisonError::into_inner);
        assert_eq!(violation.violation, None);
    }

    /// Waits for everything, and sees that all of it is over.
    fn end(&self) {
        for _ in 0..30 {
            self.run(&Step::Advance(200));
            self.run(&Step::Drain);
            if self.disk.timers().is_empty() {
                break;
            }
        }
        let timers = self.disk.timers();
        assert!(timers.is_empty(), "left in the store: {timers:?}");
        let model = self.model();
        assert!(model.told.alive.is_empty(), "left in the model: {:?}", model.told);
        let letters = self.disk.open().dead_letters(None, usize::MAX).unwrap();
        let dead = letters.iter().map(|letter| number_of(&letter.record.payload));
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
        let world = World::new(window, span_ms);
        steps.iter().for_each(|step| world.run(step));
        world.end();
    }
}

#[test]
fn time_is_counted_from_the_clock_that_is_set() {
    let now = World::new(10, 1000).with(|service| service.now());
    assert_eq!(now, SystemTime::UNIX_EPOCH + Duration::from_secs(1000));
}
