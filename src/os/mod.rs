//! The operating system, where the standard library does not cover it.
//!
//! Here are a reaper's requests for its thread (exact wake-ups, a processor), the clock that counts
//! suspended time, and reports of forks. An `alarm` sleeps by that clock. Where the system does not
//! support a request, the engine works without it.
//!
//! *Forks*: a child process has its parent's memory and, of the parent's threads, the one that
//! forked. The C library reports the forks that it makes. Nothing reports a fork that bypasses it
//! (a bare `clone`), and after `vfork` and `posix_spawn` none of our code runs.
//!
//! *Invariant*: no other folder of the crate names `libc`, `rustix` or `core_affinity`
//! (`tests/tidy.rs` looks).
//!
//! *Tested by*: the unit tests below, `tests/fork.rs`, `tests/boottime.rs`.

mod alarm;
#[cfg(all(unix, feature = "inspect"))]
mod sockets;

use std::io;
#[cfg(target_os = "linux")]
use std::num::NonZeroU64;
use std::time::Duration;

use core_affinity::CoreId;
#[cfg(target_os = "linux")]
use rustix::thread::{MembarrierCommand, membarrier, membarrier_query};
#[cfg(target_os = "linux")]
use rustix::time::{ClockId, DynamicClockId, clock_gettime, clock_gettime_dynamic};

pub use alarm::Alarm;
#[cfg(all(unix, feature = "inspect"))]
pub use sockets::{Event, wait_for_sockets};

/// Asks for wake-ups at the time they are due: Linux otherwise groups timers of a thread within
/// 50 us of each other.
pub fn ask_for_exact_wakeups() {
    // An older system may refuse.
    #[cfg(target_os = "linux")]
    let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
}

/// The CPUs that a thread may run on.
#[derive(Clone, Debug)]
pub struct Cpus(Vec<CoreId>);

impl Cpus {
    /// Those that the calling thread may run on.
    pub fn allowed() -> Cpus {
        Cpus(core_affinity::get_core_ids().unwrap_or_default())
    }

    /// Pins the calling thread to one of them: number `index`, modulo their count.
    ///
    /// # Errors
    /// The system refuses, or does not pin threads.
    pub fn pin_to(&self, index: usize) -> io::Result<()> {
        let Cpus(cpus) = self;
        if cpus.is_empty() {
            return Err(io::Error::from(io::ErrorKind::Unsupported));
        }
        if core_affinity::set_for_current(cpus[index % cpus.len()]) {
            Ok(())
        } else {
            Err(io::Error::last_os_error())
        }
    }
}

/// Whether the system can fence on all processors that run a thread of this process.
#[cfg(target_os = "linux")]
pub fn can_fence_all() -> bool {
    let commands =
        [MembarrierCommand::PrivateExpedited, MembarrierCommand::RegisterPrivateExpedited];
    let can = membarrier_query();
    commands.into_iter().all(|command| can.contains_command(command))
}

/// This system cannot.
#[cfg(not(target_os = "linux"))]
pub fn can_fence_all() -> bool {
    false
}

/// Fences on all processors that run a thread of this process. Returns `false` if the system
/// refuses.
#[cfg(target_os = "linux")]
pub fn fence_all() -> bool {
    let fence = || membarrier(MembarrierCommand::PrivateExpedited).is_ok();
    // A process says once that it wants to.
    fence() || membarrier(MembarrierCommand::RegisterPrivateExpedited).is_ok() && fence()
}

/// This system cannot.
#[cfg(not(target_os = "linux"))]
pub fn fence_all() -> bool {
    false
}

/// The time of the system's monotonic clock.
#[cfg(target_os = "linux")]
pub fn monotonic() -> Option<Duration> {
    clock_gettime(ClockId::Monotonic).try_into().ok()
}

/// Not supported here.
#[cfg(not(target_os = "linux"))]
pub fn monotonic() -> Option<Duration> {
    None
}

/// The time since the machine was started, including the time during which it was suspended.
///
/// # Errors
/// The system refuses; `Unsupported` on systems other than Linux.
#[cfg(target_os = "linux")]
#[inline]
pub fn boottime() -> io::Result<Duration> {
    let time = clock_gettime_dynamic(DynamicClockId::Boottime)?;
    Ok(time.try_into().expect("the clock begins at zero"))
}

/// Not supported here.
///
/// # Errors
/// Always.
#[cfg(not(target_os = "linux"))]
pub fn boottime() -> io::Result<Duration> {
    Err(io::Error::from(io::ErrorKind::Unsupported))
}

/// Makes each child of this process call `handler` before `fork` returns there. The handler may do
/// only what a signal handler may. Returns `false` if the system has no memory for that.
#[cfg(unix)]
pub fn tell_of_forks(handler: extern "C" fn()) -> bool {
    // SAFETY: the handler is a function of this program and takes nothing.
    unsafe { libc::pthread_atfork(None, None, Some(handler)) == 0 }
}

/// There are no forks on this system.
#[cfg(not(unix))]
pub fn tell_of_forks(_handler: extern "C" fn()) -> bool {
    true
}

#[cfg(all(test, target_os = "linux", not(any(loom, shuttle))))]
mod tests {
    use super::*;
    use crate::sync::thread;
    use std::fs;

    #[test]
    fn a_thread_is_kept_on_the_cpu_that_its_index_counts_round_to() {
        let allowed = || core_affinity::get_core_ids().unwrap();
        let cpus = allowed();
        for index in 0..=cpus.len() {
            // Each on a thread of its own: a thread that is pinned may run nowhere else.
            let all = Cpus::allowed();
            let pinned = move || all.pin_to(index).map(|()| allowed());
            let now = thread::spawn(pinned).join().unwrap().unwrap();
            assert_eq!(now, [cpus[index % cpus.len()]], "index {index}");
        }
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
    fn it_fences_on_all_processors_if_it_says_so() {
        assert_eq!(fence_all(), can_fence_all());
        assert_eq!(fence_all(), can_fence_all(), "also the second time");
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
