//! Each call of the engine and its doors in the middle of each other one: at each access to shared
//! memory that a call makes, another thread makes the other call (`meanwhile`). Then time goes on
//! until all is over.
//!
//! Whatever the order, each payload runs at most once and not early, each is gone in the end, who
//! waits is woken, and nothing is left pending. And some calls are lock-free (`Meets::Nobody`): they
//! never wait for a thread that stands still in the middle of whatever call.

use std::pin::Pin;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Wake, Waker};
use std::time::Duration;

use tickless::future::{Interval, Sleep};
use tickless::keyed::{KeyedTimers, TtlMap};
use tickless::netty::{HashedWheelTimer, Timeout};
use tickless::periodic::{Heartbeat, Outcome, Periodic, Retry, Retrying, Schedule};
use tickless::purgatory::{Arrival, Delayed, Operation, Purgatory};
use tickless::{Engine, Handle, ManualClock, Scope, Waitable};

use crate::meanwhile::{self, Came};

/// After so many ticks, all that does not repeat is over.
const END: u64 = 1_000;

/// The key of everything that has a key.
const KEY: u8 = 1;

/// What all payloads of a scene share.
#[derive(Debug)]
struct Tally {
    clock: ManualClock,
    alive: AtomicU64,
    /// The first thing that went wrong. The engine contains the panics of tasks.
    offence: Mutex<Option<String>>,
}

/// A payload, which runs at most once and not before its time.
#[derive(Debug)]
struct Token {
    tally: Arc<Tally>,
    fate: Arc<Fate>,
}

/// What becomes of a payload.
#[derive(Debug)]
struct Fate {
    due: AtomicU64,
    has_run: AtomicBool,
}

/// A timer with its handle.
struct Owned {
    handle: Handle,
    fate: Arc<Fate>,
}

/// A task that polls, whether it waits, and whether it was woken.
#[derive(Debug, Default)]
struct Flag(AtomicBool);

/// A future, with the task that polled it last and was told to wait.
struct Polled<F> {
    future: F,
    flag: Option<Arc<Flag>>,
}

/// An operation that completes when it may.
struct Work {
    _token: Token,
    may_complete: AtomicBool,
    ends: AtomicUsize,
}

/// What one of the two threads has for itself.
struct Own {
    timer: Option<Owned>,
    /// What a call said of a payload: it runs, unless the engine stops, or it never runs.
    said: Vec<(Arc<Fate>, bool)>,
    waitable: Option<Waitable>,
    sleep: Option<Polled<Pin<Box<Sleep>>>>,
    interval: Option<Polled<Interval>>,
    scope: Option<Scope>,
}

/// An engine with one of everything, and for each of two threads what it has for itself.
struct Scene {
    engine: Engine,
    clock: ManualClock,
    tally: Arc<Tally>,
    own: [Mutex<Own>; 2],
    keyed: KeyedTimers<u8>,
    entries: TtlMap<u8, Token>,
    purgatory: Purgatory<u8, Work>,
    ticket: Delayed<u8, Work>,
    work: Arc<Work>,
    periodic: Periodic,
    heartbeat: Heartbeat,
    retry: Retrying,
    wheel: HashedWheelTimer,
    timeout: Timeout,
    is_stopped: AtomicBool,
}

/// Whom a call may wait for, if a thread stands still in the middle of another call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Meets {
    /// It takes no lock and does not wait.
    Nobody,
    /// Another call may hold a lock or a role that it needs.
    Others,
}

