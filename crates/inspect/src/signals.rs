//! Signals are for the program's threads: the inspector's thread takes none.

/// Calls `make`, which makes a thread that takes no signals. Those that tell of a fault of the
/// thread itself still come, and so does SIGPROF, for profilers.
#[cfg(unix)]
pub(crate) fn blocked<R>(make: impl FnOnce() -> R) -> R {
    use nix::sys::signal::{SigSet, SigmaskHow, Signal};
    const KEPT: [Signal; 7] = [
        Signal::SIGBUS,
        Signal::SIGFPE,
        Signal::SIGILL,
        Signal::SIGPROF,
        Signal::SIGSEGV,
        Signal::SIGSYS,
        Signal::SIGTRAP,
    ];
    let mut all = SigSet::all();
    KEPT.into_iter().for_each(|kept| all.remove(kept));
    // A thread has the mask of the one that makes it.
    let before = all.thread_swap_mask(SigmaskHow::SIG_SETMASK);
    let made = make();
    // Neither call fails for a mask that exists.
    let _ = before.and_then(|before| before.thread_set_mask());
    made
}

/// There are no signals on this system.
#[cfg(not(unix))]
pub(crate) fn blocked<R>(make: impl FnOnce() -> R) -> R {
    make()
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;
    use nix::sys::signal::Signal;
    use std::{fs, thread};

    #[test]
    fn the_thread_takes_no_signals_and_its_maker_does_again() {
        let blocked_now = || {
            let status = fs::read_to_string("/proc/thread-self/status").unwrap();
            let line = status.lines().find_map(|line| line.strip_prefix("SigBlk:\t")).unwrap();
            u64::from_str_radix(line, 16).unwrap()
        };
        let has = |set: u64, signal: Signal| set >> (signal as i32 - 1) & 1 == 1;
        let before = blocked_now();
        let made = blocked(|| thread::spawn(blocked_now)).join().unwrap();
        assert_eq!(blocked_now(), before);
        let taken = [Signal::SIGTERM, Signal::SIGINT, Signal::SIGCHLD, Signal::SIGUSR1];
        assert!(taken.into_iter().all(|signal| has(made, signal) && !has(before, signal)));
        assert!(!has(made, Signal::SIGSEGV) && !has(made, Signal::SIGPROF), "{made:x}");
    }
}
