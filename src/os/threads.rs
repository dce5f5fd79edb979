//! What a reaper asks for its thread. Everything here is a request: where the system
//! does not know it, the engine works without.

use std::io;

/// Asks for wake-ups at the time they are due: Linux otherwise groups timers of a thread within
/// 50 us of each other.
#[cfg(target_os = "linux")]
pub fn ask_for_exact_wakeups() {
    // SAFETY: PR_SET_TIMERSLACK takes a number and touches only the calling thread's own slack.
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1_usize) };
}

#[cfg(not(target_os = "linux"))]
pub fn ask_for_exact_wakeups() {}

/// Keeps the calling thread on one of the CPUs that it may run on: the one that is `index`
/// places from the first, counted round.
///
/// # Errors
/// What the system says; `Unsupported` where it cannot be asked.
#[cfg(target_os = "linux")]
pub fn pin_to(index: usize) -> io::Result<()> {
    let cpus = allowed_cpus()?;
    // SAFETY: a CPU set is an array of integers, for which zero is a value.
    let mut chosen: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    // SAFETY: the index came out of a set of the same size.
    unsafe { libc::CPU_SET(cpus[index % cpus.len()], &mut chosen) };
    // SAFETY: the set is as large as said and only read; 0 is the calling thread.
    match unsafe { libc::sched_setaffinity(0, size_of_val(&chosen), &raw const chosen) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// The CPUs that the calling thread may run on, from the first.
#[cfg(target_os = "linux")]
fn allowed_cpus() -> io::Result<Vec<usize>> {
    // SAFETY: as for `chosen` above.
    let mut allowed: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    // SAFETY: the set is as large as said and lives through the call; 0 is the calling thread.
    if unsafe { libc::sched_getaffinity(0, size_of_val(&allowed), &raw mut allowed) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the index is below the set's size.
    let is_allowed = |&cpu: &usize| unsafe { libc::CPU_ISSET(cpu, &allowed) };
    Ok((0..libc::CPU_SETSIZE as usize).filter(is_allowed).collect())
}

/// Pinning is not supported here.
///
/// # Errors
/// Always.
#[cfg(not(target_os = "linux"))]
pub fn pin_to(_index: usize) -> io::Result<()> {
    Err(io::Error::from(io::ErrorKind::Unsupported))
}

#[cfg(all(test, target_os = "linux", not(any(loom, shuttle))))]
mod tests {
    use super::*;
    use crate::sync::thread;

    #[test]
    fn a_thread_is_kept_on_the_cpu_that_its_index_counts_round_to() {
        let cpus = allowed_cpus().unwrap();
        for index in 0..=cpus.len() {
            // Each on a thread of its own: a thread that is pinned may run nowhere else.
            let pinned = move || pin_to(index).and_then(|()| allowed_cpus());
            let now = thread::spawn(pinned).join().unwrap().unwrap();
            assert_eq!(now, [cpus[index % cpus.len()]], "index {index}");
        }
    }

    #[test]
    fn wakeups_are_exact_once_they_were_asked_for() {
        // SAFETY: PR_GET_TIMERSLACK takes nothing and answers a number.
        let slack_ns = || unsafe { libc::prctl(libc::PR_GET_TIMERSLACK) };
        let asked = move || {
            ask_for_exact_wakeups();
            slack_ns()
        };
        assert_eq!(thread::spawn(asked).join().unwrap(), 1);
    }
}