/// A call that one of the two threads makes.
type Call = (&'static str, Meets, fn(&Scene, &mut Own));

const CALLS: &[Call] = &[
    ("schedule", Meets::Nobody, |scene, _| scene.schedule(5)),
    ("schedule far", Meets::Nobody, |scene, _| scene.schedule(700)),
    ("schedule now", Meets::Nobody, |scene, _| scene.schedule(0)),
    ("cancel", Meets::Nobody, |_, own| own.cancel()),
    ("take", Meets::Nobody, |_, own| {
        let Owned { handle, fate } = own.take();
        own.said.push((fate, handle.take().is_none()));
    }),
    ("let go", Meets::Nobody, |_, own| {
        let Owned { handle, fate } = own.take();
        drop(handle);
        own.said.push((fate, true));
    }),
    ("reset to later", Meets::Nobody, |scene, own| scene.reset(own, 40)),
    ("reset to earlier", Meets::Nobody, |scene, own| scene.reset(own, 3)),
    ("cancel and schedule", Meets::Nobody, |scene, own| {
        own.cancel();
        scene.schedule(30);
    }),
    // What is due at 9 is re-filed, and does not fire.
    ("short turn", Meets::Others, |scene, _| scene.turn(8)),
    ("turn", Meets::Others, |scene, _| scene.turn(9)),
    ("late turn", Meets::Others, |scene, _| scene.turn(60)),
    ("stop", Meets::Others, |scene, _| scene.stop()),
    ("snapshot", Meets::Others, |scene, _| _ = scene.engine.snapshot().len()),
    ("stats", Meets::Others, |scene, _| _ = scene.engine.stats()),
    ("cancel a waitable", Meets::Others, |_, own| drop(own.waitable.take())),
    ("cancel and wait", Meets::Others, |_, own| {
        let mut waitable = own.waitable.take().expect("it is there");
        let _ = waitable.cancel_wait_within(Duration::ZERO);
    }),
    ("reset a waitable", Meets::Others, |_, own| {
        _ = own.waitable.as_mut().expect("it is there").reset(ticks(20));
    }),
    ("poll a sleep", Meets::Others, |_, own| own.poll_sleep()),
    ("reset a sleep", Meets::Others, |_, own| own.reset_sleep(20)),
    ("drop a sleep", Meets::Others, |_, own| drop(own.sleep.take())),
    ("poll an interval", Meets::Others, |_, own| own.poll_interval()),
    ("schedule in a scope", Meets::Others, |scene, own| {
        let token = scene.token(6);
        let scope = own.scope.as_mut().expect("it is there");
        drop(scope.schedule(ticks(6), move || token.run()));
    }),
    ("end a scope", Meets::Others, |_, own| drop(own.scope.take())),
    ("schedule keyed", Meets::Others, |scene, _| scene.schedule_keyed(7)),
    ("schedule keyed now", Meets::Others, |scene, _| scene.schedule_keyed(0)),
    ("schedule if absent", Meets::Others, |scene, _| {
        let token = scene.token(4);
        drop(scene.keyed.schedule_if_absent(KEY, ticks(4), move || token.run()));
    }),
    ("cancel keyed", Meets::Others, |scene, _| _ = scene.keyed.cancel(&KEY)),
    ("reset keyed", Meets::Others, |scene, _| _ = scene.keyed.reset(&KEY, ticks(20))),
    ("cancel all keyed", Meets::Others, |scene, _| _ = scene.keyed.cancel_all()),
    ("insert an entry", Meets::Others, |scene, _| scene.insert(8)),
    ("extend an entry", Meets::Others, |scene, _| {
        drop(scene.entries.get_and_extend(&KEY, ticks(20)));
    }),
    ("remove an entry", Meets::Others, |scene, _| drop(scene.entries.remove(&KEY))),
    ("watch an operation", Meets::Others, |scene, _| drop(scene.watch(6))),
    ("check a key", Meets::Others, |scene, _| {
        scene.work.may_complete.store(true, Ordering::Relaxed);
        scene.purgatory.check_and_complete(&KEY);
    }),
    ("complete an operation", Meets::Others, |scene, _| _ = scene.ticket.force_complete()),
    ("cancel an operation", Meets::Others, |scene, _| _ = scene.ticket.cancel()),
    ("cancel a periodic", Meets::Others, |scene, _| _ = scene.periodic.cancel()),
    ("beat", Meets::Others, |scene, _| _ = scene.heartbeat.beat()),
    ("stop a heartbeat", Meets::Others, |scene, _| _ = scene.heartbeat.stop()),
    ("cancel a retry", Meets::Others, |scene, _| _ = scene.retry.cancel()),
    ("schedule in the hashed wheel", Meets::Others, |scene, _| drop(scene.new_timeout(5))),
    ("cancel a timeout", Meets::Others, |scene, _| _ = scene.timeout.cancel()),
    ("advance the hashed wheel", Meets::Others, |scene, _| _ = scene.wheel.advance(ticks(9))),
    ("stop the hashed wheel", Meets::Others, |scene, _| drop(scene.wheel.stop())),
];

/// How an engine is built: slots, reach, below how many timers each has a bucket of its own, and how
/// many may be pending.
type Shape = (u32, u32, u64, u64);

/// The smallest wheel, in which entries are re-filed all the time; the usual one; and one that
/// refuses what comes after the scene is set.
const SHAPES: &[Shape] = &[(2, 2, 0, 100), (64, 32, 64, 100), (3, 3, 64, 13)];

/// Runs each call in the middle of each other one: at so many of its accesses, spread over all, or
/// at each.
pub(crate) fn run(most: Option<usize>) -> ExitCode {
    meanwhile::begin();
    let (mut orders, mut waited) = (0, 0);
    for shape in SHAPES {
        for first in CALLS {
            let accesses = accesses(*shape, first.2);
            for (number, second) in CALLS.iter().enumerate() {
                // Each pair has other ones.
                let spread = move |most| {
                    let share = number as f64 / CALLS.len() as f64;
                    (0..most)
                        .map(move |n| ((n as f64 + share) * accesses as f64 / most as f64) as usize)
                };
                let (all, some) = match most {
                    Some(most) => (0..0, Some(spread(most))),
                    // With the other call it may make a few more.
                    None => (0..2 * accesses, None),
                };
                for n in all.chain(some.into_iter().flatten()) {
                    orders += 1;
                    match judge(*shape, first, second, n) {
                        Ok(has_waited) => waited += u32::from(has_waited),
                        Err(complaint) => {
                            eprintln!("{complaint}");
                            return ExitCode::FAILURE;
                        }
                    }
                }
            }
        }
    }
    let pairs = CALLS.len() * CALLS.len();
    println!(
        "{pairs} pairs of calls, {orders} orders; in {waited} of them one waits for the other"
    );
    ExitCode::SUCCESS
}

/// How many accesses a call makes, if none comes in the middle.
fn accesses(shape: Shape, call: fn(&Scene, &mut Own)) -> usize {
    let scene = Scene::new(shape);
    meanwhile::arrange(meanwhile::MOST, || (), || ());
    call(&scene, &mut lock(&scene.own[0]));
    let accesses = meanwhile::accesses();
    meanwhile::end();
    accesses
}

/// Whether `second`, at access `n` of `first`, waits for it. The error says what is wrong.
fn judge(shape: Shape, first: &Call, second: &Call, n: usize) -> Result<bool, String> {
    let ((name, _, first), (other, meets, second)) = (first, second);
    let came = scene(shape, *first, *second, n)
        .map_err(|it| format!("\"{other}\" at access {n} of \"{name}\", {shape:?}: {it}"))?;
    match came {
        Came::Waited(site) if *meets == Meets::Nobody => {
            Err(format!("\"{other}\" waits for \"{name}\", which stands still at {site}"))
        }
        came => Ok(matches!(came, Came::Waited(_))),
    }
}

/// One scene, with `second` at access `n` of `first`.
fn scene(
    shape: Shape,
    first: fn(&Scene, &mut Own),
    second: fn(&Scene, &mut Own),
    n: usize,
) -> Result<Came, String> {
    let scene = Arc::new(Scene::new(shape));
    let (other, warm) = (scene.clone(), scene.clone());
    // A thread's first call registers it.
    let before = move || _ = warm.engine.schedule(ticks(END), || ()).map(Handle::cancel);
    meanwhile::arrange(n, before, move || second(&other, &mut lock(&other.own[1])));
    first(&scene, &mut lock(&scene.own[0]));
    let came = meanwhile::end();
    let tally = scene.tally.clone();
    scene.end()?;
    let scene = Arc::into_inner(scene).expect("the other thread is gone");
    drop(scene);
    match (lock(&tally.offence).take(), tally.alive.load(Ordering::Relaxed)) {
        (Some(offence), _) => Err(offence),
        (None, 0) => Ok(came),
        (None, alive) => Err(format!("{alive} payloads are left")),
    }
}

fn ticks(n: u64) -> Duration {
    Duration::from_nanos(n)
}

fn lock<T>(lock: &Mutex<T>) -> MutexGuard<'_, T> {
    lock.lock().expect("nothing panics under this lock")
}

