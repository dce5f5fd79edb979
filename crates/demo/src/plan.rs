//! What the load looks like: how long things take, how often they go wrong, when the run ends.

use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

/// A client gives up on a request after this long.
pub(crate) const REQUEST_TIMEOUT: Duration = Duration::from_millis(250);

/// The server closes a connection that has sent nothing for this long.
pub(crate) const IDLE_TIMEOUT: Duration = Duration::from_secs(1);

/// A client gives up on a dial that brings no greeting for this long.
pub(crate) const DIAL_TIMEOUT: Duration = Duration::from_millis(500);

/// A client whose dial failed tries again after this long: a server that cannot keep up does not
/// get more of the same at once.
pub(crate) const REDIAL_PAUSE: Duration = Duration::from_millis(500);

/// After the last timeout that can be under way, so much grace before a timer counts as lost. A
/// sound run ends with its last timer; the unsound ones of the tests wait so long.
const GRACE: Duration = Duration::from_secs(if cfg!(test) { 2 } else { 60 });

/// One request in so many gets no answer, and its timeout fires.
const UNANSWERED_ONE_IN: u64 = 200;

/// After one answer in so many the client falls silent, and the server's idle timer fires. At the
/// full rate and 2,000 connections that is four per cent of the connections every second.
const SILENT_ONE_IN: u64 = 500;

/// All clients together. A request costs the process some 13 us (measured on two cores of a virtual
/// machine), most of it in system calls: this rate leaves more than half of two cores free, so that
/// the lateness shown is the engine's and not the scheduler's.
pub(crate) const REQUESTS_PER_S: u64 = 40_000;

/// Few connections do not go faster than this, however far below the full rate that leaves them.
const THINK_MIN_MS: u64 = 20;

/// New connections at the start of a run; a burst would overflow the listener's queue.
const DIALS_PER_S: u64 = 4_000;

/// When the load ends, and when the wait for what is still under way ends.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) connections: usize,
    pub(crate) started: Instant,
    end: Instant,
    /// Set if the user asks for an earlier end.
    ended: Arc<OnceLock<Instant>>,
}

/// Chance, from a fixed seed: the same load every time, as far as the clock allows.
#[derive(Debug)]
pub(crate) struct Dice {
    state: u64,
    think_mean_us: u64,
    ramp_us: u64,
}

// === impl Plan ===

impl Plan {
    pub(crate) fn starting_now(seconds: u64, connections: usize) -> Plan {
        let started = Instant::now();
        let end = started + Duration::from_secs(seconds);
        Plan { connections, started, end, ended: Arc::default() }
    }

    /// Ends the load now, if it has not ended yet.
    pub(crate) fn end_now(&self) {
        self.ended.get_or_init(|| Instant::now().min(self.end));
    }

    /// Whether the time to issue requests is over.
    pub(crate) fn is_over(&self) -> bool {
        Instant::now() >= self.end()
    }

    /// When the load ends.
    pub(crate) fn end(&self) -> Instant {
        self.ended.get().copied().unwrap_or(self.end)
    }

    /// When the wait for what is still under way ends.
    pub(crate) fn give_up(&self) -> Instant {
        self.end() + DIAL_TIMEOUT.max(REQUEST_TIMEOUT) + IDLE_TIMEOUT + GRACE
    }
}

// === impl Dice ===

impl Dice {
    pub(crate) fn new(plan: &Plan) -> Dice {
        let connections = plan.connections as u64;
        Dice {
            state: 0x005e_ed0f_71c4_1e55,
            think_mean_us: (connections * 1_000_000 / REQUESTS_PER_S).max(THINK_MIN_MS * 1_000),
            ramp_us: connections * 1_000_000 / DIALS_PER_S,
        }
    }

    /// How long a client waits before its first dial.
    pub(crate) fn ramp(&mut self) -> Duration {
        Duration::from_micros(self.below(self.ramp_us + 1))
    }

    /// How long a client thinks before a request: half of the mean to half as much again.
    pub(crate) fn think(&mut self) -> Duration {
        Duration::from_micros(self.think_mean_us / 2 + self.below(self.think_mean_us + 1))
    }

    /// Whether the next request is to stay without an answer.
    pub(crate) fn unanswered(&mut self) -> bool {
        self.below(UNANSWERED_ONE_IN) == 0
    }

    /// Whether a client falls silent now.
    pub(crate) fn silent(&mut self) -> bool {
        self.below(SILENT_ONE_IN) == 0
    }

    /// A number below `bound`; its bias, one in 2^64 over `bound`, does not matter here.
    fn below(&mut self, bound: u64) -> u64 {
        // SplitMix64 (Steele, Lea and Flood, 2014).
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % bound
    }
}
