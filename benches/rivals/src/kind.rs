//! Which workloads there are, and what there is to know about each.

use serde::{Deserialize, Serialize};

use crate::error::BenchError;

/// What to do with a contender.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Workload {
    CancelHeavy,
    Handoff,
    Reset,
    ResetEarlier,
    Service,
    Paced,
    FireAll,
    Clustered,
    Scale,
    Steady,
    Idle,
    Wakeups,
    Single,
    Precise,
    Stall,
    Stuck,
    Burst,
    Wheel,
    PurgatoryShort,
    PurgatoryLong,
}

/// What sort of contender a workload is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Timers for many threads.
    Engine,
    /// Wheels for one thread, without a clock.
    Wheel,
    /// Where operations wait.
    Purgatory,
}

/// How many threads a workload has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Threads {
    /// As many as asked for.
    Any,
    /// Always so many.
    Fixed(usize),
}

/// The variants of `clustered`.
pub(crate) const ONE_TIMEOUT: u64 = 0;
pub(crate) const ONE_DEADLINE: u64 = 1;

// === impl Kind ===

impl Kind {
    /// All there are, in the order in which they are listed.
    pub(crate) const ALL: [Kind; 3] = [Kind::Engine, Kind::Wheel, Kind::Purgatory];

    /// What stands above the list of such contenders.
    pub(crate) fn heading(self) -> &'static str {
        match self {
            Kind::Engine => "contenders, for every workload but those below",
            Kind::Wheel => "contenders that are wheels for one thread, for `wheel` only",
            Kind::Purgatory => "contenders that are purgatories, for `purgatory-..` only",
        }
    }

    /// Why such a contender cannot do a workload for others.
    pub(crate) fn limit(self) -> &'static str {
        match self {
            Kind::Engine => "a timer, neither a wheel on its own nor a purgatory",
            Kind::Wheel => "a wheel for one thread, without a clock",
            Kind::Purgatory => "a purgatory, whose timers are its own",
        }
    }
}

// === impl Workload ===

impl Workload {
    /// All there are, in the order in which they are listed.
    pub(crate) const ALL: [Workload; 20] = [
        Workload::CancelHeavy,
        Workload::Handoff,
        Workload::Reset,
        Workload::ResetEarlier,
        Workload::Service,
        Workload::Paced,
        Workload::FireAll,
        Workload::Clustered,
        Workload::Scale,
        Workload::Steady,
        Workload::Idle,
        Workload::Wakeups,
        Workload::Single,
        Workload::Precise,
        Workload::Stall,
        Workload::Stuck,
        Workload::Burst,
        Workload::Wheel,
        Workload::PurgatoryShort,
        Workload::PurgatoryLong,
    ];