// === impl Tally ===

impl Tally {
    fn expect(&self, holds: bool, what: impl FnOnce() -> String) {
        if !holds {
            lock(&self.offence).get_or_insert_with(what);
        }
    }

    fn now(&self) -> u64 {
        self.clock.elapsed().as_nanos() as u64
    }
}

// === impl Token ===

impl Token {
    fn run(&self) {
        let (now, due) = (self.tally.now(), self.fate.due.load(Ordering::Relaxed));
        self.tally.expect(now >= due, || format!("what is due at {due} runs at {now}"));
        let is_first = !self.fate.has_run.swap(true, Ordering::Relaxed);
        self.tally.expect(is_first, || format!("what is due at {due} runs twice"));
    }
}

impl Token {
    fn alive(&self) {
        assert_ne!(self.tally.alive.load(Ordering::Relaxed), 0, "it is used after its end");
    }
}

impl Drop for Token {
    fn drop(&mut self) {
        self.tally.alive.fetch_sub(1, Ordering::Relaxed);
    }
}

// === impl Flag ===

impl Wake for Flag {
    fn wake(self: Arc<Flag>) {
        self.0.store(true, Ordering::Relaxed);
    }
}

// === impl Work ===

impl Operation for Work {
    fn try_complete(&self) -> bool {
        self.may_complete.load(Ordering::Relaxed)
    }

