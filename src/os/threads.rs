//! A reaper's requests for its thread. Where the system does not support one, the engine works
//! without it.

use std::io;
#[cfg(target_os = "linux")]
use std::num::NonZeroU64;

/// Asks for wake-ups at the time they are due: Linux otherwise groups timers of a thread within
/// 50 us of each other.
pub fn ask_for_exact_wakeups() {
    // An older system may refuse.
    #[cfg(target_os = "linux")]
    let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
}

/// Pins the calling thread to one of the CPUs that it may run on: number `index`, modulo their
/// count.
///
/// # Errors
/// The system refuses, or does not pin threads.
pub fn pin_to(index: usize) -> io::Result<()> {
    let cpus = core_affinity::get_core_ids().unwrap_or_default();
    if cpus.is_empty() {
        return Err(io::Error::from(io::ErrorKind::Unsupported));
    }
    if core_affinity::set_for_current(cpus[index % cpus.len()]) {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

#[cfg(all(test, target_os = "linux", not(any(loom, shuttle))))]
mod tests {
    use super::*;
    use crate::sync::thread;

    #[test]
    fn a_thread_is_kept_on_the_cpu_that_its_index_counts_round_to() {
        let allowed = || core_affinity::get_core_ids().unwrap();
        let cpus = allowed();
        for index in 0..=cpus.len() {
            // Each on a thread of its own: a thread that is pinned may run nowhere else.
            let pinned = move || pin_to(index).map(|()| allowed());
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
}
