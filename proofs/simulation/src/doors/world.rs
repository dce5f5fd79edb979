//! What happened to each thing that was asked of an engine, and what ought to have: a list of
//! times, which shares no arithmetic with the engine.
//!
//! An *item* is one firing that is expected: of a timer, of a waker, of the next run of something
//! that repeats. It fires once, not before its tick; it has fired when all turns of its tick are
//! over; and its payload is gone when it is over.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::Wake;
use std::time::{Duration, Instant};

use tickless::local::Geometry;
use tickless::{ManualClock, Tick, When};

use models::engine_model::case::{At, delay};

/// Ticks before the last one, for tasks that move the clock.
const ROOM: u64 = 1 << 32;

/// How far clocks go: three centuries, and not beyond the last tick. The arithmetic at the end of
/// all clocks is for the histories of engine and shard: the doors compute with instants, which not
/// every system has for such times.
pub(crate) fn horizon_ns(tick_ns: u64) -> u64 {
    (u64::MAX / 2).min((Tick::LAST.get() - ROOM).saturating_mul(tick_ns))
}

/// What all tasks of a history share.
#[derive(Debug)]
pub(crate) struct World {
    pub(crate) clock: ManualClock,
    pub(crate) tick_ns: u64,
    pub(crate) geometry: Geometry,
    /// The instant at which the clock stood at zero.
    pub(crate) zero: Instant,
    items: Mutex<Vec<Item>>,
    /// Whether a turn is under way, and who was told meanwhile that it is too late.
    is_in_turn: AtomicBool,
    /// Whether the engine was stopped.
    is_stopping: AtomicBool,
    doomed: Mutex<Vec<usize>>,
    /// The first thing that went wrong. The engine contains the panics of tasks.
    offence: Mutex<Option<String>>,
    /// Payloads that exist.
    alive: AtomicU64,
}

#[derive(Clone, Copy, Debug)]
struct Item {
    what: What,
    asked_ns: u64,
    /// The tick before which it must not fire, and that after whose turns it has fired.
    earliest: u64,
    latest: u64,
    fate: Fate,
}

/// What kind of thing an item belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum What {
    Timer,
    Waitable,
    Scoped,
    Keyed,
    Entry,
    Operation,
    Timeout,
    Heartbeat,
    Run,
    Attempt,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    Pending,
    Fired,
    /// Cancelled, refused or stopped.
    Gone,
}

/// A payload that counts itself.
#[derive(Debug)]
pub(crate) struct Token {
    pub(crate) number: usize,
    world: Weak<World>,
}

/// A task of an executor: whether it was woken since it was polled, and for when it asked.
#[derive(Debug)]
pub(crate) struct Flag {
    world: Weak<World>,
    due: AtomicU64,
    /// It may be woken from then on: it asked for that before.
    earliest: AtomicU64,
    is_woken: AtomicBool,
    /// The engine may wake it whenever it likes: it was stopped, or asked for this.
    is_free: AtomicBool,
}

// === impl World ===

impl World {
    pub(crate) fn new(
        clock: ManualClock,
        tick_ns: u64,
        geometry: Geometry,
        zero: Instant,
    ) -> World {
        World {
            clock,
            tick_ns,
            geometry,
            zero,
            items: Mutex::default(),
            is_in_turn: AtomicBool::new(false),
            is_stopping: AtomicBool::new(false),
            doomed: Mutex::default(),
            offence: Mutex::default(),
            alive: AtomicU64::new(0),
        }
    }

    pub(crate) fn now_ns(&self) -> u64 {
        u64::try_from(self.clock.elapsed().as_nanos()).expect("clocks stop before that")
    }

    /// The last tick that has begun.
    pub(crate) fn now(&self) -> u64 {
        (self.now_ns() / self.tick_ns).min(Tick::LAST.get())
    }

    /// The first tick that begins at `ns` or after.
    pub(crate) fn ceil(&self, ns: u64) -> u64 {
        match ns {
            u64::MAX => Tick::NEVER.get(),
            _ => ns.div_ceil(self.tick_ns).min(Tick::NEVER.get()),
        }
    }

    /// `at` on the clock; what is beyond the horizon is never.
    pub(crate) fn resolve_ns(&self, at: At) -> u64 {
        let ns = at.resolve_ns(&self.geometry, self.tick_ns, self.now_ns());
        if ns > horizon_ns(self.tick_ns) { u64::MAX } else { ns }
    }