    /// What it is called.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Workload::CancelHeavy => "cancel-heavy",
            Workload::Handoff => "handoff",
            Workload::Reset => "reset",
            Workload::ResetEarlier => "reset-earlier",
            Workload::Service => "service",
            Workload::Paced => "paced",
            Workload::FireAll => "fire-all",
            Workload::Clustered => "clustered",
            Workload::Scale => "scale",
            Workload::Steady => "steady",
            Workload::Idle => "idle",
            Workload::Wakeups => "wakeups",
            Workload::Single => "single",
            Workload::Precise => "precise",
            Workload::Stall => "stall",
            Workload::Stuck => "stuck",
            Workload::Burst => "burst",
            Workload::Wheel => "wheel",
            Workload::PurgatoryShort => "purgatory-short",
            Workload::PurgatoryLong => "purgatory-long",
        }
    }

    /// The one of that name.
    pub(crate) fn named(name: &str) -> Result<Workload, BenchError> {
        let known = Workload::ALL;
        known.into_iter().find(|workload| workload.name() == name).ok_or_else(|| {
            let known = known.iter().map(|workload| workload.name()).collect();
            BenchError::UnknownWorkload { name: name.to_owned(), known }
        })
    }

    /// What happens, in one line.
    pub(crate) fn about(self) -> &'static str {
        match self {
            Workload::CancelHeavy => "cancel the oldest of 10,000 timers, schedule another",
            Workload::Handoff => "one thread schedules, another cancels, batches of 64 travel",
            Workload::Reset => "move one of 100,000 timers, picked at random",
            Workload::ResetEarlier => "as reset, every other time to an earlier deadline",
            Workload::Service => {
                "a server's timeouts, nearly all cancelled; some are moved, some fire"
            }
            Workload::Paced => "cancel-heavy at 1,000,000 pairs per second, in an open loop",
            Workload::FireAll => "1,000,000 timers within 2 s, all of which fire",
            Workload::Clustered => "500,000 timers that fire at once; how late is the last?",
            Workload::Scale => "cancel-heavy with up to 10,000,000 timers pending",
            Workload::Steady => "500,000 timers pending, 500,000 per second fire",
            Workload::Idle => "1,000,000 timers pending for an hour, nothing happens for 5 s",
            Workload::Wakeups => "1,000,000 timeouts per second, none of which comes to pass",
            Workload::Single => "one timer at a time, nothing else",
            Workload::Precise => "1,000 timers per second, nothing else; how late are they?",
            Workload::Stall => "4,000,000 timers in one bucket come down; how long is a call?",
            Workload::Stuck => {
                "1,000 timers per second; on each thread, one task a second takes 500 ms"
            }
            Workload::Burst => {
                "1,000,000 timers are due at once; how late is what is due meanwhile?"
            }
            Workload::Wheel => "a wheel for one thread, in simulated time",
            Workload::PurgatoryShort => {
                "operations wait for 20 ms in the median, one in 13 too long"
            }
            Workload::PurgatoryLong => "operations wait for 200 ms in the median, half too long",
        }
    }

    /// What it is for.
    pub(crate) fn kind(self) -> Kind {
        match self {
            Workload::Wheel => Kind::Wheel,
            Workload::PurgatoryShort | Workload::PurgatoryLong => Kind::Purgatory,
            _ => Kind::Engine,
        }
    }

    /// How many threads it has.
    pub(crate) fn threads(self) -> Threads {
        match self {
            Workload::CancelHeavy
            | Workload::Clustered
            | Workload::FireAll
            | Workload::Paced
            | Workload::Reset
            | Workload::ResetEarlier
            | Workload::Service
            | Workload::Stuck => Threads::Any,
            Workload::Handoff => Threads::Fixed(2),
            _ => Threads::Fixed(1),
        }
    }

    /// What is varied within it.
    pub(crate) fn variants(self) -> &'static [u64] {
        match self {
            Workload::Scale => &[1_000, 100_000, 1_000_000, 10_000_000],
            Workload::Wakeups => &[0, 5_000],
            Workload::Service => &[0, 1_000_000],
            Workload::Paced => &[1_000_000],
            Workload::Clustered => &[ONE_TIMEOUT, ONE_DEADLINE],
            Workload::PurgatoryShort | Workload::PurgatoryLong => {
                &[10_000, 50_000, 100_000, 500_000, 1_000_000]
            }
            _ => &[0],
        }
    }

    /// How a variant is shown.
    pub(crate) fn show_variant(self, variant: u64) -> String {
        match self {
            Workload::Scale => format!("{variant} pending"),
            Workload::Wakeups => format!("{variant} us of jitter"),
            Workload::Service if variant == 0 => "flat out".to_owned(),
            Workload::Service
            | Workload::Paced
            | Workload::PurgatoryShort
            | Workload::PurgatoryLong => format!("{variant} per s"),
            Workload::Clustered if variant == ONE_TIMEOUT => "one timeout".to_owned(),
            Workload::Clustered => "one deadline".to_owned(),
            _ => String::new(),
        }
    }

    /// The numbers that are shown beside the costs: a heading, and where in the record it is.
    pub(crate) fn headlines(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Workload::CancelHeavy | Workload::Handoff => {
                &[("drained ns", "drained_ns_per_op"), ("growth MB", "rss_growth_mb")]
            }
            Workload::Reset | Workload::ResetEarlier => &[("drained ns", "drained_ns_per_op")],
            Workload::Service => &[
                ("timers' cpu ns", "timers_cpu_ns_per_op"),
                ("per s", "per_s"),
                ("p50 us", "late_us.p50"),
                ("p99 us", "late_us.p99"),
                ("early", "early"),
                ("resident MB", "resident_mb"),
            ],
            Workload::Paced => &[
                ("timers' cpu ns", "timers_cpu_ns_per_op"),
                ("load's cpu ns", "load_cpu_ns_per_op"),
                ("per s", "per_s"),
                ("late rounds", "late_rounds"),
            ],
            Workload::FireAll
            | Workload::Clustered
            | Workload::Single
            | Workload::Stuck
            | Workload::Burst
            | Workload::Precise => self.headlines_of_lateness(),
            Workload::Scale => &[("bytes/timer", "bytes_per_timer"), ("fill ns", "fill_ns")],
            Workload::Steady => &[("others' cpu ns", "others_cpu_ns_per_op"), ("per s", "per_s")],
            Workload::Idle => &[
                ("idle cpu ms", "cpu_ms"),
                ("switches", "switches"),
                ("without: cpu ms", "baseline_cpu_ms"),
                ("switches", "baseline_switches"),
            ],
            Workload::Wakeups => &[
                ("wake-ups/s", "wake_ups_per_s"),
                ("others' cpu ms/s", "others_cpu_ms_per_s"),
                ("per s", "per_s"),
            ],
            Workload::Stall => &[
                ("call p50 us", "call_p50_us"),
                ("p99.9 us", "call_p999_us"),
                ("max us", "call_max_us"),
                ("last late ms", "last_late_ms"),
            ],
            Workload::Wheel => &[
                ("insert ns", "insert_ns"),
                ("by tick ns", "expire_by_tick_ns"),
                ("by next ns", "expire_by_next_ns"),
                ("pair ns", "pair_ns"),
                ("again ns", "again_ns"),
                ("reset ns", "reset_ns"),
                ("remove ns", "remove_ns"),
            ],
            Workload::PurgatoryShort | Workload::PurgatoryLong => &[
                ("per s", "per_s"),
                ("expired", "expired"),
                ("p50 us", "late_us.p50"),
                ("p99 us", "late_us.p99"),
                ("max us", "late_us.max"),
                ("peak MB", "peak_mb"),
                ("cores", "cores"),
            ],
        }
    }

    /// The same where what counts is how late timers are.
    fn headlines_of_lateness(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Workload::Burst => &[
                ("p50 us", "late_us.p50"),
                ("p99 us", "late_us.p99"),
                ("max us", "late_us.max"),
                ("all fired ms", "all_fired_ms"),
                ("probes", "probes"),
            ],
            Workload::Precise => &[
                ("cores", "cores"),
                ("p50 us", "late_us.p50"),
                ("p99 us", "late_us.p99"),
                ("p99.9 us", "late_us.p999"),
                ("early", "early"),
            ],
            _ => &[
                ("p50 us", "late_us.p50"),
                ("p99 us", "late_us.p99"),
                ("p99.9 us", "late_us.p999"),
                ("max us", "late_us.max"),
                ("early", "early"),
            ],
        }
    }
}
