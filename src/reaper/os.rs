//! What a reaper asks of the operating system. Everything here is a request: where the system
//! does not know it, the engine works without.

use std::io;

/// Asks for wake-ups at the time they are due: Linux otherwise groups timers of a thread within
/// 50 us of each other.
#[cfg(target_os = "linux")]
pub(super) fn ask_for_exact_wakeups() {
    // SAFETY: PR_SET_TIMERSLACK takes a number and touches only the calling thread's own slack.
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1_usize) };
}

#[cfg(not(target_os = "linux"))]
pub(super) fn ask_for_exact_wakeups() {}

/// Keeps the calling thread on one of the CPUs that it may run on: the one that is `index`
/// places from the first, counted round.
///
/// # Errors
/// What the system says; `Unsupported` where it cannot be asked.
#[cfg(target_os = "linux")]
pub fn pin_to(index: usize) -> io::Result<()> {
    let size = size_of::<libc::cpu_set_t>();
    // SAFETY: a CPU set is an array of integers, for which zero is a value.
    let mut allowed: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    // SAFETY: the set is as large as said and lives through the call; 0 is the calling thread.
    if unsafe { libc::sched_getaffinity(0, size, &raw mut allowed) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the index is below the set's size.
    let is_allowed = |&cpu: &usize| unsafe { libc::CPU_ISSET(cpu, &allowed) };
    let cpus: Vec<usize> = (0..libc::CPU_SETSIZE as usize).filter(is_allowed).collect();
    // SAFETY: as for `allowed`.
    let mut chosen: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    // SAFETY: the index came out of a set of the same size.
    unsafe { libc::CPU_SET(cpus[index % cpus.len()], &mut chosen) };
    // SAFETY: as for `sched_getaffinity`; the set is only read.
    match unsafe { libc::sched_setaffinity(0, size, &raw const chosen) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Pinning is not supported here.
///
/// # Errors
/// Always.
#[cfg(not(target_os = "linux"))]
pub fn pin_to(_index: usize) -> io::Result<()> {
    Err(io::Error::from(io::ErrorKind::Unsupported))
}
