//! What each contender has to do, and what it tells.

use std::error::Error;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

pub type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

pub const HOUR: Duration = Duration::from_secs(3600);

/// How long after it is scheduled a timer of the cycle is due: beanstalkd knows whole seconds.
pub const DELAY: Duration = Duration::from_secs(5);

/// How many timers there are.
pub struct Size {
    pub rate: u64,
    pub ones: u32,
    /// Of the cycle.
    pub cycle: u64,
}

/// The figures of one contender in one round.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Told {
    pub rate: f64,
    pub one_ms: f64,
    pub late_p50_ms: f64,
    pub late_p99_ms: f64,
    /// How many were handled before they were due, and the earliest of them by how much.
    pub early: u64,
    pub earliest_ms: f64,
    pub cpu_us: f64,
}

// === impl Size ===

impl Size {
    pub fn named(name: &str) -> Size {
        match name {
            "quick" => Size { rate: 1000, ones: 5, cycle: 200 },
            _ => Size { rate: 20_000, ones: 100, cycle: 1000 },
        }
    }
}

/// 32 bytes.
pub fn payload(number: u64) -> String {
    format!("a reminder of 32 bytes, {number:8}")
}

/// When a timer of the cycle is due, as 32 bytes.
pub fn payload_due(due: SystemTime) -> String {
    format!("{:32}", due.duration_since(UNIX_EPOCH).unwrap_or_default().as_micros())
}

/// How long it is until this timer of the cycle is scheduled: a hundred per second, because the
/// store that polls falls behind with more.
pub fn left(begun: Instant, number: u64) -> Duration {
    Duration::from_millis(10 * number).saturating_sub(begun.elapsed())
}

/// Waits that long.
pub fn pace(begun: Instant, number: u64) {
    std::thread::sleep(left(begun, number));
}

/// The time in the middle.
pub fn median_ms(mut times: Vec<Duration>) -> f64 {
    times.sort_unstable();
    times[times.len() / 2].as_secs_f64() * 1000.0
}

/// How late the timers of the cycle were.
pub struct Lateness {
    /// One that was early counts as zero here.
    micros: Histogram<u64>,
    early: u64,
    earliest_us: u128,
}

impl Lateness {
    pub fn new() -> Lateness {
        let micros = Histogram::new(3).expect("three digits are possible");
        Lateness { micros, early: 0, earliest_us: 0 }
    }

    /// A timer with this payload is handled now.
    pub fn note(&mut self, payload: &str) {
        let due_us: u128 = payload.trim().parse().expect("it is a time");
        let now_us = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_micros();
        self.early += u64::from(now_us < due_us);
        self.earliest_us = self.earliest_us.max(due_us.saturating_sub(now_us));
        let late_us = u64::try_from(now_us.saturating_sub(due_us)).unwrap_or(u64::MAX);
        // It grows as needed; `saturating_record` would not.
        self.micros.record(late_us).expect("it can be as large as it has to");
    }

    pub fn count(&self) -> u64 {
        self.micros.len()
    }

    pub fn tell(&self, told: &mut Told) {
        let at = |share| self.micros.value_at_quantile(share) as f64 / 1000.0;
        (told.late_p50_ms, told.late_p99_ms, told.early) = (at(0.5), at(0.99), self.early);
        told.earliest_ms = self.earliest_us as f64 / 1000.0;
    }
}

/// The processor time of this process and of its children that have ended.
#[cfg(unix)]
pub fn cpu() -> Duration {
    let of = |who| {
        // SAFETY: all zeros are a value of this type, which has nothing but numbers.
        let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
        // SAFETY: the pointer is one to a value of ours, which the call writes.
        unsafe { libc::getrusage(who, &raw mut usage) };
        let time = |time: libc::timeval| {
            Duration::from_secs(time.tv_sec as u64) + Duration::from_micros(time.tv_usec as u64)
        };
        time(usage.ru_utime) + time(usage.ru_stime)
    };
    of(libc::RUSAGE_SELF) + of(libc::RUSAGE_CHILDREN)
}

#[cfg(not(unix))]
pub fn cpu() -> Duration {
    Duration::ZERO
}
