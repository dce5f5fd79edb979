//! An engine with everything that was opened on it, and what tasks do to it from inside.

use std::hash::{BuildHasherDefault, DefaultHasher};
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::{Duration, Instant};

use tickless::local::Geometry;
use tickless::scope::{Key as ScopeKey, WaitableScope};
use tickless::{Engine, Handle, ManualClock, ScheduleReason, Scope, Waitable};
use tickless_keyed::{KeyedTimers, TtlMap};
use tickless_netty::{HashedWheelTimer, Timeout};
use tickless_purgatory::{Delayed, Purgatory};

use super::case::{Case, Deed};
use super::futures::{Queue, Ticking, Waiting};
use super::keys::Keys;
use super::operations::Op;
use super::repeating::{Beating, Repeated, Retried};
use super::world::{Token, What, World, horizon_ns, lock};

/// The same layout each time: a seed decides everything.
pub(crate) type Hashes = BuildHasherDefault<DefaultHasher>;

/// An operation that had to wait, and its ticket.
pub(super) type Delay = (Arc<Op>, Delayed<u8, Op>);

/// The engine under test, and its doors. Tasks reach it by a weak reference.
pub(crate) struct Stage {
    pub(super) world: Arc<World>,
    pub(super) engine: Engine,
    pub(super) wheel: HashedWheelTimer,
    pub(super) max_pending: Option<u64>,
    is_stopped: AtomicBool,
    pub(super) handles: Mutex<Vec<(usize, Handle)>>,
    pub(super) waitables: Mutex<Vec<(usize, Waitable)>>,
    pub(super) scope: Mutex<(Scope, Vec<(usize, ScopeKey)>)>,
    pub(super) waitable_scope: Mutex<(WaitableScope, Vec<(usize, ScopeKey)>)>,
    pub(super) sleeps: Mutex<Vec<Waiting>>,
    pub(super) intervals: Mutex<Vec<Ticking>>,
    pub(super) queue: Mutex<Queue>,
    pub(super) periodics: Mutex<Vec<Repeated>>,
    pub(super) beats: Mutex<Vec<Beating>>,
    pub(super) retries: Mutex<Vec<Retried>>,
    pub(super) keyed: KeyedTimers<u8, Hashes>,
    pub(super) keys: Keys,
    pub(super) entries: TtlMap<u8, Token, Hashes>,
    pub(super) entry_keys: Keys,
    pub(super) purgatory: Purgatory<u8, Op, Hashes>,
    pub(super) operations: Mutex<Vec<Delay>>,
    pub(super) timeouts: Mutex<Vec<(usize, Timeout)>>,
}

impl Stage {
    pub(super) fn new(case: &Case) -> Arc<Stage> {
        let (slots, reach) = case.config.shape();
        let geometry = Geometry::new(slots, reach).expect("the shapes are valid");
        let (clock, tick_ns) = (ManualClock::new(), case.config.tick_ns());
        let start_ns = case.start.resolve_ns(&geometry, tick_ns, 0);
        clock.advance(Duration::from_nanos(start_ns.min(horizon_ns(tick_ns))));
        let tick = Duration::from_nanos(tick_ns);
        let builder = Engine::builder().tick(tick).slots(slots).reach(reach).manual_clock(&clock);
        let builder = builder.shards(case.config.shards()).exact_below(case.exact_below);
        let builder = if case.in_crowds { builder.share(0) } else { builder };
        let builder = if case.config.hook { builder.on_earlier(|_| ()) } else { builder };
        let max_pending = case.config.max_pending();
        let builder = max_pending.map_or(builder.clone(), |max| builder.max_pending(max));
        let engine = builder.build().expect("the configuration is valid");
        let wheel = HashedWheelTimer::builder().tick_duration(tick).manual_clock(&clock);
        let wheel = wheel.ticks_per_wheel(slots).build().expect("the configuration is valid");
        let zero = engine.now() - clock.elapsed();
        let world = Arc::new(World::new(clock, tick_ns, geometry, zero));
        Arc::new_cyclic(|stage: &Weak<Stage>| Stage {
            world,
            wheel,
            max_pending,
            is_stopped: AtomicBool::new(false),
            handles: Mutex::default(),
            waitables: Mutex::default(),
            scope: Mutex::new((engine.scope(), Vec::new())),
            waitable_scope: Mutex::new((engine.waitable_scope(), Vec::new())),
            sleeps: Mutex::default(),
            intervals: Mutex::default(),
            queue: Mutex::new(Queue::new(&engine)),
            periodics: Mutex::default(),
            beats: Mutex::default(),
            retries: Mutex::default(),
            keyed: KeyedTimers::with_hasher(&engine, Hashes::default()),
            keys: Keys::default(),
            entries: TtlMap::with_hasher(&engine, Hashes::default(), Stage::expiry(stage)),
            entry_keys: Keys::default(),
            purgatory: Purgatory::with_hasher(&engine, Hashes::default()),
            operations: Mutex::default(),
            timeouts: Mutex::default(),
            engine,
        })
    }

    pub(super) fn is_stopped(&self) -> bool {
        self.is_stopped.load(Ordering::Relaxed)
    }

