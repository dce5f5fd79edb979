//! What only Linux has: exact wake-ups, pinning, fences on all processors, the clocks of alarms.
//!
//! *Tested by*: the unit tests below, `tests/alone/boottime.rs`.

use std::io;
use std::num::NonZeroU64;
use std::time::Duration;

use rustix::thread::{CpuSet, MembarrierCommand, membarrier};
use rustix::thread::{sched_getaffinity, sched_setaffinity};
use rustix::time::{ClockId, DynamicClockId, clock_gettime, clock_gettime_dynamic};

/// The CPUs that a thread may run on.
#[derive(Clone, Debug)]
pub struct Cpus(Vec<usize>);

impl Cpus {
    /// Those that the calling thread may run on; none if they are not known.
    pub fn allowed() -> Cpus {
        let Ok(set) = sched_getaffinity(None) else { return Cpus(Vec::new()) };
        Cpus((0..CpuSet::MAX_CPU).filter(|&cpu| set.is_set(cpu)).collect())
    }

    /// Pins the calling thread to one of them: number `index`, modulo their count.
    ///
    /// # Errors
    /// The system refuses; `Unsupported` where no CPU is known.
    pub fn pin_to(&self, index: usize) -> io::Result<()> {
        let Cpus(cpus) = self;
        if cpus.is_empty() {
            return Err(io::Error::from(io::ErrorKind::Unsupported));
        }
        let mut set = CpuSet::new();
        set.set(cpus[index % cpus.len()]);
        Ok(sched_setaffinity(None, &set)?)
    }
}

/// Asks for wake-ups at the time they are due: Linux otherwise groups timers of a thread within
/// 50 us of each other.
pub fn ask_for_exact_wakeups() {
    // An older system may refuse.
    let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
}

/// Fences on all processors that run a thread of this process. Returns `false` if the system
/// refuses.
pub fn fence_all() -> bool {
    let fence = || membarrier(MembarrierCommand::PrivateExpedited).is_ok();
    // A process says once that it wants to.
    fence() || membarrier(MembarrierCommand::RegisterPrivateExpedited).is_ok() && fence()
}

/// The time of the system's monotonic clock.
pub fn monotonic() -> Option<Duration> {
    clock_gettime(ClockId::Monotonic).try_into().ok()
}

/// The time since the machine was started, including the time during which it was suspended.
///
/// # Errors
/// The system refuses.
#[inline]
pub fn boottime() -> io::Result<Duration> {
    let time = clock_gettime_dynamic(DynamicClockId::Boottime)?;
    Ok(time.try_into().expect("the clock begins at zero"))
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;
    use crate::sync::thread;
    use std::fs;

    #[test]
    fn a_thread_is_kept_on_the_cpu_that_its_index_counts_round_to() {
        let Cpus(cpus) = Cpus::allowed();
        assert!(!cpus.is_empty());
        for index in 0..=cpus.len() {
            // Each on a thread of its own: a thread that is pinned may run nowhere else.
            let all = Cpus::allowed();
            let pinned = move || all.pin_to(index).map(|()| Cpus::allowed().0);
            let now = thread::spawn(pinned).join().unwrap();
            assert_eq!(now.unwrap(), [cpus[index % cpus.len()]], "index {index}");
        }
    }

    #[test]
    fn where_no_cpu_is_known_no_thread_is_pinned() {
        let none = Cpus(Vec::new());
        assert_eq!(none.pin_to(3).unwrap_err().kind(), io::ErrorKind::Unsupported);
    }

    #[test]
    fn wakeups_are_exact_once_they_were_asked_for() {
        let slack_ns = || rustix::thread::current_timer_slack().unwrap();
        let asked = move || {
            ask_for_exact_wakeups();
            slack_ns()
        };
        assert_eq!(thread::spawn(asked).join().unwrap(), 1);
    }

    #[test]
    fn it_fences_on_all_processors_if_it_says_that_it_can() {
        let can = rustix::thread::membarrier_query();
        let commands =
            [MembarrierCommand::PrivateExpedited, MembarrierCommand::RegisterPrivateExpedited];
        let can = commands.into_iter().all(|command| can.contains_command(command));
        assert_eq!(fence_all(), can);
        assert_eq!(fence_all(), can, "also the second time");
    }

    #[test]
    fn it_is_the_systems_uptime_and_does_not_go_back() {
        let up = || {
            let text = fs::read_to_string("/proc/uptime").unwrap();
            let seconds: f64 = text.split(' ').next().unwrap().parse().unwrap();
            Duration::from_secs_f64(seconds)
        };
        // The file cuts off after hundredths.
        let hundredth = Duration::from_millis(10);
        let (before, now, again, after) = (up(), boottime().unwrap(), boottime().unwrap(), up());
        assert!(before <= now && now <= again, "{before:?} {now:?} {again:?}");
        assert!(again <= after + hundredth, "{again:?} {after:?}");
    }
}
