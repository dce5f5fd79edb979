//! Every contender by name.

use crate::contender::{self, Contender, floor, shared_inbox, tokio_sleep};
use crate::error::BenchError;
use crate::kind::{Kind, Workload};
use crate::plan::Plan;
use crate::purgatories::{self, Purgatory};
use crate::record::Record;
use crate::wheels::{self, Wheel};
use crate::workload;

/// A contender as the command line knows it.
pub(crate) struct Entry {
    /// What it is called.
    pub(crate) name: &'static str,
    /// What it is.
    pub(crate) about: &'static str,
    /// What sort of thing it is.
    pub(crate) kind: Kind,
    /// Whether its tick can be set.
    pub(crate) has_tick: bool,
    /// Measures it.
    pub(crate) run: fn(&Plan) -> Result<Record, BenchError>,
    /// Why this build cannot measure it, if it cannot.
    pub(crate) missing: Option<&'static str>,
    lacks: fn(Workload) -> Option<&'static str>,
}

/// All there are, in the order in which they are listed and run.
pub(crate) const ALL: &[Entry] = &[
    Entry::of::<contender::tickless_closures::Closures>(),
    Entry::of::<contender::tickless_typed::Typed>(),
    Entry::of::<contender::tickless_waiting::Precise>(),
    Entry::of::<contender::tickless_waiting::Spinning>(),
    Entry::of::<tokio_sleep::Tokio<tokio_sleep::Tasks>>(),
    Entry::of::<tokio_sleep::Tokio<tokio_sleep::Threads>>(),
    Entry::of::<tokio_sleep::Tokio<tokio_sleep::AltTasks>>(),
    Entry::of::<tokio_sleep::Tokio<tokio_sleep::AltThreads>>(),
    Entry::of::<contender::delay_queue::MutexDelayQueue>(),
    Entry::of::<contender::hhwt::Hhwt>(),
    Entry::of::<contender::pingora::Pingora>(),
    Entry::of::<contender::async_io_timer::AsyncIo>(),
    Entry::of::<contender::mutex_btreemap::MutexBTreeMap>(),
    Entry::of::<contender::mutex_heap::MutexHeap>(),
    Entry::of::<contender::heap_timerfd::HeapTimerfd>(),
    Entry::of::<shared_inbox::SharedInbox<shared_inbox::Seg>>(),
    Entry::of::<shared_inbox::SharedInbox<shared_inbox::Stack>>(),
    Entry::of::<floor::Floor<floor::Std>>(),
    #[cfg(target_arch = "x86_64")]
    Entry::of::<floor::Floor<floor::Tsc>>(),
    Entry::of::<contender::nothing::Nothing>(),
    Entry::of::<contender::calendar::Calendar>(),
    Entry::of_wheel::<wheels::tickless_wheel::TicklessWheel>(),
    Entry::of_wheel::<wheels::tickless_delay_queue::Queue>(),
    Entry::of_wheel::<wheels::hhwt_quad::HhwtQuad>(),
    Entry::of_wheel::<wheels::delay_queue::Queue>(),
    Entry::of_wheel::<wheels::nexus::Nexus>(),
    Entry::of_wheel::<wheels::btreemap::Map>(),
    Entry::of_purgatory::<purgatories::tickless_purgatory::Tickless>(),
    Entry::of_purgatory::<purgatories::mutex_purge::MutexPurge>(),
    Entry::of_purgatory::<purgatories::floor::Floor>(),
];

// === impl Entry ===

impl Entry {
    const fn of<C: Contender>() -> Entry {
        Entry {
            name: C::NAME,
            about: C::ABOUT,
            kind: Kind::Engine,
            has_tick: C::HAS_TICK,
            run: workload::run::<C>,
            missing: C::MISSING,
            lacks: C::lacks,
        }
    }

    const fn of_wheel<W: Wheel>() -> Entry {
        Entry {
            name: W::NAME,
            about: W::ABOUT,
            kind: Kind::Wheel,
            has_tick: false,
            run: workload::run_wheel::<W>,
            missing: None,
            lacks: |_| None,
        }
    }

    const fn of_purgatory<P: Purgatory>() -> Entry {
        Entry {
            name: P::NAME,
            about: P::ABOUT,
            kind: Kind::Purgatory,
            has_tick: false,
            run: workload::run_purgatory::<P>,
            missing: None,
            lacks: |_| None,
        }
    }

    /// The contenders of that name: an engine, a wheel for one thread, or one of each.
    pub(crate) fn named(name: &str) -> Result<Vec<&'static Entry>, BenchError> {
        let named: Vec<_> = ALL.iter().filter(|entry| entry.name == name).collect();
        if named.is_empty() {
            let mut known: Vec<_> = ALL.iter().map(|entry| entry.name).collect();
            known.dedup();
            return Err(BenchError::UnknownContender { name: name.to_owned(), known });
        }
        Ok(named)
    }

    /// The contender of that name that can do a workload.
    pub(crate) fn able(name: &str, workload: Workload) -> Result<&'static Entry, BenchError> {
        let mut named = Entry::named(name)?.into_iter();
        let able = named.find(|entry| entry.lacks(workload, DEFAULT_TICK_US).is_none());
        able.ok_or(BenchError::NothingToDo { workload: workload.name(), why: None })
    }

    /// Why it cannot do a workload at a tick, if it cannot.
    pub(crate) fn lacks(&self, workload: Workload, tick_us: u64) -> Option<&'static str> {
        if self.kind != workload.kind() {
            return Some(self.kind.limit());
        }
        let no_tick = (tick_us != DEFAULT_TICK_US && !self.has_tick).then_some("no tick to set");
        self.missing.or((self.lacks)(workload)).or(no_tick)
    }
}

/// The tick unless said otherwise.
pub(crate) const DEFAULT_TICK_US: u64 = 1_000;