    /// A time that is not past, as a delay from now, and what is asked for by it.
    pub(crate) fn after(&self, at: At) -> (u64, Duration) {
        let (at_ns, now_ns) = (self.resolve_ns(at), self.now_ns());
        let at_ns = at_ns.max(now_ns);
        (at_ns, if at_ns == u64::MAX { Duration::MAX } else { delay(at_ns - now_ns) })
    }

    /// The same with a slack of so many ticks, and the tick by which it has to fire.
    pub(crate) fn within(&self, at: At, slack: u16) -> (u64, u64, When) {
        let (at_ns, delay) = self.after(at);
        let slack_ns = self.tick_ns.saturating_mul(slack.into());
        let latest_ns = at_ns.saturating_add(slack_ns);
        let latest = (latest_ns / self.tick_ns).min(Tick::NEVER.get());
        let latest = latest.max(self.ceil(at_ns));
        (at_ns, latest, When::after(delay).slack(Duration::from_nanos(slack_ns)))
    }

    pub(crate) fn instant(&self, ns: u64) -> Option<Instant> {
        self.zero.checked_add(Duration::from_nanos(ns))
    }

    // === items ===

    /// Another item, which is not pending before it is filed.
    pub(crate) fn add(self: &Arc<World>, what: What) -> usize {
        let mut items = lock(&self.items);
        items.push(Item { what, asked_ns: 0, earliest: 0, latest: 0, fate: Fate::Gone });
        items.len() - 1
    }

    pub(crate) fn token(self: &Arc<World>, number: usize) -> Token {
        self.alive.fetch_add(1, Ordering::Relaxed);
        Token { number, world: Arc::downgrade(self) }
    }

    /// It is due at `asked_ns`, and not again before that.
    pub(crate) fn file(&self, number: usize, asked_ns: u64) {
        self.file_within(number, asked_ns, self.ceil(asked_ns));
    }

    pub(crate) fn file_within(&self, number: usize, asked_ns: u64, latest: u64) {
        let earliest = self.ceil(asked_ns);
        let item = &mut lock(&self.items)[number];
        *item = Item { asked_ns, earliest, latest, fate: Fate::Pending, ..*item };
    }

    pub(crate) fn fate(&self, number: usize) -> Fate {
        lock(&self.items)[number].fate
    }

    pub(crate) fn is_pending(&self, number: usize) -> bool {
        self.fate(number) == Fate::Pending
    }

    /// Whether the time for which it was asked has come.
    pub(crate) fn is_asked_for(&self, number: usize) -> bool {
        lock(&self.items)[number].asked_ns <= self.now_ns()
    }

    /// It fires, now.
    pub(crate) fn fire(&self, number: usize) {
        let (now, item) = (self.now(), lock(&self.items)[number]);
        self.expect(item.fate == Fate::Pending, || format!("{number} fires again: {item:?}"));
        // What is dropped by a stop waits for no tick, and neither does a heartbeat whose timer
        // fires for an earlier beat.
        let is_stopping = self.is_stopping.load(Ordering::Relaxed);
        let is_by_clock = is_stopping || item.what == What::Heartbeat;
        let is_due = item.earliest <= now || is_by_clock && item.asked_ns <= self.now_ns();
        self.expect(is_due, || format!("{number} is early at {now}: {item:?}"));
        let is_in_turn = self.is_in_turn.load(Ordering::Relaxed);
        self.expect(is_in_turn, || format!("{number} fires without a turn: {item:?}"));
        lock(&self.items)[number].fate = Fate::Fired;
        lock(&self.doomed).retain(|&doomed| doomed != number);
    }

    /// A call was to end it, and says whether it did.
    pub(crate) fn ended(&self, number: usize, done: bool) {
        let item = lock(&self.items)[number];
        if done {
            let message = || format!("{number} ended twice: {item:?}");
            self.expect(item.fate == Fate::Pending, message);
            lock(&self.items)[number].fate = Fate::Gone;
        } else if item.fate == Fate::Pending {
            // It may be in the batch that is handed over.
            let may_be = self.is_in_turn.load(Ordering::Relaxed) && item.earliest <= self.now();
            // Or a beat was too late, and the engine has still to notice.
            if !may_be && item.what == What::Heartbeat && item.asked_ns <= self.now_ns() {
                return;
            }
            self.expect(may_be, || format!("{number} is pending, and was not ended: {item:?}"));
            lock(&self.doomed).push(number);
        }
    }

