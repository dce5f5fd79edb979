//! An engine with one of everything, for two threads that make a call each.
//!
//! Whatever the order of the two calls, each payload runs at most once and not early, each is gone in
//! the end, what a call said of a timer is true, who waits is woken, and nothing is left pending.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Wake, Waker};
use std::time::Duration;

use tickless::future::{Interval, Sleep};
use tickless::periodic::{Heartbeat, Outcome, Periodic, Retry, Retrying, Schedule};
use tickless::{Engine, Handle, ManualClock, Scope, State, Waitable};
use tickless_keyed::{KeyedTimers, TtlMap};
use tickless_netty::{HashedWheelTimer, Timeout};
use tickless_purgatory::{Arrival, Delayed, Operation, Purgatory};

/// After so many ticks, all that does not repeat is over.
pub(super) const END: u64 = 1_000;

/// The key of everything that has a key.
pub(super) const KEY: u8 = 1;

/// What all payloads of a scene share.
#[derive(Debug)]
pub(super) struct Tally {
    clock: ManualClock,
    pub(super) alive: AtomicU64,
    /// The first thing that went wrong. The engine contains the panics of tasks.
    pub(super) offence: Mutex<Option<String>>,
}

/// A payload, which runs at most once and not before its time.
#[derive(Debug)]
pub(super) struct Token {
    tally: Arc<Tally>,
    fate: Arc<Fate>,
}

/// What becomes of a payload.
#[derive(Debug)]
pub(super) struct Fate {
    due: AtomicU64,
    has_run: AtomicBool,
}

/// A timer with its handle.
pub(super) struct Owned {
    pub(super) handle: Handle,
    pub(super) fate: Arc<Fate>,
}

/// A task that polls, whether it waits, and whether it was woken.
#[derive(Debug, Default)]
struct Flag(AtomicBool);

/// A future, with the task that polled it last and was told to wait.
pub(super) struct Polled<F> {
    future: F,
    flag: Option<Arc<Flag>>,
}

/// An operation that completes when it may.
pub(super) struct Work {
    _token: Token,
    pub(super) may_complete: AtomicBool,
    pub(super) ends: AtomicUsize,
}

/// What one of the two threads has for itself.
pub(super) struct Own {
    pub(super) timer: Option<Owned>,
    /// What a call said of a payload: it runs, unless the engine stops, or it never runs.
    pub(super) said: Vec<(Arc<Fate>, bool)>,
    pub(super) waitable: Option<Waitable>,
    pub(super) sleep: Option<Polled<Sleep>>,
    pub(super) interval: Option<Polled<Interval>>,
    pub(super) scope: Option<Scope>,
}

/// An engine with one of everything, and for each of two threads what it has for itself.
pub(super) struct Scene {
    pub(super) engine: Engine,
    pub(super) clock: ManualClock,
    pub(super) tally: Arc<Tally>,
    pub(super) own: [Mutex<Own>; 2],
    pub(super) keyed: KeyedTimers<u8>,
    pub(super) entries: TtlMap<u8, Token>,
    pub(super) purgatory: Purgatory<u8, Work>,
    pub(super) ticket: Delayed<u8, Work>,
    pub(super) work: Arc<Work>,
    pub(super) periodic: Periodic,
    pub(super) heartbeat: Heartbeat,
    pub(super) retry: Retrying,
    pub(super) wheel: HashedWheelTimer,
    pub(super) timeout: Timeout,
    pub(super) is_stopped: AtomicBool,
}

/// How an engine is built: slots, reach, below how many timers each has a bucket of its own, and how
/// many may be pending.
pub(super) type Shape = (u32, u32, u64, u64);

pub(super) fn ticks(n: u64) -> Duration {
    Duration::from_nanos(n)
}