    fn on_complete(&self) {
        self.ends.fetch_add(1, Ordering::Relaxed);
    }

    fn on_expire(&self) {}
}

// === impl Own ===

impl Own {
    fn take(&mut self) -> Owned {
        self.timer.take().expect("it is there")
    }

    fn cancel(&mut self) {
        let Owned { handle, fate } = self.take();
        self.said.push((fate, !handle.cancel()));
    }

    fn poll_sleep(&mut self) {
        let Some(Polled { future, flag }) = &mut self.sleep else { return };
        let new = Arc::new(Flag::default());
        let waker = Waker::from(new.clone());
        let is_pending = future.as_mut().get_mut().poll_elapsed(&mut Context::from_waker(&waker));
        *flag = is_pending.is_pending().then_some(new);
    }

    fn reset_sleep(&mut self, after: u64) {
        if let Some(sleep) = &mut self.sleep {
            sleep.future.as_mut().get_mut().reset(ticks(after));
            self.poll_sleep();
        }
    }

    fn poll_interval(&mut self) {
        let Some(Polled { future, flag }) = &mut self.interval else { return };
        let new = Arc::new(Flag::default());
        let waker = Waker::from(new.clone());
        let polled = future.poll_try_tick(&mut Context::from_waker(&waker));
        *flag = polled.is_pending().then_some(new);
    }
}

// === impl Scene ===