    /// A task that tells that it runs, and then does something.
    pub(super) fn task(
        self: &Arc<Stage>,
        number: usize,
        deed: Deed,
    ) -> impl FnOnce() + Send + 'static {
        let (stage, token) = (Arc::downgrade(self), self.world.token(number));
        move || {
            let stage = stage.upgrade().expect("tasks run while there is a stage");
            stage.world.fire(token.number);
            stage.act(deed);
        }
    }

    pub(super) fn act(self: &Arc<Stage>, deed: Deed) {
        match deed {
            Deed::Nothing => {}
            Deed::Schedule { at } => self.schedule(at, 0, true, Deed::Nothing),
            Deed::Cancel { pick } => self.cancel(pick, false),
            Deed::Reset { pick, at } => self.reset(pick, at, 0),
            Deed::Key { key } => self.keyed_cancel(key, false),
            Deed::Beat { pick } => self.beat(pick),
            Deed::Clock { by_ns } => self.world.clock.advance(Duration::from_nanos(by_ns.into())),
            // Unlike `panic!` this asks no hook.
            Deed::Panic => resume_unwind(Box::new(())),
        }
    }

    /// Whether a refusal for that reason is right.
    pub(super) fn expect_reason(&self, reason: ScheduleReason) {
        let may = match reason {
            ScheduleReason::Full => self.max_pending.is_some(),
            ScheduleReason::Stopped => self.is_stopped(),
            _ => false,
        };
        self.world.expect(may, || format!("refused: {reason}"));
    }

    pub(super) fn expect_accepted(&self) {
        let message = || "a stopped engine takes a timer".to_owned();
        self.world.expect(!self.is_stopped(), message);
    }

    pub(super) fn stop(&self) {
        if self.is_stopped.swap(true, Ordering::Relaxed) {
            let again = self.engine.stop().expect("no task runs");
            return assert!(again.is_empty(), "returned twice");
        }
        // Those who wait for it are told.
        lock(&self.sleeps).iter().for_each(Waiting::set_free);
        lock(&self.intervals).iter().for_each(Ticking::set_free);
        lock(&self.queue).set_free();
        let world = &self.world;
        let returned = world.in_stop(|| self.engine.stop().expect("no task runs"));
        world.judge();
        let timers = |what| matches!(what, What::Timer | What::Waitable | What::Scoped);
        let least = world.pending(timers);
        assert!(returned.len() >= least, "{} of {least} were returned", returned.len());
        // Operations that are due expire when their tasks are dropped; the others wait on.
        world.in_stop(|| drop(returned));
        let waiting = self.purgatory.stop().len();
        assert_eq!(waiting, world.pending(|what| what == What::Operation), "operations stopped");
        world.stop_all(|what| what != What::Timeout);
        self.keys.clear();
        self.entry_keys.clear();
        let waiting = self.wheel.stop().expect("no task runs");
        assert_eq!(waiting.len(), world.pending(|what| what == What::Timeout), "timeouts stopped");
        assert!(waiting.iter().all(Timeout::is_cancelled), "those that are stopped are cancelled");
        world.stop_all(|_| true);
    }

    /// All that can be observed at any time.
    pub(super) fn compare(&self) {
        let (world, engine) = (&self.world, &self.engine);
        world.judge();
        engine.check().unwrap_or_else(|violation| panic!("{violation}"));
        let stats = engine.stats();
        let ended = stats.fired + stats.cancelled + stats.returned + stats.pending;
        assert!(stats.scheduled <= ended, "{stats:?}");
        assert_eq!(engine.len() as u64, stats.pending);
        let known =
            |what| matches!(what, What::Timer | What::Waitable | What::Scoped | What::Keyed);
        let known = world.pending(known);
        assert!(engine.len() >= known, "{} of {known} are pending", engine.len());
        assert_eq!(engine.now() - world.zero, world.clock.elapsed());
        assert_eq!(self.keyed.len(), self.keys.len(), "keys");
        for (number, handle) in &*lock(&self.handles) {
            let is_pending = handle.state() == tickless::State::Pending;
            assert_eq!(is_pending, world.is_pending(*number), "timer {number}");
        }
        let timeouts = world.pending(|what| what == What::Timeout);
        assert_eq!(self.wheel.pending_timeouts(), timeouts, "timeouts that wait");
        assert_eq!(self.purgatory.len(), world.pending(|what| what == What::Operation));
        if !self.is_stopped() {
            self.purgatory.check();
        }
    }

    /// Gives up everything that outlives the engine.
    pub(super) fn end(&self) {
        lock(&self.handles).clear();
        lock(&self.waitables).clear();
        lock(&self.sleeps).clear();
        lock(&self.intervals).clear();
        lock(&self.queue).clear();
        lock(&self.periodics).clear();
        lock(&self.beats).clear();
        lock(&self.retries).clear();
        lock(&self.operations).clear();
        lock(&self.timeouts).clear();
        self.entries.clear();
    }

    pub(super) fn instant_in(&self, delay: Duration) -> Option<Instant> {
        self.engine.now().checked_add(delay)
    }
}

/// The index that `pick` means among so many, if there are any.
pub(super) fn picked(pick: u16, len: usize) -> Option<usize> {
    usize::from(pick).checked_rem(len)
}