    /// It is over for a reason that asks for no judgement.
    pub(crate) fn forget(&self, number: usize) {
        lock(&self.items)[number].fate = Fate::Gone;
    }

    /// Everything of these kinds that is pending is stopped.
    pub(crate) fn stop_all(&self, is_stopped: impl Fn(What) -> bool) {
        let mut items = lock(&self.items);
        let stopped = items.iter_mut().filter(|item| is_stopped(item.what));
        stopped.filter(|item| item.fate == Fate::Pending).for_each(|item| item.fate = Fate::Gone);
    }

    pub(crate) fn pending(&self, is_meant: impl Fn(What) -> bool) -> usize {
        let is_meant = |item: &&Item| item.fate == Fate::Pending && is_meant(item.what);
        lock(&self.items).iter().filter(is_meant).count()
    }

    /// Whether anything of what tasks of the user do is due.
    pub(crate) fn assert_settled(&self) {
        let now = self.now();
        let items = lock(&self.items);
        let late = |item: &&Item| item.fate == Fate::Pending && item.latest <= now;
        if let Some(item) = items.iter().find(late) {
            self.complain(format!("not fired at {now}: {item:?}"));
        }
    }

    pub(crate) fn alive(&self) -> u64 {
        self.alive.load(Ordering::Relaxed)
    }

    // === turns ===

    pub(crate) fn in_turn<R>(&self, f: impl FnOnce() -> R) -> R {
        self.is_in_turn.store(true, Ordering::Relaxed);
        let result = f();
        self.is_in_turn.store(false, Ordering::Relaxed);
        let doomed = std::mem::take(&mut *lock(&self.doomed));
        self.expect(doomed.is_empty(), || format!("too late to end, and not fired: {doomed:?}"));
        result
    }

    /// Stops, or drops what a stop returned: what is due expires then.
    pub(crate) fn in_stop<R>(&self, f: impl FnOnce() -> R) -> R {
        self.is_stopping.store(true, Ordering::Relaxed);
        self.in_turn(f)
    }

    pub(crate) fn expect(&self, holds: bool, message: impl FnOnce() -> String) {
        if !holds {
            self.complain(message());
        }
    }

    fn complain(&self, message: String) {
        lock(&self.offence).get_or_insert(message);
    }

    /// Panics with what went wrong inside of a task.
    pub(crate) fn judge(&self) {
        if let Some(offence) = lock(&self.offence).take() {
            panic!("{offence}");
        }
    }
}

// === impl Token ===

impl Token {
    pub(crate) fn world(&self) -> Arc<World> {
        self.world.upgrade().expect("a history lives until its tasks are over")
    }
}

impl Drop for Token {
    fn drop(&mut self) {
        // A history that failed is dropped in any order.
        if let Some(world) = self.world.upgrade() {
            world.alive.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

// === impl Flag ===

impl Flag {
    /// A task that waits for `due`.
    pub(crate) fn new(world: &Arc<World>, due: u64) -> Arc<Flag> {
        Arc::new(Flag {
            world: Arc::downgrade(world),
            due: due.into(),
            earliest: due.into(),
            is_woken: false.into(),
            is_free: false.into(),
        })
    }

    /// It waits for another time.
    pub(crate) fn wait_for(&self, due: u64) {
        self.due.store(due, Ordering::Relaxed);
        self.earliest.store(due, Ordering::Relaxed);
    }

    /// The same, and it may be woken for the time before as well.
    pub(crate) fn wait_also_for(&self, due: u64) {
        self.due.store(due, Ordering::Relaxed);
        self.earliest.fetch_min(due, Ordering::Relaxed);
    }

    /// It may be woken at any time.
    pub(crate) fn set_free(&self) {
        self.is_free.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_woken(&self) -> bool {
        self.is_woken.load(Ordering::Relaxed)
    }

    /// Everything due has fired: was it woken if its time has come?
    pub(crate) fn assert_settled(&self, world: &World) {
        let (now, due) = (world.now(), self.due.load(Ordering::Relaxed));
        world.expect(due > now || self.is_woken(), || format!("not woken for {due} at {now}"));
    }
}

impl Wake for Flag {
    fn wake(self: Arc<Flag>) {
        let Some(world) = self.world.upgrade() else { return };
        let (now, due) = (world.now(), self.earliest.load(Ordering::Relaxed));
        let may = self.is_free.load(Ordering::Relaxed) || due <= now;
        world.expect(may, || format!("woken at {now}, for {due}"));
        self.is_woken.store(true, Ordering::Relaxed);
    }
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
