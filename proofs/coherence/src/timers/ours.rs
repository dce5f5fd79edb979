//! The engine: its turns are taken by the reapers' threads, as its own threads would.

use std::hash::{BuildHasherDefault, DefaultHasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use coherence_machine::aside;
use tickless::{Clock, Driver, Engine, Handle, ManualClock};

use super::{KeyedTimers, Setup, Timers};

pub(crate) struct Ours {
    engine: Engine,
    clock: ManualClock,
    setup: Setup,
    /// For each shard, when it wants a turn, in nanoseconds; and whether it was rung meanwhile.
    wanted_ns: Box<[AtomicU64]>,
    rung: Arc<[AtomicBool]>,
}

impl Timers for Ours {
    type Handle = Handle;

    fn new(setup: Setup) -> Ours {
        let clock = ManualClock::new();
        let rung: Arc<[AtomicBool]> = (0..setup.workers).map(|_| AtomicBool::new(true)).collect();
        let bells = rung.clone();
        let builder = match setup.real_time {
            true => Engine::builder().clock(Clock::system()).driver(Driver::Caller),
            false => Engine::builder().manual_clock(&clock),
        };
        let engine = builder
            .shards(setup.workers)
            .on_earlier(move |shard| aside(|| bells[shard].store(true, Ordering::Relaxed)))
            .build()
            .expect("the settings are valid");
        let wanted_ns = (0..setup.workers).map(|_| AtomicU64::new(0)).collect();
        Ours { engine, clock, setup, wanted_ns, rung }
    }

    fn begin(&self, worker: usize) {
        if self.setup.own_turns {
            self.engine.bind_thread(worker).expect("there is a shard for each");
        }
    }

    fn schedule(&self, _worker: usize, delay: Duration) -> Handle {
        self.engine.schedule(delay, || ()).expect("the engine runs")
    }

    fn schedule_detached(&self, _worker: usize, delay: Duration) {
        self.engine.schedule_detached(delay, || ()).expect("the engine runs");
    }

    fn cancel(&self, handle: Handle) {
        assert!(handle.cancel(), "nothing has fired");
    }

    fn reset(&self, handle: &mut Handle, delay: Duration) {
        handle.reset(delay).expect("it is pending");
    }

    fn turn(&self, part: usize) -> usize {
        let shards = match self.setup.own_turns {
            true => part..part + 1,
            false => part..self.setup.workers,
        };
        shards.step_by(self.setup.reapers.max(1)).map(|shard| self.turn_of(shard)).sum()
    }

    fn advance(&self, by: Duration) {
        self.clock.advance(by);
    }
}

impl Ours {
    /// Takes a turn of a shard that wants one, as a thread does that sleeps until then.
    fn turn_of(&self, shard: usize) -> usize {
        let now_ns = self.clock.elapsed().as_nanos() as u64;
        let is_wanted = aside(|| {
            let is_rung = self.rung[shard].swap(false, Ordering::Relaxed);
            is_rung || now_ns >= self.wanted_ns[shard].load(Ordering::Relaxed)
        });
        if !is_wanted {
            return 0;
        }
        let turn = self.engine.turn(shard).expect("the engine runs");
        let sleep = turn.sleep(self.engine.now()).unwrap_or(Duration::MAX);
        let wanted_ns = (u128::from(now_ns) + sleep.as_nanos()).min(u128::from(u64::MAX)) as u64;
        aside(|| self.wanted_ns[shard].store(wanted_ns, Ordering::Relaxed));
        turn.fired
    }
}

type Fixed = BuildHasherDefault<DefaultHasher>;

pub(crate) struct Keyed {
    ours: Ours,
    timers: tickless_keyed::KeyedTimers<u64, Fixed>,
}

impl KeyedTimers for Keyed {
    fn new(setup: Setup) -> Keyed {
        let ours = Ours::new(setup);
        let timers = tickless_keyed::KeyedTimers::with_hasher(&ours.engine, Fixed::default());
        Keyed { ours, timers }
    }

    fn begin(&self, worker: usize) {
        self.ours.begin(worker);
    }

    fn schedule(&self, _worker: usize, key: u64, delay: Duration) {
        self.timers.schedule_keyed(key, delay, || ()).expect("the engine runs");
    }

    fn cancel(&self, key: u64) {
        assert!(self.timers.cancel(&key), "nothing has fired");
    }
}