impl Scene {
    fn new((slots, reach, exact_below, max_pending): Shape) -> Scene {
        let clock = ManualClock::new();
        let builder = Engine::builder().shards(1).tick(ticks(1)).slots(slots).reach(reach);
        let builder = builder.exact_below(exact_below).max_pending(max_pending);
        let engine = builder.manual_clock(&clock).build().expect("the configuration is valid");
        let alive = AtomicU64::new(0);
        let tally = Arc::new(Tally { clock: clock.clone(), alive, offence: Mutex::default() });
        let token = |due| Token::new(&tally, due);
        let own = || {
            let (timer, waited) = (token(9), token(9));
            let fate = timer.fate.clone();
            let handle = engine.schedule(ticks(9), move || timer.run()).expect("no limit");
            let waitable = engine.schedule_waitable(ticks(9), move || waited.run());
            let mut scope = engine.scope();
            let scoped = token(10);
            scope.schedule(ticks(10), move || scoped.run()).expect("no limit");
            let mut own = Own {
                timer: Some(Owned { handle, fate }),
                said: Vec::new(),
                waitable: Some(waitable.expect("no limit")),
                sleep: Some(Polled { future: Box::pin(engine.sleep(ticks(9))), flag: None }),
                interval: Some(Polled { future: engine.interval(ticks(9)), flag: None }),
                scope: Some(scope),
            };
            own.poll_sleep();
            own.poll_interval();
            own.poll_interval();
            Mutex::new(own)
        };
        let own = [own(), own()];
        let purgatory = Purgatory::with_engine(&engine);
        let (work, ticket) = watch(&purgatory, token(9), 9).expect("it waits");
        let every = token(0);
        let periodic = Schedule::fixed_delay(ticks(7)).start(&engine, move |_| every.alive());
        let (silence, attempted) = (token(8), token(0));
        let heartbeat = Heartbeat::new(&engine, ticks(8), move || silence.run());
        let attempt = move |_| Err::<(), ()>(attempted.alive());
        let pauses = std::iter::repeat_n(ticks(5), 3);
        let retry = Retry::new(pauses).run(&engine, attempt, |_: Outcome<(), ()>| ());
        let wheel = HashedWheelTimer::builder().tick_duration(ticks(1)).manual_clock(&clock);
        let wheel = wheel.build().expect("the configuration is valid");
        let timed = token(9);
        let timeout = wheel.new_timeout(move |_: &Timeout| timed.run(), ticks(9));
        let scene = Scene {
            keyed: KeyedTimers::with_engine(&engine),
            entries: TtlMap::with_engine(&engine, |_, token: Arc<Token>| token.run()),
            purgatory,
            ticket,
            work,
            periodic: periodic.expect("no limit"),
            heartbeat: heartbeat.expect("no limit"),
            retry: retry.expect("no limit"),
            timeout: timeout.expect("no limit"),
            wheel,
            is_stopped: AtomicBool::new(false),
            own,
            tally,
            clock,
            engine,
        };
        scene.schedule_keyed(9);
        scene.insert(9);
        scene
    }

    fn token(&self, after: u64) -> Token {
        Token::new(&self.tally, self.tally.now() + after)
    }

    fn schedule(&self, after: u64) {
        let token = self.token(after);
        drop(self.engine.schedule_detached(ticks(after), move || token.run()));
    }

    fn reset(&self, own: &mut Own, after: u64) {
        let Owned { handle, fate } = own.timer.as_mut().expect("it is there");
        let (before, new) = (fate.due.load(Ordering::Relaxed), self.tally.now() + after);
        // The earlier of both is right until the reset has returned.
        fate.due.store(before.min(new), Ordering::Relaxed);
        let is_moved = handle.reset(ticks(after)).is_ok();
        fate.due.store(if is_moved { new } else { before }, Ordering::Relaxed);
        own.said.push((fate.clone(), true));
    }

    fn turn(&self, after: u64) {
        self.clock.advance(ticks(after));
        let _ = self.engine.turn(0);
    }

    fn stop(&self) {
        self.is_stopped.store(true, Ordering::Relaxed);
        drop(self.engine.stop());
    }

    fn schedule_keyed(&self, after: u64) {
        let token = self.token(after);
        drop(self.keyed.schedule_keyed(KEY, ticks(after), move || token.run()));
    }