pub(super) fn lock<T>(lock: &Mutex<T>) -> MutexGuard<'_, T> {
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
    fn new(tally: &Arc<Tally>, due: u64) -> Token {
        tally.alive.fetch_add(1, Ordering::Relaxed);
        let fate = Fate { due: AtomicU64::new(due), has_run: AtomicBool::new(false) };
        Token { tally: tally.clone(), fate: Arc::new(fate) }
    }

    fn alive(&self) {
        assert_ne!(self.tally.alive.load(Ordering::Relaxed), 0, "it is used after its end");
    }

    pub(super) fn run(&self) {
        let (now, due) = (self.tally.now(), self.fate.due.load(Ordering::Relaxed));
        self.tally.expect(now >= due, || format!("what is due at {due} runs at {now}"));
        let is_first = !self.fate.has_run.swap(true, Ordering::Relaxed);
        self.tally.expect(is_first, || format!("what is due at {due} runs twice"));
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

// === impl Polled ===

impl<F> Polled<F> {
    /// Another task polls, and is told to wait if `is_pending` says so.
    fn poll(&mut self, is_pending: impl FnOnce(&mut F, &mut Context<'_>) -> bool) {
        let flag = Arc::new(Flag::default());
        let waker = Waker::from(flag.clone());
        let waits = is_pending(&mut self.future, &mut Context::from_waker(&waker));
        self.flag = waits.then_some(flag);
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
    pub(super) fn take(&mut self) -> Owned {
        self.timer.take().expect("it is there")
    }

    pub(super) fn cancel(&mut self) {
        let Owned { handle, fate } = self.take();
        self.said.push((fate, !handle.cancel()));
    }

    pub(super) fn poll_sleep(&mut self) {
        if let Some(sleep) = &mut self.sleep {
            sleep.poll(|sleep, cx| sleep.poll_elapsed(cx).is_pending());
        }
    }

    pub(super) fn reset_sleep(&mut self, after: u64) {
        if let Some(sleep) = &mut self.sleep {
            sleep.future.reset(ticks(after));
            self.poll_sleep();
        }
    }

    pub(super) fn poll_interval(&mut self) {
        if let Some(interval) = &mut self.interval {
            interval.poll(|interval, cx| interval.poll_try_tick(cx).is_pending());
        }
    }
}

// === impl Scene ===

impl Scene {
    pub(super) fn new((slots, reach, exact_below, max_pending): Shape) -> Scene {
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
                sleep: Some(Polled { future: engine.sleep(ticks(9)), flag: None }),
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
        let attempt = move |_| {
            attempted.alive();
            Err::<(), ()>(())
        };
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

    pub(super) fn token(&self, after: u64) -> Token {
        Token::new(&self.tally, self.tally.now() + after)
    }

    pub(super) fn schedule(&self, after: u64) {
        let token = self.token(after);
        drop(self.engine.schedule_detached(ticks(after), move || token.run()));
    }

    pub(super) fn reset(&self, own: &mut Own, after: u64) {
        let Owned { handle, fate } = own.timer.as_mut().expect("it is there");
        let (before, new) = (fate.due.load(Ordering::Relaxed), self.tally.now() + after);
        // The earlier of both is right until the reset has returned.
        fate.due.store(before.min(new), Ordering::Relaxed);
        let is_moved = handle.reset(ticks(after)).is_ok();
        fate.due.store(if is_moved { new } else { before }, Ordering::Relaxed);
        let is_right = is_moved || handle.state() != State::Pending;
        self.tally.expect(is_right, || "a reset is too late, and the timer is pending".to_owned());
        own.said.push((fate.clone(), true));
    }

    pub(super) fn turn(&self, after: u64) {
        self.clock.advance(ticks(after));
        let _ = self.engine.turn(0);
    }

    pub(super) fn stop(&self) {
        self.is_stopped.store(true, Ordering::Relaxed);
        drop(self.engine.stop());
    }

    pub(super) fn schedule_keyed(&self, after: u64) {
        let token = self.token(after);
        drop(self.keyed.schedule_keyed(KEY, ticks(after), move || token.run()));
    }

    pub(super) fn insert(&self, after: u64) {
        // A later insertion or extension may be for a value that is there already.
        drop(self.entries.insert(KEY, Arc::new(self.token(after)), ticks(after)));
    }

    pub(super) fn watch(&self, after: u64) -> Option<(Arc<Work>, Delayed<u8, Work>)> {
        watch(&self.purgatory, self.token(after), after)
    }

    pub(super) fn new_timeout(&self, after: u64) -> Option<Timeout> {
        let token = self.token(after);
        self.wheel.new_timeout(move |_: &Timeout| token.run(), ticks(after)).ok()
    }

    /// Time goes on until all is over.
    pub(super) fn end(&self) -> Result<(), String> {
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
