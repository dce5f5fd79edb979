//! The operating system, where the standard library does not cover it.
//!
//! Here are a reaper's requests for its thread (exact wake-ups, a processor), the clock that counts
//! suspended time, and reports of forks. An `alarm` sleeps by that clock, and a `futex` is a word
//! on which a thread sleeps. `asymmetric` has fences for two sides of which one is rare. Where the
//! system does not support a request, the engine works without it.
//!
//! What only Linux has is in `linux`, and what other systems do about it in `elsewhere`. With
//! `--cfg elsewhere`, Linux counts as one of the others: the tests then run as they would there, as
//! far as this folder is concerned (`ci/targets.sh`).
//!
//! *Forks*: a child process has its parent's memory and, of the parent's threads, the one that
//! forked. The C library reports the forks that it makes. Nothing reports a fork that bypasses it
//! (a bare `clone`), and after `vfork` and `posix_spawn` none of our code runs.
//!
//! *Invariant*: no other folder of the crate names `libc` or `rustix` (`tests/tidy` looks).
//!
//! *Tested by*: the unit tests below and in `linux`, `tests/alone/fork/main.rs`,
//! `tests/suite/engine/elsewhere.rs`.

#[cfg(all(target_os = "linux", not(elsewhere)))]
mod alarm;
pub mod asymmetric;
#[cfg(not(all(target_os = "linux", not(elsewhere))))]
mod elsewhere;
#[cfg(all(target_os = "linux", not(any(elsewhere, loom, shuttle, coherence))))]
mod futex;
#[cfg(all(target_os = "linux", not(elsewhere)))]
mod linux;
#[cfg(not(all(target_os = "linux", not(any(elsewhere, loom, shuttle, coherence)))))]
mod parking;
mod process;

#[cfg(all(target_os = "linux", not(elsewhere)))]
pub use alarm::{AlarmClock, AlarmFiles, TimerFile};
#[cfg(not(all(target_os = "linux", not(elsewhere))))]
pub use elsewhere::*;
#[cfg(all(target_os = "linux", not(any(elsewhere, loom, shuttle, coherence))))]
pub use futex::Futex;
#[cfg(all(target_os = "linux", not(elsewhere)))]
pub use linux::*;
#[cfg(not(all(target_os = "linux", not(any(elsewhere, loom, shuttle, coherence)))))]
pub use parking::Futex;
pub use process::{ForkHandler, Process};

/// Makes each child of this process call `handler` before `fork` returns there. The handler may do
/// only what a signal handler may. Returns `false` if the system has no memory for that.
#[cfg(unix)]
pub fn register_fork_handler(handler: extern "C" fn()) -> bool {
    // SAFETY: the handler is a function of this program and takes nothing.
    unsafe { libc::pthread_atfork(None, None, Some(handler)) == 0 }
}

/// There are no forks on this system.
#[cfg(not(unix))]
pub fn register_fork_handler(_handler: extern "C" fn()) -> bool {
    true
}

/// While this lives, the calling thread takes no signals, and threads that it makes take none ever:
/// signals are for the program's threads. Those that tell of a fault of the thread itself still
/// come, and so does SIGPROF, for profilers.
pub struct SignalsBlocked {
    #[cfg(unix)]
    before: libc::sigset_t,
}

debug! { impl[] SignalsBlocked[] {} }

/// Blocks signals for the calling thread, to make a thread.
#[cfg(unix)]
pub fn block_signals() -> SignalsBlocked {
    use libc::{SIGBUS, SIGFPE, SIGILL, SIGPROF, SIGSEGV, SIGSYS, SIGTRAP};
    // SAFETY: a set is numbers, and each of these calls gets valid ones. It fails for none of them.
    unsafe {
        let mut all: libc::sigset_t = std::mem::zeroed();
        libc::sigfillset(&raw mut all);
        for kept in [SIGBUS, SIGFPE, SIGILL, SIGPROF, SIGSEGV, SIGSYS, SIGTRAP] {
            libc::sigdelset(&raw mut all, kept);
        }
        let mut before: libc::sigset_t = std::mem::zeroed();
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const all, &raw mut before);
        SignalsBlocked { before }
    }
}

/// There are no signals on this system.
#[cfg(not(unix))]
pub fn block_signals() -> SignalsBlocked {
    SignalsBlocked {}
}

impl Drop for SignalsBlocked {
    fn drop(&mut self) {
        // SAFETY: it is the set that the thread had; the old one is not asked for.
        #[cfg(unix)]
        unsafe {
            libc::pthread_sigmask(libc::SIG_SETMASK, &raw const self.before, std::ptr::null_mut());
        }
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;
    use crate::sync::thread;

    #[cfg(target_os = "linux")]
    #[test]
    fn threads_that_are_made_while_signals_are_blocked_take_none_and_their_maker_does_again() {
        let blocked = || {
            let status = std::fs::read_to_string("/proc/thread-self/status").unwrap();
            let line = status.lines().find_map(|line| line.strip_prefix("SigBlk:\t")).unwrap();
            u64::from_str_radix(line, 16).unwrap()
        };
        let has = |set: u64, signal: i32| set >> (signal - 1) & 1 == 1;
        let before = blocked();
        let blocking = block_signals();
        let made = thread::spawn(blocked).join().unwrap();
        drop(blocking);
        assert_eq!(blocked(), before);
        let taken = [libc::SIGTERM, libc::SIGINT, libc::SIGCHLD, libc::SIGUSR1];
        assert!(taken.into_iter().all(|signal| has(made, signal) && !has(before, signal)));
        assert!(!has(made, libc::SIGSEGV) && !has(made, libc::SIGPROF), "{made:x}");
    }
}