    fn insert(&self, after: u64) {
        // A later insertion or extension may be for a value that is there already.
        drop(self.entries.insert(KEY, Arc::new(self.token(after)), ticks(after)));
    }

    fn watch(&self, after: u64) -> Option<(Arc<Work>, Delayed<u8, Work>)> {
        watch(&self.purgatory, self.token(after), after)
    }

    fn new_timeout(&self, after: u64) -> Option<Timeout> {
        let token = self.token(after);
        self.wheel.new_timeout(move |_: &Timeout| token.run(), ticks(after)).ok()
    }

    /// Time goes on until all is over.
    fn end(&self) -> Result<(), String> {
        self.periodic.cancel();
        self.heartbeat.stop();
        self.retry.cancel();
        for own in &self.own {
            // A handle that is let go leaves its timer pending.
            lock(own).timer = None;
        }
        for _ in 0..3 {
            self.clock.advance(ticks(END));
            while self.engine.turn(0).is_ok_and(|turn| turn.more) {}
            let _ = self.wheel.advance(ticks(0));
        }
        self.engine.check().map_err(|violation| violation.to_string())?;
        let expect = |holds: bool, what: &str| if holds { Ok(()) } else { Err(what.to_owned()) };
        for own in &self.own {
            let mut own = lock(own);
            for flag in own.sleep.iter().flat_map(|it| &it.flag) {
                expect(flag.0.load(Ordering::Relaxed), "a sleep ends and nobody is woken")?;
            }
            for flag in own.interval.iter().flat_map(|it| &it.flag) {
                expect(flag.0.load(Ordering::Relaxed), "an interval ticks and nobody is woken")?;
            }
            own.poll_sleep();
            let is_over = own.sleep.as_ref().is_none_or(|it| it.flag.is_none());
            expect(is_over, "a sleep does not end")?;
            own.interval = None;
        }
        let is_stopped = self.is_stopped.load(Ordering::Relaxed);
        for (fate, runs) in self.own.iter().flat_map(|own| lock(own).said.clone()) {
            let has_run = fate.has_run.load(Ordering::Relaxed);
            expect(!has_run || runs, "what was cancelled or taken runs")?;
            expect(has_run || !runs || is_stopped, "what was not cancelled does not run")?;
        }
        expect(self.work.ends.load(Ordering::Relaxed) <= 1, "an operation completes twice")?;
        if !is_stopped {
            expect(self.keyed.is_empty(), "a key is left")?;
            expect(self.entries.is_empty(), "an entry is left")?;
            expect(self.purgatory.is_empty(), "an operation is left")?;
            self.purgatory.check();
            let stats = self.engine.stats();
            expect(stats.pending == 0, &format!("what is over is pending: {stats:?}"))?;
        }
        drop(self.engine.stop());
        drop(self.wheel.stop());
        drop(self.purgatory.stop());
        self.keyed.cancel_all();
        self.entries.clear();
        Ok(())
    }
}

impl Token {
    fn new(tally: &Arc<Tally>, due: u64) -> Token {
        tally.alive.fetch_add(1, Ordering::Relaxed);
        let fate = Fate { due: AtomicU64::new(due), has_run: AtomicBool::new(false) };
        Token { tally: tally.clone(), fate: Arc::new(fate) }
    }
}

/// Has the purgatory watch an operation, which may not complete yet.
fn watch(
    purgatory: &Purgatory<u8, Work>,
    token: Token,
    after: u64,
) -> Option<(Arc<Work>, Delayed<u8, Work>)> {
    let (may_complete, ends) = (AtomicBool::new(false), AtomicUsize::new(0));
    let work = Arc::new(Work { _token: token, may_complete, ends });
    let arrival = purgatory.try_complete_else_watch(work.clone(), [KEY], ticks(after)).ok()?;
    let Arrival::Delayed(ticket) = arrival else { return None };
    Some((work, ticket))
}
